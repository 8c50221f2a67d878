#include "tuned.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <stdexcept>

using nlohmann::json;
using std::string;

namespace gdn {
namespace {

[[noreturn]] void broken(const string &where, const string &what) { throw std::runtime_error(where + ": " + what); }

// A member of an object. Throws if it is not there.
const json &member(const string &where, const json &object, const char *name) {
    if (!object.is_object() || !object.contains(name)) broken(where, string("expected an object with \"") + name + "\"");
    return object[name];
}

const string &text_member(const string &where, const json &object, const char *name) {
    const json &value = member(where, object, name);
    if (!value.is_string()) broken(where, string("\"") + name + "\" is no text");
    return value.get_ref<const string &>();
}

const json &list_member(const string &where, const json &object, const char *name) {
    const json &value = member(where, object, name);
    if (!value.is_array()) broken(where, string("\"") + name + "\" is no list");
    return value;
}

std::vector<string> classes_of(const string &family) {
    if (family == "core_chunk") return {"short", "long"};
    if (family == "core_block") return {"block"};
    if (family == "core_step" || family == "core_pending" || family == "short_conv_step") return {"decode"};
    return {"any"};
}

Configuration read_configuration(const string &where, const json &overrides, const Space &space) {
    if (!overrides.is_object()) broken(where, "\"config\" is no object");
    std::map<string, int> changed, compiled;
    for (const auto &[name, value] : overrides.items()) {
        if (!value.is_number_integer()) broken(where, "parameter '" + name + "' is no whole number");
        changed[name] = value.get<int>();
        for (const Param &p : space.params()) {
            if (p.name != name) continue;
            if (changed[name] == p.default_value) broken(where, "parameter '" + name + "' is at its default, expected only what differs");
            if (p.kind != ParamKind::Runtime) compiled[name] = changed[name];
        }
    }
    string error;
    const Config config = space.parse(Config(changed).text(), &error);
    if (!error.empty()) broken(where, error);
    return {config, Config(compiled).text()};
}

}  // namespace

Tuned::Tuned(const string &folder, const std::vector<string> &targets, const string &select) : folder_(folder), select_(select) {
    std::set<string> keys;
    for (const string &target : targets) {
        std::ifstream in(path(target));
        if (folder.empty() || !in) continue;
        json file = json::parse(in, nullptr, false);
        if (file.is_discarded()) broken(path(target), "no JSON");
        if (member(path(target), file, "schema") != 2) broken(path(target), "expected \"schema\": 2");
        if (text_member(path(target), file, "target") != target) broken(path(target), "expected \"target\": \"" + target + "\"");
        const json &kernels = member(path(target), file, "kernels");
        if (!kernels.is_object()) broken(path(target), "\"kernels\" is no object");
        for (const auto &[name, kernel] : kernels.items()) {
            for (const json &use : list_member(path(target) + ", " + name, kernel, "use")) {
                if (text_member(path(target) + ", " + name, use, "level") == "device") keys.insert(text_member(path(target), use, "key"));
            }
        }
        files_[target] = std::move(file);
    }
    if (select.empty() || select == "all" || keys.count(select)) return;
    string known = "\"\" (the cover), all";
    for (const string &key : keys) known += ", " + key;
    throw std::runtime_error("--select \"" + select + "\": no tuned data is of this device, expected one of " + known);
}

Selection Tuned::selection(const string &target, const string &kernel, const string &family, const Space &space) const {
    const auto file = files_.find(target);
    if (file == files_.end() || !file->second["kernels"].contains(kernel)) return {{{space.defaults(), ""}}, {}};
    used_[target].push_back(kernel);
    const string where = path(target) + ", " + kernel;
    const json &entry = file->second["kernels"][kernel];
    const std::vector<string> classes = classes_of(family);
    const json &listed = list_member(where, entry, "configs");
    const int count = static_cast<int>(listed.size());

    std::vector<Configuration> all;
    std::vector<bool> keep, cover;
    int standard = -1;  // the space's default
    for (int i = 0; i < count; i++) {
        const string place = where + ", configuration " + std::to_string(i);
        all.push_back(read_configuration(place, member(place, listed[i], "config"), space));
        for (int other = 0; other < i; other++) {
            if (all[other].config.values() == all[i].config.values()) broken(place, "the same as configuration " + std::to_string(other));
        }
        const json &covered = member(place, listed[i], "cover");
        if (!covered.is_boolean()) broken(place, "\"cover\" is neither true nor false");
        cover.push_back(covered.get<bool>());
        if (i > 0 && cover[i] && !cover[i - 1]) broken(place, "the cover's configurations come first");
        if (all[i].config.values() == space.defaults().values()) standard = i;
        keep.push_back(select_ == "all" || (select_.empty() && cover[i]) || (!select_.empty() && i == standard));
    }

    std::vector<Use> uses;
    std::set<string> served;  // classes with a default
    for (const json &use : list_member(where, entry, "use")) {
        Use u;
        u.level = text_member(where, use, "level");
        u.key = text_member(where, use, "key");
        u.length_class = text_member(where, use, "class");
        const string place = where + ", use of " + u.level + " " + u.key + " for " + u.length_class;
        if (u.level != "device" && u.level != "architecture" && u.level != "vendor" && u.level != "default") {
            broken(place, "expected level device, architecture, vendor or default");
        }
        if (u.level == "default" ? !u.key.empty() : u.key.empty()) broken(place, "expected a key for all levels but default");
        if (u.length_class != "any" && std::find(classes.begin(), classes.end(), u.length_class) == classes.end()) {
            broken(place, "no length class of " + family);
        }
        for (const char *which : {"config", "cover"}) {
            const json &index = member(place, use, which);
            const bool covers = string(which) == "cover";
            if (!index.is_number_integer() || index < 0 || index >= count || (covers && !cover[index.get<int>()])) {
                broken(place, string("\"") + which + "\" is no index of a configuration" + (covers ? " of the cover" : ""));
            }
        }
        u.configuration = use[select_.empty() ? "cover" : "config"].get<int>();
        if (!select_.empty() && select_ != "all") {
            if (u.level != "default" && !(u.level == "device" && u.key == select_)) continue;
            keep[u.configuration] = true;
        }
        if (u.level == "default") served.insert(u.length_class);
        uses.push_back(u);
    }

    Selection selection;
    std::vector<int> place_of(count, -1);
    for (int i = 0; i < count; i++) {
        if (!keep[i]) continue;
        place_of[i] = static_cast<int>(selection.configurations.size());
        selection.configurations.push_back(all[i]);
    }
    if (selection.configurations.empty()) broken(where, "no configuration is left");
    if (selection.configurations.size() == 1) return selection;
    for (Use &use : uses) {
        use.configuration = place_of[use.configuration];
        selection.uses.push_back(use);
    }
    for (const string &c : classes) {
        if (served.count(c) || served.count("any")) continue;
        if (standard < 0 || !keep[standard]) {
            broken(where, "no default is named for " + c + ", and the space's default is not among the configurations");
        }
        selection.uses.push_back({"default", "", c, place_of[standard]});
    }
    return selection;
}

void Tuned::require_all_used() const {
    for (const auto &[target, file] : files_) {
        const std::vector<string> &used = used_[target];
        for (const auto &[name, kernel] : file["kernels"].items()) {
            if (std::find(used.begin(), used.end(), name) == used.end()) broken(path(target), name + " is no kernel of the list for this target");
        }
    }
}

}  // namespace gdn
