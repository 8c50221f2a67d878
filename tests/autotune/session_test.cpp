// Tasks that share a budget, and how requests become tasks.
#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autotune/plan.h"
#include "synthetic.h"

namespace gdn::tune {
namespace {

using gdn_test::Folder;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

const std::vector<Kernel> &kernels() {
    static const std::vector<Kernel> list = list_kernels(GDN_GENERATOR, GDN_SOURCE_DIR "/generators/kernels.json");
    return list;
}

PlanRequest request(const std::string &glob) {
    PlanRequest r;
    r.globs = {glob};
    r.target = "x86_avx2";
    return r;
}

std::string refusal(const PlanRequest &r) {
    try {
        plan_tasks(kernels(), r);
    } catch (const Error &error) {
        return error.what();
    }
    return "accepted";
}

// Parameters that are searched.
std::vector<std::string> names(const Space &space) {
    std::vector<std::string> list;
    for (const Parameter &p : space.parameters()) {
        if (p.values.size() > 1) list.push_back(p.name);
    }
    return list;
}

TEST(NextTask, BeginsEveryTaskHeaviestFirst) {
    std::vector<TaskProgress> tasks(3);
    tasks[0].weight = 0.1, tasks[1].weight = 1, tasks[2].weight = 0.5;
    std::vector<int> order;
    for (int i = 0; i < 3; i++) {
        order.push_back(next_task(tasks));
        TaskProgress &t = tasks[static_cast<size_t>(order.back())];
        t.evaluations = t.last_slice = 16;
    }
    EXPECT_THAT(order, ElementsAre(1, 2, 0));
}

TEST(NextTask, GoesWhereTheLastSliceGainedMost) {
    std::vector<TaskProgress> tasks(2);
    for (TaskProgress &t : tasks) t.evaluations = t.last_slice = 16;
    tasks[0].before = 1, tasks[0].best = 0.98;
    tasks[1].before = 1, tasks[1].best = 0.9;
    EXPECT_EQ(next_task(tasks), 1);
    tasks[1].weight = 0.05;  // but little of the time goes through it
    EXPECT_EQ(next_task(tasks), 0);
}

TEST(NextTask, NobodyStarves) {
    std::vector<TaskProgress> tasks(2);
    for (TaskProgress &t : tasks) t.evaluations = t.last_slice = 16;
    tasks[1].weight = 0.5;
    int of[2] = {0, 0};
    for (int i = 0; i < 60; i++) {  // nobody gains any more
        const int next = next_task(tasks);
        of[next]++;
        tasks[static_cast<size_t>(next)].evaluations += 16;
    }
    EXPECT_GT(of[1], 10);
    EXPECT_GT(of[0], of[1]);
}

// Copies of the synthetic kernel, under names of their own.
std::vector<SessionTask> copies(int n, const std::string &searcher = "random") {
    std::vector<SessionTask> tasks;
    for (int i = 0; i < n; i++) {
        SessionTask t;
        t.kernel = synthetic::kernel();
        t.kernel.name += "_" + std::to_string(i);
        t.task = synthetic::task(searcher);
        t.task.kernel = t.kernel.name;
        tasks.push_back(std::move(t));
    }
    return tasks;
}

struct SessionTest : ::testing::Test {
    std::vector<TuneResult> run(const std::vector<SessionTask> &tasks, Journal &journal, const Budget &budget) {
        SessionOptions options;
        options.budget = budget;
        return run_session(tasks, builder, measurer, journal, options, stop);
    }
    Journal journal(const std::string &name) { return Journal::create(folder.file(name), synthetic::run_info()); }

    Folder folder;
    synthetic::FakeBuilder builder;
    synthetic::FakeMeasurer measurer;
    std::atomic<bool> stop{false};
};

TEST_F(SessionTest, SlicesFindWhatOneSearchFinds) {
    Budget budget;
    budget.evaluations = 48;
    Journal together = journal("together.db"), alone = journal("alone.db");
    const std::vector<SessionTask> tasks = copies(3);
    run(tasks, together, budget);
    run({tasks[1]}, alone, budget);
    EXPECT_TRUE(
        synthetic::same(together.trials(together.task(tasks[1].task), "search"), alone.trials(alone.task(tasks[1].task), "search")));
    EXPECT_EQ(alone.trials(1, "search").size(), 48u);
    for (const SessionTask &t : tasks) EXPECT_TRUE(together.finished(together.task(t.task)).done) << t.task.name();
}

TEST_F(SessionTest, ManyTasksInLittleTimeBeginWithTheFirst) {
    measurer.event = [](const std::string &, const Config &) { std::this_thread::sleep_for(std::chrono::milliseconds(8)); };
    Budget budget;
    budget.seconds = 2;  // 40 times 9 candidates, each of them twice, take 5.8 at least
    budget.evaluations = 8;
    Journal j = journal("many.db");
    const std::vector<TuneResult> results = run(copies(40), j, budget);
    size_t begun = 0, finished = 0;
    for (const TuneResult &result : results) begun += result.evaluations > 0;
    for (const auto &[id, task] : j.tasks()) finished += j.finished(id).done;
    EXPECT_GT(begun, 0u);
    EXPECT_LT(begun, 40u);
    EXPECT_EQ(finished, begun) << "what has begun is finished, what has not stays open";
}

TEST_F(SessionTest, TimeThatFinalPhasesLeaveGoesToTheRest) {
    Budget budget;
    budget.seconds = 60;  // fewer than 15 final phases as long as they may be
    budget.evaluations = 8;
    Journal j = journal("rest.db");
    for (const TuneResult &result : run(copies(30), j, budget)) EXPECT_EQ(result.evaluations, 8u);
    for (const auto &[id, task] : j.tasks()) EXPECT_TRUE(j.finished(id).done) << task.name();
}

TEST_F(SessionTest, WhatIsFinishedIsLeftAlone) {
    Budget budget;
    budget.evaluations = 16;
    Journal j = journal("again.db");
    const std::vector<SessionTask> tasks = copies(2);
    EXPECT_FALSE(run({tasks[0]}, j, budget)[0].before);
    const Config winner = j.finished(1).winner;
    int touched = 0;
    measurer.event = [&](const std::string &, const Config &) { touched++; };
    Budget time;
    time.seconds = 60;
    for (const Budget &again : {budget, time, Budget()}) {
        const TuneResult result = run({tasks[0]}, j, again)[0];
        EXPECT_TRUE(result.before);
        EXPECT_EQ(result.winner.config, winner);
        EXPECT_EQ(result.evaluations, 16u);
    }
    EXPECT_EQ(touched, 0);
    const std::vector<TuneResult> both = run(tasks, j, budget);
    EXPECT_GT(touched, 0) << "the other one was open";
    EXPECT_TRUE(both[0].before);
    EXPECT_FALSE(both[1].before);
}

TEST_F(SessionTest, AFinishedTaskIsSearchedOnWithALargerBudget) {
    Budget budget;
    Journal j = journal("larger.db"), once = journal("once.db");
    const std::vector<SessionTask> tasks = copies(2);
    budget.evaluations = 16;
    run(tasks, j, budget);
    budget.evaluations = 64;
    for (const TuneResult &result : run(tasks, j, budget)) {
        EXPECT_FALSE(result.before);
        EXPECT_EQ(result.evaluations, 64u);
    }
    run(tasks, once, budget);
    for (const auto &[id, task] : j.tasks()) {
        EXPECT_TRUE(synthetic::same(j.trials(id, "search"), once.trials(id, "search")));
        EXPECT_TRUE(synthetic::same(j.trials(id, "final"), once.trials(id, "final"))) << "the winner of fewer is no winner of more";
        EXPECT_EQ(j.finished(id).winner, once.finished(id).winner);
    }
    // The whole space has 189 points: a budget above that asks for nothing more than they.
    budget.evaluations = 1000;
    run(tasks, j, budget);
    for (const TuneResult &result : run(tasks, j, budget)) EXPECT_TRUE(result.before);
    // Of a time that is over the searches recorded before are not lost.
    budget.evaluations = 64;
    Journal k = journal("late.db");
    run(tasks, k, budget);
    budget.evaluations = 189;
    budget.seconds = 1e-9;
    for (const TuneResult &result : run(tasks, k, budget)) {
        EXPECT_TRUE(result.before);
        EXPECT_EQ(result.evaluations, 64u);
    }
}

TEST_F(SessionTest, AFinishedTaskTriesAConfigurationThatItLacks) {
    const std::vector<SessionTask> tasks = copies(1, "given");
    Journal j = journal("given.db");
    SessionOptions options;
    const auto tried = [&](const Config &config) {
        options.start = {config};
        const TuneResult result = run_session(tasks, builder, measurer, j, options, stop)[0];
        EXPECT_TRUE(j.finished(1).done);
        return std::make_pair(result.before, j.trials(1, "search").size());
    };
    EXPECT_EQ(tried({{"rows", 8}}), std::make_pair(false, size_t{1}));
    EXPECT_EQ(tried({{"rows", 8}}), std::make_pair(true, size_t{1}));
    EXPECT_EQ(tried({{"rows", 8}, {"panel", 64}}), std::make_pair(false, size_t{2}));
    EXPECT_EQ(j.finished(1).winner.at("panel"), 64) << "compared with what was tried before";
}

/// Named configurations join the journal of any search of the kernel, which then goes on as if they had not been there.
TEST_F(SessionTest, ASearchTakesInConfigurationsThatAreNamed) {
    Budget budget;
    budget.evaluations = 16;
    const std::vector<SessionTask> searched = copies(1);
    Journal j = journal("joined.db"), alone = journal("alone.db");
    run(searched, j, budget);
    const size_t before = j.trials(1, "search").size();
    std::vector<SessionTask> given = copies(1, "given");
    given[0].task.space = given[0].task.space.with_parameters({"rows", "panel"});
    given[0].task.seed = 9;
    SessionOptions options;
    const Config named = given[0].task.space.config(given[0].task.space.point({{"rows", 8}, {"panel", 64}}));
    options.start = {named};
    run_session(given, builder, measurer, j, options, stop);
    const std::vector<Trial> trials = j.trials(1, "search");
    EXPECT_TRUE(std::any_of(trials.begin(), trials.end(), [&](const Trial &t) { return t.config == named; }));
    EXPECT_GE(trials.size(), before);
    EXPECT_EQ(j.tasks().size(), 1u);
    budget.evaluations = 32;
    run(searched, j, budget);
    run(searched, alone, budget);
    for (const Trial &trial : alone.trials(1, "search")) {
        const std::vector<Trial> all = j.trials(1, "search");
        EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Trial &t) { return t.config == trial.config; }));
    }
}

TEST_F(SessionTest, ATaskWhoseDefaultFailsEndsAlone) {
    Budget budget;
    budget.evaluations = 16;
    const std::vector<SessionTask> tasks = copies(3);
    builder.broken = {tasks[1].kernel.name};
    Journal j = journal("broken.db");
    std::vector<TuneResult> results = run(tasks, j, budget);
    for (const size_t i : {0u, 2u}) {
        EXPECT_FALSE(results[i].failed);
        EXPECT_EQ(results[i].evaluations, 16u);
        EXPECT_TRUE(j.finished(j.task(tasks[i].task)).done);
    }
    EXPECT_TRUE(results[1].failed);
    EXPECT_THAT(results[1].why, HasSubstr("the default configuration of " + tasks[1].task.name() + " cannot be built"));
    EXPECT_FALSE(j.finished(j.task(tasks[1].task)).done);
    EXPECT_TRUE(j.trials(j.task(tasks[1].task), "search").empty());
    builder.broken = {};
    results = run(tasks, j, budget);
    EXPECT_FALSE(results[1].failed);
    EXPECT_TRUE(j.finished(j.task(tasks[1].task)).done) << "another time it is tried again";
}

TEST_F(SessionTest, ADefaultThatFailsInTheFinalPhaseIsTriedAgain) {
    Budget budget;
    budget.evaluations = 8;
    measurer.outcome = [](const Config &c) { return c == synthetic::task().default_config ? Status::kRunTimeout : synthetic::status(c); };
    const std::vector<SessionTask> tasks = copies(2);
    Journal j = journal("final.db");
    for (const TuneResult &result : run(tasks, j, budget)) {
        EXPECT_TRUE(result.failed);
        EXPECT_THAT(result.why, HasSubstr("failed in the final phase"));
        EXPECT_EQ(result.evaluations, 8u);
    }
    measurer.outcome = synthetic::status;
    for (const TuneResult &result : run(tasks, j, budget)) EXPECT_FALSE(result.failed) << result.why;
    for (const auto &[id, task] : j.tasks()) EXPECT_TRUE(j.finished(id).done) << task.name();
}

TEST_F(SessionTest, WhatIsNoTasksFaultEndsTheSession) {
    builder.event = [](const std::string &, const Config &) { throw Error("the disk is full"); };
    Journal j = journal("full.db");
    EXPECT_THAT(synthetic::error_of([&] { run(copies(2), j, {}); }), HasSubstr("the disk is full"));
}

TEST_F(SessionTest, FinishingLeavesWhatHasNoTrials) {
    Journal j = journal("finish.db");
    const std::vector<SessionTask> tasks = copies(2);
    const auto searcher = make_searcher("random", tasks[0].task.space, tasks[0].task.seed);
    Budget budget;
    budget.evaluations = 16;
    search(tasks[0].task, tasks[0].kernel, *searcher, builder, measurer, j, budget, {}, stop);
    SessionOptions options;
    options.finish = true;
    const std::vector<TuneResult> results = run_session(tasks, builder, measurer, j, options, stop);
    EXPECT_EQ(results[0].evaluations, 16u);
    EXPECT_TRUE(j.finished(j.task(tasks[0].task)).done);
    EXPECT_EQ(results[1].evaluations, 0u);
    EXPECT_FALSE(results[1].failed);
    EXPECT_FALSE(j.finished(j.task(tasks[1].task)).done);
}

TEST_F(SessionTest, TimeLeftIsKnownWhereTheEndIs) {
    std::vector<Progress> searching;
    SessionOptions options;
    options.progress = [&](size_t, const Progress &p) {
        if (p.phase == "search") searching.push_back(p);
    };
    const auto of = [&](const std::string &searcher, Journal &j, const Budget &budget) {
        searching.clear();
        options.budget = budget;
        run_session(copies(2, searcher), builder, measurer, j, options, stop);
        ASSERT_FALSE(searching.empty());
    };
    Budget budget;
    budget.evaluations = 32;
    Journal j = journal("left.db");
    of("random", j, budget);
    EXPECT_EQ(searching.front().seconds_left, -1) << "nothing is measured yet";
    EXPECT_GE(searching.back().seconds_left, 0);
    EXPECT_EQ(searching.back().of, 32u);
    budget.evaluations = 48;
    of("random", j, budget);
    const auto fresh = std::find_if(searching.begin(), searching.end(), [](const Progress &p) { return p.evaluations > 32; });
    ASSERT_NE(fresh, searching.end());
    EXPECT_GE(fresh->seconds_left, 0);
    for (auto p = searching.begin(); p != fresh; ++p) EXPECT_EQ(p->seconds_left, -1) << "what is read back took no time";
    Journal whole = journal("whole.db");
    of("exhaustive", whole, {});
    EXPECT_EQ(searching.back().of, 189u);
    EXPECT_GE(searching.back().seconds_left, 0);
    budget = {};
    budget.no_gain = 20;
    Journal open = journal("open.db");
    of("random", open, budget);
    for (const Progress &p : searching) {
        EXPECT_EQ(p.of, 0u);
        EXPECT_EQ(p.seconds_left, -1);
    }
}

TEST_F(SessionTest, StopMarksAllResults) {
    measurer.event = [&](const std::string &, const Config &) { stop = true; };
    Journal j = journal("stopped.db");
    for (const TuneResult &result : run(copies(3), j, {})) EXPECT_TRUE(result.interrupted);
    for (const auto &[id, task] : j.tasks()) EXPECT_FALSE(j.finished(id).done);
}

TEST(NextTask, ExhaustedTasksAreLeft) {
    std::vector<TaskProgress> tasks(2);
    tasks[0].exhausted = true;
    EXPECT_EQ(next_task(tasks), 1);
    tasks[1].exhausted = true;
    EXPECT_EQ(next_task(tasks), -1);
}

TEST(Plan, ATaskPerClass) {
    const std::vector<SessionTask> tasks = plan_tasks(kernels(), request("core_chunk_channel_tied_128x128"));
    ASSERT_EQ(tasks.size(), 2u);
    EXPECT_EQ(tasks[0].task.name(), "core_chunk_channel_tied_128x128 x86_avx2 short");
    EXPECT_EQ(tasks[1].task.name(), "core_chunk_channel_tied_128x128 x86_avx2 long");
    for (const SessionTask &t : tasks) {
        for (const Shape &shape : t.task.shapes) EXPECT_EQ(class_of(t.kernel, shape), t.task.length_class) << text_of(shape);
        EXPECT_THAT(names(t.task.space), Contains("time_block"));
        EXPECT_THAT(names(t.task.space), Not(Contains("task_grain"))) << "one thread has no use for it";
    }
}

TEST(Plan, ThreadsAndRaggedLengthsBringTheirParameters) {
    PlanRequest r = request("core_chunk_channel_tied_128x128");
    r.shapes = {"T=500,H=4,threads=2"};
    const std::vector<SessionTask> tasks = plan_tasks(kernels(), r);
    ASSERT_EQ(tasks.size(), 1u);
    for (const char *name : {"task_grain", "v_slice_min", "tail_steps"}) EXPECT_THAT(names(tasks[0].task.space), Contains(name));
}

TEST(Plan, WhatIsGivenSeveralValuesIsSearched) {
    PlanRequest r = request("core_chunk_channel_tied_128x128");
    r.values = {{"task_grain", {0, 1, 2}}, {"v_slice_min", {16}}};  // one thread shows neither
    for (const SessionTask &t : plan_tasks(kernels(), r)) {
        EXPECT_THAT(names(t.task.space), Contains("task_grain"));
        EXPECT_THAT(names(t.task.space), Contains("rows")) << "besides what the shapes show";
        for (const Parameter &p : t.task.space.parameters()) {
            if (p.name == "task_grain") {
                EXPECT_THAT(p.values, ElementsAre(0, 1, 2));
            } else if (p.name == "v_slice_min") {
                EXPECT_THAT(p.values, ElementsAre(16));
            }
        }
    }
    r.parameters = {"rows"};
    EXPECT_THAT(refusal(r), HasSubstr("task_grain"));
    r.values = {{"task_grain", {1}}};
    EXPECT_THAT(names(plan_tasks(kernels(), r).at(0).task.space), ElementsAre("rows"));
}

TEST(Plan, WhatAConfigurationNamesIsSearched) {
    PlanRequest r = request("core_*_channel_tied_128x128*");
    r.configs = {Config{{"fetch_lines", 4}, {"task_grain", 2}}};  // one thread does not show the second
    const std::vector<SessionTask> tasks = plan_tasks(kernels(), r);
    for (const SessionTask &t : tasks) {
        EXPECT_EQ(t.kernel.family, "core_chunk") << "others have no such point";
        EXPECT_THAT(names(t.task.space), UnorderedElementsAre("fetch_lines", "task_grain"));
        const std::vector<Point> points = points_of(t.task.space, r.configs);
        ASSERT_EQ(points.size(), 1u);
        Config expected = t.task.default_config;
        expected["fetch_lines"] = 4, expected["task_grain"] = 2;
        EXPECT_EQ(t.task.space.config(points[0]), expected);
    }
    EXPECT_FALSE(tasks.empty());
    r = request("core_chunk_channel_tied_128x128");
    r.configs = {Config{{"rows", 3}}};
    EXPECT_THAT(refusal(r), HasSubstr("3 is none of them"));
    r.configs = {Config{{"rose", 8}}};
    EXPECT_THAT(refusal(r), HasSubstr("rose"));
    r.configs = {Config{{"rows", 2}}};
    r.base = {{"state_rows", 2}, {"rows", 4}};
    const Space space = plan_tasks(kernels(), r).at(0).task.space;
    const Config config = space.config(points_of(space, r.configs).at(0));
    EXPECT_EQ(config.at("rows"), 2);
    EXPECT_EQ(config.at("state_rows"), 2);
    r.parameters = {"cols"};
    EXPECT_THAT(refusal(r), HasSubstr("2 is none of them")) << "rows are none of those to search";
}

TEST(Plan, ConfigurationsAreComplete) {
    PlanRequest r = request("core_chunk_channel_tied_128x128");
    r.parameters = {"rows"};
    r.base = {{"state_rows", 2}};
    const SessionTask t = plan_tasks(kernels(), r).at(0);
    EXPECT_THAT(names(t.task.space), ElementsAre("rows"));
    const Config config = t.task.space.config(t.task.space.default_point());
    EXPECT_EQ(config.size(), t.kernel.space.parameters().size());
    EXPECT_EQ(config.at("state_rows"), 2);
    EXPECT_EQ(t.task.default_config.at("state_rows"), 4) << "the anchor is the default, not the base";
}

TEST(Plan, NamesWhatIsWrong) {
    EXPECT_THAT(refusal(request("core_chunk_channel_tied_128x129")), HasSubstr("core_chunk_channel_tied_128x128"));
    EXPECT_THAT(refusal(request("map_copy_f32")), HasSubstr("map_copy_f32"));
    PlanRequest r = request("core_chunk_channel_tied_128x128");
    r.target = "x86_avx1024";
    EXPECT_THAT(refusal(r), HasSubstr("x86_avx1024"));
    r = request("core_chunk_channel_tied_128x128");
    r.values = {{"rose", {4}}};
    EXPECT_THAT(refusal(r), HasSubstr("rose"));
    r.values = {{"rows", {5}}};
    EXPECT_THAT(refusal(r), HasSubstr("5"));
    r.values = {{"rows", {8}}, {"cols", {64}}};  // 64 accumulators of AVX2
    EXPECT_THAT(refusal(r), HasSubstr("registers"));
    r.values = {};
    r.base = {{"rows", 3}};
    EXPECT_THAT(refusal(r), HasSubstr("3"));
    r.base = {};
    r.shapes = {"T=4"};
    EXPECT_THAT(refusal(r), HasSubstr("8 tokens"));
    // Of a glob, the kernels that the shapes fit are tuned.
    r = request("core_*_channel_tied_128x128*");
    r.shapes = {"T=1024,H=4"};
    for (const SessionTask &t : plan_tasks(kernels(), r)) EXPECT_EQ(t.kernel.family, "core_chunk");
}

}  // namespace
}  // namespace gdn::tune
