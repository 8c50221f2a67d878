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
/// --huge-pages, --rounds, --cpu, --json
void add_run_options(CLI::App &app, BenchOptions &options);
void add_run_facts(nlohmann::ordered_json &json, const BenchOptions &options, int cpu, const Rounds &rounds);

/// Whether the cores of a run with threads are free: FMA loops on all of them at once, over one on the first, all pinned.
class ThreadControl {
public:
    ThreadControl(int lanes, int threads);
    /// Samples that, and returns the peak of all together.
    double sample();
    nlohmann::ordered_json json() const;

private:
    int lanes_;
    std::vector<int> cpus_;
    std::vector<double> scaling_;
};
/// "speedup" and "thread_control", where there are any.
void print_threads(const nlohmann::ordered_json &json);

/// gdn bench mixer: the mixer beside its operator and with one part of it only.
void bench_mixer(const BenchOptions &options);
#ifdef GDN_HAS_LAYER
/// gdn bench layer: whole layers beside their products and their operator.
void add_bench_layer(CLI::App &bench);
#endif

}  // namespace gdn::cli
