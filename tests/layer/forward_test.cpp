// What a layer computes: against other implementations (tests/data/oracles), and against the layer in double, for every kind and flag.
#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "../support/safetensors.h"
#include "forward_call.h"

using namespace gdn_test;
using layer::Config;
using layer::Kind;
using layer::Layout;
using layer::OutputGate;

namespace {

// ---- other implementations ---------------------------------------------------------------------------------------

struct LayerOracle {
    const char *file;
    Layout layout;
    Config config;
};

Config oracle_config(Kind kind, OutputGate gate, const std::function<void(Config &)> &change = {}) {
    Config config = Config::defaults(kind);
    config.hidden_size = 24, config.num_heads = 2, config.head_dim = 8, config.expand_v = 1;
    config.output_gate = gate;
    if (change) change(config);
    return config;
}

std::vector<LayerOracle> layer_oracles() {
    return {
        {"fla_layer_gdn2", Layout::kFlaGdn2, oracle_config(Kind::kGdn2, OutputGate::kSigmoid)},
        {"fla_layer_gdn2_noconv", Layout::kFlaGdn2,
            oracle_config(Kind::kGdn2, OutputGate::kSigmoid, [](Config &c) { c.use_short_conv = false; })},
        {"fla_layer_kda", Layout::kFlaKda, oracle_config(Kind::kKda, OutputGate::kSigmoid)},
        {"fla_layer_kda_safe_gate", Layout::kFlaKda,
            oracle_config(
                Kind::kKda, OutputGate::kSigmoid, [](Config &c) { c.decay = layer::DecayGate::kLowerBound, c.lower_bound = -5; })},
        {"fla_layer_gdn", Layout::kFlaGdn, oracle_config(Kind::kGdn, OutputGate::kSilu, [](Config &c) { c.expand_v = 2; })},
        {"fla_layer_gdn_gva", Layout::kFlaGdn, oracle_config(Kind::kGdn, OutputGate::kSilu, [](Config &c) { c.num_v_heads = 4; })},
        {"fla_layer_gdn_nogate_neg", Layout::kFlaGdn,
            oracle_config(Kind::kGdn, OutputGate::kNone, [](Config &c) { c.allow_neg_eigval = true; })},
        {"hf_kimi_linear_delta_attention", Layout::kKimiLinearFused,
            oracle_config(Kind::kKda, OutputGate::kSigmoid, [](Config &c) { c.num_heads = 3, c.output_gate_bias = false; })},
        {"hf_qwen3_next_gated_delta_net", Layout::kQwen3Next,
            oracle_config(Kind::kGdn, OutputGate::kSilu, [](Config &c) { c.num_v_heads = 4, c.expand_v = 1.5, c.norm_eps = 1e-6; })},
    };
}

struct Loaded {
    StoredTensors all;
    layer::StateDict weights;
};

Loaded load(const LayerOracle &oracle) {
    Loaded loaded = {read_safetensors(std::string(GDN_TEST_DATA_DIR "/oracles/") + oracle.file + ".safetensors"), {}};
    layer::StateDict file;
    for (const auto &[name, tensor] : loaded.all) file[name] = {tensor.shape, tensor.floats()};
    loaded.weights = layer::import_weights(oracle.config, oracle.layout, file, "p.");
    return loaded;
}

std::vector<float> floats(const Loaded &loaded, const char *name) { return loaded.all.at(name).floats(); }

TEST(LayerOracle, WholeSequencesInBothModes) {
    gdn::Context context;
    for (const LayerOracle &oracle : layer_oracles()) {
        const Loaded loaded = load(oracle);
        const std::int64_t B = loaded.all.at("x").shape[0], T = loaded.all.at("x").shape[1];
        const std::vector<float> x = floats(loaded, "x");
        for (const layer::Mode mode : {layer::Mode::kChunk, layer::Mode::kFusedRecurrent}) {
            Config config = oracle.config;
            config.mode = mode;
            const layer::Layer made(context, config, loaded.weights);
            expect_near(forward(made, x, B, T), loaded.all.at("y").values, oracle.file);
            layer::State state = made.make_state(B);
            expect_near(forward(made, x, B, T, &state), loaded.all.at("y").values, std::string(oracle.file) + " with a state");
        }
    }
}

TEST(LayerOracle, TheDoubleReferenceAgrees) {
    for (const LayerOracle &oracle : layer_oracles()) {
        const Loaded loaded = load(oracle);
        const std::int64_t B = loaded.all.at("x").shape[0], T = loaded.all.at("x").shape[1];
        const std::vector<float> x = floats(loaded, "x");
        const gdn_reference::Layer reference(oracle.config, loaded.weights);
        std::vector<double> y;
        for (std::int64_t b = 0; b < B; b++) {
            gdn_reference::Layer::State state = reference.start();
            const std::vector<double> rows = reference.forward(x.data() + b * T * 24, T, state);
            y.insert(y.end(), rows.begin(), rows.end());
        }
        expect_near(y, loaded.all.at("y").values, oracle.file);
    }
}

TEST(LayerOracle, Packed) {
    gdn::Context context;
    int seen = 0;
    for (const LayerOracle &oracle : layer_oracles()) {
        const Loaded loaded = load(oracle);
        if (!loaded.all.count("y_varlen_0_4_5_19")) continue;
        const std::int64_t cu[] = {0, 4, 5, 19};
        const layer::Layer made(context, oracle.config, loaded.weights);
        expect_near(forward(made, floats(loaded, "x"), 1, 19, nullptr, {cu, 3}), loaded.all.at("y_varlen_0_4_5_19").values, oracle.file);
        seen++;
    }
    EXPECT_EQ(seen, 7);
}

TEST(LayerOracle, LeftPadded) {
    gdn::Context context;
    const LayerOracle oracle = layer_oracles().back();
    const Loaded loaded = load(oracle);
    const std::vector<double> wide = loaded.all.at("mask").values;
    const std::vector<std::uint8_t> mask(wide.begin(), wide.end());
    const layer::Layer made(context, oracle.config, loaded.weights);
    layer::Batch batch;
    batch.mask = mask.data();
    const std::vector<float> y = forward(made, floats(loaded, "x"), 2, 70, nullptr, batch);
    const std::vector<double> &expected = loaded.all.at("y_left_padded").values;
    std::vector<float> real;
    std::vector<double> wanted;
    for (std::size_t row = 0; row < mask.size(); row++) {
        for (std::size_t c = 24 * row; c < 24 * (row + 1); c++) {
            if (mask[row])
                real.push_back(y[c]), wanted.push_back(expected[c]);
            else
                EXPECT_EQ(y[c], 0);
        }
    }
    EXPECT_EQ(real.size(), 24u * 131);
    expect_near(real, wanted);
}

TEST(LayerOracle, PrefillThenDecode) {
    gdn::Context context;
    const LayerOracle oracle = layer_oracles().back();
    const Loaded loaded = load(oracle);
    const std::vector<float> x = floats(loaded, "x");
    const std::vector<double> &expected = loaded.all.at("y_prefill60_decode10").values;
    const layer::Layer made(context, oracle.config, loaded.weights);
    layer::State state = made.make_state(2);
    const auto tokens = [&](std::int64_t first, std::int64_t count) {
        std::vector<float> both, y;
        std::vector<double> wanted;
        for (std::int64_t b = 0; b < 2; b++) {
            const auto begin = (b * 70 + first) * 24, end = begin + count * 24;
            both.insert(both.end(), x.begin() + begin, x.begin() + end);
            wanted.insert(wanted.end(), expected.begin() + begin, expected.begin() + end);
        }
        expect_near(forward(made, both, 2, count, &state), wanted, "from token " + std::to_string(first));
    };
    tokens(0, 60);
    for (std::int64_t t = 60; t < 70; t++) tokens(t, 1);
}

// ---- the layer in double -----------------------------------------------------------------------------------------

/// y and state of three sequences, whole and then one more token, against double.
void expect_reference(gdn::Context &context, const Config &config, std::int64_t T, std::uint64_t seed, const std::string &what) {
    const std::int64_t B = 3, d = config.hidden_size;
    const layer::StateDict weights = lively_weights(config, seed);
    const layer::Layer made(context, config, weights);
    const gdn_reference::Layer reference(config, weights);
    const std::vector<float> x = random_tokens(B * T, d, seed + 1), next = random_tokens(B, d, seed + 2);

    layer::State state = made.make_state(B);
    const std::vector<float> y = forward(made, x, B, T, &state), train = forward(made, x, B, T), one = forward(made, next, B, 1, &state);
    for (std::int64_t b = 0; b < B; b++) {
        gdn_reference::Layer::State expected = reference.start();
        const std::vector<double> rows = reference.forward(x.data() + b * T * d, T, expected);
        expect_near(slice(y, b * T, T, d), rows, what + " y");
        expect_near(slice(train, b * T, T, d), rows, what + " train");
        expect_near(slice(one, b, 1, d), reference.forward(next.data() + b * d, 1, expected), what + " next");
        expect_state(config, one_of(state, b), expected, what);
    }
}

TEST(LayerReference, EveryKindAndLength) {
    gdn::Context context;
    for (const Kind kind : kKinds) {
        for (const layer::Mode mode : {layer::Mode::kChunk, layer::Mode::kFusedRecurrent}) {
            for (const std::int64_t T : {1, 2, 7, 64, 70}) {
                Config config = forward_config(kind);
                config.mode = mode;
                expect_reference(
                    context, config, T, 10 + static_cast<std::uint64_t>(T), std::string(name_of(kind)) + " T " + std::to_string(T));
            }
        }
    }
}

TEST(LayerReference, LongerThanABlock) {
    gdn::Context context;
    for (const Kind kind : {Kind::kGdn, Kind::kGdn2}) {
        Config config = forward_config(kind);
        config.hidden_size = 8, config.num_heads = 1, config.head_dim = 8;
        for (const std::int64_t T : {512, 513, 1030}) {
            for (const layer::Mode mode : {layer::Mode::kChunk, layer::Mode::kFusedRecurrent}) {
                config.mode = mode;
                expect_reference(context, config, T, 3, std::string(name_of(kind)) + " T " + std::to_string(T));
            }
        }
    }
}

TEST(LayerReference, HeadsOfRealSize) {
    gdn::Context context;
    for (const Kind kind : kKinds) {
        Config config = forward_config(kind);
        config.hidden_size = 96, config.head_dim = 64;
        expect_reference(context, config, 80, 4, name_of(kind));
    }
}

TEST(LayerReference, GroupedHeads) {
    gdn::Context context;
    for (const Kind kind : {Kind::kGdn, Kind::kKda, Kind::kGdn2}) {
        Config config = forward_config(kind);
        config.num_v_heads = 6;
        config.expand_v = 1.5;
        expect_reference(context, config, 37, 5, name_of(kind));
        expect_reference(context, config, 1, 6, name_of(kind));
    }
}

TEST(LayerReference, TokenByTokenInGroupsOfHeads) {
    for (const int threads : {1, 3}) {
        gdn::Context context = context_of(threads);
        for (const Kind kind : kKinds) {
            Config config = forward_config(kind);
            config.num_heads = 8, config.head_dim = 8, config.conv_bias = true;
            config.mode = layer::Mode::kFusedRecurrent;
            if (kind != Kind::kFg2) config.expand_v = 2;
            expect_reference(context, config, 37, 7, name_of(kind));
            if (kind == Kind::kFg2 || kind == Kind::kFg2Plus) continue;
            config.num_v_heads = 24;
            expect_reference(context, config, kind == Kind::kGdn ? 530 : 5, 8, std::string(name_of(kind)) + ", grouped heads");
        }
    }
}

/// A change of the configuration and whether it says something about the numbers.
struct Flag {
    const char *name;
    std::function<void(Config &)> set;
    std::set<Kind> kinds = {Kind::kGdn, Kind::kKda, Kind::kGdn2, Kind::kFg2, Kind::kFg2Plus};
    bool changes = true;
};

const std::vector<Flag> &flags() {
    static const std::vector<Flag> list = {
        {"hidden_size", [](Config &c) { c.hidden_size = 20; }},
        {"num_heads", [](Config &c) { c.num_heads = 3; }},
        {"num_v_heads", [](Config &c) { c.num_v_heads = 4; }, {Kind::kGdn, Kind::kKda, Kind::kGdn2}},
        {"head_dim", [](Config &c) { c.head_dim = 12; }},
        {"expand_v", [](Config &c) { c.expand_v = 2; }, {Kind::kGdn, Kind::kKda, Kind::kGdn2, Kind::kFg2Plus}},
        {"mode", [](Config &c) { c.mode = layer::Mode::kFusedRecurrent; }, {std::begin(kKinds), std::end(kKinds)}, false},
        {"chunk_size", [](Config &c) { c.chunk_size = 16; }, {std::begin(kKinds), std::end(kKinds)}, false},
        {"use_short_conv", [](Config &c) { c.use_short_conv = false; }},
        {"conv_size 2", [](Config &c) { c.conv_size = 2; }},
        {"conv_size 3", [](Config &c) { c.conv_size = 3; }},
        {"conv_size 8", [](Config &c) { c.conv_size = 8; }},
        {"conv_bias", [](Config &c) { c.conv_bias = true; }},
        {"allow_neg_eigval", [](Config &c) { c.allow_neg_eigval = true; }, {Kind::kGdn, Kind::kKda, Kind::kGdn2}},
        {"decay", [](Config &c) { c.decay = layer::DecayGate::kLowerBound; }},
        {"lower_bound", [](Config &c) { c.decay = layer::DecayGate::kLowerBound, c.lower_bound = -1; }},
        {"output_gate none", [](Config &c) { c.output_gate = OutputGate::kNone; }},
        {"output_gate sigmoid", [](Config &c) { c.output_gate = OutputGate::kSigmoid; }},
        {"output_gate_low_rank", [](Config &c) { c.output_gate_low_rank = !c.output_gate_low_rank; }},
        {"output_gate_bias", [](Config &c) { c.output_gate_low_rank = true, c.output_gate_bias = !c.output_gate_bias; }},
        {"decay_rank", [](Config &c) { c.decay_rank = 5; }, {Kind::kKda, Kind::kGdn2, Kind::kFg2, Kind::kFg2Plus}},
        {"gate_rank", [](Config &c) { c.output_gate_low_rank = true, c.gate_rank = 5; }},
        {"norm_eps", [](Config &c) { c.norm_eps = 0.25; }},
    };
    return list;
}

// Both halves matter: a flag that is ignored would pass the second, one that does something else the first.
TEST(LayerFlags, EachChangesTheOutputAsTheReferenceSays) {
    gdn::Context context;
    const std::int64_t T = 20;
    for (const Kind kind : kKinds) {
        const Config base = forward_config(kind);
        const layer::StateDict weights = lively_weights(base, 7);
        for (const Flag &flag : flags()) {
            if (!flag.kinds.count(kind)) continue;
            const std::string what = std::string(name_of(kind)) + " " + flag.name;
            Config config = base;
            flag.set(config);
            expect_reference(context, config, T, 7, what);
            if (config.hidden_size != base.hidden_size) continue;

            // Weights that both have stay; what is new or has another shape is drawn.
            layer::StateDict changed = lively_weights(config, 8);
            for (auto &[name, tensor] : changed) {
                const auto before = weights.find(name);
                if (before != weights.end() && before->second.shape == tensor.shape) tensor = before->second;
            }
            const std::vector<float> x = random_tokens(T, base.hidden_size, 9);
            const std::vector<float> a = forward(layer::Layer(context, base, weights), x, 1, T);
            const std::vector<float> b = forward(layer::Layer(context, config, changed), x, 1, T);
            const double moved = distance(b.data(), a.data(), static_cast<std::int64_t>(a.size())).rms;
            if (flag.changes)
                EXPECT_GT(moved, 1e-3) << what;
            else
                EXPECT_LT(moved, 1e-5) << what;
        }
    }
}

// ---- closed forms (field reports G1, G13, R82) -------------------------------------------------------------------

/// Keys and queries are e_1, decay is 1, beta (or b) saturates, v comes from x. x = [1, v].
struct Reflection {
    Config config;
    layer::StateDict weights;
    std::vector<float> x;
    std::vector<double> v;  // [T, V] after SiLU

    Reflection(Kind kind, bool negative, std::int64_t T) {
        const std::int64_t K = 8;
        config = Config::defaults(kind);
        config.hidden_size = 1 + K, config.num_heads = 1, config.head_dim = K, config.expand_v = 1;
        config.use_short_conv = false, config.output_gate = OutputGate::kNone;
        config.allow_neg_eigval = negative;
        for (const layer::TensorSpec &spec : layer::weights(config)) {
            layer::Tensor &tensor = weights[spec.name];
            tensor.shape = spec.shape;
            std::int64_t count = 1;
            for (std::int64_t extent : spec.shape) count *= extent;
            tensor.data.assign(static_cast<std::size_t>(count), 0.0f);
        }
        const auto width = static_cast<std::size_t>(config.hidden_size);
        weights["q_proj.weight"].data[0] = weights["k_proj.weight"].data[0] = 1e4f;
        for (std::size_t i = 0; i < static_cast<std::size_t>(K); i++) weights["v_proj.weight"].data[i * width + 1 + i] = 1;
        for (const char *name : {"b_proj.weight", "w_proj.weight"}) {
            if (!weights.count(name)) continue;
            std::vector<float> &gate = weights[name].data;
            for (std::size_t i = 0; i < gate.size(); i += width) gate[i] = 100;
        }
        for (float &bias : weights["dt_bias"].data) bias = -100;
        for (float &weight : weights["o_norm.weight"].data) weight = 1;
        Random random(1);
        for (std::int64_t t = 0; t < T; t++) {
            x.push_back(1);
            for (std::int64_t i = 0; i < K; i++) {
                x.push_back(static_cast<float>(random.normal()));
                v.push_back(x.back() * gdn_reference::sigmoid(x.back()));
            }
        }
    }
};

TEST(LayerClosedForms, Reflection) {
    gdn::Context context;
    const std::int64_t T = 20, K = 8;
    for (const Kind kind : {Kind::kGdn, Kind::kKda, Kind::kGdn2}) {
        for (const bool negative : {false, true}) {
            const Reflection made(kind, negative, T);
            const layer::Layer l(context, made.config, made.weights);
            const layer::Tensor o = l.dump(made.x.data(), 1, T).at("o");
            std::vector<double> expected(made.v), last(static_cast<std::size_t>(K), 0.0);
            for (std::size_t i = 0; i < expected.size(); i++) {
                // S <- (1 - beta) S + beta v; gdn2 doubles b and leaves w at 1
                const double before = i < static_cast<std::size_t>(K) ? 0 : expected[i - static_cast<std::size_t>(K)];
                expected[i] = negative ? (kind == Kind::kGdn2 ? 1 : 2) * made.v[i] - before : made.v[i];
            }
            for (double &value : expected) value /= std::sqrt(static_cast<double>(K));
            expect_near(o.data, expected, std::string(name_of(kind)) + (negative ? " negative" : ""));
        }
    }
}

TEST(LayerClosedForms, TinyZeroAndHugeRows) {
    gdn::Context context;
    for (const Kind kind : kKinds) {
        Config config = forward_config(kind);
        config.use_short_conv = false;
        config.head_dim = 128;
        const layer::StateDict weights = lively_weights(config, 2);
        for (const double scale : {1e-4, 1e-6}) {  // the l2 norm's 1e-6 decides the length of q and k
            layer::StateDict tiny = weights;
            for (const char *name : {"q_proj.weight", "k_proj.weight"})
                for (float &value : tiny[name].data) value = static_cast<float>(value * scale);
            const std::vector<float> x = random_tokens(12, config.hidden_size, 3);
            const gdn_reference::Layer reference(config, tiny);
            gdn_reference::Layer::State state = reference.start();
            expect_near(forward(layer::Layer(context, config, tiny), x, 1, 12), reference.forward(x.data(), 12, state), name_of(kind));
        }
        const std::vector<float> zeros(static_cast<std::size_t>(12 * config.hidden_size));
        for (const float value : forward(layer::Layer(context, config, weights), zeros, 1, 12)) ASSERT_EQ(value, 0);

        layer::StateDict huge = weights;
        for (const char *name : {"q_proj.weight", "k_proj.weight"})
            for (float &value : huge[name].data) value *= 1e20f;
        for (const float value : forward(layer::Layer(context, config, huge), random_tokens(12, config.hidden_size, 4), 1, 12))
            ASSERT_FALSE(std::isnan(value)) << name_of(kind);
    }
}

TEST(LayerDecay, AtItsEnds) {
    gdn::Context context;
    for (const Kind kind : kKinds) {
        const Config config = forward_config(kind);
        for (const float A_log : {-std::numeric_limits<float>::infinity(), -80.0f, 80.0f}) {
            layer::StateDict weights = lively_weights(config, 2);
            weights["A_log"].data[0] = A_log;
            const std::vector<float> x = random_tokens(30, config.hidden_size, 3);
            const gdn_reference::Layer reference(config, weights);
            gdn_reference::Layer::State state = reference.start();
            expect_near(forward(layer::Layer(context, config, weights), x, 1, 30), reference.forward(x.data(), 30, state),
                std::string(name_of(kind)) + " A_log " + std::to_string(A_log));
        }
    }
}

// ---- between the parts (R142) ------------------------------------------------------------------------------------

TEST(LayerDump, IsWhatTheReferenceHasThere) {
    gdn::Context context;
    for (const Kind kind : kKinds) {
        for (const bool conv : {true, false}) {
            Config config = forward_config(kind);
            config.use_short_conv = conv, config.conv_bias = conv;
            if (kind != Kind::kFg2 && kind != Kind::kFg2Plus) config.num_v_heads = 4, config.allow_neg_eigval = true;
            const std::int64_t B = 2, T = 9, d = config.hidden_size;
            const layer::StateDict weights = lively_weights(config, 4);
            const std::vector<float> x = random_tokens(B * T, d, 5);
            const std::map<std::string, layer::Tensor> dump = layer::Layer(context, config, weights).dump(x.data(), B, T);
            const gdn_reference::Layer reference(config, weights);
            std::map<std::string, std::vector<double>> expected;
            for (std::int64_t b = 0; b < B; b++) {
                gdn_reference::Layer::State state = reference.start();
                std::vector<gdn_reference::Layer::Stages> stages;
                reference.forward(x.data() + b * T * d, T, state, &stages);
                for (const auto &stage : stages) {
                    const auto put = [&](const char *name, const std::vector<double> &row) {
                        if (!row.empty()) expected[name].insert(expected[name].end(), row.begin(), row.end());
                    };
                    put("q", stage.q), put("k", stage.k), put("v", stage.v), put("g", stage.g), put("beta", stage.beta), put("o", stage.o);
                    put(kind == Kind::kFg2Plus ? "beta_k" : "b", stage.b), put(kind == Kind::kFg2Plus ? "beta_v" : "w", stage.w);
                }
            }
            EXPECT_EQ(dump.size(), expected.size()) << name_of(kind);
            for (const auto &[name, values] : expected) {
                ASSERT_TRUE(dump.count(name)) << name;
                const layer::Tensor &tensor = dump.at(name);
                ASSERT_EQ(tensor.shape.size(), 4u);
                EXPECT_EQ(tensor.shape[0], B);
                EXPECT_EQ(tensor.shape[1], T);
                EXPECT_EQ(static_cast<std::size_t>(B * T * tensor.shape[2] * tensor.shape[3]), values.size());
                expect_near(tensor.data, values, std::string(name_of(kind)) + " " + name);
            }
        }
    }
}

}  // namespace
