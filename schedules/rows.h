// Spaces and schedules of the kernels that make and store rows: stage, map, store. Every CPU target shares them.
#pragma once
#include <string>

#include "../generators/map.h"
#include "../generators/stage.h"
#include "../generators/store.h"
#include "machine.h"
#include "space.h"

namespace gdn {

Space stage_space(const Machine &machine, bool any_size, const std::string &form);
void apply_stage(StageStages &st, const Config &config, const Machine &machine);

Space map_space(const Machine &machine);
void apply_map(MapStages &st, const Config &config, const Machine &machine);

Space store_space(const Machine &machine);
void apply_store(StoreStages &st, const Config &config, const Machine &machine);

}  // namespace gdn
