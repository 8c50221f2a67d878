// Shards in processes of their own, one killed, redone and merged; what does not fit together is refused.
#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "autotune/db/merge.h"
#include "autotune/session.h"
#include "synthetic.h"

namespace gdn::tune {
namespace {

using namespace synthetic;
using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

Task shard_of(Task t, int shard, int shards) {
    t.shard = shard;
    t.shards = shards;
    return t;
}

TuneResult tune_into(Journal &journal, const Task &t, const Event &event = {}) {
    FakeBuilder builder;
    FakeMeasurer measurer;
    builder.event = measurer.event = event;
    const std::atomic<bool> stop{false};
    const auto searcher = make_searcher(t.searcher, t.space, t.seed);
    search(t, kernel(), *searcher, builder, measurer, journal, {}, {}, stop);
    return finish(t, kernel(), builder, measurer, journal, {}, stop);
}

void tune_file(const std::string &path, const Task &t, const RunInfo &info = run_info(), const Event &event = {}) {
    Journal journal = fs::exists(path) ? Journal::open(path, false) : Journal::create(path, info);
    tune_into(journal, t, event);
}

// A process that is killed, by itself so that it is always at the same place, before its `lives`th build or candidate; 0: never.
pid_t tune_in_child(const std::string &path, const Task &t, int lives) {
    const pid_t child = fork();
    if (child == 0) {
        int events = 0;
        try {
            tune_file(path, t, run_info(), [&](const std::string &, const Config &) {
                if (++events == lives) raise(SIGKILL);
            });
        } catch (const std::exception &error) {
            std::fprintf(stderr, "%s\n", error.what());
            _exit(1);
        }
        _exit(0);
    }
    return child;
}

std::set<std::string> texts(const std::vector<Trial> &trials) {
    std::set<std::string> set;
    for (const Trial &t : trials) set.insert(text_of(t.config) + name_of(t.status) + std::to_string(t.cost.value) + t.object_hash);
    return set;
}

TEST(Merge, FourShardsOneOfThemKilledAreTheWhole) {
    const Folder folder;
    Journal whole = Journal::create(folder.file("whole.db"), run_info());
    const TuneResult best = tune_into(whole, task());
    ASSERT_EQ(best.winner.config, kBest);

    std::vector<std::string> paths;
    std::vector<pid_t> children;
    for (int i = 0; i < 4; i++) {
        paths.push_back(folder.file(std::to_string(i) + ".db"));
        children.push_back(tune_in_child(paths.back(), shard_of(task(), i, 4), i == 2 ? 40 : 0));
    }
    for (int i = 0; i < 4; i++) {
        int end = 0;
        waitpid(children[static_cast<size_t>(i)], &end, 0);
        EXPECT_EQ(WIFSIGNALED(end), i == 2);
        EXPECT_EQ(WIFEXITED(end) ? WEXITSTATUS(end) : 0, 0);
    }
    const std::string out = folder.file("out.db");
    EXPECT_THAT(error_of([&] {
        merge_journals({paths[0], paths[1], paths[3]}, out);
    }),
        HasSubstr("shard 2/4 of core_synthetic_128x128 x86_avx512 is missing"));
    EXPECT_THAT(error_of([&] { merge_journals(paths, out); }), AllOf(HasSubstr("shard 2/4"), HasSubstr("2.db was not finished")));
    EXPECT_FALSE(fs::exists(out));

    int end = 0;
    waitpid(tune_in_child(paths[2], shard_of(task(), 2, 4), 0), &end, 0);
    ASSERT_EQ(end, 0);
    merge_journals({paths[3], paths[0], paths[2], paths[1]}, out);
    Journal merged = Journal::open(out, false);
    const int64_t id = merged.task(task());
    EXPECT_EQ(merged.tasks().size(), 1u);
    EXPECT_FALSE(merged.finished(id).done) << "shards of several machines were never compared in alternation";
    EXPECT_TRUE(merged.trials(id, "final").empty());
    EXPECT_EQ(merged.trials(id, "search").size(), 189u);
    EXPECT_EQ(texts(merged.trials(id, "search")), texts(whole.trials(whole.task(task()), "search")));

    // Going on with it finds nothing left to measure but the final phase.
    int measured = 0;
    const TuneResult result = tune_into(merged, task(), [&](const std::string &what, const Config &) { measured += what == "measure"; });
    EXPECT_EQ(measured, 6);
    EXPECT_EQ(result.winner.config, best.winner.config);
    EXPECT_EQ(result.why, best.why);
    EXPECT_TRUE(same(result.winner, best.winner));
}

TEST(Merge, TheFinalPhaseSearchesNothing) {
    const Folder folder;
    std::vector<std::string> paths;
    FakeBuilder builder;
    FakeMeasurer measurer;
    const std::atomic<bool> stop{false};
    SessionOptions options;
    options.budget.evaluations = 16;
    const auto session = [&](Journal &journal, const Task &t) {
        SessionTask one;
        one.task = t;
        one.kernel = kernel();
        return run_session({one}, builder, measurer, journal, options, stop).at(0);
    };
    for (int i = 0; i < 2; i++) {
        paths.push_back(folder.file(std::to_string(i) + ".db"));
        Journal shard = Journal::create(paths.back(), run_info());
        session(shard, shard_of(task("auto"), i, 2));
    }
    const std::string out = folder.file("out.db");
    merge_journals(paths, out);
    Journal merged = Journal::open(out, false);
    const int64_t id = merged.task(task("auto"));
    const std::vector<Trial> trials = merged.trials(id, "search");
    ASSERT_GE(trials.size(), 32u);

    options.finish = true;
    options.budget.evaluations = 189;
    const TuneResult result = session(merged, task("auto"));
    EXPECT_TRUE(same(merged.trials(id, "search"), trials)) << "a searcher that learns would have asked for others";
    EXPECT_TRUE(merged.finished(id).done);
    EXPECT_EQ(merged.finished(id).winner, result.winner.config);
    EXPECT_EQ(result.evaluations, trials.size());
}

TEST(Merge, WholeTasksKeepTheirFinalPhase) {
    const Folder folder;
    const std::string a = folder.file("a.db"), b = folder.file("b.db"), out = folder.file("out.db");
    Task other = task("random");
    other.kernel = "another";
    RunInfo info = run_info();
    tune_file(a, task(), info);
    info.date = "2026-02-28";
    info.noisy = true;
    info.doctor = R"({"noise": 1})";
    tune_file(b, other, info);
    merge_journals({a, b}, out);
    const Journal merged = Journal::open(out, true);
    EXPECT_EQ(merged.info().date, "2026-02-28");
    EXPECT_TRUE(merged.info().noisy);
    EXPECT_EQ(merged.info().doctor, info.doctor);
    ASSERT_EQ(merged.tasks().size(), 2u);
    for (const auto &[id, t] : merged.tasks()) {
        const Journal from = Journal::open(t.kernel == "another" ? b : a, true);
        EXPECT_EQ(from.tasks().at(0).second.difference(t), "");
        for (const char *phase : {"search", "final"}) EXPECT_TRUE(same(merged.trials(id, phase), from.trials(1, phase)));
        EXPECT_EQ(merged.finished(id).winner, from.finished(1).winner);
        EXPECT_EQ(merged.finished(id).why, from.finished(1).why);
    }
    for (const auto &entry : fs::directory_iterator(folder.path())) {
        EXPECT_EQ(entry.path().string().find(".part"), std::string::npos) << entry.path();
    }
}

TEST(Merge, RefusesWhatDoesNotFitTogether) {
    const Folder folder;
    const std::string a = folder.file("a.db"), out = folder.file("out.db");
    tune_file(a, shard_of(task(), 0, 2));
    const auto refusal = [&](const Task &t, const RunInfo &info) {
        const std::string b = folder.file("b.db");
        fs::remove(b);
        tune_file(b, t, info);
        const std::string text = error_of([&] { merge_journals({a, b}, out); });
        EXPECT_FALSE(fs::exists(out));
        EXPECT_THAT(text, AllOf(HasSubstr("a.db"), HasSubstr("b.db")));
        return text;
    };
    RunInfo info = run_info();
    info.device.name = "AMD EPYC 7B13";
    EXPECT_THAT(refusal(shard_of(task(), 1, 2), info), AllOf(HasSubstr("EPYC 9B14"), HasSubstr("EPYC 7B13")));
    info = run_info();
    info.generator_hash = "fedcba9876543210";
    EXPECT_THAT(refusal(shard_of(task(), 1, 2), info), HasSubstr("generator hash: 0123456789abcdef here, fedcba9876543210 there"));
    EXPECT_THAT(refusal(shard_of(task("exhaustive", 8), 1, 2), run_info()), HasSubstr("seed: 7 here, 8 there"));
    EXPECT_THAT(refusal(shard_of(task("random"), 1, 2), run_info()), HasSubstr("searcher: exhaustive here, random there"));
    Task t = shard_of(task(), 1, 2);
    t.shapes.pop_back();
    EXPECT_THAT(refusal(t, run_info()), HasSubstr("shapes: "));
    t = shard_of(task(), 1, 2);
    t.space = t.space.restricted({{"rows", {4}}});
    EXPECT_THAT(refusal(t, run_info()), HasSubstr("rows:2,4,8 default 4 here, rows:4 default 4 there"));
    EXPECT_THAT(refusal(shard_of(task(), 1, 3), run_info()), HasSubstr("shards: 2 here, 3 there"));
    EXPECT_THAT(refusal(shard_of(task(), 0, 2), run_info()), HasSubstr("both hold shard 0/2"));

    EXPECT_THAT(error_of([&] { merge_journals({a}, out); }), HasSubstr("shard 1/2 of core_synthetic_128x128 x86_avx512 is missing"));
    EXPECT_THAT(error_of([&] { merge_journals({a, folder.file("absent.db")}, out); }), HasSubstr("absent.db"));
    EXPECT_THAT(error_of([&] { merge_journals({a, a}, a); }), HasSubstr("exists"));
    EXPECT_THAT(error_of([&] { merge_journals({}, out); }), HasSubstr("nothing"));
    EXPECT_FALSE(fs::exists(out));
}

}  // namespace
}  // namespace gdn::tune
