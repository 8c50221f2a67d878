// The same values in other memory: strided, fused, broadcast; and tensors that may be absent.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "../support/case.h"
#include "../support/grid.h"

namespace gdn_test {
namespace {

class OperatorViews : public ::testing::TestWithParam<std::string> {};

std::vector<Case> some_cases() {
    std::vector<Case> cases;
    for (gdn_variant variant : kVariants)
        for (gdn_dtype dtype : kDtypes) {
            Case c;
            c.variant = variant;
            c.dtype = dtype;
            c.K = c.V = dtype == GDN_DTYPE_BF16 ? 24 : 64;
            c.H = 2;
            c.HV = 4;
            c.lengths = {21, 21};
            cases.push_back(c);
        }
    return cases;
}

// R112: strided inputs, outputs and states need no copy and give the contiguous result bit for bit.
TEST_P(OperatorViews, StridedIsContiguousBitwise) {
    const Context context(GetParam());
    for (Case c : some_cases()) {
        Problem contiguous(c);
        c.padded = true;
        Problem strided(c);
        ASSERT_EQ(contiguous.run(context), GDN_STATUS_OK) << gdn_last_error();
        ASSERT_EQ(strided.run(context), GDN_STATUS_OK) << gdn_last_error();
        EXPECT_TRUE(contiguous.output_bits() == strided.output_bits()) << name(c);
        EXPECT_TRUE(strided.untouched()) << name(c);
    }
}

// q, k and v as slices of one projection's output, [B, T, H (2 K + V)].
TEST_P(OperatorViews, FusedQkv) {
    const Context context(GetParam());
    for (Case c : some_cases()) {
        c.HV = c.H;
        Problem apart(c);
        ASSERT_EQ(apart.run(context), GDN_STATUS_OK) << gdn_last_error();
        Problem fused(c);
        const std::int64_t row = 2 * c.K + c.V;
        HostTensor qkv(c.dtype, {2, 21, c.H, row});
        std::vector<float> values;
        for (std::size_t i = 0; i < fused.operands().q.data.size() / static_cast<std::size_t>(c.K); i++)
            for (const auto &[array, channels] :
                {std::pair{&fused.operands().q, c.K}, {&fused.operands().k, c.K}, {&fused.operands().v, c.V}})
                values.insert(values.end(), array->data.begin() + static_cast<std::ptrdiff_t>(i) * channels,
                    array->data.begin() + static_cast<std::ptrdiff_t>(i + 1) * channels);
        qkv.fill(values);
        gdn_tensor view = qkv.view();
        fused.args().q = fused.args().k = fused.args().v = view;
        narrow(fused.args().q, 3, 0, c.K);
        narrow(fused.args().k, 3, c.K, c.K);
        narrow(fused.args().v, 3, 2 * c.K, c.V);
        ASSERT_EQ(fused.run(context), GDN_STATUS_OK) << gdn_last_error();
        EXPECT_TRUE(apart.output_bits() == fused.output_bits()) << name(c);
    }
}

// A stride of 0 repeats: one row of gates for all tokens, one key head's row for all heads.
TEST_P(OperatorViews, BroadcastGates) {
    const Context context(GetParam());
    for (const Case &c : some_cases()) {
        Problem repeated(c);
        gdn_reference::Operands x = repeated.operands();
        for (auto array : {&x.g, &x.beta, &x.b, &x.w, &x.beta_k, &x.beta_v}) {
            if (!array->present()) continue;
            const std::size_t row = static_cast<std::size_t>(array->channels);
            for (std::size_t i = row; i < array->data.size(); i++) array->data[i] = array->data[i % row];
        }
        Problem full(c, x), broadcast(c, x);
        for (gdn_tensor *tensor : {&broadcast.args().g, &broadcast.args().beta, &broadcast.args().b, &broadcast.args().w,
                 &broadcast.args().beta_k, &broadcast.args().beta_v})
            tensor->strides[0] = tensor->strides[1] = tensor->strides[2] = 0;
        ASSERT_EQ(full.run(context), GDN_STATUS_OK) << gdn_last_error();
        ASSERT_EQ(broadcast.run(context), GDN_STATUS_OK) << gdn_last_error();
        EXPECT_TRUE(full.output_bits() == broadcast.output_bits()) << name(c);
    }
}

// An absent g is a decay of 1.
TEST_P(OperatorViews, AbsentDecay) {
    for (Case c : some_cases()) {
        c.absent_g = true;
        c.K = c.V = c.K == 64 ? 32 : 24;  // a sum that never decays
        EXPECT_TRUE(matches_reference(c, GetParam()));
    }
}

// An absent A_log is exp(A_log) = 1, an absent dt_bias 0; a scalar and a bound of their own.
TEST_P(OperatorViews, AbsentDecayParameters) {
    const Context context(GetParam());
    for (Case c : some_cases())
        for (gdn_decay decay : {GDN_DECAY_SOFTPLUS, GDN_DECAY_LOWER_BOUND})
            for (int which = 0; which < 4; which++) {
                if (c.variant == GDN_VARIANT_DELTA_RULE) continue;
                c.decay = decay;
                c.lower_bound = which == 3 ? -2.5 : 0;
                c.scale = which == 3 ? 0.75 : 0;
                c.gate = which % 2 ? GDN_GATE_LOGIT : GDN_GATE_VALUE;
                c.l2norm = which % 2;
                Problem problem(c);
                gdn_reference::Operands x = problem.operands();
                if (which == 0 || which == 2) x.A_log.clear();
                if (which == 1 || which == 2) x.dt_bias.clear();
                Problem part(c, x);
                ASSERT_EQ(part.run(context), GDN_STATUS_OK) << gdn_last_error();
                EXPECT_TRUE(part.check(gdn_reference::run(x), GetParam()));
            }
}

// R18: A_log = -inf is a decay of 1, not NaN.
TEST_P(OperatorViews, ALogMinusInfinity) {
    const Context context(GetParam());
    for (gdn_variant variant : {GDN_VARIANT_GDN, GDN_VARIANT_KDA}) {
        Case c;
        c.variant = variant;
        c.decay = GDN_DECAY_SOFTPLUS;
        c.H = 2;
        c.HV = 2;
        Problem problem(c);
        gdn_reference::Operands x = problem.operands();
        x.A_log[0] = -INFINITY;
        Problem frozen(c, x);
        ASSERT_EQ(frozen.run(context), GDN_STATUS_OK) << gdn_last_error();
        EXPECT_TRUE(frozen.check(gdn_reference::run(x), GetParam()));
    }
}

// R17: gates from logits of +-1e4 and +-infinity are exactly 0 and 1.
TEST_P(OperatorViews, HugeLogitsAreExactGates) {
    const Context context(GetParam());
    for (Case c : some_cases())
        for (float huge : {1e4f, INFINITY}) {
            if (!has_gates(c.variant)) continue;
            c.gate = GDN_GATE_LOGIT;
            Problem problem(c);
            gdn_reference::Operands logits = problem.operands(), values = problem.operands();
            for (int which = 0; which < 5; which++) {
                auto arrays = [&](gdn_reference::Operands &x) {
                    return std::vector<gdn_reference::Array *>{&x.beta, &x.b, &x.w, &x.beta_k, &x.beta_v}[static_cast<std::size_t>(which)];
                };
                for (std::size_t i = 0; i < arrays(logits)->data.size(); i++) {
                    arrays(logits)->data[i] = i % 3 ? huge : -huge;
                    arrays(values)->data[i] = i % 3 ? 1.0f : 0.0f;
                }
            }
            Problem a(c, logits);
            values.gate = GDN_GATE_VALUE;
            Case plain = c;
            plain.gate = GDN_GATE_VALUE;
            Problem b(plain, values);
            ASSERT_EQ(a.run(context), GDN_STATUS_OK) << gdn_last_error();
            ASSERT_EQ(b.run(context), GDN_STATUS_OK) << gdn_last_error();
            EXPECT_TRUE(a.check(gdn_reference::run(values), GetParam()));
            EXPECT_TRUE(b.check(gdn_reference::run(values), GetParam()));
        }
}

INSTANTIATE_TEST_SUITE_P(All, OperatorViews, ::testing::ValuesIn(targets()), [](const auto &info) { return info.param; });

}  // namespace
}  // namespace gdn_test
