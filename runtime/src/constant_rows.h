// Rows that stand in for what a call does not have. Never written.
#pragma once

#include "plan.h"

namespace gdn {

struct ConstantRows {
    alignas(64) float zeros[kMaxRows * kMaxChannels];  // of all heads of one kernel call
    alignas(64) float ones[kMaxChannels];

    constexpr ConstantRows() : zeros(), ones() {
        for (float &one : ones) {
            one = 1.0f;
        }
    }
};
inline constexpr ConstantRows kConstantRows;

/// Zeros in any dtype.
inline const char *zero_row() { return reinterpret_cast<const char *>(kConstantRows.zeros); }

}  // namespace gdn
