// Text of the user's choices. One entry per line; # starts a comment; later lines win.
//   scope.parameter value          a run-time parameter; a scope is a family (core_chunk), a kernel's short name, <short name>__<target>, or a symbol
//   kernel.config which            which of a kernel's compiled configurations runs; a kernel is a short name or <short name>__<target>,
//   kernel@short.config which      of core_chunk for one length class only; which is a number from 0, or as many of its parameters as tell it
//   kernel@long.config which       from the others ("cols:16,rows:8")
#pragma once

#include <cstddef>

#include "gdn/gdn.h"
#include "kernel_table.h"

namespace gdn {

constexpr size_t kMaxOverrideBytes = 1 << 16;

/// Applies `text` to params[0 .. row_count) and picks[0 .. row_count), see Dispatch. On failure these are unusable and the error text names the
/// line.
gdn_status parse_overrides(const char *text, size_t size, const KernelRow *rows, int32_t row_count, RunParams *params, uint8_t *picks);

}  // namespace gdn
