#include "tune_demo.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "console.h"
#include "tune_run.h"

namespace gdn::cli {

namespace fs = std::filesystem;

void demo_tuning(const std::vector<std::string> &kernels, const std::string &target, double seconds) {
    const Style &s = style();
    TuneRun run;
    std::printf("\n%sTuning%s   ", s.bold, s.off);
    try {
        find_paths(run.paths);
    } catch (const Failure &failure) {
        std::printf("left out: %s\n", failure.what());
        return;
    }
    tune::PlanRequest request;
    request.globs = kernels;
    request.target = target;
    request.batch = 4;
    const std::vector<tune::SessionTask> tasks = tune::plan_tasks(tune::list_kernels(run.paths.generator, run.paths.kernels), request);
    std::printf("%.0f seconds for the kernels that these calls ran: candidates are compiled, checked against double precision, and timed\n"
                "    in turn with the default. (An hour finds more: gdn tune run --all --time 1h)\n",
        seconds);
    std::fflush(stdout);

    std::string folder = (fs::temp_directory_path() / "gdn_demo.XXXXXX").string();
    if (!mkdtemp(folder.data())) throw Failure(kExitFailure, "cannot make a temporary folder in " + fs::temp_directory_path().string());
    struct Removed {
        const std::string &path;
        ~Removed() {
            std::error_code ignored;
            fs::remove_all(path, ignored);
        }
    } removed{folder};
    run.journal = folder + "/tune.db";
    run.force = true;  // a demonstration also on a busy machine
    run.session.budget.seconds = seconds;
    const std::vector<tune::TuneResult> results = run_tuning(tasks, run);
    check_interrupt();
    print_results(tasks, results);
}

}  // namespace gdn::cli
