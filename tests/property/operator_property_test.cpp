// What must hold between calls, whatever the numbers: splits, steps, permutations, variants that reduce to one another, linearity.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "../support/case.h"
#include "../support/dtype.h"
#include "../support/grid.h"
#include "../support/random.h"

namespace gdn_test {
namespace {

using gdn_reference::Array;
using gdn_reference::Operands;

constexpr std::uint64_t kSeed = 31;

class Property : public ::testing::TestWithParam<std::string> {
protected:
    const std::string &target() const { return GetParam(); }
    int rounds(int full) const { return small_budget() ? std::max(1, full / 8) : full; }
};

::testing::AssertionResult close(const std::vector<float> &given, const std::vector<float> &expected, double bound) {
    if (given.size() != expected.size()) return ::testing::AssertionFailure() << "sizes differ";
    ErrorSum sum;
    for (std::size_t i = 0; i < given.size(); i++) sum.add(given[i], expected[i]);
    if (sum.error().within(bound)) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "relative RMS " << sum.error().rms << ", max over RMS " << sum.error().max << ", bound "
                                         << bound;
}

Case any_case(Random &random) {
    Case c;
    c.variant = kVariants[random.below(7)];
    c.K = 1 + random.below(96);
    c.V = c.variant == GDN_VARIANT_FG2 ? c.K : 1 + random.below(96);
    if (random.chance(0.5)) {
        c.K = (c.K + 15) / 16 * 16;
        c.V = (c.V + 15) / 16 * 16;
    }
    c.H = 1 + random.below(3);
    c.HV = c.H * (1 + random.below(3));
    c.lengths = {1 + random.below(90)};
    c.inputs = static_cast<Inputs>(random.below(6));
    c.gate = random.chance(0.5) ? GDN_GATE_LOGIT : GDN_GATE_VALUE;
    c.decay = static_cast<gdn_decay>(random.below(4));
    c.l2norm = random.chance(0.5);
    c.dtype = kDtypes[random.below(3)];
    c.v_first = random.chance(0.3);
    c.gates_per_value_head = random.chance(0.5);
    c.padded = random.chance(0.3);
    c.seed = static_cast<std::uint64_t>(random.below(1 << 30));
    return c;
}

// Cut into pieces anywhere, handing over the state in place: the reference's result for the whole.
TEST_P(Property, SplitAnywhere) {
    Random random(kSeed);
    const Context context(target());
    for (int i = 0; i < rounds(60); i++) {
        const Case c = any_case(random);
        Problem problem(c);
        bool first = true;
        for (std::int64_t t = 0; t < c.total();) {
            const std::int64_t count = std::min(c.total() - t, 1 + random.below(random.chance(0.5) ? 4 : 40));
            gdn_args args = time_slice(problem.args(), t, count);
            if (!first) args.initial_state = args.final_state;
            ASSERT_EQ(gdn_forward(context.get(), &args, nullptr, 0), GDN_STATUS_OK) << name(c) << ": " << gdn_last_error();
            first = false;
            t += count;
        }
        EXPECT_TRUE(problem.check(*reference_of(c, problem), target()));
    }
}

// A prefill of T tokens is T decode steps.
TEST_P(Property, PrefillIsDecodeSteps) {
    Random random(kSeed + 1);
    const Context context(target());
    for (int i = 0; i < rounds(40); i++) {
        const Case c = any_case(random);
        Problem prefill(c), decode(c);
        ASSERT_EQ(prefill.run(context), GDN_STATUS_OK) << name(c) << ": " << gdn_last_error();
        for (std::int64_t t = 0; t < c.total(); t++) {
            gdn_args args = time_slice(decode.args(), t, 1);
            if (t > 0) args.initial_state = args.final_state;
            ASSERT_EQ(gdn_step(context.get(), &args, nullptr, 0), GDN_STATUS_OK) << name(c) << ": " << gdn_last_error();
        }
        const auto expected = reference_of(c, prefill);
        EXPECT_TRUE(prefill.check(*expected, target()));
        EXPECT_TRUE(decode.check(*expected, target()));
    }
}

// Sequences in another order: the same bits in another order.
TEST_P(Property, BatchPermutation) {
    Random random(kSeed + 2);
    const Context context(target(), 2);
    for (int i = 0; i < rounds(40); i++) {
        Case c = any_case(random);
        c.packed = true;
        c.lengths.clear();
        const std::int64_t N = 2 + random.below(4);
        for (std::int64_t n = 0; n < N; n++) c.lengths.push_back(random.chance(0.2) ? 0 : 1 + random.below(40));
        Problem straight(c);
        std::vector<std::size_t> order(static_cast<std::size_t>(N));
        std::iota(order.begin(), order.end(), std::size_t{0});
        for (std::size_t n = order.size() - 1; n > 0; n--)
            std::swap(order[n], order[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(n) + 1))]);

        const Operands &x = straight.operands();
        Operands y = x;
        Case permuted_case = c;
        permuted_case.lengths.clear();
        y.cu_seqlens = {0};
        y.initial_state.clear();
        const std::size_t state = static_cast<std::size_t>(c.HV * c.K * c.V);
        for (std::size_t n : order) {
            permuted_case.lengths.push_back(c.lengths[n]);
            y.cu_seqlens.push_back(y.cu_seqlens.back() + c.lengths[n]);
            y.initial_state.insert(y.initial_state.end(), x.initial_state.begin() + static_cast<std::ptrdiff_t>(n * state),
                x.initial_state.begin() + static_cast<std::ptrdiff_t>((n + 1) * state));
        }
        for (Array Operands::*member : {&Operands::q, &Operands::k, &Operands::v, &Operands::g, &Operands::beta, &Operands::b, &Operands::w,
                 &Operands::beta_k, &Operands::beta_v}) {
            Array &to = y.*member;
            const Array &from = x.*member;
            to.data.clear();
            const std::int64_t row = from.heads * from.channels;
            for (std::size_t n : order)
                to.data.insert(to.data.end(), from.data.begin() + x.cu_seqlens[n] * row, from.data.begin() + x.cu_seqlens[n + 1] * row);
        }
        Problem permuted(permuted_case, y);
        ASSERT_EQ(straight.run(context), GDN_STATUS_OK) << name(c) << ": " << gdn_last_error();
        ASSERT_EQ(permuted.run(context), GDN_STATUS_OK) << name(c) << ": " << gdn_last_error();
        const std::vector<float> a = straight.o.read(), b = permuted.o.read();
        for (std::size_t m = 0; m < order.size(); m++) {
            ASSERT_EQ(permuted.state(static_cast<std::int64_t>(m)), straight.state(static_cast<std::int64_t>(order[m]))) << name(c);
            const std::int64_t row = c.HV * c.V, count = c.lengths[order[m]] * row;
            for (std::int64_t j = 0; j < count; j++)
                ASSERT_EQ(float_bits(b[static_cast<std::size_t>(y.cu_seqlens[m] * row + j)]),
                    float_bits(a[static_cast<std::size_t>(x.cu_seqlens[order[m]] * row + j)]))
                    << name(c);
        }
    }
}

// The modulo map is the division map of heads in another order.
TEST_P(Property, HeadPermutation) {
    Random random(kSeed + 3);
    const Context context(target());
    for (int i = 0; i < rounds(20); i++) {
        Case c = any_case(random);
        c.H = 2 + random.below(2);
        c.HV = c.H * (2 + random.below(2));
        c.gates_per_value_head = false;
        c.padded = false;
        const std::int64_t group = c.HV / c.H;
        Problem divide(c);
        Operands y = divide.operands();
        y.head_map = GDN_HEAD_MAP_MODULO;
        Case modulo_case = c;
        modulo_case.head_map = GDN_HEAD_MAP_MODULO;
        // Value head (j, h) of the division map, h group + j, stands at j H + h under the modulo map.
        const auto at = [&](std::int64_t hv) { return hv % group * c.H + hv / group; };
        const auto move = [&](std::vector<float> &to, const std::vector<float> &from, std::int64_t inner) {
            for (std::size_t r = 0; r < from.size() / static_cast<std::size_t>(c.HV * inner); r++)
                for (std::int64_t hv = 0; hv < c.HV; hv++)
                    for (std::int64_t d = 0; d < inner; d++)
                        to[r * static_cast<std::size_t>(c.HV * inner) + static_cast<std::size_t>(at(hv) * inner + d)] =
                            from[r * static_cast<std::size_t>(c.HV * inner) + static_cast<std::size_t>(hv * inner + d)];
        };
        move(y.v.data, divide.operands().v.data, c.V);
        if (y.w.present()) move(y.w.data, divide.operands().w.data, c.V);
        if (y.beta_v.present()) move(y.beta_v.data, divide.operands().beta_v.data, c.V);
        move(y.initial_state, divide.operands().initial_state, c.K * c.V);
        Problem modulo(modulo_case, y);
        ASSERT_EQ(divide.run(context), GDN_STATUS_OK) << name(c) << ": " << gdn_last_error();
        ASSERT_EQ(modulo.run(context), GDN_STATUS_OK) << name(c) << ": " << gdn_last_error();
        std::vector<float> expected = divide.o.read();
        move(expected, divide.o.read(), c.V);
        EXPECT_TRUE(modulo.o.read() == expected) << name(c);
    }
}

Array widened(const Array &from, std::int64_t channels) {
    Array to = from;
    to.channels = channels;
    to.data.clear();
    for (float value : from.data) to.data.insert(to.data.end(), static_cast<std::size_t>(channels), value);
    return to;
}

// Tied gates turn one variant into another (method.md 1.2): KDA with one decay for all channels is GDN (R73), GDN-2 with b = w = beta is
// KDA, FG2 and FG2+ with constant betas are KDA, GDN without decay is the delta rule, GDN-2 with b = 0 and w = 1 is gated linear
// attention, FG2+ with one beta is FG2.
TEST_P(Property, TiedGates) {
    const Context context(target());
    struct Reduction {
        const char *what;
        gdn_variant special, general;
        std::function<void(Operands &)> widen;
    };
    const Reduction reductions[] = {
        {"gdn as kda", GDN_VARIANT_GDN, GDN_VARIANT_KDA, [](Operands &x) { x.g = widened(x.g, x.K); }},
        {"kda as gdn2", GDN_VARIANT_KDA, GDN_VARIANT_GDN2,
            [](Operands &x) {
                x.b = widened(x.beta, x.K);
                x.w = widened(x.beta, x.V);
                x.beta = Array();
            }},
        {"kda as fg2", GDN_VARIANT_KDA, GDN_VARIANT_FG2, [](Operands &x) { x.beta = widened(x.beta, x.K); }},
        {"kda as fg2_plus", GDN_VARIANT_KDA, GDN_VARIANT_FG2_PLUS,
            [](Operands &x) {
                x.beta_k = widened(x.beta, x.K);
                x.beta_v = widened(x.beta, x.V);
                x.beta = Array();
            }},
        {"fg2 as fg2_plus", GDN_VARIANT_FG2, GDN_VARIANT_FG2_PLUS,
            [](Operands &x) {
                x.beta_k = x.beta_v = x.beta;
                x.beta = Array();
            }},
        {"delta_rule as gdn", GDN_VARIANT_DELTA_RULE, GDN_VARIANT_GDN,
            [](Operands &x) {
                x.g = x.beta;
                std::fill(x.g.data.begin(), x.g.data.end(), 0.0f);
            }},
        {"delta_rule as gdn without g", GDN_VARIANT_DELTA_RULE, GDN_VARIANT_GDN, [](Operands &) {}},
        {"gla as gdn2", GDN_VARIANT_GLA, GDN_VARIANT_GDN2,
            [](Operands &x) {
                x.b = x.g;
                std::fill(x.b.data.begin(), x.b.data.end(), 0.0f);
                x.w = x.v;
                std::fill(x.w.data.begin(), x.w.data.end(), 1.0f);
            }},
    };
    for (const Reduction &reduction : reductions)
        for (const Size &size : {Size{64, 64}, Size{24, 24}, Size{128, 128}})
            for (std::int64_t T : {1, 3, 29})
                for (gdn_gate gate : {GDN_GATE_VALUE, GDN_GATE_LOGIT}) {
                    if (gate == GDN_GATE_LOGIT && reduction.special == GDN_VARIANT_GLA) continue;
                    Case c;
                    c.variant = reduction.special;
                    c.gate = gate;
                    c.K = size.K;
                    c.V = size.V;
                    c.H = c.HV = 2;  // so that FG2+'s and GDN-2's value gates have the same heads as beta
                    c.lengths = {T};
                    Problem special(c);
                    Operands x = special.operands();
                    x.variant = c.variant = reduction.general;
                    reduction.widen(x);
                    Problem general(c, x);
                    ASSERT_EQ(special.run(context), GDN_STATUS_OK) << reduction.what << ": " << gdn_last_error();
                    ASSERT_EQ(general.run(context), GDN_STATUS_OK) << reduction.what << ": " << gdn_last_error();
                    EXPECT_TRUE(close(general.o.read(), special.o.read(), 2e-6)) << reduction.what;
                    EXPECT_TRUE(close(general.state(0), special.state(0), 2e-6)) << reduction.what;
                }
}

// FG2+ is the GDN-2 rule with k := sqrt(beta_k) k, b := 1, w := sqrt(beta_v).
TEST_P(Property, Fg2PlusIsGdn2OfScaledKeys) {
    const Context context(target());
    for (std::int64_t T : {1, 3, 45}) {
        Case c;
        c.variant = GDN_VARIANT_FG2_PLUS;
        c.K = 64;
        c.V = 48;
        c.lengths = {T};
        Problem plus(c);
        Operands x = plus.operands();
        x.variant = c.variant = GDN_VARIANT_GDN2;
        for (std::size_t i = 0; i < x.k.data.size(); i++) x.k.data[i] *= std::sqrt(x.beta_k.data[i]);
        x.w = x.beta_v;
        for (float &value : x.w.data) value = std::sqrt(value);
        x.b = x.beta_k;
        std::fill(x.b.data.begin(), x.b.data.end(), 1.0f);
        x.beta_k = x.beta_v = Array();
        Problem gdn2(c, x);
        ASSERT_EQ(plus.run(context), GDN_STATUS_OK) << gdn_last_error();
        ASSERT_EQ(gdn2.run(context), GDN_STATUS_OK) << gdn_last_error();
        EXPECT_TRUE(close(gdn2.o.read(), plus.o.read(), 2e-6));
        EXPECT_TRUE(close(gdn2.state(0), plus.state(0), 2e-6));
    }
}

// The outputs are linear in (v, S0).
TEST_P(Property, LinearInVAndS0) {
    Random random(kSeed + 4);
    const Context context(target());
    for (int i = 0; i < rounds(30); i++) {
        Case c = any_case(random);
        c.dtype = GDN_DTYPE_F32;
        c.padded = false;
        Problem one(c);
        Operands other = one.operands(), sum = other;
        for (float &value : other.v.data) value = static_cast<float>(random.normal());
        for (float &value : other.initial_state) value = static_cast<float>(random.normal());
        // 2 x1 - x2 / 2: one rounding per input.
        for (std::size_t j = 0; j < sum.v.data.size(); j++) sum.v.data[j] = 2 * one.operands().v.data[j] - 0.5f * other.v.data[j];
        for (std::size_t j = 0; j < sum.initial_state.size(); j++)
            sum.initial_state[j] = 2 * one.operands().initial_state[j] - 0.5f * other.initial_state[j];
        Problem two(c, other), both(c, sum);
        ASSERT_EQ(one.run(context), GDN_STATUS_OK) << name(c) << ": " << gdn_last_error();
        ASSERT_EQ(two.run(context), GDN_STATUS_OK) << name(c) << ": " << gdn_last_error();
        ASSERT_EQ(both.run(context), GDN_STATUS_OK) << name(c) << ": " << gdn_last_error();
        // Judged by the parts' size: their difference may nearly vanish.
        const auto linear = [&](const std::vector<float> &a, const std::vector<float> &b, const std::vector<float> &y) {
            double error = 0, size = 0;
            for (std::size_t j = 0; j < y.size(); j++) {
                const double difference = y[j] - (2.0 * a[j] - 0.5 * b[j]);
                error += difference * difference;
                size += 4.0 * a[j] * a[j] + 0.25 * b[j] * b[j];
            }
            return std::sqrt(error / (size > 0 ? size : 1));
        };
        EXPECT_LT(linear(one.o.read(), two.o.read(), both.o.read()), kBoundF32) << name(c);
        EXPECT_LT(linear(one.state(0), two.state(0), both.state(0)), kBoundF32) << name(c);
    }
}

// The read-out is linear in scale, and a power of two is exact.
TEST_P(Property, Scale) {
    const Context context(target());
    for (gdn_variant variant : kVariants) {
        Case c;
        c.variant = variant;
        c.lengths = {19};
        c.scale = 0.5;
        Problem half(c);
        c.scale = 2;
        Problem twice(c);
        ASSERT_EQ(half.run(context), GDN_STATUS_OK) << gdn_last_error();
        ASSERT_EQ(twice.run(context), GDN_STATUS_OK) << gdn_last_error();
        std::vector<float> expected = half.o.read();
        for (float &value : expected) value *= 4;
        EXPECT_TRUE(twice.o.read() == expected);
        EXPECT_TRUE(twice.state(0) == half.state(0));
    }
}

// The symmetric variants never let the state grow (method.md 1.3): without writing, no column's norm rises.
TEST_P(Property, StateDoesNotGrow) {
    const Context context(target());
    for (gdn_variant variant : {GDN_VARIANT_DELTA_RULE, GDN_VARIANT_GDN, GDN_VARIANT_KDA, GDN_VARIANT_FG2, GDN_VARIANT_FG2_PLUS})
        for (Inputs inputs : {Inputs::kModerate, Inputs::kWeakDecay, Inputs::kParallelKeys}) {
            Case c;
            c.variant = variant;
            c.inputs = inputs;
            c.neg_eigval = variant != GDN_VARIANT_FG2 && variant != GDN_VARIANT_FG2_PLUS;
            c.lengths = {100};
            Operands x = Problem(c).operands();
            std::fill(x.v.data.begin(), x.v.data.end(), 0.0f);
            Problem problem(c, x);
            ASSERT_EQ(problem.run(context), GDN_STATUS_OK) << gdn_last_error();
            const std::vector<float> S = problem.state(0);
            for (std::size_t d = 0; d < 64; d++) {
                double before = 0, after = 0;
                for (std::size_t k = 0; k < 64; k++) {
                    before += std::pow(x.initial_state[k * 64 + d], 2);
                    after += std::pow(S[k * 64 + d], 2);
                }
                EXPECT_LE(after, before * (1 + 1e-5));
            }
        }
}

INSTANTIATE_TEST_SUITE_P(All, Property, ::testing::ValuesIn(targets()), [](const auto &info) { return info.param; });

}  // namespace
}  // namespace gdn_test
