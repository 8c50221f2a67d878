#include "autotune/space/space.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "autotune/build/fnv.h"
#include "autotune/status.h"

namespace gdn::tune {

using nlohmann::ordered_json;

namespace {

constexpr const char *kKindNames[] = {"algorithm", "schedule", "runtime"};
constexpr uint64_t kMost = uint64_t{1} << 63;
constexpr size_t kMostRows = size_t{1} << 18;  // of one group, in memory

uint64_t saturating_product(uint64_t a, uint64_t b) {
    const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
    return product < kMost ? static_cast<uint64_t>(product) : kMost;
}

// Steps along a parameter's values from `from`, which a restriction may have removed, to `to`.
int steps(const Parameter &p, int from, int to) {
    return static_cast<int>(
        std::count_if(p.values.begin(), p.values.end(), [=](int v) { return from < to ? v > from && v <= to : v < from && v >= to; }));
}

int index_of(const Parameter &p, int value) {
    const auto it = std::find(p.values.begin(), p.values.end(), value);
    return it == p.values.end() ? -1 : static_cast<int>(it - p.values.begin());
}

std::string listed(const std::vector<int> &values) {
    std::string text;
    for (int v : values) text += (text.empty() ? "" : ", ") + std::to_string(v);
    return text;
}

bool holds(const Constraint &c, const std::vector<int> &row) { return std::binary_search(c.allowed.begin(), c.allowed.end(), row); }

}  // namespace

std::string text_of(const Config &config) {
    std::string text;
    for (const auto &[name, value] : config) text += (text.empty() ? "" : ",") + name + ":" + std::to_string(value);
    return text;
}

Config parse_config(const std::string &text) {
    Config config;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find(',', at), text.size());
        const std::string entry = text.substr(at, end - at);
        const size_t sign = entry.find_first_of(":=");
        const char *const last = entry.data() + entry.size();
        int value = 0;
        if (sign != std::string::npos && sign > 0) {
            const auto [rest, error] = std::from_chars(entry.data() + sign + 1, last, value);
            if (error == std::errc() && rest == last && end + 1 != text.size()) {
                if (!config.emplace(entry.substr(0, sign), value).second) {
                    throw Error("the configuration \"" + text + "\" gives " + entry.substr(0, sign) + " twice");
                }
                at = end + 1;
                continue;
            }
        }
        throw Error("a configuration is written name:value,name:value with whole numbers; \"" + text + "\" is not, at \"" + entry + "\"");
    }
    return config;
}

Config part_of(const Config &config, const Space &space, bool compiled) {
    Config rest = config, runtime;
    for (const Parameter &p : space.parameters()) {
        if (p.kind == Kind::kRuntime) runtime.insert(rest.extract(p.name));
    }
    return compiled ? rest : runtime;
}

Config changed(const Config &config, const Config &default_config) {
    Config different;
    for (const auto &[name, value] : config) {
        const auto found = default_config.find(name);
        if (found == default_config.end() || found->second != value) different[name] = value;
    }
    return different;
}

std::string short_text(const Config &config, const Config &default_config) {
    const Config different = changed(config, default_config);
    return different.empty() ? "the default" : text_of(different);
}

Space::Space(std::vector<Parameter> parameters, std::vector<Constraint> constraints)
    : parameters_(std::move(parameters)), constraints_(std::move(constraints)) {
    std::map<std::string, int> index;
    for (const Parameter &p : parameters_) {
        if (!index.emplace(p.name, index.size()).second) throw Error("a space has the parameter " + p.name + " twice");
        if (p.values.empty()) throw Error("the parameter " + p.name + " has no values");
        if (std::set<int>(p.values.begin(), p.values.end()).size() != p.values.size()) {
            throw Error("the parameter " + p.name + " has a value twice: " + listed(p.values));
        }
    }
    std::vector<int> root(parameters_.size());  // of the parameters tied to one another, the first
    std::iota(root.begin(), root.end(), 0);
    for (Constraint &c : constraints_) {
        std::set<int> roots;
        for (const std::string &name : c.parameters) {
            if (!index.count(name)) throw Error("the constraint \"" + c.text + "\" names " + name + ", which is no parameter of the space");
            roots.insert(root[index[name]]);
        }
        for (const std::vector<int> &row : c.allowed) {
            if (row.size() != c.parameters.size())
                throw Error("the constraint \"" + c.text + "\" has a row of another length than its parameters");
        }
        std::sort(c.allowed.begin(), c.allowed.end());
        for (int &r : root) {
            if (roots.count(r)) r = *roots.begin();
        }
        // A constraint without parameters either says nothing or that nothing is valid.
        if (c.parameters.empty() && c.allowed.empty()) groups_.emplace_back();
    }
    group_of_.resize(parameters_.size());
    for (size_t i = 0; i < parameters_.size(); i++) {
        std::vector<int> members;
        for (int j = static_cast<int>(parameters_.size()) - 1; j >= 0; j--) {
            if (root[j] == static_cast<int>(i)) members.push_back(j);
        }
        if (!members.empty()) add_group(members);
    }
}

// Rows grow by one parameter at a time; a constraint cuts them as soon as they have all that it reads.
void Space::add_group(std::vector<int> parameters) {
    std::vector<Point> rows(1);
    for (size_t have = 1; have <= parameters.size(); have++) {
        const Parameter &added = parameters_[parameters[have - 1]];
        std::vector<std::pair<const Constraint *, std::vector<size_t>>> ready;
        for (const Constraint &c : constraints_) {
            std::vector<size_t> columns;
            for (const std::string &name : c.parameters) {
                for (size_t k = 0; k < have; k++) {
                    if (parameters_[parameters[k]].name == name) columns.push_back(k);
                }
            }
            const bool new_one = std::find(columns.begin(), columns.end(), have - 1) != columns.end();
            if (new_one && columns.size() == c.parameters.size()) ready.emplace_back(&c, columns);
        }
        std::vector<Point> longer;
        for (const Point &row : rows) {
            for (int v = 0; v < static_cast<int>(added.values.size()); v++) {
                Point next = row;
                next.push_back(v);
                const bool valid = std::all_of(ready.begin(), ready.end(), [&](const auto &r) {
                    std::vector<int> values;
                    for (size_t k : r.second) values.push_back(parameters_[parameters[k]].values[next[k]]);
                    return holds(*r.first, values);
                });
                if (valid) longer.push_back(std::move(next));
            }
            if (longer.size() > kMostRows) {
                throw Error("the constraints tie " + std::to_string(parameters.size()) + " parameters together, " + added.name +
                            " among them, with more than " + std::to_string(kMostRows) + " combinations; restrict the space");
            }
        }
        rows = std::move(longer);
    }
    for (int p : parameters) group_of_[p] = static_cast<int>(groups_.size());
    groups_.push_back({std::move(parameters), std::move(rows)});
}

void Space::require_valid_points() const {
    if (valid_count()) return;
    std::string texts;
    for (const Constraint &c : constraints_) texts += (texts.empty() ? "" : "; ") + c.text;
    throw Error("no point of the space is valid: " + texts);
}

uint64_t Space::size() const {
    uint64_t n = 1;
    for (const Parameter &p : parameters_) n = saturating_product(n, p.values.size());
    return n;
}

uint64_t Space::valid_count() const {
    uint64_t n = 1;
    for (const Group &g : groups_) n = saturating_product(n, g.rows.size());
    return n;
}

bool Space::valid(const Point &point) const {
    return point.size() == parameters_.size() && std::all_of(groups_.begin(), groups_.end(), [&](const Group &g) {
        Point row;
        for (int p : g.parameters) row.push_back(point[p]);
        return std::binary_search(g.rows.begin(), g.rows.end(), row);
    });
}

// Per group the row with the least sum of distance(parameter, index of its value); the first of several.
template <class Distance> Point Space::closest(Distance distance) const {
    require_valid_points();
    Point point(parameters_.size());
    for (const Group &g : groups_) {
        int least = std::numeric_limits<int>::max();
        for (const Point &row : g.rows) {
            int sum = 0;
            for (size_t k = 0; k < row.size(); k++) sum += distance(g.parameters[k], row[k]);
            if (sum >= least) continue;
            least = sum;
            for (size_t k = 0; k < row.size(); k++) point[g.parameters[k]] = row[k];
        }
    }
    return point;
}

Point Space::default_point() const {
    return closest([&](int p, int index) { return steps(parameters_[p], parameters_[p].default_value, parameters_[p].values[index]); });
}

Point Space::nearest_valid(const Point &point) const {
    return valid(point) ? point : closest([&](int p, int index) { return std::abs(index - point[p]); });
}

Point Space::nth_valid(uint64_t n) const {
    require_valid_points();
    Point point(parameters_.size());
    for (const Group &g : groups_) {
        const Point &row = g.rows[n % g.rows.size()];
        n /= g.rows.size();
        for (size_t k = 0; k < row.size(); k++) point[g.parameters[k]] = row[k];
    }
    return point;
}

std::vector<Point> Space::neighbours(const Point &point) const {
    std::vector<std::pair<int, Point>> found;  // with the steps that lead there
    const int n = static_cast<int>(parameters_.size());
    const auto change = [&](int i, const Point &from, const auto &visit) {
        for (int v = 0; v < static_cast<int>(parameters_[i].values.size()); v++) {
            if (v == from[i]) continue;
            Point next = from;
            next[i] = v;
            visit(std::abs(v - from[i]), next);
        }
    };
    const auto keep = [&](int distance, const Point &p) {
        if (valid(p)) found.emplace_back(distance, p);
    };
    for (int i = 0; i < n; i++) change(i, point, keep);
    for (int i = 0; found.empty() && i < n; i++) {
        for (int j = i + 1; j < n; j++) {
            change(i, point, [&](int a, const Point &p) { change(j, p, [&](int b, const Point &q) { keep(a + b, q); }); });
        }
    }
    std::stable_sort(found.begin(), found.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
    std::vector<Point> points;
    for (auto &[distance, p] : found) points.push_back(std::move(p));
    return points;
}

// Values are chosen from the last parameter down. What is chosen of a group is a prefix of its rows, so a choice that some row goes on from is only
// taken back where `point` is larger than everything that follows from it.
bool Space::next_valid(Point *point) const {
    if (!valid_count()) return false;
    const Point from = *point;
    const auto possible = [&](int p) {
        const Group &g = groups_[group_of_[p]];
        Point prefix;
        for (int member : g.parameters) {
            if (member >= p) prefix.push_back((*point)[member]);
        }
        const auto row = std::lower_bound(g.rows.begin(), g.rows.end(), prefix);
        return row != g.rows.end() && std::equal(prefix.begin(), prefix.end(), row->begin());
    };
    const std::function<bool(int, bool)> choose = [&](int p, bool bound) {
        if (p < 0) return true;
        for (int v = bound ? from[p] : 0; v < static_cast<int>(parameters_[p].values.size()); v++) {
            (*point)[p] = v;
            if (possible(p) && choose(p - 1, bound && v == from[p])) return true;
        }
        return false;
    };
    return choose(static_cast<int>(parameters_.size()) - 1, true);
}

Config Space::config(const Point &point) const {
    Config config;
    for (size_t i = 0; i < parameters_.size(); i++) config[parameters_[i].name] = parameters_[i].values.at(point.at(i));
    return config;
}

Point Space::point(const Config &config) const {
    Point point = default_point();
    for (const auto &[name, value] : config) {
        const int i = position(name);
        point[i] = index_of(parameters_[i], value);
        if (point[i] < 0) {
            throw Error("the parameter " + name + " has the values " + listed(parameters_[i].values) + "; " + std::to_string(value) +
                        " is none of them");
        }
    }
    if (valid(point)) return point;
    for (const Constraint &c : constraints_) {
        std::vector<int> row;
        for (const std::string &name : c.parameters) row.push_back(parameters_[position(name)].values[point[position(name)]]);
        if (!holds(c, row))
            throw Error("the configuration \"" + text_of(this->config(point)) + "\" breaks the constraint \"" + c.text + "\"");
    }
    throw Error("the configuration \"" + text_of(this->config(point)) + "\" is not valid");
}

int Space::position(const std::string &name) const {
    const auto it = std::find_if(parameters_.begin(), parameters_.end(), [&](const Parameter &p) { return p.name == name; });
    if (it != parameters_.end()) return static_cast<int>(it - parameters_.begin());
    std::string names;
    for (const Parameter &p : parameters_) names += (names.empty() ? "" : ", ") + p.name;
    throw Error("the space has no parameter " + name + "; it has " + (names.empty() ? "none" : names));
}

Space Space::restricted(const std::map<std::string, std::vector<int>> &values) const {
    std::vector<Parameter> parameters = parameters_;
    for (const auto &[name, wanted] : values) {
        Parameter &p = parameters[position(name)];
        for (int value : wanted) {
            if (index_of(p, value) < 0) {
                throw Error(
                    "the parameter " + name + " has the values " + listed(p.values) + "; " + std::to_string(value) + " is none of them");
            }
        }
        const auto unwanted = [&wanted = wanted](int v) { return std::find(wanted.begin(), wanted.end(), v) == wanted.end(); };
        p.values.erase(std::remove_if(p.values.begin(), p.values.end(), unwanted), p.values.end());
        if (p.values.empty()) throw Error("the restriction leaves no value of the parameter " + name);
    }
    Space space(std::move(parameters), constraints_);
    space.require_valid_points();
    return space;
}

Space Space::with_parameters(const std::vector<std::string> &keep) const {
    for (const std::string &name : keep) position(name);
    std::map<std::string, std::vector<int>> held;
    for (const auto &[name, value] : config(default_point())) {
        if (std::find(keep.begin(), keep.end(), name) == keep.end()) held[name] = {value};
    }
    return restricted(held);
}

std::string Space::hash() const { return short_name_of_content(json()); }

std::string Space::json() const {
    ordered_json parameters = ordered_json::array(), constraints = ordered_json::array();
    for (const Parameter &p : parameters_) {
        parameters.push_back(
            {{"name", p.name}, {"kind", kKindNames[static_cast<int>(p.kind)]}, {"values", p.values}, {"default", p.default_value}});
    }
    for (const Constraint &c : constraints_)
        constraints.push_back({{"text", c.text}, {"parameters", c.parameters}, {"allowed", c.allowed}});
    return ordered_json{{"parameters", parameters}, {"constraints", constraints}}.dump();
}

Space Space::parse(const std::string &json) {
    try {
        const ordered_json space = ordered_json::parse(json);
        std::vector<Parameter> parameters;
        for (const ordered_json &p : space.at("parameters")) {
            const std::string kind = p.at("kind");
            const auto it = std::find(std::begin(kKindNames), std::end(kKindNames), kind);
            if (it == std::end(kKindNames)) throw Error("a parameter's kind is algorithm, schedule or runtime, not \"" + kind + "\"");
            parameters.push_back({p.at("name"), static_cast<Kind>(it - std::begin(kKindNames)), p.at("values"), p.at("default")});
        }
        std::vector<Constraint> constraints;
        for (const ordered_json &c : space.at("constraints")) constraints.push_back({c.at("text"), c.at("parameters"), c.at("allowed")});
        return Space(std::move(parameters), std::move(constraints));
    } catch (const nlohmann::json::exception &e) {
        throw Error(std::string("a space is {\"parameters\": [..], \"constraints\": [..]} as the generator lists it; this one is not: ") +
                    e.what());
    }
}

}  // namespace gdn::tune
