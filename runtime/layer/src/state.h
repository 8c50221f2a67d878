// Sizes of a layer's state.
#pragma once
#include "gdn/layer.hpp"

namespace gdn::layer {

/// N sequences at their start: every part of its size for this configuration, all zeros.
State zero_state(const Config &config, std::int64_t sequences);

/// Throws, naming the part, unless every part of `state` has the size of state.sequences sequences of this configuration.
void check_state(const Config &config, const State &state);

}  // namespace gdn::layer
