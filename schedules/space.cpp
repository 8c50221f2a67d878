#include "space.h"

#include <Halide.h>

#include <algorithm>
#include <cstdlib>

namespace gdn {

int Config::operator[](const std::string &name) const {
    const auto it = values_.find(name);
    if (it == values_.end()) {
        _halide_user_assert(false) << "schedule asks for parameter '" << name << "', which is not in the kernel's space\n";
    }
    read_.insert(name);
    return it->second;
}

std::vector<std::string> Config::unread() const {
    std::vector<std::string> names;
    for (const auto &[name, value] : values_) {
        if (!read_.count(name)) names.push_back(name);
    }
    return names;
}

std::string Config::text() const {
    std::string text;
    for (const auto &[name, value] : values_) text += (text.empty() ? "" : ",") + name + ":" + std::to_string(value);
    return text;
}

Space &Space::add(const std::string &name, ParamKind kind, std::vector<int> values, int default_value) {
    params_.push_back({name, kind, std::move(values), default_value});
    return *this;
}

Space &Space::require(const std::string &text, std::function<bool(const Config &)> holds) {
    constraints_.push_back({text, std::move(holds)});
    return *this;
}

Space &Space::set_default(const std::string &name, int value) {
    for (Param &p : params_) {
        if (p.name == name) p.default_value = value;
    }
    return *this;
}

Config Space::defaults() const {
    std::map<std::string, int> values;
    for (const Param &p : params_) values[p.name] = p.default_value;
    return Config(values);
}

std::string Space::broken(const Config &config) const {
    for (const Param &p : params_) {
        const int value = config.values().at(p.name);
        if (std::find(p.values.begin(), p.values.end(), value) == p.values.end()) {
            return "parameter '" + p.name + "' has no value " + std::to_string(value);
        }
    }
    for (const Constraint &c : constraints_) {
        if (!c.holds(Config(config.values()))) return "broken constraint: " + c.text;
    }
    return "";
}

// What a constraint reads may depend on what it has read (a == 0 || b ..). Once no point of the product of the parameters known to be read shows a
// further one, there is none.
Allowed Space::allowed(const Constraint &constraint) const {
    const std::map<std::string, int> others = defaults().values();
    std::set<std::string> known;
    while (true) {
        Space product;
        for (const Param &p : params_) {
            if (known.count(p.name)) product.params_.push_back(p);
        }
        _halide_user_assert(product.size() <= 1 << 20) << "constraint '" << constraint.text << "' ties too many parameters together\n";
        std::set<std::string> read;
        std::set<std::vector<int>> rows;
        for (uint64_t i = 0; i < product.size(); i++) {
            const Config point = product.at(i);
            std::map<std::string, int> values = point.values();
            values.insert(others.begin(), others.end());
            const Config config(values);
            const bool holds = constraint.holds(config);
            read.insert(config.read().begin(), config.read().end());
            if (!holds) continue;
            std::vector<int> row;
            for (const Param &p : product.params_) row.push_back(values[p.name]);
            rows.insert(row);
        }
        if (std::includes(known.begin(), known.end(), read.begin(), read.end())) {
            Allowed allowed{{}, {rows.begin(), rows.end()}};
            for (const Param &p : product.params_) allowed.parameters.push_back(p.name);
            return allowed;
        }
        known.insert(read.begin(), read.end());
    }
}

Config Space::parse(const std::string &text, std::string *error) const {
    std::map<std::string, int> values = defaults().values();
    size_t at = 0;
    while (at < text.size()) {
        const size_t end = std::min(text.find(',', at), text.size());
        const std::string entry = text.substr(at, end - at);
        const size_t colon = entry.find(':');
        const std::string name = entry.substr(0, colon);
        if (colon == std::string::npos || !values.count(name)) {
            *error = "'" + entry + "' is not name:value of a parameter of this kernel";
            return defaults();
        }
        char *rest = nullptr;
        values[name] = static_cast<int>(std::strtol(entry.c_str() + colon + 1, &rest, 10));
        if (*rest != 0 || rest == entry.c_str() + colon + 1) {
            *error = "'" + entry + "' has no whole number";
            return defaults();
        }
        at = end + 1;
    }
    const Config config(values);
    *error = broken(config);
    return config;
}

Config Space::parse(const std::string &text) const {
    std::string error;
    Config config = parse(text, &error);
    _halide_user_assert(error.empty()) << "config '" << text << "': " << error << "\n";
    return config;
}

uint64_t Space::size() const {
    uint64_t n = 1;
    for (const Param &p : params_) n *= p.values.size();
    return n;
}

Config Space::at(uint64_t index) const {
    std::map<std::string, int> values;
    for (const Param &p : params_) {
        values[p.name] = p.values[index % p.values.size()];
        index /= p.values.size();
    }
    return Config(values);
}

}  // namespace gdn
