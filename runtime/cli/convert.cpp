// gdn convert: one layer's weights from one checkpoint's names and packing to another's.
#include <cstdio>
#include <memory>

#include <nlohmann/json.hpp>

#include "command.h"
#include "console.h"
#include "layer_files.h"

namespace gdn::cli {
namespace {

struct Options {
    std::string config, from, to, input, output, prefix, output_prefix;
    bool json = false;
};

void run(const Options &options) {
    const layer::Config config = read_config(options.config);
    const layer::Layout from = layer::layout_from_name(options.from), to = layer::layout_from_name(options.to);
    const layer::StateDict input = layer::read_safetensors(options.input, nullptr, options.prefix);
    layer::StateDict weights;
    try {
        weights = layer::import_weights(config, from, input, options.prefix);
    } catch (const layer::Error &error) {
        throw Failure(kExitFailure, options.input + ": " + error.what());
    }
    const layer::StateDict file = layer::export_weights(config, to, weights, options.output_prefix);
    layer::write_safetensors(options.output, file, describe(config, to));

    const long long parameters = value_count(file);
    if (options.json) {
        const nlohmann::ordered_json json = {{"input", options.input}, {"from", options.from}, {"prefix", options.prefix},
            {"output", options.output}, {"to", options.to}, {"output_prefix", options.output_prefix}, {"tensors", file.size()},
            {"parameters", parameters}, {"config", nlohmann::ordered_json::parse(config.to_json())}};
        std::printf("%s\n", json.dump(2).c_str());
    } else {
        std::printf("%s: %lld parameters in %zu tensors, layout %s (%s was %s)\n", options.output.c_str(), parameters, file.size(),
            options.to.c_str(), options.input.c_str(), options.from.c_str());
    }
}

}  // namespace

void add_convert(CLI::App &app) {
    auto options = std::make_shared<Options>();
    CLI::App &command = *app.add_subcommand("convert", "Rename and repack one layer's weights; 16-bit ones become float32");
    add_config_option(command, options->config);
    command.add_option("--from", options->from, "Layout of the input")->required()->check(CLI::IsMember(layout_names()));
    command.add_option("--to", options->to, "Layout of the output")->required()->check(CLI::IsMember(layout_names()));
    command.add_option("--input", options->input, "safetensors file, of a layer or of a whole model")->required()->check(CLI::ExistingFile);
    command.add_option("--output", options->output, "safetensors file to write; may be the input")->required();
    command.add_option("--prefix", options->prefix, "Only the input's tensors under it count (\"model.layers.0.linear_attn.\")");
    command.add_option("--output-prefix", options->output_prefix, "Put before every tensor's name");
    command.add_flag("--json", options->json, "Print one JSON object");
    command.footer("Examples:\n"
                   "  gdn convert --config layer.json --from fla-gdn2 --to gdn --input a.safetensors --output b.safetensors\n"
                   "  gdn convert --config qwen.json --from qwen3-next --to gdn --input model-00001-of-00041.safetensors \\\n"
                   "      --prefix model.layers.0.linear_attn. --output layer0.safetensors --json");
    command.callback([options] { run(*options); });
}

}  // namespace gdn::cli
