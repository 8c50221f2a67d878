// Running a checked call.
#pragma once

#include <cstddef>

#include "context.h"
#include "plan.h"

namespace gdn {

/// gdn_forward and gdn_step: checks, divides, runs.
gdn_status run_operator(gdn_context *context, const gdn_args *args, Entry entry, void *workspace, size_t workspace_bytes);

/// How the tokens of one sequence are run. A function of its length (and of snapshots) only, so that a sequence's result does not depend
/// on its batch.
struct LengthPlan {
    int64_t chunk_tokens;  // through chunks; the last one may be ragged
    int64_t step_tokens;   // then one at a time
};
LengthPlan length_plan(const Plan &plan, int64_t length);

}  // namespace gdn
