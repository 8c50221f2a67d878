// From what a user asks for to tuning tasks.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "autotune/session.h"

namespace gdn::tune {

struct PlanRequest {
    std::vector<std::string> globs;                  // of kernel names; empty: all
    std::string target;                              // "" = every target of the kernels given
    std::vector<LengthClass> classes;                // empty: all of the family
    std::vector<std::string> shapes;                 // texts of parse_shapes(); empty: default_shapes()
    int threads = 1;                                 // of default shapes
    std::map<std::string, std::vector<int>> values;  // restrictions; what has several is searched
    std::vector<std::string> parameters;             // searched; empty: those that the shapes can show, see searched_parameters()
    std::vector<Config> configs;                     // to be tried: where there are some, `parameters` empty means those that they name
    Config base;                                     // of parameters that are not searched, where not the space's default
    std::string searcher = "auto";
    uint64_t seed = 1;
    size_t batch = 8;
    int rounds = MeasureOptions().rounds;
    int shard = 0, shards = 1;
};

/// Parameters that matter for these shapes: all that need a compiler; of the run-time ones time_block where sequences are longer than a
/// chunk and fetch_ahead, short_steps and tail_steps where lengths are not multiples of eight, task_grain and v_slice_min with several threads.
std::vector<std::string> searched_parameters(const Kernel &kernel, const std::vector<Shape> &shapes);

/// One task per kernel, target and class that the shapes reach. Kernels with nothing to search are left out; throws Error if none is left.
std::vector<SessionTask> plan_tasks(const std::vector<Kernel> &kernels, const PlanRequest &request);

}  // namespace gdn::tune
