// Every kernel family's space and schedule, by family. A space says what may be tuned; apply_* reads every parameter of a configuration.
#pragma once
#include <map>
#include <string>

#include "../generators/core_chunk.h"
#include "../generators/core_pending.h"
#include "../generators/core_step.h"
#include "../generators/gated_norm.h"
#include "../generators/short_conv.h"
#include "machine.h"
#include "rows.h"
#include "space.h"

namespace gdn {

Space core_chunk_space(const Machine &machine, const Size &size, bool low, bool snapshots);
void apply_core_chunk(CoreChunkStages &st, const Config &config, const Machine &machine);

Space core_step_space(const Machine &machine, const Size &size, bool v_first);
void apply_core_step(CoreStepStages &st, const Config &config, const Machine &machine);

Space core_pending_space(const Machine &machine, const Size &size);
void apply_core_pending(CorePendingStages &st, const Config &config, const Machine &machine);

Space short_conv_space(const Machine &machine);
void apply_short_conv(ShortConvStages &st, const Config &config, const Machine &machine);

Space short_conv_step_space(const Machine &machine);
void apply_short_conv_step(ShortConvStepStages &st, const Config &config, const Machine &machine);

Space gated_norm_space(const Machine &machine);
void apply_gated_norm(GatedNormStages &st, const Config &config, const Machine &machine);

// The space of a kernel of the list, from its family and parameters.
Space space_of(const std::string &family, const std::map<std::string, std::string> &params, const Machine &machine);

// Ends the generator if a parameter of the configuration had no effect. Run-time parameters belong to the dispatch table, not to a schedule.
void require_all_read(const Config &config);

}  // namespace gdn
