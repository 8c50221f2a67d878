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

void find_paths(TunePaths &paths) {
    const std::string here = program_folder();
    if (paths.generator.empty()) paths.generator = here + "/gdn.generator";
    if (paths.worker.empty()) paths.worker = here + "/gdn.measure";
    for (const std::string &program : {paths.generator, paths.worker}) {
        if (!fs::exists(program)) {
            throw Failure(kExitUsage, "no " + program + ": candidates are compiled in a build of the source tree (./dev gdn tune ..). "
                                      "An installed library chooses among what it was built with: gdn tune select");
        }
    }
    if (paths.kernels.empty()) paths.kernels = GDN_SOURCE_DIR "/generators/kernels.json";
    if (paths.tuned.empty()) paths.tuned = GDN_SOURCE_DIR "/schedules/tuned";
    if (!fs::exists(paths.kernels)) throw Failure(kExitUsage, "no " + paths.kernels + ": the source tree that this program was built from is gone");
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
