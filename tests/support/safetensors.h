// A small reader of safetensors files for the oracles: every tensor as doubles. Bounded: refuses what does not fit the file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gdn_test {

struct StoredTensor {
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::vector<double> values;

    std::vector<float> floats() const { return std::vector<float>(values.begin(), values.end()); }
};

using StoredTensors = std::map<std::string, StoredTensor>;

// Throws std::runtime_error with the reason.
StoredTensors read_safetensors(const std::string &path);
StoredTensors parse_safetensors(const std::string &bytes);

}  // namespace gdn_test
