// Text of the calling thread's last failure.
#pragma once

#include "gdn/gdn.h"

namespace gdn {

/// Formats the text that gdn_last_error() will return on this thread and hands `status` back, so that failing is one expression.
[[gnu::cold, gnu::format(printf, 2, 3)]] gdn_status fail(gdn_status status, const char *format, ...);

/// The same text, for the context's log callback.
const char *last_error();

}  // namespace gdn
