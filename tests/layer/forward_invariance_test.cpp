// What must not matter to a layer: how tokens are cut into calls and blocks, the mode, the batch, padding, threads, repetition.
#include <malloc.h>

#include <thread>

#include <gtest/gtest.h>

#include "forward_call.h"

using namespace gdn_test;
using layer::Config;
using layer::Kind;

namespace {

/// A layer whose rows are short enough for long sequences.
Config narrow_config(Kind kind) {
    Config config = forward_config(kind);
    config.hidden_size = 8, config.head_dim = 8;
    return config;
}

struct Made {
    Config config;
    layer::StateDict weights;
    layer::Layer built;

    Made(gdn::Context &context, const Config &c, std::uint64_t seed = 21)
        : config(c), weights(lively_weights(c, seed)), built(context, c, weights) {}
};

void expect_near_state(const layer::State &given, const layer::State &expected, const std::string &what) {
    expect_near(given.recurrent, expected.recurrent, what + " recurrent");
    expect_near(given.conv_q, expected.conv_q, what + " conv_q");
    expect_near(given.conv_k, expected.conv_k, what + " conv_k");
    expect_near(given.conv_v, expected.conv_v, what + " conv_v");
}

/// x of one sequence in the given pieces.
std::vector<float> in_pieces(const Made &made, const std::vector<float> &x, const std::vector<std::int64_t> &pieces, layer::State &state) {
    const std::int64_t d = made.config.hidden_size;
    std::vector<float> y;
    std::int64_t at = 0;
    for (const std::int64_t piece : pieces) {
        const std::vector<float> rows = forward(made.built, slice(x, at, piece, d), 1, piece, &state);
        y.insert(y.end(), rows.begin(), rows.end());
        at += piece;
    }
    return y;
}

TEST(LayerSplits, AnySplitIsOneCall) {
    gdn::Context context;
    Random random(3);
    for (const Kind kind : kKinds) {
        for (const bool conv : {true, false}) {
            for (const layer::Mode mode : {layer::Mode::kChunk, layer::Mode::kFusedRecurrent}) {
                Config config = forward_config(kind);
                config.use_short_conv = conv, config.mode = mode;
                if (kind == Kind::kGdn2 || kind == Kind::kKda) config.num_v_heads = 4;
                const Made made(context, config);
                const std::int64_t T = 90;
                const std::vector<float> x = random_tokens(T, config.hidden_size, 22);
                layer::State whole = made.built.make_state(1);
                const std::vector<float> y = forward(made.built, x, 1, T, &whole);
                std::vector<std::vector<std::int64_t>> splits = {
                    std::vector<std::int64_t>(90, 1), {1, 1, 2, 5, 3, 78}, {5, 3, 1, 7, 74}, {65, 25}};
                splits.emplace_back();
                for (std::int64_t left = T; left > 0;) {
                    const std::int64_t piece = std::min(left, 1 + random.below(30));
                    splits.back().push_back(piece);
                    left -= piece;
                }
                for (const auto &split : splits) {
                    const std::string what = std::string(name_of(kind)) + (conv ? " conv" : "") + " pieces " + std::to_string(split.size());
                    layer::State state = made.built.make_state(1);
                    expect_near(in_pieces(made, x, split, state), y, what);
                    expect_near_state(state, whole, what);
                }
            }
        }
    }
}

// Field report G12: the raw inputs of the convolution are kept, whatever the pieces, shorter than its past too.
TEST(LayerSplits, TheConvolutionsPastIsExact) {
    gdn::Context context;
    for (const std::int64_t width : {2, 4, 8}) {
        Config config = forward_config(Kind::kGdn2);
        config.conv_size = width;
        const Made made(context, config);
        const std::vector<float> x = random_tokens(12, config.hidden_size, 5);
        layer::State whole = made.built.make_state(1), pieces = made.built.make_state(1);
        const std::vector<float> y = forward(made.built, x, 1, 12, &whole);
        expect_near(in_pieces(made, x, {1, 1, 2, 5, 3}, pieces), y);
        expect_near_state(pieces, whole, "W " + std::to_string(width));
        const gdn_reference::Layer reference(config, made.weights);
        gdn_reference::Layer::State expected = reference.start();
        reference.forward(x.data(), 12, expected);
        expect_state(config, pieces, expected, "W " + std::to_string(width));
    }
}

TEST(LayerModes, ChunksAreTokenByToken) {
    gdn::Context context;
    for (const Kind kind : kKinds) {
        Config config = forward_config(kind);
        const Made chunks(context, config);
        config.mode = layer::Mode::kFusedRecurrent;
        const Made tokens(context, config);
        const std::vector<float> x = random_tokens(2 * 200, config.hidden_size, 23);
        expect_near(forward(chunks.built, x, 2, 200), forward(tokens.built, x, 2, 200), name_of(kind));
    }
}

// ---- batches -----------------------------------------------------------------------------------------------------

/// Packed sequences against each alone: y and states.
void expect_packed(const Made &made, const std::vector<std::int64_t> &lengths, const std::string &what) {
    const std::int64_t d = made.config.hidden_size, N = static_cast<std::int64_t>(lengths.size());
    std::vector<std::int64_t> cu = {0};
    for (const std::int64_t length : lengths) cu.push_back(cu.back() + length);
    const std::vector<float> x = random_tokens(cu.back(), d, 31);
    layer::State state = made.built.make_state(N);
    for (float &value : state.recurrent) value = 0.1f;
    for (float &value : state.conv_k) value = 0.2f;
    const layer::State before = state;
    const std::vector<float> y = forward(made.built, x, 1, cu.back(), &state, {cu.data(), N}),
                             fresh = forward(made.built, x, 1, cu.back(), nullptr, {cu.data(), N});
    for (std::int64_t n = 0; n < N; n++) {
        const std::string which = what + " sequence " + std::to_string(n);
        layer::State alone = one_of(before, n);
        const auto at = static_cast<std::size_t>(n);
        const std::vector<float> rows = slice(x, cu[at], lengths[at], d);
        expect_near(slice(y, cu[at], lengths[at], d), forward(made.built, rows, 1, lengths[at], &alone), which);
        expect_near(slice(fresh, cu[at], lengths[at], d), forward(made.built, rows, 1, lengths[at]), which + " from zeros");
        expect_near_state(one_of(state, n), alone, which);
        if (!lengths[at]) {
            EXPECT_TRUE(same_bits(one_of(state, n), one_of(before, n))) << which;
        }
    }
}

TEST(LayerPacked, IsEachSequenceAlone) {
    gdn::Context context;
    for (const Kind kind : kKinds) {
        for (const layer::Mode mode : {layer::Mode::kChunk, layer::Mode::kFusedRecurrent}) {
            Config config = narrow_config(kind);
            config.mode = mode;
            const Made made(context, config);
            expect_packed(made, {3, 0, 1, 70, 0, 9}, name_of(kind));
            expect_packed(made, {1, 1, 1, 1}, std::string(name_of(kind)) + " single tokens");
            expect_packed(made, {0}, std::string(name_of(kind)) + " empty");
        }
    }
}

// Blocks of 512 tokens: a tail and its neighbours share one, whole pieces stand alone, several sequences fill one.
TEST(LayerPacked, AcrossBlocks) {
    gdn::Context context;
    for (const layer::Mode mode : {layer::Mode::kChunk, layer::Mode::kFusedRecurrent}) {
        Config config = narrow_config(Kind::kGdn2);
        config.mode = mode;
        const Made made(context, config);
        expect_packed(made, {300, 212, 1, 512, 513, 5, 0, 7, 1100, 500}, "blocks");
        expect_packed(made, {513, 1, 1, 0, 1}, "a tail of one token");
        expect_packed(made, {0, 0, 1030, 0, 2}, "nothing before a long one");
    }
}

TEST(LayerPacked, IsAlsoABatch) {
    gdn::Context context;
    const Made made(context, forward_config(Kind::kKda));
    const std::int64_t d = made.config.hidden_size, cu[] = {0, 50, 100, 150};
    const std::vector<float> x = random_tokens(150, d, 41);
    layer::State a = made.built.make_state(3), b = made.built.make_state(3);
    EXPECT_TRUE(same_bits(forward(made.built, x, 3, 50, &a), forward(made.built, x, 1, 150, &b, {cu, 3})));
    EXPECT_TRUE(same_bits(a, b));
}

/// Weights and tokens of few bits, and an output projection that only copies: no product rounds, whatever order BLAS sums in.
Made exact_layer(gdn::Context &context, Config config) {
    config.hidden_size = config.value_heads() * config.value_dim();
    Made made(context, config);
    for (auto &[name, tensor] : made.weights) {
        if (tensor.shape.size() != 2) continue;
        for (float &value : tensor.data) value = std::round(4 * value) / 4;
        if (name != "o_proj.weight") continue;
        for (std::size_t i = 0; i < tensor.data.size(); i++) tensor.data[i] = i % static_cast<std::size_t>(config.hidden_size + 1) == 0;
    }
    made.built = layer::Layer(context, config, made.weights);
    return made;
}

std::vector<float> exact_tokens(std::int64_t count, std::int64_t width, std::uint64_t seed) {
    std::vector<float> x = random_tokens(count, width, seed);
    for (float &value : x) value = std::round(4 * value) / 4;
    return x;
}

// Everything between the projections: neither neighbours in a batch nor the blocks they share change a bit.
TEST(LayerPacked, OthersChangeNoBit) {
    gdn::Context context;
    for (const Kind kind : kKinds) {
        for (const layer::Mode mode : {layer::Mode::kChunk, layer::Mode::kFusedRecurrent}) {
            Config config = forward_config(kind);
            config.mode = mode;
            const Made made = exact_layer(context, config);
            const std::int64_t d = made.config.hidden_size;
            const std::vector<std::int64_t> cu = {0, 3, 4, 74, 74, 75, 675, 690};
            const auto N = static_cast<std::int64_t>(cu.size()) - 1;
            const std::vector<float> x = exact_tokens(cu.back(), d, 33);
            layer::State state = made.built.make_state(N);
            const std::vector<float> y = forward(made.built, x, 1, cu.back(), &state, {cu.data(), N});
            EXPECT_TRUE(same_bits(forward(made.built, x, 1, cu.back(), nullptr, {cu.data(), N}), y)) << name_of(kind);
            for (std::int64_t n = 0; n < N; n++) {
                const std::int64_t first = cu[static_cast<std::size_t>(n)], count = cu[static_cast<std::size_t>(n + 1)] - first;
                layer::State alone = made.built.make_state(1);
                const std::vector<float> rows = forward(made.built, slice(x, first, count, d), 1, count, &alone);
                EXPECT_TRUE(same_bits(rows, slice(y, first, count, d))) << name_of(kind) << " sequence " << n;
                EXPECT_TRUE(same_bits(alone, one_of(state, n))) << name_of(kind) << " sequence " << n;
            }
        }
    }
}

// ---- padding (field report R39) ----------------------------------------------------------------------------------

TEST(LayerPadding, LeavesNoTraceToTheBit) {
    gdn::Context context;
    for (const Kind kind : kKinds) {
        for (const layer::Mode mode : {layer::Mode::kChunk, layer::Mode::kFusedRecurrent}) {
            Config config = forward_config(kind);
            config.mode = mode, config.conv_bias = true;
            const Made made(context, config);
            const std::int64_t d = config.hidden_size, T = 40, pads[] = {5, 0, 39, 40};
            std::vector<std::int64_t> cu = {0};
            std::vector<std::uint8_t> mask;
            std::vector<float> real, x;
            for (const std::int64_t pad : pads) {
                const std::vector<float> rows = random_tokens(T - pad, d, 50 + static_cast<std::uint64_t>(pad));
                real.insert(real.end(), rows.begin(), rows.end());
                cu.push_back(cu.back() + T - pad);
                mask.insert(mask.end(), static_cast<std::size_t>(pad), 0);
                mask.insert(mask.end(), static_cast<std::size_t>(T - pad), 1);
            }
            layer::State expected_state = made.built.make_state(4);
            for (float &value : expected_state.recurrent) value = 0.1f;
            for (float &value : expected_state.conv_v) value = 0.3f;
            const layer::State before = expected_state;
            const std::vector<float> expected = forward(made.built, real, 1, cu.back(), nullptr, {cu.data(), 4});
            const std::vector<float> expected_on = forward(made.built, real, 1, cu.back(), &expected_state, {cu.data(), 4});

            for (const float junk : {1e3f, std::nanf(""), std::numeric_limits<float>::infinity(), 0.0f}) {
                std::vector<float> padded(static_cast<std::size_t>(4 * T * d), junk);
                for (std::int64_t n = 0; n < 4; n++)
                    std::copy(real.begin() + cu[static_cast<std::size_t>(n)] * d, real.begin() + cu[static_cast<std::size_t>(n + 1)] * d,
                        padded.begin() + (n * T + pads[n]) * d);
                layer::Batch batch;
                batch.mask = mask.data();
                layer::State state = before;
                const std::vector<float> y = forward(made.built, padded, 4, T, nullptr, batch),
                                         on = forward(made.built, padded, 4, T, &state, batch);
                for (std::int64_t n = 0; n < 4; n++) {
                    const std::int64_t first = cu[static_cast<std::size_t>(n)], count = T - pads[n];
                    for (const auto &[given, wanted] : {std::pair(&y, &expected), std::pair(&on, &expected_on)}) {
                        EXPECT_TRUE(same_bits(slice(*given, n * T + pads[n], count, d), slice(*wanted, first, count, d)))
                            << name_of(kind) << n;
                        for (const float value : slice(*given, n * T, pads[n], d)) ASSERT_EQ(value, 0);
                    }
                }
                EXPECT_TRUE(same_bits(state, expected_state)) << name_of(kind);
                EXPECT_TRUE(same_bits(one_of(state, 3), one_of(before, 3)));  // all padding
            }
            // One sequence, and that one without its padding.
            std::vector<float> one(static_cast<std::size_t>(T * d), std::nanf(""));
            std::copy(real.begin(), real.begin() + cu[1] * d, one.begin() + 5 * d);
            layer::Batch batch;
            batch.mask = mask.data();
            EXPECT_TRUE(same_bits(
                slice(forward(made.built, one, 1, T, nullptr, batch), 5, 35, d), forward(made.built, slice(real, 0, 35, d), 1, 35)));
        }
    }
}

// ---- threads and repetition --------------------------------------------------------------------------------------

TEST(LayerThreads, ChangeNoBit) {
    const BlasThreads one(1);
    for (const Kind kind : {Kind::kGdn, Kind::kGdn2}) {
        for (const layer::Mode mode : {layer::Mode::kChunk, layer::Mode::kFusedRecurrent}) {
            Config config = forward_config(kind);
            config.hidden_size = 320, config.head_dim = 64, config.mode = mode;
            config.num_heads = mode == layer::Mode::kChunk ? 4 : 8;  // token by token: two groups of heads
            const std::int64_t T = mode == layer::Mode::kChunk ? 600 : 70;
            const std::vector<float> x = random_tokens(2 * T, 320, 61), next = random_tokens(2, 320, 62);
            std::vector<float> y, z;
            layer::State state;
            for (const int threads : {1, 1, 2, 5}) {
                gdn::Context context = context_of(threads);
                const Made made(context, config);
                layer::State now = made.built.make_state(2);
                const std::vector<float> a = forward(made.built, x, 2, T, &now), b = forward(made.built, next, 2, 1, &now);
                if (y.empty()) {
                    y = a, z = b, state = now;
                    continue;
                }
                EXPECT_TRUE(same_bits(a, y)) << threads;
                EXPECT_TRUE(same_bits(b, z)) << threads;
                EXPECT_TRUE(same_bits(now, state)) << threads;
            }
        }
    }
}

TEST(LayerThreads, TheBlassOwnThreads) {
    gdn::Context context = context_of(2);
    const Made made(context, forward_config(Kind::kGdn2));
    const std::vector<float> x = random_tokens(150, made.config.hidden_size, 63);
    std::vector<float> y;
    {
        const BlasThreads one(1);
        y = forward(made.built, x, 1, 150);
    }
    const BlasThreads two(2);
    if (layer::blas_threads() != 2) GTEST_SKIP() << "this BLAS has no threads of its own";
    expect_near(forward(made.built, x, 1, 150), y);
}

TEST(LayerThreads, ManyCallersAtOnce) {
    const BlasThreads one(1);
    gdn::Context context = context_of(2);
    const Made made(context, forward_config(Kind::kGdn2));
    const std::int64_t d = made.config.hidden_size;
    const std::vector<float> x = random_tokens(60, d, 64);
    layer::State expected = made.built.make_state(1);
    const std::vector<float> y = in_pieces(made, x, {50, 1, 9}, expected);
    std::vector<std::thread> threads;
    std::vector<int> good(4, 0);
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([&, i] {
            for (int round = 0; round < 5; round++) {
                layer::State state = made.built.make_state(1);
                good[static_cast<std::size_t>(i)] += same_bits(in_pieces(made, x, {50, 1, 9}, state), y) && same_bits(state, expected);
            }
        });
    }
    for (std::thread &thread : threads) thread.join();
    for (const int count : good) EXPECT_EQ(count, 5);
}

// Memory beyond x and y is a block of tokens, and calls keep what they need: more tokens take no more. (Sanitizers keep memory of their own, in
// which this sees nothing.)
TEST(LayerMemory, DoesNotGrowWithTokens) {
    const BlasThreads one(1);
    gdn::Context context = context_of(1);
    const Made made(context, narrow_config(Kind::kGdn2));
    const std::int64_t d = made.config.hidden_size, T = 6000;
    const std::vector<float> x = random_tokens(T, d, 71);
    std::vector<float> y(x.size());
    const auto used = [] {
        const struct mallinfo2 info = mallinfo2();
        return info.uordblks + info.hblkhd;
    };
    made.built.forward_train(x.data(), y.data(), 1, 600);
    const std::size_t before = used();
    for (const std::int64_t tokens : {600L, 1L, 70L, T, T}) {
        made.built.forward_train(x.data(), y.data(), 1, tokens);
        EXPECT_EQ(used(), before) << tokens;
    }
}

TEST(LayerMove, TakesEverythingAlong) {
    gdn::Context context;
    Made made(context, forward_config(Kind::kFg2Plus));
    const std::vector<float> x = random_tokens(9, made.config.hidden_size, 81), y = forward(made.built, x, 1, 9);
    layer::Layer moved = std::move(made.built);
    EXPECT_TRUE(same_bits(forward(moved, x, 1, 9), y));
    EXPECT_TRUE(moved.config() == made.config);
}

}  // namespace
