// Parameter spaces of kernels: what may be tuned, which combinations are valid, and what holds when nobody tuned.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace gdn {

enum class ParamKind {
    Algorithm,  // given before generate(): chunk, panel
    Schedule,   // read by apply()
    Runtime,    // a column of the kernel's row in the dispatch table
};

struct Param {
    std::string name;
    ParamKind kind;
    std::vector<int> values;
    int default_value;
};

// One point of a space. Remembers which of its values were read, so that a parameter without effect is found.
class Config {
public:
    Config() = default;
    explicit Config(std::map<std::string, int> values) : values_(std::move(values)) {}

    int operator[](const std::string &name) const;  // aborts the generator on an unknown name
    const std::map<std::string, int> &values() const { return values_; }
    const std::set<std::string> &read() const { return read_; }
    std::vector<std::string> unread() const;
    std::string text() const;  // "cols:32,rows:8", sorted by name

private:
    std::map<std::string, int> values_;
    mutable std::set<std::string> read_;
};

struct Constraint {
    std::string text;  // "cols divides panel"
    std::function<bool(const Config &)> holds;
};

// A constraint written out: the parameters that it reads, in the space's order, and the rows of their values that hold, sorted.
struct Allowed {
    std::vector<std::string> parameters;
    std::vector<std::vector<int>> rows;
};

class Space {
public:
    Space &add(const std::string &name, ParamKind kind, std::vector<int> values, int default_value);
    Space &require(const std::string &text, std::function<bool(const Config &)> holds);
    Space &set_default(const std::string &name, int value);

    const std::vector<Param> &params() const { return params_; }
    const std::vector<Constraint> &constraints() const { return constraints_; }
    Config defaults() const;
    // "" if valid, else which value or constraint is broken.
    std::string broken(const Config &config) const;
    Allowed allowed(const Constraint &constraint) const;
    // "rows:8,cols:32" over the defaults. Unknown names, values outside the space and broken constraints are errors: `*error` is set.
    Config parse(const std::string &text, std::string *error) const;
    Config parse(const std::string &text) const;  // as above; ends the generator with the error's text
    // Number of points of the full product, and point `index` of it (valid or not).
    uint64_t size() const;
    Config at(uint64_t index) const;

private:
    std::vector<Param> params_;
    std::vector<Constraint> constraints_;
};

}  // namespace gdn
