// What the benchmarks share.
#pragma once
#include <vector>

#include "measure.h"
#include "operator.h"

namespace gdn::cli {

struct BenchOptions {
    Setup setup;
    std::string against;
    int64_t sequences = 1;
    int rounds = 21;
    int cpu = -1;
    bool hot = false, huge_pages = false, snapshots = false, step = false, json = false;
};

/// {"min", "max", "mad"}.
nlohmann::ordered_json spread(const std::vector<double> &x);
/// Pins a single-threaded run and says where; -1 if it runs unpinned.
int pin_for(const BenchOptions &options);
void add_run_facts(nlohmann::ordered_json &json, const BenchOptions &options, int cpu, const Rounds &rounds);

/// gdn bench mixer: the mixer beside its operator and with one part of it only.
void bench_mixer(const BenchOptions &options);

}  // namespace gdn::cli
