// How the layer says no: what was named, what was expected, what was found.
#pragma once
#include <string>
#include <vector>

#include "gdn/layer.hpp"

namespace gdn::layer {

[[noreturn]] inline void fail(gdn_status status, const std::string &text) { throw Error(status, text); }

/// "hidden_size: expected 1 or more, found 0"
[[noreturn]] inline void fail_field(const std::string &field, const std::string &expected, const std::string &found) {
    fail(GDN_STATUS_INVALID_ARGUMENT, field + ": expected " + expected + ", found " + found);
}

/// Shortest text that reads back as the same number.
std::string text_of(double value);
/// "[16, 24]"
std::string text_of(const std::vector<std::int64_t> &shape);

}  // namespace gdn::layer
