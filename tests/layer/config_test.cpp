// The configuration: what is refused and how, JSON both ways, the defaults people publish.
#include <limits>
#include <set>

#include "layer_files.h"

namespace gdn_test {
namespace {

using layer::Config;
using layer::Kind;
using layer::OutputGate;

struct Bad {
    const char *name;
    Kind kind;
    std::function<void(Config &)> spoil;
    std::vector<std::string> says;  // field, expected, found
};

const std::vector<Bad> &bad_configs() {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
    constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
    static const std::vector<Bad> list = {
        {"no gate", Kind::kGdn2, [](Config &c) { c.output_gate = OutputGate::kUnspecified; },
            {"output_gate: ", "none, silu or sigmoid", "found unspecified"}},
        {"a fraction of a channel", Kind::kGdn2, [](Config &c) { c.expand_v = 1.3; }, {"expand_v: ", "whole number", "8 * 1.3 = 10.4"}},
        {"no channel", Kind::kGdn2, [](Config &c) { c.expand_v = 0; }, {"expand_v: ", "found 8 * 0 = 0"}},
        {"negative width", Kind::kGdn2, [](Config &c) { c.expand_v = -1; }, {"expand_v: ", "= -8"}},
        {"NaN width", Kind::kGdn2, [=](Config &c) { c.expand_v = kNan; }, {"expand_v: ", "nan"}},
        {"endless width", Kind::kGdn2, [=](Config &c) { c.expand_v = kInfinity; }, {"expand_v: ", "inf"}},
        {"V above 256", Kind::kGdn, [](Config &c) { c.head_dim = 256; }, {"expand_v: ", "at most 256", "256 * 2 = 512"}},
        {"fg2 with K != V", Kind::kFg2, [](Config &c) { c.expand_v = 2; }, {"expand_v: ", "K = V", "K = 8, V = 16", "fg2_plus"}},
        {"fg2 with grouped heads", Kind::kFg2, [](Config &c) { c.num_v_heads = 4; }, {"num_v_heads: ", "num_heads = 2", "fg2", "found 4"}},
        {"fg2_plus with grouped heads", Kind::kFg2Plus, [](Config &c) { c.num_v_heads = 4; }, {"num_v_heads: ", "fg2_plus", "found 4"}},
        {"fg2 with doubled beta", Kind::kFg2, [](Config &c) { c.allow_neg_eigval = true; },
            {"allow_neg_eigval: ", "false", "fg2", "found true"}},
        {"fg2_plus with doubled beta", Kind::kFg2Plus, [](Config &c) { c.allow_neg_eigval = true; }, {"allow_neg_eigval: ", "fg2_plus"}},
        {"value heads that do not divide", Kind::kGdn, [](Config &c) { c.num_v_heads = 3; },
            {"num_v_heads: ", "a multiple of num_heads = 2", "found 3"}},
        {"fewer value heads", Kind::kKda, [](Config &c) { c.num_v_heads = 1; },
            {"num_v_heads: ", "a multiple of num_heads = 2", "found 1"}},
        {"value heads 0", Kind::kKda, [](Config &c) { c.num_v_heads = 0; }, {"num_v_heads: ", "found 0"}},
        {"bound below", Kind::kKda, [](Config &c) { c.lower_bound = -5.1; }, {"lower_bound: ", "-5 <= lower_bound < 0", "found -5.1"}},
        {"bound 0", Kind::kKda, [](Config &c) { c.lower_bound = 0; }, {"lower_bound: ", "found 0"}},
        {"bound NaN", Kind::kKda, [=](Config &c) { c.lower_bound = kNan; }, {"lower_bound: ", "found nan"}},
        {"convolution of 1", Kind::kGdn2, [](Config &c) { c.conv_size = 1; }, {"conv_size: ", "2 to 8", "found 1"}},
        {"convolution of 9", Kind::kGdn2, [](Config &c) { c.conv_size = 9; }, {"conv_size: ", "2 to 8", "found 9"}},
        {"bias of no convolution", Kind::kGdn2, [](Config &c) { c.conv_bias = true, c.use_short_conv = false; },
            {"conv_bias: ", "found true"}},
        {"chunks of 48", Kind::kGdn2, [](Config &c) { c.chunk_size = 48; }, {"chunk_size: ", "16, 32, 64 or 128", "found 48"}},
        {"eps 0", Kind::kGdn2, [](Config &c) { c.norm_eps = 0; }, {"norm_eps: ", "above 0", "found 0"}},
        {"eps NaN", Kind::kGdn2, [=](Config &c) { c.norm_eps = kNan; }, {"norm_eps: ", "found nan"}},
        {"hidden 0", Kind::kGdn2, [](Config &c) { c.hidden_size = 0; }, {"hidden_size: ", "found 0"}},
        {"hidden huge", Kind::kGdn2, [=](Config &c) { c.hidden_size = kHuge; }, {"hidden_size: ", "found 9223372036854775807"}},
        {"heads negative", Kind::kGdn2, [](Config &c) { c.num_heads = -2; }, {"num_heads: ", "found -2"}},
        {"heads huge", Kind::kGdn2, [](Config &c) { c.num_heads = 1 << 26; }, {"num_heads * head_dim: ", "found 536870912"}},
        {"value heads huge", Kind::kGdn2, [](Config &c) { c.num_v_heads = 1 << 26; }, {"value heads * head_dim: ", "found 536870912"}},
        {"head 0", Kind::kGdn2, [](Config &c) { c.head_dim = 0; }, {"head_dim: ", "1 to 256", "found 0"}},
        {"head of 257", Kind::kGdn2, [](Config &c) { c.head_dim = 257; }, {"head_dim: ", "1 to 256", "found 257"}},
        {"decay rank of gdn", Kind::kGdn, [](Config &c) { c.decay_rank = 4; }, {"decay_rank: ", "null", "found 4"}},
        {"decay rank 0", Kind::kKda, [](Config &c) { c.decay_rank = 0; }, {"decay_rank: ", "found 0"}},
        {"gate rank of no gate", Kind::kKda, [](Config &c) { c.output_gate = OutputGate::kNone, c.gate_rank = 4; },
            {"gate_rank: ", "found 4"}},
        {"gate rank of a full gate", Kind::kGdn, [](Config &c) { c.gate_rank = 4; }, {"gate_rank: ", "null", "found 4"}},
        {"gate rank negative", Kind::kKda, [](Config &c) { c.gate_rank = -1; }, {"gate_rank: ", "found -1"}},
        {"no such kind", Kind::kGdn2, [](Config &c) { c.kind = static_cast<Kind>(7); }, {"kind: ", "found 7"}},
        {"no such mode", Kind::kGdn2, [](Config &c) { c.mode = static_cast<layer::Mode>(-1); }, {"mode: ", "found -1"}},
        {"no such decay", Kind::kGdn2, [](Config &c) { c.decay = static_cast<layer::DecayGate>(2); }, {"decay: ", "found 2"}},
        {"no such gate", Kind::kGdn2, [](Config &c) { c.output_gate = static_cast<OutputGate>(9); }, {"output_gate: ", "found 9"}},
    };
    return list;
}

TEST(Config, WhatDoesNotGoTogetherIsRefused) {
    for (const Bad &bad : bad_configs()) {
        SCOPED_TRACE(bad.name);
        Config config = small_config(bad.kind);
        EXPECT_NO_THROW(config.validate());
        bad.spoil(config);
        expect_refused([&] { config.validate(); }, GDN_STATUS_INVALID_ARGUMENT, bad.says);
        // Everything that takes a configuration asks first.
        expect_refused([&] { layer::weights(config); }, GDN_STATUS_INVALID_ARGUMENT, bad.says);
        expect_refused([&] { layer::parameter_count(config); }, GDN_STATUS_INVALID_ARGUMENT, bad.says);
        expect_refused([&] { layer::initialise(config, 1); }, GDN_STATUS_INVALID_ARGUMENT, bad.says);
        expect_refused([&] { layer::import_weights(config, layer::Layout::kGdn, {}); }, GDN_STATUS_INVALID_ARGUMENT, bad.says);
        expect_refused([&] { layer::export_weights(config, layer::Layout::kGdn, {}); }, GDN_STATUS_INVALID_ARGUMENT, bad.says);
    }
}

TEST(Config, ValueDimIsAWholeNumber) {
    Config config = small_config(Kind::kGdn2);
    config.head_dim = 192;
    config.expand_v = 2 / 3.;  // 192 * that is 128 but for the last bit
    EXPECT_EQ(config.value_dim(), 128);
    config.validate();
    config.expand_v = 1.5;
    EXPECT_THROW(config.validate(), layer::Error);  // 288
    config.head_dim = 8;
    EXPECT_EQ(config.value_dim(), 12);
    config.expand_v = 1.3;
    EXPECT_THROW(config.value_dim(), layer::Error);
}

TEST(Config, DefaultsAreThoseOfThePublishedLayers) {
    const Config gdn2;
    EXPECT_EQ(gdn2, Config::defaults(Kind::kGdn2));
    EXPECT_EQ(gdn2.output_gate, OutputGate::kUnspecified);
    EXPECT_EQ(gdn2.hidden_size, 2048);
    const Config gdn = Config::defaults(Kind::kGdn);
    EXPECT_EQ(gdn.head_dim, 256);
    EXPECT_EQ(gdn.num_heads, 6);
    EXPECT_EQ(gdn.value_dim(), 512);
    EXPECT_EQ(gdn.output_gate, OutputGate::kSilu);
    EXPECT_FALSE(gdn.output_gate_low_rank);
    const Config kda = Config::defaults(Kind::kKda);
    EXPECT_EQ(kda.output_gate, OutputGate::kSigmoid);
    EXPECT_TRUE(kda.output_gate_low_rank && kda.output_gate_bias);
    for (Kind kind : {Kind::kFg2, Kind::kFg2Plus}) {
        EXPECT_EQ(Config::defaults(kind).output_gate, OutputGate::kSigmoid);
        EXPECT_FALSE(Config::defaults(kind).output_gate_bias);
        Config::defaults(kind).validate();
    }
    kda.validate();
}

// Every field away from every default.
Config unusual() {
    Config c = Config::defaults(Kind::kKda);
    c.hidden_size = 40;
    c.num_heads = 3;
    c.num_v_heads = 6;
    c.head_dim = 10;
    c.expand_v = 1.2;
    c.mode = layer::Mode::kFusedRecurrent;
    c.chunk_size = 32;
    c.use_short_conv = true;
    c.conv_size = 5;
    c.conv_bias = true;
    c.allow_neg_eigval = true;
    c.decay = layer::DecayGate::kLowerBound;
    c.lower_bound = -0.1;
    c.output_gate = OutputGate::kSilu;
    c.output_gate_low_rank = true;
    c.output_gate_bias = false;
    c.decay_rank = 7;
    c.gate_rank = 9;
    c.norm_eps = 1.0000000000000002e-6;
    return c;
}

TEST(Config, EveryFieldGoesThroughJson) {
    std::vector<Config> list = {unusual()};
    for (Kind kind : {Kind::kGdn, Kind::kKda, Kind::kGdn2, Kind::kFg2, Kind::kFg2Plus}) list.push_back(small_config(kind));
    const auto changed = [&](const std::function<void(Config &)> &change) {
        list.push_back(unusual());
        change(list.back());
    };
    changed([](Config &c) { c.use_short_conv = c.conv_bias = false; });
    changed([](Config &c) { c.output_gate = OutputGate::kNone, c.gate_rank.reset(); });
    changed([](Config &c) { c.output_gate_low_rank = false, c.gate_rank.reset(); });
    changed([](Config &c) { c.kind = Kind::kGdn2, c.num_v_heads.reset(); });
    std::set<std::string> texts;
    for (const Config &config : list) {
        const std::string text = config.to_json();
        EXPECT_TRUE(texts.insert(text).second) << "two configurations, one text: " << text;
        EXPECT_EQ(Config::from_json(text), config) << text;
        EXPECT_EQ(Config::from_json(text).to_json(), text);
    }
}

// A field that operator== or the JSON forgets would pass the test above: each alone must matter to both.
TEST(Config, EveryFieldCounts) {
    const std::vector<std::function<void(Config &)>> changes = {[](Config &c) { c.kind = Kind::kGdn2; }, [](Config &c) { c.hidden_size++; },
        [](Config &c) { c.num_heads = 2; }, [](Config &c) { c.num_v_heads.reset(); }, [](Config &c) { c.head_dim = 20; },
        [](Config &c) { c.expand_v = 1; }, [](Config &c) { c.mode = layer::Mode::kChunk; }, [](Config &c) { c.chunk_size = 64; },
        [](Config &c) { c.use_short_conv = false; }, [](Config &c) { c.conv_size = 4; }, [](Config &c) { c.conv_bias = false; },
        [](Config &c) { c.allow_neg_eigval = false; }, [](Config &c) { c.decay = layer::DecayGate::kSoftplus; },
        [](Config &c) { c.lower_bound = -0.2; }, [](Config &c) { c.output_gate = OutputGate::kSigmoid; },
        [](Config &c) { c.output_gate_low_rank = false; }, [](Config &c) { c.output_gate_bias = true; },
        [](Config &c) { c.decay_rank.reset(); }, [](Config &c) { c.gate_rank.reset(); }, [](Config &c) { c.norm_eps = 1e-6; }};
    for (std::size_t i = 0; i < changes.size(); i++) {
        Config other = unusual();
        changes[i](other);
        EXPECT_FALSE(other == unusual()) << i;
        EXPECT_NE(other.to_json(), unusual().to_json()) << i;
    }
}

TEST(Config, AbsentFieldsAreTheKindsDefaults) {
    Config expected = Config::defaults(Kind::kGdn);
    expected.head_dim = 64;
    EXPECT_EQ(Config::from_json(R"({"kind": "gdn", "head_dim": 64})"), expected);
    EXPECT_EQ(Config::from_json(R"({"kind": "kda", "num_v_heads": null})"), Config::defaults(Kind::kKda));
}

TEST(Config, BadJsonIsRefused) {
    const struct {
        const char *text;
        std::vector<std::string> says;
    } list[] = {
        {"", {"configuration: expected JSON"}},
        {"{", {"configuration: expected JSON"}},
        {"[]", {"configuration: expected a JSON object, found array"}},
        {"{} {}", {"configuration: expected JSON"}},
        {"{}", {"kind: ", "no such field"}},
        {R"({"kind": 3})", {"kind: expected a string, found 3"}},
        {R"({"kind": "gdn3"})", {"kind: ", "'gdn2'", "found 'gdn3'"}},
        {R"({"kind": "kda", "hidden_sise": 3})", {"unknown field 'hidden_sise'", "hidden_size"}},
        {R"({"kind": "kda", "head_dim": 8, "head_dim": 16})", {"'head_dim' twice"}},
        {R"({"kind": "kda", "head_dim": 8.0})", {"head_dim: expected an integer, found 8.0"}},
        {R"({"kind": "kda", "head_dim": "8"})", {"head_dim: expected an integer, found \"8\""}},
        {R"({"kind": "kda", "head_dim": null})", {"head_dim: expected an integer, found null"}},
        {R"({"kind": "kda", "head_dim": 18446744073709551615})", {"head_dim: ", "18446744073709551615"}},
        {R"({"kind": "kda", "norm_eps": "1e-5"})", {"norm_eps: expected a number"}},
        {R"({"kind": "kda", "norm_eps": 1e999})", {"configuration: expected JSON"}},
        {R"({"kind": "kda", "conv_bias": 1})", {"conv_bias: expected true or false, found 1"}},
        {R"({"kind": "kda", "mode": "parallel"})", {"mode: ", "'fused_recurrent'", "found 'parallel'"}},
        {R"({"kind": "kda", "decay": "safe"})", {"decay: ", "'lower_bound'", "found 'safe'"}},
        {R"({"kind": "kda", "output_gate": true})", {"output_gate: expected a string"}},
        {R"({"kind": "gdn2"})", {"output_gate: ", "unspecified"}},
        {R"({"kind": "gdn"})", {"expand_v: ", "512"}},
        {R"({"kind": "kda", "mode": [[[[[[]]]]]]})", {"at most 4 deep"}},
    };
    for (const auto &bad : list) {
        SCOPED_TRACE(bad.text);
        expect_refused([&] { Config::from_json(bad.text); }, GDN_STATUS_INVALID_ARGUMENT, bad.says);
    }
    expect_refused([&] { Config::from_json(std::string(1 << 21, ' ')); }, GDN_STATUS_INVALID_ARGUMENT, {"at most 1 MiB"});
    std::string deep = R"({"kind": )";
    deep += std::string(100000, '[');
    expect_refused([&] { Config::from_json(deep); }, GDN_STATUS_INVALID_ARGUMENT, {"at most 4 deep"});
    expect_refused([&] { Config::from_json("{\"kind\": \"\xff\"}"); }, GDN_STATUS_INVALID_ARGUMENT, {"configuration: expected JSON"});
}

}  // namespace
}  // namespace gdn_test
