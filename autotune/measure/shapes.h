// What of a shape the kernel decides.
#pragma once
#include "autotune/measure/measurer.h"

namespace gdn::tune {

/// One token of every sequence in a call, states in place.
bool decodes(const std::string &family);
inline constexpr int64_t kDecodedTokens = 3;             // that a decoding kernel is verified with
inline constexpr size_t kColdBytes = size_t{256} << 20;  // most that the states of cold calls take, unless two of them take more
/// The size in a kernel's parameters: "128x128", or "anyx32", "any" and none at all, where K and V are the shape's (V a multiple of
/// `unit`).
struct KernelSize {
    int64_t k = 0, v = 0;  // 0: any
    int64_t unit = 16;
};
KernelSize size_of(const std::map<std::string, std::string> &params);
/// The shape with K and V. Throws Error where the kernel cannot take it.
Shape resolved(const Kernel &kernel, Shape shape);

}  // namespace gdn::tune
