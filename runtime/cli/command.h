// What the subcommands of `gdn` share: exit codes, errors, and how each adds itself to the command line.
#pragma once
#include <stdexcept>
#include <string>

#include <CLI/CLI.hpp>

#include "gdn/gdn.h"

namespace gdn::cli {

enum ExitCode : int {
    kExitOk = 0,
    kExitFailure = 1,
    kExitUsage = 2,
    kExitNoTarget = 3,
    kExitVerification = 4,
    kExitInterrupted = 5,
};

/// Ends the command: main() prints the text on stderr and exits with the code.
class Failure : public std::runtime_error {
public:
    Failure(ExitCode code, const std::string &text) : std::runtime_error(text), code_(code) {}
    ExitCode code() const { return code_; }

private:
    ExitCode code_;
};

/// Throws unless `status` is ok, with the library's own words.
void check(gdn_status status, const char *what);

// One subcommand a file. Each parses into an object that its callback owns; failures come as Failure, so a callback that returns has
// succeeded.
void add_info(CLI::App &app);
void add_kernels(CLI::App &app);
void add_explain(CLI::App &app);
void add_verify(CLI::App &app);
void add_bench(CLI::App &app);
void add_demo(CLI::App &app);
#ifdef GDN_HAS_LAYER
void add_init(CLI::App &app);
void add_convert(CLI::App &app);
void add_run(CLI::App &app);
#endif
#ifdef GDN_HAS_TUNE
void add_tune(CLI::App &app);  // tune and all below it, explore, doctor
#endif

}  // namespace gdn::cli
