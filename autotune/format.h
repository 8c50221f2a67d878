// Numbers and strings as people read them in a report. Nothing that is not finite is ever printed as a number.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace gdn::tune {

/// Text for HTML and XML, in elements and in quoted attributes. What is no valid UTF-8 or no character of XML becomes U+FFFD.
std::string escape(const std::string &text);
/// "–" where the value is not finite.
std::string fixed(double value, int decimals);
std::string plain(double value);                      // six digits, for files and axes; "" where it is not finite
std::string percent(double share, int decimals = 1);  // "12.3 %"
std::string duration(double ns);                      // "812 ns", "12.3 µs"
/// "1 evaluation", "12,345 evaluations".
std::string count_of(uint64_t n, const std::string &what);
/// At most `most` bytes, cut between characters, and "…" where something was cut.
std::string shortened(const std::string &text, size_t most);

/// Value at a share of the sorted values: 0 the smallest, 0.5 the median. NaN of nothing.
double quantile(std::vector<double> values, double share);

}  // namespace gdn::tune
