// Shards of one search as one journal.
#pragma once
#include <string>
#include <vector>

#include "autotune/db/journal.h"

namespace gdn::tune {

/// Makes `out` of the journals: the union of their tasks and, of a task that was dealt to shards, of the shards' trials. Such a task
/// becomes a whole one (shard 0 of 1) whose final phase is open: finish() measures its best five once more, on one machine. Tasks that were
/// not dealt keep their final phase.
///
/// Throws Error, and leaves no file, where the journals differ in device or generator, where the shards of a task differ in anything else
/// than their number, where two journals hold the same shard, and where one is missing or has not been finished: a shard that was killed
/// is no shard until it has gone on to its end.
void merge_journals(const std::vector<std::string> &paths, const std::string &out);

}  // namespace gdn::tune
