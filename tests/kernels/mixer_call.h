// Calls of short_conv and gated_norm with arguments of their own, and their comparison with the double references.
#pragma once

#include <gtest/gtest.h>

#include "../reference/gated_norm.h"
#include "../reference/short_conv.h"
#include "../support/metric.h"
#include "../support/random.h"
#include "kernel_call.h"

namespace gdn_test {

// The largest error of one rounding to the dtype.
inline double half_ulp(gdn_dtype dtype, double x) {
    if (dtype == GDN_DTYPE_BF16) return std::fabs(x) * 0x1p-7 / 2 + 0x1p-133 / 2;
    if (dtype == GDN_DTYPE_F16) return std::fabs(x) * 0x1p-10 / 2 + 0x1p-24 / 2;
    return std::fabs(x) * kEps / 2 + 0x1p-126;
}

// A parameter of one dimension.
class Vector : public Rows {
public:
    Vector(int width, Guard guard) : Rows(GDN_DTYPE_F32, width, 1, width, guard) { buffer()->dimensions = 1; }
};

struct ShortConvCall {
    ShortConvCall(const gdn::KernelRow &row, int channels, int n, int width, gdn_activation f, Guard guard = Guard::kEnd, int gap = 0)
        : row(row), channels(channels), n(n), width(width), activation(f),
          x(dtype_of(row.dtype), channels, n + width - 1, channels + gap, guard),
          w(GDN_DTYPE_F32, channels, width, channels + 2 * gap, guard), bias(channels, guard),
          y(GDN_DTYPE_F32, channels, n, channels + 3 * gap, guard) {}

    void draw(std::uint64_t seed) {
        Random random(seed);
        x.fill([&](int, int) { return random.normal(); });
        w.fill([&](int, int) { return random.normal(); });
        bias.fill([&](int, int) { return random.normal(); });
    }

    int run() {
        y.memory().poison();
        for (Rows *input : {&x, &w, static_cast<Rows *>(&bias)}) input->memory().make_read_only();
        return KernelCall(row).scalar(activation).rows(&x).rows(&w).rows(&bias).rows(&y).run();
    }

    // Every element within the roundings of a float32 sum; all of them within the house's bound.
    ::testing::AssertionResult check() const {
        ErrorSum errors;
        for (int c = 0; c < channels; c++) {
            std::vector<double> tokens, old, taps;
            for (int i = 0; i < width; i++) taps.push_back(w(c, i));
            for (int t = 0; t < n + width - 1; t++) (t < width - 1 ? old : tokens).push_back(x(c, t));
            const std::vector<double> right =
                gdn_reference::short_conv(tokens, old, taps, bias(c, 0), static_cast<gdn_activation>(activation));
            for (int t = 0; t < n; t++) {
                double terms = std::fabs(bias(c, 0));
                for (int i = 0; i < width; i++) terms += std::fabs(static_cast<double>(w(c, i)) * x(c, t + i));
                const double error = std::fabs(y(c, t) - right[t]);
                if (!(error <= (width + 3) * kEps * terms + half_ulp(GDN_DTYPE_F32, right[t])))
                    return ::testing::AssertionFailure()
                           << row.symbol << " channel " << c << " of " << channels << ", token " << t << " of " << n << ", width " << width
                           << ": " << y(c, t) << " instead of " << right[t];
                errors.add(y(c, t), right[t]);
            }
        }
        const Error error = errors.error();
        if (channels * n >= 64 && !error.within(kBoundF32))
            return ::testing::AssertionFailure() << row.symbol << " relative RMS error " << error.rms;
        return ::testing::AssertionSuccess();
    }

    const gdn::KernelRow &row;
    int channels, n, width, activation;
    Rows x, w;
    Vector bias;
    Rows y;
};

struct GatedNormCall {
    GatedNormCall(
        const gdn::KernelRow &row, int channels, int n, bool norm, bool gate, gdn_activation f, Guard guard = Guard::kEnd, int gap = 0)
        : row(row), channels(channels), n(n), norm(norm), gate(!gate ? 0 : f), o(GDN_DTYPE_F32, channels, n, channels + gap, guard),
          z(dtype_of(row.z_dtype), channels, n, channels + 2 * gap, guard), weight(channels, guard),
          y(dtype_of(row.dtype), channels, n, channels + 3 * gap, guard) {}

    void draw(std::uint64_t seed) {
        Random random(seed);
        // Rows of very different lengths: each has a norm of its own, and the shortest are ruled by eps.
        for (int t = 0; t < n; t++) {
            const double length = random.log_uniform(1e-4, row.dtype == gdn::Type::kF16 ? 3e2 : 1e4);
            for (int d = 0; d < channels; d++) o.set(d, t, length * random.normal());
        }
        z.fill([&](int, int) { return 3 * random.normal(); });
        weight.fill([&](int, int) { return 1 + 0.3 * random.normal(); });
    }

    int run() {
        y.memory().poison();
        for (Rows *input : {&o, &z, static_cast<Rows *>(&weight)}) input->memory().make_read_only();
        // What is not asked for lies behind its memory, where every access faults.
        if (!gate) z.buffer()->host = nowhere();
        if (!norm) weight.buffer()->host = nowhere();
        return KernelCall(row).scalar(eps).scalar(norm).scalar(gate).rows(&o).rows(&z).rows(&weight).rows(&y).run();
    }

    std::vector<double> expected(int t) const {
        gdn_reference::GatedNorm what{norm == 1, eps, gate != 0, static_cast<gdn_activation>(gate)};
        std::vector<double> o_row, z_row, weights;
        for (int d = 0; d < channels; d++) {
            o_row.push_back(o(d, t));
            z_row.push_back(z(d, t));
            weights.push_back(weight(d, 0));
        }
        return gdn_reference::gated_norm(what, o_row, weights, z_row);
    }

    // Every element to a few roundings; a sum of squares has no cancellation.
    ::testing::AssertionResult check() const {
        for (int t = 0; t < n; t++) {
            const std::vector<double> right = expected(t);
            ErrorSum errors;
            for (int d = 0; d < channels; d++) {
                const double error = std::fabs(y(d, t) - right[d]);
                if (!(error <= 10 * kEps * std::fabs(right[d]) + half_ulp(dtype_of(row.dtype), right[d])))
                    return ::testing::AssertionFailure()
                           << row.symbol << " channel " << d << " of " << channels << ", row " << t << " of " << n << ", norm " << norm
                           << ", gate " << gate << ": " << y(d, t) << " instead of " << right[d];
                errors.add(y(d, t), right[d]);
            }
            const Error error = errors.error();
            if (channels >= 64 && !error.within(row.dtype == gdn::Type::kF32 ? kBoundF32 : kBound16))
                return ::testing::AssertionFailure() << row.symbol << " row " << t << " relative RMS error " << error.rms;
        }
        return ::testing::AssertionSuccess();
    }

    const gdn::KernelRow &row;
    int channels, n, norm, gate;
    float eps = 1e-5f;
    Rows o, z;
    Vector weight;
    Rows y;

private:
    static unsigned char *nowhere() {
        static const GuardedBuffer buffer(4096, Guard::kEnd);
        return buffer.data() + buffer.bytes();
    }
};

}  // namespace gdn_test
