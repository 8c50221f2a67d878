// A tuning run as the program shows it: progress while it lasts, a table at the end. gdn tune run and the demo use it.
#pragma once
#include <string>
#include <vector>

#include "autotune/plan.h"
#include "tune.h"

namespace gdn::cli {

/// What the run needs of the machine and the file system.
struct TuneRun {
    TunePaths paths;
    std::string journal;  // file; made if it is not there
    bool resume = false;  // the file may be there and is gone on with
    bool force = false;   // measure although doctor says no
    int jobs = 0;
    tune::SessionOptions session;
};

/// Runs the tasks and returns a result for each. Throws Failure: unfit machine, refused journal. After Ctrl-C results are marked interrupted.
std::vector<tune::TuneResult> run_tuning(const std::vector<tune::SessionTask> &tasks, const TuneRun &run);

/// Name, candidates tried, time over the default's with its interval, what changed: a row per task. Below it, what ended those
/// that failed.
void print_results(const std::vector<tune::SessionTask> &tasks, const std::vector<tune::TuneResult> &results);

/// 600 of "10m", "600", "600s", "1h30m". Throws Failure(kExitUsage).
double parse_duration(const std::string &text);

}  // namespace gdn::cli
