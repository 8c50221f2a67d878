// Experiments: files are read strictly, and strategies are simulated on what was recorded.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autotune/explore/simulated.h"
#include "report_fixture.h"
#include "support/folder.h"

namespace gdn::tune {
namespace {

using gdn_test::error_of;
using testing::HasSubstr;

const char *const kExperiment =
    R"({"title": "Strategies", "kernels": ["core_chunk_*"], "searchers": ["random", "local"], "seeds": [1, 2, 3]})";

std::string complaint_about(const std::string &json) {
    return error_of([&] { parse_experiment(json, "x.json"); });
}
/// kExperiment with a key more.
std::string with(const std::string &more) { return std::string(kExperiment, std::string(kExperiment).size() - 1) + ", " + more + "}"; }

TEST(Experiment, ReadsWhatItIsGiven) {
    const Experiment experiment = parse_experiment(with(R"("text": "Why", "targets": ["x86_avx2"], "space": {"parameters": ["rows", "cols"],
        "values": {"rows": [2, 4], "cols": [16]}}, "shapes": ["B=1,T=1024,H=16"], "budget": {"evaluations": 20, "share": 0.25},
        "repeats": 2, "batch": 4, "rounds": 5)"),
        "x.json");
    EXPECT_EQ(experiment.title, "Strategies");
    EXPECT_EQ(experiment.text, "Why");
    EXPECT_EQ(experiment.targets, std::vector<std::string>{"x86_avx2"});
    EXPECT_EQ(experiment.parameters, (std::vector<std::string>{"rows", "cols"}));
    EXPECT_EQ(experiment.values, (std::map<std::string, std::vector<int>>{{"rows", {2, 4}}, {"cols", {16}}}));
    EXPECT_EQ(experiment.seeds, (std::vector<uint64_t>{1, 2, 3}));
    EXPECT_EQ(experiment.evaluations, 20u);
    EXPECT_EQ(experiment.share, 0.25);
    EXPECT_EQ(experiment.batch, 4u);
    EXPECT_EQ(experiment.rounds, 5);
    const std::vector<ExperimentRun> runs = runs_of(experiment);
    ASSERT_EQ(runs.size(), 12u);
    EXPECT_EQ(runs[0].journal, "random-1-repeat1.db");
    EXPECT_EQ(runs[11].journal, "local-3-repeat2.db");
    EXPECT_EQ(runs_of(parse_experiment(kExperiment, "x.json"))[0].journal, "random-1.db");
}

TEST(Experiment, NamesWhatIsWrong) {
    EXPECT_EQ(complaint_about(kExperiment), "");
    EXPECT_THAT(complaint_about("{"), HasSubstr("x.json is no JSON"));
    EXPECT_THAT(complaint_about("[]"), HasSubstr("x.json: expected an object, got []"));
    EXPECT_THAT(complaint_about(R"({"title": "a", "title": "b"})"), HasSubstr("\"title\" stands twice"));
    EXPECT_THAT(complaint_about(R"({"kernels": ["a"], "searchers": ["random"]})"), HasSubstr("the key \"title\" is missing"));
    EXPECT_THAT(complaint_about(R"({"title": "a", "searchers": ["random"]})"), HasSubstr("the key \"kernels\" is missing"));
    EXPECT_THAT(complaint_about(R"({"title": "a", "kernels": [], "searchers": ["random"]})"),
        HasSubstr("\"kernels\": expected a list that is not empty, got []"));
    EXPECT_THAT(
        complaint_about(R"({"title": 1, "kernels": ["a"], "searchers": ["random"]})"), HasSubstr("\"title\": expected a string, got 1"));
    EXPECT_THAT(complaint_about(R"({"title": "a", "kernels": ["a"], "searchers": ["annealing"]})"),
        testing::AllOf(HasSubstr("unknown searcher \"annealing\""), HasSubstr("random")));
    EXPECT_THAT(complaint_about(with(R"("sapce": {})")), testing::AllOf(HasSubstr("unknown key \"sapce\""), HasSubstr("space")));
    EXPECT_THAT(complaint_about(with(R"("space": {"value": {}})")), HasSubstr("\"space\": unknown key \"value\""));
    EXPECT_THAT(complaint_about(with(R"("space": {"values": []})")), HasSubstr("expected an object"));
    EXPECT_THAT(complaint_about(with(R"("space": {"values": {"rows": [1.5]}})")), HasSubstr("\"rows\": expected whole numbers"));
    EXPECT_THAT(complaint_about(with(R"("space": {"values": {"rows": [2, 2]}})")), HasSubstr("nothing twice"));
    EXPECT_THAT(complaint_about(with(R"("targets": "x86_avx2")")), HasSubstr("\"targets\": expected a list"));
    EXPECT_THAT(complaint_about(with(R"("shapes": ["Z=3"])")), HasSubstr("\"shapes\": "));
    EXPECT_THAT(complaint_about(with(R"("budget": {"share": 0})")), HasSubstr("\"share\": expected a number above 0"));
    EXPECT_THAT(complaint_about(with(R"("budget": {"share": 1.5})")), HasSubstr("at most 1, got 1.5"));
    EXPECT_THAT(complaint_about(with(R"("budget": {"evaluations": -1})")), HasSubstr("\"evaluations\": expected whole numbers from 1"));
    EXPECT_THAT(complaint_about(with(R"("budget": {"seconds": 1})")), HasSubstr("unknown key \"seconds\""));
    EXPECT_THAT(complaint_about(with(R"("repeats": 0)")), HasSubstr("\"repeats\""));
    EXPECT_THAT(complaint_about(with(R"("batch": 1000)")), HasSubstr("\"batch\""));
}

TEST(Experiment, BudgetIsTheSmallerOfBoth) {
    const Space space = small_task().space;
    Experiment experiment;
    EXPECT_EQ(evaluations_of(experiment, space), 32u);
    experiment.share = 0.3;
    EXPECT_EQ(evaluations_of(experiment, space), 10u);
    experiment.evaluations = 5;
    EXPECT_EQ(evaluations_of(experiment, space), 5u);
}

/// Asks for the points of a list, and remembers what it is told.
class Listed : public Searcher {
public:
    explicit Listed(std::vector<Point> points) : points_(std::move(points)) {}
    std::string name() const override { return "listed"; }
    std::vector<Point> ask(size_t n) override {
        std::vector<Point> out;
        while (out.size() < n && next_ < points_.size()) out.push_back(points_[next_++]);
        return out;
    }
    void tell(const Point &, const Outcome &outcome) override { told.push_back(outcome); }
    std::vector<Outcome> told;

private:
    std::vector<Point> points_;
    size_t next_ = 0;
};

TEST(Simulation, AnswersFromTheRecord) {
    const Space space({{"a", Kind::kSchedule, {1, 2, 3, 4, 5}, 1}}, {});
    const Record record({{"a", 1}}, {measured({{"a", 2}}, 0.9, 1), failed({{"a", 3}}, Status::kCrashed, "x"), measured({{"a", 5}}, 0.5, 1),
                                        failed({{"a", 4}}, Status::kSkipped, "")});
    Listed searcher({{2}, {0}, {3}, {1}, {4}});
    const SimulatedRun run = simulate(searcher, space, record, 7, 2);
    EXPECT_EQ(run.best, (std::vector<double>{INFINITY, 1, 1, 0.9, 0.5, 0.5, 0.5}));
    EXPECT_EQ(run.unrecorded, 1u);
    ASSERT_EQ(searcher.told.size(), 5u);
    EXPECT_EQ(searcher.told[0].status, Status::kCrashed);
    EXPECT_EQ(searcher.told[1].cost, 1);  // the default's, though nobody recorded it
    EXPECT_EQ(searcher.told[2].status, Status::kSkipped);
    EXPECT_EQ(searcher.told[4].cost, 0.5);

    // Asked in whole batches, counted to the budget.
    Listed again({{2}, {0}, {3}, {1}, {4}});
    EXPECT_EQ(simulate(again, space, record, 3, 2).best.size(), 3u);
    EXPECT_EQ(again.told.size(), 4u);
}

ReportInput recorded() {
    ReportInput input;
    input.tasks = {recorded_task()};
    return input;
}

TEST(Simulation, IsDeterministicAndReachesTheBest) {
    Experiment experiment = parse_experiment(kExperiment, "x.json");
    const ReportInput first = simulate(experiment, recorded()), second = simulate(experiment, recorded());
    EXPECT_EQ(first.title, "Strategies");
    ASSERT_EQ(first.tasks.size(), 1u);
    ASSERT_EQ(first.tasks[0].strategies.size(), 2u);
    EXPECT_EQ(html(first), html(second));
    EXPECT_EQ(strategies_csv(first), strategies_csv(second));
    const double best = surface({{"rows", 4}, {"cols", 32}, {"unroll", 1}}) / surface(small_task().default_config);
    for (const Convergence &strategy : first.tasks[0].strategies) {
        EXPECT_EQ(strategy.unrecorded, 0u);
        ASSERT_EQ(strategy.best.size(), 3u);
        for (const std::vector<double> &run : strategy.best) {
            ASSERT_EQ(run.size(), 32u);
            EXPECT_EQ(run[0], 1);  // begins with the default
            EXPECT_NEAR(run.back(), best, 1e-12);
        }
    }
    EXPECT_NE(first.tasks[0].strategies[0].best[0], first.tasks[0].strategies[0].best[1]);  // seeds differ
}

TEST(Simulation, RestrictsTheRecordedSpace) {
    const Experiment experiment =
        parse_experiment(with(R"("space": {"parameters": ["rows", "cols"], "values": {"cols": [16, 32]}})"), "x.json");
    const ReportInput out = simulate(experiment, recorded());
    EXPECT_EQ(out.tasks[0].task.space.valid_count(), 6u);
    EXPECT_EQ(out.tasks[0].trials.size(), 6u);
    EXPECT_EQ(out.tasks[0].strategies[0].best[0].size(), 6u);
}

TEST(Simulation, CountsWhatWasNeverRecorded) {
    ReportInput input = recorded();
    input.tasks[0].trials.resize(10);
    const ReportInput out = simulate(parse_experiment(kExperiment, "x.json"), input);
    EXPECT_GT(out.tasks[0].strategies[0].unrecorded, 3u * 20);
    EXPECT_THAT(html(out), HasSubstr("Not recorded"));
}

TEST(Simulation, NamesWhatTheJournalLacks) {
    const auto complaint_of = [](const std::string &json) {
        return error_of([&] { simulate(parse_experiment(json, "x.json"), recorded()); });
    };
    EXPECT_THAT(complaint_of(R"({"title": "a", "kernels": ["core_step_*"], "searchers": ["random"]})"),
        HasSubstr("it has core_chunk_channel_tied_128x128 x86_avx512 long"));
    EXPECT_THAT(complaint_of(with(R"("targets": ["x86_avx2"])")), HasSubstr("no task"));
    EXPECT_THAT(complaint_of(with(R"("space": {"parameters": ["columns"]})")), HasSubstr("columns"));
    EXPECT_THAT(complaint_of(with(R"("space": {"values": {"rows": [3]}})")), HasSubstr("3"));
    EXPECT_THAT(complaint_of(with(R"("space": {"values": {"rows": [8], "cols": [64]}})")), HasSubstr("rows times cols fit"));
}

}  // namespace
}  // namespace gdn::tune
