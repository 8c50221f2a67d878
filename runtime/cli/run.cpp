// gdn run: a layer over the tokens of a file.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include <nlohmann/json.hpp>

#include "command.h"
#include "console.h"
#include "layer_files.h"

namespace gdn::cli {
namespace {

struct Options {
    std::string config, weights, input, output, state_in, state_out, mode, layout = "gdn", prefix, mask, cu_seqlens, target = "auto";
    std::string tensor = "x";
    int threads = 1;
    bool json = false;
};

/// What of a batch the input file says, in the types of the library.
struct Shape {
    std::int64_t B = 1, T = 0;
    std::vector<std::uint8_t> mask;
    std::vector<std::int64_t> cu_seqlens;

    std::int64_t sequences() const { return cu_seqlens.empty() ? B : static_cast<std::int64_t>(cu_seqlens.size()) - 1; }
    layer::Batch batch() const {
        layer::Batch made;
        made.mask = mask.empty() ? nullptr : mask.data();
        made.cu_seqlens = cu_seqlens.empty() ? nullptr : cu_seqlens.data();
        made.sequences = cu_seqlens.empty() ? 0 : sequences();
        return made;
    }
};

std::string shape_text(const std::vector<std::int64_t> &shape) {
    std::string text = "[";
    for (std::size_t i = 0; i < shape.size(); i++) text += (i ? ", " : "") + std::to_string(shape[i]);
    return text + "]";
}

const layer::Tensor &find(const Options &options, const layer::StateDict &file, const std::string &name) {
    const auto found = file.find(name);
    if (found == file.end()) throw Failure(kExitFailure, options.input + ": no tensor '" + name + "'");
    return found->second;
}

Shape shape_of(const Options &options, const layer::Config &config, const layer::StateDict &file) {
    const layer::Tensor &x = find(options, file, options.tensor);
    const auto odd = [&](const std::string &name, const std::string &expected, const layer::Tensor &tensor) {
        return Failure(
            kExitFailure, options.input + ": tensor '" + name + "': expected " + expected + ", found " + shape_text(tensor.shape));
    };
    const std::size_t dims = x.shape.size();
    if ((dims != 2 && dims != 3) || x.shape.back() != config.hidden_size)
        throw odd(
            options.tensor, "[B, T, " + std::to_string(config.hidden_size) + "] or [T, " + std::to_string(config.hidden_size) + "]", x);
    Shape shape;
    shape.B = dims == 3 ? x.shape[0] : 1;
    shape.T = x.shape[dims - 2];
    if (!options.mask.empty()) {
        const layer::Tensor &mask = find(options, file, options.mask);
        if (mask.shape != std::vector<std::int64_t>{shape.B, shape.T}) throw odd(options.mask, shape_text({shape.B, shape.T}), mask);
        for (const float value : mask.data) shape.mask.push_back(value != 0);
    }
    if (!options.cu_seqlens.empty()) {
        const layer::Tensor &cu = find(options, file, options.cu_seqlens);
        if (cu.shape.size() != 1 || cu.shape[0] < 1) throw odd(options.cu_seqlens, "[sequences + 1]", cu);
        for (const float value : cu.data) {
            if (!(std::fabs(value) < 0x1p24f) || value != std::floor(value))
                throw Failure(kExitFailure,
                    options.input + ": tensor '" + options.cu_seqlens + "': expected integers, found " + std::to_string(value));
            shape.cu_seqlens.push_back(static_cast<std::int64_t>(value));
        }
    }
    return shape;
}

bool same_file(const std::string &a, const std::string &b) {
    std::error_code ignored;
    if (std::filesystem::equivalent(a, b, ignored)) return true;  // links; false unless both exist
    const std::filesystem::path left = std::filesystem::weakly_canonical(a, ignored), right = std::filesystem::weakly_canonical(b, ignored);
    return !left.empty() && left == right;
}

/// Refuses outputs that would replace what the call reads or the other output. Only the state may go onto itself.
void check_outputs(const Options &options) {
    using Named = std::pair<const char *, const std::string &>;
    const Named output = {"--output", options.output}, state_out = {"--state-out", options.state_out};
    const Named config = {"--config", options.config}, weights = {"--weights", options.weights}, input = {"--input", options.input};
    const auto apart = [](const Named &written, std::initializer_list<Named> others) {
        if (written.second.empty()) return;
        std::error_code ignored;
        if (std::filesystem::is_directory(written.second, ignored))
            throw Failure(kExitUsage, std::string(written.first) + ": expected a file, " + written.second + " is a directory");
        for (const Named &other : others) {
            if (!other.second.empty() && same_file(written.second, other.second))
                throw Failure(kExitUsage,
                    std::string(written.first) + ": expected a file of its own, " + written.second + " is also that of " + other.first);
        }
    };
    apart(output, {state_out, input, weights, config, {"--state-in", options.state_in}});
    apart(state_out, {input, weights, config});
}

void run(const Options &options) {
    check_outputs(options);
    layer::Config config = read_config(options.config);
    if (!options.mode.empty()) config.mode = options.mode == "chunk" ? layer::Mode::kChunk : layer::Mode::kFusedRecurrent;
    layer::set_blas_threads(1);  // this process is ours: products are cut over the context's threads, and the rest of the layer with them
    gdn::Context context = open_context(options.target, options.threads);

    const layer::Layout layout = layer::layout_from_name(options.layout);
    layer::StateDict weights;
    try {
        weights = layer::import_weights(config, layout, layer::read_safetensors(options.weights, nullptr, options.prefix), options.prefix);
    } catch (const layer::Error &error) {
        throw Failure(kExitFailure, options.weights + ": " + error.what());
    }
    layer::StateDict file = layer::read_safetensors(options.input);
    const Shape shape = shape_of(options, config, file);
    const layer::Tensor &x = file.at(options.tensor);
    const layer::Layer made(context, config, std::move(weights));

    layer::StateDict written;
    layer::Tensor &y = written["y"];
    y.shape = x.shape;
    y.data.resize(x.data.size());
    const bool keeps = !options.state_in.empty() || !options.state_out.empty();
    layer::State state;
    if (!options.state_in.empty())
        state = layer::State::load(options.state_in, config);
    else if (keeps)
        state = made.make_state(shape.sequences());
    const auto begin = std::chrono::steady_clock::now();
    if (keeps)
        made.forward(x.data.data(), y.data.data(), shape.B, shape.T, state, shape.batch());
    else
        made.forward_train(x.data.data(), y.data.data(), shape.B, shape.T, shape.batch());
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    check_interrupt();

    layer::write_safetensors(options.output, written, {{"format", "pt"}, {"gdn.config", config.to_json()}});
    if (!options.state_out.empty()) state.save(options.state_out, config);

    const std::string mode = config.mode == layer::Mode::kChunk ? "chunk" : "fused_recurrent";
    const long long parameters = layer::parameter_count(config);
    if (options.json) {
        const auto path = [](const std::string &given) {
            return given.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(given);
        };
        const nlohmann::ordered_json json = {{"output", options.output}, {"shape", x.shape}, {"sequences", shape.sequences()},
            {"mode", mode}, {"layout", options.layout}, {"prefix", options.prefix}, {"parameters", parameters},
            {"state_in", path(options.state_in)}, {"state_out", path(options.state_out)}, {"threads", options.threads},
            {"seconds", seconds}, {"config", nlohmann::ordered_json::parse(config.to_json())}};
        std::printf("%s\n", json.dump(2).c_str());
    } else {
        std::printf("%s: y %s, %lld sequence%s, mode %s, %lld parameters, %.3g s\n", options.output.c_str(), shape_text(x.shape).c_str(),
            static_cast<long long>(shape.sequences()), shape.sequences() == 1 ? "" : "s", mode.c_str(), parameters, seconds);
    }
}

}  // namespace

void add_run(CLI::App &app) {
    auto options = std::make_shared<Options>();
    CLI::App &command = *app.add_subcommand("run", "Run a layer over the tokens of a file");
    add_config_option(command, options->config);
    command.add_option("--weights", options->weights, "safetensors file, of a layer or of a whole model")
        ->required()
        ->check(CLI::ExistingFile);
    command.add_option("--input", options->input, "safetensors file with x [B, T, hidden_size] or [T, hidden_size]")
        ->required()
        ->check(CLI::ExistingFile);
    command.add_option("--output", options->output, "safetensors file to write: y, of x's shape")->required();
    command.add_option("--state-in", options->state_in, "State to go on from, of an earlier --state-out")->check(CLI::ExistingFile);
    command.add_option("--state-out", options->state_out, "Write the state after the last token; may be the file of --state-in");
    command.add_option("--mode", options->mode, "Instead of the configuration's")->check(CLI::IsMember({"chunk", "fused_recurrent"}));
    command.add_option("--layout", options->layout, "Names and packing of the weights")
        ->check(CLI::IsMember(layout_names()))
        ->capture_default_str();
    command.add_option("--prefix", options->prefix, "Only the weights under it count (\"model.layers.0.linear_attn.\")");
    command.add_option("--tensor", options->tensor, "Name of x in the input")->capture_default_str();
    CLI::Option *mask = command.add_option("--mask", options->mask, "Name of a tensor [B, T] in the input: 0 = padding on the left");
    command.add_option("--cu-seqlens", options->cu_seqlens, "Name of a tensor [sequences + 1] in the input: packed sequences, B = 1")
        ->excludes(mask);
    command.add_option("--target", options->target, "As GDN_TARGET")->capture_default_str();
    command.add_option("--threads", options->threads, "Threads of the context")->check(CLI::Range(1, 1024))->capture_default_str();
    command.add_flag("--json", options->json, "Print one JSON object");
    command.footer("The BLAS of this process is set to one thread: --threads counts for products and mixer alike.\n"
                   "Examples:\n"
                   "  gdn init --config layer.json --seed 1 --output w.safetensors\n"
                   "  gdn run --config layer.json --weights w.safetensors --input x.safetensors --output y.safetensors\n"
                   "  gdn run --config layer.json --weights w.safetensors --input next.safetensors --output y.safetensors \\\n"
                   "      --state-in s.safetensors --state-out s.safetensors --mode fused_recurrent --json");
    command.callback([options] { run(*options); });
}

}  // namespace gdn::cli
