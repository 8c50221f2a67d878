// A layer's state as a file: all of it or nothing.
#include <cmath>

#include "layer_files.h"
#include "state.h"

namespace gdn_test {
namespace {

using layer::Config;
using layer::Kind;
using layer::State;

Config grouped() {
    Config config = small_config(Kind::kGdn2);
    config.num_v_heads = 4;
    config.expand_v = 1.5;
    return config;
}

State random_state(const Config &config, std::int64_t sequences) {
    State state = layer::zero_state(config, sequences);
    Random random(9);
    for (auto *part : {&state.recurrent, &state.conv_q, &state.conv_k, &state.conv_v}) {
        for (float &value : *part) value = static_cast<float>(random.normal());
    }
    return state;
}

void expect_equal(const State &a, const State &b) {
    EXPECT_EQ(a.sequences, b.sequences);
    const std::pair<const std::vector<float> &, const std::vector<float> &> parts[] = {
        {a.recurrent, b.recurrent}, {a.conv_q, b.conv_q}, {a.conv_k, b.conv_k}, {a.conv_v, b.conv_v}};
    for (const auto &[x, y] : parts) {
        ASSERT_EQ(x.size(), y.size());
        EXPECT_TRUE(x.empty() || std::memcmp(x.data(), y.data(), 4 * x.size()) == 0);
    }
}

TEST(StateFile, SizesFollowTheConfiguration) {
    const State state = layer::zero_state(grouped(), 3);
    EXPECT_EQ(state.sequences, 3);
    EXPECT_EQ(state.recurrent.size(), 3u * 4 * 8 * 12);
    EXPECT_EQ(state.conv_q.size(), 3u * 3 * 16);
    EXPECT_EQ(state.conv_k.size(), 3u * 3 * 16);
    EXPECT_EQ(state.conv_v.size(), 3u * 3 * 48);
    State other = random_state(grouped(), 2);
    other.reset();
    expect_equal(other, layer::zero_state(grouped(), 2));
    expect_refused([] { layer::zero_state(grouped(), -1); }, GDN_STATUS_INVALID_ARGUMENT, {"sequences: expected 0 or more, found -1"});
}

TEST(StateFile, SavedIsLoadedBitForBit) {
    const Folder folder;
    Config no_conv = grouped();
    no_conv.use_short_conv = false;
    for (const Config &config : {grouped(), no_conv, small_config(Kind::kGdn)}) {
        for (std::int64_t sequences : {0, 1, 3}) {
            State state = random_state(config, sequences);
            if (sequences == 3) {
                state.recurrent[0] = NAN;
                state.recurrent[1] = -0.0f;
                state.recurrent[2] = 1e-45f;
                state.recurrent[3] = -INFINITY;
            }
            state.save(folder / "s", config);
            expect_equal(State::load(folder / "s", config), state);
            EXPECT_EQ(folder.names(), std::vector<std::string>{"s"});
        }
    }
}

// What a state does not depend on may differ: widths of projections, mode, gates.
TEST(StateFile, OnlySizesMustAgree) {
    const Folder folder;
    const State state = random_state(grouped(), 2);
    state.save(folder / "s", grouped());
    Config other = grouped();
    other.hidden_size = 48;
    other.mode = layer::Mode::kFusedRecurrent;
    other.norm_eps = 1e-6;
    expect_equal(State::load(folder / "s", other), state);
}

TEST(StateFile, AnotherLayersStateIsRefused) {
    const Folder folder;
    random_state(grouped(), 2).save(folder / "s", grouped());
    const struct {
        std::function<void(Config &)> change;
        std::vector<std::string> says;
    } list[] = {
        {[](Config &c) { c.kind = Kind::kKda; }, {"kind", "kda", "found gdn2"}},
        {[](Config &c) { c.num_v_heads = 2; }, {"num_v_heads", "expected this layer's 2, found 4"}},
        {[](Config &c) { c.num_heads = 4; }, {"num_heads", "expected this layer's 4, found 2"}},
        {[](Config &c) { c.head_dim = 12, c.expand_v = 1; }, {"head_dim", "expected this layer's 12, found 8"}},
        {[](Config &c) { c.expand_v = 1; }, {"head_v_dim", "expected this layer's 8, found 12"}},
        {[](Config &c) { c.conv_size = 3; }, {"conv_size", "expected this layer's 3, found 4"}},
        {[](Config &c) { c.use_short_conv = false; }, {"conv_size", "expected this layer's 0, found 4"}},
    };
    for (const auto &bad : list) {
        Config config = grouped();
        bad.change(config);
        std::vector<std::string> says = bad.says;
        says.push_back(folder / "s");
        expect_refused([&] { State::load(folder / "s", config); }, GDN_STATUS_INVALID_ARGUMENT, says);
    }
}

TEST(StateFile, ForeignAndBrokenFilesAreRefused) {
    const Folder folder;
    const Config config = grouped();
    random_state(config, 2).save(folder / "s", config);
    const std::string whole = read_file(folder / "s");
    for (std::size_t size = 0; size < whole.size(); size += size < 2000 ? 41 : 997) {
        write_file(folder / "t", whole.substr(0, size));
        expect_refused([&] { State::load(folder / "t", config); }, GDN_STATUS_CORRUPT, {folder / "t"});
    }
    expect_refused([&] { State::load(folder / "nothing", config); }, GDN_STATUS_IO, {"cannot open"});
    layer::write_safetensors(folder / "t", layer::initialise(config, 1));
    expect_refused([&] { State::load(folder / "t", config); }, GDN_STATUS_CORRUPT, {"gdn-layer-state", "found format 'none'"});

    std::map<std::string, std::string> metadata;
    const layer::StateDict good = layer::read_safetensors(folder / "s", &metadata);
    const auto refused = [&](const layer::StateDict &tensors, const std::map<std::string, std::string> &about, gdn_status status,
                             std::vector<std::string> says) {
        layer::write_safetensors(folder / "t", tensors, about);
        expect_refused([&] { State::load(folder / "t", config); }, status, says);
    };
    std::map<std::string, std::string> other = metadata;
    other["version"] = "2";
    refused(good, other, GDN_STATUS_UNSUPPORTED, {"version 1", "found 2"});
    other = metadata;
    other.erase("head_dim");
    refused(good, other, GDN_STATUS_INVALID_ARGUMENT, {"head_dim", "found none"});
    for (const auto &[name, tensor] : good) {
        layer::StateDict tensors = good;
        tensors.erase(name);
        refused(tensors, metadata, GDN_STATUS_CORRUPT, {"tensor '"});
        tensors = good;
        tensors.at(name).shape = {static_cast<std::int64_t>(tensor.data.size())};
        refused(tensors, metadata, GDN_STATUS_CORRUPT, {"tensor '", "expected shape ["});
    }
    layer::StateDict tensors = good;
    tensors["more"] = {{1}, {0}};
    refused(tensors, metadata, GDN_STATUS_CORRUPT, {"tensor 'more'", "[1]"});
    tensors = good;
    tensors.at("conv_v") = {{3, 3, 48}, std::vector<float>(3 * 3 * 48)};  // a sequence more than the others
    refused(tensors, metadata, GDN_STATUS_CORRUPT, {"tensor 'conv_v'", "expected shape [2, 3, 48], found [3, 3, 48]"});
}

TEST(StateFile, AHalfStateIsNotSaved) {
    const Folder folder;
    State state = random_state(grouped(), 2);
    state.conv_k.pop_back();
    expect_refused(
        [&] { state.save(folder / "s", grouped()); }, GDN_STATUS_INVALID_ARGUMENT, {"state.conv_k", "expected 96 values", "found 95"});
    EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace gdn_test
