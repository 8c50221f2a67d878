// gdn kernels: what is compiled in, and, with the generator at hand, the loop nest and the instructions of one kernel.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "console.h"
#include "machine.h"
#include "operator.h"
#include "temporary_folder.h"

namespace gdn::cli {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

struct Options {
    std::string pattern = "*", target, family, emit, output;
    bool here = false, json = false;
};

bool matches(const std::string &pattern, const std::string &name) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; }

std::vector<gdn_kernel_info> selected(const Options &options) {
    if (!options.target.empty()) {
        bool known = false;
        for (int64_t i = 0; i < gdn_target_count(); i++) {
            gdn_target_info info;
            check(gdn_target_get(i, &info), "target list");
            known |= options.target == info.name;
        }
        if (!known) throw Failure(kExitNoTarget, "no target \"" + options.target + "\" in this library; `gdn info` lists them");
    }
    std::vector<gdn_kernel_info> kernels;
    for (int64_t i = 0; i < gdn_kernel_count(); i++) {
        gdn_kernel_info info;
        check(gdn_kernel_get(i, &info), "kernel list");
        if (!matches(options.pattern, info.name) && !matches(options.pattern, info.kernel)) continue;
        if (!options.target.empty() && options.target != info.target) continue;
        if (!options.family.empty() && options.family != info.family) continue;
        if (options.here && !info.runs_here) continue;
        kernels.push_back(info);
    }
    return kernels;
}

ordered_json json_of(const gdn_kernel_info &info) {
    return {{"name", info.kernel}, {"configuration", info.configuration}, {"symbol", info.name}, {"family", info.family},
        {"target", info.target}, {"config", info.config}, {"generator", info.generator}, {"runs_here", info.runs_here != 0}};
}

fs::path generator() {
    if (const char *given = std::getenv("GDN_GENERATOR")) {
        if (access(given, X_OK) == 0) return given;
        throw Failure(kExitFailure, std::string("GDN_GENERATOR=") + given + " is not a program");
    }
    const fs::path folder = program_folder();
    for (const char *place : {"gdn.generator", "../generators/gdn.generator", "../bin/gdn.generator"}) {
        if (access((folder / place).c_str(), X_OK) == 0) return (folder / place).lexically_normal();
    }
    throw Failure(kExitFailure, "--emit runs the kernel's generator again, and gdn.generator is not beside this program: set GDN_GENERATOR "
                                "to the one of a build folder");
}

std::string read_file(const fs::path &path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

/// Runs a program with its words going to `log`, and waits; Ctrl-C ends both.
void run_program(const std::vector<std::string> &arguments, const fs::path &log) {
    std::vector<char *> argv;
    for (const std::string &argument : arguments) argv.push_back(const_cast<char *>(argument.c_str()));
    argv.push_back(nullptr);
    const pid_t child = fork();
    if (child < 0) throw Failure(kExitFailure, "cannot start " + arguments[0] + ": " + std::strerror(errno));
    if (child == 0) {
        const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(file, STDOUT_FILENO);
        dup2(file, STDERR_FILENO);
        execv(argv[0], argv.data());
        _exit(127);
    }
    int status = 0;
    Progress progress("generating");
    while (waitpid(child, &status, WNOHANG) == 0) {
        try {
            progress.update(0, 1);
        } catch (const Failure &) {
            kill(child, SIGTERM);
            waitpid(child, &status, 0);
            throw;
        }
        usleep(20000);
    }
    if (status != 0) throw Failure(kExitFailure, "the generator failed:\n" + read_file(log));
}

void emit(const Options &options) {
    std::vector<gdn_kernel_info> kernels = selected(options);
    // Configurations that differ in run-time parameters only are one kernel to a compiler.
    kernels.erase(
        std::unique(kernels.begin(), kernels.end(), [](const auto &a, const auto &b) { return std::strcmp(a.name, b.name) == 0; }),
        kernels.end());
    if (kernels.empty()) throw Failure(kExitUsage, "no kernel \"" + options.pattern + "\"; `gdn kernels` lists them");
    if (kernels.size() > 1) {
        std::string text = format("\"%s\" is %zu kernels; name one of them, or add --target:", options.pattern.c_str(), kernels.size());
        for (const gdn_kernel_info &info : kernels) text += std::string("\n  ") + info.name;
        throw Failure(kExitUsage, text);
    }
    const gdn_kernel_info &info = kernels[0];
    const TemporaryFolder scratch;
    const fs::path folder = options.output.empty() ? scratch.path : fs::path(options.output);
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) throw Failure(kExitFailure, "cannot make the folder " + folder.string() + ": " + error.message());

    std::vector<std::string> arguments = {generator().string()};
    std::istringstream words(info.generator);
    for (std::string word; words >> word;) arguments.push_back(word);
    for (const std::string &word :
        {std::string("-f"), std::string(info.name), std::string("-o"), folder.string(), std::string("-e"), options.emit}) {
        arguments.push_back(word);
    }
    run_program(arguments, scratch.path / "log");

    std::vector<fs::path> files;
    for (const char *extension : {".stmt", ".conceptual.stmt", ".s", ".ll", ".h", ".stmt.html"}) {
        const fs::path file = folder / (info.name + std::string(extension));
        if (fs::exists(file)) files.push_back(file);
    }
    if (files.empty()) throw Failure(kExitFailure, "the generator wrote nothing for --emit " + options.emit);
    if (options.json) {
        ordered_json json = json_of(info);
        for (const fs::path &file : files) {
            json["files"].push_back({{"name", file.filename().string()},
                {options.output.empty() ? "text" : "path", options.output.empty() ? read_file(file) : file.string()}});
        }
        std::printf("%s\n", json.dump(2).c_str());
        return;
    }
    for (const fs::path &file : files) {
        if (!options.output.empty()) {
            std::printf("%s\n", file.c_str());
            continue;
        }
        std::printf("%s==> %s <==%s\n", style().bold, file.filename().c_str(), style().off);
        const std::string text = read_file(file);
        std::fwrite(text.data(), 1, text.size(), stdout);
        std::printf("\n");
    }
}

void list(const Options &options) {
    const std::vector<gdn_kernel_info> kernels = selected(options);
    if (options.json) {
        ordered_json json = {{"kernels", ordered_json::array()}};
        for (const gdn_kernel_info &info : kernels) json["kernels"].push_back(json_of(info));
        std::printf("%s\n", json.dump(2).c_str());
        return;
    }
    for (const gdn_kernel_info &info : kernels) {
        std::printf("%s%-44s%s %-14s %s%s%s\n", info.runs_here ? "" : style().dim, info.kernel, info.runs_here ? "" : style().off,
            info.target, style().dim, info.config, style().off);
    }
    std::printf("%zu of %lld kernels\n", kernels.size(), static_cast<long long>(gdn_kernel_count()));
}

}  // namespace

void add_kernels(CLI::App &app) {
    auto options = std::make_shared<Options>();
    CLI::App &command = *app.add_subcommand("kernels", "The compiled kernels; with --emit, what one of them does");
    command.add_option("NAME", options->pattern, "Symbol or short name; * and ? stand for any text and letter")->capture_default_str();
    command.add_option("--target", options->target, "Only those of one target");
    command.add_option("--family", options->family,
        "Only those of one family: core_chunk, core_block, core_step, core_pending, stage, map, store, short_conv, short_conv_step, "
        "gated_norm");
    command.add_flag("--here", options->here, "Only those that this machine can run");
    command.add_option("--emit", options->emit,
        "Run the generator of one kernel again and show: stmt, assembly, llvm_assembly, conceptual_stmt (separated by commas)");
    command.add_option("-o,--output", options->output, "With --emit: write the files into this folder and print their paths");
    command.add_flag("--json", options->json, "Print one JSON object");
    command.footer("Examples:\n"
                   "  gdn kernels --here --family core_chunk\n"
                   "  gdn kernels --emit stmt,assembly --target x86_avx512 core_chunk_channel_tied_128x128 | less\n"
                   "  gdn kernels 'stage_kda_*' --json");
    command.callback([options] {
        if (!options->output.empty() && options->emit.empty()) throw Failure(kExitUsage, "--output goes with --emit");
        options->emit.empty() ? list(*options) : emit(*options);
    });
}

}  // namespace gdn::cli
