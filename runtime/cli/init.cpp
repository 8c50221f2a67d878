// gdn init: seeded weights of a layer.
#include <cstdio>
#include <memory>

#include <nlohmann/json.hpp>

#include "command.h"
#include "console.h"
#include "layer_files.h"

namespace gdn::cli {
namespace {

struct Options {
    std::string config, output, init = "fla", layout = "gdn", prefix;
    std::uint64_t seed = 0;
    bool json = false;
};

void run(const Options &options) {
    const layer::Config config = read_config(options.config);
    const layer::Layout layout = layer::layout_from_name(options.layout);
    const layer::Init init = options.init == "nv" ? layer::Init::kNv : layer::Init::kFla;
    const layer::StateDict file = layer::export_weights(config, layout, layer::initialise(config, options.seed, init), options.prefix);
    layer::write_safetensors(
        options.output, file, describe(config, layout, {{"gdn.init", options.init}, {"gdn.seed", std::to_string(options.seed)}}));

    const long long parameters = value_count(file);
    if (options.json) {
        const nlohmann::ordered_json json = {{"output", options.output}, {"layout", options.layout}, {"prefix", options.prefix},
            {"init", options.init}, {"seed", options.seed}, {"tensors", file.size()}, {"parameters", parameters},
            {"config", nlohmann::ordered_json::parse(config.to_json())}};
        std::printf("%s\n", json.dump(2).c_str());
    } else {
        std::printf("%s: %lld parameters in %zu tensors, layout %s, init %s, seed %llu\n", options.output.c_str(), parameters, file.size(),
            options.layout.c_str(), options.init.c_str(), static_cast<unsigned long long>(options.seed));
    }
}

}  // namespace

void add_init(CLI::App &app) {
    auto options = std::make_shared<Options>();
    CLI::App &command = *app.add_subcommand("init", "Write seeded weights of a layer");
    add_config_option(command, options->config);
    command.add_option("--output", options->output, "safetensors file to write")->required();
    command.add_option("--seed", options->seed, "The same seed gives the same bits on every machine")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    command.add_option("--init", options->init, "Matrices: fla = N(0, 0.02), nv = Xavier-uniform with gain 2^-2.5")
        ->check(CLI::IsMember({"fla", "nv"}))
        ->capture_default_str();
    command.add_option("--layout", options->layout, "Names and packing of the tensors")
        ->check(CLI::IsMember(layout_names()))
        ->capture_default_str();
    command.add_option("--output-prefix", options->prefix, "Put before every tensor's name");
    command.add_flag("--json", options->json, "Print one JSON object");
    command.footer("Examples:\n"
                   "  echo '{\"kind\": \"gdn2\", \"output_gate\": \"silu\"}' > layer.json\n"
                   "  gdn init --config layer.json --seed 1 --output w.safetensors\n"
                   "  gdn init --config layer.json --seed 1 --output w.safetensors --init nv --layout nv-gdn2 --json");
    command.callback([options] { run(*options); });
}

}  // namespace gdn::cli
