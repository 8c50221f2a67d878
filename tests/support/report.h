// The worst error seen per variant, dtype and target, printed when the test program ends.
#pragma once

#include <string>

#include "metric.h"

namespace gdn_test {

void record_error(const std::string &variant, const std::string &dtype, const std::string &target, const Error &o, const Error &state);

}  // namespace gdn_test
