#include "fail.h"

#include <cstdio>
#include <cstdlib>

namespace gdn::layer {

std::string text_of(double value) {
    char text[40];
    for (int digits = 6; digits <= 17; digits++) {
        std::snprintf(text, sizeof text, "%.*g", digits, value);
        if (std::strtod(text, nullptr) == value) break;
    }
    return text;
}

std::string text_of(const std::vector<std::int64_t> &shape) {
    std::string text = "[";
    for (std::int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
    return text + "]";
}

}  // namespace gdn::layer
