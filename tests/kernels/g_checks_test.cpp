// The checks of the field reports by their names: what people who ship such kernels ran into. G11 and G12 belong to training and the
// layer, G14 to tests/consumer.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "../support/case.h"
#include "../support/dtype.h"
#include "../support/grid.h"
#include "../support/random.h"

namespace gdn_test {
namespace {

using gdn_reference::Operands;

class GChecks : public ::testing::TestWithParam<std::string> {
protected:
    const std::string &target() const { return GetParam(); }

    // Runs `c` on given operands and compares.
    ::testing::AssertionResult agrees(const Context &context, const Case &c, const Operands &x) {
        Problem problem(c, x);
        const gdn_status status = problem.run(context);
        if (status != GDN_STATUS_OK) return ::testing::AssertionFailure() << name(c) << ": " << gdn_last_error();
        return problem.check(gdn_reference::run(x), context.target());
    }
};

void fill(gdn_reference::Array &array, float value) { std::fill(array.data.begin(), array.data.end(), value); }

Operands draw(const Case &c) { return Problem(c).operands(); }

// ---- G1 order and closed forms

TEST_P(GChecks, G1_OrderOfDecayAndErase) {
    const Context context(target());
    for (gdn_variant variant : kVariants)
        for (std::int64_t T : {3, 11}) {
            Case c;
            c.variant = variant;
            c.K = 4;
            c.V = variant == GDN_VARIANT_FG2 ? 4 : 5;
            c.lengths = {T};
            Operands x = draw(c);
            fill(x.g, -1);
            fill(x.beta, 0.7f);
            EXPECT_TRUE(agrees(context, c, x));
        }
}

// Reading before the decay must not pass for the operator: per channel the two differ, and the metric sees it.
TEST_P(GChecks, G1_ErrorBeforeDecayIsSeen) {
    Case c;
    c.K = 4;
    c.V = 5;
    c.lengths = {3};
    Problem problem(c);
    ASSERT_EQ(problem.run(Context(target())), GDN_STATUS_OK) << gdn_last_error();
    gdn_reference::Result wrong;
    Operands &x = problem.operands();
    std::vector<double> S(x.initial_state.begin(), x.initial_state.end());
    gdn_reference::Raw raw;
    gdn_reference::Token token(4, 5);
    wrong.o.resize(15);
    for (std::int64_t t = 0; t < 3; t++) {
        gdn_reference::read_token(x, 0, t, 0, raw);
        gdn_reference::apply_variant(x.variant, raw, token);
        std::vector<double> r = token.u;
        for (std::size_t k = 0; k < 4; k++)
            for (std::size_t d = 0; d < 5; d++) r[d] -= S[k * 5 + d] * token.e[k];
        for (std::size_t k = 0; k < 4; k++)
            for (std::size_t d = 0; d < 5; d++) {
                S[k * 5 + d] = token.alpha[k] * S[k * 5 + d] + token.a[k] * r[d];
                wrong.o[static_cast<std::size_t>(t) * 5 + d] += 0.5 * token.q[k] * S[k * 5 + d];
            }
    }
    ErrorSum sum;
    const std::vector<float> o = problem.o.read();
    for (std::size_t i = 0; i < o.size(); i++) sum.add(o[i], wrong.o[i]);
    EXPECT_GT(sum.error().rms, 1e-2);
}

TEST_P(GChecks, G1_ClosedForms) {
    const Context context(target());
    for (gdn_variant variant :
        {GDN_VARIANT_DELTA_RULE, GDN_VARIANT_GDN, GDN_VARIANT_KDA, GDN_VARIANT_GDN2, GDN_VARIANT_FG2, GDN_VARIANT_FG2_PLUS}) {
        Case c;
        c.variant = variant;
        c.decay = GDN_DECAY_LINEAR;
        c.K = c.V = 16;
        c.lengths = {20};
        c.scale = 1;
        Operands x = draw(c);
        fill(x.q, 0);
        fill(x.k, 0);
        for (std::size_t t = 0; t < 20; t++) x.q.data[t * 16] = x.k.data[t * 16] = 1;
        for (auto array : {&x.g, &x.beta, &x.b, &x.w, &x.beta_k, &x.beta_v}) fill(*array, 1);

        // (b) k = q = e1, alpha = 1, beta = 1: o_t = v_t, to the bit.
        Problem b(c, x);
        ASSERT_EQ(b.run(context), GDN_STATUS_OK) << gdn_last_error();
        const std::vector<float> values = b.o.read();
        for (std::size_t i = 0; i < values.size(); i++) EXPECT_NEAR(values[i], x.v.data[i], 1e-5) << variant_name(variant);

        // (c) beta = 2: o_t = 2 v_t - o_{t-1}; a reflection, so an option that is ignored shows.
        if (variant == GDN_VARIANT_DELTA_RULE || variant == GDN_VARIANT_GDN || variant == GDN_VARIANT_KDA) {
            Case doubled = c;
            doubled.neg_eigval = true;
            for (bool logits : {false, true}) {
                doubled.gate = logits ? GDN_GATE_LOGIT : GDN_GATE_VALUE;
                Operands y = x;
                y.gate = doubled.gate;
                y.neg_eigval = true;
                fill(y.beta, logits ? 100.0f : 2.0f);  // 2 sigmoid(100) = 2
                y.initial_state.assign(256, 0);
                Problem twice(doubled, y);
                ASSERT_EQ(twice.run(context), GDN_STATUS_OK) << gdn_last_error();
                const std::vector<float> o = twice.o.read();
                for (std::size_t i = 0; i < o.size(); i++)
                    EXPECT_NEAR(o[i], 2 * y.v.data[i] - (i < 16 ? 0 : o[i - 16]), 3e-5) << variant_name(variant);
            }
        }

        // (d) beta = 0, alpha = 1/2, S0 = e1 1^T: o_t = 2^-(t+1).
        if (variant == GDN_VARIANT_DELTA_RULE) continue;
        fill(x.g, 0.5f);
        for (auto array : {&x.beta, &x.b, &x.w, &x.beta_k, &x.beta_v}) fill(*array, 0);
        x.initial_state.assign(256, 0);
        for (std::size_t d = 0; d < 16; d++) x.initial_state[d] = 1;
        Problem halves(c, x);
        ASSERT_EQ(halves.run(context), GDN_STATUS_OK) << gdn_last_error();
        const std::vector<float> o = halves.o.read();
        for (std::size_t i = 0; i < o.size(); i++)
            EXPECT_EQ(o[i], std::ldexp(1.0f, -static_cast<int>(i / 16) - 1)) << variant_name(variant);
    }
}

// ---- G2 chunk = recurrent, and splits (the lengths are in OperatorLengths)

TEST_P(GChecks, G2_Splits) {
    const Context context(target());
    for (gdn_variant variant : kVariants)
        for (gdn_dtype dtype : {GDN_DTYPE_F32, GDN_DTYPE_BF16}) {
            Case c;
            c.variant = variant;
            c.dtype = dtype;
            c.K = variant == GDN_VARIANT_FG2 ? 32 : 48;
            c.V = 32;
            c.HV = 2;
            c.lengths = {200};
            c.inputs = Inputs::kRealistic;
            Problem problem(c);
            const auto expected = reference_of(c, problem);
            // C of the kernels is 8; 64 is the chunk of the literature.
            for (std::int64_t cut : {1, 2, 7, 8, 9, 19, 63, 64, 65, 131, 199}) {
                problem.reset();
                gdn_args first = time_slice(problem.args(), 0, cut), second = time_slice(problem.args(), cut, 200 - cut);
                second.initial_state = second.final_state;
                ASSERT_EQ(gdn_forward(context.get(), &first, nullptr, 0), GDN_STATUS_OK) << gdn_last_error();
                ASSERT_EQ(gdn_forward(context.get(), &second, nullptr, 0), GDN_STATUS_OK) << gdn_last_error();
                EXPECT_TRUE(problem.check(*expected, target())) << "cut at " << cut;
            }
        }
}

// ---- G3 empty sequences

TEST_P(GChecks, G3_EmptySequences) {
    for (gdn_variant variant : kVariants)
        for (const std::vector<std::int64_t> &lengths : {std::vector<std::int64_t>{0, 3, 0, 0, 7, 0}, {0, 0}, {5, 0, 4}, {0}})
            for (bool initial : {false, true})
                for (int threads : {1, 3}) {
                    Case c;
                    c.variant = variant;
                    c.K = c.V = 16;
                    c.H = 2;
                    c.HV = 2;
                    c.packed = true;
                    c.lengths = lengths;
                    c.initial = initial;
                    EXPECT_TRUE(matches_reference(c, target(), threads));
                    c.in_place = initial;
                    c.v_first = true;
                    EXPECT_TRUE(matches_reference(c, target(), threads));
                    c.n_snapshots = 2;
                    EXPECT_TRUE(matches_reference(c, target(), threads));
                }
}

TEST_P(GChecks, G3_NoTokens) {
    for (gdn_variant variant : kVariants)
        for (std::int64_t K : {16, 8})
            for (bool initial : {false, true}) {
                Case c;
                c.variant = variant;
                c.K = c.V = K;
                c.lengths = {0, 0};
                c.initial = initial;
                EXPECT_TRUE(matches_reference(c, target()));
                c.v_first = true;
                EXPECT_TRUE(matches_reference(c, target()));
            }
}

// ---- G4 saturated gates

TEST_P(GChecks, G4_SaturatedDecay) {
    const Context context(target());
    for (gdn_variant variant : kVariants) {
        if (variant == GDN_VARIANT_DELTA_RULE) continue;
        for (gdn_dtype dtype : {GDN_DTYPE_F32, GDN_DTYPE_BF16})
            for (float bound : {-1.0f, -2.5f, -3.0f, -5.0f, -5.9f, -20.0f, -88.0f, -316.0f})
                for (bool alternating : {false, true}) {
                    Case c;
                    c.variant = variant;
                    c.dtype = dtype;
                    c.K = c.V = 32;
                    c.lengths = {small_budget() ? 64 : 192};
                    Operands x = draw(c);
                    for (std::size_t i = 0; i < x.g.data.size(); i++) x.g.data[i] = alternating && i % 2 ? 0.0f : rounded(dtype, bound);
                    EXPECT_TRUE(agrees(context, c, x)) << bound;
                }
        // The same from logits: every logit far beyond the bound.
        for (float bound : {-1.0f, -5.0f, -100.0f}) {
            Case c;
            c.variant = variant;
            c.decay = GDN_DECAY_LOWER_BOUND;
            c.lower_bound = bound;
            c.K = c.V = 32;
            c.lengths = {64};
            Operands x = draw(c);
            fill(x.g, 200);
            EXPECT_TRUE(agrees(context, c, x)) << bound;
        }
    }
}

// R1: all decays -5, beta 0.99. R11: one decay of -90 and none after.
TEST_P(GChecks, G4_StrongThenNone) {
    const Context context(target());
    for (gdn_variant variant : kVariants) {
        if (variant == GDN_VARIANT_DELTA_RULE) continue;
        Case c;
        c.variant = variant;
        c.K = c.V = 16;
        c.lengths = {32};
        Operands x = draw(c);
        fill(x.g, 0);
        for (std::int64_t i = 0; i < x.g.channels; i++) x.g.data[static_cast<std::size_t>(i)] = -90;
        EXPECT_TRUE(agrees(context, c, x));
        fill(x.g, -5);
        for (auto array : {&x.beta, &x.b, &x.w, &x.beta_k, &x.beta_v}) fill(*array, 0.99f);
        EXPECT_TRUE(agrees(context, c, x));
    }
}

// ---- G5 a decay of zero

TEST_P(GChecks, G5_TinyDecays) {
    const Context context(target());
    for (gdn_variant variant : kVariants) {
        if (variant == GDN_VARIANT_DELTA_RULE) continue;
        for (float alpha : {6.5e-12f, 1e-30f, 1e-38f}) {
            Case c;
            c.variant = variant;
            c.decay = GDN_DECAY_LINEAR;
            c.K = c.V = 32;
            c.lengths = {64};
            Operands x = draw(c);
            fill(x.g, alpha);
            EXPECT_TRUE(agrees(context, c, x)) << alpha;
        }
    }
}

// Outputs after a reset equal a fresh start there, bit for bit where both run from the same row of a chunk.
TEST_P(GChecks, G5_Reset) {
    const Context context(target());
    for (gdn_variant variant : kVariants) {
        if (variant == GDN_VARIANT_DELTA_RULE) continue;
        for (gdn_decay decay : {GDN_DECAY_LOG, GDN_DECAY_LINEAR})
            for (std::int64_t T : {6, 24})
                for (std::int64_t at : {0, 3, 7, 8, 9, 15, 16}) {
                    if (at >= T) continue;
                    Case c;
                    c.variant = variant;
                    c.decay = decay;
                    c.K = c.V = 32;
                    c.HV = 2;
                    c.lengths = {T};
                    Operands x = draw(c);
                    for (std::int64_t i = 0; i < x.g.heads * x.g.channels; i++)
                        x.g.data[static_cast<std::size_t>(at * x.g.heads * x.g.channels + i)] =
                            decay == GDN_DECAY_LOG ? -std::numeric_limits<float>::infinity() : 0.0f;
                    Problem reset(c, x);
                    ASSERT_EQ(reset.run(context), GDN_STATUS_OK) << gdn_last_error();
                    EXPECT_TRUE(reset.check(gdn_reference::run(x), target())) << "at " << at;

                    Problem fresh(c, x);
                    gdn_args args = time_slice(fresh.args(), at, T - at);
                    args.initial_state = gdn_tensor{};
                    ASSERT_EQ(gdn_forward(context.get(), &args, nullptr, 0), GDN_STATUS_OK) << gdn_last_error();
                    const std::vector<float> a = reset.o.read(), b = fresh.o.read(), a_state = reset.state(0), b_state = fresh.state(0);
                    ErrorSum o, S;
                    for (std::size_t i = static_cast<std::size_t>(at * 2 * 32); i < a.size(); i++) o.add(a[i], b[i]);
                    for (std::size_t i = 0; i < a_state.size(); i++) S.add(a_state[i], b_state[i]);
                    EXPECT_TRUE(o.error().within(kBoundF32) && S.error().within(kBoundF32)) << variant_name(variant) << " at " << at;
                }
    }
}

// R5: every decay of a list in one call, channels and tokens mixed.
TEST_P(GChecks, G5_MixedDecays) {
    const Context context(target());
    const float decays[] = {0, -1e-4f, -5, -88, -316, -std::numeric_limits<float>::infinity()};
    for (gdn_variant variant : kVariants) {
        if (variant == GDN_VARIANT_DELTA_RULE) continue;
        Case c;
        c.variant = variant;
        c.K = c.V = 48;
        c.lengths = {70};
        Operands x = draw(c);
        for (std::size_t i = 0; i < x.g.data.size(); i++) x.g.data[i] = decays[i * 7 % 11 % 6];
        EXPECT_TRUE(agrees(context, c, x));
    }
}

// ---- G6 a decay of one

TEST_P(GChecks, G6_NoDecayIsAsExactAsTheDeltaRule) {
    const Context context(target());
    for (gdn_dtype dtype : {GDN_DTYPE_F32, GDN_DTYPE_BF16}) {
        Case c;
        c.dtype = dtype;
        c.K = c.V = 100;
        c.H = c.HV = 2;
        c.lengths = {257, 257};
        c.variant = GDN_VARIANT_DELTA_RULE;
        Problem plain(c);
        ASSERT_EQ(plain.run(context), GDN_STATUS_OK) << gdn_last_error();
        ASSERT_TRUE(plain.check(*reference_of(c, plain), target()));
        for (gdn_variant variant : {GDN_VARIANT_GDN, GDN_VARIANT_KDA}) {
            c.variant = variant;
            Operands x = plain.operands();
            x.variant = variant;
            x.g.T = 257;
            x.g.heads = 2;
            x.g.channels = variant == GDN_VARIANT_KDA ? 100 : 1;
            x.g.data.assign(static_cast<std::size_t>(2 * 257 * 2 * x.g.channels), 0.0f);
            Problem gated(c, x);
            ASSERT_EQ(gated.run(context), GDN_STATUS_OK) << gdn_last_error();
            ASSERT_TRUE(gated.check(gdn_reference::run(x), target()));
            // The floor is a few roundings: far below it a ratio says nothing.
            EXPECT_LE(gated.o_error.rms, std::max(1.2 * plain.o_error.rms, 2e-7));
            EXPECT_LE(gated.state_error.rms, std::max(1.2 * plain.state_error.rms, 2e-7));

            // beta = 0 as well: the state is kept to the bit.
            std::fill(x.beta.data.begin(), x.beta.data.end(), 0.0f);
            Problem still(c, x);
            ASSERT_EQ(still.run(context), GDN_STATUS_OK) << gdn_last_error();
            EXPECT_TRUE(still.final_state.read() == x.initial_state);
        }
    }
}

// ---- G7 near-parallel keys

TEST_P(GChecks, G7_NearParallelKeys) {
    const Context context(target());
    for (gdn_variant variant :
        {GDN_VARIANT_DELTA_RULE, GDN_VARIANT_GDN, GDN_VARIANT_KDA, GDN_VARIANT_GDN2, GDN_VARIANT_FG2, GDN_VARIANT_FG2_PLUS})
        for (double epsilon : {0.0, 1e-3, 1e-1})
            for (float beta : {0.5f, 0.9f, 1.0f, 1.9f}) {
                const bool fine = variant == GDN_VARIANT_FG2 || variant == GDN_VARIANT_FG2_PLUS;
                if (fine && beta > 1) continue;
                Case c;
                c.variant = variant;
                c.K = c.V = 64;
                c.lengths = {128};
                Operands x = draw(c);
                Random random(77);
                for (std::size_t t = 0; t < 128; t++) {
                    double sum = 0;
                    std::vector<double> row(64);
                    for (std::size_t i = 0; i < 64; i++) {
                        row[i] = (i == 0) + epsilon * random.normal() / 8;
                        sum += row[i] * row[i];
                    }
                    for (std::size_t i = 0; i < 64; i++) x.k.data[t * 64 + i] = static_cast<float>(row[i] / std::sqrt(sum));
                }
                fill(x.g, 0);
                for (auto array : {&x.beta, &x.b, &x.beta_k, &x.beta_v}) fill(*array, beta);
                fill(x.w, std::min(beta, 1.0f));
                EXPECT_TRUE(agrees(context, c, x)) << "epsilon " << epsilon << ", beta " << beta;
            }
}

// Erase and write gates that make GDN-2 grow (method.md 1.3): finite for a few hundred steps, and still the reference's.
TEST_P(GChecks, G7_GrowthStaysFinite) {
    const Context context(target());
    Case c;
    c.variant = GDN_VARIANT_GDN2;
    c.K = c.V = 16;
    c.lengths = {128};
    Operands x = draw(c);
    fill(x.g, 0);
    fill(x.k, 0);
    for (std::size_t t = 0; t < 128; t++) {
        // Two keys in turn, a third of whose square lies under an erase gate of 1.
        x.k.data[t * 16 + t % 2] = std::sqrt(1.0f / 3);
        x.k.data[t * 16 + 1 - t % 2] = -std::sqrt(2.0f / 3);
        for (std::size_t i = 0; i < 16; i++) x.b.data[t * 16 + i] = i == t % 2;
    }
    EXPECT_TRUE(agrees(context, c, x));
}

// ---- G8 state layout

TEST_P(GChecks, G8_StateLayout) {
    const Context context(target());
    for (const Size &size : {Size{16, 32}, Size{16, 16}, Size{10, 6}})
        for (gdn_variant variant : kVariants)
            for (std::int64_t T : {1, 2, 21}) {
                if (variant == GDN_VARIANT_FG2 && size.K != size.V) continue;
                Case c;
                c.variant = variant;
                c.K = size.K;
                c.V = size.V;
                c.HV = 2;
                c.lengths = {T};
                c.n_snapshots = 2;
                Operands x = draw(c);
                const std::int64_t head = c.K * c.V;
                Operands y = x;
                y.v_first = true;
                for (std::int64_t h = 0; h < 2; h++)
                    for (std::int64_t i = 0; i < c.K; i++)
                        for (std::int64_t j = 0; j < c.V; j++) {
                            const float value = static_cast<float>(100 * i + j) / 64;
                            x.initial_state[static_cast<std::size_t>(h * head + i * c.V + j)] = value;
                            y.initial_state[static_cast<std::size_t>(h * head + j * c.K + i)] = value;
                        }
                Case v_first = c;
                v_first.v_first = true;
                for (Call call : {Call::kForward, Call::kStep}) {
                    if (call == Call::kStep && T != 1) continue;
                    Problem a(c, x), b(v_first, y);
                    ASSERT_EQ(a.run(context, call), GDN_STATUS_OK) << gdn_last_error();
                    ASSERT_EQ(b.run(context, call), GDN_STATUS_OK) << gdn_last_error();
                    ASSERT_TRUE(a.check(gdn_reference::run(x), target()));
                    ASSERT_TRUE(b.check(gdn_reference::run(y), target()));
                }
            }
}

// R58: a state in rows that are further apart (padding 7 and more between rows, heads, sequences).
TEST_P(GChecks, G8_StridedState) {
    for (bool v_first : {false, true})
        for (std::int64_t T : {1, 2, 21}) {
            Case c;
            c.K = 16;
            c.V = 32;
            c.HV = 2;
            c.lengths = {T, T};
            c.v_first = v_first;
            c.padded = true;
            EXPECT_TRUE(matches_reference(c, target()));
            c.in_place = true;
            EXPECT_TRUE(matches_reference(c, target()));
        }
}

// ---- G9 head maps

TEST_P(GChecks, G9_HeadMap) {
    const Context context(target());
    const std::vector<std::vector<std::int64_t>> heads = {
        {2, 6}, {1, 1}, {3, 3}, {2, 4}, {3, 9}, {2, 8}, {1, 8}, {2, 16}, {1, 9}, {16, 48}, {5, 5}, {20, 20}};
    for (gdn_variant variant : kVariants)
        for (const auto &pair : heads)
            for (gdn_head_map map : {GDN_HEAD_MAP_DIVIDE, GDN_HEAD_MAP_MODULO})
                for (bool per_value_head : {false, true}) {
                    if (pair[0] > 5 && variant != GDN_VARIANT_GDN && variant != GDN_VARIANT_GDN2) continue;
                    Case c;
                    c.variant = variant;
                    c.H = pair[0];
                    c.HV = pair[1];
                    c.K = c.V = 16;
                    c.lengths = {11};
                    c.head_map = map;
                    c.gates_per_value_head = per_value_head;
                    EXPECT_TRUE(matches_reference(c, context));
                }
}

TEST_P(GChecks, G9_DivideAndModuloDiffer) {
    const Context context(target());
    Case c;
    c.H = 2;
    c.HV = 6;
    c.lengths = {9};
    Problem divide(c);
    Operands x = divide.operands();
    for (std::size_t i = 0; i < x.v.data.size(); i++) x.v.data[i] = 1;  // v constant, k differs per key head
    x.initial_state.assign(x.initial_state.size(), 0);
    Problem problem(c, x);
    ASSERT_EQ(problem.run(context), GDN_STATUS_OK) << gdn_last_error();
    const std::vector<float> o = problem.o.read();
    const std::vector<int> key_head = {0, 0, 0, 1, 1, 1};
    for (std::size_t a = 0; a < 6; a++)
        for (std::size_t b = 0; b < 6; b++) EXPECT_EQ(o[a * 64] == o[b * 64], key_head[a] == key_head[b]) << a << " " << b;
}

// ---- G10 odd sizes, nine heads, beta to 2

TEST_P(GChecks, G10_OddSizes) {
    for (gdn_variant variant : {GDN_VARIANT_GDN, GDN_VARIANT_KDA, GDN_VARIANT_GDN2, GDN_VARIANT_FG2_PLUS})
        for (const Size &size : {Size{96, 192}, Size{192, 192}, Size{48, 80}, Size{8, 24}, Size{128, 256}, Size{24, 8}, Size{1, 256},
                 Size{256, 1}, Size{17, 33}, Size{255, 3}})
            for (Guard guard : {Guard::kEnd, Guard::kBegin}) {
                Case c;
                c.variant = variant;
                c.K = size.K;
                c.V = size.V;
                c.H = c.HV = small_budget() ? 1 : size.K * size.V > 20000 ? 3 : 9;
                c.lengths = {19};
                c.neg_eigval = variant != GDN_VARIANT_FG2_PLUS;
                c.guard = guard;
                c.dtype = guard == Guard::kEnd ? GDN_DTYPE_F32 : GDN_DTYPE_BF16;
                EXPECT_TRUE(matches_reference(c, target()));
            }
}

// Every K and V from 1 to 256 works: a walk through all of them.
TEST_P(GChecks, G10_EverySize) {
    const Context context(target());
    const std::int64_t step = small_budget() ? 17 : 1;
    for (std::int64_t i = 1; i <= 256; i += step) {
        Case c;
        c.variant = i % 3 == 0 ? GDN_VARIANT_GDN : i % 3 == 1 ? GDN_VARIANT_KDA : GDN_VARIANT_GDN2;
        c.K = i;
        c.V = i * 37 % 256 + 1;
        c.lengths = {i % 2 ? 10 : 3};
        c.dtype = kDtypes[i % 3];
        c.guard = i % 5 ? Guard::kEnd : Guard::kBegin;
        ASSERT_TRUE(matches_reference(c, context));
    }
}

// ---- G13 l2 norm

TEST_P(GChecks, G13_L2Norm) {
    const Context context(target());
    for (gdn_variant variant : {GDN_VARIANT_GDN, GDN_VARIANT_KDA, GDN_VARIANT_GDN2, GDN_VARIANT_FG2_PLUS})
        for (std::int64_t D : {128, 32, 24})
            for (float length : {1e-4f, 0.0f, 1e20f, 1e-20f, 3.0f}) {
                Case c;
                c.variant = variant;
                c.K = c.V = D;
                c.lengths = {11};
                c.l2norm = true;
                Operands x = draw(c);
                Random random(13);
                for (gdn_reference::Array *array : {&x.q, &x.k})
                    for (std::size_t r = 0; r < 11; r++) {
                        double sum = 0;
                        std::vector<double> row(static_cast<std::size_t>(D));
                        for (double &value : row) {
                            value = random.normal();
                            sum += value * value;
                        }
                        for (std::size_t i = 0; i < row.size(); i++)
                            array->data[r * row.size() + i] =
                                static_cast<float>(row[i] / std::sqrt(sum) * (r == 5 ? length : 1.0));  // one odd row among ordinary ones
                    }
                Problem problem(c, x);
                ASSERT_EQ(problem.run(context), GDN_STATUS_OK) << gdn_last_error();
                for (float value : problem.o.read()) ASSERT_FALSE(std::isnan(value)) << length;
                // The sum of squares of 1e20 is beyond float32: such a row counts as zero or as its unit vector, never as NaN.
                if (length == 1e20f) continue;
                EXPECT_TRUE(problem.check(gdn_reference::run(x), target())) << length;
            }
}

// |x| = 1e-4 has length 0.0995 afterwards: epsilon stands inside the root.
TEST_P(GChecks, G13_Epsilon) {
    Case c;
    c.variant = GDN_VARIANT_GDN;
    c.K = c.V = 128;
    c.lengths = {1};
    c.l2norm = true;
    c.scale = 1;
    Operands x = draw(c);
    fill(x.beta, 0);
    fill(x.g, 0);
    fill(x.q, static_cast<float>(1e-4 / std::sqrt(128.0)));
    x.initial_state.assign(128 * 128, 0);
    for (std::size_t i = 0; i < 128; i++) x.initial_state[i * 129] = 1;  // o = q normalised
    Problem problem(c, x);
    ASSERT_EQ(problem.run(Context(target())), GDN_STATUS_OK) << gdn_last_error();
    double sum = 0;
    for (float value : problem.o.read()) sum += static_cast<double>(value) * value;
    EXPECT_NEAR(std::sqrt(sum), 1e-4 / std::sqrt(1e-8 + 1e-6), 1e-7);
}

// ---- G15 errors (each argument in detail is in tests/runtime)

// Whether `text` holds `word` as a word of its own ("w" is not named by "was written").
bool names_it(const std::string &text, const std::string &word) {
    const auto part_of_word = [&](std::size_t i) {
        return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_');
    };
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
        if ((at == 0 || !part_of_word(at - 1)) && !part_of_word(at + word.size())) return true;
    return false;
}

TEST_P(GChecks, G15_Errors) {
    const Context context(target());
    for (gdn_variant variant : kVariants)
        for (Call call : {Call::kForward, Call::kStep}) {
            Case c;
            c.variant = variant;
            c.K = c.V = 32;
            c.H = 2;
            c.HV = 4;
            c.lengths = {1, 1, 1};
            Problem problem(c);
            ASSERT_EQ(problem.run(context, call), GDN_STATUS_OK) << gdn_last_error();
            const std::vector<unsigned char> good = problem.output_bits();
            problem.reset();

            HostTensor cu(GDN_DTYPE_I32, {4}), slots(GDN_DTYPE_I32, {3});
            cu.fill_integers({0, 1, 2, 3});
            const auto refused = [&](const char *names, const char *what, auto change) {
                gdn_args args = problem.args();
                change(args);
                const gdn_status status = (call == Call::kStep ? gdn_step : gdn_forward)(context.get(), &args, nullptr, 0);
                EXPECT_NE(status, GDN_STATUS_OK) << variant_name(variant) << ": " << what;
                EXPECT_TRUE(*names ? names_it(gdn_last_error(), names) : *gdn_last_error() != 0)
                    << variant_name(variant) << ": " << what << ": the text does not name " << names << ": " << gdn_last_error();
                for (unsigned char byte : problem.output_bits())
                    ASSERT_EQ(byte, 0xFF) << variant_name(variant) << ": " << what << " has written";
                ASSERT_TRUE(problem.untouched()) << what;
            };

            struct Named {
                const char *name;
                gdn_tensor gdn_args::*tensor;
            };
            const Named tokens[] = {{"q", &gdn_args::q}, {"k", &gdn_args::k}, {"v", &gdn_args::v}, {"g", &gdn_args::g},
                {"beta", &gdn_args::beta}, {"b", &gdn_args::b}, {"w", &gdn_args::w}, {"beta_k", &gdn_args::beta_k},
                {"beta_v", &gdn_args::beta_v}, {"o", &gdn_args::o}, {"initial_state", &gdn_args::initial_state},
                {"final_state", &gdn_args::final_state}};
            for (const Named &named : tokens) {
                const auto tensor = named.tensor;
                if (!(problem.args().*tensor).data) continue;
                const bool state = tensor == &gdn_args::initial_state || tensor == &gdn_args::final_state;
                if (!state && tensor != &gdn_args::g) refused(named.name, "absent", [&](gdn_args &args) { args.*tensor = gdn_tensor{}; });
                if (variant != GDN_VARIANT_GLA || tensor != &gdn_args::g)
                    refused(named.name, "one dimension less", [&](gdn_args &args) { (args.*tensor).ndim--; });
                refused(named.name, "one dimension more", [&](gdn_args &args) { (args.*tensor).shape[(args.*tensor).ndim++] = 1; });
                refused(named.name, "integers", [&](gdn_args &args) { (args.*tensor).dtype = GDN_DTYPE_I32; });
                refused(named.name, "no dtype", [&](gdn_args &args) { (args.*tensor).dtype = GDN_DTYPE_NONE; });
                refused(
                    named.name, "a dtype that does not exist", [&](gdn_args &args) { (args.*tensor).dtype = static_cast<gdn_dtype>(77); });
                refused(named.name, "an inner stride of 2", [&](gdn_args &args) {
                    if ((args.*tensor).ndim == 4)
                        (args.*tensor).strides[3] = 2;
                    else
                        (args.*tensor).ndim = 0;
                });
                refused(named.name, "a negative stride", [&](gdn_args &args) { (args.*tensor).strides[0] = -1; });
                refused(named.name, "a negative extent", [&](gdn_args &args) { (args.*tensor).shape[0] = -3; });
                // q and v say what B, H and HV are: when they are wrong, the text may name whatever disagrees with them.
                const char *disagrees = tensor == &gdn_args::q || tensor == &gdn_args::v ? "" : named.name;
                refused(disagrees, "too many sequences", [&](gdn_args &args) { (args.*tensor).shape[0] = 4; });
                refused(disagrees, "7 heads", [&](gdn_args &args) { (args.*tensor).shape[state ? 1 : 2] = 7; });
                if (state) refused(named.name, "16-bit", [&](gdn_args &args) { (args.*tensor).dtype = GDN_DTYPE_BF16; });
                if (!state && tensor != &gdn_args::q)
                    refused(named.name, "a T of its own", [&](gdn_args &args) { (args.*tensor).shape[1] = 2; });
                if (tensor != &gdn_args::q && tensor != &gdn_args::v && (problem.args().*tensor).ndim == 4)
                    refused(named.name, "33 channels", [&](gdn_args &args) { (args.*tensor).shape[3] = 33; });
            }
            refused("k", "k of another dtype than q", [](gdn_args &args) { args.k.dtype = GDN_DTYPE_BF16; });
            refused("o", "o of another dtype than q", [](gdn_args &args) { args.o.dtype = GDN_DTYPE_F16; });
            refused("H", "5 value heads for 2 key heads", [](gdn_args &args) { args.v.shape[2] = args.o.shape[2] = 5; });
            refused("K", "K = 257", [](gdn_args &args) { args.q.shape[3] = args.k.shape[3] = 257; });
            refused("V", "V = 257", [](gdn_args &args) { args.v.shape[3] = args.o.shape[3] = 257; });
            refused("K", "K = 0", [](gdn_args &args) { args.q.shape[3] = args.k.shape[3] = 0; });
            refused("variant", "no such variant", [](gdn_args &args) { args.variant = static_cast<gdn_variant>(9); });
            refused("decay", "no such decay", [](gdn_args &args) { args.decay = static_cast<gdn_decay>(-1); });
            refused("gate", "no such gate", [](gdn_args &args) { args.gate = static_cast<gdn_gate>(2); });
            refused("head_map", "no such head map", [](gdn_args &args) { args.head_map = static_cast<gdn_head_map>(2); });
            refused("state_layout", "no such layout", [](gdn_args &args) { args.state_layout = static_cast<gdn_state_layout>(2); });
            refused("state_dtype", "bf16 states", [](gdn_args &args) { args.state_dtype = GDN_DTYPE_BF16; });
            refused("precision", "no such precision", [](gdn_args &args) { args.precision = static_cast<gdn_precision>(5); });
            refused("struct_size", "no size", [](gdn_args &args) { args.struct_size = 0; });
            refused("scale", "NaN as scale", [](gdn_args &args) { args.scale = std::nanf(""); });
            if (variant != GDN_VARIANT_DELTA_RULE)
                refused("lower_bound", "a positive bound", [](gdn_args &args) {
                    args.decay = GDN_DECAY_LOWER_BOUND;
                    args.lower_bound = 1;
                });

            // cu_seqlens with the batch folded into T.
            const auto pack = [&](gdn_args &args) {
                for (gdn_tensor *tensor :
                    {&args.q, &args.k, &args.v, &args.g, &args.beta, &args.b, &args.w, &args.beta_k, &args.beta_v, &args.o})
                    if (tensor->data) {
                        tensor->shape[1] = 3;
                        tensor->shape[0] = 1;
                    }
                args.cu_seqlens = cu.view();
            };
            refused("cu_seqlens", "packed with B = 3", [&](gdn_args &args) { args.cu_seqlens = cu.view(); });
            for (const std::vector<std::int64_t> &offsets : {std::vector<std::int64_t>{0, 2, 1, 3}, {0, 1, 2, 2}, {0, 1, 2, 4},
                     {1, 1, 2, 3}, {-1, 1, 2, 3}, {0, 1, 2, std::int64_t{1} << 30}}) {
                cu.fill_integers(offsets);
                refused("cu_seqlens", "bad offsets", pack);
            }
            cu.fill_integers({0, 1, 2, 3});
            refused("cu_seqlens", "float offsets", [&](gdn_args &args) {
                pack(args);
                args.cu_seqlens.dtype = GDN_DTYPE_F32;
            });
            refused("cu_seqlens", "two dimensions", [&](gdn_args &args) {
                pack(args);
                args.cu_seqlens.ndim = 2;
                args.cu_seqlens.shape[1] = 1;
            });
            for (const std::vector<std::int64_t> &wrong : {std::vector<std::int64_t>{0, 1, 3}, {0, 1, 1}, {-1, 0, 1}, {0, 1, 1 << 30}}) {
                slots.fill_integers(wrong);
                refused("final_slots", "bad slots", [&](gdn_args &args) { args.final_slots = slots.view(); });
            }
            for (const std::vector<std::int64_t> &wrong : {std::vector<std::int64_t>{0, 1, 3}, {0, 1, -2}}) {
                slots.fill_integers(wrong);
                refused("initial_slots", "bad slots", [&](gdn_args &args) { args.initial_slots = slots.view(); });
            }
            refused("final_state", "a final state that overlaps q", [](gdn_args &args) { args.final_state.data = args.q.data; });
            refused("o", "o on v", [](gdn_args &args) { args.o.data = args.v.data; });

            std::size_t bytes = 0;
            ASSERT_EQ(gdn_workspace_size(context.get(), &problem.args(), &bytes), GDN_STATUS_OK);
            if (bytes > 0) {
                GuardedBuffer small(bytes, Guard::kEnd, 64);
                EXPECT_EQ((call == Call::kStep ? gdn_step : gdn_forward)(context.get(), &problem.args(), small.data(), bytes - 1),
                    GDN_STATUS_WORKSPACE_TOO_SMALL);
                EXPECT_NE(
                    (call == Call::kStep ? gdn_step : gdn_forward)(context.get(), &problem.args(), small.data() + 4, bytes), GDN_STATUS_OK);
                for (unsigned char byte : problem.output_bits()) ASSERT_EQ(byte, 0xFF);
            }

            // The next good call is right.
            ASSERT_EQ(problem.run(context, call), GDN_STATUS_OK) << gdn_last_error();
            EXPECT_TRUE(problem.output_bits() == good);
        }
}

// R4, R16: with GDN_CHECK_VALUES (on in the tests) a decay in the wrong unit is a code, not a number.
TEST_P(GChecks, G15_Values) {
    const Context context(target());
    for (gdn_variant variant : kVariants) {
        if (variant == GDN_VARIANT_DELTA_RULE) continue;
        for (gdn_decay decay : {GDN_DECAY_LOG, GDN_DECAY_LINEAR})
            for (float wrong : {decay == GDN_DECAY_LOG ? 1.0f : -0.1f, decay == GDN_DECAY_LOG ? 176.0f : -1e-6f}) {
                Case c;
                c.variant = variant;
                c.decay = decay;
                c.lengths = {9};
                Operands x = draw(c);
                x.g.data[x.g.data.size() / 2] = wrong;
                Problem problem(c, x);
                EXPECT_EQ(problem.run(context), GDN_STATUS_INVALID_VALUE) << wrong;
                EXPECT_TRUE(names_it(gdn_last_error(), "g")) << gdn_last_error();
                for (unsigned char byte : problem.output_bits()) ASSERT_EQ(byte, 0xFF);
                EXPECT_TRUE(problem.untouched());
            }
    }
}

INSTANTIATE_TEST_SUITE_P(All, GChecks, ::testing::ValuesIn(targets()), [](const auto &info) { return info.param; });

}  // namespace
}  // namespace gdn_test
