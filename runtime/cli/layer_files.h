// What the layer's subcommands share: the configuration's file and the names of layouts.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "command.h"
#include "gdn/layer.hpp"

namespace gdn::cli {

const std::vector<std::string> &layout_names();

/// The configuration in a JSON file; what is wrong with it comes with the file's name.
layer::Config read_config(const std::string &path);

/// --config, which every one of them wants.
void add_config_option(CLI::App &command, std::string &path);

/// A context for a layer; "auto" leaves the target to GDN_TARGET and the machine.
gdn::Context open_context(const std::string &target, int threads);

/// What a written file tells its reader: format, the configuration that it goes with, and `more`.
std::map<std::string, std::string> describe(
    const layer::Config &config, layer::Layout layout, std::map<std::string, std::string> more = {});

std::int64_t value_count(const layer::StateDict &tensors);

}  // namespace gdn::cli
