// Time that passes, for intervals and deadlines.
#pragma once
#include <chrono>

namespace gdn::tune {

/// Seconds since some moment.
inline double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace gdn::tune
