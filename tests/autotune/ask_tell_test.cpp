// The protocol of an optimiser outside: what it gets for what it sends, and that nothing malformed ends the session.
#include "autotune/search/ask_tell.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace gdn::tune {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

class AskTell : public testing::Test {
protected:
    // Answers to the lines, one each.
    std::vector<json> talk(const std::string &lines) {
        std::istringstream in(lines);
        std::ostringstream out;
        ask_tell(
            in, out, space_, [this](const std::vector<Point> &points) { return evaluate(points); }, &stop_);
        std::vector<json> answers;
        std::istringstream text(out.str());
        for (std::string line; std::getline(text, line);) answers.push_back(json::parse(line));
        return answers;
    }

    std::vector<Evaluation> evaluate(const std::vector<Point> &points) {
        std::vector<Evaluation> evaluations;
        for (const Point &p : points) {
            const Config c = space_.config(p);
            evaluated_.push_back(text_of(c));
            const double cost = 0.5 + 0.01 * c.at("cols") / c.at("rows");
            if (fail_) throw Error("the compiler is gone");
            if (c.at("rows") == 1 && skip_) {
                evaluations.push_back({{Status::kSkipped, 0}, 0, 0, "interrupted"});
            } else if (c.at("rows") == 1) {
                evaluations.push_back({{Status::kCrashed, 0}, 0, 0, "signal 11"});
            } else {
                evaluations.push_back({{Status::kOk, cost}, cost - 0.01, cost + 0.01, ""});
            }
        }
        return evaluations;
    }

    Space space_{{{"cols", Kind::kSchedule, {16, 32, 64}, 32}, {"rows", Kind::kRuntime, {1, 4, 8}, 8}},
        {{"a tile fits", {"rows", "cols"}, {{1, 16}, {1, 32}, {1, 64}, {4, 16}, {4, 32}, {4, 64}, {8, 16}, {8, 32}}}}};
    std::vector<std::string> evaluated_;
    bool fail_ = false, skip_ = false;
    std::atomic<bool> stop_{false};
};

TEST_F(AskTell, TellsTheSpace) {
    const auto answers = talk("{\"space\": true}\n");
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_EQ(Space::parse(answers[0]["space"].dump()).hash(), Space::parse(space_.json()).hash());
    EXPECT_EQ(answers[0]["default"], (json{{"cols", 32}, {"rows", 8}}));
    EXPECT_EQ(answers[0]["size"], 9);
    EXPECT_EQ(answers[0]["valid"], 8);
}

TEST_F(AskTell, EvaluatesAndRemembers) {
    const auto answers = talk("{\"best\": true}\n"
                              "{\"evaluate\": [{\"cols\": 16}, {\"cols\": 64, \"rows\": 4}, {\"rows\": 1}, {\"rows\": 8, \"cols\": 16}]}\n"
                              "{\"evaluate\": [{\"rows\": 1}, {}, {\"cols\": 16}]}\n"
                              "{\"evaluate\": []}\n"
                              "{\"best\": true}\n");
    ASSERT_EQ(answers.size(), 5u);
    EXPECT_EQ(answers[0], json::parse(R"({"best": null, "evaluations": 0})"));
    const json &results = answers[1]["results"];
    ASSERT_EQ(results.size(), 4u);
    EXPECT_EQ(results[0]["config"], (json{{"cols", 16}, {"rows", 8}}));
    EXPECT_EQ(results[0]["status"], "ok");
    EXPECT_DOUBLE_EQ(results[0]["cost"], 0.52);
    EXPECT_DOUBLE_EQ(results[0]["low"], 0.51);
    EXPECT_DOUBLE_EQ(results[0]["high"], 0.53);
    EXPECT_DOUBLE_EQ(results[1]["cost"], 0.66);
    EXPECT_EQ(results[2], json::parse(R"({"config": {"cols": 32, "rows": 1}, "status": "crashed", "error": "signal 11"})"));
    EXPECT_EQ(results[3], results[0]);
    EXPECT_EQ(answers[2]["results"][0], results[2]);
    EXPECT_EQ(answers[2]["results"][2], results[0]);
    EXPECT_EQ(answers[3]["results"], json::array());
    EXPECT_EQ(answers[4]["best"], results[0]);
    EXPECT_EQ(answers[4]["evaluations"], 4);
    EXPECT_THAT(evaluated_, ElementsAre("cols:16,rows:8", "cols:64,rows:4", "cols:32,rows:1", "cols:32,rows:8"));
}

TEST_F(AskTell, MalformedLinesAreAnsweredAndNothingIsEvaluated) {
    const std::vector<std::pair<std::string, std::string>> lines{{"evaluate", "one JSON object"}, {"{\"evaluate\": [", "one JSON object"},
        {"[]", "one JSON object"}, {"{}", "one JSON object"}, {"{\"space\": true, \"best\": true}", "one JSON object"},
        {"{\"ask\": 3}", "\"ask\" is no request"}, {"{\"best\": 1}", "the value of \"best\" is true, not 1"},
        {"{\"stop\": false}", "not false"}, {"{\"evaluate\": {\"cols\": 16}}", "is a list of configurations, not {\"cols\":16}"},
        {"{\"evaluate\": [3]}", "not 3"},
        {"{\"evaluate\": [{\"cols\": 16}, {\"columns\": 16}]}", "the space has no parameter columns; it has cols, rows"},
        {"{\"evaluate\": [{\"cols\": 16}, {\"cols\": 17}]}", "17 is none of them"},
        {"{\"evaluate\": [{\"cols\": 64, \"rows\": 8}]}", "breaks the constraint \"a tile fits\""},
        {"{\"evaluate\": [{\"cols\": 16.0}]}", "the value of cols is a whole number, not 16.0"},
        {"{\"evaluate\": [{\"cols\": \"16\"}]}", "not \"16\""}, {"{\"evaluate\": [{\"cols\": true}]}", "not true"},
        {"{\"evaluate\": [{\"cols\": 18446744073709551632}]}", "not "}, {"{\"evaluate\": [{\"cols\": 4294967312}]}", "not 4294967312"},
        {"{\"evaluate\": [{\"cols\": -4294967280}]}", "not -4294967280"}, {"{\"evaluate\": [{\"\xff\": 16}]}", "one JSON object"},
        {std::string(100000, '['), "one JSON object"}, {std::string("\0\xfe", 2), "one JSON object"}};
    std::string all;
    for (const auto &[line, error] : lines) all += line + "\n \r\n";
    const auto answers = talk(all + "{\"best\": true}");
    ASSERT_EQ(answers.size(), lines.size() + 1);
    for (size_t i = 0; i < lines.size(); i++) {
        ASSERT_EQ(answers[i].size(), 1u);
        EXPECT_THAT(answers[i].at("error").get<std::string>(), HasSubstr(lines[i].second)) << lines[i].first.substr(0, 80);
    }
    EXPECT_EQ(answers.back()["evaluations"], 0);
    EXPECT_TRUE(evaluated_.empty());
}

TEST_F(AskTell, AnEvaluationThatCannotBeMadeIsAnError) {
    fail_ = true;
    const auto answers = talk("{\"evaluate\": [{}]}\n{\"best\": true}\n");
    ASSERT_EQ(answers.size(), 2u);
    EXPECT_EQ(answers[0]["error"], "the compiler is gone");
    EXPECT_EQ(answers[1]["evaluations"], 0);
}

TEST_F(AskTell, WhatWasSkippedIsEvaluatedAgain) {
    skip_ = true;
    const auto answers = talk("{\"evaluate\": [{\"rows\": 1}, {\"rows\": 1}]}\n{\"evaluate\": [{\"rows\": 1}]}\n{\"best\": true}\n");
    ASSERT_EQ(answers.size(), 3u);
    EXPECT_EQ(answers[0]["results"][1]["status"], "skipped");
    EXPECT_EQ(answers[2], json::parse(R"({"best": null, "evaluations": 0})"));
    EXPECT_EQ(evaluated_.size(), 2u);
}

TEST_F(AskTell, Stops) {
    EXPECT_THAT(talk("{\"stop\": true}\n{\"best\": true}\n"), ElementsAre(json{{"stopped", true}}));
    stop_ = true;
    EXPECT_TRUE(talk("{\"best\": true}\n").empty());
    EXPECT_TRUE(talk("").empty());
}

TEST_F(AskTell, EndsWhenNobodyReads) {
    std::istringstream in("{\"best\": true}\n{\"evaluate\": [{}]}\n");
    std::ostringstream out;
    out.setstate(std::ios::badbit);
    ask_tell(in, out, space_, [this](const std::vector<Point> &points) { return evaluate(points); });
    EXPECT_TRUE(evaluated_.empty());
}

}  // namespace
}  // namespace gdn::tune
