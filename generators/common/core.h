// What the cores have in common: which operator they are, their size, and how a generator meets its schedule.
#pragma once
#include <Halide.h>

#include <cstdlib>
#include <string>

namespace gdn {

// The three cores. Scalar decay is always tied: every variant with one alpha per head has e = beta a.
enum class Core { ScalarTied, ChannelTied, ChannelOwn };

inline Core core_of(const std::string &name) {
    if (name == "scalar_tied") return Core::ScalarTied;
    if (name == "channel_tied") return Core::ChannelTied;
    _halide_user_assert(name == "channel_own") << "unknown core '" << name << "'\n";
    return Core::ChannelOwn;
}

// "128x128": K and V are constants. "anyx32": K (a multiple of 16, at most 256) and V (a multiple of 32) are known at run time.
struct Size {
    int k = 0;       // 0 = run time
    int v = 0;       // 0 = run time
    int v_unit = 0;  // V is a multiple of this

    explicit Size(const std::string &text) {
        const size_t x = text.find('x');
        _halide_user_assert(x != std::string::npos) << "size '" << text << "' is not KxV\n";
        v_unit = std::atoi(text.c_str() + x + 1);
        if (text.compare(0, x, "any") != 0) {
            k = std::atoi(text.c_str());
            v = v_unit;
        }
        _halide_user_assert(v_unit > 0 && v_unit % 16 == 0 && k % 16 == 0) << "size '" << text << "': K and V are multiples of 16\n";
    }
};

constexpr int kMaxK = 256;

// K as an expression: the constant, or the extent that the caller gives, bounded so that scratch rows fit on the stack.
inline Halide::Expr key_channels(const Size &size, const Halide::Expr &extent) {
    if (size.k) return size.k;
    return Halide::min(extent / 16, kMaxK / 16) * 16;
}

}  // namespace gdn
