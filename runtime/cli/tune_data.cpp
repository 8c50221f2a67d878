// gdn tune export, import, refresh and cover: between journals and schedules/tuned.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>

#include <fnmatch.h>
#include <nlohmann/json.hpp>

#include "autotune/data/t4.h"
#include "autotune/data/tree.h"
#include "console.h"
#include "tune.h"

namespace gdn::cli {
namespace {

using nlohmann::ordered_json;
using namespace gdn::tune;
namespace fs = std::filesystem;

struct Options {
    TunePaths paths;
    std::vector<std::string> inputs;
    std::string target, kernel = "*", device;
    bool to_stdout = false, t4 = false, merge = false, dry_run = false, check = false, drop = false, json = false;

    bool chosen(const std::string &name, const std::string &of_target) const {
        return (target.empty() || target == of_target) && fnmatch(kernel.c_str(), name.c_str(), 0) == 0;
    }
};

std::vector<Kernel> kernels_of(Options &options) {
    find_paths(options.paths);
    std::vector<Kernel> kernels = list_kernels(options.paths.generator, options.paths.kernels);
    if (options.target.empty()) return kernels;
    if (std::none_of(kernels.begin(), kernels.end(), [&](const Kernel &kernel) { return kernel.target == options.target; })) {
        throw Failure(kExitNoTarget, "no target \"" + options.target + "\" in the list of kernels");
    }
    return kernels;
}

/// Writes unless it is a dry run, and says what changed.
void carry_out(const Update &update, const Options &options) {
    if (!options.dry_run) replace_files(update.files);
    if (options.json) {
        ordered_json json = {{"changes", update.changes}, {"files", ordered_json::array()}, {"written", !options.dry_run}};
        for (const auto &[path, text] : update.files) json["files"].push_back(path);
        std::printf("%s\n", json.dump(2).c_str());
        return;
    }
    for (const std::string &line : update.changes) std::printf("%s\n", line.c_str());
    for (const auto &[path, text] : update.files) std::printf("%s %s\n", options.dry_run ? "would write" : "wrote", path.c_str());
    if (update.files.empty()) std::printf("nothing to change\n");
}

/// What the journals have found, kernels and target as chosen.
std::vector<DeviceFile> results_of(const Options &options) {
    std::vector<DeviceFile> files;
    for (const std::string &path : options.inputs) {
        for (DeviceFile &file : from_journal(Journal::open(path, true))) {
            DeviceFile kept{file.target, file.device, {}};
            for (const auto &[name, classes] : file.kernels) {
                if (options.chosen(name, file.target)) kept.kernels[name] = classes;
            }
            if (!kept.kernels.empty()) files.push_back(kept);
        }
    }
    if (files.empty()) throw Failure(kExitFailure, "no task that was asked for is finished; `gdn tune best` shows what a journal has");
    return files;
}

void export_t4(const Options &options) {
    Files files;
    for (const std::string &path : options.inputs) {
        const Journal journal = Journal::open(path, true);
        for (const auto &[id, task] : journal.tasks()) {
            if (!options.chosen(task.kernel, task.target)) continue;
            const std::string name = task.kernel + "-" + task.target + "-" + name_of(task.length_class) + ".t4.json";
            files.emplace_back((fs::path(options.paths.tuned) / name).string(), t4_json(journal, id, task));
        }
    }
    if (files.empty()) throw Failure(kExitUsage, "no task of the journal matches");
    if (!options.paths.tuned.empty()) return carry_out({{}, files}, options);
    if (files.size() > 1) {
        std::string text =
            "these are several tasks, and a T4 file holds one; choose with --kernel and --target, or name a folder with --output:";
        for (const auto &[name, content] : files) text += "\n  " + name;
        throw Failure(kExitUsage, text);
    }
    std::fputs(files[0].second.c_str(), stdout);
}

/// Of two entries from different generators the stale one goes, and which that is cannot be told from the journals.
void require_one_generator(const std::vector<std::string> &journals) {
    std::string first;
    for (const std::string &path : journals) {
        const std::string hash = Journal::open(path, true).info().generator_hash;
        if (first.empty()) first = hash;
        if (hash != first) {
            throw Failure(kExitUsage, journals[0] + " was made with the generator " + first + ", " + path + " with " + hash +
                                          ": print one of them, or export both into the tuned data");
        }
    }
}

void export_results(Options &options) {
    if (options.t4) return export_t4(options);
    if (options.to_stdout) require_one_generator(options.inputs);
    const std::vector<DeviceFile> files = results_of(options);
    if (options.to_stdout) {
        DeviceFile all = files[0];
        for (const DeviceFile &file : files) {
            if (file.target != all.target) {
                throw Failure(
                    kExitUsage, "the journals have results for " + all.target + " and " + file.target + ": choose one with --target");
            }
            if (&file != &files[0]) merge(&all, file, file.kernels.begin()->second.begin()->second.generator_hash);
        }
        std::fputs(text_of(all).c_str(), stdout);
        return;
    }
    const std::vector<Kernel> kernels = kernels_of(options);
    carry_out(merged(options.paths.tuned, files, kernels, generator_hash(options.paths.generator)), options);
}

void import_files(Options &options) {
    const std::vector<Kernel> kernels = kernels_of(options);
    std::vector<DeviceFile> files;
    for (const std::string &path : options.inputs) {
        files.push_back(read_device_file(path));
        const fs::path there = fs::path(options.paths.tuned) / files.back().target / (files.back().device.key() + ".json");
        if (!options.merge && fs::exists(there))
            throw Failure(kExitUsage, there.string() + " is there already: add --merge to keep the better of each entry");
    }
    carry_out(merged(options.paths.tuned, files, kernels, generator_hash(options.paths.generator)), options);
}

void cover(Options &options) {
    const std::vector<Kernel> kernels = kernels_of(options);
    const Update update = covered(options.paths.tuned, options.target, kernels);
    options.dry_run = options.dry_run || options.check;
    carry_out(update, options);
    if (options.check && !update.files.empty()) {
        throw Failure(kExitFailure, update.files[0].first + " is not what follows from the device files beside it: run `gdn tune cover`");
    }
}

/// What is timed again: the winner first, then the next best.
std::vector<Config> again(const Stale &one) {
    constexpr size_t kMost = 8;
    return {one.configs.begin(), one.configs.begin() + static_cast<std::ptrdiff_t>(std::min(one.configs.size(), kMost))};
}

/// The device files of the targets and the device as chosen.
std::vector<DeviceFile> files_of(const Options &options, const std::vector<Kernel> &kernels) {
    std::set<std::string> targets, devices;
    for (const Kernel &kernel : kernels) {
        if (options.target.empty() || kernel.target == options.target) targets.insert(kernel.target);
    }
    std::vector<DeviceFile> files;
    for (const std::string &target : targets) {
        for (const DeviceFile &file : read_target(options.paths.tuned, target)) {
            devices.insert(file.device.key());
            if (options.device.empty() || options.device == file.device.key()) files.push_back(file);
        }
    }
    if (files.empty() && !options.device.empty()) {
        std::string names;
        for (const std::string &device : devices) names += (names.empty() ? "" : ", ") + device;
        throw Failure(kExitUsage, "no device file of \"" + options.device + "\"; there are " + (names.empty() ? "none" : names));
    }
    return files;
}

void refresh(Options &options) {
    const std::vector<Kernel> kernels = kernels_of(options);
    const std::vector<DeviceFile> files = files_of(options, kernels);
    if (options.drop) {
        const auto chosen = [&](const std::string &target, const std::string &device, const std::string &kernel) {
            return options.chosen(kernel, target) && (options.device.empty() || options.device == device);
        };
        return carry_out(dropped(options.paths.tuned, kernels, chosen), options);
    }
    const std::string hash = generator_hash(options.paths.generator);
    std::vector<Stale> found;
    for (const DeviceFile &file : files) {
        for (const Stale &one : stale(file, kernels, hash)) {
            if (options.chosen(one.kernel, file.target)) found.push_back(one);
        }
    }

    ordered_json json = {{"stale", ordered_json::array()}, {"export", ordered_json::array()}};
    std::set<std::string> journals;  // one of each device
    for (const Stale &one : found) {
        std::string command = "gdn tune run " + one.kernel + " --target " + one.target + " --class " + name_of(one.length_class);
        ordered_json row = {{"target", one.target}, {"device", one.device}, {"kernel", one.kernel}, {"class", name_of(one.length_class)},
            {"why", one.why}, {"lost", one.lost}, {"configs", ordered_json::array()}};
        for (const Config &config : again(one)) {
            command += " --config " + text_of(config);
            row["configs"].push_back(text_of(config));
        }
        for (const std::string &shape : one.shapes) command += " --shape " + shape;
        command += " --journal " + one.device + ".db";
        if (!one.lost) {
            if (!journals.insert(one.device + ".db").second) command += " --resume";
            row["command"] = command;
        }
        json["stale"].push_back(row);
        if (options.json) continue;
        std::printf("%s%s%s %s %s, %s: %s\n", style().bold, one.kernel.c_str(), style().off, one.target.c_str(), name_of(one.length_class),
            one.device.c_str(), one.why.c_str());
        std::printf("  %s\n", one.lost ? "tune it anew, or remove it with --drop" : command.c_str());
    }
    for (const std::string &journal : journals) {
        const std::string command = "gdn tune export " + journal;
        json["export"].push_back(command);
        if (!options.json) std::printf("then, on that device: %s\n", command.c_str());
    }
    if (options.json) {
        std::printf("%s\n", json.dump(2).c_str());
    } else {
        std::printf("%zu stale entries%s\n", found.size(), options.device.empty() ? "" : (" of " + options.device).c_str());
    }
}

void add_choice(CLI::App &command, Options &options) {
    command.add_option("--kernel", options.kernel, "Only kernels of this name; * and ? stand for any text and letter");
    command.add_option("--target", options.target, "Only this target");
}

void add_update(CLI::App &command, Options &options) {
    command.add_option("--output,--tuned", options.paths.tuned, "Folder in place of the source tree's schedules/tuned");
    command.add_flag("--dry-run", options.dry_run, "Say what would change and write nothing");
    command.add_flag("--json", options.json, "Print one JSON object");
    add_path_options(command, options.paths);
}

}  // namespace

void add_tune_export(CLI::App &tune) {
    auto options = std::make_shared<Options>();
    CLI::App &command = *tune.add_subcommand("export", "Write a journal's winners into the tuned data, all or nothing");
    command.add_option("JOURNAL", options->inputs, "Journals of gdn tune run")->required()->check(CLI::ExistingFile);
    command.add_flag("--stdout", options->to_stdout, "Print the device's file, to send it to somebody; the source tree stays as it is");
    command.add_flag("--t4", options->t4, "Print (or write into --output) all trials in the T4 form of Kernel Tuner's tools");
    add_choice(command, *options);
    add_update(command, *options);
    command.footer("An entry that is there is replaced only where the new interval lies below it, or where it is stale.\n\nExamples:\n"
                   "  gdn tune export tune.db --dry-run\n"
                   "  gdn tune export tune.db --target x86_avx512 --stdout > mine.json\n"
                   "  gdn tune export --t4 tune.db --output t4");
    command.callback([options] { export_results(*options); });
}

void add_tune_import(CLI::App &tune) {
    auto options = std::make_shared<Options>();
    CLI::App &command = *tune.add_subcommand("import", "Take device files that others measured into the tuned data, all or nothing");
    command.add_option("FILE", options->inputs, "Device files: what `gdn tune export --stdout` printed")
        ->required()
        ->check(CLI::ExistingFile);
    command.add_flag("--merge", options->merge, "Where the device is known already: keep the better of each entry");
    add_update(command, *options);
    command.footer("Examples:\n  gdn tune import --merge mine.json yours.json\n  gdn tune import theirs.json --dry-run");
    command.callback([options] { import_files(*options); });
}

void add_tune_refresh(CLI::App &tune) {
    auto options = std::make_shared<Options>();
    CLI::App &command = *tune.add_subcommand("refresh", "Which entries are stale, and the commands that time only them again");
    command.add_option("--device", options->device, "Only this device's: the name of its file without .json");
    add_choice(command, *options);
    command.add_option("--tuned", options->paths.tuned, "Folder in place of the source tree's schedules/tuned");
    command.add_flag("--drop", options->drop, "Remove the entries that no longer fit the kernels and their spaces");
    command.add_flag("--dry-run", options->dry_run, "With --drop: say what would change and write nothing");
    command.add_flag("--json", options->json, "Print one JSON object");
    add_path_options(command, options->paths);
    command.footer("Examples:\n  gdn tune refresh\n  gdn tune refresh --device authenticamd-amd_epyc-znver4 --json");
    command.callback([options] { refresh(*options); });
}

void add_tune_cover(CLI::App &tune) {
    auto options = std::make_shared<Options>();
    CLI::App &command =
        *tune.add_subcommand("cover", "Compute default.json from the device files: which configurations are built, who uses which");
    command.add_option("--target", options->target, "Only this target");
    command.add_flag("--check", options->check, "Write nothing; exit code 1 if a file is not what follows from the others");
    add_update(command, *options);
    command.footer("Examples:\n  gdn tune cover\n  gdn tune cover --check");
    command.callback([options] { cover(*options); });
}

}  // namespace gdn::cli
