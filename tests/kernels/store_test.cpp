// store: float32 rows to the caller's dtype, every rounding case, nothing touched around the rows.
#include <gtest/gtest.h>

#include "../support/random.h"
#include "kernel_call.h"

namespace gdn_test {
namespace {

class Store : public ::testing::TestWithParam<const gdn::KernelRow *> {};

TEST_P(Store, EveryShapeWithinItsRows) {
    const gdn::KernelRow &row = *GetParam();
    const gdn_dtype dtype = dtype_of(row.dtype);
    Random random(1);
    for (Guard guard : {Guard::kEnd, Guard::kBegin})
        for (int width : {1, 3, 8, 15, 16, 17, 48, 80, 127, 128, 256})
            for (int n : {1, 2, 7, 8, 9}) {
                const int padded = (width + 15) / 16 * 16;
                Rows o(GDN_DTYPE_F32, padded, n, padded, Guard::kEnd, 64), y(dtype, width, n, width + (n % 2 ? 0 : 5), guard, 1);
                o.fill([&](int, int) { return random.normal(); });
                // The kernel is told of `width` channels of each padded row.
                o.buffer()->dim[0].extent = width;
                y.memory().poison();
                ASSERT_EQ(KernelCall(row).rows(&o).rows(&y).run(), 0);
                for (int t = 0; t < n; t++)
                    for (int c = 0; c < width; c++)
                        ASSERT_EQ(y(c, t), rounded(dtype, o(c, t))) << row.symbol << " " << width << " " << c << " " << t;
                EXPECT_TRUE(y.memory().slack_untouched());
                if (n % 2 == 0) {
                    for (int t = 0; t + 1 < n; t++)
                        for (int c = 0; c < 5; c++) EXPECT_TRUE(std::isnan(y(width + c, t))) << "written between rows";
                }
            }
}

// A million floats of every magnitude, every half-way point between neighbours, and their neighbours in float32.
TEST_P(Store, RoundsToNearestEven) {
    const gdn::KernelRow &row = *GetParam();
    const gdn_dtype dtype = dtype_of(row.dtype);
    if (dtype == GDN_DTYPE_F32) return;
    std::vector<std::uint32_t> bits;
    Random random(2);
    for (int i = 0; i < 1000000; i++) bits.push_back(static_cast<std::uint32_t>(random.below(1ll << 32)));
    for (std::uint32_t half = 0; half < 65536; half++) {
        if (dtype == GDN_DTYPE_BF16) {
            for (std::uint32_t low : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) bits.push_back(half << 16 | low);
        } else {
            const float here = from_f16(static_cast<std::uint16_t>(half)), next = from_f16(static_cast<std::uint16_t>(half + 1));
            const float tie = static_cast<float>((static_cast<double>(here) + next) / 2);
            for (float x : {here, tie, std::nextafterf(tie, here), std::nextafterf(tie, next)}) bits.push_back(float_bits(x));
        }
    }
    for (float x :
        {65504.0f, 65519.99f, 65520.0f, 65536.0f, 1e30f, INFINITY, 0x1p-24f, 0x1p-25f, 0x1.000002p-25f, 0x1p-14f, 0x1.ffcp-15f}) {
        bits.push_back(float_bits(x));
        bits.push_back(float_bits(-x));
    }
    bits.resize((bits.size() + 255) / 256 * 256);
    const int n = static_cast<int>(bits.size() / 256);
    Rows o(GDN_DTYPE_F32, 256, n, 256), y(dtype, 256, n, 256);
    std::memcpy(o.memory().data(), bits.data(), bits.size() * 4);
    ASSERT_EQ(KernelCall(row).rows(&o).rows(&y).run(), 0);
    for (std::size_t i = 0; i < bits.size(); i++) {
        const float x = bits_float(bits[i]);
        const std::uint16_t given = y.half(static_cast<int>(i % 256), static_cast<int>(i / 256));
        const std::uint16_t expected = dtype == GDN_DTYPE_BF16 ? to_bf16(x) : to_f16(x);
        if (std::isnan(x)) {
            const std::uint16_t infinity = dtype == GDN_DTYPE_BF16 ? 0x7F80 : 0x7C00;
            ASSERT_GT(given & 0x7FFF, infinity) << row.symbol << std::hex << " NaN " << bits[i] << " gives " << given;
        } else {
            ASSERT_EQ(given, expected) << row.symbol << std::hex << " " << bits[i];
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, Store, ::testing::ValuesIn(rows_of(gdn::Family::kStore)), [](const auto &info) { return info.param->symbol; });

}  // namespace
}  // namespace gdn_test
