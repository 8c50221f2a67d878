// The subcommands of `gdn tune`, one file each (tune_<name>.cpp), and what they share.
#pragma once
#include <string>

#include "autotune/status.h"
#include "command.h"

namespace gdn::cli {

/// Where the tuner's own programs and files are: beside this program in a build tree, or named by an option or the environment.
struct TunePaths {
    std::string generator;  // --generator, GDN_GENERATOR, <program folder>/gdn.generator
    std::string worker;     // <program folder>/gdn.measure
    std::string kernels;    // generators/kernels.json of the source tree
    std::string tuned;      // schedules/tuned of the source tree
    std::string cache;      // --cache, else $XDG_CACHE_HOME/gdn or ~/.cache/gdn
};
/// Adds --generator and --cache.
void add_path_options(CLI::App &app, TunePaths &paths);
/// Fills what the options left open. Throws Failure that says what is missing: an installed library has no generator, `gdn tune select`
/// needs none. What measures asks for the worker too.
void find_paths(TunePaths &paths);
void require_worker(const TunePaths &paths);

/// What is wrong with what a user wrote is the user's to mend.
template <class What> auto checked(const What &what) {
    try {
        return what();
    } catch (const tune::Error &error) {
        throw Failure(kExitUsage, error.what());
    }
}

void add_doctor(CLI::App &app);
void add_tune_run(CLI::App &tune);  // run, list, replay
void add_tune_report(CLI::App &tune);
void add_tune_select(CLI::App &tune);
void add_explore(CLI::App &app);
void add_tune_export(CLI::App &tune);
void add_tune_import(CLI::App &tune);
void add_tune_refresh(CLI::App &tune);
void add_tune_cover(CLI::App &tune);
void add_tune_best(CLI::App &tune);
void add_tune_top(CLI::App &tune);
void add_tune_why(CLI::App &tune);
void add_tune_diff(CLI::App &tune);
void add_tune_merge(CLI::App &tune);

}  // namespace gdn::cli
