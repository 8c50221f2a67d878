// Estimates on samples of known distributions.
#include "autotune/measure/statistics.h"

#include <cmath>

#include <gtest/gtest.h>

#include "autotune/space/random.h"

namespace gdn::tune {
namespace {

double normal(Random &random) { return std::sqrt(-2 * std::log(1 - random.unit())) * std::cos(6.283185307179586 * random.unit()); }

TEST(Statistics, NothingAndOneSampleSayNothing) {
    EXPECT_EQ(estimate({}).samples, 0);
    const Estimate one = estimate({3});
    EXPECT_EQ(one.value, 3);
    EXPECT_EQ(one.low, 0);
    EXPECT_EQ(one.high, 6);
    EXPECT_FALSE(estimate({}).below(one));
    EXPECT_FALSE(one.below(estimate({})));
}

TEST(Statistics, KnownSamples) {
    const Estimate e = estimate({4, 1, 3, 2, 5});
    EXPECT_DOUBLE_EQ(e.value, 3);
    EXPECT_DOUBLE_EQ(e.median, 3);
    EXPECT_DOUBLE_EQ(e.mad, 1);
    EXPECT_EQ(e.samples, 5);
    EXPECT_NEAR(e.high - e.value, 2.776 * std::sqrt(2.5 / 5), 1e-12);
    EXPECT_NEAR(e.value - e.low, e.high - e.value, 1e-12);
    EXPECT_DOUBLE_EQ(estimate({1, 2, 3, 4}).median, 2.5);
}

// The distant are dropped, the two outermost of twenty pulled in.
TEST(Statistics, OutliersDoNotMoveTheEstimate) {
    std::vector<double> samples;
    for (int i = 0; i < 20; i++) samples.push_back(100 + i % 5);
    const Estimate clean = estimate(samples);
    samples.push_back(1e6);
    samples.push_back(300);
    const Estimate dirty = estimate(samples);
    EXPECT_DOUBLE_EQ(dirty.value, clean.value);
    EXPECT_EQ(dirty.samples, 20);
    // Inside the fence nothing is dropped, but two of twenty may be anything.
    std::vector<double> near;
    for (int i = 0; i < 18; i++) near.push_back(99 + 0.1 * i);
    std::vector<double> far = near;
    near.insert(near.end(), {100.7, 100.7});
    far.insert(far.end(), {102.5, 102.9});
    EXPECT_DOUBLE_EQ(estimate(far).value, estimate(near).value);
    EXPECT_EQ(estimate(far).samples, 20);
}

TEST(Statistics, EqualSamplesHaveNoWidth) {
    const Estimate e = estimate(std::vector<double>(7, 2.5));
    EXPECT_EQ(e.low, 2.5);
    EXPECT_EQ(e.high, 2.5);
}

// Of many experiments about 95 in 100 intervals hold the true mean, with a tail of slow samples too.
TEST(Statistics, IntervalsCover) {
    Random random(7);
    for (const size_t n : {5, 7, 15, 30}) {
        for (const double spoiled : {0.0, 0.05}) {
            int covered = 0;
            double width = 0;
            constexpr int kExperiments = 4000;
            for (int i = 0; i < kExperiments; i++) {
                std::vector<double> samples;
                for (size_t s = 0; s < n; s++) samples.push_back(1 + 0.01 * normal(random) + (random.unit() < spoiled ? random.unit() : 0));
                const Estimate e = estimate(samples);
                covered += e.low <= 1 && 1 <= e.high;
                width += e.high - e.low;
            }
            SCOPED_TRACE(testing::Message() << n << " samples, " << spoiled << " of them spoiled");
            EXPECT_GE(covered, kExperiments * 90 / 100);
            EXPECT_LE(covered, kExperiments * 985 / 1000);
            EXPECT_LT(width / kExperiments, n < 7 ? 0.2 : 0.05);
        }
    }
}

TEST(Statistics, IntervalsNarrowWithSamples) {
    Random random(3);
    double before = 1;
    for (const size_t n : {8, 32, 128, 512}) {
        std::vector<double> samples;
        for (size_t s = 0; s < n; s++) samples.push_back(1 + 0.01 * normal(random));
        const Estimate e = estimate(samples);
        EXPECT_LT(e.high - e.low, before);
        before = e.high - e.low;
    }
}

TEST(Statistics, BelowMeansApart) {
    Estimate a, b;
    a.samples = b.samples = 5;
    a.low = 0.9, a.high = 0.95, b.low = 0.96, b.high = 1.1;
    EXPECT_TRUE(a.below(b));
    EXPECT_FALSE(b.below(a));
    b.low = 0.94;
    EXPECT_FALSE(a.below(b));
}

TEST(Statistics, GeometricMean) {
    EXPECT_EQ(geometric_mean({}).samples, 0);
    Estimate half, two;
    half.value = half.median = 0.5, half.low = 0.48, half.high = 0.52, half.samples = 7, half.mad = 0.01;
    two.value = two.median = 2, two.low = 1.94, two.high = 2.06, two.samples = 5;
    const Estimate mean = geometric_mean({half, two});
    EXPECT_NEAR(mean.value, 1, 1e-12);
    EXPECT_NEAR(mean.median, 1, 1e-12);
    EXPECT_EQ(mean.samples, 5);
    EXPECT_NEAR(mean.high - 1, std::sqrt(0.04 * 0.04 + 0.03 * 0.03) / 2, 1e-12);
    EXPECT_NEAR(mean.mad, 0.02 / 2, 1e-12);
    const Estimate one = geometric_mean({half});
    EXPECT_NEAR(one.value, 0.5, 1e-12);
    EXPECT_NEAR(one.low, 0.48, 1e-12);
    EXPECT_NEAR(one.high, 0.52, 1e-12);
}

}  // namespace
}  // namespace gdn::tune
