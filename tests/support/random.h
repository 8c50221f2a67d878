// Seeded numbers that are the same on every machine (the standard distributions are not).
#pragma once

#include <cmath>
#include <cstdint>
#include <random>

namespace gdn_test {

class Random {
public:
    explicit Random(std::uint64_t seed) : engine_(seed) {}

    double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }  // [0, 1)
    double uniform(double low, double high) { return low + (high - low) * uniform(); }
    double log_uniform(double low, double high) { return std::exp(uniform(std::log(low), std::log(high))); }
    double normal() {
        const double radius = std::sqrt(-2 * std::log(1 - uniform()));
        return radius * std::cos(6.283185307179586 * uniform());
    }
    std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n)); }
    bool chance(double p) { return uniform() < p; }

private:
    std::mt19937_64 engine_;
};

}  // namespace gdn_test
