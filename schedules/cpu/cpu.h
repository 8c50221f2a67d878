// Schedules that the CPU targets share; a target's folder sets limits and defaults, and has its own apply only where measurement asks for it.
#pragma once
#include "../schedules.h"

namespace gdn {

Space cpu_core_chunk_space(const Machine &machine, const Size &size, bool low, bool snapshots);
void cpu_apply_core_chunk(CoreChunkStages &st, const Config &config, const Machine &machine);

Space cpu_core_step_space(const Machine &machine, const Size &size, bool v_first);
void cpu_apply_core_step(CoreStepStages &st, const Config &config, const Machine &machine);

Space cpu_core_pending_space(const Machine &machine, const Size &size);
void cpu_apply_core_pending(CorePendingStages &st, const Config &config, const Machine &machine);

Space cpu_short_conv_space(const Machine &machine);
void cpu_apply_short_conv(ShortConvStages &st, const Config &config, const Machine &machine);

Space cpu_short_conv_step_space(const Machine &machine);
void cpu_apply_short_conv_step(ShortConvStepStages &st, const Config &config, const Machine &machine);

Space cpu_gated_norm_space(const Machine &machine);
void cpu_apply_gated_norm(GatedNormStages &st, const Config &config, const Machine &machine);

// The trivial schedules: every stage computed once, one vector at a time, nothing to tune but the run-time parameters.
Space reference_core_chunk_space(const Size &size);
void reference_apply_core_chunk(CoreChunkStages &st, const Config &config, const Machine &machine);
Space reference_core_step_space();
void reference_apply_core_step(CoreStepStages &st, const Config &config, const Machine &machine);
void reference_apply_short_conv(ShortConvStages &st, const Machine &machine);
Space reference_gated_norm_space();
void reference_apply_gated_norm(GatedNormStages &st, const Machine &machine);

}  // namespace gdn
