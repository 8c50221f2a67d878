// gdn explore and gdn tune report, on a few real candidates. Nothing is asserted about times.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "program.h"
#include "support/folder.h"

namespace gdn_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

class Explore : public ::testing::Test {
protected:
    static json small() {
        return {{"title", "A small experiment"}, {"kernels", {"gated_norm_f32_f32"}}, {"targets", {"x86_avx2"}},
            {"searchers", {"exhaustive"}}, {"rounds", 3}};
    }
    std::string written(const json &experiment, const std::string &name = "experiment.json") const {
        write_text(folder_.file(name), experiment.dump());
        return folder_.file(name);
    }
    std::string out(const std::string &name) const { return folder_.file(name); }
    std::string cached() const { return " --cache " + out("cache"); }

    const Folder folder_;
};

TEST_F(Explore, MeasuresThenSimulatesThenReports) {
    const std::string experiment = written(small()), command = "explore " + experiment + " --force -o " + out("measured") + cached();
    const Outcome measured = gdn(command + " --json --peak 100 --memory 10");
    ASSERT_EQ(measured.code, 0) << measured.err;
    const json task = json::parse(measured.out)["tasks"].at(0);
    EXPECT_EQ(task["trials"], task["points"]);
    EXPECT_GT(task["best"], 0);
    const std::string journal = out("measured/exhaustive-1.db");
    EXPECT_TRUE(fs::exists(journal));
    EXPECT_THAT(
        read_text(out("measured/report.html")), AllOf(HasSubstr("A small experiment"), HasSubstr("Roofline"), HasSubstr("</html>")));
    EXPECT_THAT(read_text(out("measured/results.csv")), HasSubstr("gated_norm_f32_f32,x86_avx2,any,search,"));

    const Outcome again = gdn(command);
    EXPECT_EQ(again.code, 2);
    EXPECT_THAT(again.err, HasSubstr("--resume"));
    const Outcome resumed = gdn(command + " --resume --json");
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_EQ(json::parse(resumed.out)["tasks"].at(0)["best"], task["best"]);

    json strategies = small();
    strategies["searchers"] = {"random", "auto"};
    strategies["seeds"] = {1, 2, 3};
    const std::string simulate = "explore " + written(strategies, "strategies.json") + " --json --simulate " + journal + " -o ";
    const Outcome first = gdn(simulate + out("first")), second = gdn(simulate + out("second"));
    ASSERT_EQ(first.code, 0) << first.err;
    ASSERT_EQ(second.code, 0) << second.err;
    const json rows = json::parse(first.out)["tasks"].at(0)["strategies"];
    ASSERT_EQ(rows.size(), 2u);
    for (const json &row : rows) {
        EXPECT_EQ(row["runs"], 3);
        EXPECT_EQ(row["unrecorded"], 0);
    }
    for (const char *file : {"report.html", "results.csv", "strategies.csv"}) {
        EXPECT_FALSE(read_text(out("first/") + file).empty()) << file;
        EXPECT_EQ(read_text(out("first/") + file), read_text(out("second/") + file)) << file;
    }

    const Outcome report = gdn("tune report " + journal + " -o " + out("page.html") + " --csv " + out("page.csv") + cached());
    ASSERT_EQ(report.code, 0) << report.err;
    EXPECT_THAT(report.out, HasSubstr("gated_norm_f32_f32"));
    EXPECT_THAT(read_text(out("page.html")), HasSubstr("Kernel tuning on"));
    EXPECT_EQ(read_text(out("page.csv")), read_text(out("measured/results.csv")));

    strategies["kernels"] = {"core_*"};
    const Outcome foreign = gdn("explore " + written(strategies, "foreign.json") + " --simulate " + journal + " -o " + out("foreign"));
    EXPECT_EQ(foreign.code, 2);
    EXPECT_THAT(foreign.err, HasSubstr("gated_norm_f32_f32"));
    EXPECT_FALSE(fs::exists(out("foreign")));
}

TEST_F(Explore, SaysWhatIsWrongAndMakesNothing) {
    const auto refused = [&](const json &experiment, int code, const std::string &text) {
        const Outcome outcome = gdn("explore " + written(experiment) + " --force -o " + out("none") + cached());
        EXPECT_EQ(outcome.code, code) << experiment << outcome.err;
        EXPECT_THAT(outcome.err, HasSubstr(text)) << experiment;
        EXPECT_FALSE(fs::exists(out("none"))) << experiment;
    };
    const auto changed = [](const char *key, const json &value) {
        json experiment = small();
        experiment[key] = value;
        return experiment;
    };
    refused(changed("kernels", {"gated_norm_f32_f33"}), 2, "gated_norm_f32_f32");
    refused(changed("targets", {"x86_avx1024"}), 3, "x86_avx1024");
    refused(changed("searchers", {"annealing"}), 2, "unknown searcher");
    refused(changed("space", {{"parameters", {"columns"}}}), 2, "columns");
    refused(changed("space", {{"values", {{"columns", {1}}}}}), 2, "columns");
    refused(changed("sapce", json::object()), 2, "unknown key \"sapce\"");
    const Outcome absent = gdn("explore " + out("absent.json"));
    EXPECT_EQ(absent.code, 2);
    EXPECT_THAT(absent.err, HasSubstr("absent.json"));
    const Outcome foreign = gdn("explore " + written(small()) + " --simulate " + written(small(), "no_journal.db") + " -o " + out("none"));
    EXPECT_NE(foreign.code, 0);
    EXPECT_THAT(foreign.err, HasSubstr("no_journal.db"));
    EXPECT_FALSE(fs::exists(out("none")));
    EXPECT_NE(gdn("tune report " + out("absent.db")).code, 0);
}

TEST_F(Explore, DryRunPrintsThePlan) {
    json experiment = small();
    experiment["searchers"] = {"random", "local"};
    experiment["budget"] = {{"evaluations", 2}};
    const Outcome outcome = gdn("explore " + written(experiment) + " --dry-run -o " + out("none"));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(
        outcome.out, AllOf(HasSubstr("2 evaluations in each of 2 runs"), HasSubstr("4 evaluations together"), Not(HasSubstr("nan"))));
    EXPECT_FALSE(fs::exists(out("none")));
    EXPECT_EQ(gdn("explore " + written(experiment) + " --dry-run --simulate x.db").code, 2);
}

/// Strategies are compared on a record alone: the shipped report comes again to the byte, on any machine.
TEST_F(Explore, TheShippedComparisonComesAgain) {
    const std::string shipped = GDN_SOURCE_DIR "/autotune/experiments/strategies";
    const Outcome outcome = gdn("explore " + shipped + ".json --simulate " + shipped + "/record.db -o " + out("again") + cached());
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    for (const char *file : {"/strategies.csv", "/results.csv", "/report.html"}) {
        EXPECT_EQ(read_text(out("again") + file), read_text(shipped + file)) << "differs: " << file;
    }
}

/// The shipped experiments can be read and their spaces exist.
TEST_F(Explore, ShippedExperimentsAreSound) {
    for (const char *name : {"chunk_by_tile", "strategies", "strategies_record"}) {
        const Outcome outcome =
            gdn(std::string("explore " GDN_SOURCE_DIR "/autotune/experiments/") + name + ".json --dry-run -o " + out("none"));
        if (outcome.code == 3) continue;  // a machine without AVX-512
        EXPECT_EQ(outcome.code, 0) << outcome.err;
        EXPECT_THAT(outcome.out, HasSubstr("core_chunk_channel_tied_128x128 x86_avx512 long")) << name;
    }
}

}  // namespace
}  // namespace gdn_test
