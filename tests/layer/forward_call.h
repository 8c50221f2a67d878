// Helpers of the tests of what a layer computes: weights as trained layers have them, guarded calls, contexts, distances.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "../reference/layer.h"
#include "../support/guarded_buffer.h"
#include "../support/metric.h"
#include "../support/random.h"
#include "layer_files.h"

namespace gdn_test {

/// Sizes that every kind takes; three tokens of convolution behind, gates of every sort.
inline layer::Config forward_config(layer::Kind kind) {
    layer::Config config = layer::Config::defaults(kind);
    config.hidden_size = 24;
    config.num_heads = 2;
    config.head_dim = 16;
    config.expand_v = 1;
    config.output_gate = layer::OutputGate::kSilu;
    return config;
}

inline constexpr layer::Kind kKinds[] = {
    layer::Kind::kGdn, layer::Kind::kKda, layer::Kind::kGdn2, layer::Kind::kFg2, layer::Kind::kFg2Plus};

inline const char *name_of(layer::Kind kind) {
    constexpr const char *kNames[] = {"gdn", "kda", "gdn2", "fg2", "fg2_plus"};
    return kNames[static_cast<int>(kind)];
}

/// Weights that keep every part in its working range: unit rows of projections, decays from 1e-3 to 1.6, no weight that is zero.
inline layer::StateDict lively_weights(const layer::Config &config, std::uint64_t seed) {
    Random random(seed);
    layer::StateDict dict;
    for (const layer::TensorSpec &spec : layer::weights(config)) {
        layer::Tensor &tensor = dict[spec.name];
        tensor.shape = spec.shape;
        std::int64_t count = 1;
        for (std::int64_t extent : spec.shape) count *= extent;
        const double unit = 1.5 / std::sqrt(static_cast<double>(spec.shape.back()));
        for (std::int64_t i = 0; i < count; i++) {
            double value = 0;
            if (spec.name == "A_log")
                value = std::log(random.uniform(1, 16));
            else if (spec.name == "dt_bias")
                value = std::log(std::expm1(random.log_uniform(1e-3, 1e-1)));
            else if (spec.name == "o_norm.weight")
                value = random.uniform(0.5, 1.5);
            else if (spec.shape.size() == 3)
                value = random.uniform(-0.8, 0.8);
            else if (spec.shape.size() == 1)
                value = 0.5 * random.normal();
            else
                value = unit * random.normal();
            tensor.data.push_back(static_cast<float>(value));
        }
    }
    return dict;
}

inline std::vector<float> random_tokens(std::int64_t count, std::int64_t width, std::uint64_t seed) {
    Random random(seed);
    std::vector<float> x(static_cast<std::size_t>(count * width));
    for (float &value : x) value = static_cast<float>(random.normal());
    return x;
}

inline gdn::Context context_of(int threads, const char *target = nullptr) {
    gdn::Options options;
    options->num_threads = threads;
    options->target = target;
    return gdn::Context(options);
}

/// Threads of BLAS for the length of a scope.
class BlasThreads {
public:
    explicit BlasThreads(int threads) : before_(layer::blas_threads()) { layer::set_blas_threads(threads); }
    ~BlasThreads() {
        if (before_) layer::set_blas_threads(before_);
    }

private:
    int before_;
};

/// forward_train, or forward where there is a state, between pages that fault; y comes back as it was left.
inline std::vector<float> forward(const layer::Layer &made, const std::vector<float> &x, std::int64_t B, std::int64_t T,
    layer::State *state = nullptr, const layer::Batch &batch = {}) {
    const std::size_t bytes = x.size() * sizeof(float);
    GuardedBuffer in(bytes, Guard::kEnd, 4), out(bytes, Guard::kEnd, 4);
    if (bytes) std::memcpy(in.data(), x.data(), bytes);
    in.make_read_only();
    float *y = reinterpret_cast<float *>(out.data());
    if (state)
        made.forward(reinterpret_cast<const float *>(in.data()), y, B, T, *state, batch);
    else
        made.forward_train(reinterpret_cast<const float *>(in.data()), y, B, T, batch);
    EXPECT_TRUE(out.slack_untouched());
    return std::vector<float>(y, y + x.size());
}

template <typename Given, typename Expected> Error distance(const Given *given, const Expected *expected, std::int64_t count) {
    ErrorSum sum;
    for (std::int64_t i = 0; i < count; i++) sum.add(static_cast<double>(given[i]), static_cast<double>(expected[i]));
    return sum.error();
}

template <typename Given, typename Expected>
void expect_near(
    const std::vector<Given> &given, const std::vector<Expected> &expected, const std::string &what = "", double bound = kBoundF32) {
    ASSERT_EQ(given.size(), expected.size()) << what;
    const Error error = distance(given.data(), expected.data(), static_cast<std::int64_t>(given.size()));
    EXPECT_TRUE(error.within(bound)) << what << ": rms " << error.rms << ", max " << error.max;
}

inline bool same_bits(const std::vector<float> &a, const std::vector<float> &b) {
    return a.size() == b.size() && (a.empty() || !std::memcmp(a.data(), b.data(), a.size() * sizeof(float)));
}
inline bool same_bits(const layer::State &a, const layer::State &b) {
    return same_bits(a.recurrent, b.recurrent) && same_bits(a.conv_q, b.conv_q) && same_bits(a.conv_k, b.conv_k) &&
           same_bits(a.conv_v, b.conv_v);
}

inline std::vector<float> slice(const std::vector<float> &rows, std::int64_t first, std::int64_t count, std::int64_t width) {
    return std::vector<float>(rows.begin() + first * width, rows.begin() + (first + count) * width);
}

/// Sequence n of a state.
inline layer::State one_of(const layer::State &all, std::int64_t n) {
    const auto part = [&](const std::vector<float> &values) {
        const auto each = static_cast<std::int64_t>(values.size()) / all.sequences;
        return slice(values, n, 1, each);
    };
    layer::State one;
    one.sequences = 1;
    one.recurrent = part(all.recurrent);
    one.conv_q = part(all.conv_q), one.conv_k = part(all.conv_k), one.conv_v = part(all.conv_v);
    return one;
}

/// The state of the reference as ours, zeros where it has seen fewer than W - 1 tokens.
inline void expect_state(
    const layer::Config &config, const layer::State &given, const gdn_reference::Layer::State &expected, const std::string &what) {
    expect_near(given.recurrent, expected.S, what + " recurrent");
    if (!config.use_short_conv) return;
    const std::vector<float> *kept[] = {&given.conv_q, &given.conv_k, &given.conv_v};
    for (int i = 0; i < 3; i++) {
        const auto past = static_cast<std::size_t>(config.conv_size - 1);
        const std::size_t channels = kept[i]->size() / past;
        std::vector<double> rows((past - expected.past[i].size()) * channels, 0.0);
        for (const auto &row : expected.past[i]) rows.insert(rows.end(), row.begin(), row.end());
        expect_near(*kept[i], rows, what + " conv " + std::to_string(i));
    }
}

}  // namespace gdn_test
