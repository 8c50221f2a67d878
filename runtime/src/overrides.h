// Text of run-time parameters. One "scope.parameter value" per line; # starts a comment. A scope is a family (core_chunk), a kernel's
// short name, or a symbol; later lines win.
#pragma once

#include <cstddef>

#include "gdn/gdn.h"
#include "kernel_table.h"

namespace gdn {

constexpr size_t kMaxOverrideBytes = 1 << 16;

/// Applies `text` to params[0 .. row_count). On failure params are unusable and the error text names the line.
gdn_status parse_overrides(const char *text, size_t size, const KernelRow *rows, int32_t row_count, RunParams *params);

}  // namespace gdn
