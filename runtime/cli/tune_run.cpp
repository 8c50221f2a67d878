// gdn tune run, list and replay.
#include "tune_run.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "autotune/doctor.h"
#include "autotune/format.h"
#include "autotune/search/ask_tell.h"
#include "autotune/search/given.h"
#include "console.h"
#include "machine.h"

namespace gdn::cli {
namespace {

using nlohmann::ordered_json;
using namespace gdn::tune;
namespace fs = std::filesystem;

struct Options {
    PlanRequest request;
    TuneRun run;
    std::vector<std::string> classes, values;
    std::vector<std::string> configs;
    std::string time, base, shard;
    bool all = false, dry_run = false, json = false, ask_tell = false;
};

constexpr double kGuessedSeconds = 2.5;  // of one evaluation, for --dry-run

std::vector<int> numbers(const std::string &text) {
    std::vector<int> values;
    for (size_t at = 0; at <= text.size();) {
        const size_t end = std::min(text.find(',', at), text.size());
        size_t used = 0;
        const std::string word = text.substr(at, end - at);
        try {
            values.push_back(std::stoi(word, &used));
        } catch (const std::exception &) {
            used = std::string::npos;
        }
        if (used != word.size()) throw Failure(kExitUsage, "\"" + word + "\" in \"" + text + "\" is no whole number");
        at = end + 1;
    }
    return values;
}

/// The best float32 target that this machine runs; "all": every one but the references.
std::vector<std::string> targets_of(const std::string &wish) {
    std::vector<std::string> here;
    bool known = wish == "auto" || wish == "all";
    for (int64_t i = 0; i < gdn_target_count(); i++) {
        gdn_target_info info;
        check(gdn_target_get(i, &info), "target list");
        const std::string name = info.name;
        known |= name == wish;
        const bool reference = name.size() > 10 && name.compare(name.size() - 10, 10, "_reference") == 0;
        if (info.runs_here && (wish == name || (!reference && (wish == "all" || (wish == "auto" && name != "x86_avx512_bf16")))))
            here.push_back(name);
    }
    if (!known) throw Failure(kExitNoTarget, "no target \"" + wish + "\" in this library; `gdn info` lists them");
    if (here.empty())
        throw Failure(kExitNoTarget, "this machine does not run " + (wish == "auto" ? std::string("any tunable target") : wish));
    if (wish == "auto") here.resize(1);
    return here;
}

std::vector<SessionTask> planned(Options &options) {
    if (options.all != options.request.globs.empty()) {
        throw Failure(kExitUsage, "name kernels (a glob of `gdn kernels`), or give --all");
    }
    for (const std::string &name : options.classes) options.request.classes.push_back(checked([&] { return length_class_of(name); }));
    for (const std::string &text : options.values) {
        const size_t equals = text.find('=');
        if (equals == std::string::npos) throw Failure(kExitUsage, "--values \"" + text + "\", expected name=1,2,3");
        options.request.values[text.substr(0, equals)] = numbers(text.substr(equals + 1));
    }
    for (const std::string &text : options.configs) options.request.configs.push_back(checked([&] { return parse_config(text); }));
    options.run.session.start = options.request.configs;
    if (!options.base.empty()) options.request.base = checked([&] { return parse_config(options.base); });
    if (!options.shard.empty()) {
        int end = 0;
        if (std::sscanf(options.shard.c_str(), "%d/%d%n", &options.request.shard, &options.request.shards, &end) != 2 ||
            options.shard.size() != static_cast<size_t>(end) || options.request.shard < 0 ||
            options.request.shard >= options.request.shards) {
            throw Failure(kExitUsage, "--shard \"" + options.shard + "\", expected i/n with 0 <= i < n");
        }
    }
    if (!options.time.empty()) options.run.session.budget.seconds = parse_duration(options.time);
    find_paths(options.run.paths);
    const std::vector<Kernel> kernels = list_kernels(options.run.paths.generator, options.run.paths.kernels);
    std::vector<SessionTask> tasks;
    std::string why;
    for (const std::string &target : targets_of(options.request.target)) {
        PlanRequest request = options.request;
        request.target = target;
        try {
            for (SessionTask &task : plan_tasks(kernels, request)) tasks.push_back(std::move(task));
        } catch (const Error &error) {
            why = error.what();
        }
    }
    if (tasks.empty()) throw Failure(kExitUsage, why);
    for (const Config &config : options.request.configs) {
        const auto has = [&](const SessionTask &task) { return !points_of(task.task.space, {config}, &why).empty(); };
        if (std::none_of(tasks.begin(), tasks.end(), has)) throw Failure(kExitUsage, why);
    }
    return tasks;
}

ordered_json json_of(const SessionTask &t) {
    ordered_json shapes = ordered_json::array(), parameters = ordered_json::object();
    for (const Shape &shape : t.task.shapes) shapes.push_back(text_of(shape));
    for (const Parameter &p : t.task.space.parameters()) parameters[p.name] = p.values;
    return {{"kernel", t.task.kernel}, {"target", t.task.target}, {"class", name_of(t.task.length_class)}, {"shapes", shapes},
        {"parameters", parameters}, {"valid_points", t.task.space.valid_count()}, {"default", text_of(t.task.default_config)}};
}

ordered_json json_of(const TuneResult &r) {
    return {{"config", text_of(r.winner.config)}, {"cost", r.winner.cost.value}, {"low", r.winner.cost.low}, {"high", r.winner.cost.high},
        {"improved", r.improved}, {"evaluations", r.evaluations}, {"why", r.why}, {"interrupted", r.interrupted}, {"failed", r.failed},
        {"finished_before", r.before}};
}

void print_plan(const std::vector<SessionTask> &tasks, bool json) {
    if (json) {
        ordered_json list = ordered_json::array();
        for (const SessionTask &task : tasks) list.push_back(json_of(task));
        std::printf("%s\n", ordered_json{{"tasks", list}}.dump(1).c_str());
        return;
    }
    for (const SessionTask &t : tasks) {
        std::string shapes, parameters;
        for (const Shape &shape : t.task.shapes) shapes += (shapes.empty() ? "" : "; ") + text_of(shape);
        for (const Parameter &p : t.task.space.parameters()) {
            if (p.values.size() > 1) parameters += (parameters.empty() ? "" : ", ") + p.name;
        }
        const double count = static_cast<double>(t.task.space.valid_count());
        std::printf("%s%s%s\n  %.0f valid points of %s; all of them would take about %s\n  shapes %s\n", style().bold,
            t.task.name().c_str(), style().off, count, parameters.c_str(),
            count * kGuessedSeconds < 5400 ? format("%.0f minutes", std::ceil(count * kGuessedSeconds / 60)).c_str()
                                           : format("%.0f hours", count * kGuessedSeconds / 3600).c_str(),
            shapes.c_str());
    }
}

/// One line that is written again on a terminal; elsewhere a plain line now and then.
class Lines {
public:
    explicit Lines(const std::vector<SessionTask> &tasks) : tasks_(tasks), terminal_(isatty(STDERR_FILENO) != 0) {}
    ~Lines() { clear(); }

    void show(size_t index, const tune::Progress &p) {
        const double time = now();
        if (time - last_ < (terminal_ ? 0.2 : 10) && !(p.phase != phase_ && !terminal_)) return;
        last_ = time;
        phase_ = p.phase;
        std::string line = tasks_.size() > 1 ? format("[%zu/%zu] ", index + 1, tasks_.size()) : "";
        line += tasks_[index].task.name() + (p.phase == "final" ? ": final comparison" : "");
        line += format(": %llu", static_cast<unsigned long long>(p.evaluations));
        if (p.of) line += format(" of %llu", static_cast<unsigned long long>(p.of));
        line += format(" tried, best %.3f of the default's time", p.best);
        if (p.seconds_left >= 0) line += format(", %.0f s left", p.seconds_left);
        std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
        std::fflush(stderr);
        shown_ = terminal_;
    }
    void clear() {
        if (shown_) std::fputs("\r\033[K", stderr);
        shown_ = false;
    }

private:
    const std::vector<SessionTask> &tasks_;
    bool terminal_, shown_ = false;
    double last_ = 0;
    std::string phase_;
};

RunInfo run_info(const TunePaths &paths, const Checkup &checkup) {
    RunInfo info;
    info.device = this_device();
    info.generator_hash = generator_hash(paths.generator);
    info.halide_version = halide_version(paths.generator);
    info.gdn_version = gdn_version();
    info.date = date();
    info.doctor = checkup.json();
    info.noisy = !checkup.fit();
    return info;
}

Journal open_journal(const TuneRun &run, const RunInfo &info) {
    if (!fs::exists(run.journal)) {
        if (run.resume) throw Failure(kExitUsage, "--resume: there is no " + run.journal);
        return Journal::create(run.journal, info);
    }
    if (!run.resume) {
        throw Failure(kExitUsage, run.journal + " is there already: --resume goes on with it, --journal names another file");
    }
    Journal journal = Journal::open(run.journal, false);
    journal.require_same(info);
    if (info.noisy && !journal.info().noisy) journal.mark_noisy(info.doctor);
    return journal;
}

BuilderOptions builder_options(const TuneRun &run) {
    BuilderOptions options;
    options.generator = run.paths.generator;
    options.cache = run.paths.cache + "/objects";
    options.jobs = run.jobs;
    return options;
}

std::unique_ptr<Measurer> measurer_of(const TuneRun &run) {
    require_worker(run.paths);
    return make_measurer(run.paths.worker, run.paths.cache + "/inputs");
}

/// What measures: made only where the machine is fit, or the user insists.
struct Bench {
    // The journal last: none is made where the rest cannot be.
    explicit Bench(const TuneRun &run)
        : checkup(checked(run)), builder(make_builder(builder_options(run))), measurer(measurer_of(run)),
          journal(open_journal(run, run_info(run.paths, checkup))) {}

    Checkup checkup;
    std::unique_ptr<Builder> builder;
    std::unique_ptr<Measurer> measurer;
    Journal journal;

private:
    static Checkup checked(const TuneRun &run) {
        const Checkup checkup = examine();
        if (!checkup.fit() && !run.force) {
            std::string text = "this machine is not fit for measuring now:";
            for (const Finding &finding : checkup.unfit()) {
                text += "\n  " + finding.what + ": " + finding.text + (finding.advice.empty() ? "" : ". " + finding.advice);
            }
            throw Failure(kExitFailure, text + "\n`gdn doctor` says more; --force measures all the same and marks the results");
        }
        return checkup;
    }
};

/// An optimiser outside asks on stdin. Its points are in the journal like any others.
void serve(const std::vector<SessionTask> &tasks, const TuneRun &run) {
    if (tasks.size() != 1)
        throw Failure(
            kExitUsage, "--ask-tell serves one kernel and class, these are " + std::to_string(tasks.size()) + ": see --class and --target");
    const SessionTask &t = tasks[0];
    Bench bench(run);
    const int64_t id = bench.journal.task(t.task);
    const auto evaluate = [&](const std::vector<Point> &points) {
        const auto searcher = make_given(points);
        search(t.task, t.kernel, *searcher, *bench.builder, *bench.measurer, bench.journal, {}, {}, interrupt_flag());
        std::map<std::string, Trial> known;
        for (const Trial &trial : bench.journal.trials(id, "search")) known[text_of(trial.config)] = trial;
        std::vector<Evaluation> evaluations;
        for (const Point &point : points) {
            const Trial &trial = known[text_of(t.task.space.config(point))];
            evaluations.push_back({{trial.status, trial.cost.value}, trial.cost.low, trial.cost.high, trial.error});
        }
        return evaluations;
    };
    ask_tell(std::cin, std::cout, t.task.space, evaluate, &interrupt_flag());
    check_interrupt();
    finish(t.task, t.kernel, *bench.builder, *bench.measurer, bench.journal, {}, interrupt_flag());
    check_interrupt();
}

void run(Options &options) {
    if (!options.configs.empty()) options.request.searcher = "given";
    if (options.ask_tell) options.request.searcher = "ask-tell";
    options.run.resume |= options.run.session.finish;
    const std::vector<SessionTask> tasks = planned(options);
    if (options.dry_run) {
        print_plan(tasks, options.json);
        return;
    }
    if (options.ask_tell) {
        serve(tasks, options.run);
        return;
    }
    const std::vector<TuneResult> results = run_tuning(tasks, options.run);
    bool interrupted = false;
    uint64_t failed = 0, left = 0, before = 0;
    ordered_json list = ordered_json::array();
    for (size_t i = 0; i < tasks.size(); i++) {
        interrupted |= results[i].interrupted;
        failed += results[i].failed;
        before += results[i].before;
        left += !results[i].failed && results[i].winner.cost.samples == 0;
        ordered_json both = json_of(tasks[i]);
        both["result"] = json_of(results[i]);
        list.push_back(both);
    }
    if (options.json) {
        std::printf("%s\n", ordered_json{{"journal", options.run.journal}, {"tasks", list}}.dump(1).c_str());
    } else {
        print_results(tasks, results);
        if (before) {
            std::printf(
                "\n%s finished before and left alone: more --evaluations than it has, or a --config that it lacks, go on with a task.\n",
                count_of(before, "task").c_str());
        }
        if (left && !interrupted) {
            std::printf("\n%s not searched%s\n", count_of(left, "task").c_str(),
                options.run.session.finish ? ": --finish compares what was measured before."
                                           : " for want of time: --resume with more of it goes on with them.");
        }
        const char *const journal = options.run.journal.c_str();
        if (options.request.shards > 1) {
            std::printf("\nJournal: %s, a share. Next, with the others: gdn tune merge all.db %s ..\n", journal, journal);
        } else if (left < tasks.size()) {
            std::printf("\nJournal: %s. Next: gdn tune export %s\n", journal, journal);
        }
    }
    if (interrupted) throw Failure(kExitInterrupted, "interrupted; `gdn tune run .. --resume` goes on with " + options.run.journal);
    if (failed) throw Failure(kExitFailure, "of " + count_of(tasks.size(), "task") + " " + std::to_string(failed) + " failed");
}

void list(Options &options) {
    options.all = options.request.globs.empty();
    print_plan(planned(options), options.json);
}

/// One configuration against the default, verified, with full samples.
void replay(Options &options) {
    const std::vector<SessionTask> tasks = planned(options);
    const Config wish = options.run.session.start.at(0);
    const auto builder = make_builder(builder_options(options.run));
    const auto measurer = measurer_of(options.run);
    ordered_json list = ordered_json::array();
    bool right = true;
    for (const SessionTask &t : tasks) {
        const Config config = t.task.space.config(t.task.space.point(wish));
        const std::vector<Built> built = builder->build({{&t.kernel, t.task.default_config}, {&t.kernel, config}}, {}, &interrupt_flag());
        check_interrupt();
        if (built[0].status != Status::kOk)
            throw Failure(kExitFailure, t.task.kernel + ": the default could not be built: " + built[0].error);
        Trial trial;
        trial.status = built[1].status;
        trial.error = built[1].error;
        if (trial.status == Status::kOk) {
            trial = measurer
                        ->measure(t.kernel, t.task.shapes, {built[0], t.task.default_config}, {{built[1], config}}, thorough(t.task.rounds),
                            &interrupt_flag())
                        .at(0);
            check_interrupt();
        }
        right &= trial.status != Status::kWrongResult;
        ordered_json shapes = ordered_json::array();
        for (size_t s = 0; s < trial.ns.size(); s++) {
            shapes.push_back({{"shape", text_of(t.task.shapes[s])}, {"ns", estimate(trial.ns[s]).value},
                {"default_ns", estimate(trial.anchor[s]).value}});
        }
        list.push_back({{"task", t.task.name()}, {"config", text_of(config)}, {"status", name_of(trial.status)}, {"error", trial.error},
            {"verify_error", trial.verify_error}, {"cost", trial.cost.value}, {"low", trial.cost.low}, {"high", trial.cost.high},
            {"shapes", shapes}});
        if (options.json) continue;
        std::printf("%s%s%s\n  %s\n", style().bold, t.task.name().c_str(), style().off, text_of(config).c_str());
        if (trial.status != Status::kOk) {
            std::printf("  %s%s%s: %s\n", style().bad, name_of(trial.status), style().off, trial.error.c_str());
            continue;
        }
        std::printf("  %.4f of the default's time (95 %%: %.4f to %.4f), relative error %.1e\n", trial.cost.value, trial.cost.low,
            trial.cost.high, trial.verify_error);
        for (const ordered_json &shape : shapes) {
            std::printf("    %-28s %10.2f us, default %10.2f us\n", shape["shape"].get<std::string>().c_str(),
                shape["ns"].get<double>() * 1e-3, shape["default_ns"].get<double>() * 1e-3);
        }
    }
    if (options.json) std::printf("%s\n", ordered_json{{"replays", list}}.dump(1).c_str());
    if (!right) throw Failure(kExitVerification, "a configuration gives wrong results");
}

void add_plan_options(CLI::App &command, Options &options) {
    PlanRequest &request = options.request;
    request.target = "auto";
    command.add_option("KERNEL", request.globs, "Kernel names or globs of `gdn kernels`: core_chunk_*_128x128");
    command.add_option("--target", request.target, "A target of `gdn info`, auto, or all")->capture_default_str();
    command.add_option("--class", options.classes, "Length classes: decode, block, short, long, any [all]")->delimiter(',');
    command.add_option("--shape", request.shapes, "B=1,T=1024:8192:x2,H=16, may be repeated [per class]");
    command.add_option("--threads", request.threads, "Threads of the default shapes")->check(CLI::Range(1, 1024))->capture_default_str();
    command.add_option("--values", options.values, "Restrict a parameter: rows=4,8; may be repeated");
    command.add_option("--parameters", request.parameters, "Parameters to search [all that the shapes can show]")->delimiter(',');
    command.add_option("--base", options.base, "Values of parameters that are not searched: cols=32,rows=8");
    add_path_options(command, options.run.paths);
    command.add_flag("--json", options.json, "Print one JSON object");
}

}  // namespace

double parse_duration(const std::string &text) {
    double seconds = 0;
    size_t at = 0;
    bool any = false;
    while (at < text.size()) {
        size_t used = 0;
        double number = -1;
        try {
            number = std::stod(text.substr(at), &used);
        } catch (const std::exception &) {
        }
        at += used;
        const char unit = at < text.size() ? text[at++] : 's';
        const double scale = unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : 0;
        if (!(number >= 0) || !used || scale == 0 || !std::isfinite(number))
            throw Failure(kExitUsage, "\"" + text + "\" is no time, expected 90s, 10m or 1h30m");
        seconds += number * scale;
        any = true;
    }
    if (!any || seconds <= 0) throw Failure(kExitUsage, "\"" + text + "\" is no time, expected 90s, 10m or 1h30m");
    return seconds;
}

std::vector<TuneResult> run_tuning(const std::vector<SessionTask> &tasks, const TuneRun &run) {
    Bench bench(run);
    Lines lines(tasks);
    SessionOptions session = run.session;
    session.progress = [&](size_t index, const tune::Progress &progress) { lines.show(index, progress); };
    return run_session(tasks, *bench.builder, *bench.measurer, bench.journal, session, interrupt_flag());
}

void print_results(const std::vector<SessionTask> &tasks, const std::vector<TuneResult> &results) {
    size_t width = 6;
    for (const SessionTask &t : tasks) width = std::max(width, t.task.name().size());
    std::printf("%s%-*s %7s %11s %17s  %s%s\n", style().bold, static_cast<int>(width), "kernel", "tried", "time/default", "95 % interval",
        "changed", style().off);
    for (size_t i = 0; i < tasks.size(); i++) {
        const TuneResult &r = results[i];
        const bool known = r.winner.cost.samples > 0;
        const std::string said = r.failed     ? "failed, see below"
                                 : r.improved ? short_text(r.winner.config, tasks[i].task.default_config)
                                 : known      ? "nothing: the default holds"
                                              : "not searched";
        std::printf("%-*s %7llu %s%11s%s %17s  %s\n", static_cast<int>(width), tasks[i].task.name().c_str(),
            static_cast<unsigned long long>(r.evaluations), r.improved ? style().good : "",
            known ? format("%.3f", r.winner.cost.value).c_str() : "-", r.improved ? style().off : "",
            known ? format("%.3f to %.3f", r.winner.cost.low, r.winner.cost.high).c_str() : "", said.c_str());
    }
    for (size_t i = 0; i < tasks.size(); i++) {
        if (results[i].failed)
            std::printf("\n%s%s%s: %s\n", style().bad, tasks[i].task.name().c_str(), style().off, results[i].why.c_str());
    }
}

void add_tune_run(CLI::App &tune) {
    {
        auto options = std::make_shared<Options>();
        CLI::App &command = *tune.add_subcommand("run", "Search configurations: compile, verify, time, and keep everything in a journal");
        add_plan_options(command, *options);
        SessionOptions &session = options->run.session;
        options->run.journal = "tune.db";
        command.add_flag("--all", options->all, "Every kernel; time goes where gain is expected");
        command.add_option("--search", options->request.searcher, "Strategy")
            ->check(CLI::IsMember(searcher_names()))
            ->capture_default_str();
        command.add_option("--config", options->configs, "Time only this configuration, cols:32,rows:8; may be repeated");
        CLI::Option *ask_tell = command.add_flag(
            "--ask-tell", options->ask_tell, "One kernel: an optimiser outside asks on stdin and is told on stdout, in JSON lines");
        command.add_option("--seed", options->request.seed, "Seed of the strategy")->capture_default_str();
        command.add_option("--batch", options->request.batch, "Candidates asked for, built and timed together")
            ->check(CLI::Range(1, 64))
            ->capture_default_str();
        command.add_option("--time", options->time, "Stop after 10m, 1h30m, .. of all kernels together");
        command.add_option("--evaluations", session.budget.evaluations, "Stop a kernel after so many candidates");
        command.add_option("--no-gain", session.budget.no_gain, "Stop a kernel after so many candidates without a better one");
        command.add_option("--rounds", options->request.rounds, "Timed rounds of a batch")
            ->check(CLI::Range(3, 1000))
            ->capture_default_str();
        command.add_option("--journal", options->run.journal, "SQLite file that keeps every measurement")->capture_default_str();
        command.add_flag("--resume", options->run.resume, "Go on with the journal");
        command.add_flag(
            "--finish", session.finish, "Search nothing: go on with the journal to the final comparisons, as after gdn tune merge");
        ask_tell->excludes("--config")->excludes("--finish");
        command.add_option("--shard", options->shard, "i/n: only this share of the candidates, see gdn tune merge");
        command.add_option("--jobs", options->run.jobs, "Compilers at a time [CPUs]")->check(CLI::NonNegativeNumber);
        command.add_flag("--force", options->run.force, "Measure on a machine that gdn doctor finds unfit; the results carry a mark");
        command.add_flag("--dry-run", options->dry_run, "Print the plan only");
        command.footer(
            "Ctrl-C ends cleanly (exit code 5) and keeps the journal.\n\nExamples:\n  gdn tune run core_chunk_channel_own_128x128 --time "
            "10m\n"
            "  gdn tune run --all --time 2h --journal mine.db\n  gdn tune run 'core_step_*' --values unroll_k=1,2 --search exhaustive\n"
            "  gdn tune run core_chunk_channel_tied_128x128 --class long --shape T=1024:8192:x2,H=16 --dry-run");
        command.callback([options] { run(*options); });
    }
    {
        auto options = std::make_shared<Options>();
        CLI::App &command = *tune.add_subcommand("list", "Kernels, their spaces and default shapes");
        add_plan_options(command, *options);
        command.callback([options] { list(*options); });
    }
    {
        auto options = std::make_shared<Options>();
        CLI::App &command = *tune.add_subcommand("replay", "One configuration against the default: verified, with full samples");
        add_plan_options(command, *options);
        command.add_option("--config", options->configs, "cols:32,rows:8; what is not named stays at its default")->required()->expected(1);
        command.callback([options] { replay(*options); });
    }
}

}  // namespace gdn::cli
