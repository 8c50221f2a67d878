// How far a result is from the double reference.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

namespace gdn_test {

// Bounds on the relative RMS error. Not to be loosened.
inline constexpr double kBoundF32 = 1e-5;  // f32 storage, and every state
inline constexpr double kBound16 = 5e-3;   // bf16 and f16 storage of o
inline constexpr double kMaxOverRms = 20;  // no element further off than this many times the bound, in units of the reference's RMS

struct Error {
    double rms = 0;  // relative RMS
    double max = 0;  // largest absolute error over the reference's RMS

    void worst(const Error &other) {
        if (other.rms > rms) rms = other.rms;
        if (other.max > max) max = other.max;
    }
    bool within(double bound) const { return rms <= bound && max <= kMaxOverRms * bound; }
};

// Gathers one group of elements. Anything not finite where the reference is finite counts as infinitely wrong.
class ErrorSum {
public:
    void add(double given, double expected) {
        const double difference = given - expected;
        if (given == expected || (std::isnan(given) && std::isnan(expected))) {
            if (std::isfinite(expected)) expected2_ += expected * expected;
        } else if (!std::isfinite(difference)) {
            broken_ = true;
        } else {
            error2_ += difference * difference;
            expected2_ += expected * expected;
            if (std::fabs(difference) > max_) max_ = std::fabs(difference);
        }
        count_++;
    }
    Error error() const {
        const double infinite = std::numeric_limits<double>::infinity();
        if (broken_) return {infinite, infinite};
        if (error2_ == 0) return {};
        if (expected2_ == 0) return {infinite, infinite};
        return {std::sqrt(error2_ / expected2_), max_ / std::sqrt(expected2_ / static_cast<double>(count_))};
    }

private:
    double error2_ = 0, expected2_ = 0, max_ = 0;
    std::size_t count_ = 0;
    bool broken_ = false;
};

}  // namespace gdn_test
