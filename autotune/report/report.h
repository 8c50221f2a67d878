// Reports of journals: one self-contained HTML file, and the same numbers as CSV.
#pragma once
#include <string>
#include <vector>

#include "autotune/db/journal.h"

namespace gdn::tune {

/// How much of the spread of log(cost) a parameter explains: share of variance between its values' groups, 0 to 1, less what chance alone
/// would give, and the best cost per value. Of trials that succeeded.
struct Importance {
    std::string parameter;
    double share = 0;
    std::vector<std::pair<int, double>> best;  // value, best cost with it
};
std::vector<Importance> importance(const std::vector<Trial> &trials);

/// One strategy on one task: best cost after 1, 2, .. evaluations (infinite before the first success), a row per run.
struct Convergence {
    std::string searcher;
    std::vector<std::vector<double>> best;
    uint64_t unrecorded = 0;  // of a simulation: points asked for that nobody had measured
};

struct ReportTask {
    Task task;
    std::vector<Trial> trials, finals;
    Journal::Finish finish;
    std::vector<Measurer::Work> work;     // per shape; empty: no roofline
    std::vector<Convergence> strategies;  // of explore; empty: the run's own curve from `trials`
};

struct ReportInput {
    std::string title, text;  // text: a paragraph under the title
    RunInfo info;
    double peak_gflops = 0, memory_gbytes = 0;  // ceilings of the roofline; 0: not drawn
    std::vector<ReportTask> tasks;
};

/// The smallest cost of a task, over its search and its strategies; infinite if nothing succeeded.
double best_known(const ReportTask &task);
/// The winner as the final phase measured it; before that the best of the search. Null: nothing succeeded.
const Trial *best_of(const ReportTask &task);
/// How much more than best_known() a strategy's best takes after a share of the space's valid points (0.02: 2 % more time), a value per run.
/// Empty where a run was shorter.
std::vector<double> distances(const ReportTask &task, const Convergence &strategy, double share);
constexpr double kReportShares[] = {0.05, 0.10, 0.15, 0.25};

std::string html(const ReportInput &input);
/// A row per trial: kernel,target,class,phase,config..,status,cost,low,high,ns..,error (RFC 4180). `ns <shape>` is the median of its rounds.
std::string csv(const ReportInput &input);
/// Strategies: kernel,target,class,searcher,run,evaluations,best; a row wherever a run's best improved, and one for its end.
std::string strategies_csv(const ReportInput &input);

}  // namespace gdn::tune
