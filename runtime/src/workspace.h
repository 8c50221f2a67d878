// How a call is cut into tasks and how its workspace is laid out. Sizes do not depend on the number of tokens.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan.h"

namespace gdn {

/// The part of the layout that the route decides: all but the homes.
Arena scratch_of(const Plan &plan);
/// plan.scratch with the homes.
Arena arena_of(const Plan &plan);

/// Tokens of one head before the next head, in a sequence of this length class. The mixer keeps rows of q and k for so many tokens.
constexpr int32_t kMostMixerTokens = 64;
inline int32_t time_block(const Plan &plan, int32_t length_class) {
    const int32_t tokens = plan.run[length_class].time_block;
    return plan.mixing && tokens > kMostMixerTokens ? kMostMixerTokens : tokens;
}

/// Tokens of the longest sequence.
int64_t longest(const Plan &plan);

/// How a call is cut: a task is one sequence, some heads, one slice of the value channels.
struct Division {
    int32_t heads_per_task;
    int32_t groups;  // tasks of one sequence and slice
    int32_t slices;
    int32_t slice_columns;  // of vp
    int64_t tasks;
    int32_t lanes;                           // workers
    const KernelRow *chunk[kLengthClasses];  // the cores of one slice
    const KernelRow *step;
    const KernelRow *v_first_step;
};

Division divide(const Plan &plan, const Dispatch &dispatch, int32_t threads);

/// Workspace of the whole call.
size_t workspace_bytes(const Plan &plan, const Arena &arena, int32_t threads);

}  // namespace gdn
