// short_conv: every width, shape and dtype against the convolution in double; what a token or a channel does not see does not change it.
#include <gtest/gtest.h>

#include "../support/case.h"
#include "mixer_call.h"

namespace gdn_test {
namespace {

class ShortConv : public ::testing::TestWithParam<const gdn::KernelRow *> {
protected:
    const gdn::KernelRow &row = *GetParam();
    const gdn_dtype dtype = dtype_of(row.dtype);

    std::vector<int> widths() const { return row.width ? std::vector<int>{row.width} : std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8}; }
};

constexpr gdn_activation kActivations[] = {GDN_ACTIVATION_NONE, GDN_ACTIVATION_SILU};

TEST_P(ShortConv, ShapesWidthsAndGuards) {
    const std::vector<int> channels =
        small_budget() ? std::vector<int>{1, 15, 17, 96, 129}
                       : std::vector<int>{1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 31, 32, 33, 48, 100, 127, 128, 129, 240, 299, 300};
    const std::vector<int> tokens = small_budget() ? std::vector<int>{1, 2, 7} : std::vector<int>{1, 2, 3, 4, 5, 7, 8, 33};
    for (int width : widths())
        for (int c : channels)
            for (int n : tokens)
                for (gdn_activation f : kActivations)
                    for (Guard guard : {Guard::kEnd, Guard::kBegin}) {
                        ShortConvCall call(row, c, n, width, f, guard, (c + n) % 3 ? 0 : 5);
                        call.draw(static_cast<std::uint64_t>(c * 1000 + n * 10 + width));
                        ASSERT_EQ(call.run(), 0);
                        ASSERT_TRUE(call.check());
                        ASSERT_TRUE(call.y.memory().slack_untouched());
                        for (int t = 0; t + 1 < n && (c + n) % 3 == 0; t++)
                            for (int gap = 0; gap < 15; gap++) ASSERT_TRUE(std::isnan(call.y(c + gap, t))) << "written between rows";
                    }
}

// Tap i meets token t + i - (W - 1): a single 1 in the taps is a delay.
TEST_P(ShortConv, OneTapIsADelay) {
    for (int width : widths())
        for (int tap = 0; tap < width; tap++) {
            ShortConvCall call(row, 20, 6, width, GDN_ACTIVATION_NONE);
            call.draw(1);
            call.w.fill([&](int, int i) { return i == tap ? 1 : 0; });
            call.bias.fill([](int, int) { return 0; });
            ASSERT_EQ(call.run(), 0);
            for (int t = 0; t < 6; t++)
                for (int c = 0; c < 20; c++)
                    ASSERT_EQ(call.y(c, t), call.x(c, t + tap)) << row.symbol << " width " << width << " tap " << tap;
        }
}

// However the tokens and the channels are divided into calls, the bits are the same.
TEST_P(ShortConv, DivisionDoesNotChangeBits) {
    for (int width : widths()) {
        ShortConvCall whole(row, 112, 13, width, GDN_ACTIVATION_SILU);
        whole.draw(2);
        ASSERT_EQ(whole.run(), 0);
        for (int tokens : {1, 2, 3, 5})
            for (int channels : {16, 48, 112})
                for (int t = 0; t + tokens <= 13; t += tokens)
                    for (int c = 0; c + channels <= 112; c += channels) {
                        ShortConvCall part(row, channels, tokens, width, GDN_ACTIVATION_SILU);
                        part.x.fill([&](int i, int j) { return whole.x(c + i, t + j); });
                        part.w.fill([&](int i, int j) { return whole.w(c + i, j); });
                        part.bias.fill([&](int i, int) { return whole.bias(c + i, 0); });
                        ASSERT_EQ(part.run(), 0);
                        for (int j = 0; j < tokens; j++)
                            for (int i = 0; i < channels; i++)
                                ASSERT_EQ(float_bits(part.y(i, j)), float_bits(whole.y(c + i, t + j)))
                                    << row.symbol << " " << i << " " << j;
                    }
    }
}

// silu at both ends: closed from -88.4 down, the identity from 17 up; 0 and finite where an exponential would not be.
TEST_P(ShortConv, ExtremeSums) {
    const std::vector<float> sums = {
        0, -0.0f, 20, -20, 80, -80, -87, -88, 200, -200, 1e4f, -1e4f, 1e20f, -1e20f, 3e38f, -3e38f, INFINITY, -INFINITY};
    const int n = 3;
    ShortConvCall call(row, static_cast<int>(sums.size()), n, widths()[0], GDN_ACTIVATION_SILU);
    call.x.fill([](int, int) { return 1; });
    call.w.fill([](int, int) { return 0; });
    call.bias.fill([&](int c, int) { return sums[c]; });
    ASSERT_EQ(call.run(), 0);
    for (int t = 0; t < n; t++)
        for (std::size_t c = 0; c < sums.size(); c++) {
            const float given = call.y(static_cast<int>(c), t), x = sums[c];
            ASSERT_FALSE(std::isnan(given)) << row.symbol << " at " << x;
            const float right = static_cast<float>(std::isinf(x) ? (x > 0 ? x : 0) : gdn_reference::activation(GDN_ACTIVATION_SILU, x));
            if (x < -100 || x > 17)
                ASSERT_EQ(given, right) << row.symbol << " at " << x;
            else
                ASSERT_NEAR(given, right, 3 * kEps * std::fabs(right)) << row.symbol << " at " << x;
        }
}

// Large values that go through the taps, at the ends of the dtype's range.
TEST_P(ShortConv, LargeInputsStayFinite) {
    const double large = dtype == GDN_DTYPE_F16 ? 60000 : 1e20;
    ShortConvCall call(row, 33, 9, widths()[0], GDN_ACTIVATION_SILU);
    call.x.fill([&](int c, int t) { return (c + t) % 2 ? large : -large; });
    call.w.fill([](int, int i) { return i == 0 ? 1 : 0; });
    call.bias.fill([](int, int) { return 0; });
    ASSERT_EQ(call.run(), 0);
    for (int t = 0; t < 9; t++)
        for (int c = 0; c < 33; c++) ASSERT_EQ(call.y(c, t), (c + t) % 2 ? rounded(dtype, static_cast<float>(large)) : 0.0f) << row.symbol;
}

// A NaN reaches the W tokens that see it in its own channel, and nothing else.
TEST_P(ShortConv, NanStaysInItsWindow) {
    for (int width : widths())
        for (int at : {0, 15, 16, 40})
            for (gdn_activation f : kActivations) {
                ShortConvCall clean(row, 41, 12, width, f), call(row, 41, 12, width, f);
                clean.draw(3);
                call.draw(3);
                ASSERT_EQ(clean.run(), 0);
                call.x.set(at, 9, NAN);
                ASSERT_EQ(call.run(), 0);
                for (int t = 0; t < 12; t++)
                    for (int c = 0; c < 41; c++) {
                        if (c == at && t <= 9 && t + width - 1 >= 9)
                            ASSERT_TRUE(std::isnan(call.y(c, t))) << row.symbol << " " << t;
                        else
                            ASSERT_EQ(float_bits(call.y(c, t)), float_bits(clean.y(c, t))) << row.symbol << " " << c << " " << t;
                    }
            }
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, ShortConv, ::testing::ValuesIn(rows_of(gdn::Family::kShortConv)), [](const auto &info) { return info.param->symbol; });

}  // namespace
}  // namespace gdn_test
