#include "state.h"

#include <algorithm>
#include <new>

#include "fail.h"
#include "names.h"
#include "weights.h"

namespace gdn::layer {
namespace {

constexpr const char *kFormat = "gdn-layer-state";
constexpr const char *kVersion = "1";

struct Part {
    const char *name;
    std::vector<float> State::*values;
    std::vector<std::int64_t> shape;
};

std::vector<Part> parts(const Config &config, std::int64_t sequences) {
    const std::int64_t K = config.key_dim(), V = config.value_dim(), rows = config.use_short_conv ? config.conv_size - 1 : 0;
    const std::int64_t keys = config.num_heads * K, values = config.value_heads() * V;
    return {{"recurrent", &State::recurrent, {sequences, config.value_heads(), K, V}}, {"conv_q", &State::conv_q, {sequences, rows, keys}},
        {"conv_k", &State::conv_k, {sequences, rows, keys}}, {"conv_v", &State::conv_v, {sequences, rows, values}}};
}

/// What two layers must share to take each other's states.
std::map<std::string, std::string> identity(const Config &config) {
    return {{"format", kFormat}, {"version", kVersion}, {"kind", text_of(config.kind)}, {"num_heads", std::to_string(config.num_heads)},
        {"num_v_heads", std::to_string(config.value_heads())}, {"head_dim", std::to_string(config.key_dim())},
        {"head_v_dim", std::to_string(config.value_dim())}, {"conv_size", std::to_string(config.use_short_conv ? config.conv_size : 0)}};
}

void require_sequences(std::int64_t sequences) {
    if (sequences < 0) fail_field("sequences", "0 or more", std::to_string(sequences));
}

}  // namespace

State zero_state(const Config &config, std::int64_t sequences) {
    config.validate();
    require_sequences(sequences);
    State state;
    state.sequences = sequences;
    try {
        for (const Part &part : parts(config, sequences))
            (state.*part.values).assign(static_cast<std::size_t>(elements(part.shape, part.name)), 0.0f);
    } catch (const std::exception &error) {
        if (dynamic_cast<const Error *>(&error)) throw;
        fail(GDN_STATUS_OUT_OF_MEMORY, "state: expected memory for " + std::to_string(sequences) + " sequences, found too little");
    }
    return state;
}

void check_state(const Config &config, const State &state) {
    config.validate();
    require_sequences(state.sequences);
    for (const Part &part : parts(config, state.sequences)) {
        const std::int64_t expected = elements(part.shape, part.name), found = static_cast<std::int64_t>((state.*part.values).size());
        if (found != expected)
            fail_field(
                std::string("state.") + part.name, std::to_string(expected) + " values for " + text_of(part.shape), std::to_string(found));
    }
}

void State::reset() {
    for (std::vector<float> *part : {&recurrent, &conv_q, &conv_k, &conv_v}) std::fill(part->begin(), part->end(), 0.0f);
}

void State::save(const std::string &path, const Config &config) const {
    check_state(config, *this);
    StateDict tensors;
    for (const Part &part : parts(config, sequences)) tensors[part.name] = {part.shape, this->*part.values};
    write_safetensors(path, tensors, identity(config));
}

State State::load(const std::string &path, const Config &config) {
    config.validate();
    std::map<std::string, std::string> metadata;
    StateDict tensors = read_safetensors(path, &metadata);
    const auto said = [&](const std::string &name) {
        const auto found = metadata.find(name);
        return found == metadata.end() ? std::string("none") : found->second;
    };
    if (said("format") != kFormat)
        fail(GDN_STATUS_CORRUPT, path + ": expected a layer's state (format '" + kFormat + "'), found format '" + said("format") + "'");
    if (said("version") != kVersion)
        fail(GDN_STATUS_UNSUPPORTED, path + ": expected version " + kVersion + " of a layer's state, found " + said("version"));
    for (const auto &[name, expected] : identity(config)) {
        if (said(name) != expected)
            fail(GDN_STATUS_INVALID_ARGUMENT, path + ": " + name + ": expected this layer's " + expected + ", found " + said(name));
    }

    State state;
    const auto recurrent = tensors.find("recurrent");
    if (recurrent != tensors.end() && !recurrent->second.shape.empty()) state.sequences = recurrent->second.shape[0];
    const std::vector<Part> expected = parts(config, state.sequences);
    for (const Part &part : expected) {
        const auto found = tensors.find(part.name);
        if (found == tensors.end() || found->second.shape != part.shape)
            fail(GDN_STATUS_CORRUPT, path + ": tensor '" + part.name + "': expected shape " + text_of(part.shape) + ", found " +
                                         (found == tensors.end() ? "no such tensor" : text_of(found->second.shape)));
        state.*part.values = std::move(found->second.data);
    }
    for (const auto &entry : tensors) {
        if (std::none_of(expected.begin(), expected.end(), [&](const Part &part) { return entry.first == part.name; }))
            fail(GDN_STATUS_CORRUPT,
                path + ": tensor '" + entry.first + "': expected no such tensor in a state, found shape " + text_of(entry.second.shape));
    }
    return state;
}

}  // namespace gdn::layer
