// Helpers of the tests of the layer's files: configurations, random weights, refusals, a folder of its own.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "../support/random.h"
#include "gdn/layer.hpp"

namespace gdn_test {

namespace layer = gdn::layer;

/// A refusal: its code, and that its text has every one of `parts`.
inline void expect_refused(const std::function<void()> &call, gdn_status status, const std::vector<std::string> &parts) {
    try {
        call();
        ADD_FAILURE() << "accepted; expected a refusal with " << ::testing::PrintToString(parts);
    } catch (const layer::Error &error) {
        const std::string text = error.what();
        EXPECT_EQ(error.status(), status) << text;
        for (const std::string &part : parts) EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in: " << text;
    }
}

inline layer::StateDict random_weights(const layer::Config &config, std::uint64_t seed) {
    Random random(seed);
    layer::StateDict dict;
    for (const layer::TensorSpec &spec : layer::weights(config)) {
        std::int64_t count = 1;
        for (std::int64_t extent : spec.shape) count *= extent;
        layer::Tensor &tensor = dict[spec.name];
        tensor.shape = spec.shape;
        for (std::int64_t i = 0; i < count; i++) tensor.data.push_back(static_cast<float>(random.normal()));
    }
    return dict;
}

/// The same names, shapes and bits.
inline void expect_same(const layer::StateDict &given, const layer::StateDict &expected) {
    EXPECT_EQ(given.size(), expected.size());
    for (const auto &[name, tensor] : expected) {
        const auto found = given.find(name);
        ASSERT_NE(found, given.end()) << name;
        EXPECT_EQ(found->second.shape, tensor.shape) << name;
        ASSERT_EQ(found->second.data.size(), tensor.data.size()) << name;
        const std::size_t bytes = 4 * tensor.data.size();
        EXPECT_TRUE(bytes == 0 || std::memcmp(found->second.data.data(), tensor.data.data(), bytes) == 0) << name;
    }
}

inline std::string read_file(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
}
inline void write_file(const std::string &path, const std::string &bytes) { std::ofstream(path, std::ios::binary) << bytes; }

/// A folder that is there while the test is.
class Folder {
public:
    Folder() : path_(::testing::TempDir() + "gdn_layer_" + std::to_string(getpid()) + "_" + std::to_string(counter_++)) {
        std::filesystem::create_directories(path_);
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    Folder(const Folder &) = delete;
    Folder &operator=(const Folder &) = delete;

    std::string operator/(const std::string &name) const { return path_ + "/" + name; }
    std::vector<std::string> names() const {
        std::vector<std::string> list;
        for (const auto &entry : std::filesystem::directory_iterator(path_)) list.push_back(entry.path().filename().string());
        return list;
    }

private:
    std::string path_;
    static inline int counter_ = 0;
};

/// 24 wide, 2 heads of 8: the oracles' sizes.
inline layer::Config small_config(layer::Kind kind) {
    layer::Config config = layer::Config::defaults(kind);
    config.hidden_size = 24;
    config.num_heads = 2;
    config.head_dim = 8;
    if (config.output_gate == layer::OutputGate::kUnspecified) config.output_gate = layer::OutputGate::kSigmoid;
    return config;
}

}  // namespace gdn_test
