#include "autotune/format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace gdn::tune {

namespace {

constexpr const char *kNothing = "–", *kUnknownCharacter = "\xef\xbf\xbd";

/// Bytes of the character at `i`; 0 if it is none that XML may contain.
size_t character(const std::string &s, size_t i) {
    const auto byte = [&](size_t j) { return j < s.size() ? static_cast<unsigned char>(s[j]) : 0u; };
    const unsigned first = byte(i);
    if (first < 0x80) return first >= 0x20 || first == '\t' || first == '\n' || first == '\r' ? 1 : 0;
    const size_t length = first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3 : first >= 0xf0 && first < 0xf5 ? 4 : 0;
    if (!length) return 0;
    uint32_t code = first & (0xff >> (length + 1));
    for (size_t j = 1; j < length; j++) {
        if ((byte(i + j) & 0xc0) != 0x80) return 0;
        code = code << 6 | (byte(i + j) & 0x3f);
    }
    const uint32_t least = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
    const bool valid = code >= least && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) && code != 0xfffe && code != 0xffff;
    return valid ? length : 0;
}

}  // namespace

std::string escape(const std::string &text) {
    std::string out;
    for (size_t i = 0; i < text.size();) {
        const size_t length = character(text, i);
        if (length == 0) {
            out += kUnknownCharacter;
        } else if (length > 1) {
            out.append(text, i, length);
        } else {
            switch (text[i]) {
            case '&': out += "&amp;"; break;
            case '<': out += "&lt;"; break;
            case '>': out += "&gt;"; break;
            case '"': out += "&quot;"; break;
            case '\'': out += "&#39;"; break;
            default: out += text[i];
            }
        }
        i += std::max<size_t>(length, 1);
    }
    return out;
}

std::string fixed(double value, int decimals) {
    if (!std::isfinite(value)) return kNothing;
    char text[64];
    std::snprintf(text, sizeof text, std::fabs(value) < 1e15 ? "%.*f" : "%.*e", decimals, value);
    // No "-0.0".
    if (text[0] == '-' && std::string(text).find_first_not_of("-0.") == std::string::npos) return text + 1;
    return text;
}

std::string plain(double value) {
    if (!std::isfinite(value)) return "";
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", value);
    return text;
}

std::string percent(double share, int decimals) { return std::isfinite(share) ? fixed(100 * share, decimals) + " %" : kNothing; }

std::string duration(double ns) {
    if (!std::isfinite(ns)) return kNothing;
    const char *const units[] = {"ns", "µs", "ms", "s"};
    int unit = 0;
    while (ns >= 999.5 && unit < 3) ns /= 1000, unit++;
    return fixed(ns, ns < 9.995 ? 2 : ns < 99.95 ? 1 : 0) + " " + units[unit];
}

std::string count_of(uint64_t n, const std::string &what) {
    std::string digits = std::to_string(n);
    for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
    return digits + " " + what + (n == 1 ? "" : "s");
}

std::string shortened(const std::string &text, size_t most) {
    if (text.size() <= most) return text;
    size_t end = 0;
    for (size_t i = 0; i <= most; i += std::max<size_t>(character(text, i), 1)) end = i;
    return text.substr(0, end) + "…";
}

double quantile(std::vector<double> values, double share) {
    if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
    std::sort(values.begin(), values.end());
    const double at = share * static_cast<double>(values.size() - 1);
    const size_t i = static_cast<size_t>(at), j = std::min(i + 1, values.size() - 1);
    // Infinite ends meet no arithmetic that would make a NaN of them.
    const double part = at - static_cast<double>(i);
    return part == 0 || values[i] == values[j] ? values[i] : values[i] + part * (values[j] - values[i]);
}

}  // namespace gdn::tune
