#include "autotune/explore/simulated.h"

#include <algorithm>
#include <limits>

#include <fnmatch.h>

namespace gdn::tune {

Record::Record(const Config &default_config, const std::vector<Trial> &trials) {
    for (const Trial &trial : trials) {
        if (trial.status != Status::kSkipped)
            outcomes_.insert({trial.config, {trial.status, trial.status == Status::kOk ? trial.cost.value : 0}});
    }
    outcomes_.insert({default_config, {Status::kOk, 1}});
}

const Outcome *Record::find(const Config &config) const {
    const auto found = outcomes_.find(config);
    return found == outcomes_.end() ? nullptr : &found->second;
}

SimulatedRun simulate(Searcher &searcher, const Space &space, const Record &record, uint64_t evaluations, size_t batch) {
    SimulatedRun run;
    double best = std::numeric_limits<double>::infinity();
    while (run.best.size() < evaluations) {
        // Whole batches, as in a real run: a strategy's points depend on how it is asked.
        const std::vector<Point> points = searcher.ask(batch);
        if (points.empty()) break;
        for (const Point &point : points) {
            const Outcome *outcome = record.find(space.config(point));
            searcher.tell(point, outcome ? *outcome : Outcome{});
            if (run.best.size() == evaluations) continue;
            if (!outcome) run.unrecorded++;
            if (outcome && outcome->status == Status::kOk) best = std::min(best, outcome->cost);
            run.best.push_back(best);
        }
    }
    run.best.resize(evaluations, best);
    return run;
}

namespace {

bool named(const std::vector<std::string> &globs, const std::string &name) {
    return std::any_of(globs.begin(), globs.end(), [&](const std::string &glob) { return fnmatch(glob.c_str(), name.c_str(), 0) == 0; });
}

ReportTask simulate(const Experiment &experiment, const ReportTask &recorded) {
    ReportTask out = recorded;
    out.strategies.clear();
    out.task.space = space_of(experiment, recorded.task.space);
    const auto outside = [&](const Trial &trial) {
        try {
            out.task.space.point(trial.config);
            return false;
        } catch (const Error &) {
            return true;
        }
    };
    for (auto *trials : {&out.trials, &out.finals}) trials->erase(std::remove_if(trials->begin(), trials->end(), outside), trials->end());
    const bool lost = std::none_of(out.finals.begin(), out.finals.end(), [&](const Trial &t) { return t.config == out.finish.winner; });
    if (lost) out.finals.clear(), out.finish = {};

    const Record record(out.task.default_config, out.trials);
    for (const std::string &name : experiment.searchers) {
        Convergence strategy{name, {}, 0};
        for (uint64_t seed : experiment.seeds) {
            const auto searcher = make_searcher(name, out.task.space, seed, {out.task.space.default_point()});
            const SimulatedRun run =
                simulate(*searcher, out.task.space, record, evaluations_of(experiment, out.task.space), experiment.batch);
            strategy.best.push_back(run.best);
            strategy.unrecorded += run.unrecorded;
        }
        out.strategies.push_back(std::move(strategy));
    }
    return out;
}

}  // namespace

ReportInput simulate(const Experiment &experiment, const ReportInput &recorded) {
    ReportInput out = recorded;
    out.title = experiment.title;
    out.text = experiment.text;
    out.tasks.clear();
    std::string names;
    for (const ReportTask &task : recorded.tasks) {
        names += (names.empty() ? "" : ", ") + task.task.name();
        const auto &targets = experiment.targets;
        if (!named(experiment.kernels, task.task.kernel)) continue;
        if (!targets.empty() && std::find(targets.begin(), targets.end(), task.task.target) == targets.end()) continue;
        out.tasks.push_back(simulate(experiment, task));
    }
    if (out.tasks.empty())
        throw Error("the journal has no task of the experiment's kernels and targets; it has " + (names.empty() ? "none" : names));
    return out;
}

}  // namespace gdn::tune
