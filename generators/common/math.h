// Functions of one float32 value, each within 2 units of float32's epsilon (2^-23) of the true value, NaN in NaN out, no trap at any input.
//
// Halide compiles floats as if NaN and infinity did not exist and may regroup sums. Where a result depends on either, one operation is
// taken out of that licence with a strict_* intrinsic, by hand: strict_float() would do it to the whole expression and cost the FMAs.
#pragma once
#include <Halide.h>

#include <initializer_list>

namespace gdn {

using Halide::Expr;

namespace detail {

inline Expr strict(Halide::Internal::Call::IntrinsicOp op, const Halide::Type &type, const Expr &x, const Expr &y) {
    return Halide::Internal::Call::make(type, op, {x, y}, Halide::Internal::Call::PureIntrinsic);
}
inline Expr strict_sub(const Expr &x, const Expr &y) { return strict(Halide::Internal::Call::strict_sub, x.type(), x, y); }
inline Expr strict_less(const Expr &x, const Expr &y) { return strict(Halide::Internal::Call::strict_lt, Halide::Bool(), x, y); }
inline Expr bits(const Expr &x) { return Halide::reinterpret<uint32_t>(x); }
inline Expr from_bits(const Expr &x) { return Halide::reinterpret<float>(x); }

// A choice between bit patterns: a float select would again be free to lose NaN. Compiles to one max or min where the machine has it.
inline Expr choose(const Expr &condition, const Expr &x, const Expr &y) {
    return from_bits(Halide::select(condition, bits(x), bits(y)));
}

inline Expr horner(const Expr &x, std::initializer_list<float> coefficients) {
    Expr sum;
    for (float c : coefficients) sum = sum.defined() ? sum * x + c : Expr(c);
    return sum;
}

}  // namespace detail

// max(x, low) and min(x, high) that keep a NaN in x.
inline Expr at_least(const Expr &x, float low) { return detail::choose(detail::strict_less(x, low), low, x); }
inline Expr at_most(const Expr &x, float high) { return detail::choose(detail::strict_less(high, x), high, x); }

// exp(x) for x in [-88.03, 88.37]: 2^n exp(r), n = round(x / ln 2). exp(0) = 1 and exp(-88.03) = 0 exactly.
// Adding 3 * 2^22 + 127 leaves n + 127 in the low bits of the sum. r = x - n ln2 in two steps, the first one exact.
// exp(r) = 1 + r + r^2 (..), |r| <= ln2 / 2: degree 6, minimax in relative error with the first two terms fixed, 3.1e-9.
inline Expr exp_in_range(const Expr &x) {
    const float round = 12582912.0f + 127.0f;
    Expr shifted = x * 1.44269504088896341f + round;
    Expr n = detail::strict_sub(shifted, round);
    Expr r = detail::strict_sub(x, n * 0.693359375f) + n * 2.12194440e-4f;
    Expr p = detail::horner(r, {1.381460577e-3f, 8.368712850e-3f, 4.166838899e-2f, 1.666652113e-1f, 4.999999404e-1f, 1.0f, 1.0f});
    return p * detail::from_bits(detail::bits(shifted) << 23);
}

// exp(x) for x <= 0. Exactly 0 from -87.69 down, -infinity included; results below 2^-126 may be 0.
inline Expr exp_decay(const Expr &x) { return exp_in_range(at_least(x, -88.03f)); }

// exp(x) for any x, but at most exp(88.37) = 2.4e38.
inline Expr exp_full(const Expr &x) { return exp_in_range(at_most(at_least(x, -88.03f), 88.37f)); }

// log(1 + exp(x)) = max(x, 0) + z P(z), z = exp(-|x|) in (0, 1]. z P(z) = log(1 + z): degree 9, minimax in relative error with P(0) = 1, 3.3e-8.
inline Expr softplus(const Expr &x) {
    Expr z = exp_decay(-Halide::abs(x));
    Expr p = detail::horner(z, {5.364820726e-3f, -3.006577889e-2f, 7.920451547e-2f, -1.375380079e-1f, 1.915365428e-1f, -2.485716352e-1f,
                                3.332132260e-1f, -4.999964796e-1f, 1.0f});
    return z * p + Halide::max(x, 0.0f);
}

// 1 / (1 + exp(-x)) from z = exp(-|x|), which cannot overflow. Exactly 0 and 1 at -infinity and infinity.
inline Expr sigmoid(const Expr &x) {
    Expr z = exp_decay(-Halide::abs(x));
    return Halide::select(x < 0.0f, z, 1.0f) / (1.0f + z);
}

// sqrt(sigmoid(x)) in one map: no gate is rounded in between.
inline Expr sqrt_sigmoid(const Expr &x) { return Halide::sqrt(sigmoid(x)); }

}  // namespace gdn
