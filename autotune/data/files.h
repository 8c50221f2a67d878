// Text files: read whole, replaced whole. What killed processes have left.
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace gdn::tune {

using Files = std::vector<std::pair<std::string, std::string>>;  // path, text

/// Throws Error with the system's word.
std::string file_text(const std::string &path);
/// Every file is written beside its place and brought to the disk before the first is renamed: an Error while writing leaves all as they
/// were; renames come last, one after the other. Throws Error where a place is named twice.
void replace_files(const Files &files);

/// Removes those entries of a folder of ours whose names say that they are being made, and that nobody has touched for an hour.
void remove_left_over(const std::string &folder, const std::function<bool(const std::string &)> &being_made);

}  // namespace gdn::tune
