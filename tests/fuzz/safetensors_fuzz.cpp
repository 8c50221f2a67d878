// The safetensors reader on any bytes: never crashes, reads nothing past them, refuses with a reason; what it accepts, writer and reader
// give back bit for bit.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "safetensors.h"

namespace {

namespace layer = gdn::layer;

void require(bool good, const char *what) {
    if (good) return;
    std::fprintf(stderr, "%s\n", what);
    std::abort();
}

void require_same(const layer::StateDict &a, const layer::StateDict &b) {
    require(a.size() == b.size(), "the writer has lost a tensor");
    for (const auto &[name, tensor] : a) {
        const auto found = b.find(name);
        require(found != b.end() && found->second.shape == tensor.shape, "the writer has lost a name or a shape");
        require(tensor.data.empty() || std::memcmp(tensor.data.data(), found->second.data.data(), 4 * tensor.data.size()) == 0,
            "the writer has changed a value");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    // A copy of exactly this size: the address sanitizer sees a byte too many.
    std::vector<std::uint8_t> bytes(data, data + size);
    bytes.shrink_to_fit();
    try {
        std::map<std::string, std::string> metadata, again;
        const layer::StateDict tensors = layer::decode_safetensors(bytes.data(), bytes.size(), "input", "", &metadata);
        std::string file = layer::encode_safetensors_header(tensors, metadata);
        for (const auto &[name, tensor] : tensors) file.append(reinterpret_cast<const char *>(tensor.data.data()), 4 * tensor.data.size());
        const layer::StateDict read =
            layer::decode_safetensors(reinterpret_cast<const std::uint8_t *>(file.data()), file.size(), "written", "", &again);
        require_same(tensors, read);
        require(metadata == again, "the writer has changed the metadata");
    } catch (const layer::Error &error) {
        require(std::strncmp(error.what(), "input: ", 7) == 0, error.what());
    }
    return 0;
}
