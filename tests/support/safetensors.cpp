#include "safetensors.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace gdn_test {
namespace {

template <typename T> void widen(const char *from, std::vector<double> &to) {
    for (std::size_t i = 0; i < to.size(); i++) {
        T value;
        std::memcpy(&value, from + i * sizeof(T), sizeof(T));
        to[i] = static_cast<double>(value);
    }
}

}  // namespace

StoredTensors parse_safetensors(const std::string &bytes) {
    const auto require = [](bool good, const char *what) {
        if (!good) throw std::runtime_error(std::string("safetensors: ") + what);
    };
    require(bytes.size() >= 8, "no header length");
    std::uint64_t header_bytes;
    std::memcpy(&header_bytes, bytes.data(), 8);
    require(header_bytes <= bytes.size() - 8, "header runs past the file");
    const auto header =
        nlohmann::json::parse(bytes.begin() + 8, bytes.begin() + 8 + static_cast<std::ptrdiff_t>(header_bytes), nullptr, false);
    require(header.is_object(), "header is not a JSON object");
    const std::uint64_t data_bytes = bytes.size() - 8 - header_bytes;
    const char *data = bytes.data() + 8 + header_bytes;

    StoredTensors tensors;
    for (const auto &[name, entry] : header.items()) {
        if (name == "__metadata__") continue;
        StoredTensor tensor;
        tensor.dtype = entry.at("dtype").get<std::string>();
        tensor.shape = entry.at("shape").get<std::vector<std::int64_t>>();
        const auto begin = entry.at("data_offsets").at(0).get<std::uint64_t>(), end = entry.at("data_offsets").at(1).get<std::uint64_t>();
        require(begin <= end && end <= data_bytes, "tensor runs past the file");
        const std::uint64_t size = tensor.dtype == "F32" ? 4 : tensor.dtype == "F64" || tensor.dtype == "I64" ? 8 : 0;
        require(size != 0, "dtype is not F32, F64 or I64");
        std::uint64_t count = 1;
        for (std::int64_t extent : tensor.shape) {
            require(extent >= 0 && static_cast<std::uint64_t>(extent) <= data_bytes, "bad shape");
            count *= static_cast<std::uint64_t>(extent);
            require(count <= data_bytes, "bad shape");
        }
        require(count * size == end - begin, "shape and bytes disagree");
        tensor.values.resize(count);
        if (tensor.dtype == "F32")
            widen<float>(data + begin, tensor.values);
        else if (tensor.dtype == "F64")
            widen<double>(data + begin, tensor.values);
        else
            widen<std::int64_t>(data + begin, tensor.values);
        tensors.emplace(name, std::move(tensor));
    }
    return tensors;
}

StoredTensors read_safetensors(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot read " + path);
    return parse_safetensors(std::string(std::istreambuf_iterator<char>(file), {}));
}

}  // namespace gdn_test
