#include "tune.h"

#include <cstdlib>
#include <filesystem>

#include "machine.h"

namespace gdn::cli {

namespace fs = std::filesystem;

void add_path_options(CLI::App &app, TunePaths &paths) {
    app.add_option("--generator", paths.generator, "The program gdn.generator (default: beside this program)")->envname("GDN_GENERATOR");
    app.add_option("--cache", paths.cache, "Folder of compiled candidates and test inputs (default: ~/.cache/gdn)");
}

namespace {

void require(const std::string &file) {
    if (fs::exists(file)) return;
    throw Failure(kExitUsage, "no " + file +
                                  ": candidates are compiled in a build of the source tree (./dev gdn tune ..). "
                                  "An installed library chooses among what it was built with: gdn tune select");
}

}  // namespace

void require_worker(const TunePaths &paths) { require(paths.worker); }

void find_paths(TunePaths &paths) {
    const std::string here = program_folder();
    if (paths.generator.empty()) paths.generator = here + "/gdn.generator";
    if (paths.worker.empty()) paths.worker = here + "/gdn.measure";
    require(paths.generator);
    // Written beside the program by the build, so that nothing that is installed names it.
    const std::string source = first_line(here + "/gdn.source");
    if (paths.kernels.empty()) paths.kernels = source + "/generators/kernels.json";
    if (paths.tuned.empty()) paths.tuned = source + "/schedules/tuned";
    require(paths.kernels);
    if (paths.cache.empty()) {
        const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
        paths.cache = cache && *cache ? std::string(cache) + "/gdn" : std::string(home && *home ? home : "/tmp") + "/.cache/gdn";
    }
}

void add_tune(CLI::App &app) {
    CLI::App &tune = *app.add_subcommand("tune", "Find, keep and choose kernel configurations for this machine");
    tune.require_subcommand(1);
    add_doctor(app);
    add_tune_run(tune);
    add_tune_report(tune);
    add_explore(app);
    add_tune_select(tune);
    add_tune_export(tune);
    add_tune_import(tune);
    add_tune_cover(tune);
    add_tune_refresh(tune);
    add_tune_best(tune);
    add_tune_top(tune);
    add_tune_why(tune);
    add_tune_diff(tune);
    add_tune_merge(tune);
}

}  // namespace gdn::cli
