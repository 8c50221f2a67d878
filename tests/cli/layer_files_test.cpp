// gdn init and gdn convert from outside.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "program.h"
#include "support/safetensors.h"

namespace gdn_test {
namespace {

using nlohmann::json;

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

std::string content(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
}

class LayerFiles : public ::testing::Test {
protected:
    void SetUp() override {
        folder_ = ::testing::TempDir() + "gdn_layer_cli_" + std::to_string(getpid());
        std::filesystem::create_directories(folder_);
        write("kda.json", R"({"kind": "kda", "hidden_size": 24, "num_heads": 2, "head_dim": 8})");
        write("kimi.json", R"({"kind": "kda", "hidden_size": 24, "num_heads": 3, "head_dim": 8, "output_gate_bias": false})");
        write("qwen.json", R"({"kind": "gdn", "hidden_size": 24, "num_heads": 2, "num_v_heads": 4, "head_dim": 8, "expand_v": 1.5})");
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    std::string at(const std::string &name) const { return folder_ + "/" + name; }
    void write(const std::string &name, const std::string &text) const { std::ofstream(at(name), std::ios::binary) << text; }
    std::string oracle(const std::string &name) const { return GDN_TEST_DATA_DIR "/oracles/" + name + ".safetensors"; }

    json object(const std::string &arguments) const {
        const Outcome outcome = gdn(arguments);
        EXPECT_EQ(outcome.code, 0) << arguments << "\n" << outcome.err;
        EXPECT_EQ(outcome.err, "");
        json value = json::parse(outcome.out, nullptr, false);
        EXPECT_TRUE(value.is_object()) << outcome.out;
        return value.is_object() ? value : json::object();
    }
    /// Exit code, and that stderr says every one of `parts` and stdout nothing.
    void refused(const std::string &arguments, int code, const std::vector<std::string> &parts) const {
        const Outcome outcome = gdn(arguments);
        EXPECT_EQ(outcome.code, code) << arguments;
        EXPECT_EQ(outcome.out, "") << arguments;
        for (const std::string &part : parts)
            EXPECT_TRUE(contains(outcome.err, part)) << arguments << ": no " << part << " in " << outcome.err;
    }

    std::string folder_;
};

TEST_F(LayerFiles, HelpHasExamplesAndEveryLayout) {
    for (const char *command : {"init", "convert"}) {
        const Outcome outcome = gdn(std::string(command) + " --help");
        EXPECT_EQ(outcome.code, 0);
        EXPECT_TRUE(contains(outcome.out, "Examples:"));
        for (const char *layout : {"fla-gdn2", "nv-gdn2", "fla-gdn", "fla-kda", "kimi-linear", "kimi-linear-fused", "fg2", "qwen3-next"})
            EXPECT_TRUE(contains(outcome.out, layout)) << layout;
        EXPECT_TRUE(contains(gdn("--help").out, command));
    }
}

TEST_F(LayerFiles, InitIsASeedsFile) {
    json value = object("init --config " + at("kda.json") + " --seed 3 --output " + at("a") + " --json");
    EXPECT_EQ(value["seed"], 3);
    EXPECT_EQ(value["layout"], "gdn");
    EXPECT_EQ(value["init"], "fla");
    EXPECT_EQ(value["tensors"], 16);
    EXPECT_EQ(value["config"]["output_gate"], "sigmoid");
    std::int64_t count = 0;
    for (const auto &[name, tensor] : read_safetensors(at("a"))) count += static_cast<std::int64_t>(tensor.values.size());
    EXPECT_EQ(value["parameters"], count);

    EXPECT_TRUE(
        contains(gdn("init --config " + at("kda.json") + " --seed 3 --output " + at("b")).out, "16 tensors, layout gdn, init fla, seed 3"));
    EXPECT_EQ(content(at("a")), content(at("b")));
    object("init --config " + at("kda.json") + " --seed 4 --output " + at("b") + " --json");
    EXPECT_NE(content(at("a")), content(at("b")));
    object("init --config " + at("kda.json") + " --seed 3 --init nv --output " + at("b") + " --json");
    EXPECT_NE(content(at("a")), content(at("b")));
    object("init --config " + at("kimi.json") + " --layout kimi-linear-fused --output-prefix m. --output " + at("b") + " --json");
    EXPECT_EQ(read_safetensors(at("b")).count("m.forget_gate.A_log"), 1u);
}

TEST_F(LayerFiles, ConvertGoesThereAndBack) {
    const std::string config = " --config " + at("kda.json");
    object("init" + config + " --seed 5 --layout fla-kda --output " + at("a") + " --json");
    json value =
        object("convert" + config + " --from fla-kda --to gdn --input " + at("a") + " --output " + at("b") + " --output-prefix x. --json");
    EXPECT_EQ(value["tensors"], 16);
    EXPECT_EQ(value["to"], "gdn");
    object("convert" + config + " --from gdn --to fla-kda --prefix x. --input " + at("b") + " --output " + at("b") +
           " --json");  // onto itself
    const StoredTensors a = read_safetensors(at("a")), b = read_safetensors(at("b"));
    ASSERT_EQ(a.size(), b.size());
    for (const auto &[name, tensor] : a) EXPECT_EQ(tensor.values, b.at(name).values) << name;
}

TEST_F(LayerFiles, ConvertReadsWhatOthersWrote) {
    object("convert --config " + at("qwen.json") + " --from qwen3-next --to gdn --prefix p. --input " +
           oracle("hf_qwen3_next_gated_delta_net") + " --output " + at("a") + " --json");
    EXPECT_EQ(read_safetensors(at("a")).at("g_proj.weight").shape, (std::vector<std::int64_t>{48, 24}));
    object("convert --config " + at("kimi.json") + " --from kimi-linear-fused --to kimi-linear --prefix p. --input " +
           oracle("hf_kimi_linear_delta_attention") + " --output " + at("a") + " --json");
    EXPECT_EQ(read_safetensors(at("a")).at("k_conv1d.weight").shape, (std::vector<std::int64_t>{24, 1, 4}));
}

TEST_F(LayerFiles, UsageIsTwo) {
    const std::string config = " --config " + at("kda.json"), output = " --output " + at("a");
    refused("init", 2, {"--config"});
    refused("init" + config, 2, {"--output"});
    refused("init --config " + at("nothing.json") + output, 2, {"nothing.json"});
    refused("init" + config + output + " --seed -1", 2, {"--seed"});
    refused("init" + config + output + " --init xavier", 2, {"xavier"});
    refused("init" + config + output + " --layout kimi", 2, {"kimi"});
    refused("convert" + config + output + " --from gdn --to gdn", 2, {"--input"});
    refused("convert" + config + output + " --from gdn --to gdn --input " + at("nothing"), 2, {"nothing"});
    EXPECT_FALSE(std::filesystem::exists(at("a")));
}

TEST_F(LayerFiles, WhatIsWrongInsideIsOneAndNamed) {
    const std::string output = " --output " + at("a");
    write("bad.json", R"({"kind": "fg2", "num_v_heads": 32})");
    refused("init --config " + at("bad.json") + output, 1, {at("bad.json") + ": num_v_heads: ", "found 32"});
    write("bad.json", R"({"kind": "kda", "heads": 3})");
    refused("init --config " + at("bad.json") + output, 1, {"unknown field 'heads'"});
    refused("init --config " + at("kda.json") + " --layout kimi-linear" + output, 1,
        {"layout 'kimi-linear' cannot express this configuration", "output_gate_bias"});
    refused("init --config " + at("kda.json") + " --output " + at("no/folder"), 1, {at("no/folder"), "cannot create"});
    write("noise", "this is no safetensors file");
    const std::string convert = "convert --config " + at("kda.json") + " --from fla-kda --to gdn" + output;
    refused(convert + " --input " + at("noise"), 1, {at("noise") + ": "});
    refused(convert + " --input " + oracle("fla_layer_kda"), 1,
        {"fla_layer_kda.safetensors: tensor 'q_proj.weight'", "no such tensor"});  // no prefix
    refused(convert + " --prefix p. --input " + oracle("fla_layer_gdn2"), 1,
        {"tensor 'p.b_proj.weight'", "expected shape [2, 24]", "found [16, 24]"});
    EXPECT_FALSE(std::filesystem::exists(at("a")));
    EXPECT_EQ(gdn(convert + " --prefix p. --input " + oracle("fla_layer_kda")).code, 0);
}

}  // namespace
}  // namespace gdn_test
