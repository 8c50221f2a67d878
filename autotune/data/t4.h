// Results in the T4 form that Kernel Tuner and its companions exchange (results-schema.json 1.0.0).
#pragma once
#include <string>

#include "autotune/db/journal.h"

namespace gdn::tune {

/// The trials of one task, search and final phase.
std::string t4_json(const Journal &journal, int64_t id, const Task &task);

}  // namespace gdn::tune
