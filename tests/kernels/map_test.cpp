// map: every kind and dtype against the formula in double, over the whole range of its argument.
#include <gtest/gtest.h>

#include <functional>

#include "../reference/units.h"
#include "../support/random.h"
#include "kernel_call.h"

namespace gdn_test {
namespace {

using gdn::MapKind;

bool has_logit_decay(const gdn::KernelRow &row) { return row.map == MapKind::kSoftplus || row.map == MapKind::kLowerBound; }

struct MapArguments {
    float gate_scale = 1, lower_bound = -5, pad = 0;
    int valid = 0;
    Rows *in = nullptr, *a_log = nullptr, *dt_bias = nullptr, *out = nullptr;

    int run(const gdn::KernelRow &row) {
        const bool reads = has_logit_decay(row);
        return KernelCall(row)
            .scalar(gate_scale)
            .scalar(lower_bound)
            .scalar(pad)
            .scalar(valid)
            .rows(in)
            .rows(a_log, reads)
            .rows(dt_bias, reads)
            .rows(out)
            .run();
    }
};

class Map : public ::testing::TestWithParam<const gdn::KernelRow *> {
protected:
    const gdn::KernelRow &row = *GetParam();
    const gdn_dtype dtype = dtype_of(row.dtype);

    // f over a list of values, with A_log and dt_bias of one value each.
    std::vector<float> apply(
        const std::vector<float> &x, float a_log = 0, float dt_bias = 0, float gate_scale = 1, float lower_bound = -5) {
        const int n = static_cast<int>((x.size() + 255) / 256);
        Rows in(dtype, 256, n, 256), out(GDN_DTYPE_F32, 256, n, 256, Guard::kEnd, 64), a(GDN_DTYPE_F32, 1, n, 0),
            dt(GDN_DTYPE_F32, 256, n, 0);
        in.fill([&](int c, int t) { return x[std::min(x.size() - 1, static_cast<std::size_t>(t) * 256 + c)]; });
        a.fill([&](int, int) { return a_log; });
        dt.fill([&](int, int) { return dt_bias; });
        MapArguments arguments{gate_scale, lower_bound, 0, 256, &in, &a, &dt, &out};
        EXPECT_EQ(arguments.run(row), 0);
        std::vector<float> y(x.size());
        for (std::size_t i = 0; i < x.size(); i++) y[i] = out(static_cast<int>(i % 256), static_cast<int>(i / 256));
        return y;
    }
};

// What one value becomes. `A` is exp(A_log) as float32.
double formula(MapKind kind, double x, double A, double dt_bias, double gate_scale, double lower_bound) {
    using namespace gdn_reference;
    switch (kind) {
    case MapKind::kSigmoid:
        return gate_scale * sigmoid(x);
    case MapKind::kExp:
        return std::exp(x);
    case MapKind::kSoftplus:
        return decay(GDN_DECAY_SOFTPLUS, x, A, dt_bias, 0);
    case MapKind::kLowerBound:
        return decay(GDN_DECAY_LOWER_BOUND, x, A, dt_bias, lower_bound);
    default:
        return x;
    }
}

// All lengths of a row, aligned or not: the last valid channel may be the last byte of a page, and so may the last of the padding.
TEST_P(Map, ShapesPaddingAndGuards) {
    Random random(1);
    for (Guard guard : {Guard::kEnd, Guard::kBegin})
        for (int valid : {1, 2, 8, 15, 16, 17, 24, 80, 129, 256})
            for (int n : {1, 2, 8, 11}) {
                for (int padded : {valid, (valid + 15) / 16 * 16}) {
                    SCOPED_TRACE(std::string(row.symbol) + " valid " + std::to_string(valid) + " padded " + std::to_string(padded) + " n " +
                                 std::to_string(n));
                    Rows in(dtype, valid, n, valid + n % 3, guard), a_log(GDN_DTYPE_F32, 1, n, n % 2, guard),
                        dt_bias(GDN_DTYPE_F32, valid, n, valid, guard);
                    Rows out(GDN_DTYPE_F32, padded, n, padded, guard, guard == Guard::kEnd ? 4 : 64);
                    in.fill([&](int, int) { return row.map == MapKind::kExp ? -random.uniform(0, 5) : random.normal(); });
                    a_log.fill([&](int, int) { return random.uniform(-1, 1); });
                    dt_bias.fill([&](int, int) { return random.normal(); });
                    out.memory().poison();
                    const std::uint64_t before = in.memory().hash();
                    const bool logit_decay = has_logit_decay(row);
                    MapArguments arguments{2, -4, 7, valid, &in, &a_log, &dt_bias, &out};
                    ASSERT_EQ(arguments.run(row), 0);
                    EXPECT_EQ(in.memory().hash(), before);
                    EXPECT_TRUE(out.memory().slack_untouched());
                    for (int t = 0; t < n; t++) {
                        double sum = 1e-6;
                        for (int c = 0; c < valid; c++) sum += static_cast<double>(in(c, t)) * in(c, t);
                        for (int c = 0; c < padded; c++) {
                            double expected = 7;
                            if (c < valid && row.map == MapKind::kL2Norm)
                                expected = in(c, t) / std::sqrt(sum);
                            else if (c < valid)
                                expected = formula(row.map, in(c, t), std::exp(static_cast<double>(a_log(0, t))), dt_bias(c, t), 2, -4);
                            ASSERT_LE(error_in_eps(out(c, t), expected), logit_decay                   ? 60
                                                                         : row.map == MapKind::kL2Norm ? 8
                                                                                                       : 2)
                                << c << " " << t;
                        }
                    }
                }
            }
}

// Every finite value of a wide range, densely. One function is held to 2 eps; a composition to what its last exponential makes of 3 eps.
TEST_P(Map, DenseSweepAgainstDouble) {
    if (row.map == MapKind::kL2Norm) return;
    std::vector<float> x;
    if (row.dtype == gdn::Type::kF32) {
        for (std::uint32_t bits = float_bits(1e-8f); bits <= float_bits(150.0f); bits += 1009) {
            x.push_back(bits_float(bits));
            x.push_back(-bits_float(bits));
        }
        x.insert(x.end(), {0.0f, -0.0f, 1e-40f, -1e-40f, 1e-30f, -1e-30f});
    } else {
        for (int half = 0; half < 65536; half++) {
            const float value =
                row.dtype == gdn::Type::kBf16 ? from_bf16(static_cast<std::uint16_t>(half)) : from_f16(static_cast<std::uint16_t>(half));
            if (std::fabs(value) <= 150) x.push_back(value);
        }
    }
    if (row.map == MapKind::kExp) {
        for (float &value : x) value = -std::fabs(value);
    }
    for (float a_log : {0.0f, 2.5f, -3.0f}) {
        if (a_log != 0 && !has_logit_decay(row)) continue;
        const std::vector<float> y = apply(x, a_log, 0.25f, 1, -5);
        double worst = 0, at = 0;
        for (std::size_t i = 0; i < x.size(); i++) {
            const double expected = formula(row.map, x[i], std::exp(static_cast<double>(a_log)), 0.25, 1, -5);
            double error = error_in_eps(y[i], expected);
            // The exponent's own error, 4 eps and the rounding of x + dt_bias, is multiplied by the exponent.
            if (has_logit_decay(row)) {
                const double slope = row.map == MapKind::kLowerBound ? 5 * std::exp(a_log) : std::exp(a_log);
                error /= 1 + 2 * std::fabs(std::log(expected)) + slope * std::fabs(x[i] + 0.25);
                if (expected < 0x1p-120) error = y[i] <= 0x1p-118 ? 0 : INFINITY;
            }
            if (!(error <= worst)) {
                worst = error;
                at = x[i];
            }
        }
        EXPECT_LE(worst, row.map == MapKind::kCopy ? 0 : 2) << row.symbol << " at " << at;
        RecordProperty("worst_eps", std::to_string(worst));
    }
}

// softplus itself: with a rate that makes the exponent large, alpha's own rounding says little and log(alpha) / rate shows the function.
TEST_P(Map, SoftplusAlone) {
    if (row.map != MapKind::kSoftplus || row.dtype != gdn::Type::kF32) return;
    for (double low = -60; low < 40; low += 0.5) {
        const double middle = gdn_reference::softplus(low + 0.25);
        const float a_log = static_cast<float>(std::log(50 / middle));
        if (a_log > 80) continue;
        std::vector<float> x;
        for (int i = 0; i < 2048; i++) x.push_back(static_cast<float>(low + 0.5 * i / 2048));
        // At 64, softplus is its argument: this shows the kernel's own exp(A_log).
        const float probe = apply({64}, a_log - static_cast<float>(std::log(64 / middle)))[0];
        ASSERT_GT(probe, 0);
        const std::vector<float> y = apply(x, a_log);
        for (std::size_t i = 0; i < x.size(); i++) {
            const double given = -std::log(static_cast<double>(y[i])),
                         expected = std::exp(static_cast<double>(a_log)) * gdn_reference::softplus(x[i]);
            // 2 eps of softplus, 1 of the rate, 1/2 of their product.
            ASSERT_LE(std::fabs(given - expected), 3.5 * kEps * expected + 2 * kEps) << row.symbol << " at " << x[i];
        }
    }
}

TEST_P(Map, EdgesAreExact) {
    const float inf = INFINITY, nan = NAN;
    auto bits_equal = [&](const std::vector<float> &x, const std::vector<float> &expected, float a_log = 0) {
        const std::vector<float> y = apply(x, a_log);
        for (std::size_t i = 0; i < x.size(); i++) {
            if (std::isnan(expected[i]))
                EXPECT_TRUE(std::isnan(y[i])) << row.symbol << " of " << x[i] << " is " << y[i];
            else
                EXPECT_EQ(y[i], expected[i]) << row.symbol << " of " << x[i];
        }
    };
    const float negative_nan = bits_float(0xFFC00000);
    switch (row.map) {
    case MapKind::kCopy:
        bits_equal({0, 1, -1, inf, -inf, nan, negative_nan}, {0, 1, -1, inf, -inf, nan, nan});
        break;
    case MapKind::kExp:
        bits_equal({0, -0.0f, -inf, -1e4f, -200, nan, negative_nan}, {1, 1, 0, 0, 0, nan, nan});
        break;
    case MapKind::kSigmoid:
        bits_equal({0, inf, -inf, 1e4f, -1e4f, 30, nan, negative_nan}, {0.5f, 1, 0, 1, 0, 1, nan, nan});
        break;
    case MapKind::kSoftplus:
        bits_equal({-inf, -1e4f, 1e4f, inf, nan, negative_nan}, {1, 1, 0, 0, nan, nan});
        bits_equal({-1e4f, 1e4f, nan}, {1, 0, nan}, 2.5f);
        break;
    case MapKind::kLowerBound:
        bits_equal({-inf, -1e4f, nan, negative_nan}, {1, 1, nan, nan});
        break;
    default:
        break;
    }
}

// A NaN changes nothing but its own channel; of kind l2norm, its own row.
TEST_P(Map, NanStaysWhereItIs) {
    for (int at : {0, 5, 16, 31, 40}) {
        Rows in(dtype, 41, 3, 41), out(GDN_DTYPE_F32, 48, 3, 48), clean(GDN_DTYPE_F32, 48, 3, 48), a_log(GDN_DTYPE_F32, 1, 3, 1),
            dt_bias(GDN_DTYPE_F32, 41, 3, 41);
        in.fill([](int c, int t) { return -0.01 * c - 0.3 * t; });
        a_log.fill([](int, int) { return 0.0; });
        dt_bias.fill([](int, int) { return 0.0; });
        MapArguments arguments{1, -5, 0, 41, &in, &a_log, &dt_bias, &clean};
        ASSERT_EQ(arguments.run(row), 0);
        in.set(at, 1, NAN);
        arguments.out = &out;
        ASSERT_EQ(arguments.run(row), 0);
        for (int t = 0; t < 3; t++)
            for (int c = 0; c < 48; c++) {
                if (t == 1 && c < 41 && (c == at || row.map == MapKind::kL2Norm))
                    EXPECT_TRUE(std::isnan(out(c, t))) << row.symbol << " " << c;
                else
                    EXPECT_EQ(out.bits(c, t), clean.bits(c, t)) << row.symbol << " " << c << " " << t;
            }
    }
}

// All 65,536 patterns: widened exactly, and back by store to the same bits.
TEST_P(Map, EveryHalfWidensExactly) {
    if (row.map != MapKind::kCopy || row.dtype == gdn::Type::kF32) return;
    Rows in(dtype, 256, 256, 256), out(GDN_DTYPE_F32, 256, 256, 256);
    for (int i = 0; i < 65536; i++) in.half(i % 256, i / 256) = static_cast<std::uint16_t>(i);
    Rows unread(GDN_DTYPE_F32, 1, 1, 1);
    MapArguments arguments{1, -5, 0, 256, &in, &unread, &unread, &out};
    ASSERT_EQ(arguments.run(row), 0);
    for (int i = 0; i < 65536; i++) {
        const auto half = static_cast<std::uint16_t>(i);
        const float expected = dtype == GDN_DTYPE_BF16 ? from_bf16(half) : from_f16(half), given = out(i % 256, i / 256);
        if (std::isnan(expected))
            ASSERT_TRUE(std::isnan(given)) << row.symbol << " " << i;
        else
            ASSERT_EQ(float_bits(given), float_bits(expected)) << row.symbol << " " << i;
    }
    for (const gdn::KernelRow *store : rows_of(gdn::Family::kStore)) {
        if (store->dtype != row.dtype || store->target != row.target) continue;
        Rows back(dtype, 256, 256, 256);
        ASSERT_EQ(KernelCall(*store).rows(&out).rows(&back).run(), 0);
        const int infinity = dtype == GDN_DTYPE_BF16 ? 0x7F80 : 0x7C00;
        for (int i = 0; i < 65536; i++) {
            const std::uint16_t half = back.half(i % 256, i / 256);
            if ((i & 0x7FFF) > infinity)
                ASSERT_GT(half & 0x7FFF, infinity) << store->symbol << " " << i;
            else
                ASSERT_EQ(half, i) << store->symbol;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, Map, ::testing::ValuesIn(rows_of(gdn::Family::kMap)), [](const auto &info) { return info.param->symbol; });

}  // namespace
}  // namespace gdn_test
