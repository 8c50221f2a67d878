// gdn run from outside: other implementations' layers, states between runs, refusals.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "program.h"
#include "support/metric.h"
#include "support/safetensors.h"

namespace gdn_test {
namespace {

using nlohmann::json;

/// float32 tensors (and "cu" as I64) in a file that another writer made.
void write_tensors(const std::string &path, const std::vector<std::pair<std::string, StoredTensor>> &tensors) {
    json header = json::object();
    std::string data;
    for (const auto &[name, tensor] : tensors) {
        const std::size_t begin = data.size();
        for (const double value : tensor.values) {
            if (tensor.dtype == "I64") {
                const auto integer = static_cast<std::int64_t>(value);
                data.append(reinterpret_cast<const char *>(&integer), 8);
            } else {
                const auto real = static_cast<float>(value);
                data.append(reinterpret_cast<const char *>(&real), 4);
            }
        }
        header[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
    }
    const std::string text = header.dump();
    const std::uint64_t size = text.size();
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char *>(&size), 8) << text << data;
}

class Run : public ::testing::Test {
protected:
    void SetUp() override {
        folder_ = ::testing::TempDir() + "gdn_run_" + std::to_string(getpid());
        std::filesystem::create_directories(folder_);
        write("gdn2.json", R"({"kind": "gdn2", "hidden_size": 24, "num_heads": 2, "head_dim": 8, "output_gate": "sigmoid"})");
        write("qwen.json", R"({"kind": "gdn", "hidden_size": 24, "num_heads": 2, "num_v_heads": 4, "head_dim": 8, "expand_v": 1.5,
                               "norm_eps": 1e-6})");
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    std::string at(const std::string &name) const { return folder_ + "/" + name; }
    void write(const std::string &name, const std::string &text) const { std::ofstream(at(name), std::ios::binary) << text; }
    std::string gdn2() const {
        return "run --config " + at("gdn2.json") + " --weights " + oracle("fla_layer_gdn2") + " --layout fla-gdn2 --prefix p. --output " +
               at("y");
    }
    std::string qwen() const {
        return "run --config " + at("qwen.json") + " --weights " + oracle("hf_qwen3_next_gated_delta_net") +
               " --layout qwen3-next --prefix p. --output " + at("y");
    }
    static std::string oracle(const std::string &name) { return GDN_TEST_DATA_DIR "/oracles/" + name + ".safetensors"; }

    json object(const std::string &arguments) const {
        const Outcome outcome = gdn(arguments);
        EXPECT_EQ(outcome.code, 0) << arguments << "\n" << outcome.err;
        EXPECT_EQ(outcome.err, "");
        json value = json::parse(outcome.out, nullptr, false);
        return value.is_object() ? value : json::object();
    }
    void refused(const std::string &arguments, int code, const std::vector<std::string> &parts) const {
        const Outcome outcome = gdn(arguments);
        EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.err;
        EXPECT_EQ(outcome.out, "") << arguments;
        for (const std::string &part : parts)
            EXPECT_NE(outcome.err.find(part), std::string::npos) << "no " << part << " in " << outcome.err;
        EXPECT_FALSE(std::filesystem::exists(at("y"))) << arguments;
    }
    void expect_y(const std::vector<double> &expected, const std::vector<double> &weight = {}) const {
        const StoredTensors file = read_safetensors(at("y"));
        ASSERT_EQ(file.count("y"), 1u);
        const std::vector<double> &y = file.at("y").values;
        ASSERT_EQ(y.size(), expected.size());
        ErrorSum sum;
        for (std::size_t i = 0; i < y.size(); i++)
            if (weight.empty() || weight[i / 24] != 0) sum.add(y[i], expected[i]);
        EXPECT_TRUE(sum.error().within(kBoundF32)) << sum.error().rms;
    }

    std::string folder_;
};

TEST_F(Run, AnotherImplementationsLayer) {
    const StoredTensors file = read_safetensors(oracle("fla_layer_gdn2"));
    const std::string input = " --input " + oracle("fla_layer_gdn2");
    for (const char *mode : {"", " --mode chunk", " --mode fused_recurrent --threads 2"}) {
        json value = object(gdn2() + input + mode + " --json");
        EXPECT_EQ(value["shape"], json({1, 19, 24}));
        EXPECT_EQ(value["sequences"], 1);
        EXPECT_EQ(value["mode"], std::strstr(mode, "fused") ? "fused_recurrent" : "chunk");
        EXPECT_GT(value["parameters"].get<int>(), 1000);
        expect_y(file.at("y").values);
    }
    EXPECT_NE(gdn(gdn2() + input).out.find("1 sequence, mode chunk"), std::string::npos);
}

TEST_F(Run, PackedAndPadded) {
    const StoredTensors gdn2_file = read_safetensors(oracle("fla_layer_gdn2"));
    write_tensors(at("x"), {{"tokens", gdn2_file.at("x")}, {"cu", {"I64", {4}, {0, 4, 5, 19}}}});
    json value = object(gdn2() + " --input " + at("x") + " --tensor tokens --cu-seqlens cu --json");
    EXPECT_EQ(value["sequences"], 3);
    expect_y(gdn2_file.at("y_varlen_0_4_5_19").values);

    const StoredTensors file = read_safetensors(oracle("hf_qwen3_next_gated_delta_net"));
    const std::string input = " --input " + oracle("hf_qwen3_next_gated_delta_net");
    object(qwen() + input + " --json");
    expect_y(file.at("y").values);
    object(qwen() + input + " --mask mask --json");
    expect_y(file.at("y_left_padded").values, file.at("mask").values);
}

TEST_F(Run, StatesGoOn) {
    const StoredTensors file = read_safetensors(oracle("fla_layer_gdn2"));
    const std::vector<double> &x = file.at("x").values, &y = file.at("y").values;
    const auto part = [](const std::vector<double> &rows, std::ptrdiff_t first, std::ptrdiff_t count) {
        return std::vector<double>(rows.begin() + first * 24, rows.begin() + (first + count) * 24);
    };
    write_tensors(at("a"), {{"x", {"F32", {1, 11, 24}, part(x, 0, 11)}}});
    write_tensors(at("b"), {{"x", {"F32", {8, 24}, part(x, 11, 8)}}});
    object(gdn2() + " --input " + at("a") + " --state-out " + at("s") + " --json");
    expect_y(part(y, 0, 11));
    json value = object(gdn2() + " --input " + at("b") + " --state-in " + at("s") + " --state-out " + at("s") + " --json");  // onto itself
    EXPECT_EQ(value["state_in"], at("s"));
    expect_y(part(y, 11, 8));
    std::filesystem::remove(at("y"));
    refused(qwen() + " --input " + oracle("hf_qwen3_next_gated_delta_net") + " --state-in " + at("s"), 1, {});
}

TEST_F(Run, HelpSaysWhatItDoes) {
    const Outcome outcome = gdn("run --help");
    EXPECT_EQ(outcome.code, 0);
    for (const char *word : {"Examples:", "--state-in", "--state-out", "--mask", "--cu-seqlens", "qwen3-next", "BLAS"})
        EXPECT_NE(outcome.out.find(word), std::string::npos) << word;
    EXPECT_NE(gdn("--help").out.find("Run a layer"), std::string::npos);
}

TEST_F(Run, OutputsReplaceNothingThatIsRead) {
    const StoredTensors file = read_safetensors(oracle("fla_layer_gdn2"));
    write_tensors(at("w"), std::vector<std::pair<std::string, StoredTensor>>(file.begin(), file.end()));
    write_tensors(at("x"), {{"x", file.at("x")}});
    std::filesystem::create_directory(at("folder"));
    std::filesystem::create_symlink(at("x"), at("link"));
    const auto bytes = [&](const std::string &name) {
        std::ifstream stream(at(name), std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(stream), {});
    };
    const std::string w = bytes("w"), x = bytes("x"), config = bytes("gdn2.json");
    const std::string reads =
        "run --config " + at("gdn2.json") + " --weights " + at("w") + " --layout fla-gdn2 --prefix p. --input " + at("x") + " --output ";
    refused(reads + at("y") + " --state-out " + at("folder") + "/../y", 2, {"--output", "--state-out"});
    refused(reads + at("x"), 2, {"--output", "--input"});
    refused(reads + at("link"), 2, {"--output", "--input"});
    refused(reads + at("folder") + "/../w", 2, {"--output", "--weights"});
    refused(reads + at("gdn2.json"), 2, {"--output", "--config"});
    refused(reads + at("y") + " --state-out " + at("x"), 2, {"--state-out", "--input"});
    refused(reads + at("y") + " --state-out " + at("w"), 2, {"--state-out", "--weights"});
    refused(reads + at("folder"), 2, {"--output", "is a directory"});
    refused(reads + at("y") + " --state-out " + at("folder"), 2, {"--state-out", "is a directory"});
    EXPECT_TRUE(bytes("w") == w && bytes("x") == x && bytes("gdn2.json") == config);

    object(reads + at("y") + " --state-out " + at("s") + " --json");
    const std::string s = bytes("s");
    std::filesystem::remove(at("y"));
    refused(reads + at("s") + " --state-in " + at("s"), 2, {"--output", "--state-in"});
    EXPECT_EQ(bytes("s"), s);
}

TEST_F(Run, RefusalsSayWhatIsWrong) {
    const std::string input = " --input " + oracle("fla_layer_gdn2");
    refused("run", 2, {"--config"});
    refused(gdn2(), 2, {"--input"});
    refused(gdn2() + input + " --mode slow", 2, {"--mode"});
    refused(gdn2() + input + " --mask a --cu-seqlens b", 2, {"--mask"});
    refused(gdn2() + " --input " + at("none"), 2, {"none"});
    refused(gdn2() + input + " --target z80", 3, {"z80"});
    refused(gdn2() + input + " --tensor nothing", 1, {"no tensor 'nothing'"});
    refused(gdn2() + input + " --tensor p.A_log", 1, {"p.A_log", "[B, T, 24]", "[2]"});
    refused(gdn2() + input + " --mask x", 1, {"'x'", "[1, 19]"});
    refused("run --config " + at("qwen.json") + " --weights " + oracle("fla_layer_gdn2") + " --prefix p. --output " + at("y") + input, 1,
        {"fla_layer_gdn2", "tensor"});
    StoredTensors file = read_safetensors(oracle("fla_layer_gdn2"));
    file.at("p.k_proj.weight").values[3] = std::nan("");
    write_tensors(at("w"), std::vector<std::pair<std::string, StoredTensor>>(file.begin(), file.end()));
    refused("run --config " + at("gdn2.json") + " --weights " + at("w") + " --layout fla-gdn2 --prefix p. --output " + at("y") + input, 1,
        {"k_proj.weight", "finite"});
    write("bad.json", R"({"kind": "gdn2", "output_gate": "silu", "nonsense": 1})");
    refused("run --config " + at("bad.json") + " --weights " + oracle("fla_layer_gdn2") + " --output " + at("y") + input, 1, {"nonsense"});
    refused(gdn2() + input + " --state-in " + at("gdn2.json"), 1, {"gdn2.json"});
}

}  // namespace
}  // namespace gdn_test
