// gdn explore and gdn tune report: experiments, and what journals show as a page.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>

#include <nlohmann/json.hpp>

#include "autotune/data/files.h"
#include "autotune/explore/simulated.h"
#include "autotune/format.h"
#include "autotune/report/collect.h"
#include "console.h"
#include "machine.h"
#include "tune_run.h"

namespace gdn::cli {
namespace {

using nlohmann::ordered_json;
using namespace gdn::tune;
namespace fs = std::filesystem;

struct Options {
    std::string experiment, output, table;
    std::vector<std::string> journals;  // explore: to simulate on; report: to show
    TuneRun run;
    double peak = 0, memory = 0;
    bool resume = false, dry_run = false, json = false;
};

bool runs_here(const std::string &target) {
    for (int64_t i = 0; i < gdn_target_count(); i++) {
        gdn_target_info info;
        check(gdn_target_get(i, &info), "target list");
        if (target == info.name) return info.runs_here != 0;
    }
    return false;
}

/// GB/s of one thread that reads and writes more than the last cache holds: the best of three passes.
double memory_rate(int lanes) {
    const size_t bytes = static_cast<size_t>(std::min<int64_t>(std::max<int64_t>(2 * last_level_cache_bytes(), 64 << 20), 512 << 20));
    Buffer buffer(bytes, true);
    double best = 0;
    for (int pass = 0; pass < 4; pass++) {
        const double start = now();
        sweep(static_cast<float *>(buffer.data()), bytes / sizeof(float), 1.0f, lanes);
        if (pass > 0) best = std::max(best, 2e-9 * static_cast<double>(bytes) / (now() - start));  // the first one touches the pages
    }
    return best;
}

/// Work of every shape; and the ceilings of this machine where `measure` asks for those that were not given.
void add_roofline(ReportInput &input, const Options &options, bool measure) {
    input.peak_gflops = options.peak;
    input.memory_gbytes = options.memory;
    TunePaths paths = options.run.paths;
    try {
        find_paths(paths);
        const std::vector<Kernel> kernels = list_kernels(paths.generator, paths.kernels);
        const std::unique_ptr<Measurer> measurer = make_measurer(paths.worker, paths.cache);
        for (ReportTask &task : input.tasks) {
            const Kernel *kernel = find_kernel(kernels, task.task.kernel, task.task.target);
            if (!kernel) continue;
            for (const Shape &shape : task.task.shapes) task.work.push_back(measurer->work(*kernel, shape));
        }
    } catch (const std::exception &error) {
        std::fprintf(stderr, "no roofline: %s\n", error.what());
        return;
    }
    if (!measure || !input.info.device.difference(this_device()).empty()) return;
    int lanes = 0;
    for (const ReportTask &task : input.tasks) {
        if (runs_here(task.task.target)) lanes = std::max(lanes, vector_lanes(task.task.target));
    }
    if (lanes && !input.peak_gflops) input.peak_gflops = fma_peak(lanes);
    if (lanes && !input.memory_gbytes) input.memory_gbytes = memory_rate(lanes);
}

double best_cost(const ReportTask &task) {
    const Trial *best = best_of(task);
    return best ? best->cost.value : NAN;
}

ordered_json json_of(const ReportInput &input) {
    ordered_json tasks = ordered_json::array();
    for (const ReportTask &task : input.tasks) {
        ordered_json strategies = ordered_json::array();
        for (const Convergence &strategy : task.strategies) {
            ordered_json after = ordered_json::array();
            for (double share : kReportShares) {
                const std::vector<double> all = distances(task, strategy, share);
                if (all.empty()) continue;
                after.push_back(
                    {{"share", share}, {"median", quantile(all, 0.5)}, {"best", quantile(all, 0)}, {"worst", quantile(all, 1)}});
            }
            strategies.push_back({{"searcher", strategy.searcher}, {"runs", strategy.best.size()}, {"unrecorded", strategy.unrecorded},
                {"distance_after", after}});
        }
        tasks.push_back({{"kernel", task.task.kernel}, {"target", task.task.target}, {"class", name_of(task.task.length_class)},
            {"points", task.task.space.valid_count()}, {"trials", task.trials.size()}, {"best", best_cost(task)},
            {"best_of_search", best_known(task)}, {"strategies", strategies}});
    }
    return tasks;
}

void print(const ReportInput &input, const std::vector<std::string> &files, bool json) {
    if (json) {
        std::printf("%s\n", ordered_json{{"tasks", json_of(input)}, {"files", files}}.dump(1).c_str());
        return;
    }
    for (const ReportTask &task : input.tasks) {
        std::printf("%s%s%s: %s recorded, the best takes %.3f of the default's time\n", style().bold, task.task.name().c_str(), style().off,
            count_of(task.trials.size(), "trial").c_str(), best_cost(task));
        for (const Convergence &strategy : task.strategies) {
            std::string line = format("  %-12s", strategy.searcher.c_str());
            for (double share : kReportShares) {
                const std::vector<double> all = distances(task, strategy, share);
                if (!all.empty())
                    line += format("  after %.0f %%: %5.1f %% (worst %.1f)", 100 * share, 100 * quantile(all, 0.5), 100 * quantile(all, 1));
            }
            if (strategy.unrecorded)
                line += format("  %llu points were never recorded", static_cast<unsigned long long>(strategy.unrecorded));
            std::printf("%s\n", line.c_str());
        }
    }
    for (const std::string &file : files) std::printf("%s\n", file.c_str());
}

void write(const ReportInput &input, const Files &files, bool json) {
    replace_files(files);
    std::vector<std::string> names;
    for (const auto &[name, text] : files) names.push_back(name);
    print(input, names, json);
}

/// report.html, results.csv and, where strategies were compared, strategies.csv.
void write_folder(const ReportInput &input, const std::string &folder, bool json) {
    Files files = {{folder + "/report.html", html(input)}, {folder + "/results.csv", csv(input)}};
    const bool compared =
        std::any_of(input.tasks.begin(), input.tasks.end(), [](const ReportTask &task) { return !task.strategies.empty(); });
    if (compared) files.emplace_back(folder + "/strategies.csv", strategies_csv(input));
    write(input, files, json);
}

/// The tasks of one run.
std::vector<SessionTask> tasks_of(const Experiment &experiment, const ExperimentRun &run, const std::vector<Kernel> &kernels) {
    PlanRequest request;
    request.globs = experiment.kernels;
    request.shapes = experiment.shapes;
    request.values = experiment.values;
    request.parameters = experiment.parameters;
    request.searcher = run.searcher;
    request.seed = run.seed;
    request.batch = experiment.batch;
    request.rounds = experiment.rounds;
    std::vector<SessionTask> tasks;
    for (const std::string &target : experiment.targets.empty() ? std::vector<std::string>{""} : experiment.targets) {
        request.target = target;
        for (SessionTask &task : plan_tasks(kernels, request)) {
            if (!experiment.targets.empty() || runs_here(task.task.target)) tasks.push_back(std::move(task));
        }
    }
    return tasks;
}

void require_targets(const Experiment &experiment, const std::vector<Kernel> &kernels) {
    for (const std::string &target : experiment.targets) {
        if (std::none_of(kernels.begin(), kernels.end(), [&](const Kernel &kernel) { return kernel.target == target; })) {
            throw Failure(kExitNoTarget, "no target \"" + target + "\"; `gdn info` lists them");
        }
        if (!runs_here(target)) throw Failure(kExitNoTarget, "this machine does not run " + target);
    }
}

ReportInput measure(const Experiment &experiment, Options &options) {
    find_paths(options.run.paths);
    const std::vector<Kernel> kernels = list_kernels(options.run.paths.generator, options.run.paths.kernels);
    require_targets(experiment, kernels);
    const std::vector<ExperimentRun> runs = runs_of(experiment);
    uint64_t total = 0;
    for (const SessionTask &task : checked([&] { return tasks_of(experiment, runs[0], kernels); })) {
        const uint64_t evaluations = evaluations_of(experiment, task.task.space);
        total += evaluations * runs.size();
        if (!options.dry_run) continue;
        std::printf("%s: %s, %s in each of %s\n", task.task.name().c_str(), count_of(task.task.space.valid_count(), "valid point").c_str(),
            count_of(evaluations, "evaluation").c_str(), count_of(runs.size(), "run").c_str());
    }
    if (total == 0) throw Failure(kExitNoTarget, "this machine runs none of the targets of the experiment's kernels");
    if (options.dry_run) {
        std::printf("%s together\n", count_of(total, "evaluation").c_str());
        return {};
    }
    std::vector<std::string> journals;
    for (const ExperimentRun &run : runs) {
        journals.push_back(options.output + "/" + run.journal);
        if (!options.resume && fs::exists(journals.back())) {
            throw Failure(kExitUsage, journals.back() + " is there already: --resume goes on with it, --output names another folder");
        }
    }
    std::error_code error;
    fs::create_directories(options.output, error);
    if (error) throw Failure(kExitFailure, "cannot make the folder " + options.output + ": " + error.message());
    for (size_t i = 0; i < runs.size(); i++) {
        options.run.journal = journals[i];
        for (const SessionTask &task : tasks_of(experiment, runs[i], kernels)) {
            options.run.resume = fs::exists(options.run.journal);
            options.run.session.budget.evaluations = evaluations_of(experiment, task.task.space);
            for (const TuneResult &result : run_tuning({task}, options.run)) {
                if (result.failed) throw Failure(kExitFailure, result.why);
                if (result.interrupted) throw Failure(kExitInterrupted, "interrupted; --resume goes on with " + options.output);
            }
        }
    }
    ReportInput input = collect(journals);
    input.title = experiment.title;
    input.text = experiment.text;
    return input;
}

void explore(Options &options) {
    const Experiment experiment = checked([&] { return parse_experiment(file_text(options.experiment), options.experiment); });
    if (options.output.empty()) options.output = fs::path(options.experiment).stem().string();
    ReportInput input;
    if (options.journals.empty()) {
        input = measure(experiment, options);
    } else {
        const ReportInput recorded = collect(options.journals);
        input = checked([&] { return simulate(experiment, recorded); });
    }
    if (options.dry_run) return;
    add_roofline(input, options, options.journals.empty());
    write_folder(input, options.output, options.json);
}

void report(Options &options) {
    ReportInput input = collect(options.journals);
    add_roofline(input, options, true);
    Files files = {{options.output, html(input)}};
    if (!options.table.empty()) files.emplace_back(options.table, csv(input));
    write(input, files, options.json);
}

void add_common_options(CLI::App &command, Options &options) {
    add_path_options(command, options.run.paths);
    command.add_option("--peak", options.peak, "Roofline: GFLOP/s of one core")->check(CLI::PositiveNumber);
    command.add_option("--memory", options.memory, "Roofline: GB/s of one core")->check(CLI::PositiveNumber);
    command.add_flag("--json", options.json, "The summary as JSON");
}

}  // namespace

void add_explore(CLI::App &app) {
    auto options = std::make_shared<Options>();
    CLI::App &command = *app.add_subcommand("explore", "Run an experiment: kernels, spaces, strategies, seeds -> journals and a report");
    command.add_option("EXPERIMENT", options->experiment, "JSON file, see autotune/experiments")->required();
    command.add_option("-o,--output", options->output, "Folder of journals, report.html and CSV [the experiment's name]");
    CLI::Option *simulate =
        command.add_option("--simulate", options->journals, "Replay strategies on this recorded journal: nothing is measured");
    command.add_flag("--resume", options->resume, "Go on with the journals of the folder")->excludes(simulate);
    command.add_flag("--force", options->run.force, "Measure on a machine that gdn doctor finds unfit; the results carry a mark")
        ->excludes(simulate);
    command.add_option("--jobs", options->run.jobs, "Compilers at a time [CPUs]")->check(CLI::NonNegativeNumber);
    command.add_flag("--dry-run", options->dry_run, "Print what would be run")->excludes(simulate);
    add_common_options(command, *options);
    command.footer("Examples:\n  gdn explore autotune/experiments/chunk_by_tile.json\n"
                   "  gdn explore autotune/experiments/strategies.json --simulate record/exhaustive-1.db");
    command.callback([options] { explore(*options); });
}

void add_tune_report(CLI::App &tune) {
    auto options = std::make_shared<Options>();
    options->output = "report.html";
    CLI::App &command = *tune.add_subcommand("report", "What journals hold as one HTML page, and as CSV");
    command.add_option("JOURNAL", options->journals, "Journals of one device")->required();
    command.add_option("-o,--output", options->output, "HTML file")->capture_default_str();
    command.add_option("--csv", options->table, "CSV file with a row per trial");
    add_common_options(command, *options);
    command.callback([options] { report(*options); });
}

}  // namespace gdn::cli
