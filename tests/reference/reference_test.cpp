// The double reference against what others computed, against closed forms, and against the formula written with matrices.
#include <cmath>
#include <new>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "../support/case.h"
#include "../support/dtype.h"
#include "../support/oracles.h"
#include "../support/random.h"
#include "operator.h"

namespace gdn_test {
namespace {

using gdn_reference::Operands;
using gdn_reference::Raw;
using gdn_reference::Result;
using gdn_reference::Token;

constexpr double kTight = 1e-12;

Error distance(const std::vector<double> &given, const std::vector<double> &expected) {
    EXPECT_EQ(given.size(), expected.size());
    ErrorSum sum;
    for (std::size_t i = 0; i < given.size() && i < expected.size(); i++) sum.add(given[i], expected[i]);
    return sum.error();
}

std::vector<double> joined(const std::vector<std::vector<double>> &parts) {
    std::vector<double> all;
    for (const auto &part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
}

class ReferenceOracle : public ::testing::TestWithParam<Oracle> {};

TEST_P(ReferenceOracle, Agrees) {
    const Result y = gdn_reference::run(GetParam().operands);
    // The l2 norm of the varlen case was taken in float32 by its maker.
    const double bound = GetParam().operands.l2norm ? 1e-6 : kTight;
    EXPECT_LT(distance(y.o, GetParam().o).rms, bound);
    EXPECT_LT(distance(joined(y.final_state), GetParam().S).rms, bound);
}

INSTANTIATE_TEST_SUITE_P(Files, ReferenceOracle, ::testing::ValuesIn(oracles()), [](const auto &info) { return info.param.name; });

// FG2+ through the GDN-2 rule: k := sqrt(beta_k) k, b := 1, w := sqrt(beta_v).
TEST(Reference, Fg2PlusIsGdn2OfScaledKeys) {
    Case c;
    c.variant = GDN_VARIANT_FG2_PLUS;
    c.K = 24;
    c.V = 20;
    c.lengths = {64};
    Problem problem(c);
    Operands x = problem.operands();
    const Result expected = gdn_reference::run(x);
    x.variant = GDN_VARIANT_GDN2;
    x.b = x.beta_k;
    x.w = x.beta_v;
    for (float &value : x.b.data) value = 1;
    // The square roots must be exact in float for a fair comparison: make the betas squares first.
    Operands squares = problem.operands();
    for (std::size_t i = 0; i < x.k.data.size(); i++) {
        const float root = std::ldexp(std::nearbyint(std::ldexp(std::sqrt(problem.operands().beta_k.data[i]), 8)), -8);
        squares.beta_k.data[i] = root * root;
        squares.k.data[i] = std::ldexp(std::nearbyint(std::ldexp(squares.k.data[i], 10)), -10);
        x.k.data[i] = root * squares.k.data[i];
    }
    for (std::size_t i = 0; i < x.w.data.size(); i++) {
        const float root = std::ldexp(std::nearbyint(std::ldexp(std::sqrt(problem.operands().beta_v.data[i]), 8)), -8);
        squares.beta_v.data[i] = root * root;
        x.w.data[i] = root;
    }
    const Result plus = gdn_reference::run(squares), gdn2 = gdn_reference::run(x);
    EXPECT_LT(distance(gdn2.o, plus.o).rms, kTight);
    EXPECT_LT(distance(joined(gdn2.final_state), joined(plus.final_state)).rms, kTight);
    EXPECT_GT(distance(gdn2.o, expected.o).rms, 0);
}

// S_t = (I - a e^T) Diag(alpha) S + a u^T with the matrices written out.
TEST(Reference, ExplicitMatrices) {
    const std::size_t K = 7, V = 5;
    Random random(7);
    for (int v = 0; v < 7; v++) {
        const auto variant = static_cast<gdn_variant>(v);
        const std::size_t columns = variant == GDN_VARIANT_FG2 ? K : V;
        Raw raw;
        const auto draw = [&](std::size_t n, bool gate) {
            std::vector<double> values(n);
            for (double &value : values) value = gate ? random.uniform() : random.normal();
            return values;
        };
        raw.q = draw(K, false);
        raw.k = draw(K, false);
        raw.v = draw(columns, false);
        raw.alpha = draw(K, true);
        raw.beta = draw(K, true);
        raw.b = draw(K, true);
        raw.w = draw(columns, true);
        raw.beta_k = draw(K, true);
        raw.beta_v = draw(columns, true);
        std::vector<double> S = draw(K * columns, false), before = S, o(columns);
        Token token(K, columns);
        gdn_reference::apply_variant(variant, raw, token);
        const double scale = 0.3;
        gdn_reference::recur(token, scale, S.data(), o.data());

        // a, e, u by the table of gdn.h, not by the headers under test.
        std::vector<double> a(K), e(K), u(columns), alpha = raw.alpha;
        for (std::size_t c = 0; c < K; c++) {
            const double root = variant == GDN_VARIANT_FG2 ? std::sqrt(raw.beta[c]) : std::sqrt(raw.beta_k[c]);
            const bool fine = variant == GDN_VARIANT_FG2 || variant == GDN_VARIANT_FG2_PLUS;
            a[c] = fine ? root * raw.k[c] : raw.k[c];
            e[c] = fine                          ? a[c]
                   : variant == GDN_VARIANT_GDN2 ? raw.b[c] * raw.k[c]
                   : variant == GDN_VARIANT_GLA  ? 0
                                                 : raw.beta[0] * raw.k[c];
            if (variant == GDN_VARIANT_DELTA_RULE) alpha[c] = 1;
        }
        for (std::size_t d = 0; d < columns; d++) {
            const double factor = variant == GDN_VARIANT_GLA        ? 1
                                  : variant == GDN_VARIANT_GDN2     ? raw.w[d]
                                  : variant == GDN_VARIANT_FG2      ? std::sqrt(raw.beta[d])
                                  : variant == GDN_VARIANT_FG2_PLUS ? std::sqrt(raw.beta_v[d])
                                                                    : raw.beta[0];
            u[d] = factor * raw.v[d];
        }
        for (std::size_t d = 0; d < columns; d++) {
            double read = 0;
            for (std::size_t i = 0; i < K; i++) {
                double sum = a[i] * u[d];
                for (std::size_t j = 0; j < K; j++) sum += ((i == j) - a[i] * e[j]) * alpha[j] * before[j * columns + d];
                EXPECT_NEAR(S[i * columns + d], sum, 1e-13) << variant_name(variant);
                read += scale * raw.q[i] * sum;
            }
            EXPECT_NEAR(o[d], read, 1e-13) << variant_name(variant);
        }
    }
}

// A gauge: (a, e, u) -> (beta a, e / beta, u / beta) changes nothing.
TEST(Reference, Gauge) {
    const std::size_t K = 6, V = 4;
    Random random(3);
    Token one(K, V), two(K, V);
    for (std::size_t c = 0; c < K; c++) {
        one.q[c] = two.q[c] = random.normal();
        one.alpha[c] = two.alpha[c] = random.uniform();
        one.a[c] = random.normal();
        one.e[c] = 0.7 * one.a[c];
        two.a[c] = 0.7 * one.a[c];
        two.e[c] = one.a[c];
    }
    for (std::size_t d = 0; d < V; d++) {
        two.u[d] = random.normal();
        one.u[d] = 0.7 * two.u[d];
    }
    std::vector<double> S1(K * V, 1.0), S2 = S1, o1(V), o2(V);
    gdn_reference::recur(one, 1, S1.data(), o1.data());
    gdn_reference::recur(two, 1, S2.data(), o2.data());
    for (std::size_t i = 0; i < S1.size(); i++) EXPECT_NEAR(S1[i], S2[i], 1e-14);
    for (std::size_t d = 0; d < V; d++) EXPECT_NEAR(o1[d], o2[d], 1e-14);
}

Operands closed_form(std::int64_t T, std::int64_t K, std::int64_t V, float g, float beta) {
    Operands x;
    x.variant = GDN_VARIANT_GDN;
    x.B = x.H = x.HV = 1;
    x.T = T;
    x.K = K;
    x.V = V;
    x.scale = 1;
    const auto array = [&](std::int64_t channels, float value) {
        gdn_reference::Array y;
        y.T = T;
        y.heads = 1;
        y.channels = channels;
        y.data.assign(static_cast<std::size_t>(T * channels), value);
        return y;
    };
    x.q = x.k = array(K, 0);
    for (std::int64_t t = 0; t < T; t++) x.q.data[static_cast<std::size_t>(t * K)] = x.k.data[static_cast<std::size_t>(t * K)] = 1;
    x.v = array(V, 0);
    for (std::size_t i = 0; i < x.v.data.size(); i++) x.v.data[i] = static_cast<float>(static_cast<int>(i * 7 % 23) - 11);
    x.g = array(1, g);
    x.beta = array(1, beta);
    return x;
}

TEST(Reference, G1_ClosedForms) {
    // (b) beta = 1: o_t = v_t.
    Operands x = closed_form(20, 4, 5, 0, 1);
    Result y = gdn_reference::run(x);
    for (std::size_t i = 0; i < y.o.size(); i++) EXPECT_EQ(y.o[i], x.v.data[i]);
    // (c) beta = 2: o_t = 2 v_t - o_{t-1}.
    x = closed_form(20, 4, 5, 0, 2);
    y = gdn_reference::run(x);
    for (std::size_t i = 0; i < y.o.size(); i++) EXPECT_EQ(y.o[i], 2 * x.v.data[i] - (i < 5 ? 0 : y.o[i - 5]));
    // (d) beta = 0, alpha = 1/2, S0 = e1 1^T: o_t = 2^-(t+1).
    x = closed_form(20, 4, 5, 0.5f, 0);
    x.decay = GDN_DECAY_LINEAR;
    x.initial_state.assign(20, 0);
    for (int d = 0; d < 5; d++) x.initial_state[static_cast<std::size_t>(d)] = 1;
    y = gdn_reference::run(x);
    for (std::size_t i = 0; i < y.o.size(); i++) EXPECT_EQ(y.o[i], std::ldexp(1.0, -static_cast<int>(i / 5) - 1));
}

TEST(Reference, Units) {
    using gdn_reference::decay;
    EXPECT_EQ(decay(GDN_DECAY_LOG, -INFINITY, 1, 0, -5), 0);
    EXPECT_EQ(decay(GDN_DECAY_LINEAR, 0.25, 1, 0, -5), 0.25);
    EXPECT_NEAR(decay(GDN_DECAY_SOFTPLUS, 0.5, 2, 0.1, -5), std::exp(-2 * std::log(1 + std::exp(0.6))), 1e-15);
    EXPECT_EQ(decay(GDN_DECAY_SOFTPLUS, 1e4, 2, 0, -5), 0);
    EXPECT_EQ(decay(GDN_DECAY_SOFTPLUS, -1e4, 2, 0, -5), 1);
    EXPECT_NEAR(decay(GDN_DECAY_LOWER_BOUND, 0.5, 2, 0.1, -5), std::exp(-5 / (1 + std::exp(-1.2))), 1e-15);
    EXPECT_NEAR(decay(GDN_DECAY_LOWER_BOUND, 1e4, 1, 0, -5), std::exp(-5), 1e-15);
    EXPECT_EQ(gdn_reference::gate(GDN_GATE_LOGIT, INFINITY, false), 1);
    EXPECT_EQ(gdn_reference::gate(GDN_GATE_LOGIT, -INFINITY, true), 0);
    EXPECT_EQ(gdn_reference::gate(GDN_GATE_LOGIT, 0, true), 1);
    std::vector<double> x(128, 1e-4 / std::sqrt(128.0));
    gdn_reference::l2norm(x);
    double sum = 0;
    for (double value : x) sum += value * value;
    EXPECT_NEAR(std::sqrt(sum), 0.0995, 1e-4);  // not 0.99 (epsilon on the mean) nor 0.0088 (outside the root)
}

// Value heads and key heads, packed sequences, slots, layouts, snapshots: what the driver adds to the recurrence.
TEST(Reference, SplitsSlotsLayoutsSnapshots) {
    Case c;
    c.variant = GDN_VARIANT_GDN2;
    c.H = 2;
    c.HV = 6;
    c.K = 5;
    c.V = 3;
    c.lengths = {9, 0, 4};
    c.packed = true;
    c.n_snapshots = 3;
    Problem packed(c);
    const Result y = gdn_reference::run(packed.operands());

    // Sequence 0 alone, in two pieces that hand over the state.
    const auto piece = [&](std::int64_t first, std::int64_t count, const std::vector<float> &S0) {
        Operands x = packed.operands();
        x.cu_seqlens.clear();
        x.n_snapshots = 0;
        x.T = count;
        for (auto array : {&x.q, &x.k, &x.v, &x.g, &x.b, &x.w}) {
            const std::int64_t row = array->heads * array->channels;
            array->data = std::vector<float>(array->data.begin() + first * row, array->data.begin() + (first + count) * row);
            array->T = count;
        }
        x.initial_state = S0;
        return gdn_reference::run(x);
    };
    const std::vector<float> S0(packed.operands().initial_state.begin(), packed.operands().initial_state.begin() + 6 * 15);
    const Result whole = piece(0, 9, S0);
    EXPECT_EQ(whole.final_state[0], y.final_state[0]);
    for (std::size_t i = 0; i < whole.o.size(); i++) EXPECT_EQ(whole.o[i], y.o[i]);
    EXPECT_EQ(piece(0, 7, S0).final_state[0], y.snapshots[0]);
    EXPECT_EQ(piece(0, 9, S0).final_state[0], y.snapshots[2]);
    EXPECT_TRUE(y.snapshots[3].empty());  // the empty sequence has none
    for (std::size_t i = 0; i < 90; i++) EXPECT_EQ(y.final_state[1][i], packed.operands().initial_state[90 + i]);

    // V-first is the same state transposed.
    Operands x = packed.operands();
    x.v_first = true;
    for (std::size_t h = 0; h < 18; h++)
        for (std::size_t k = 0; k < 5; k++)
            for (std::size_t d = 0; d < 3; d++) x.initial_state[h * 15 + d * 5 + k] = packed.operands().initial_state[h * 15 + k * 3 + d];
    const Result z = gdn_reference::run(x);
    EXPECT_EQ(z.o, y.o);
    for (std::size_t k = 0; k < 5; k++)
        for (std::size_t d = 0; d < 3; d++) EXPECT_EQ(z.final_state[2][d * 5 + k], y.final_state[2][k * 3 + d]);

    // Slots only choose.
    x = packed.operands();
    x.initial_slots = {2, -1, 2};
    const Result slots = gdn_reference::run(x);
    EXPECT_EQ(slots.final_state[1], std::vector<double>(90, 0.0));
    EXPECT_EQ(slots.final_state[2], y.final_state[2]);
    EXPECT_NE(slots.final_state[0], y.final_state[0]);
}

TEST(Reference, HeadMaps) {
    Operands x;
    x.H = 2;
    x.HV = 6;
    const std::vector<std::int64_t> divide = {0, 0, 0, 1, 1, 1}, modulo = {0, 1, 0, 1, 0, 1};
    for (std::int64_t hv = 0; hv < 6; hv++) EXPECT_EQ(gdn_reference::key_head(x, hv), divide[static_cast<std::size_t>(hv)]);
    x.head_map = GDN_HEAD_MAP_MODULO;
    for (std::int64_t hv = 0; hv < 6; hv++) EXPECT_EQ(gdn_reference::key_head(x, hv), modulo[static_cast<std::size_t>(hv)]);
}

// The tests' own conversions: every 16-bit value survives, and a float goes to its nearest neighbour, even on a tie.
TEST(Support, Dtypes) {
    for (std::uint32_t bits = 0; bits < 65536; bits++) {
        const auto half = static_cast<std::uint16_t>(bits);
        const float b = from_bf16(half), f = from_f16(half);
        EXPECT_TRUE(std::isnan(b) || to_bf16(b) == half) << bits;
        EXPECT_TRUE(std::isnan(f) || to_f16(f) == half) << bits;
    }
    EXPECT_EQ(from_f16(0x3C00), 1.0f);
    EXPECT_EQ(from_f16(0x0001), std::ldexp(1.0f, -24));
    EXPECT_EQ(to_f16(65504.0f), 0x7BFF);
    EXPECT_EQ(to_f16(65519.9f), 0x7BFF);
    EXPECT_EQ(to_f16(65520.0f), 0x7C00);
    EXPECT_EQ(to_f16(1 + std::ldexp(1.0f, -11)), 0x3C00);
    EXPECT_EQ(to_f16(1 + 3 * std::ldexp(1.0f, -11)), 0x3C02);
    EXPECT_EQ(to_f16(std::ldexp(1.0f, -25)), 0x0000);
    EXPECT_EQ(to_f16(3 * std::ldexp(1.0f, -25)), 0x0002);
    EXPECT_EQ(to_bf16(1 + std::ldexp(1.0f, -8)), 0x3F80);
    EXPECT_EQ(to_bf16(1 + 3 * std::ldexp(1.0f, -8)), 0x3F82);
    Random random(5);
    for (int i = 0; i < 100000; i++) {
        const float x = static_cast<float>(random.normal() * std::exp(4 * random.normal()));
        EXPECT_LE(std::fabs(from_bf16(to_bf16(x)) - x), std::ldexp(std::fabs(x), -8));
        EXPECT_LE(
            std::fabs(from_f16(to_f16(x)) - x), std::fabs(x) > 65504 ? INFINITY : std::ldexp(std::fabs(x), -11) + std::ldexp(1.0f, -25));
    }
}

// A guard that does not bite guards nothing.
TEST(SupportDeathTest, Guards) {
    GuardedBuffer end(10, Guard::kEnd), begin(10, Guard::kBegin);
    EXPECT_EXIT({ static_cast<volatile unsigned char *>(end.data())[10] = 1; }, ::testing::KilledBySignal(SIGSEGV), "");
    EXPECT_EXIT({ static_cast<volatile unsigned char *>(begin.data())[-1] = 1; }, ::testing::KilledBySignal(SIGSEGV), "");
    EXPECT_TRUE(end.slack_untouched());
    end.data()[-1] = 0;
    EXPECT_FALSE(end.slack_untouched());
    EXPECT_THROW(GuardedBuffer(size_t{1} << 62, Guard::kEnd), std::bad_alloc);
}

}  // namespace
}  // namespace gdn_test
