// Checkpoints of others by name: real files of fla and transformers, every layout there and back, and what is refused.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "../support/safetensors.h"
#include "layer_files.h"

namespace gdn_test {
namespace {

using layer::Config;
using layer::Kind;
using layer::Layout;
using layer::OutputGate;

std::string oracle(const std::string &name) { return std::string(GDN_TEST_DATA_DIR) + "/oracles/" + name + ".safetensors"; }

struct Case {
    const char *name;
    Layout layout;
    Config config;
};

Config with(Kind kind, const std::function<void(Config &)> &change) {
    Config config = small_config(kind);
    config.expand_v = 1;
    change(config);
    return config;
}
const auto nothing = [](Config &) {};

// Configurations that each layout can express; sizes that differ wherever they may.
std::vector<Case> cases() {
    const auto kimi = [](Config &c) { c.output_gate_bias = false; };
    const auto qwen = [](Config &c) { c.num_v_heads = 6, c.expand_v = 1.5; };
    return {
        {"own names of gdn", Layout::kGdn, with(Kind::kGdn, [](Config &c) { c.num_v_heads = 4, c.expand_v = 1.5, c.conv_bias = true; })},
        {"own names of kda", Layout::kGdn, with(Kind::kKda, [](Config &c) { c.decay_rank = 3, c.gate_rank = 5, c.num_v_heads = 4; })},
        {"own names of kda with a full gate", Layout::kGdn, with(Kind::kKda, [](Config &c) { c.output_gate_low_rank = false; })},
        {"own names of gdn2", Layout::kGdn,
            with(Kind::kGdn2, [](Config &c) { c.use_short_conv = false, c.output_gate = OutputGate::kNone; })},
        {"own names of fg2", Layout::kGdn, with(Kind::kFg2, nothing)},
        {"own names of fg2_plus", Layout::kGdn, with(Kind::kFg2Plus, [](Config &c) { c.expand_v = 2; })},
        {"fla-gdn2", Layout::kFlaGdn2, with(Kind::kGdn2, [](Config &c) { c.num_v_heads = 4, c.expand_v = 1.5, c.conv_bias = true; })},
        {"fla-gdn2 bounded", Layout::kFlaGdn2, with(Kind::kGdn2, [](Config &c) { c.decay = layer::DecayGate::kLowerBound; })},
        {"nv-gdn2", Layout::kNvGdn2, with(Kind::kGdn2, [](Config &c) { c.output_gate = OutputGate::kSilu, c.num_v_heads = 6; })},
        {"fla-gdn", Layout::kFlaGdn, with(Kind::kGdn, [](Config &c) { c.num_v_heads = 4, c.expand_v = 2, c.allow_neg_eigval = true; })},
        {"fla-gdn without gate", Layout::kFlaGdn, with(Kind::kGdn, [](Config &c) { c.output_gate = OutputGate::kNone; })},
        {"fla-kda", Layout::kFlaKda, with(Kind::kKda, [](Config &c) { c.num_v_heads = 4, c.expand_v = 1.5; })},
        {"kimi-linear", Layout::kKimiLinear, with(Kind::kKda, kimi)},
        {"kimi-linear-fused", Layout::kKimiLinearFused, with(Kind::kKda, kimi)},
        {"fg2", Layout::kFg2, with(Kind::kFg2, [](Config &c) { c.use_short_conv = false; })},
        {"fg2 plus", Layout::kFg2, with(Kind::kFg2Plus, [](Config &c) { c.expand_v = 2, c.decay_rank = c.gate_rank = 8; })},
        {"qwen3-next", Layout::kQwen3Next, with(Kind::kGdn, qwen)},
    };
}

TEST(Layouts, ThereAndBackIsTheSameBits) {
    std::set<Layout> covered;
    for (const Case &c : cases()) {
        SCOPED_TRACE(c.name);
        covered.insert(c.layout);
        const layer::StateDict own = random_weights(c.config, 3);
        for (const std::string prefix : {"", "model.layers.1.linear_attn."}) {
            layer::StateDict file = layer::export_weights(c.config, c.layout, own, prefix);
            std::size_t values = 0;
            for (const auto &[name, tensor] : file) {
                EXPECT_EQ(name.compare(0, prefix.size(), prefix), 0);
                values += tensor.data.size();
            }
            EXPECT_EQ(static_cast<std::int64_t>(values), layer::parameter_count(c.config));
            if (!prefix.empty()) {
                file["model.layers.10.linear_attn.q_proj.weight"] = {{1}, {0}};  // other layers, other parts
                file["model.layers.1.mlp.weight"] = {{1}, {0}};
                file["a"] = {{1}, {0}};
            }
            expect_same(layer::import_weights(c.config, c.layout, file, prefix), own);
        }
        // And through a file, back to the same bytes.
        const Folder folder;
        const layer::StateDict file = layer::export_weights(c.config, c.layout, own, "p.");
        layer::write_safetensors(folder / "x", file);
        expect_same(layer::export_weights(
                        c.config, c.layout, layer::import_weights(c.config, c.layout, layer::read_safetensors(folder / "x"), "p."), "p."),
            file);
    }
    EXPECT_EQ(covered.size(), 9u);
}

// Which checkpoint has which weights where: read once by hand, from the files' own documentation, not from layouts.cpp.
TEST(Layouts, TheFilesOfFlaAreReadByName) {
    const struct {
        const char *file;
        Layout layout;
        Config config;
    } list[] = {
        {"fla_layer_gdn", Layout::kFlaGdn, with(Kind::kGdn, [](Config &c) { c.expand_v = 2; })},
        {"fla_layer_gdn_gva", Layout::kFlaGdn, with(Kind::kGdn, [](Config &c) { c.num_v_heads = 4; })},
        {"fla_layer_gdn_nogate_neg", Layout::kFlaGdn,
            with(Kind::kGdn, [](Config &c) { c.output_gate = OutputGate::kNone, c.allow_neg_eigval = true; })},
        {"fla_layer_gdn2", Layout::kFlaGdn2, with(Kind::kGdn2, nothing)},
        {"fla_layer_gdn2_noconv", Layout::kFlaGdn2, with(Kind::kGdn2, [](Config &c) { c.use_short_conv = false; })},
        {"fla_layer_kda", Layout::kFlaKda, with(Kind::kKda, nothing)},
        {"fla_layer_kda_safe_gate", Layout::kFlaKda, with(Kind::kKda, [](Config &c) { c.decay = layer::DecayGate::kLowerBound; })},
    };
    for (const auto &item : list) {
        SCOPED_TRACE(item.file);
        const layer::StateDict file = layer::read_safetensors(oracle(item.file)),
                               own = layer::import_weights(item.config, item.layout, file, "p.");
        layer::StateDict expected;
        for (const auto &[name, tensor] : file) {
            if (name.rfind("p.", 0) == 0) expected[name.substr(2)] = tensor;
        }
        expect_same(own, expected);
        // Only one layer's tensors in memory: the same.
        expect_same(layer::import_weights(item.config, item.layout, layer::read_safetensors(oracle(item.file), nullptr, "p."), "p."), own);
    }
}

std::vector<float> rows_of(const StoredTensor &tensor, std::int64_t first, std::int64_t rows) {
    std::int64_t columns = 1;
    for (std::size_t i = 1; i < tensor.shape.size(); i++) columns *= tensor.shape[i];
    return std::vector<float>(tensor.values.begin() + first * columns, tensor.values.begin() + (first + rows) * columns);
}
void append(std::vector<float> &to, const std::vector<float> &more) { to.insert(to.end(), more.begin(), more.end()); }

TEST(Layouts, KimiLinearOfTransformersIsReadByName) {
    const Config config = with(Kind::kKda, [](Config &c) { c.num_heads = 3, c.output_gate_bias = false; });
    const layer::StateDict own =
        layer::import_weights(config, Layout::kKimiLinearFused, layer::read_safetensors(oracle("hf_kimi_linear_delta_attention")), "p.");
    const StoredTensors file = read_safetensors(oracle("hf_kimi_linear_delta_attention"));
    const std::pair<const char *, const char *> names[] = {{"q_proj.weight", "q_proj.weight"}, {"k_proj.weight", "k_proj.weight"},
        {"v_proj.weight", "v_proj.weight"}, {"b_proj.weight", "b_proj.weight"}, {"f_proj.0.weight", "forget_gate.f_a_proj.weight"},
        {"f_proj.1.weight", "forget_gate.f_b_proj.weight"}, {"A_log", "forget_gate.A_log"}, {"dt_bias", "forget_gate.dt_bias"},
        {"g_proj.0.weight", "g_a_proj.weight"}, {"g_proj.1.weight", "g_b_proj.weight"}, {"o_norm.weight", "o_norm.weight"},
        {"o_proj.weight", "o_proj.weight"}};
    for (const auto &[ours, theirs] : names) EXPECT_EQ(own.at(ours).data, file.at(std::string("p.") + theirs).floats()) << ours;
    const StoredTensor &conv = file.at("p.conv1d.weight");
    EXPECT_EQ(own.at("q_conv1d.weight").data, rows_of(conv, 0, 24));
    EXPECT_EQ(own.at("k_conv1d.weight").data, rows_of(conv, 24, 24));
    EXPECT_EQ(own.at("v_conv1d.weight").data, rows_of(conv, 48, 24));
    EXPECT_EQ(own.at("A_log").shape, (std::vector<std::int64_t>{3}));
    EXPECT_EQ(own.size(), std::size(names) + 3);
}

TEST(Layouts, Qwen3NextIsReadByName) {
    const Config config = with(Kind::kGdn, [](Config &c) { c.num_v_heads = 4, c.expand_v = 1.5, c.norm_eps = 1e-6; });
    const layer::StateDict own = layer::import_weights(
        config, Layout::kQwen3Next, layer::read_safetensors(oracle("hf_qwen3_next_gated_delta_net"), nullptr, "p."), "p.");
    const StoredTensors file = read_safetensors(oracle("hf_qwen3_next_gated_delta_net"));
    // Two key heads, each 8 rows of q, 8 of k, 2 x 12 of v, 2 x 12 of z; and 2 of b, 2 of a.
    const StoredTensor &qkvz = file.at("p.in_proj_qkvz.weight"), &ba = file.at("p.in_proj_ba.weight"), &conv = file.at("p.conv1d.weight");
    std::vector<float> q, k, v, z, b, a;
    for (std::int64_t h = 0; h < 2; h++) {
        append(q, rows_of(qkvz, 64 * h, 8));
        append(k, rows_of(qkvz, 64 * h + 8, 8));
        append(v, rows_of(qkvz, 64 * h + 16, 24));
        append(z, rows_of(qkvz, 64 * h + 40, 24));
        append(b, rows_of(ba, 4 * h, 2));
        append(a, rows_of(ba, 4 * h + 2, 2));
    }
    EXPECT_EQ(own.at("q_proj.weight").data, q);
    EXPECT_EQ(own.at("k_proj.weight").data, k);
    EXPECT_EQ(own.at("v_proj.weight").data, v);
    EXPECT_EQ(own.at("g_proj.weight").data, z);
    EXPECT_EQ(own.at("b_proj.weight").data, b);
    EXPECT_EQ(own.at("a_proj.weight").data, a);
    EXPECT_EQ(own.at("q_conv1d.weight").data, rows_of(conv, 0, 16));
    EXPECT_EQ(own.at("k_conv1d.weight").data, rows_of(conv, 16, 16));
    EXPECT_EQ(own.at("v_conv1d.weight").data, rows_of(conv, 32, 48));
    EXPECT_EQ(own.at("o_norm.weight").data, file.at("p.norm.weight").floats());
    EXPECT_EQ(own.at("o_proj.weight").data, file.at("p.out_proj.weight").floats());
    EXPECT_EQ(own.at("A_log").data, file.at("p.A_log").floats());
    EXPECT_EQ(own.at("dt_bias").data, file.at("p.dt_bias").floats());
    EXPECT_EQ(own.size(), 13u);
}

TEST(Layouts, Fg2PlusPacksKeysThenValues) {
    const Config config = with(Kind::kFg2Plus, nothing);
    const layer::StateDict own = random_weights(config, 4), file = layer::export_weights(config, Layout::kFg2, own);
    std::vector<float> packed = own.at("b_proj.weight").data;
    append(packed, own.at("w_proj.weight").data);
    EXPECT_EQ(file.at("b_proj.weight").data, packed);
    EXPECT_EQ(file.at("b_proj.weight").shape, (std::vector<std::int64_t>{32, 24}));
    EXPECT_EQ(file.at("f_a_proj.weight").data, own.at("f_proj.0.weight").data);
    EXPECT_EQ(file.at("f_b_proj.weight").data, own.at("f_proj.1.weight").data);
    EXPECT_EQ(file.at("g_a_proj.weight").data, own.at("g_proj.0.weight").data);
    EXPECT_EQ(file.at("g_b_proj.weight").data, own.at("g_proj.1.weight").data);
    EXPECT_EQ(file.at("A_log").shape, (std::vector<std::int64_t>{1, 1, 2, 1}));
    EXPECT_EQ(file.count("w_proj.weight"), 0u);
}

// Releases of KDA have stored A_log in three shapes.
TEST(Layouts, ALogMayHaveAxesOfOne) {
    for (const Case &c : cases()) {
        if (c.layout == Layout::kGdn || c.config.kind == Kind::kGdn) continue;
        SCOPED_TRACE(c.name);
        const layer::StateDict own = random_weights(c.config, 5);
        layer::StateDict file = layer::export_weights(c.config, c.layout, own, "p.");
        layer::Tensor &A_log = file.at(c.layout == Layout::kKimiLinearFused ? "p.forget_gate.A_log" : "p.A_log");
        const std::int64_t heads = static_cast<std::int64_t>(A_log.data.size());
        for (const std::vector<std::int64_t> &shape : std::vector<std::vector<std::int64_t>>{{heads}, {1, 1, heads, 1}, {heads, 1}}) {
            A_log.shape = shape;
            expect_same(layer::import_weights(c.config, c.layout, file, "p."), own);
        }
        A_log.shape = {1, heads};
        expect_refused(
            [&] { layer::import_weights(c.config, c.layout, file, "p."); }, GDN_STATUS_INVALID_ARGUMENT, {"A_log'", "found [1, "});
    }
}

TEST(Layouts, MissingSurplusAndMisshapenTensorsAreNamed) {
    for (const Case &c : cases()) {
        SCOPED_TRACE(c.name);
        const std::string layout = "layout '" + layer::name_of(c.layout) + "'";
        const layer::StateDict good = layer::export_weights(c.config, c.layout, random_weights(c.config, 6), "p.");
        const auto refused = [&](const layer::StateDict &file, std::vector<std::string> says) {
            expect_refused([&] { layer::import_weights(c.config, c.layout, file, "p."); }, GDN_STATUS_INVALID_ARGUMENT, says);
        };
        for (const auto &[name, tensor] : good) {
            layer::StateDict file = good;
            file.erase(name);
            refused(file, {"tensor '" + name + "'", "expected shape [", layout, "found no such tensor"});
            file = good;
            file.at(name).shape[0]++;
            refused(file, {"tensor '" + name + "'", "expected shape [", layout, "found [" + std::to_string(file.at(name).shape[0])});
            file = good;
            file.at(name).data.pop_back();
            refused(file, {"tensor '" + name + "'", std::to_string(tensor.data.size()) + " values"});
        }
        layer::StateDict file = good;
        file["p.extra"] = {{2, 1}, {0, 0}};
        refused(file, {"tensor 'p.extra' [2, 1]", "no such tensor", layout});
        // A tensor under another name is both: the error names the two.
        file.erase(good.begin()->first);
        refused(file, {"tensor '" + good.begin()->first + "'", "but an unknown 'p.extra' [2, 1]"});
        // Under the wrong prefix there is nothing.
        expect_refused(
            [&] { layer::import_weights(c.config, c.layout, good, "q."); }, GDN_STATUS_INVALID_ARGUMENT, {"tensor 'q.", "no such tensor"});
        // What is written is checked like what is read.
        layer::StateDict own = random_weights(c.config, 6);
        own.erase("q_proj.weight");
        expect_refused([&] { layer::export_weights(c.config, c.layout, own); }, GDN_STATUS_INVALID_ARGUMENT, {"tensor 'q_proj.weight'"});
        own = random_weights(c.config, 6);
        own["extra"] = {{1}, {0}};
        expect_refused([&] { layer::export_weights(c.config, c.layout, own); }, GDN_STATUS_INVALID_ARGUMENT, {"tensor 'extra'", "[1]"});
    }
}

TEST(Layouts, NanWeightsAreRefused) {
    const Config config = with(Kind::kGdn2, nothing);
    for (float bad : {NAN, INFINITY, -INFINITY}) {
        layer::StateDict own = random_weights(config, 7);
        own.at("o_proj.weight").data[5] = bad;
        expect_refused([&] { layer::import_weights(config, Layout::kFlaGdn2, own); }, GDN_STATUS_INVALID_VALUE,
            {"tensor 'o_proj.weight'", "finite", std::to_string(bad), "at 5"});
        expect_refused([&] { layer::export_weights(config, Layout::kFlaGdn2, own); }, GDN_STATUS_INVALID_VALUE, {"tensor 'o_proj.weight'"});
    }
}

TEST(Layouts, WhatALayoutCannotExpressIsRefusedByName) {
    const auto kimi = [](const std::function<void(Config &)> &change) {
        return with(Kind::kKda, [&](Config &c) {
            c.output_gate_bias = false;
            change(c);
        });
    };
    const auto gdn = [](const std::function<void(Config &)> &change) { return with(Kind::kGdn, change); };
    const struct {
        Layout layout;
        Config config;
        std::vector<std::string> says;
    } list[] = {
        {Layout::kFlaGdn2, with(Kind::kGdn2, [](Config &c) { c.output_gate = OutputGate::kSilu; }),
            {"output_gate: expected sigmoid, found silu"}},
        {Layout::kNvGdn2, with(Kind::kGdn2, nothing), {"output_gate: expected silu, found sigmoid"}},
        {Layout::kNvGdn2, with(Kind::kGdn2, [](Config &c) { c.output_gate = OutputGate::kSilu, c.decay = layer::DecayGate::kLowerBound; }),
            {"decay: "}},
        {Layout::kFlaGdn2, with(Kind::kKda, nothing), {"kind: expected gdn2, found kda"}},
        {Layout::kFlaGdn2, with(Kind::kGdn2, [](Config &c) { c.output_gate_bias = false; }), {"output_gate_bias: expected true"}},
        {Layout::kFlaGdn2, with(Kind::kGdn2, [](Config &c) { c.output_gate_low_rank = false; }), {"output_gate_low_rank"}},
        {Layout::kFlaKda, with(Kind::kKda, [](Config &c) { c.decay_rank = 4; }), {"decay_rank: expected 8, found 4"}},
        {Layout::kFlaKda, with(Kind::kKda, [](Config &c) { c.gate_rank = 4; }), {"gate_rank: expected 8, found 4"}},
        {Layout::kFlaKda, with(Kind::kKda, [](Config &c) { c.output_gate = OutputGate::kNone; }),
            {"output_gate: expected sigmoid, found none"}},
        {Layout::kFlaGdn, gdn([](Config &c) { c.output_gate = OutputGate::kSigmoid; }), {"output_gate: expected silu or none"}},
        {Layout::kFlaGdn, gdn([](Config &c) { c.output_gate_low_rank = true; }), {"output_gate_low_rank: expected false"}},
        {Layout::kFlaGdn, gdn([](Config &c) { c.decay = layer::DecayGate::kLowerBound; }), {"decay: expected softplus"}},
        {Layout::kFlaGdn, with(Kind::kGdn2, nothing), {"kind: expected gdn"}},
        {Layout::kKimiLinear, with(Kind::kKda, nothing), {"output_gate_bias: expected false, found true"}},
        {Layout::kKimiLinear, kimi([](Config &c) { c.use_short_conv = false; }), {"use_short_conv: expected true"}},
        {Layout::kKimiLinear, kimi([](Config &c) { c.conv_bias = true; }), {"conv_bias: expected false"}},
        {Layout::kKimiLinear, kimi([](Config &c) { c.num_v_heads = 4; }), {"num_v_heads: expected 2, found 4"}},
        {Layout::kKimiLinear, kimi([](Config &c) { c.expand_v = 2; }), {"expand_v: expected 1, found 2"}},
        {Layout::kKimiLinear, kimi([](Config &c) { c.allow_neg_eigval = true; }), {"allow_neg_eigval: expected false"}},
        {Layout::kKimiLinear, kimi([](Config &c) { c.output_gate = OutputGate::kSilu; }), {"output_gate: expected sigmoid"}},
        {Layout::kKimiLinearFused, kimi([](Config &c) { c.decay_rank = 4; }), {"decay_rank: expected 8, found 4"}},
        {Layout::kKimiLinearFused, with(Kind::kGdn, nothing), {"kind: expected kda"}},
        {Layout::kFg2, kimi(nothing), {"kind: expected fg2 or fg2_plus, found kda"}},
        {Layout::kFg2, with(Kind::kFg2, [](Config &c) { c.output_gate_bias = true; }), {"output_gate_bias"}},
        {Layout::kFg2, with(Kind::kFg2, [](Config &c) { c.decay = layer::DecayGate::kLowerBound; }), {"decay: expected softplus"}},
        {Layout::kFg2, with(Kind::kFg2Plus, [](Config &c) { c.expand_v = 2; }), {"decay_rank: expected 8, found 16"}},
        {Layout::kQwen3Next, with(Kind::kKda, nothing), {"kind: expected gdn, found kda"}},
        {Layout::kQwen3Next, gdn([](Config &c) { c.output_gate = OutputGate::kNone; }), {"output_gate: expected silu, found none"}},
        {Layout::kQwen3Next, gdn([](Config &c) { c.output_gate_low_rank = true; }), {"output_gate_low_rank"}},
        {Layout::kQwen3Next, gdn([](Config &c) { c.use_short_conv = false; }), {"use_short_conv"}},
        {Layout::kQwen3Next, gdn([](Config &c) { c.conv_bias = true; }), {"conv_bias"}},
        {Layout::kQwen3Next, gdn([](Config &c) { c.allow_neg_eigval = true; }), {"allow_neg_eigval"}},
        {Layout::kQwen3Next, gdn([](Config &c) { c.decay = layer::DecayGate::kLowerBound; }), {"decay"}},
    };
    for (const auto &bad : list) {
        std::vector<std::string> says = bad.says;
        says.push_back("layout '" + layer::name_of(bad.layout) + "' cannot express this configuration");
        SCOPED_TRACE(bad.says[0]);
        expect_refused([&] { layer::import_weights(bad.config, bad.layout, {}); }, GDN_STATUS_UNSUPPORTED, says);
        expect_refused([&] { layer::export_weights(bad.config, bad.layout, random_weights(bad.config, 1)); }, GDN_STATUS_UNSUPPORTED, says);
    }
    expect_refused([&] { layer::import_weights(with(Kind::kGdn, nothing), static_cast<Layout>(99), {}); }, GDN_STATUS_INVALID_ARGUMENT,
        {"layout: ", "99"});
}

}  // namespace
}  // namespace gdn_test
