// gdn tune select: which of the configurations that this library was built with is fastest here. Needs no compiler: every candidate is a line
// of overrides on a context of its own.
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <tuple>

#include <fnmatch.h>
#include <unistd.h>

#include "autotune/data/files.h"
#include "console.h"
#include "machine.h"
#include "measure.h"
#include "mixer_problem.h"
#include "operator.h"
#include "statistics.h"
#include "tune.h"

namespace gdn::cli {
namespace {

using nlohmann::ordered_json;

struct Options {
    std::string pattern = "*", target = "auto", output;
    int rounds = 15, cpu = -1;
    bool dry_run = false, json = false;
};

constexpr const char *kBegin = "# >>> gdn tune select", *kEnd = "# <<< gdn tune select";

/// One question: a kernel of a target in sequences of one length class.
struct Task {
    std::string kernel, target, family, length;  // length: "short", "long", "" where a kernel has no classes
    std::vector<std::string> configs;            // by number
    Setup setup;                                 // of a call that runs this kernel
    bool step = false, mixer = false;
    int64_t snapshots = 0;

    std::string scope() const { return kernel + "__" + target + (length.empty() ? "" : "@" + length); }
};

/// Memory of a call of the task.
class Work {
public:
    Work(const Task &task, const Setup &setup, uint64_t seed) : step_(task.step) {
        if (task.mixer) {
            mixer_ = std::make_unique<MixerProblem>(setup, seed, task.step, false);
        } else {
            operator_ = std::make_unique<Problem>(setup, Inputs::kModerate, seed);
            if (task.step) operator_->use_one_state();
            if (task.snapshots) {
                snapshots_ = Tensor(GDN_DTYPE_F32, {setup.batch, task.snapshots, setup.heads, setup.dk, setup.dv}, false);
                operator_->args.snapshots = snapshots_.view;
            }
        }
    }
    const Problem &problem() const { return mixer_ ? mixer_->op : *operator_; }

    size_t workspace_bytes(const Context &context) const {
        size_t bytes = 0;
        check(mixer_ ? gdn_mixer_workspace_size(context.get(), &mixer_->args, &bytes)
                     : gdn_workspace_size(context.get(), &operator_->args, &bytes),
            "workspace size");
        return std::max<size_t>(bytes, 64);
    }
    void call(const Context &context, const Buffer &memory) const {
        check(mixer_ ? (step_ ? gdn_mixer_step : gdn_mixer_forward)(context.get(), &mixer_->args, memory.data(), memory.size())
                     : (step_ ? gdn_step : gdn_forward)(context.get(), &operator_->args, memory.data(), memory.size()),
            "the timed call");
    }
    gdn_reference::Result reference(int64_t hv) const {
        const int64_t n = problem().setup().batch - 1, tokens = problem().setup().tokens;
        return mixer_ ? gdn_reference::run_mixer(mixer_->operands(n, hv, tokens)).op
                      : gdn_reference::run(operator_->operands(n, hv, tokens));
    }

private:
    bool step_;
    std::unique_ptr<Problem> operator_;
    std::unique_ptr<MixerProblem> mixer_;
    Tensor snapshots_;
};

/// Whether the first and the last head of a call come out as the double reference says.
bool right(const Task &task, const Setup &setup, const Context &context) {
    const Work work(task, setup, 2);
    const Buffer memory(work.workspace_bytes(context), false);
    const int64_t heads[] = {0, setup.heads - 1};
    const gdn_reference::Result expected[] = {work.reference(heads[0]), work.reference(heads[1])};
    work.call(context, memory);
    Distance worst;
    for (int i = 0; i < 2; i++) worst.worst(work.problem().distance(expected[i], setup.batch - 1, heads[i], setup.tokens));
    return bounds(setup).hold(worst);
}

/// An odd small call, and the one that is timed.
bool right(const Task &task, const Context &context) {
    Setup small = task.setup;
    small.heads = 3;
    if (small.tokens > 8) small.tokens = task.length == "long" ? 263 : 37;
    return right(task, small, context) && right(task, task.setup, context);
}

void override_with(const Context &context, const std::string &line) {
    check(gdn_apply_overrides(context.get(), line.data(), line.size()), "override");
}

std::map<std::string, std::string> generator_parameters(const std::string &arguments) {
    std::map<std::string, std::string> parameters;
    std::istringstream words(arguments);
    for (std::string word; words >> word;) {
        const size_t equals = word.find('=');
        if (equals != std::string::npos) parameters[word.substr(0, equals)] = word.substr(equals + 1);
    }
    return parameters;
}

/// Channels of a call that runs a kernel of this size; where the size is open, some that no kernel of a fixed size has.
void set_size(Setup &setup, const std::string &size) {
    const size_t x = size.find('x');
    if (size.compare(0, 3, "any") != 0) {
        setup.dk = std::atoll(size.c_str());
        setup.dv = std::atoll(size.c_str() + x + 1);
        return;
    }
    const std::string panel = x == std::string::npos ? "32" : size.substr(x + 1);
    setup.dk = 96;
    setup.dv = panel == "64" ? 128 : panel == "32" ? 96 : 80;
}

/// A call that runs the kernel; false where none of those that are made here does.
bool call_for(const gdn_kernel_info &info, Task *task) {
    std::map<std::string, std::string> of = generator_parameters(info.generator);
    Setup &setup = task->setup;
    setup.heads = 16;
    const std::string family = info.family;
    if (family.compare(0, 5, "core_") == 0) {
        setup.variant = of["core"] == "scalar_tied" ? "gdn" : of["core"] == "channel_tied" ? "kda" : "gdn2";
        if (of["precision"] == "low") setup.precision = "low";
        set_size(setup, of["size"]);
        setup.tokens = task->length == "long" ? 1024 : task->length == "short" ? 256 : family == "core_block" ? 8 : 1;
        setup.v_first = of["layout"] == "vfirst";
        setup.pending = family == "core_pending";
        task->step = setup.tokens == 1;
        task->snapshots = family == "core_block" ? setup.tokens : 0;
        return true;
    }
    setup.dtype = of["dtype"];
    setup.tokens = 512;
    if (family == "stage") {
        setup.variant = of["variant"];
        setup.l2norm = of["form"] == "norm" || of["form"] == "logits";
        setup.decay = of["form"] == "logits" ? "softplus" : of["form"] == "linear" ? "linear" : "log";
        setup.gate = of["form"] == "logits" ? "logit" : "value";
        set_size(setup, of["size"]);
        return true;
    }
    if (family == "store") return setup.dtype != "f32";
    task->mixer = true;
    if (family == "short_conv_step") {
        setup.tokens = 1;
        task->step = true;
        return true;
    }
    return (family == "short_conv" && of["width"] == "4") || (family == "gated_norm" && of["z_dtype"] == of["dtype"]);
}

/// Whether a context with nothing overridden runs the kernel in the task's call; the mixer's kernels are those of its target.
bool in_use(const Task &task, const Context &context) {
    const Work work(task, task.setup, 1);
    const gdn_args &args = work.problem().args;
    if (gdn_supports(context.get(), &args) != GDN_STATUS_OK) return false;
    const ordered_json explanation = explain(context, args);
    if (task.mixer) return explanation["target"] == task.target;
    const std::string symbol = "gdnk_" + task.kernel + "__" + task.target;
    for (const ordered_json &kernel : explanation["kernels"]) {
        const std::string name = kernel["kernel"];
        if (name == symbol || name.compare(0, symbol.size() + 2, symbol + "__") == 0) return true;
    }
    return false;
}

/// What there is to choose; `left` receives kernels that no call made here runs.
std::vector<Task> tasks_of(const Options &options, std::vector<std::string> *left) {
    const Context context(options.target, 1);
    std::vector<Task> tasks;
    for (int64_t i = 0; i < gdn_kernel_count();) {
        gdn_kernel_info first, info;
        check(gdn_kernel_get(i, &first), "kernel list");
        Task task;
        task.kernel = first.kernel;
        task.target = first.target;
        task.family = first.family;
        for (; i < gdn_kernel_count(); i++) {
            check(gdn_kernel_get(i, &info), "kernel list");
            if (info.configuration != static_cast<int32_t>(task.configs.size())) break;
            task.configs.emplace_back(info.config);
        }
        if (task.configs.size() < 2 || !first.runs_here || fnmatch(options.pattern.c_str(), first.kernel, 0) != 0) continue;
        const bool chunk = task.family == "core_chunk";
        for (const char *length : {chunk ? "short" : "", "long"}) {
            if (!chunk && *length) continue;
            Task one = task;
            one.length = length;
            if (call_for(first, &one) && in_use(one, context)) {
                tasks.push_back(one);
            } else if (left->empty() || left->back() != one.kernel + " of " + one.target) {
                left->push_back(one.kernel + " of " + one.target);
            }
        }
    }
    return tasks;
}

struct Outcome {
    int winner = -1;  // configuration; -1: what the library chooses by itself stays
    double ratio = 1, low = 1, high = 1;
    std::vector<int> wrong;  // configurations that gave wrong results
};

/// Ratio of a's to b's time, round by round: median and 95 % interval of it.
void compare(const Contender &a, const Contender &b, Outcome *outcome) {
    const std::vector<double> x = ratios(a.ns, b.ns);
    outcome->ratio = median(x);
    std::tie(outcome->low, outcome->high) = median_interval(x);
}

Outcome choose(const Task &task, const Options &options, const std::string &title) {
    Outcome outcome;
    const Work work(task, task.setup, 1);
    const Context incumbent(options.target, 1);
    std::vector<std::unique_ptr<Context>> contexts;
    std::vector<int> numbers;
    for (size_t i = 0; i < task.configs.size(); i++) {
        check_interrupt();
        auto context = std::make_unique<Context>(options.target, 1);
        override_with(*context, task.scope() + ".config " + std::to_string(i));
        if (!right(task, *context)) {
            outcome.wrong.push_back(static_cast<int>(i));
            continue;
        }
        contexts.push_back(std::move(context));
        numbers.push_back(static_cast<int>(i));
    }
    if (contexts.empty()) throw Failure(kExitVerification, "every configuration of " + title + " gives wrong results, nothing was written");
    size_t bytes = work.workspace_bytes(incumbent);
    for (const auto &context : contexts) bytes = std::max(bytes, work.workspace_bytes(*context));
    const Buffer memory(bytes, false);
    const auto time = [&](const std::vector<const Context *> &which) {
        std::vector<Contender> contenders(which.size());
        std::vector<Contender *> list;
        for (size_t i = 0; i < which.size(); i++) {
            contenders[i].call = [&work, &memory, context = which[i]] { work.call(*context, memory); };
            list.push_back(&contenders[i]);
        }
        measure(
            list, [] { return 0.0; }, options.rounds, 2e-3, title);
        return contenders;
    };
    std::vector<const Context *> all = {&incumbent};
    for (const auto &context : contexts) all.push_back(context.get());
    const std::vector<Contender> first = time(all);
    const bool broken = !right(task, incumbent);  // then whatever is right is better
    size_t best = 0;
    for (size_t i = 1; i < first.size(); i++) {
        Outcome one;
        compare(first[i], first[0], &one);
        if (broken ? !best || one.ratio < outcome.ratio : one.high < 1 && one.ratio < outcome.ratio) {
            best = i;
            outcome.ratio = one.ratio;
        }
    }
    outcome.ratio = 1;
    if (best) {  // the best of several was lucky too: it must win once more
        const std::vector<Contender> again = time({&incumbent, all[best]});
        compare(again[1], again[0], &outcome);
        if (broken || outcome.high < 1) outcome.winner = numbers[best - 1];
    }
    return outcome;
}

/// The file as it is: the lines that an earlier run wrote, and the user's own.
struct Lines {
    std::vector<std::string> ours, users;
};

Lines read_lines(const std::string &path) {
    Lines lines;
    std::error_code error;
    if (!std::filesystem::exists(path, error) && !error) return lines;
    std::istringstream text(tune::file_text(path));
    bool inside = false;
    for (std::string line; std::getline(text, line);) {
        if (line.compare(0, std::strlen(kBegin), kBegin) == 0) {
            inside = true;
        } else if (line.compare(0, std::strlen(kEnd), kEnd) == 0) {
            inside = false;
        } else if (!inside) {
            lines.users.push_back(line);
        } else if (!line.empty() && line[0] != '#') {
            lines.ours.push_back(line);
        }
    }
    // What follows would be taken for lines of an earlier run.
    if (inside) throw Failure(kExitFailure, path + ": the line \"" + kEnd + "\" is missing after \"" + kBegin + "\", nothing was written");
    return lines;
}

bool accepted(const std::string &text) {
    const Context context("auto", 1);
    return gdn_apply_overrides(context.get(), text.data(), text.size()) == GDN_STATUS_OK;
}

std::string scope_of(const std::string &line) { return line.substr(0, line.find(".config")); }

/// The user's own lines. Throws if the library does not take them: no file with them in it would be of use.
std::string own_text(const Lines &lines) {
    std::string text;
    for (const std::string &line : lines.users) text += line + "\n";
    if (!accepted(text))
        throw Failure(kExitFailure, std::string("your own lines of gdn.tuned are refused, nothing was written: ") + gdn_last_error());
    return text;
}

/// The block of this command comes first, so that the user's own lines, which are kept as they are, have the last word.
std::string tuned_text(const Lines &before, const std::set<std::string> &measured, const std::vector<std::string> &chosen) {
    gdn_device_info device;
    check(gdn_device_get(&device), "device");
    std::string text = std::string(kBegin) + " (this block is written by it; your own lines go below)\n# " + date() + ", gdn " +
                       gdn_version() + ", device " + device.key + ", architecture " + device.architecture + "\n";
    for (const std::string &line : before.ours) {
        if (!measured.count(scope_of(line)) && accepted(line)) text += line + "\n";
    }
    for (const std::string &line : chosen) text += line + "\n";
    text += std::string(kEnd) + "\n";
    return text + own_text(before);
}

ordered_json json_of(const Task &task) {
    return {{"kernel", task.kernel}, {"target", task.target}, {"class", task.length.empty() ? "any" : task.length},
        {"configurations", task.configs}};
}

void run(const Options &options) {
    std::string folder = options.output;
    const char *tuned = std::getenv("GDN_TUNED_DIR");
    if (folder.empty() && tuned) folder = tuned;
    // What stands in the file must not decide what is measured, and a file that a former library wrote must not stop this one.
    unsetenv("GDN_TUNED_DIR");
    if (pin(options.cpu >= 0 ? options.cpu : allowed_cpus().back()) == false && options.cpu >= 0) {
        throw Failure(kExitUsage, "--cpu " + std::to_string(options.cpu) + ": this process may not run there");
    }
    std::vector<std::string> left;
    const std::vector<Task> tasks = tasks_of(options, &left);
    ordered_json json = {{"tasks", ordered_json::array()}, {"written", nullptr}};
    const Style &s = style();
    if (!options.json) {
        for (const std::string &name : left)
            std::printf("%s%s is left as it is: no call made here runs it%s\n", s.dim, name.c_str(), s.off);
    }
    if (tasks.empty()) {
        if (options.json)
            std::printf("%s\n", json.dump(2).c_str());
        else
            std::printf("Of the kernels that run here%s, this library was built with one configuration each: there is nothing to choose.\n",
                options.pattern == "*" ? "" : (" and match " + options.pattern).c_str());
        return;
    }
    if (folder.empty() && !options.dry_run) {
        throw Failure(
            kExitUsage, "where to write gdn.tuned? Name a folder with --output, or set GDN_TUNED_DIR, which the library reads it from");
    }
    const std::string path = folder + "/gdn.tuned";
    if (!options.dry_run && access(folder.c_str(), W_OK) != 0)
        throw Failure(kExitFailure, folder + " cannot be written to: " + std::strerror(errno));
    const Lines before = read_lines(path);
    if (!options.dry_run) own_text(before);
    std::set<std::string> measured;
    std::vector<std::string> chosen;
    for (const Task &task : tasks) {
        const std::string title = task.kernel + (task.length.empty() ? "" : ", " + task.length) + " (" + task.target + ")";
        ordered_json entry = json_of(task);
        if (options.dry_run) {
            if (!options.json) {
                std::printf("%s%s%s: %zu configurations, measured by %s of %lld tokens\n", s.bold, title.c_str(), s.off,
                    task.configs.size(), task.setup.text().c_str(), static_cast<long long>(task.setup.tokens));
            }
            json["tasks"].push_back(entry);
            continue;
        }
        const Outcome outcome = choose(task, options, title);
        measured.insert(task.scope());
        entry["wrong"] = outcome.wrong;
        entry["winner"] = outcome.winner < 0 ? ordered_json(nullptr) : ordered_json(outcome.winner);
        entry["ratio"] = {{"median", outcome.ratio}, {"low", outcome.low}, {"high", outcome.high}};
        json["tasks"].push_back(entry);
        std::string said = "as it is";
        if (outcome.winner >= 0) {
            const std::string &config = task.configs[static_cast<size_t>(outcome.winner)];
            const std::string gain = format("%.1f %% faster (%.1f to %.1f %%)", 100 * (1 / outcome.ratio - 1), 100 * (1 / outcome.high - 1),
                100 * (1 / outcome.low - 1));
            chosen.push_back(task.scope() + ".config " + config + "  # " + gain);
            said = config + ", " + gain;
        }
        if (!options.json) {
            std::printf("%s%s%s: %s\n", s.bold, title.c_str(), s.off, said.c_str());
            for (int wrong : outcome.wrong) std::printf("  %sconfiguration %d gives wrong results%s\n", s.bad, wrong, s.off);
            std::fflush(stdout);
        }
    }
    if (!options.dry_run) {
        const std::string text = tuned_text(before, measured, chosen);
        if (!accepted(text))
            throw Failure(kExitFailure, std::string("the library refuses the new file, nothing was written: ") + gdn_last_error());
        tune::replace_files({{path, text}});
        json["written"] = path;
        if (!options.json) std::printf("written to %s\n", path.c_str());
    }
    if (options.json) std::printf("%s\n", json.dump(2).c_str());
}

}  // namespace

void add_tune_select(CLI::App &tune) {
    auto options = std::make_shared<Options>();
    CLI::App &command =
        *tune.add_subcommand("select", "Choose among the configurations that this library was built with; needs no compiler");
    command.add_option("--kernel", options->pattern, "Only kernels whose short name matches this glob")->capture_default_str();
    command.add_option("--target", options->target, "Target of `gdn info`, or auto: GDN_TARGET, else the best one of this machine")
        ->capture_default_str();
    command.add_option("--output", options->output, "Folder of gdn.tuned [GDN_TUNED_DIR]")->check(CLI::ExistingDirectory);
    command.add_option("--rounds", options->rounds, "Samples of each configuration")->check(CLI::Range(7, 100000))->capture_default_str();
    command.add_option("--cpu", options->cpu, "CPU to pin to [the last one allowed]")->check(CLI::NonNegativeNumber);
    command.add_flag("--dry-run", options->dry_run, "Say what would be measured, and end");
    command.add_flag("--json", options->json, "Print one JSON object");
    command.footer("Writes the file gdn.tuned, which contexts read from the folder that GDN_TUNED_DIR or tuned_dir names. Lines of your "
                   "own in it stay.\n"
                   "Examples:\n  gdn tune select --output ~/.config/gdn\n  gdn tune select --kernel 'core_chunk*' --dry-run");
    command.callback([options] { run(*options); });
}

}  // namespace gdn::cli
