// Reports: every page is well-formed, says what the trials say, and prints nothing that is no number.
#include <cmath>
#include <limits>
#include <regex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autotune/format.h"
#include "autotune/report/chart.h"
#include "autotune/report/collect.h"
#include "report_fixture.h"
#include "support/folder.h"

namespace gdn::tune {
namespace {

using namespace gdn_test;

using testing::HasSubstr;
using testing::Not;

/// "" if the text is one well-formed XML element after a doctype: tags nest, attributes are quoted and unlike one another, & and < stand
/// only where they may, ids are unique.
std::string ill_formed(const std::string &text) {
    size_t i = text.rfind("<!DOCTYPE html>\n", 0) == 0 ? 16 : std::string::npos;
    if (i == std::string::npos) return "no doctype";
    std::vector<std::string> open;
    std::set<std::string> ids;
    bool closed = false;
    const auto near = [&](const std::string &what) { return what + " near: " + text.substr(i > 60 ? i - 60 : 0, 120); };
    const auto entity = [&](size_t at) {
        for (const char *name : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"}) {
            if (text.compare(at, std::char_traits<char>::length(name), name) == 0) return true;
        }
        return false;
    };
    const auto name_end = [&](size_t at) {
        return text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-", at);
    };
    while (i < text.size()) {
        const char c = text[i];
        if (c != '<') {
            if (c == '&' && !entity(i)) return near("stray &");
            if (c == '>' && (open.empty() || open.back() != "style")) return near("stray >");
            if (open.empty() && c != '\n') return near("text outside");
            i++;
            continue;
        }
        if (closed) return near("a second root");
        if (text[i + 1] == '/') {
            const size_t end = name_end(i + 2);
            const std::string name = text.substr(i + 2, end - i - 2);
            if (text[end] != '>' || open.empty() || open.back() != name) return near("closed where something else is open: " + name);
            open.pop_back();
            closed = open.empty();
            i = end + 1;
            continue;
        }
        size_t at = name_end(i + 1);
        const std::string name = text.substr(i + 1, at - i - 1);
        if (name.empty()) return near("stray <");
        std::set<std::string> attributes;
        while (text[at] == ' ') {
            const size_t equals = name_end(at + 1), end = text.find('"', equals + 2);
            const std::string attribute = text.substr(at + 1, equals - at - 1), value = text.substr(equals + 2, end - equals - 2);
            if (text[equals] != '=' || text[equals + 1] != '"' || end == std::string::npos) return near("an attribute without quotes");
            if (!attributes.insert(attribute).second) return near("an attribute twice");
            if (value.find('<') != std::string::npos) return near("< in an attribute");
            for (size_t j = equals + 2; j < end; j++) {
                if (text[j] == '&' && !entity(j)) return near("stray & in an attribute");
            }
            if (attribute == "id" && !ids.insert(value).second) return near("an id twice");
            at = end + 1;
        }
        if (text[at] == '/') {
            at++;
        } else {
            open.push_back(name);
        }
        if (text[at] != '>') return near("a tag without end");
        i = at + 1;
    }
    return open.empty() && closed ? "" : "not closed";
}

void expect_sound(const std::string &page) {
    EXPECT_EQ(ill_formed(page), "");
    for (const char *word : {"nan", "inf", "NaN", "-0.0", "1e+", "e-0"}) {
        for (size_t at = page.find(word); at != std::string::npos; at = page.find(word, at + 1)) {
            const bool in_word =
                std::isalpha(static_cast<unsigned char>(page[at - 1])) || std::isalpha(static_cast<unsigned char>(page[at + 3]));
            EXPECT_TRUE(in_word && std::isalpha(static_cast<unsigned char>(word[0]))) << page.substr(at - 40, 80);
        }
    }
    // A place that is no number would be a dash.
    const std::regex misplaced(" (x|y|x1|x2|y1|y2|cx|cy|r|width|height|d|transform|viewBox)=\"[^\"]*–");
    EXPECT_FALSE(std::regex_search(page, misplaced));
    for (const char *outside : {"http:", "https:", "src=", "@import", "url("}) EXPECT_THAT(page, Not(HasSubstr(outside)));
}

ReportInput input_of(std::vector<ReportTask> tasks) {
    ReportInput input;
    input.title = "A title";
    input.info.device.name = "AMD EPYC 9B14";
    input.info.doctor = R"({"findings": [{"grade": "note", "what": "turbo", "text": "the clock may rise <by itself>", "advice": ""}]})";
    input.peak_gflops = 100;
    input.memory_gbytes = 10;
    input.tasks = std::move(tasks);
    return input;
}

size_t count(const std::string &text, const std::string &what) {
    size_t n = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) n++;
    return n;
}

TEST(ReportChecker, SeesWhatIsIllFormed) {
    const auto page = [](const std::string &body) { return ill_formed("<!DOCTYPE html>\n<html>" + body + "</html>\n"); };
    EXPECT_EQ(page("<p class=\"a\">x &amp; y<br/></p>"), "");
    for (const char *body : {"<p>", "</p>", "<p><b></p></b>", "a & b", "<p a=b></p>", "<p a=\"1\" a=\"2\"></p>",
             "<p id=\"a\"/><p id=\"a\"/>", "1 < 2", "<p a=\"<\"></p>", "<p a=\"&\"></p>", "</html><html>"}) {
        EXPECT_NE(page(body), "") << body;
    }
}

TEST(Report, ShowsEveryFigureOfAFullTask) {
    ReportTask task = recorded_task();
    const std::string page = html(input_of({task}));
    expect_sound(page);
    EXPECT_EQ(count(page, "<svg"), 5u);
    EXPECT_EQ(count(page, "<figure>"), 5u);
    EXPECT_THAT(page, HasSubstr("2 crashed"));
    EXPECT_THAT(page, HasSubstr("signal 11"));
    // rows 4, cols 32, unroll 1 is the best: 0.802 of the default's 1.122.
    EXPECT_THAT(page, HasSubstr("28.5 %"));
    EXPECT_THAT(page, HasSubstr("rows <b>4</b>"));
    EXPECT_THAT(page, HasSubstr("part of its lead may be luck"));
    EXPECT_THAT(page, HasSubstr("the clock may rise &lt;by itself&gt;"));
    EXPECT_THAT(page, HasSubstr("32 evaluations"));
    EXPECT_THAT(page, HasSubstr("32 valid points"));
}

TEST(Report, TheFinalPhaseDecides) {
    ReportTask task = recorded_task();
    const Config winner = {{"rows", 4}, {"cols", 32}, {"unroll", 2}, {"grain", 0}};
    task.finals = {measured(winner, 0.75, 2), measured(task.task.default_config, 1, 2)};
    task.finish = {true, winner, "unroll:2 it is"};
    const std::string page = html(input_of({task}));
    expect_sound(page);
    EXPECT_THAT(page, HasSubstr("25.0 %"));
    EXPECT_THAT(page, HasSubstr("unroll:2 it is"));
    EXPECT_THAT(page, Not(HasSubstr("part of its lead may be luck")));
}

TEST(Report, StrategiesHaveTheirTable) {
    ReportTask task = recorded_task();
    const double best = surface({{"rows", 4}, {"cols", 32}, {"unroll", 1}}) / surface(task.task.default_config);
    Convergence fast{"fast", {std::vector<double>(32, best), std::vector<double>(32, best)}, 3},
        slow{"slow", {std::vector<double>(32, 1.0)}, 0};
    fast.best[0][0] = std::numeric_limits<double>::infinity();
    task.strategies = {fast, slow};
    const std::string page = html(input_of({task}));
    expect_sound(page);
    EXPECT_THAT(page, HasSubstr("<td class=\"number\">2 of 2</td>"));
    EXPECT_THAT(page, HasSubstr("<td class=\"number\">0 of 1</td>"));
    EXPECT_THAT(page, HasSubstr("Not recorded"));
    EXPECT_THAT(page, HasSubstr("39.9 %"));  // what slow lacks: 1.122 / 0.802
    EXPECT_EQ(strategies_csv(input_of({task})),
        "kernel,target,class,searcher,run,evaluations,best\r\n"
        "core_chunk_channel_tied_128x128,x86_avx512,long,fast,1,2,0.714795\r\ncore_chunk_channel_tied_128x128,x86_avx512,long,fast,1,32,0."
        "714795\r\n"
        "core_chunk_channel_tied_128x128,x86_avx512,long,fast,2,1,0.714795\r\ncore_chunk_channel_tied_128x128,x86_avx512,long,fast,2,32,0."
        "714795\r\n"
        "core_chunk_channel_tied_128x128,x86_avx512,long,slow,1,1,1\r\ncore_chunk_channel_tied_128x128,x86_avx512,long,slow,1,32,1\r\n");
}

TEST(Report, HoldsWithLittleOrNothing) {
    expect_sound(html({}));
    ReportTask task;
    task.task = small_task();
    expect_sound(html(input_of({task})));  // nothing tried
    task.trials = {failed(task.task.default_config, Status::kBuildFailed, "no"), failed(task.task.default_config, Status::kSkipped, "")};
    const std::string failures = html(input_of({task}));
    expect_sound(failures);
    EXPECT_THAT(failures, HasSubstr("No configuration succeeded"));
    task.trials = {measured(task.task.default_config, 1, 2)};
    const std::string one = html(input_of({task}));
    expect_sound(one);
    EXPECT_THAT(one, HasSubstr("1 evaluation "));
    EXPECT_THAT(one, HasSubstr("32 valid points"));
    task.trials[0].ns.clear();  // a journal that lost its samples
    expect_sound(html(input_of({task})));
    task.task.space = {};
    task.task.shapes.clear();
    expect_sound(html(input_of({task})));
}

TEST(Report, NothingIsPrintedThatIsNoNumber) {
    const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
    ReportTask task = recorded_task();
    task.trials[0].cost.value = nan;
    task.trials[1].cost = {infinity, nan, infinity, nan, nan, 3};
    task.trials[2].cost.low = -infinity;
    for (size_t i = 2; i < 20; i++) task.trials[i].ns[0] = {nan, infinity, 0};
    task.trials[5].anchor[1] = {0, 0, 0};
    task.work = {{nan, 0}, {infinity, 1}};
    task.strategies = {{"none", {{infinity, infinity}}, 0}, {"empty", {{}}, 0}, {"nothing", {}, 0}};
    ReportInput input = input_of({task});
    expect_sound(html(input));
    EXPECT_THAT(html(input), Not(HasSubstr("Roofline")));
    input.peak_gflops = infinity, input.memory_gbytes = nan;
    input.tasks[0].work.assign(2, {6e5, 2e5});
    expect_sound(html(input));
    const std::string table = csv(input) + strategies_csv(input);
    EXPECT_THAT(table, Not(HasSubstr("nan")));
    EXPECT_THAT(table, Not(HasSubstr("inf")));
}

TEST(Report, EscapesWhateverItIsGiven) {
    const std::string evil = "</title><script>alert('1 & 2')</script>\"\x01\xff\xed\xa0\x80é";
    ReportTask task = recorded_task();
    task.task.kernel = task.task.target = task.task.searcher = evil;
    task.task.default_config[evil] = 1;
    for (Trial &trial : task.trials) trial.config[evil] = 2, trial.error = evil;
    task.trials[3].config[evil] = 3;
    task.finish = {true, {}, evil};
    task.strategies = {{evil, {{1, 0.9}}, 0}, {"b", {{1, 0.9}}, 0}};
    ReportInput input = input_of({task, task});
    input.title = input.text = input.info.date = input.info.halide_version = input.info.device.name = input.info.gdn_version = evil;
    const std::string page = html(input);
    expect_sound(page);
    EXPECT_THAT(page, Not(HasSubstr("<script")));
    EXPECT_THAT(page, Not(HasSubstr("\x01")));
    EXPECT_THAT(page, Not(HasSubstr("\xff")));
    EXPECT_THAT(page, HasSubstr("é"));
    input.info.doctor = "{\"findings\": [1, {\"text\": 2}]}";
    expect_sound(html(input));
    input.info.doctor = "no JSON <";
    expect_sound(html(input));
}

TEST(Report, CsvHasARowPerTrial) {
    ReportTask task;
    task.task = small_task();
    task.trials = {measured(task.task.default_config, 1, 2), failed({{"rows", 4}}, Status::kBuildFailed, "said \"no\",\nthen stopped")};
    task.finals = {measured(task.task.default_config, 0.5, 2)};
    EXPECT_EQ(csv(input_of({task})),
        "kernel,target,class,phase,cols,grain,rows,unroll,status,cost,low,high,\"ns B=1,T=1024,H=16\",\"ns B=1,T=4096,H=16\",error\r\n"
        "core_chunk_channel_tied_128x128,x86_avx512,long,search,32,0,8,1,ok,1,0.99,1.01,1010,1010,\r\n"
        "core_chunk_channel_tied_128x128,x86_avx512,long,search,,,4,,build_failed,,,,,,\"said \"\"no\"\",\nthen stopped\"\r\n"
        "core_chunk_channel_tied_128x128,x86_avx512,long,final,32,0,8,1,ok,0.5,0.495,0.505,505,505,\r\n");
    EXPECT_EQ(csv({}), "kernel,target,class,phase,status,cost,low,high,error\r\n");
}

TEST(Importance, FindsWhatTheCostDependsOn) {
    Random random(7);
    std::vector<Trial> trials;
    for (int i = 0; i < 300; i++) {
        const int strong = static_cast<int>(random.below(4)), weak = static_cast<int>(random.below(4)),
                  none = static_cast<int>(random.below(8));
        trials.push_back(measured({{"none", none}, {"strong", strong}, {"weak", weak}, {"fixed", 1}},
            std::exp(0.3 * strong + 0.1 * weak + 0.02 * random.unit()), 1));
        if (i % 9 == 0) trials.push_back(failed({{"none", none}, {"strong", 9}}, Status::kCrashed, ""));
        if (i % 30 == 0)
            trials.push_back(measured({{"none", 8}, {"strong", strong}, {"weak", weak}, {"fixed", 1}}, 1e6, 1));  // hopeless outliers
    }
    trials.push_back(failed({{"strong", 5}}, Status::kOk, ""));  // a cost of 0 is none
    const std::vector<Importance> found = importance(trials);
    ASSERT_EQ(found.size(), 4u);
    EXPECT_EQ(found[0].parameter, "strong");
    EXPECT_GT(found[0].share, 0.4);
    const auto share = [&](const std::string &name) {
        for (const Importance &one : found) {
            if (one.parameter == name) return one.share;
        }
        return -1.0;
    };
    EXPECT_GT(share("weak"), 0.03);
    EXPECT_LT(share("weak"), share("strong") / 3);
    EXPECT_EQ(share("fixed"), 0);
    ASSERT_EQ(found[0].best.size(), 4u);
    EXPECT_EQ(found[0].best[0].first, 0);
    EXPECT_NEAR(found[0].best[0].second, 1, 0.05);
    EXPECT_NEAR(found[0].best[3].second, std::exp(0.9), 0.1);
}

TEST(Importance, ChanceExplainsNothing) {
    Random random(3);
    std::vector<Trial> trials;
    for (int i = 0; i < 100; i++) trials.push_back(measured({{"a", static_cast<int>(random.below(20))}}, 1 + random.unit(), 1));
    EXPECT_LT(importance(trials)[0].share, 0.1);  // the plain share of variance would be about 0.2
    EXPECT_TRUE(importance({}).empty());
    EXPECT_EQ(importance({trials[0]})[0].share, 0);
    EXPECT_EQ(importance({trials[0], trials[0]})[0].share, 0);
}

TEST(Format, NumbersForPeople) {
    EXPECT_EQ(duration(812.4), "812 ns");
    EXPECT_EQ(duration(12345), "12.3 µs");
    EXPECT_EQ(duration(999.7), "1.00 µs");
    EXPECT_EQ(duration(2.5e9), "2.50 s");
    EXPECT_EQ(duration(NAN), "–");
    EXPECT_EQ(fixed(-0.0004, 2), "0.00");
    EXPECT_EQ(percent(0.1234), "12.3 %");
    EXPECT_EQ(count_of(1, "point"), "1 point");
    EXPECT_EQ(count_of(1234567, "point"), "1,234,567 points");
    EXPECT_EQ(shortened("aéé", 4), "aé…");
    EXPECT_EQ(shortened("aéé", 5), "aéé");
    EXPECT_TRUE(std::isnan(quantile({}, 0.5)));
    EXPECT_EQ(quantile({3, 1, 2, 10}, 0.5), 2.5);
    EXPECT_EQ(quantile({1, INFINITY, INFINITY}, 0.5), INFINITY);
}

TEST(Chart, ACurveBeginsWithItsFirstSuccess) {
    const auto drawn = [](double first) { return convergence({{"a", {first, 1, 0.9}, {first, 1, 0.8}, {first, 1, 0.95}}}, {}, {}, 0.9); };
    EXPECT_NE(drawn(INFINITY), drawn(1));
    EXPECT_NE(drawn(INFINITY), drawn(1.25));
    const std::string late = drawn(INFINITY);
    const size_t band = late.find("<path d=\"M"), line = late.find("<path d=\"M", band + 1);
    ASSERT_NE(line, std::string::npos);
    EXPECT_EQ(late.substr(band, late.find(' ', band + 9) - band), late.substr(line, late.find(' ', line + 9) - line));
    EXPECT_EQ(count(convergence({{"a", {INFINITY}, {}, {}}}, {}, {}, 0.9), "<path"), 0u);
}

TEST(Collect, RunsOfATaskBecomeStrategies) {
    ReportTask random = recorded_task(), local = recorded_task(), other = recorded_task();
    random.task.searcher = "random";
    random.trials.resize(4);
    local.task.searcher = "local";
    local.task.seed = 2;
    local.finals = {measured(local.task.default_config, 0.9, 2)};
    local.finish = {true, local.task.default_config, "why"};
    other.task.shapes.pop_back();
    const std::vector<ReportTask> joined = join_runs({random, local, random, other});
    ASSERT_EQ(joined.size(), 2u);
    ASSERT_EQ(joined[0].strategies.size(), 2u);
    EXPECT_EQ(joined[0].strategies[0].searcher, "random");
    EXPECT_EQ(joined[0].strategies[0].best.size(), 2u);
    EXPECT_EQ(joined[0].strategies[1].best.size(), 1u);
    EXPECT_EQ(joined[0].trials.size(), 4u + 32 + 4);
    EXPECT_TRUE(joined[0].finish.done);
    EXPECT_TRUE(joined[1].strategies.empty());

    ReportTask shard = recorded_task(), rest = recorded_task();
    shard.task.shards = rest.task.shards = 2;
    rest.task.shard = 1;
    EXPECT_TRUE(join_runs({shard, rest})[0].strategies.empty());
}

TEST(Collect, BestSoFarKnowsFailures) {
    const Config config;
    EXPECT_EQ(best_so_far({failed(config, Status::kCrashed, ""), measured(config, 2, 1), failed(config, Status::kSkipped, ""),
                  measured(config, 3, 1)}),
        (std::vector<double>{INFINITY, 2, 2}));
}

TEST(Collect, ReadsJournalsOfOneDeviceOnly) {
    Folder folder;
    RunInfo info;
    info.device = {"AuthenticAMD", "AMD EPYC 9B14", "znver4", "avx2 avx512f", 2, 2, 32768, 1 << 20, 1 << 25};
    info.generator_hash = "0123456789abcdef";
    const ReportTask recorded = recorded_task();
    const auto write = [&](const std::string &name, const std::string &searcher) {
        Journal journal = Journal::create(folder.file(name), info);
        Task task = recorded.task;
        task.searcher = searcher;
        const int64_t id = journal.task(task);
        journal.add(id, "search", recorded.trials);
        journal.add(id, "final", {recorded.trials[0]});
        journal.finish(id, recorded.trials[0].config, "it won");
    };
    write("a.db", "random");
    write("b.db", "local");
    const ReportInput input = collect({folder.file("a.db"), folder.file("b.db")});
    EXPECT_THAT(input.title, HasSubstr("AMD EPYC 9B14"));
    ASSERT_EQ(input.tasks.size(), 1u);
    EXPECT_EQ(input.tasks[0].strategies.size(), 2u);
    EXPECT_EQ(input.tasks[0].finish.why, "it won");
    expect_sound(html(input));

    info.device.name = "Other CPU";
    write("c.db", "random");
    EXPECT_THROW(
        {
            try {
                collect({folder.file("a.db"), folder.file("c.db")});
            } catch (const Error &error) {
                EXPECT_THAT(error.what(), HasSubstr("Other CPU"));
                throw;
            }
        },
        Error);
    info.device.name = "AMD EPYC 9B14";
    info.generator_hash = "f";
    write("d.db", "random");
    EXPECT_THROW(collect({folder.file("a.db"), folder.file("d.db")}), Error);
    EXPECT_THROW(collect({folder.file("none.db")}), Error);
}

}  // namespace
}  // namespace gdn::tune
