// An experiment: which kernels, spaces, search strategies, seeds and budgets, from a JSON file.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "autotune/report/report.h"

namespace gdn::tune {

struct Experiment {
    std::string title, text;
    std::vector<std::string> kernels;                // globs
    std::vector<std::string> targets;                // empty: all that the kernels have
    std::vector<std::string> parameters;             // searched; empty: those that the shapes can show
    std::map<std::string, std::vector<int>> values;  // restrictions
    std::vector<std::string> shapes;                 // texts of parse_shapes(); empty: the defaults. A simulation has those of its journal
    std::vector<std::string> searchers;
    std::vector<uint64_t> seeds = {1};
    uint64_t evaluations = 0;  // of each task; 0: no limit
    double share = 0;          // of a task's valid points; 0: no limit. The smaller of the two counts
    int repeats = 1;           // of each searcher and seed; a simulation runs each seed once
    size_t batch = 8;          // candidates asked for at a time
    int rounds = 7;
};

/// Throws Error that begins with `name` and the place: no JSON, an unknown key, a wrong type, a value out of range, an unknown searcher.
Experiment parse_experiment(const std::string &json, const std::string &name);

/// Evaluations of one run in a space.
uint64_t evaluations_of(const Experiment &experiment, const Space &space);
/// The space as the experiment restricts it. Throws Error: unknown parameter or value, nothing valid left.
Space space_of(const Experiment &experiment, const Space &space);

struct ExperimentRun {
    std::string searcher;
    uint64_t seed;
    int repeat;
    std::string journal;  // file name: "random-3.db", "random-3-repeat2.db"
};
std::vector<ExperimentRun> runs_of(const Experiment &experiment);

}  // namespace gdn::tune
