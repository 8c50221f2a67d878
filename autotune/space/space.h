// Kernels and their parameter spaces as `gdn.generator --list --json` prints them; nothing of a space is written down a second time here.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "autotune/space/random.h"

namespace gdn::tune {

enum class Kind { kAlgorithm, kSchedule, kRuntime };  // the first two need a compiler, kRuntime only another row of the dispatch table

struct Parameter {
    std::string name;
    Kind kind;
    std::vector<int> values;
    int default_value;
};

/// Which combinations of some parameters' values are valid: the generator evaluates a schedule's constraint over the product of the
/// parameters that it reads and prints the combinations that hold.
struct Constraint {
    std::string text;                       // "cols divides panel"
    std::vector<std::string> parameters;    // in the order of a row
    std::vector<std::vector<int>> allowed;  // rows of values, sorted
};

using Config = std::map<std::string, int>;
/// One point of a space: per parameter the index of its value.
using Point = std::vector<int>;

/// "cols:32,rows:8", sorted by name: how the generator, the journal and files spell a configuration.
std::string text_of(const Config &config);
/// Reads text_of()'s form, `=` in place of `:` too. Throws Error on anything else.
Config parse_config(const std::string &text);
/// What of a configuration is not as in the default.
Config changed(const Config &config, const Config &default_config);
/// "cols:16,rows:4", "the default": for people.
std::string short_text(const Config &config, const Config &default_config);

class Space {
public:
    Space() = default;
    Space(std::vector<Parameter> parameters, std::vector<Constraint> constraints);

    const std::vector<Parameter> &parameters() const { return parameters_; }
    const std::vector<Constraint> &constraints() const { return constraints_; }

    /// Points of the full product. Saturates at 2^63.
    uint64_t size() const;
    /// Valid points: counted exactly, since constraints touch few parameters.
    uint64_t valid_count() const;
    bool valid(const Point &point) const;
    /// The default; if a restriction removed it, the valid point nearest to it. Throws Error where no point is valid, with the constraints'
    /// texts.
    Point default_point() const;
    /// Numbers the valid points from 0 to valid_count() - 1, in an order of its own, without walking. Throws Error where there is none.
    Point nth_valid(uint64_t n) const;
    /// The valid point that the fewest steps along the parameters' values lead to; the point itself where it is valid. Throws Error where
    /// there is none.
    Point nearest_valid(const Point &point) const;
    /// Valid points that differ in one parameter; ordered parameters' nearest values first. Where that leaves none, in two.
    std::vector<Point> neighbours(const Point &point) const;
    /// Calls visit(point) for every valid point in index order until it returns false.
    template <class Visit> void each_valid(Visit visit) const;
    /// The first valid point at or after `point` in index order (first parameter fastest); false if there is none.
    bool next_valid(Point *point) const;

    Config config(const Point &point) const;
    /// Absent parameters take their defaults. Throws Error naming the unknown parameter, the value outside, or the broken constraint.
    Point point(const Config &config) const;

    /// Only these values of these parameters. Throws Error on an unknown name or value, and where nothing valid is left.
    Space restricted(const std::map<std::string, std::vector<int>> &values) const;
    /// Only the parameters that `keep` says move; the others keep nothing but their value in default_point(), so that config() stays complete.
    Space with_parameters(const std::vector<std::string> &keep) const;

    /// Of names, values, defaults and constraints: two spaces with the same hash have the same points. 16 hex digits.
    std::string hash() const;
    /// The form that --list prints, for the journal.
    std::string json() const;
    static Space parse(const std::string &json);

private:
    /// Parameters that constraints tie together, and what of them is valid together: a point is valid where it is valid in every group.
    struct Group {
        std::vector<int> parameters;  // descending
        std::vector<Point> rows;      // per parameter the index of its value; sorted, which is index order
    };
    void add_group(std::vector<int> parameters);
    void require_valid_points() const;
    int position(const std::string &name) const;  // throws Error
    template <class Distance> Point closest(Distance distance) const;

    std::vector<Parameter> parameters_;
    std::vector<Constraint> constraints_;
    std::vector<Group> groups_;
    std::vector<int> group_of_;  // of each parameter
};

/// Of a configuration what needs a compiler, or else what does not: its parameters of kind kRuntime.
Config part_of(const Config &config, const Space &space, bool compiled);

template <class Visit> void Space::each_valid(Visit visit) const {
    Point point(parameters_.size(), 0);
    for (bool more = next_valid(&point); more; more = next_valid(&point)) {
        if (!visit(static_cast<const Point &>(point))) return;
        size_t i = 0;
        while (i < point.size() && ++point[i] == static_cast<int>(parameters_[i].values.size())) point[i++] = 0;
        if (i == point.size()) return;
    }
}

struct Kernel {
    std::string name, family, target;           // "core_chunk_channel_tied_128x128", "core_chunk", "x86_avx512"
    std::map<std::string, std::string> params;  // core, size, variant, ..
    std::string arguments;                      // generator arguments without config=, function name and outputs
    Space space;
};

/// Runs `<generator> --list --json --kernels FILE`. Throws Error with the generator's words.
std::vector<Kernel> list_kernels(const std::string &generator, const std::string &kernels_json);
/// Null where there is none.
const Kernel *find_kernel(const std::vector<Kernel> &kernels, const std::string &name, const std::string &target);
/// Kernels whose name matches the glob (or is it), of one target ("" = all). Throws Error that names near misses when nothing matches.
std::vector<Kernel> select_kernels(const std::vector<Kernel> &kernels, const std::string &glob, const std::string &target);

}  // namespace gdn::tune
