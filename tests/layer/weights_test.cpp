// Names, shapes and counts of weights (method.md 1.10), and how they start.
#include <cmath>
#include <map>

#include "layer_files.h"

namespace gdn_test {
namespace {

using layer::Config;
using layer::Init;
using layer::Kind;
using layer::OutputGate;

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

Shapes shapes(const Config &config) {
    Shapes map;
    for (const layer::TensorSpec &spec : layer::weights(config)) EXPECT_TRUE(map.emplace(spec.name, spec.shape).second) << spec.name;
    return map;
}

// 24 wide, 2 key heads and 4 value heads of 8 x 12, convolution of 3
Config grouped(Kind kind) {
    Config config = small_config(kind);
    config.num_v_heads = 4;
    config.expand_v = 1.5;
    config.conv_size = 3;
    return config;
}

TEST(Weights, OfGroupedHeads) {
    const Shapes shared = {{"q_proj.weight", {16, 24}}, {"k_proj.weight", {16, 24}}, {"v_proj.weight", {48, 24}},
        {"q_conv1d.weight", {16, 1, 3}}, {"k_conv1d.weight", {16, 1, 3}}, {"v_conv1d.weight", {48, 1, 3}}, {"o_norm.weight", {12}},
        {"o_proj.weight", {24, 48}}};
    const auto with = [&](Shapes own) {
        own.insert(shared.begin(), shared.end());
        return own;
    };
    EXPECT_EQ(shapes(grouped(Kind::kGdn)),
        with({{"a_proj.weight", {4, 24}}, {"b_proj.weight", {4, 24}}, {"A_log", {4}}, {"dt_bias", {4}}, {"g_proj.weight", {48, 24}}}));
    const Shapes gate = {
        {"g_proj.0.weight", {12, 24}}, {"g_proj.1.weight", {48, 12}}, {"g_proj.1.bias", {48}}, {"f_proj.0.weight", {12, 24}}};
    Shapes kda = with({{"b_proj.weight", {4, 24}}, {"f_proj.1.weight", {32, 12}}, {"A_log", {4}}, {"dt_bias", {32}}});
    kda.insert(gate.begin(), gate.end());
    EXPECT_EQ(shapes(grouped(Kind::kKda)), kda);
    Shapes gdn2 =
        with({{"b_proj.weight", {16, 24}}, {"w_proj.weight", {48, 24}}, {"f_proj.1.weight", {16, 12}}, {"A_log", {2}}, {"dt_bias", {16}}});
    gdn2.insert(gate.begin(), gate.end());
    EXPECT_EQ(shapes(grouped(Kind::kGdn2)), gdn2);
}

TEST(Weights, OfFg2) {
    const Shapes fg2 = shapes(small_config(Kind::kFg2));
    EXPECT_EQ(fg2.at("b_proj.weight"), (std::vector<std::int64_t>{16, 24}));
    EXPECT_EQ(fg2.count("w_proj.weight"), 0u);
    EXPECT_EQ(fg2.count("g_proj.1.bias"), 0u);
    Config config = small_config(Kind::kFg2Plus);
    config.expand_v = 2;
    const Shapes plus = shapes(config);
    EXPECT_EQ(plus.at("b_proj.weight"), (std::vector<std::int64_t>{16, 24}));
    EXPECT_EQ(plus.at("w_proj.weight"), (std::vector<std::int64_t>{32, 24}));
    EXPECT_EQ(plus.at("dt_bias"), (std::vector<std::int64_t>{16}));
}

TEST(Weights, FollowTheirFlags) {
    Config config = small_config(Kind::kKda);
    config.use_short_conv = false;
    config.output_gate = OutputGate::kNone;
    config.decay_rank = 5;
    Shapes map = shapes(config);
    for (const auto &[name, shape] : map) {
        EXPECT_EQ(name.find("conv1d"), std::string::npos) << name;
        EXPECT_EQ(name.find("g_proj"), std::string::npos) << name;
    }
    EXPECT_EQ(map.at("f_proj.0.weight"), (std::vector<std::int64_t>{5, 24}));
    EXPECT_EQ(map.at("f_proj.1.weight"), (std::vector<std::int64_t>{16, 5}));
    config = small_config(Kind::kKda);
    config.conv_bias = true;
    config.gate_rank = 3;
    map = shapes(config);
    EXPECT_EQ(map.at("v_conv1d.bias"), (std::vector<std::int64_t>{16}));
    EXPECT_EQ(map.at("g_proj.1.weight"), (std::vector<std::int64_t>{16, 3}));
}

// NVIDIA's 1.3 B model counts 18 of these (method.md 1.10).
TEST(Weights, Gdn2Has29454480Parameters) {
    Config config;
    config.hidden_size = 2304;
    config.output_gate = OutputGate::kSilu;
    EXPECT_EQ(layer::parameter_count(config), 29454480);
    EXPECT_EQ(18 * (layer::parameter_count(config) + 42909696 + 4608), 1302638112);
}

struct Statistics {
    double mean = 0, deviation = 0, low = INFINITY, high = -INFINITY;
};
Statistics statistics(const std::vector<float> &values, double (*of)(double)) {
    Statistics s;
    double square = 0;
    for (float value : values) {
        const double x = of(value);
        s.mean += x;
        square += x * x;
        s.low = std::fmin(s.low, x);
        s.high = std::fmax(s.high, x);
    }
    const double n = static_cast<double>(values.size());
    s.mean /= n;
    s.deviation = std::sqrt(square / n - s.mean * s.mean);
    return s;
}
double same(double x) { return x; }

// Uniform on [low, high]: inside, nearly filling it, with mean and deviation as they should be.
void expect_uniform(const Statistics &s, double low, double high, std::size_t n) {
    const double width = high - low, error = 4 / std::sqrt(static_cast<double>(n));
    EXPECT_GE(s.low, low - 1e-6 * width);
    EXPECT_LE(s.high, high + 1e-6 * width);
    EXPECT_NEAR(s.low, low, 16 * width / static_cast<double>(n));
    EXPECT_NEAR(s.high, high, 16 * width / static_cast<double>(n));
    EXPECT_NEAR(s.mean, (low + high) / 2, error * width);
    EXPECT_NEAR(s.deviation, width / std::sqrt(12), error * width);
}

Config wide(Kind kind) {
    Config config = small_config(kind);
    config.hidden_size = 96;
    config.num_heads = 512;
    config.expand_v = 1;
    return config;
}

TEST(Init, DecayStartsAsEachRuleWants) {
    for (Kind kind : {Kind::kGdn, Kind::kKda, Kind::kGdn2, Kind::kFg2, Kind::kFg2Plus}) {
        SCOPED_TRACE(static_cast<int>(kind));
        for (Init init : {Init::kFla, Init::kNv}) {
            const layer::StateDict dict = layer::initialise(wide(kind), 5, init);
            const std::vector<float> &A_log = dict.at("A_log").data, &dt_bias = dict.at("dt_bias").data;
            expect_uniform(statistics(A_log, std::exp), kind == Kind::kGdn ? 0 : 1, 16, A_log.size());
            EXPECT_GE(statistics(A_log, std::exp).low, kind == Kind::kGdn ? 0.99e-4 : 0.9999);
            // log(softplus(dt_bias)) is uniform between log 1e-3 and log 1e-1
            expect_uniform(statistics(dt_bias, [](double x) { return std::log(std::log1p(std::exp(x))); }), std::log(1e-3), std::log(1e-1),
                dt_bias.size());
        }
        Config config = wide(kind);
        config.decay = layer::DecayGate::kLowerBound;
        const layer::StateDict bounded = layer::initialise(config, 5);
        for (float value : bounded.at("A_log").data) ASSERT_EQ(value, 0.0f);
    }
}

TEST(Init, MatricesFollowTheirRule) {
    Config config = wide(Kind::kGdn2);
    config.conv_bias = true;
    for (Init init : {Init::kFla, Init::kNv}) {
        const layer::StateDict dict = layer::initialise(config, 6, init);
        for (const auto &[name, tensor] : dict) {
            SCOPED_TRACE(name);
            const Statistics s = statistics(tensor.data, same);
            const std::size_t n = tensor.data.size();
            if (name == "A_log" || name == "dt_bias") continue;
            if (name == "o_norm.weight") {
                EXPECT_EQ(s.low, 1);
                EXPECT_EQ(s.high, 1);
            } else if (name == "g_proj.1.bias") {
                EXPECT_EQ(s.low, 0);
                EXPECT_EQ(s.high, 0);
            } else if (name.find("conv1d") != std::string::npos) {
                expect_uniform(s, -0.5, 0.5, n);
            } else if (init == Init::kFla) {
                const double error = 4 / std::sqrt(static_cast<double>(n));
                EXPECT_NEAR(s.mean, 0, 0.02 * error);
                EXPECT_NEAR(s.deviation, 0.02, 0.02 * error);
                if (n > 100000) {
                    // Normal, not something else of that deviation: shares within one and two deviations
                    double one = 0, two = 0;
                    for (float x : tensor.data) {
                        one += std::abs(x) < 0.02;
                        two += std::abs(x) < 0.04;
                    }
                    EXPECT_NEAR(one / static_cast<double>(n), 0.682689, error);
                    EXPECT_NEAR(two / static_cast<double>(n), 0.954500, error);
                    EXPECT_GT(s.high, 0.07);
                }
            } else {
                const double bound = std::exp2(-2.5) * std::sqrt(6.0 / static_cast<double>(tensor.shape[0] + tensor.shape[1]));
                expect_uniform(s, -bound, bound, n);
            }
        }
    }
}

std::uint64_t hash(const layer::StateDict &dict) {
    std::uint64_t h = 0xcbf29ce484222325;
    for (const auto &[name, tensor] : dict) {
        for (float value : tensor.data) {
            std::uint32_t bits;
            std::memcpy(&bits, &value, 4);
            for (int i = 0; i < 32; i += 8) h = (h ^ (bits >> i & 255)) * 0x100000001b3;
        }
    }
    return h;
}

// The same bits whatever the compiler, the C library and the machine: a seed in a paper means something. Never change these.
TEST(Init, ASeedIsTheSameWeightsForEver) {
    EXPECT_EQ(hash(layer::initialise(wide(Kind::kGdn2), 1, Init::kFla)), 7552332163630841804u);
    EXPECT_EQ(hash(layer::initialise(wide(Kind::kGdn), 2, Init::kNv)), 2414049155347956215u);
}

TEST(Init, SeedsAndTensorsDiffer) {
    const Config config = small_config(Kind::kGdn2);
    const layer::StateDict one = layer::initialise(config, 1), two = layer::initialise(config, 2);
    expect_same(layer::initialise(config, 1), one);
    for (const char *name : {"q_proj.weight", "A_log", "dt_bias", "q_conv1d.weight"})
        EXPECT_NE(one.at(name).data, two.at(name).data) << name;
    EXPECT_NE(one.at("q_proj.weight").data, one.at("k_proj.weight").data);
    // A tensor does not depend on which others there are.
    Config other = config;
    other.use_short_conv = false;
    EXPECT_EQ(layer::initialise(other, 1).at("o_proj.weight").data, one.at("o_proj.weight").data);
}

}  // namespace
}  // namespace gdn_test
