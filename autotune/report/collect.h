// From journals to what a report shows.
#pragma once
#include <string>
#include <vector>

#include "autotune/report/report.h"

namespace gdn::tune {

/// All tasks of the journals, which must be of one device and one generator: throws Error naming the difference. Runs of one task (the same
/// kernel, target, class, shapes and space) with several searchers, seeds or repeats become one ReportTask with `strategies`; its finals are
/// those of the run whose winner was best.
ReportInput collect(const std::vector<std::string> &journals);
/// The part of collect() that needs no file: one ReportTask per task out of one per run.
std::vector<ReportTask> join_runs(const std::vector<ReportTask> &runs);

/// Best cost after each of the trials that were not skipped.
std::vector<double> best_so_far(const std::vector<Trial> &trials);

}  // namespace gdn::tune
