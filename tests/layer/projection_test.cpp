// Products with weights: against double, whatever y held, at every cut.
#include <gtest/gtest.h>

#include "forward_call.h"
#include "projection.h"

using namespace gdn_test;
using gdn::layer::Product;

namespace {

struct Shape {
    std::int64_t rows, in, out, x_gap, y_gap;
};

std::vector<float> product(gdn_context *context, const Shape &s, bool add, std::uint64_t seed, double *error = nullptr) {
    const std::int64_t xs = s.in + s.x_gap, ys = s.out + s.y_gap;
    std::vector<float> x = random_tokens(s.rows, xs, seed), w = random_tokens(s.out, s.in, seed + 1);
    std::vector<float> y(static_cast<std::size_t>(s.rows * ys), add ? 0.75f : std::nanf(""));
    const Product what = {x.data(), xs, w.data(), s.in, s.out, y.data(), ys, add};
    gdn::layer::multiply(context, s.rows, &what, 1);
    ErrorSum sum;
    for (std::int64_t r = 0; r < s.rows; r++) {
        for (std::int64_t o = 0; o < s.out; o++) {
            double expected = add ? 0.75 : 0;
            for (std::int64_t i = 0; i < s.in; i++) expected += static_cast<double>(x[r * xs + i]) * w[o * s.in + i];
            sum.add(y[r * ys + o], expected);
        }
        for (std::int64_t o = s.out; o < ys; o++) EXPECT_TRUE(add ? y[r * ys + o] == 0.75f : std::isnan(y[r * ys + o]));
    }
    if (error) *error = sum.error().rms;
    return y;
}

TEST(Projection, AgainstDouble) {
    const BlasThreads one(1);
    const gdn::Context context = context_of(2);
    for (const Shape &s : {Shape{1, 1, 1, 0, 0}, Shape{1, 24, 100, 0, 3}, Shape{2, 7, 5, 2, 1}, Shape{5, 300, 1100, 4, 0},
             Shape{512, 40, 700, 0, 16}, Shape{512, 512, 100, 8, 0}, Shape{1, 700, 3000, 0, 0}, Shape{513, 3, 64, 0, 0}}) {
        for (const bool add : {false, true}) {
            double error = 1;
            product(context.get(), s, add, 5, &error);
            EXPECT_LT(error, 1e-6) << s.rows << " x " << s.in << " x " << s.out << (add ? " added" : "");
        }
    }
}

TEST(Projection, ThreadsChangeNoBit) {
    const BlasThreads one(1);
    const Shape shapes[] = {{512, 300, 1000, 0, 0}, {1, 900, 3000, 0, 0}, {512, 600, 130, 0, 0}};
    for (const Shape &s : shapes) {
        const std::vector<float> expected = product(context_of(1).get(), s, false, 9);
        for (const int threads : {2, 5}) {
            const gdn::Context context = context_of(threads);
            for (int again = 0; again < 3; again++) EXPECT_TRUE(same_bits(product(context.get(), s, false, 9), expected)) << threads;
        }
    }
}

TEST(Projection, SeveralAtOnce) {
    const BlasThreads one(1);
    const gdn::Context context = context_of(3);
    const std::int64_t rows = 200, in = 50;
    const std::vector<float> x = random_tokens(rows, 2 * in, 1), a = random_tokens(900, in, 2), b = random_tokens(70, in, 3);
    std::vector<float> ya(rows * 900), yb(rows * 70), yc(rows * 900), yd(rows * 70);
    const Product both[] = {
        {x.data(), 2 * in, a.data(), in, 900, ya.data(), 900}, {x.data() + in, 2 * in, b.data(), in, 70, yb.data(), 70}};
    gdn::layer::multiply(context.get(), rows, both, 2);
    const Product first = {x.data(), 2 * in, a.data(), in, 900, yc.data(), 900},
                  second = {x.data() + in, 2 * in, b.data(), in, 70, yd.data(), 70};
    gdn::layer::multiply(context.get(), rows, &first, 1);
    gdn::layer::multiply(context.get(), rows, &second, 1);
    EXPECT_TRUE(same_bits(ya, yc));
    EXPECT_TRUE(same_bits(yb, yd));
}

TEST(Projection, TheBlassOwnThreadsServeToo) {
    const BlasThreads two(2);
    if (layer::blas_threads() != 2) GTEST_SKIP() << "this BLAS has no threads of its own";
    double error = 1;
    product(context_of(1).get(), {300, 200, 500, 0, 0}, true, 3, &error);
    EXPECT_LT(error, 1e-6);
    EXPECT_EQ(layer::blas_threads(), 2);  // left as it was
}

}  // namespace
