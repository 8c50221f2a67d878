// 16-bit floats at rest: buffers hold their bits as uint16, arithmetic is float32. Conversion is integer arithmetic on every target,
// rounding to nearest even; a float16_t or bfloat16_t inside Halide would be emulated slowly, or natively only on some machines.
#pragma once
#include <Halide.h>

#include <string>

namespace gdn {

enum class Dtype { F32, BF16, F16 };

inline Dtype dtype_of(const std::string &name) {
    if (name == "f32") return Dtype::F32;
    if (name == "bf16") return Dtype::BF16;
    _halide_user_assert(name == "f16") << "unknown dtype '" << name << "'\n";
    return Dtype::F16;
}

inline Halide::Type storage_of(Dtype dtype) {
    return dtype == Dtype::F32 ? Halide::Type(Halide::Float(32)) : Halide::Type(Halide::UInt(16));
}

// float32 of a stored value. NaN stays NaN.
inline Halide::Expr widen(Dtype dtype, const Halide::Expr &x) {
    using namespace Halide;
    if (dtype == Dtype::F32) return x;
    Expr bits = cast<uint32_t>(x);
    if (dtype == Dtype::BF16) return reinterpret<float>(bits << 16);
    // Exponent 0: m 2^-24 = (2^-14 + m 2^-24) - 2^-14, which no flushing of subnormals can touch. Exponent 31: infinity and NaN.
    Expr magnitude = (bits & 0x7fff) << 13;
    Expr normal = magnitude + ((127 - 15) << 23);
    Expr subnormal = reinterpret<uint32_t>(reinterpret<float>(magnitude + ((127 - 14) << 23)) - 6.103515625e-5f);
    Expr special = magnitude | (255 << 23);
    Expr exponent = bits & 0x7c00;
    Expr value = select(exponent == 0, subnormal, exponent == 0x7c00, special, normal);
    return reinterpret<float>(value | ((bits & 0x8000) << 16));
}

// The nearest stored value, ties to even. NaN stays NaN with its sign, made quiet.
inline Halide::Expr narrow(Dtype dtype, const Halide::Expr &x) {
    using namespace Halide;
    if (dtype == Dtype::F32) return x;
    Expr bits = reinterpret<uint32_t>(x);
    Expr magnitude = bits & 0x7fffffff;
    Expr is_nan = magnitude > (255 << 23);
    if (dtype == Dtype::BF16) {
        Expr rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
        return cast<uint16_t>(select(is_nan, (bits >> 16) | 0x40, rounded));
    }
    // Rebias the exponent and round off 13 bits in one addition; a carry out of the largest value is infinity.
    Expr normal = (magnitude - ((127 - 15) << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    // Below 2^-14: the last bit of a sum near 1/2 is 2^-24, so the addition rounds.
    Expr subnormal = reinterpret<uint32_t>(reinterpret<float>(magnitude) + 0.5f) - 0x3f000000;
    Expr value = select(magnitude < ((127 - 14) << 23), subnormal, min(normal, 0x7c00));
    value = select(is_nan, ((magnitude >> 13) & 0x3ff) | 0x7e00, value);
    return cast<uint16_t>(value | ((bits >> 16) & 0x8000));
}

}  // namespace gdn
