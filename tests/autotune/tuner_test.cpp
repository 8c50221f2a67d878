// search() and finish() on a synthetic kernel.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "autotune/tuner.h"
#include "synthetic.h"

namespace gdn::tune {
namespace {

using namespace synthetic;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

/// Writes down what is asked for.
class Recorder : public Searcher {
public:
    explicit Recorder(const Task &task) : space_(task.space), searcher_(make_searcher(task.searcher, task.space, task.seed)) {}
    std::string name() const override { return searcher_->name(); }
    std::vector<Point> ask(size_t n) override {
        std::vector<Point> points = searcher_->ask(n);
        for (const Point &point : points) asked.push_back(text_of(space_.config(point)));
        return points;
    }
    void tell(const Point &point, const Outcome &outcome) override {
        told.emplace_back(text_of(space_.config(point)), outcome);
        searcher_->tell(point, outcome);
    }
    std::vector<std::string> asked;
    std::vector<std::pair<std::string, Outcome>> told;

private:
    const Space space_;
    std::unique_ptr<Searcher> searcher_;
};

struct Tuner {
    FakeBuilder builder;
    FakeMeasurer measurer;
    std::vector<Progress> progress;
    std::atomic<bool> stop{false};
    std::vector<std::string> asked;
    std::vector<std::pair<std::string, Outcome>> told;

    TuneResult search(const Task &task, Journal &journal, const Budget &budget = {}) {
        Recorder searcher(task);
        const TuneResult result = tune::search(
            task, kernel(), searcher, builder, measurer, journal, budget, [&](const Progress &p) { progress.push_back(p); }, stop);
        asked = searcher.asked;
        told = searcher.told;
        return result;
    }
    TuneResult finish(const Task &task, Journal &journal) {
        return tune::finish(
            task, kernel(), builder, measurer, journal, [&](const Progress &p) { progress.push_back(p); }, stop);
    }
};

Budget evaluations(uint64_t n) {
    Budget budget;
    budget.evaluations = n;
    return budget;
}

TEST(Tuner, FindsTheBestOfTheWholeSpace) {
    const Folder folder;
    Journal journal = Journal::create(folder.file("a.db"), run_info());
    Tuner tuner;
    const TuneResult found = tuner.search(task(), journal);
    EXPECT_EQ(found.evaluations, task().space.valid_count());
    EXPECT_EQ(text_of(found.winner.config), text_of(kBest));
    EXPECT_TRUE(found.improved);
    EXPECT_FALSE(found.interrupted);
    EXPECT_EQ(tuner.progress.back().phase, "search");
    EXPECT_EQ(tuner.progress.back().evaluations, 189u);
    EXPECT_EQ(tuner.progress.back().of, 189u);
    EXPECT_EQ(tuner.progress.back().best_config, kBest);

    const int64_t id = journal.task(task());
    const std::vector<Trial> trials = journal.trials(id, "search");
    std::map<Status, int> seen;
    for (const Trial &trial : trials) {
        EXPECT_EQ(trial.status, status(trial.config)) << text_of(trial.config);
        EXPECT_EQ(trial.error.empty(), trial.status == Status::kOk);
        seen[trial.status]++;
    }
    EXPECT_EQ(trials.size(), 189u);
    EXPECT_EQ(seen.size(), 8u) << "every status but skipped";
    EXPECT_FALSE(journal.finished(id).done);

    const TuneResult won = tuner.finish(task(), journal);
    EXPECT_EQ(text_of(won.winner.config), text_of(kBest));
    EXPECT_TRUE(won.improved);
    EXPECT_EQ(won.evaluations, 189u);
    EXPECT_THAT(won.why, HasSubstr(" takes 1"));
    EXPECT_EQ(tuner.progress.back().phase, "final");
    const std::vector<Trial> finals = journal.trials(id, "final");
    ASSERT_EQ(finals.size(), 6u) << "five and the default";
    std::set<std::string> best;
    for (const Trial &trial : finals) {
        best.insert(text_of(trial.config));
        EXPECT_EQ(trial.ns.at(0).size(), 21u) << "three times the rounds";
    }
    EXPECT_TRUE(best.count(text_of(kBest)));
    EXPECT_TRUE(best.count(text_of(task().default_config)));
    EXPECT_TRUE(journal.finished(id).done);
    EXPECT_EQ(journal.finished(id).winner, kBest);
    EXPECT_EQ(journal.finished(id).why, won.why);
}

TEST(Tuner, BuildsABatchBeforeItMeasuresIt) {
    const Folder folder;
    Journal journal = Journal::create(folder.file("a.db"), run_info());
    Tuner tuner;
    std::vector<std::string> phases;
    const auto event = [&](const std::string &what, const Config &) {
        if (phases.empty() || phases.back() != what) phases.push_back(what);
    };
    tuner.builder.event = tuner.measurer.event = event;
    tuner.search(task("random"), journal, evaluations(24));
    EXPECT_EQ(phases, (std::vector<std::string>{"build", "measure", "build", "measure", "build", "measure"}));
}

TEST(Tuner, MeasuresIdenticalObjectsOnce) {
    const Folder folder;
    Journal journal = Journal::create(folder.file("a.db"), run_info());
    Tuner tuner;
    std::multiset<std::string> measured;
    tuner.measurer.event = [&](const std::string &, const Config &c) {
        measured.insert(object_of(c) + std::to_string(c.at("time_block")));
    };
    tuner.search(task(), journal);
    EXPECT_GT(measured.size(), 50u);
    for (const std::string &object : measured) EXPECT_EQ(measured.count(object), 1u) << object;
    std::map<std::string, Trial> first;
    int copies = 0;
    for (Trial trial : journal.trials(journal.task(task()), "search")) {
        if (!builds(trial.config)) continue;
        const auto [it, fresh] = first.insert({object_of(trial.config) + std::to_string(trial.config.at("time_block")), trial});
        if (fresh) continue;
        copies++;
        trial.config = it->second.config;
        trial.build_seconds = it->second.build_seconds;
        EXPECT_TRUE(same(trial, it->second));
    }
    EXPECT_GT(copies, 20);
}

TEST(Tuner, TellsTheSearcherEverythingInTheOrderOfItsAsking) {
    const Folder folder;
    Journal journal = Journal::create(folder.file("a.db"), run_info());
    Tuner tuner;
    tuner.search(task("random"), journal, evaluations(64));
    ASSERT_EQ(tuner.told.size(), tuner.asked.size());
    for (size_t i = 0; i < tuner.asked.size(); i++) {
        EXPECT_EQ(tuner.told[i].first, tuner.asked[i]);
        const Config config = parse_config(tuner.asked[i]);
        EXPECT_EQ(tuner.told[i].second.status, status(config));
        EXPECT_NEAR(tuner.told[i].second.cost, status(config) == Status::kOk ? surface(config) : 0, 0.01);
    }
}

TEST(Tuner, KeepsToItsBudget) {
    const Folder folder;
    Journal journal = Journal::create(folder.file("a.db"), run_info());
    Tuner tuner;
    EXPECT_EQ(tuner.search(task("random"), journal, evaluations(24)).evaluations, 24u);
    EXPECT_EQ(tuner.progress.back().of, 24u);
    EXPECT_EQ(tuner.search(task("random"), journal, evaluations(30)).evaluations, 32u) << "batches are whole";
    Budget budget;
    budget.seconds = 1e-9;
    EXPECT_EQ(tuner.search(task("random"), journal, budget).evaluations, 0u);
    budget = {};
    budget.no_gain = 20;
    const uint64_t n = tuner.search(task("random"), journal, budget).evaluations;
    EXPECT_LT(n, 189u);
    double best = 1;
    uint64_t gain = 0;
    for (uint64_t i = 0; i < n; i++) {
        const Outcome &o = tuner.told[i].second;
        if (o.status == Status::kOk && o.cost < best) {
            best = o.cost;
            gain = i + 1;
        }
    }
    EXPECT_GE(n - gain, 20u);
    EXPECT_LT(n - gain, 28u);
}

TEST(Tuner, SearchesOnAsIfItHadNeverPaused) {
    const Folder folder;
    Journal whole = Journal::create(folder.file("whole.db"), run_info()), slices = Journal::create(folder.file("slices.db"), run_info());
    for (const std::string &name : searcher_names()) {
        Tuner a, b;
        Task t = task(name);
        t.kernel += name;
        a.search(t, whole, evaluations(96));
        int builds = 0;
        b.builder.event = [&](const std::string &, const Config &) { builds++; };
        for (const uint64_t n : {8, 20, 50, 96}) b.search(t, slices, evaluations(n));
        EXPECT_EQ(a.asked, b.asked) << name;
        EXPECT_TRUE(same(whole.trials(whole.task(t), "search"), slices.trials(slices.task(t), "search"))) << name;
        EXPECT_LE(builds, static_cast<int>(a.asked.size()) + 4) << name << ": besides the default, nothing is built twice";
        EXPECT_EQ(a.finish(t, whole).why, b.finish(t, slices).why) << name;
    }
}

TEST(Tuner, AFinishedTaskIsNotMeasuredAgain) {
    const Folder folder;
    Journal journal = Journal::create(folder.file("a.db"), run_info());
    Tuner tuner;
    tuner.search(task("random"), journal, evaluations(32));
    const TuneResult first = tuner.finish(task("random"), journal);
    tuner.builder.event = tuner.measurer.event = [](const std::string &what, const Config &) { FAIL() << what; };
    const TuneResult again = tuner.finish(task("random"), journal);
    EXPECT_TRUE(same(again.winner, first.winner));
    EXPECT_EQ(again.why, first.why);
    EXPECT_EQ(again.evaluations, 32u);
    tuner.search(task("random"), journal, evaluations(32));
    EXPECT_TRUE(journal.finished(journal.task(task("random"))).done);
}

TEST(Tuner, StopsAndGoesOn) {
    const Folder folder;
    Journal whole = Journal::create(folder.file("whole.db"), run_info()), journal = Journal::create(folder.file("a.db"), run_info());
    Tuner reference;
    reference.search(task("random"), whole, evaluations(64));
    int64_t id = journal.task(task("random"));
    for (const int after : {3, 12, 30, 45}) {
        Tuner tuner;
        int events = 0;
        tuner.builder.event = tuner.measurer.event = [&](const std::string &, const Config &) { tuner.stop = ++events >= after; };
        const TuneResult result = tuner.search(task("random"), journal, evaluations(64));
        EXPECT_TRUE(result.interrupted);
        EXPECT_LT(result.evaluations, 64u);
        for (const auto &[config, outcome] : tuner.told) EXPECT_NE(outcome.status, Status::kSkipped) << config;
        const TuneResult finish = tuner.finish(task("random"), journal);
        EXPECT_TRUE(finish.interrupted);
        EXPECT_FALSE(journal.finished(id).done);
        EXPECT_TRUE(journal.trials(id, "final").empty());
        for (const Trial &trial : journal.trials(id, "search")) EXPECT_NE(trial.status, Status::kSkipped);
    }
    Tuner tuner;
    EXPECT_FALSE(tuner.search(task("random"), journal, evaluations(64)).interrupted);
    EXPECT_EQ(tuner.asked, reference.asked);
    EXPECT_EQ(tuner.finish(task("random"), journal).why, reference.finish(task("random"), whole).why);

    // A final phase that is interrupted leaves nothing.
    Journal third = Journal::create(folder.file("third.db"), run_info());
    id = third.task(task("random"));
    Tuner late;
    late.search(task("random"), third, evaluations(64));
    int measured = 0;
    late.measurer.event = [&](const std::string &, const Config &) { late.stop = ++measured == 3; };
    EXPECT_TRUE(late.finish(task("random"), third).interrupted);
    EXPECT_TRUE(third.trials(id, "final").empty());
    EXPECT_FALSE(third.finished(id).done);
}

TEST(Tuner, NeedsTheDefault) {
    const Folder folder;
    Journal journal = Journal::create(folder.file("a.db"), run_info());
    Tuner tuner;
    tuner.builder.broken.insert(text_of(task().default_config));
    EXPECT_THAT(error_of([&] { tuner.search(task(), journal); }),
        AllOf(HasSubstr("default configuration of core_synthetic_128x128 x86_avx512"), HasSubstr("the generator says no")));
    Tuner other;
    other.search(task(), journal, evaluations(16));
    other.measurer.outcome = [](const Config &) { return Status::kRunTimeout; };
    EXPECT_THAT(error_of([&] { other.finish(task(), journal); }), AllOf(HasSubstr("final phase"), HasSubstr("the candidate failed")));
    EXPECT_FALSE(journal.finished(journal.task(task())).done);
}

TEST(Tuner, KeepsTheDefaultWhereNothingIsFaster) {
    const Folder folder;
    Journal journal = Journal::create(folder.file("a.db"), run_info());
    Tuner tuner;
    tuner.measurer.cost = [](const Config &c) { return c == task().default_config ? 1 : 1.02; };
    EXPECT_EQ(tuner.search(task(), journal).winner.config, task().default_config);
    const TuneResult result = tuner.finish(task(), journal);
    EXPECT_FALSE(result.improved);
    EXPECT_EQ(result.winner.config, task().default_config);
    EXPECT_THAT(result.why, HasSubstr("no candidate is faster beyond doubt"));
    EXPECT_EQ(journal.finished(journal.task(task())).winner, task().default_config);

    Task lonely = task();
    lonely.kernel = "lonely";
    tuner.measurer.outcome = [](const Config &c) { return c == task().default_config ? Status::kOk : Status::kCrashed; };
    tuner.search(lonely, journal, evaluations(8));
    EXPECT_THAT(tuner.finish(lonely, journal).why, HasSubstr("no other candidate"));
}

// Final trials as they may come; the decision is made anew from those.
TuneResult decision(const std::vector<std::tuple<const char *, double, double>> &intervals, size_t spoilt = 99, Status how = Status::kOk) {
    const Folder folder;
    Journal journal = Journal::create(folder.file("a.db"), run_info());
    std::vector<Trial> finals;
    for (const auto &[changes, low, high] : intervals) {
        Trial trial;
        trial.config = task().default_config;
        if (*changes) {
            for (const auto &[name, value] : parse_config(changes)) trial.config[name] = value;
        }
        trial.status = Status::kOk;
        trial.cost = {(low + high) / 2, low, high, (low + high) / 2, 0, 21};
        if (finals.size() == spoilt) {
            trial.status = how;
            trial.abandoned = how == Status::kOk;
        }
        finals.push_back(trial);
    }
    journal.add(journal.task(task()), "final", finals);
    Tuner tuner;
    TuneResult result = tuner.finish(task(), journal);
    EXPECT_EQ(journal.finished(journal.task(task())).winner, result.winner.config);
    return result;
}

Config changed(const std::string &text) {
    Config config = task().default_config;
    for (const auto &[name, value] : parse_config(text)) config[name] = value;
    return config;
}

TEST(Tuner, AcceptsAWinnerOnlyBelowTheDefault) {
    EXPECT_EQ(decision({{"", 0.99, 1.01}, {"rows:8", 0.95, 0.98}}).winner.config, changed("rows:8"));
    TuneResult doubtful = decision({{"", 0.99, 1.01}, {"rows:8", 0.95, 0.995}});
    EXPECT_EQ(doubtful.winner.config, task().default_config);
    EXPECT_FALSE(doubtful.improved);
    EXPECT_THAT(doubtful.why, HasSubstr("rows:8 takes 2.8 % less time than the default (0.5 to 5.0 %)"));
    const TuneResult clear = decision({{"rows:8", 0.85, 0.87}, {"", 0.99, 1.01}, {"rows:2", 0.95, 0.97}});
    EXPECT_EQ(clear.why, "rows:8 takes 14.0 % less time than the default (13.0 to 15.0 %)");
    EXPECT_TRUE(clear.improved);
}

TEST(Tuner, TakesTheSimplerOfWhatIsAsFast) {
    // Two parameters differ, then one; their intervals overlap.
    const TuneResult tie = decision({{"", 0.99, 1.01}, {"rows:8,unroll:4", 0.90, 0.92}, {"rows:8", 0.91, 0.93}, {"unroll:4", 0.95, 0.96}});
    EXPECT_EQ(tie.winner.config, changed("rows:8"));
    EXPECT_THAT(tie.why, HasSubstr("simpler than rows:8,unroll:4, which is as fast"));
    // As simple: by text, whichever is first.
    EXPECT_EQ(decision({{"unroll:4", 0.90, 0.92}, {"rows:8", 0.91, 0.93}, {"", 0.99, 1.01}}).winner.config, changed("unroll:4"));
    EXPECT_EQ(decision({{"rows:8", 0.91, 0.93}, {"unroll:4", 0.90, 0.92}, {"", 0.99, 1.01}}).winner.config, changed("unroll:4"));
    // Simpler and as fast as the best, but no faster than the default beyond doubt.
    EXPECT_EQ(
        decision({{"", 0.98, 1.02}, {"rows:8,unroll:4", 0.90, 0.92}, {"rows:8", 0.91, 0.99}}).winner.config, changed("rows:8,unroll:4"));
}

TEST(Tuner, AFinalistThatFailsIsOut) {
    for (const Status how : {Status::kCrashed, Status::kRunTimeout, Status::kWrongResult, Status::kOk /* abandoned */}) {
        EXPECT_EQ(decision({{"", 0.99, 1.01}, {"rows:8", 0.7, 0.71}, {"unroll:4", 0.9, 0.91}}, 1, how).winner.config, changed("unroll:4"));
    }
}

TEST(Tuner, FinalistsAreDistinct) {
    const Folder folder;
    Journal journal = Journal::create(folder.file("a.db"), run_info());
    Tuner tuner;
    // Everything with two rows is fastest, three configurations of an object each.
    tuner.measurer.cost = [](const Config &c) { return c.at("rows") == 2 ? 0.5 + c.at("time_block") / 1000.0 : 1; };
    tuner.search(task(), journal);
    tuner.finish(task(), journal);
    std::set<std::string> objects;
    for (const Trial &trial : journal.trials(journal.task(task()), "final")) {
        EXPECT_TRUE(objects.insert(object_of(trial.config) + std::to_string(trial.config.at("time_block"))).second);
        EXPECT_TRUE(trial.config.at("rows") != 2 || trial.config.at("unroll") == 2) << "the default's value is the simpler";
    }
    EXPECT_EQ(objects.size(), 6u);
}

TEST(Tuner, AShardSkipsWhatIsNotItsOwn) {
    std::map<std::string, int> owners;
    for (int shard = 0; shard < 4; shard++) {
        const Folder folder;
        Journal journal = Journal::create(folder.file("a.db"), run_info());
        Task t = task();
        t.shard = shard;
        t.shards = 4;
        Tuner tuner;
        const TuneResult result = tuner.search(t, journal);
        EXPECT_EQ(tuner.told.size(), 189u);
        uint64_t own = 0;
        for (const auto &[config, outcome] : tuner.told) {
            if (outcome.status == Status::kSkipped) continue;
            owners[config]++;
            own++;
        }
        EXPECT_EQ(result.evaluations, own);
        EXPECT_EQ(journal.trials(journal.task(t), "search").size(), own);
        EXPECT_GT(own, 30u) << "shares are alike";
        EXPECT_LT(own, 65u);
    }
    EXPECT_EQ(owners.size(), 189u) << "together they are the space";
    for (const auto &[config, n] : owners) EXPECT_EQ(n, 1) << config;
}

// A process that tunes, and says so with a byte per build and per candidate under the clock.
pid_t tune_in_child(const std::string &path, const Task &t, const Budget &budget, int *events) {
    int ends[2];
    if (pipe(ends) != 0) return -1;
    const pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        try {
            Tuner tuner;
            tuner.builder.event = tuner.measurer.event = [&](const std::string &, const Config &) {
                if (write(ends[1], ".", 1) != 1) _exit(2);
                usleep(200);
            };
            Journal journal = std::filesystem::exists(path) ? Journal::open(path, false) : Journal::create(path, run_info());
            tuner.search(t, journal, budget);
            tuner.finish(t, journal);
        } catch (const std::exception &error) {
            std::fprintf(stderr, "%s\n", error.what());
            _exit(1);
        }
        _exit(0);
    }
    close(ends[1]);
    *events = ends[0];
    return child;
}

class KilledTuner : public testing::TestWithParam<std::string> {};

TEST_P(KilledTuner, GoesOnToTheSameBest) {
    const Folder folder;
    const Task t = task(GetParam(), 11);
    const Budget budget = evaluations(160);
    Tuner reference;
    std::vector<Trial> trials, finals;
    TuneResult best;
    {
        Journal journal = Journal::create(folder.file("whole.db"), run_info());
        reference.search(t, journal, budget);
        best = reference.finish(t, journal);
        trials = journal.trials(journal.task(t), "search");
        finals = journal.trials(journal.task(t), "final");
    }
    Random random(hash_of(GetParam()));
    const std::string path = folder.file("killed.db");
    for (int life = 0; life < 10; life++) {
        int events = -1;
        const pid_t child = tune_in_child(path, t, budget, &events);
        ASSERT_GT(child, 0);
        char byte;
        for (uint64_t left = random.below(40); left && read(events, &byte, 1) == 1; left--) {
        }
        usleep(static_cast<useconds_t>(random.below(3000)));
        kill(child, SIGKILL);
        int end = 0;
        waitpid(child, &end, 0);
        close(events);
        ASSERT_TRUE(WIFSIGNALED(end)) << "life " << life << " ended by itself with code " << WEXITSTATUS(end);
    }
    Journal journal = Journal::open(path, false);
    const int64_t id = journal.task(t);
    const size_t survived = journal.trials(id, "search").size();
    EXPECT_GT(survived, 0u);
    EXPECT_LT(survived, trials.size());
    Tuner tuner;
    tuner.search(t, journal, budget);
    const TuneResult result = tuner.finish(t, journal);
    EXPECT_EQ(tuner.asked, reference.asked);
    EXPECT_TRUE(same(journal.trials(id, "search"), trials));
    EXPECT_TRUE(same(journal.trials(id, "final"), finals));
    EXPECT_TRUE(same(result.winner, best.winner));
    EXPECT_EQ(result.why, best.why);
    EXPECT_EQ(result.evaluations, best.evaluations);
}

INSTANTIATE_TEST_SUITE_P(Searchers, KilledTuner, testing::ValuesIn(searcher_names()), [](const auto &info) { return info.param; });

}  // namespace
}  // namespace gdn::tune
