#include "autotune/data/tuned.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "autotune/data/files.h"
#include "autotune/data/json.h"
#include "autotune/format.h"

namespace gdn::tune {

using nlohmann::json;

namespace {

constexpr int kSchema = 1;
constexpr size_t kOthers = 24;  // configurations that an entry keeps of a journal
constexpr size_t kMostOthers = 64;

double rounded(double value, int digits) { return std::isfinite(value) ? std::stod(fixed(value, digits)) : value; }
double rounded_cost(double cost) { return rounded(cost, 4); }

bool fits(double cost) { return std::isfinite(cost) && cost > 0; }

void sort_best_first(std::vector<std::pair<Config, double>> *others) {
    std::sort(others->begin(), others->end(),
        [](const auto &a, const auto &b) { return std::tie(a.second, a.first) < std::tie(b.second, b.first); });
}

bool knows(const Entry &entry, const Config &config) {
    return std::any_of(entry.others.begin(), entry.others.end(), [&](const auto &other) { return other.first == config; });
}

/// A value with the place where it stands, for errors.
class Place {
public:
    Place(const json &value, std::string name) : value_(value), name_(std::move(name)) {}

    [[noreturn]] void fail(const std::string &what) const { throw Error(name_ + ": " + what); }
    Place field(const std::string &name) const {
        const auto found = object().find(name);
        if (found == value_.end()) fail("the field \"" + name + "\" is missing");
        return {*found, name_ + ": " + name};
    }
    void require_only(const std::set<std::string> &names) const {
        for (const auto &[name, value] : object().items()) {
            if (!names.count(name)) fail("unknown field \"" + name + "\"");
        }
    }
    const std::string &name() const { return name_; }
    const json &object() const { return value_.is_object() ? value_ : wrong("an object"); }
    const json &array() const { return value_.is_array() ? value_ : wrong("an array"); }
    std::string text() const { return (value_.is_string() ? value_ : wrong("a text")).get<std::string>(); }
    std::string word() const {
        const std::string text = this->text();
        if (text.empty()) fail("the text is empty");
        return text;
    }
    bool flag() const { return (value_.is_boolean() ? value_ : wrong("true or false")).get<bool>(); }
    int64_t integer(int64_t least, int64_t most) const {
        if (!value_.is_number_integer()) wrong("an integer");
        const bool large = value_.is_number_unsigned() && value_.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
        if (large || value_.get<int64_t>() < least || value_.get<int64_t>() > most) {
            fail("expected from " + std::to_string(least) + " to " + std::to_string(most) + ", not " + value_.dump());
        }
        return value_.get<int64_t>();
    }
    double positive() const {
        const double number = (value_.is_number() ? value_ : wrong("a number")).get<double>();
        if (!fits(number)) fail("expected a number above 0, not " + value_.dump());
        return number;
    }
    Config config() const {
        try {
            return parse_config(text());
        } catch (const Error &error) {
            fail(error.what());
        }
    }
    /// Shapes become arguments of a command that people run, see `gdn tune refresh`: nothing else may stand there.
    std::string shapes() const {
        try {
            parse_shapes(text());
        } catch (const Error &error) {
            fail(error.what());
        }
        return text();
    }
    /// The text gives what differs from the default.
    Config config(const Config &default_config) const {
        Config complete = default_config;
        for (const auto &[name, value] : config()) {
            if (!default_config.count(name)) fail("\"" + name + "\" is no parameter of default_config, " + text_of(default_config));
            complete[name] = value;
        }
        return complete;
    }
    std::vector<std::pair<std::string, Place>> members() const {
        std::vector<std::pair<std::string, Place>> all;
        for (const auto &[name, value] : object().items()) all.emplace_back(name, Place(value, name_ + ": " + name));
        return all;
    }

private:
    const json &wrong(const char *expected) const {
        std::string given = value_.dump(-1, ' ', false, json::error_handler_t::replace);
        if (given.size() > 40) given = given.substr(0, 40) + "..";
        fail(std::string("expected ") + expected + ", not " + given);
    }

    const json &value_;
    std::string name_;
};

Device parse_device(const Place &place) {
    place.require_only({"vendor", "name", "architecture", "features", "cores", "threads", "l1_bytes", "l2_bytes", "l3_bytes"});
    Device device;
    device.vendor = place.field("vendor").word();
    device.name = place.field("name").word();
    device.architecture = place.field("architecture").word();
    device.features = place.field("features").text();
    device.cores = static_cast<int>(place.field("cores").integer(0, 1 << 20));
    device.threads = static_cast<int>(place.field("threads").integer(0, 1 << 20));
    device.l1_bytes = place.field("l1_bytes").integer(0, INT64_MAX);
    device.l2_bytes = place.field("l2_bytes").integer(0, INT64_MAX);
    device.l3_bytes = place.field("l3_bytes").integer(0, INT64_MAX);
    return device;
}

Entry parse_entry(const Place &place) {
    place.require_only({"config", "default_config", "cost", "low", "high", "ns", "default_ns", "samples", "noisy", "doctor", "date",
        "generator", "halide", "gdn", "shapes", "others"});
    Entry entry;
    entry.default_config = place.field("default_config").config();
    entry.config = place.field("config").config(entry.default_config);
    entry.cost = place.field("cost").positive();
    entry.low = place.field("low").positive();
    entry.high = place.field("high").positive();
    if (entry.low > entry.cost || entry.cost > entry.high) place.fail("the cost lies outside its interval from low to high");
    entry.ns = place.field("ns").positive();
    entry.default_ns = place.field("default_ns").positive();
    entry.samples = static_cast<int>(place.field("samples").integer(1, 1 << 30));
    entry.noisy = place.field("noisy").flag();
    entry.doctor = place.field("doctor").text();
    entry.date = place.field("date").word();
    entry.generator_hash = place.field("generator").word();
    entry.halide_version = place.field("halide").word();
    entry.gdn_version = place.field("gdn").word();
    const Place shapes = place.field("shapes");
    for (const json &shape : shapes.array()) entry.shapes.push_back(Place(shape, shapes.name()).shapes());
    const Place others = place.field("others");
    if (others.object().size() > kMostOthers) others.fail("more than " + std::to_string(kMostOthers) + " configurations");
    for (const auto &[text, cost] : others.members()) {
        const Config config = Place(json(text), others.name()).config(entry.default_config);
        if (knows(entry, config)) others.fail(short_text(config, entry.default_config) + " stands there in two spellings");
        entry.others.emplace_back(config, cost.positive());
    }
    sort_best_first(&entry.others);
    for (const auto &[name, config] : {std::pair("config", &entry.config), std::pair("default_config", &entry.default_config)}) {
        if (!knows(entry, *config))
            others.fail(std::string("the cost of \"") + name + "\", " + short_text(*config, entry.default_config) + ", is missing");
    }
    return entry;
}

std::string lines_of(const Entry &entry, const std::string &indent) {
    std::string text = "{\n";
    const auto field = [&](const char *name, const std::string &value) { text += indent + "  \"" + name + "\": " + value + ",\n"; };
    field("config", quoted(text_of(changed(entry.config, entry.default_config))));
    field("cost", fixed(entry.cost, 4));
    field("date", quoted(entry.date));
    field("default_config", quoted(text_of(entry.default_config)));
    field("default_ns", fixed(entry.default_ns, 1));
    field("doctor", quoted(entry.doctor));
    field("gdn", quoted(entry.gdn_version));
    field("generator", quoted(entry.generator_hash));
    field("halide", quoted(entry.halide_version));
    field("high", fixed(entry.high, 4));
    field("low", fixed(entry.low, 4));
    field("noisy", entry.noisy ? "true" : "false");
    field("ns", fixed(entry.ns, 1));
    std::map<std::string, double> others;
    for (const auto &[config, cost] : entry.others) others[text_of(changed(config, entry.default_config))] = cost;
    text += indent + "  \"others\": {";
    const char *between = "";
    for (const auto &[config, cost] : others) {
        text += between + ("\n" + indent) + "    " + quoted(config) + ": " + fixed(cost, 4);
        between = ",";
    }
    text += "\n" + indent + "  },\n";
    field("samples", std::to_string(entry.samples));
    std::string shapes;
    for (const std::string &shape : entry.shapes) shapes += (shapes.empty() ? "" : ", ") + quoted(shape);
    return text + indent + "  \"shapes\": [" + shapes + "]\n" + indent + "}";
}

/// NaN where there are no samples.
double first_median(const std::vector<std::vector<double>> &samples) {
    return quantile(samples.empty() ? std::vector<double>{} : samples[0], 0.5);
}

/// "clock: 3 % apart; load: 2.1": the findings of Checkup::json() that are not good.
std::string words_of_doctor(const std::string &text) {
    std::string words;
    const json checkup = json::parse(text, nullptr, false);
    if (!checkup.is_object() || !checkup.contains("findings")) return words;
    for (const json &finding : checkup["findings"]) {
        if (!finding.is_object() || finding.value("grade", "good") == "good") continue;
        words += (words.empty() ? "" : "; ") + finding.value("what", "") + ": " + finding.value("text", "");
    }
    return words;
}

bool measured(const Trial &trial) { return trial.status == Status::kOk && !trial.abandoned && trial.cost.samples > 0; }

/// False where nothing but the default was measured: that says nothing of it.
bool entry_of(const Journal &journal, int64_t id, const Task &task, const Config &winner, Entry *result) {
    const RunInfo &info = journal.info();
    Entry entry;
    entry.config = winner;
    entry.default_config = task.default_config;
    entry.date = info.date;
    entry.generator_hash = info.generator_hash;
    entry.halide_version = info.halide_version;
    entry.gdn_version = info.gdn_version;
    entry.noisy = info.noisy;
    entry.doctor = words_of_doctor(info.doctor);
    for (const Shape &shape : task.shapes) entry.shapes.push_back(text_of(shape));

    const std::vector<Trial> finals = journal.trials(id, "final");
    const Trial *best = nullptr;
    for (const Trial &trial : finals) {
        if (measured(trial) && trial.config == winner) best = &trial;
    }
    if (!best && winner == task.default_config) return false;
    if (!best) throw Error("the journal's task " + task.name() + " is finished, but has no final trial of its winner " + text_of(winner));
    // The default is what costs are relative to: its own is 1, whatever its interval says. Rounding must not put a cost outside.
    entry.cost = winner == task.default_config ? 1 : rounded_cost(best->cost.value);
    // A file's costs are above 0, and an interval may reach below.
    entry.low = std::min(entry.cost, std::max(1e-4, rounded_cost(best->cost.low)));
    entry.high = std::max(entry.cost, rounded_cost(best->cost.high));
    entry.ns = rounded(first_median(best->ns), 1);
    entry.default_ns = rounded(first_median(best->anchor), 1);
    if (!fits(entry.ns) || !fits(entry.default_ns)) {
        throw Error("the final trial of " + text_of(winner) + " of the journal's task " + task.name() + " has no times of the first shape");
    }
    entry.samples = best->cost.samples;

    const auto learn = [&](const Config &config, double cost) {
        if (fits(rounded_cost(cost)) && !knows(entry, config)) entry.others.emplace_back(config, rounded_cost(cost));
    };
    learn(winner, entry.cost);
    learn(task.default_config, 1);
    for (const Trial &trial : finals) {
        if (measured(trial)) learn(trial.config, trial.cost.value);
    }
    // The best of a search were lucky: what the finalists lost when they were measured again, the others would lose as well. What is the same
    // object with the same run-time parameters was measured again with its twin.
    const std::vector<Trial> trials = journal.trials(id, "search");
    const auto run = [&](const Trial &trial) { return std::pair(trial.object_hash, part_of(trial.config, task.space, false)); };
    std::map<std::pair<std::string, Config>, double> again;
    double luck = 0;
    int finalists = 0;
    for (const Trial &final : finals) {
        if (!measured(final) || final.config == task.default_config) continue;
        again.emplace(run(final), final.cost.value);
        for (const Trial &trial : trials) {
            if (!measured(trial) || trial.config != final.config) continue;
            luck += std::log(final.cost.value / trial.cost.value);
            finalists++;
        }
    }
    const double loss = finalists ? std::max(1.0, std::exp(luck / finalists)) : 1;
    std::vector<std::pair<Config, double>> searched;
    for (const Trial &trial : trials) {
        if (!measured(trial)) continue;
        const auto twin = again.find(run(trial));
        searched.emplace_back(trial.config, twin == again.end() ? std::max(entry.cost, loss * trial.cost.value) : twin->second);
    }
    sort_best_first(&searched);
    for (size_t i = 0; i < searched.size() && entry.others.size() < kOthers; i++) learn(searched[i].first, searched[i].second);
    sort_best_first(&entry.others);
    *result = entry;
    return entry.others.size() > 1;
}

std::string words_of(const Entry &entry) {
    std::string more = entry.config == entry.default_config ? "" : percent(1 - entry.cost) + " less time than the default";
    if (entry.noisy) more += std::string(more.empty() ? "" : ", ") + "on a noisy machine";
    return short_text(entry.config, entry.default_config) + (more.empty() ? "" : " (" + more + ")");
}

}  // namespace

DeviceFile parse_device_file(const std::string &text, const std::string &name) {
    const json parsed = parse_json(text, name);
    const Place root(parsed, name);
    const int64_t schema = root.field("schema").integer(1, INT64_MAX);
    if (schema > kSchema)
        root.fail("schema " + std::to_string(schema) + " is newer than this program, which reads " + std::to_string(kSchema));
    root.require_only({"schema", "target", "device", "kernels"});
    DeviceFile file;
    file.target = root.field("target").word();
    file.device = parse_device(root.field("device"));
    for (const auto &[kernel, classes] : root.field("kernels").members()) {
        for (const auto &[word, entry] : classes.members()) {
            LengthClass c;
            try {
                c = length_class_of(word);
            } catch (const Error &error) {
                classes.fail(error.what());
            }
            file.kernels[kernel][c] = parse_entry(entry);
        }
    }
    return file;
}

DeviceFile read_device_file(const std::string &path) { return parse_device_file(file_text(path), path); }

std::string text_of(const DeviceFile &file) {
    std::string device = json::parse(file.device.json()).dump(2);
    for (size_t at = 0; (at = device.find('\n', at)) != std::string::npos; at++) device.insert(at + 1, "  ");
    std::string text = "{\n  \"device\": " + device + ",\n  \"kernels\": {";
    const char *between = "";
    for (const auto &[kernel, classes] : file.kernels) {
        text += between + std::string("\n    ") + quoted(kernel) + ": {";
        between = ",";
        std::map<std::string, const Entry *> sorted;
        for (const auto &[c, entry] : classes) sorted[name_of(c)] = &entry;
        const char *next = "";
        for (const auto &[c, entry] : sorted) {
            text += next + std::string("\n      ") + quoted(c) + ": " + lines_of(*entry, "      ");
            next = ",";
        }
        text += "\n    }";
    }
    return text + (file.kernels.empty() ? "},\n" : "\n  },\n") + "  \"schema\": " + std::to_string(kSchema) +
           ",\n  \"target\": " + quoted(file.target) + "\n}\n";
}

void require_known(const DeviceFile &file, const std::vector<Kernel> &kernels) {
    const std::string who = "the file of " + file.device.key() + " for " + file.target;
    if (std::none_of(kernels.begin(), kernels.end(), [&](const Kernel &kernel) { return kernel.target == file.target; })) {
        throw Error(who + ": there is no target \"" + file.target + "\"");
    }
    for (const auto &[name, classes] : file.kernels) {
        const Kernel *kernel = find_kernel(kernels, name, file.target);
        if (!kernel) throw Error(who + ": the target has no kernel \"" + name + "\"");
        const std::vector<LengthClass> own = classes_of(kernel->family);
        for (const auto &[c, entry] : classes) {
            const std::string place = who + ": " + name + " " + name_of(c) + ": ";
            if (std::find(own.begin(), own.end(), c) == own.end())
                throw Error(place + "the family " + kernel->family + " has no such length class");
            try {
                for (const auto &[config, cost] : entry.others) kernel->space.point(config);
            } catch (const Error &error) {
                throw Error(place + error.what());
            }
        }
    }
}

std::vector<DeviceFile> from_journal(const Journal &journal) {
    std::map<std::string, DeviceFile> files;
    for (const auto &[id, task] : journal.tasks()) {
        const Journal::Finish finish = journal.finished(id);
        Entry entry;
        if (!finish.done || !entry_of(journal, id, task, finish.winner, &entry)) continue;
        DeviceFile &file = files[task.target];
        file.target = task.target;
        file.device = journal.info().device;
        file.kernels[task.kernel][task.length_class] = entry;
    }
    std::vector<DeviceFile> all;
    for (auto &[target, file] : files) all.push_back(std::move(file));
    return all;
}

std::vector<std::string> merge(DeviceFile *into, const DeviceFile &from, const std::string &generator_hash) {
    const std::string difference = into->device.difference(from.device);
    if (!difference.empty()) throw Error("entries of two devices cannot be merged: " + difference);
    if (into->target != from.target) throw Error("entries of the targets " + into->target + " and " + from.target + " cannot be merged");

    std::vector<std::string> changes;
    DeviceFile merged = *into;
    for (const auto &[kernel, classes] : from.kernels) {
        for (const auto &[c, entry] : classes) {
            const std::string name = kernel + " " + name_of(c) + ": ";
            const auto [place, added] = merged.kernels[kernel].emplace(c, entry);
            if (added) {
                changes.push_back(name + "new, " + words_of(entry));
                continue;
            }
            Entry &old = place->second;
            const bool old_stale = old.generator_hash != generator_hash, new_stale = entry.generator_hash != generator_hash;
            const bool comparable = old.default_config == entry.default_config;
            const bool outdated = old_stale && !new_stale;
            const bool cleaner = old.noisy && !entry.noisy, noisier = entry.noisy && !old.noisy;
            const bool better =
                old_stale == new_stale && !noisier && (cleaner || (comparable ? entry.high < old.low : entry.date > old.date));
            Entry other = entry;
            if (outdated || better) {
                changes.push_back(name + words_of(entry) + " in place of " + (outdated ? "the stale " : "") + words_of(old));
                std::swap(old, other);
            }
            if (!comparable || old_stale != new_stale) continue;
            // Whichever stays learns what the other knew.
            size_t learned = 0;
            for (const auto &[config, cost] : other.others) {
                if (knows(old, config) || old.others.size() >= kMostOthers) continue;
                old.others.emplace_back(config, cost);
                learned++;
            }
            sort_best_first(&old.others);
            if (learned && !better)
                changes.push_back(name + short_text(old.config, old.default_config) + " stays; costs of " + std::to_string(learned) +
                                  " more configurations");
        }
    }
    *into = std::move(merged);
    return changes;
}

}  // namespace gdn::tune
