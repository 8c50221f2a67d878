// gdn tune best, top, why and diff: what is in a journal or a device file.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include <fnmatch.h>
#include <nlohmann/json.hpp>

#include "autotune/data/files.h"
#include "autotune/data/tuned.h"
#include "autotune/report/report.h"
#include "console.h"
#include "tune.h"

namespace gdn::cli {
namespace {

using nlohmann::ordered_json;
using namespace gdn::tune;

struct Options {
    std::string journal, other, kernel = "*", target, length_class;
    int count = 0;
    bool json = false;
};

struct Found {
    int64_t id;
    Task task;
};

std::vector<Found> tasks_of(const Journal &journal, const Options &options) {
    std::vector<Found> found;
    std::string names;
    for (const auto &[id, task] : journal.tasks()) {
        names += "\n  " + task.name();
        const bool chosen = fnmatch(options.kernel.c_str(), task.kernel.c_str(), 0) == 0 &&
                            (options.target.empty() || options.target == task.target) &&
                            (options.length_class.empty() || options.length_class == name_of(task.length_class));
        if (chosen) found.push_back({id, task});
    }
    if (found.empty()) {
        throw Failure(
            kExitUsage, names.empty() ? options.journal + " has no tasks" : "no task matches; " + options.journal + " has" + names);
    }
    return found;
}

/// Good trials, best first; of equal cost the first in order of text.
std::vector<Trial> ranked(const Journal &journal, int64_t id, const std::string &phase) {
    std::vector<Trial> trials = journal.trials(id, phase);
    trials.erase(
        std::remove_if(trials.begin(), trials.end(), [](const Trial &trial) { return trial.status != Status::kOk; }), trials.end());
    std::stable_sort(trials.begin(), trials.end(), [](const Trial &a, const Trial &b) { return a.cost.value < b.cost.value; });
    return trials;
}

ordered_json json_of(const Task &task) { return {{"kernel", task.kernel}, {"target", task.target}, {"class", name_of(task.length_class)}}; }

ordered_json json_of(const Trial &trial) {
    return {{"config", text_of(trial.config)}, {"cost", trial.cost.value}, {"low", trial.cost.low}, {"high", trial.cost.high}};
}

std::string words_of(const Trial &trial, const Task &task) {
    const std::string config = short_text(trial.config, task.default_config);
    return format("%.4f [%.4f, %.4f]  %s", trial.cost.value, trial.cost.low, trial.cost.high, config.c_str());
}

void heading(const Task &task) { std::printf("%s%s%s\n", style().bold, task.name().c_str(), style().off); }

void print(const ordered_json &json) { std::printf("%s\n", json.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str()); }

void best(const Options &options) {
    const Journal journal = Journal::open(options.journal, true);
    ordered_json json = {{"device", journal.info().device.key()}, {"noisy", journal.info().noisy}, {"tasks", ordered_json::array()}};
    for (const auto &[id, task] : tasks_of(journal, options)) {
        const Journal::Finish finish = journal.finished(id);
        std::vector<Trial> trials = ranked(journal, id, finish.done ? "final" : "search");
        const size_t evaluations = journal.trials(id, "search").size();
        if (finish.done) {
            trials.erase(std::remove_if(trials.begin(), trials.end(), [&](const Trial &trial) { return trial.config != finish.winner; }),
                trials.end());
        }
        ordered_json row = json_of(task);
        row.update({{"finished", finish.done}, {"evaluations", evaluations}, {"why", finish.why}});
        if (!trials.empty()) row["best"] = json_of(trials[0]);
        json["tasks"].push_back(row);
        if (options.json) continue;
        heading(task);
        std::printf("  %s\n", trials.empty() ? "nothing measured yet" : words_of(trials[0], task).c_str());
        std::printf("  %s%s%s, %zu evaluations%s\n", style().dim, finish.done ? finish.why.c_str() : "not finished: best of the search",
            style().off, evaluations, journal.info().noisy ? ", noisy machine" : "");
    }
    if (options.json) print(json);
}

void top(const Options &options) {
    const Journal journal = Journal::open(options.journal, true);
    ordered_json json = {{"tasks", ordered_json::array()}};
    for (const auto &[id, task] : tasks_of(journal, options)) {
        std::vector<Trial> trials = ranked(journal, id, "search");
        trials.resize(std::min(trials.size(), static_cast<size_t>(options.count)));
        ordered_json row = json_of(task);
        row["top"] = ordered_json::array();
        if (!options.json) heading(task);
        for (const Trial &trial : trials) {
            row["top"].push_back(json_of(trial));
            if (!options.json) std::printf("  %s\n", words_of(trial, task).c_str());
        }
        json["tasks"].push_back(row);
    }
    if (options.json) print(json);
}

void why(const Options &options) {
    const Journal journal = Journal::open(options.journal, true);
    ordered_json json = {{"tasks", ordered_json::array()}};
    for (const auto &[id, task] : tasks_of(journal, options)) {
        ordered_json row = json_of(task);
        row["parameters"] = ordered_json::array();
        if (!options.json) heading(task);
        for (const Importance &one : importance(journal.trials(id, "search"))) {
            ordered_json values = ordered_json::array();
            std::string text;
            for (const auto &[value, cost] : one.best) {
                values.push_back({{"value", value}, {"best", cost}});
                text += format("  %d: %.4f", value, cost);
            }
            row["parameters"].push_back({{"parameter", one.parameter}, {"share", one.share}, {"values", values}});
            if (!options.json) std::printf("  %-16s %5.1f %%  best cost with%s\n", one.parameter.c_str(), 100 * one.share, text.c_str());
        }
        json["tasks"].push_back(row);
    }
    if (options.json) print(json);
}

std::string words_of(const Entry &entry) { return short_text(entry.config, entry.default_config); }

using Entries = std::map<std::string, Entry>;  // by task name

Entries entries_of(const std::string &path) {
    const std::string text = file_text(path), sqlite = "SQLite format 3";
    std::vector<DeviceFile> files;
    if (text.compare(0, sqlite.size(), sqlite) == 0) {
        files = from_journal(Journal::open(path, true));
    } else {
        files = {parse_device_file(text, path)};
    }
    Entries entries;
    for (const DeviceFile &file : files) {
        for (const auto &[kernel, classes] : file.kernels) {
            for (const auto &[c, entry] : classes) entries[kernel + " " + file.target + " " + name_of(c)] = entry;
        }
    }
    return entries;
}

void diff(const Options &options) {
    const Entries a = entries_of(options.journal), b = entries_of(options.other);
    std::map<std::string, std::pair<const Entry *, const Entry *>> all;
    for (const auto &[name, entry] : a) all[name].first = &entry;
    for (const auto &[name, entry] : b) all[name].second = &entry;
    ordered_json json = {{"differences", ordered_json::array()}, {"equal", 0}};
    size_t equal = 0;
    for (const auto &[name, sides] : all) {
        const auto &[x, y] = sides;
        ordered_json row = {{"task", name}};
        std::string text;
        if (!x || !y) {
            const Entry &only = x ? *x : *y;
            row["only_in"] = x ? "a" : "b";
            text = std::string("only in ") + (x ? options.journal : options.other) + ": " + words_of(only) + format(" %.4f", only.cost);
        } else if (x->config == y->config && x->default_config == y->default_config && !(x->high < y->low || y->high < x->low)) {
            equal++;
            continue;
        } else {
            row.update(
                {{"a", {{"config", text_of(x->config)}, {"cost", x->cost}}}, {"b", {{"config", text_of(y->config)}, {"cost", y->cost}}}});
            text = words_of(*x) + format(" %.4f -> ", x->cost) + (x->config == y->config ? "the same" : words_of(*y)) +
                   format(" %.4f", y->cost);
            if (x->default_config == y->default_config) {
                const bool separate = x->high < y->low || y->high < x->low;
                row.update({{"gain", x->cost / y->cost - 1}, {"separate", separate}});
                text += format(", %+.1f %%%s", 100 * (x->cost / y->cost - 1), separate ? "" : " (intervals overlap)");
            } else {
                text += ", costs against different defaults";
            }
        }
        json["differences"].push_back(row);
        if (!options.json) std::printf("%s%s%s: %s\n", style().bold, name.c_str(), style().off, text.c_str());
    }
    json["equal"] = equal;
    if (options.json) {
        print(json);
    } else {
        std::printf("%zu differ, %zu are the same\n", all.size() - equal, equal);
    }
}

void add_choice(CLI::App &command, Options &options) {
    command.add_option("--target", options.target, "Only this target");
    command.add_option("--class", options.length_class, "Only this length class: any, decode, block, short, long")
        ->check(CLI::IsMember({"any", "decode", "block", "short", "long"}));
    command.add_flag("--json", options.json, "Print one JSON object");
}

}  // namespace

void add_tune_best(CLI::App &tune) {
    auto options = std::make_shared<Options>();
    CLI::App &command = *tune.add_subcommand("best", "The winner of every task of a journal");
    command.add_option("JOURNAL", options->journal, "Journal of gdn tune run")->required()->check(CLI::ExistingFile);
    command.add_option("--kernel", options->kernel, "Only kernels of this name; * and ? stand for any text and letter");
    add_choice(command, *options);
    command.footer("Costs are times relative to the default configuration, with their 95 % interval.\n\nExamples:\n"
                   "  gdn tune best tune.db\n  gdn tune best tune.db --kernel 'core_chunk_*' --json");
    command.callback([options] { best(*options); });
}

void add_tune_top(CLI::App &tune) {
    auto options = std::make_shared<Options>();
    CLI::App &command = *tune.add_subcommand("top", "The best configurations of every task of a journal");
    command.add_option("N", options->count, "How many")->required()->check(CLI::Range(1, 1000000));
    command.add_option("JOURNAL", options->journal, "Journal of gdn tune run")->required()->check(CLI::ExistingFile);
    command.add_option("--kernel", options->kernel, "Only kernels of this name; * and ? stand for any text and letter");
    add_choice(command, *options);
    command.footer("Examples:\n  gdn tune top 10 tune.db --kernel core_chunk_channel_tied_128x128");
    command.callback([options] { top(*options); });
}

void add_tune_why(CLI::App &tune) {
    auto options = std::make_shared<Options>();
    CLI::App &command = *tune.add_subcommand("why", "How much each parameter matters for a kernel");
    command.add_option("JOURNAL", options->journal, "Journal of gdn tune run")->required()->check(CLI::ExistingFile);
    command.add_option("KERNEL", options->kernel, "Name; * and ? stand for any text and letter")->required();
    add_choice(command, *options);
    command.footer("The share is that of the spread of costs which the parameter's values explain.\n\nExamples:\n"
                   "  gdn tune why tune.db core_chunk_channel_tied_128x128");
    command.callback([options] { why(*options); });
}

void add_tune_diff(CLI::App &tune) {
    auto options = std::make_shared<Options>();
    CLI::App &command = *tune.add_subcommand("diff", "What differs between two device files or journals");
    command.add_option("A", options->journal, "Device file or journal")->required()->check(CLI::ExistingFile);
    command.add_option("B", options->other, "Device file or journal")->required()->check(CLI::ExistingFile);
    command.add_flag("--json", options->json, "Print one JSON object");
    command.footer("Entries with the same configuration and overlapping intervals are the same.\n\nExamples:\n"
                   "  gdn tune diff schedules/tuned/x86_avx512/authenticamd-amd_epyc-znver4.json tune.db");
    command.callback([options] { diff(*options); });
}

}  // namespace gdn::cli
