// The safetensors format: 8 bytes header length (little-endian), a JSON header, the tensors' bytes.
#pragma once
#include <cstddef>
#include <cstdint>

#include "gdn/layer.hpp"

namespace gdn::layer {

/// The tensors under `prefix` of a file that lies in memory; the whole header is checked. `origin` names it in errors.
StateDict decode_safetensors(const std::uint8_t *bytes, std::size_t size, const std::string &origin, const std::string &prefix,
    std::map<std::string, std::string> *metadata);

/// Everything before the tensors' bytes, which follow in the map's order without gaps.
std::string encode_safetensors_header(const StateDict &tensors, const std::map<std::string, std::string> &metadata);

}  // namespace gdn::layer
