// The worst error seen per variant, dtype and target, printed when the test program ends.
#ifndef GDN_TESTS_SUPPORT_REPORT_H
#define GDN_TESTS_SUPPORT_REPORT_H

#include <string>

#include "metric.h"

namespace gdn_test {

void record_error(const std::string &variant, const std::string &dtype, const std::string &target, const Error &o, const Error &state);

} // namespace gdn_test
#endif
