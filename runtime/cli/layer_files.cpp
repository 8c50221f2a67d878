#include "layer_files.h"

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace gdn::cli {

const std::vector<std::string> &layout_names() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> list;
        for (layer::Layout layout :
            {layer::Layout::kGdn, layer::Layout::kFlaGdn2, layer::Layout::kNvGdn2, layer::Layout::kFlaGdn, layer::Layout::kFlaKda,
                layer::Layout::kKimiLinear, layer::Layout::kKimiLinearFused, layer::Layout::kFg2, layer::Layout::kQwen3Next})
            list.push_back(layer::name_of(layout));
        return list;
    }();
    return names;
}

layer::Config read_config(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    if (!file.is_open() || file.bad()) throw Failure(kExitFailure, "cannot read " + path);
    try {
        return layer::Config::from_json(text);
    } catch (const layer::Error &error) {
        throw Failure(kExitFailure, path + ": " + error.what());
    }
}

void add_config_option(CLI::App &command, std::string &path) {
    command.add_option("--config", path, "The layer as JSON: kind and what differs from its defaults")
        ->required()
        ->check(CLI::ExistingFile);
}

gdn::Context open_context(const std::string &target, int threads) {
    gdn::Options wish;
    wish->num_threads = threads;
    if (target != "auto") wish->target = target.c_str();
    gdn_context *made = nullptr;
    const gdn_status status = gdn_context_create(&*wish, &made);
    if (status != GDN_STATUS_OK) {
        const bool forced = target != "auto" || std::getenv("GDN_TARGET");
        const bool refused = forced && (status == GDN_STATUS_INVALID_ARGUMENT || status == GDN_STATUS_UNSUPPORTED);
        throw Failure(refused ? kExitNoTarget : kExitFailure, gdn_last_error());
    }
    return gdn::Context(made);
}

std::map<std::string, std::string> describe(const layer::Config &config, layer::Layout layout, std::map<std::string, std::string> more) {
    more["format"] = "pt";  // readers of PyTorch's tools want to hear that a file holds plain tensors
    more["gdn.config"] = config.to_json();
    more["gdn.layout"] = layer::name_of(layout);
    return more;
}

std::int64_t value_count(const layer::StateDict &tensors) {
    std::int64_t count = 0;
    for (const auto &entry : tensors) count += static_cast<std::int64_t>(entry.second.data.size());
    return count;
}

}  // namespace gdn::cli
