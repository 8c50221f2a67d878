#include "autotune/report/collect.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace gdn::tune {
namespace {

double winner_cost(const ReportTask &run) {
    for (const Trial &trial : run.finals) {
        if (run.finish.done && trial.status == Status::kOk && trial.config == run.finish.winner) return trial.cost.value;
    }
    return std::numeric_limits<double>::infinity();
}

std::string key(const Task &task) {
    std::string out = task.name() + " " + task.space.hash() + " " + text_of(task.default_config);
    for (const Shape &shape : task.shapes) out += " " + text_of(shape);
    return out;
}

}  // namespace

std::vector<double> best_so_far(const std::vector<Trial> &trials) {
    std::vector<double> out;
    double best = std::numeric_limits<double>::infinity();
    for (const Trial &trial : trials) {
        if (trial.status == Status::kSkipped) continue;
        if (trial.status == Status::kOk && trial.cost.value > 0) best = std::min(best, trial.cost.value);
        out.push_back(best);
    }
    return out;
}

std::vector<ReportTask> join_runs(const std::vector<ReportTask> &runs) {
    std::vector<ReportTask> out;
    std::map<std::string, size_t> places;
    for (const ReportTask &run : runs) {
        const auto [place, fresh] = places.insert({key(run.task), out.size()});
        if (fresh) {
            out.push_back(run);
        } else {
            ReportTask &joined = out[place->second];
            joined.trials.insert(joined.trials.end(), run.trials.begin(), run.trials.end());
            if (winner_cost(run) < winner_cost(joined)) joined.finals = run.finals, joined.finish = run.finish;
        }
        // A shard's share of the candidates is no run of its own.
        if (run.task.shards > 1) continue;
        std::vector<Convergence> &strategies = out[place->second].strategies;
        auto same =
            std::find_if(strategies.begin(), strategies.end(), [&](const Convergence &c) { return c.searcher == run.task.searcher; });
        if (same == strategies.end()) same = strategies.insert(same, {run.task.searcher, {}, 0});
        same->best.push_back(best_so_far(run.trials));
    }
    for (ReportTask &task : out) {
        if (task.strategies.size() == 1 && task.strategies[0].best.size() == 1) task.strategies.clear();
    }
    return out;
}

ReportInput collect(const std::vector<std::string> &journals) {
    ReportInput input;
    std::vector<ReportTask> runs;
    for (size_t i = 0; i < journals.size(); i++) {
        const Journal journal = Journal::open(journals[i], true);
        if (i == 0) {
            input.info = journal.info();
        } else {
            const std::string difference = input.info.device.difference(journal.info().device);
            if (!difference.empty()) throw Error(journals[0] + " and " + journals[i] + " come from different devices: " + difference);
            if (input.info.generator_hash != journal.info().generator_hash) {
                throw Error(journals[0] + " was made with the generator " + input.info.generator_hash + ", " + journals[i] + " with " +
                            journal.info().generator_hash + ": their times cannot be compared");
            }
            input.info.noisy |= journal.info().noisy;
        }
        for (const auto &[id, task] : journal.tasks()) {
            ReportTask run;
            run.task = task;
            run.trials = journal.trials(id, "search");
            run.finals = journal.trials(id, "final");
            run.finish = journal.finished(id);
            runs.push_back(std::move(run));
        }
    }
    input.title = "Kernel tuning on " + input.info.device.name;
    input.tasks = join_runs(runs);
    return input;
}

}  // namespace gdn::tune
