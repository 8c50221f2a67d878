// Timing in rounds: every round runs each contender once and has the core's peak on both sides, so that a drifting clock or a noisy
// neighbour meets all of them alike. Ratios are taken within a round.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace gdn::cli {

struct Contender {
    std::function<void()> call;
    /// Calls before the first sample: as many as bring all of its memory in.
    int64_t warm_up = 1;

    int64_t calls = 1;        // of one sample
    std::vector<double> ns;   // of one call, one entry a round
    std::vector<double> cpu;  // CPU nanoseconds of one call, all threads
};

struct Rounds {
    std::vector<double> peak;  // GFLOP/s, one entry a round: the better of the samples before and after it
};

/// `peak` samples the ceiling. A sample of a contender lasts at least `sample_seconds`. Ctrl-C ends it between two samples.
Rounds measure(const std::vector<Contender *> &contenders, const std::function<double()> &peak, int rounds, double sample_seconds,
    const std::string &title);

}  // namespace gdn::cli
