// gdn explain: which kernels a call runs, on which target, and why.
#include <cstdio>
#include <memory>

#include "command.h"
#include "console.h"
#include "operator.h"

namespace gdn::cli {
namespace {

using nlohmann::ordered_json;

struct Options {
    Setup setup;
    bool json = false;
};

void run(const Options &options) {
    Problem problem(options.setup, Inputs::kNone, 0);
    if (options.setup.pending) problem.use_one_state();
    const Context context(options.setup.target, options.setup.threads);
    check(gdn_supports(context.get(), &problem.args), "this call");
    const ordered_json json = explain(context, problem.args);
    if (options.json) {
        std::printf("%s\n", json.dump(2).c_str());
        return;
    }
    std::printf("%s%s, batch %lld, %lld tokens%s\n", style().bold, options.setup.text().c_str(),
        static_cast<long long>(options.setup.batch), static_cast<long long>(options.setup.tokens), style().off);
    std::printf("  %starget%s  %s: %s\n  %skernels%s\n", style().bold, style().off, json["target"].get<std::string>().c_str(),
        json["target_why"].get<std::string>().c_str(), style().bold, style().off);
    print_kernels(json, true);
    std::printf("  %show%s\n", style().bold, style().off);
    for (const auto &[name, value] : json.items()) {
        const bool said = name == "kernels" || name == "target" || name == "target_why" || options.setup.json().contains(name);
        if (!said) std::printf("    %-16s %s\n", name.c_str(), value.is_string() ? value.get<std::string>().c_str() : value.dump().c_str());
    }
}

}  // namespace

void add_explain(CLI::App &app) {
    auto options = std::make_shared<Options>();
    CLI::App &command = *app.add_subcommand("explain", "Which kernels a call runs, on which target, and why");
    add_setup_options(command, options->setup);
    command.add_option("--tokens", options->setup.tokens, "Tokens of a sequence; 1 is a step")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    command.add_option("--batch", options->setup.batch, "Sequences")->check(CLI::PositiveNumber)->capture_default_str();
    command.add_flag("--json", options->json, "Print one JSON object");
    command.footer("Examples:\n  gdn explain --variant gdn2 --dtype bf16\n  gdn explain --variant kda --tokens 1 --logits --l2norm --json\n"
                   "  gdn explain --variant kda --tokens 1 --pending");
    command.callback([options] { run(*options); });
}

}  // namespace gdn::cli
