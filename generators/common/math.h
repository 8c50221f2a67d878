// Functions of one float32 value, NaN in NaN out, no trap at any input, exact where a gate is closed or open. Relative error at most 2 *
// 2^-23, wherever the result is a normal number, with and without FMA (measured: exp 1.0, softplus 1.7, sigmoid 1.5, sqrt_sigmoid 1.2 times
// 2^-23).
//
// Halide compiles floats as if NaN and infinity did not exist and may regroup sums. Where a result depends on either, one operation is
// taken out of that licence with a strict_* intrinsic, by hand: strict_float() would do it to the whole expression and cost the FMAs.
#pragma once
#include <Halide.h>

#include <vector>

namespace gdn {

using Halide::Expr;

namespace detail {

inline Expr strict(Halide::Internal::Call::IntrinsicOp op, const Halide::Type &type, const Expr &x, const Expr &y) {
    return Halide::Internal::Call::make(type, op, {x, y}, Halide::Internal::Call::PureIntrinsic);
}
inline Expr strict_sub(const Expr &x, const Expr &y) { return strict(Halide::Internal::Call::strict_sub, x.type(), x, y); }
inline Expr strict_add(const Expr &x, const Expr &y) { return strict(Halide::Internal::Call::strict_add, x.type(), x, y); }
inline Expr strict_mul(const Expr &x, const Expr &y) { return strict(Halide::Internal::Call::strict_mul, x.type(), x, y); }
inline Expr strict_less(const Expr &x, const Expr &y) { return strict(Halide::Internal::Call::strict_lt, Halide::Bool(), x, y); }
inline Expr bits(const Expr &x) { return Halide::reinterpret<uint32_t>(x); }
inline Expr from_bits(const Expr &x) { return Halide::reinterpret<float>(x); }

// Sum of c_i x^i by pairs, pairs of pairs, ..: as many FMAs as Horner's rule and one product for each doubling, at a fraction of its
// latency, which is what a stage waits for. The lowest coefficient comes first.
inline Expr polynomial(Expr x, std::vector<Expr> c) {
    while (c.size() > 1) {
        std::vector<Expr> pairs;
        for (size_t i = 0; i < c.size(); i += 2) pairs.push_back(i + 1 < c.size() ? c[i + 1] * x + c[i] : c[i]);
        c = pairs;
        x = x * x;
    }
    return c[0];
}

// 2^n from the low bits of n + 127 + 3 * 2^22; 0 for n = -127.
inline Expr power_of_two(const Expr &shifted) { return from_bits(bits(shifted) << 23); }
constexpr float kRound = 12582912.0f + 127.0f;  // adding it rounds to a whole number n and leaves n + 127 in the low bits of the sum

}  // namespace detail

// max(x, low) and min(x, high) that keep a NaN in x. One instruction where the machine's max and min return the second operand.
inline Expr at_least(const Expr &x, float low) { return Halide::select(detail::strict_less(x, low), low, x); }
inline Expr at_most(const Expr &x, float high) { return Halide::select(detail::strict_less(high, x), high, x); }

namespace detail {

// exp(x) = 2^n exp(r), n = round(x / ln 2), r = x - n ln2 in two steps, the first one exact.
// exp(r) = 1 + r + r^2 (..), |r| <= ln2 / 2, minimax in relative error: 3.1e-9.
struct Exp {
    Expr excess;  // exp(r) - 1
    Expr power;   // 2^n: 0 for n = -127, infinity for n = 128
};

inline Exp exp_parts(const Expr &x) {
    Expr shifted = x * 1.44269504088896341f + kRound;
    Expr n = strict_sub(shifted, kRound);
    Expr r = strict_sub(x, n * 0.693359375f) + n * 2.12194440e-4f;
    Expr q = polynomial(r, {4.999999404e-1f, 1.666652113e-1f, 4.166838899e-2f, 8.368712850e-3f, 1.381460577e-3f});
    return {q * (r * r) + r, power_of_two(shifted)};
}

}  // namespace detail

// exp(x) for x in [-88.03, 88.37]. exp(0) = 1 and exp(-88.03) = 0 exactly.
inline Expr exp_in_range(const Expr &x) {
    const detail::Exp e = detail::exp_parts(x);
    return e.excess * e.power + e.power;
}

// 2^x for x in [-127, 126.49]; exactly 0 at -127. Minimax in relative error with 2^0 = 1: 2.0e-9.
inline Expr exp2_in_range(const Expr &x) {
    Expr shifted = x + detail::kRound;
    Expr f = detail::strict_sub(x, detail::strict_sub(shifted, detail::kRound));
    Expr power = detail::power_of_two(shifted);
    return detail::polynomial(f, {6.931471825e-1f, 2.402264774e-1f, 5.550332367e-2f, 9.618436918e-3f, 1.339887735e-3f, 1.535336050e-4f}) *
               f * power +
           power;
}

// exp(x) for x <= 0. Exactly 0 from -87.69 down, -infinity included; results below 2^-126 may be 0.
inline Expr exp_decay(const Expr &x) { return exp_in_range(at_least(x, -88.03f)); }

// exp(x) for any x, but at most exp(88.37) = 2.4e38.
inline Expr exp_full(const Expr &x) { return exp_in_range(at_most(at_least(x, -88.03f), 88.37f)); }

// log(1 + exp(x)) = max(x, 0) + log(1 + z), z = exp(-|x|) in (0, 1]. log(1 + z) = z + z^2 (..), minimax in relative error: 3.3e-8.
inline Expr softplus(const Expr &x) {
    Expr z = exp_decay(-Halide::abs(x));
    Expr q = detail::polynomial(z, {-4.999964796e-1f, 3.332132260e-1f, -2.485716352e-1f, 1.915365428e-1f, -1.375380079e-1f, 7.920451547e-2f,
                                       -3.006577889e-2f, 5.364820726e-3f});
    Expr relu = detail::from_bits(Halide::max(Halide::reinterpret<int32_t>(x), 0));
    return detail::strict_add(q * (z * z) + z, relu);
}

// exp(-rate softplus(x)). The exponent is made in powers of two and rounded once; its relative error, of softplus, rate and the product, is
// multiplied by the exponent, as in any float32 evaluation.
inline Expr softplus_decay(const Expr &rate, const Expr &x) {
    return exp2_in_range(at_least(rate * -1.44269504088896341f * softplus(x), -127.0f));
}

namespace detail {

constexpr float kClosed = -88.7f;  // sigmoid is 0 from here down

// 1 + exp(-x) for x >= kClosed or NaN, rounded once. From x = -88.38 down it is infinite, and only the factor of exp's excess, which may be
// negative, stays finite.
inline Expr one_plus_exp_minus(const Expr &x) {
    const Exp e = exp_parts(-at_most(x, 88.03f));
    return e.excess * at_most(e.power, 0x1p127f) + strict_add(e.power, 1.0f);
}

}  // namespace detail

// 1 / (1 + exp(-x)). Exactly 0 and 1 at -infinity and infinity.
inline Expr sigmoid(const Expr &x) { return 1.0f / detail::one_plus_exp_minus(at_least(x, detail::kClosed)); }

// x sigmoid(x) as one quotient, so that it is a normal number down to x = -88.37. -0 at -infinity.
inline Expr silu(const Expr &x) {
    const Expr open = at_least(x, detail::kClosed);
    return open / detail::one_plus_exp_minus(open);
}

// sqrt(sigmoid(x)) in one map: no gate is rounded in between.
inline Expr sqrt_sigmoid(const Expr &x) { return Halide::sqrt(sigmoid(x)); }

}  // namespace gdn
