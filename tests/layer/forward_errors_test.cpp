// What a layer refuses, in words that name the thing, with nothing written.
#include <gtest/gtest.h>

#include "forward_call.h"

using namespace gdn_test;
using layer::Config;
using layer::Kind;

namespace {

void expect_no_layer(const Config &config, const layer::StateDict &weights, gdn_status status, const std::vector<std::string> &parts) {
    gdn::Context context;
    expect_refused([&] { layer::Layer(context, config, weights); }, status, parts);
}

TEST(LayerErrors, Weights) {
    const Config config = forward_config(Kind::kGdn2);
    const layer::StateDict good = lively_weights(config, 1);
    for (const auto &[name, tensor] : good) {
        for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
            layer::StateDict weights = good;
            weights[name].data.back() = bad;
            expect_no_layer(config, weights, GDN_STATUS_INVALID_VALUE, {name, "finite"});
        }
        layer::StateDict weights = good;
        weights.erase(name);
        expect_no_layer(config, weights, GDN_STATUS_INVALID_ARGUMENT, {name});
        weights = good;
        weights[name].shape.push_back(1);
        expect_no_layer(config, weights, GDN_STATUS_INVALID_ARGUMENT, {name, "expected shape"});
    }
    layer::StateDict weights = good;
    weights["q_proj.bias"] = {{1}, {0}};
    expect_no_layer(config, weights, GDN_STATUS_INVALID_ARGUMENT, {"q_proj.bias"});
}

TEST(LayerErrors, Configurations) {
    Config config = forward_config(Kind::kGdn2);
    config.output_gate = layer::OutputGate::kUnspecified;
    expect_no_layer(config, {}, GDN_STATUS_INVALID_ARGUMENT, {"output_gate"});
}

TEST(LayerErrors, AContextThatIsNotOpen) {
    gdn::Context none(nullptr);
    const Config config = forward_config(Kind::kGdn2);
    expect_refused([&] { layer::Layer(none, config, lively_weights(config, 1)); }, GDN_STATUS_INVALID_ARGUMENT, {"context"});
}

class LayerCall : public ::testing::Test {
protected:
    static constexpr std::int64_t kTokens = 6;

    /// The call must throw and leave y and the state as they are.
    void expect_refused_call(const std::vector<std::string> &parts, std::int64_t B, std::int64_t T, const layer::Batch &batch = {},
        const std::function<void(layer::State &)> &spoil = {}, bool train = false) {
        layer::State state = made_.make_state(2);
        for (float &value : state.recurrent) value = 0.5f;
        if (spoil) spoil(state);
        const layer::State before = state;
        expect_refused(
            [&] {
                if (train)
                    made_.forward_train(x_.data(), y_.data(), B, T, batch);
                else
                    made_.forward(x_.data(), y_.data(), B, T, state, batch);
            },
            GDN_STATUS_INVALID_ARGUMENT, parts);
        for (const float value : y_) ASSERT_TRUE(std::isnan(value));
        EXPECT_TRUE(same_bits(state, before));
    }

    gdn::Context context_;
    const Config config_ = forward_config(Kind::kGdn2);
    const layer::Layer made_{context_, config_, lively_weights(config_, 1)};
    std::vector<float> x_ = random_tokens(2 * kTokens, config_.hidden_size, 2), y_ = std::vector<float>(x_.size(), std::nanf(""));
};

TEST_F(LayerCall, Sizes) {
    expect_refused_call({"B", "-1"}, -1, kTokens);
    expect_refused_call({"T", "-6"}, 2, -6);
    expect_refused_call({"fit"}, 1LL << 40, 1LL << 40);
    expect_refused_call({"state.sequences", "1", "2"}, 1, kTokens);
    expect_refused([&] { made_.make_state(-1); }, GDN_STATUS_INVALID_ARGUMENT, {"sequences", "-1"});
}

TEST_F(LayerCall, Pointers) {
    layer::State state = made_.make_state(2);
    expect_refused([&] { made_.forward(nullptr, y_.data(), 2, kTokens, state); }, GDN_STATUS_INVALID_ARGUMENT, {"x", "NULL"});
    expect_refused([&] { made_.forward(x_.data(), nullptr, 2, kTokens, state); }, GDN_STATUS_INVALID_ARGUMENT, {"y", "NULL"});
    expect_refused([&] { made_.forward_train(x_.data(), x_.data(), 2, kTokens); }, GDN_STATUS_INVALID_ARGUMENT, {"y", "overlaps"});
    expect_refused([&] { made_.forward_train(x_.data(), x_.data() + 24, 1, 2); }, GDN_STATUS_INVALID_ARGUMENT, {"y", "overlaps"});
    expect_refused([&] { made_.dump(nullptr, 2, kTokens); }, GDN_STATUS_INVALID_ARGUMENT, {"x", "NULL"});
    made_.forward_train(nullptr, nullptr, 2, 0);  // no tokens, nothing to do
    made_.forward(nullptr, nullptr, 2, 0, state);
    EXPECT_TRUE(made_.dump(nullptr, 0, kTokens).empty());
}

TEST_F(LayerCall, Packed) {
    const std::int64_t from_one[] = {1, 3, 6}, falls[] = {0, 5, 3, 6}, too_short[] = {0, 3, 5}, good[] = {0, 3, 6};
    for (const bool train : {false, true}) {
        expect_refused_call({"cu_seqlens[0]", "1"}, 1, kTokens, {from_one, 2}, {}, train);
        expect_refused_call({"cu_seqlens[2]", "5", "3"}, 1, kTokens, {falls, 3}, {}, train);
        expect_refused_call({"cu_seqlens[2]", "6", "5"}, 1, kTokens, {too_short, 2}, {}, train);
        expect_refused_call({"B", "cu_seqlens"}, 2, kTokens, {good, 2}, {}, train);
        expect_refused_call({"sequences", "-1"}, 1, kTokens, {good, -1}, {}, train);
        expect_refused_call({"sequences", "3"}, 2, kTokens, {nullptr, 3}, {}, train);
        const std::uint8_t mask[kTokens] = {1, 1, 1, 1, 1, 1};
        expect_refused_call({"mask", "cu_seqlens"}, 1, kTokens, {good, 2, mask}, {}, train);
    }
}

TEST_F(LayerCall, PaddingIsOnTheLeft) {
    std::uint8_t mask[2 * kTokens] = {0, 1, 1, 1, 1, 1, 0, 0, 1, 1, 0, 1};
    expect_refused_call({"mask[1, 4]"}, 2, kTokens, {nullptr, 0, mask});
    expect_refused_call({"mask[1, 4]"}, 2, kTokens, {nullptr, 0, mask}, {}, true);
}

TEST_F(LayerCall, StatesOfAnotherLayer) {
    const auto of = [&](const std::function<void(Config &)> &change) {
        Config config = config_;
        change(config);
        return layer::Layer(context_, config, lively_weights(config, 1)).make_state(2);
    };
    const auto spoil = [&](const layer::State &other) { return [other](layer::State &state) { state = other; }; };
    expect_refused_call({"state.recurrent", "[2, 2, 16, 16]"}, 2, kTokens, {}, spoil(of([](Config &c) { c.num_heads = 3; })));
    expect_refused_call({"state.recurrent"}, 2, kTokens, {}, spoil(of([](Config &c) { c.head_dim = 8; })));
    expect_refused_call({"state.conv_q", "[2, 3, 32]"}, 2, kTokens, {}, spoil(of([](Config &c) { c.conv_size = 3; })));
    expect_refused_call({"state.conv_q"}, 2, kTokens, {}, spoil(of([](Config &c) { c.use_short_conv = false; })));
    expect_refused_call({"state.conv_v"}, 2, kTokens, {}, [](layer::State &state) { state.conv_v.pop_back(); });
}

}  // namespace
