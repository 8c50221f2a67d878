// float32 to and from the 16-bit kinds by integer arithmetic, round to nearest even. Independent of the library's own conversions.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <gdn/gdn.h>

namespace gdn_test {

inline std::uint32_t float_bits(float x) {
    std::uint32_t bits;
    std::memcpy(&bits, &x, 4);
    return bits;
}

inline float bits_float(std::uint32_t bits) {
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
}

inline std::uint16_t to_bf16(float x) {
    const std::uint32_t bits = float_bits(x);
    if (std::isnan(x)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
    return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

inline float from_bf16(std::uint16_t x) { return bits_float(static_cast<std::uint32_t>(x) << 16); }

inline float from_f16(std::uint16_t x) {
    const int exponent = x >> 10 & 31, fraction = x & 1023;
    const float sign = x >> 15 ? -1.0f : 1.0f;
    if (exponent == 31) return fraction ? std::nanf("") : sign * INFINITY;
    if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
    return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}

inline std::uint16_t to_f16(float x) {
    const std::uint16_t sign = static_cast<std::uint16_t>(std::signbit(x) ? 0x8000 : 0);
    if (std::isnan(x)) return sign | 0x7E00;
    const float magnitude = std::fabs(x);
    if (magnitude >= 65520.0f) return sign | 0x7C00;
    int exponent = -14;
    if (magnitude > 0) std::frexp(magnitude, &exponent);  // magnitude = m 2^exponent, m in [1/2, 1)
    const int ulp = (exponent < -13 ? -13 : exponent) - 11;
    // The step of binary16 here is 2^ulp; nearbyint rounds to even in the default mode, and a carry runs into the exponent by itself.
    const auto steps = static_cast<std::uint16_t>(std::nearbyint(std::ldexp(magnitude, -ulp)));
    if (exponent < -13) return sign | steps;
    return static_cast<std::uint16_t>(sign | (((exponent + 14) << 10) + (steps - 1024)));
}

inline std::size_t dtype_bytes(gdn_dtype dtype) {
    switch (dtype) {
    case GDN_DTYPE_BF16:
    case GDN_DTYPE_F16: return 2;
    case GDN_DTYPE_I64: return 8;
    default: return 4;
    }
}

// What is left of x when it is stored in dtype.
inline float rounded(gdn_dtype dtype, float x) {
    if (dtype == GDN_DTYPE_BF16) return from_bf16(to_bf16(x));
    if (dtype == GDN_DTYPE_F16) return from_f16(to_f16(x));
    return x;
}

inline void store_element(gdn_dtype dtype, void *to, float x) {
    const std::uint16_t half = dtype == GDN_DTYPE_BF16 ? to_bf16(x) : dtype == GDN_DTYPE_F16 ? to_f16(x) : 0;
    if (dtype == GDN_DTYPE_F32)
        std::memcpy(to, &x, 4);
    else
        std::memcpy(to, &half, 2);
}

inline float load_element(gdn_dtype dtype, const void *from) {
    std::uint16_t half;
    float x;
    std::memcpy(&half, from, 2);
    if (dtype == GDN_DTYPE_BF16) return from_bf16(half);
    if (dtype == GDN_DTYPE_F16) return from_f16(half);
    std::memcpy(&x, from, 4);
    return x;
}

inline const char *dtype_name(gdn_dtype dtype) {
    switch (dtype) {
    case GDN_DTYPE_F32: return "f32";
    case GDN_DTYPE_BF16: return "bf16";
    case GDN_DTYPE_F16: return "f16";
    case GDN_DTYPE_I32: return "i32";
    case GDN_DTYPE_I64: return "i64";
    default: return "none";
    }
}

}  // namespace gdn_test
