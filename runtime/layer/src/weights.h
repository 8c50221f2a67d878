// What a layer's weights are called and how large they are.
#pragma once
#include "gdn/layer.hpp"

namespace gdn::layer {

/// Heads that decay has: A_log and dt_bias follow the value heads for gdn and kda, the key heads for the others (method.md 1.8).
std::int64_t decay_heads(const Config &config);
/// Channels of a head's decay: 1 or K.
std::int64_t decay_channels(const Config &config);
std::int64_t decay_rank(const Config &config);
std::int64_t gate_rank(const Config &config);

/// Product of the extents; throws Error naming `name` where it is negative or does not fit.
std::int64_t elements(const std::vector<std::int64_t> &shape, const std::string &name);

/// Throws unless `dict` holds exactly weights(config), each of its shape and finite throughout (A_log may be -inf).
void check_weights(const Config &config, const StateDict &dict);

/// `name` begins with `prefix`.
bool is_under(const std::string &name, const std::string &prefix);

}  // namespace gdn::layer
