// gated_norm: every norm, gate, shape and dtype against the row in double; what is not asked for is not read.
#include <gtest/gtest.h>

#include "../support/case.h"
#include "mixer_call.h"

namespace gdn_test {
namespace {

class GatedNorm : public ::testing::TestWithParam<const gdn::KernelRow *> {
protected:
    const gdn::KernelRow &row = *GetParam();
    const gdn_dtype dtype = dtype_of(row.dtype), z_dtype = dtype_of(row.z_dtype);
};

struct Kind {
    bool norm, gate;
    gdn_activation f;
};
constexpr Kind kKinds[] = {{true, true, GDN_ACTIVATION_SILU}, {true, true, GDN_ACTIVATION_SIGMOID}, {true, false, GDN_ACTIVATION_NONE},
    {false, true, GDN_ACTIVATION_SILU}, {false, true, GDN_ACTIVATION_SIGMOID}, {false, false, GDN_ACTIVATION_NONE}};

TEST_P(GatedNorm, ShapesKindsAndGuards) {
    const std::vector<int> channels =
        small_budget() ? std::vector<int>{1, 15, 17, 96, 129}
                       : std::vector<int>{1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 31, 32, 33, 48, 100, 127, 128, 129, 240, 299, 300};
    for (int d : channels)
        for (int n : {1, 2, 5})
            for (const Kind &kind : kKinds)
                for (Guard guard : {Guard::kEnd, Guard::kBegin}) {
                    GatedNormCall call(row, d, n, kind.norm, kind.gate, kind.f, guard, (d + n) % 3 ? 0 : 5);
                    call.draw(static_cast<std::uint64_t>(d * 10 + n));
                    ASSERT_EQ(call.run(), 0);
                    ASSERT_TRUE(call.check());
                    ASSERT_TRUE(call.y.memory().slack_untouched());
                    for (int t = 0; t + 1 < n && (d + n) % 3 == 0; t++)
                        for (int gap = 0; gap < 15; gap++) ASSERT_TRUE(std::isnan(call.y(d + gap, t))) << "written between rows";
                }
}

// Without norm and gate a row is stored as it is.
TEST_P(GatedNorm, NothingAskedForIsACopy) {
    GatedNormCall call(row, 77, 3, false, false, GDN_ACTIVATION_NONE);
    call.draw(1);
    ASSERT_EQ(call.run(), 0);
    for (int t = 0; t < 3; t++)
        for (int d = 0; d < 77; d++) ASSERT_EQ(call.y(d, t), rounded(dtype, call.o(d, t))) << row.symbol;
}

TEST_P(GatedNorm, EpsIsTheCallers) {
    for (float eps : {1e-12f, 1e-6f, 1e-5f, 0.5f}) {
        GatedNormCall call(row, 128, 4, true, true, GDN_ACTIVATION_SIGMOID);
        call.draw(2);
        call.eps = eps;
        ASSERT_EQ(call.run(), 0);
        ASSERT_TRUE(call.check()) << eps;
    }
}

// Rows of zeros become zeros; rows so long that the sum of their squares is beyond float32 become zeros too, and never NaN.
TEST_P(GatedNorm, ZeroAndHugeRows) {
    for (int width : {5, 64, 130})
        for (const Kind &kind : kKinds) {
            if (!kind.norm) continue;
            GatedNormCall call(row, width, 4, true, kind.gate, kind.f);
            call.draw(3);
            for (int d = 0; d < width; d++) {
                call.o.set(d, 0, 0);
                call.o.set(d, 1, d % 2 ? 1e20 : -1e20);
                call.o.set(d, 2, d == 3 ? 3e38 : 1);
                call.o.set(d, 3, 1e15);
            }
            call.z.set(0, 0, 200);
            call.z.set(1, 0, -200);
            call.z.set(0, 1, 200);
            call.z.set(1, 1, -200);
            ASSERT_EQ(call.run(), 0);
            const std::vector<double> right = call.expected(3);
            for (int d = 0; d < width; d++) {
                for (int t : {0, 1, 2}) ASSERT_EQ(call.y(d, t), 0.0f) << row.symbol << " " << d << " " << t;
                ASSERT_NEAR(call.y(d, 3), right[d], 10 * kEps * std::fabs(right[d]) + half_ulp(dtype, right[d])) << row.symbol << " " << d;
            }
        }
}

// Gates that are closed, open, or beyond the exponential's range.
TEST_P(GatedNorm, ExtremeLogits) {
    const std::vector<float> logits = {0, -0.0f, 20, -20, 80, -80, 200, -200, 6e4f, -6e4f, 1e20f, -1e20f, INFINITY, -INFINITY};
    for (const Kind &kind : kKinds) {
        if (!kind.gate) continue;
        GatedNormCall call(row, 40, 2, kind.norm, true, kind.f);
        call.draw(4);
        call.o.fill([](int, int) { return 1; });
        call.weight.fill([](int, int) { return 1; });
        call.z.fill([&](int d, int) { return rounded(z_dtype, logits[static_cast<std::size_t>(d) % logits.size()]); });
        call.eps = 1e-12f;
        ASSERT_EQ(call.run(), 0);
        for (int t = 0; t < 2; t++)
            for (int d = 0; d < 40; d++) {
                const double z = call.z(d, t);
                double right = std::isinf(z) ? (z < 0 ? 0 : kind.f == GDN_ACTIVATION_SILU ? z : 1) : gdn_reference::activation(kind.f, z);
                if (z < -100) right = 0;
                ASSERT_FALSE(std::isnan(call.y(d, t))) << row.symbol << " at " << z;
                if (rounded(dtype, static_cast<float>(right)) == call.y(d, t)) continue;
                ASSERT_NEAR(call.y(d, t), right, 8 * kEps * std::fabs(right) + half_ulp(dtype, right)) << row.symbol << " at " << z;
            }
    }
}

// A NaN of o spoils its own row, or without a norm its own channel; a NaN of z its own channel.
TEST_P(GatedNorm, NanStaysWhereItIs) {
    for (int at : {0, 15, 16, 40})
        for (const Kind &kind : kKinds)
            for (bool in_z : {false, true}) {
                if (in_z && !kind.gate) continue;
                GatedNormCall clean(row, 41, 3, kind.norm, kind.gate, kind.f), call(row, 41, 3, kind.norm, kind.gate, kind.f);
                clean.draw(5);
                call.draw(5);
                ASSERT_EQ(clean.run(), 0);
                (in_z ? call.z : call.o).set(at, 1, NAN);
                ASSERT_EQ(call.run(), 0);
                for (int t = 0; t < 3; t++)
                    for (int d = 0; d < 41; d++) {
                        if (t == 1 && (d == at || (kind.norm && !in_z)))
                            ASSERT_TRUE(std::isnan(call.y(d, t))) << row.symbol << " " << d;
                        else
                            ASSERT_EQ(float_bits(call.y(d, t)), float_bits(clean.y(d, t))) << row.symbol << " " << d << " " << t;
                    }
            }
}

// A row alone has the bits that it has among others.
TEST_P(GatedNorm, RowsAreIndependent) {
    for (int width : {10, 64, 128, 131}) {
        GatedNormCall whole(row, width, 7, true, true, GDN_ACTIVATION_SILU);
        whole.draw(6);
        ASSERT_EQ(whole.run(), 0);
        for (int t = 0; t < 7; t++) {
            GatedNormCall one(row, width, 1, true, true, GDN_ACTIVATION_SILU);
            one.o.fill([&](int d, int) { return whole.o(d, t); });
            one.z.fill([&](int d, int) { return whole.z(d, t); });
            one.weight.fill([&](int d, int) { return whole.weight(d, 0); });
            ASSERT_EQ(one.run(), 0);
            for (int d = 0; d < width; d++) ASSERT_EQ(float_bits(one.y(d, 0)), float_bits(whole.y(d, t))) << row.symbol << " " << d;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, GatedNorm, ::testing::ValuesIn(rows_of(gdn::Family::kGatedNorm)), [](const auto &info) { return info.param->symbol; });

}  // namespace
}  // namespace gdn_test
