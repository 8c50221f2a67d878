// How a call is cut into tasks and how its workspace is laid out. Sizes do not depend on the number of tokens.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan.h"

namespace gdn {

/// Offsets in bytes of one worker's arrays, each 64-byte aligned. All rows are float32.
struct Arena {
    size_t q, a, alpha, u, e, o;  // rows of the stage and of o, Plan::rows() of each
    size_t raw[kSources];         // rows of sources that go through a map
    size_t slice_u;               // u rows of one V slice
    size_t slots;                 // addresses for `next`
    size_t pong;                  // the state that a chunk writes when it may not write where it reads
    size_t homes;                 // states of the heads worked on together, where they cannot live in final_state
    size_t bytes;                 // of one worker
    int32_t home_count;
    int32_t slot_count;
};

Arena arena_of(const Plan &plan);

/// How a call is cut: a task is one sequence, some heads, one slice of the value channels.
struct Division {
    int32_t heads_per_task;
    int32_t groups;  // tasks of one sequence and slice
    int32_t slices;
    int32_t slice_columns;  // of vp
    int64_t tasks;
    int32_t lanes;           // workers
    const KernelRow *chunk;  // the cores of one slice
    const KernelRow *step;
    const KernelRow *v_first_step;
};

Division divide(const Plan &plan, const Dispatch &dispatch, int32_t threads);

/// Workspace of the whole call.
size_t workspace_bytes(const Plan &plan, const Arena &arena, int32_t threads);

}  // namespace gdn
