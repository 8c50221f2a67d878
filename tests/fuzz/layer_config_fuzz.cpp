// Configurations in any text: never crashes, refuses with a reason; what is accepted goes through JSON unchanged and describes a layer.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "gdn/layer.hpp"

namespace {

namespace layer = gdn::layer;

void require(bool good, const char *what) {
    if (good) return;
    std::fprintf(stderr, "%s\n", what);
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    try {
        const layer::Config config = layer::Config::from_json(std::string(reinterpret_cast<const char *>(data), size));
        try {
            require(layer::Config::from_json(config.to_json()) == config, "JSON has changed a configuration");
            require(layer::parameter_count(config) > 0, "a layer without weights");
            for (const layer::TensorSpec &spec : layer::weights(config)) {
                for (std::int64_t extent : spec.shape) require(extent > 0, "a weight without values");
            }
        } catch (const layer::Error &error) {
            require(false, error.what());
        }
    } catch (const layer::Error &error) {
        require(std::strlen(error.what()) > 0, "a refusal without reason");
    }
    return 0;
}
