// Many tasks under one budget.
#pragma once
#include <map>
#include <vector>

#include "autotune/tuner.h"

namespace gdn::tune {

struct SessionTask {
    Task task;
    Kernel kernel;
    double weight = 1;  // share of a model's time that goes through this kernel, relative to the other tasks
};

/// Those of the configurations, absent parameters at their defaults, that are points of the space. `why`: what is wrong with the last
/// other one.
std::vector<Point> points_of(const Space &space, const std::vector<Config> &configs, std::string *why = nullptr);

/// Rough share of a layer's time: what a gain of a kernel is worth to its user. Decoding and prefill count alike.
double weight_of(const Kernel &kernel);

/// What a task has shown so far, for the choice of the next slice.
struct TaskProgress {
    double weight = 1;
    uint64_t evaluations = 0;
    double best = 1;          // cost of the best so far
    double before = 1;        // the best before the last slice
    uint64_t last_slice = 0;  // evaluations of the last slice; 0: not begun
    bool exhausted = false;   // nothing more to search
    bool finished = false;    // its final phase too is over
};
/// Which task gets the next slice: those not begun first, then the one with the largest expected gain, weight x the last slice's gain per
/// evaluation, which fades where slices bring nothing but never to zero. -1: all are exhausted.
int next_task(const std::vector<TaskProgress> &tasks);

struct SessionOptions {
    Budget budget;              // of all tasks together; evaluations and no_gain of each
    std::vector<Config> start;  // configurations to try first; with the searcher "given" the only ones
    bool finish = false;        // no search: the final phase of every task that has trials, shards that were merged for one
    /// Reports `progress` of task `index`.
    std::function<void(size_t index, const Progress &progress)> progress;
};

/// Searches all tasks in slices, then finishes each that was searched, and does the same with the rest while there is time. A result per
/// task, in order (of one whose turn did not come: none, with no evaluations); after an interruption what is there. A task whose
/// final phase is recorded is searched on where the budget asks for more evaluations than it has or `start` for a configuration that it
/// lacks; else it keeps its winner (TuneResult::before). A TaskError ends its task, and the others go on; what else is thrown ends the session.
std::vector<TuneResult> run_session(const std::vector<SessionTask> &tasks, Builder &builder, Measurer &measurer, Journal &journal,
    const SessionOptions &options, const std::atomic<bool> &stop);

}  // namespace gdn::tune
