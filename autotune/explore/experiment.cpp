#include "autotune/explore/experiment.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "autotune/data/json.h"
#include "autotune/search/searcher.h"

namespace gdn::tune {
namespace {

using nlohmann::json;

/// One object of the file, which has no other keys than these.
class Object {
public:
    Object(const json &value, std::string place, const std::vector<std::string> &keys) : value_(value), place_(std::move(place)) {
        if (!value.is_object()) throw Error(place_ + ": expected an object, got " + value.dump());
        std::string known;
        for (const std::string &key : keys) known += (known.empty() ? "" : ", ") + key;
        for (const auto &[key, ignored] : value.items()) {
            if (std::find(keys.begin(), keys.end(), key) == keys.end())
                throw Error(place_ + ": unknown key \"" + key + "\"; there are " + known);
        }
    }
    bool has(const char *key) const { return value_.contains(key); }
    const json &at(const char *key) const {
        if (!has(key)) throw Error(place_ + ": the key \"" + key + "\" is missing");
        return value_.at(key);
    }
    std::string place(const char *key) const { return place_ + ": \"" + key + "\""; }

    std::string text(const char *key) const {
        if (!at(key).is_string()) wrong(key, "a string");
        return at(key).get<std::string>();
    }
    uint64_t whole(const char *key, uint64_t least, uint64_t most) const { return whole(at(key), key, least, most); }
    std::vector<std::string> texts(const char *key) const {
        std::vector<std::string> out;
        for (const json &item : list(key)) {
            if (!item.is_string() || item.get<std::string>().empty()) wrong(key, "a list of strings that are not empty");
            out.push_back(item.get<std::string>());
        }
        if (std::set<std::string>(out.begin(), out.end()).size() != out.size()) wrong(key, "a list that has nothing twice");
        return out;
    }
    template <class T> std::vector<T> wholes(const char *key) const {
        std::vector<T> out;
        for (const json &item : list(key)) out.push_back(static_cast<T>(whole(item, key, 0, std::numeric_limits<int>::max())));
        if (std::set<T>(out.begin(), out.end()).size() != out.size()) wrong(key, "a list that has nothing twice");
        return out;
    }

private:
    [[noreturn]] void wrong(const char *key, const std::string &expected) const {
        throw Error(place(key) + ": expected " + expected + ", got " + at(key).dump());
    }
    const json &list(const char *key) const {
        if (!at(key).is_array() || at(key).empty()) wrong(key, "a list that is not empty");
        return at(key);
    }
    uint64_t whole(const json &item, const char *key, uint64_t least, uint64_t most) const {
        const bool fits = item.is_number_unsigned() && item.get<uint64_t>() >= least && item.get<uint64_t>() <= most;
        if (!fits)
            throw Error(place(key) + ": expected whole numbers from " + std::to_string(least) + " to " + std::to_string(most) + ", got " +
                        item.dump());
        return item.get<uint64_t>();
    }

    const json &value_;
    const std::string place_;
};

}  // namespace

Experiment parse_experiment(const std::string &text, const std::string &name) {
    const json file = parse_json(text, name);
    const Object top(file, name,
        {"title", "text", "kernels", "targets", "space", "shapes", "searchers", "seeds", "budget", "repeats", "batch", "rounds"});
    Experiment out;
    out.title = top.text("title");
    if (top.has("text")) out.text = top.text("text");
    out.kernels = top.texts("kernels");
    if (top.has("targets")) out.targets = top.texts("targets");
    if (top.has("space")) {
        const Object space(top.at("space"), top.place("space"), {"parameters", "values"});
        if (space.has("parameters")) out.parameters = space.texts("parameters");
        if (space.has("values")) {
            std::vector<std::string> names;
            for (const auto &[parameter, ignored] : space.at("values").items()) names.push_back(parameter);
            const Object values(space.at("values"), space.place("values"), names);
            for (const std::string &parameter : names) out.values[parameter] = values.wholes<int>(parameter.c_str());
        }
    }
    if (top.has("shapes")) {
        out.shapes = top.texts("shapes");
        for (const std::string &shapes : out.shapes) {
            try {
                parse_shapes(shapes);
            } catch (const Error &error) {
                throw Error(top.place("shapes") + ": " + error.what());
            }
        }
    }
    out.searchers = top.texts("searchers");
    for (const std::string &searcher : out.searchers) {
        const std::vector<std::string> &known = searcher_names();
        if (std::find(known.begin(), known.end(), searcher) != known.end()) continue;
        std::string names;
        for (const std::string &one : known) names += (names.empty() ? "" : ", ") + one;
        throw Error(top.place("searchers") + ": unknown searcher \"" + searcher + "\"; there are " + names);
    }
    if (top.has("seeds")) out.seeds = top.wholes<uint64_t>("seeds");
    if (top.has("budget")) {
        const Object budget(top.at("budget"), top.place("budget"), {"evaluations", "share"});
        if (budget.has("evaluations")) out.evaluations = budget.whole("evaluations", 1, 1000000000);
        if (budget.has("share")) {
            const json &share = budget.at("share");
            if (!share.is_number() || !(share.get<double>() > 0) || share.get<double>() > 1) {
                throw Error(budget.place("share") + ": expected a number above 0 and at most 1, got " + share.dump());
            }
            out.share = share.get<double>();
        }
    }
    if (top.has("repeats")) out.repeats = static_cast<int>(top.whole("repeats", 1, 1000));
    if (top.has("batch")) out.batch = top.whole("batch", 1, 64);
    if (top.has("rounds")) out.rounds = static_cast<int>(top.whole("rounds", 3, 1000));
    return out;
}

uint64_t evaluations_of(const Experiment &experiment, const Space &space) {
    uint64_t n = space.valid_count();
    if (experiment.evaluations) n = std::min(n, experiment.evaluations);
    if (experiment.share > 0)
        n = std::min(n, static_cast<uint64_t>(std::ceil(experiment.share * static_cast<double>(space.valid_count()))));
    return n;
}

Space space_of(const Experiment &experiment, const Space &space) {
    const Space restricted = space.restricted(experiment.values);
    return experiment.parameters.empty() ? restricted : restricted.with_parameters(experiment.parameters);
}

std::vector<ExperimentRun> runs_of(const Experiment &experiment) {
    std::vector<ExperimentRun> out;
    for (const std::string &searcher : experiment.searchers) {
        for (uint64_t seed : experiment.seeds) {
            for (int repeat = 1; repeat <= experiment.repeats; repeat++) {
                out.push_back({searcher, seed, repeat,
                    searcher + "-" + std::to_string(seed) + (experiment.repeats > 1 ? "-repeat" + std::to_string(repeat) : "") + ".db"});
            }
        }
    }
    return out;
}

}  // namespace gdn::tune
