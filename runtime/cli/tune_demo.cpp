#include "tune_demo.h"

#include <cstdio>
#include <exception>

#include "console.h"
#include "temporary_folder.h"
#include "tune_run.h"

namespace gdn::cli {

void demo_tuning(const std::vector<std::string> &kernels, const std::string &target, double seconds) {
    const Style &s = style();
    TuneRun run;
    std::printf("\n%sTuning%s   ", s.bold, s.off);
    std::vector<tune::SessionTask> tasks;
    try {
        find_paths(run.paths);
        require_worker(run.paths);
        tune::PlanRequest request;
        request.globs = kernels;
        request.target = target;
        request.batch = 4;
        tasks = tune::plan_tasks(tune::list_kernels(run.paths.generator, run.paths.kernels), request);
    } catch (const std::exception &error) {
        std::printf("left out: %s\n", error.what());
        return;
    }
    std::printf("%.0f seconds for the kernels that these calls ran: candidates are compiled, checked against double precision, and timed\n"
                "    in turn with the default. (An hour finds more: gdn tune run --all --time 1h)\n",
        seconds);
    std::fflush(stdout);

    const TemporaryFolder folder;
    run.journal = (folder.path / "tune.db").string();
    run.force = true;  // a demonstration also on a busy machine
    run.session.budget.seconds = seconds;
    const std::vector<tune::TuneResult> results = run_tuning(tasks, run);
    check_interrupt();
    print_results(tasks, results);
}

}  // namespace gdn::cli
