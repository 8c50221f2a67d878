// Few configurations for many devices: the smallest set that is near every device's best, found exactly.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "autotune/data/json.h"
#include "autotune/data/tuned.h"
#include "autotune/format.h"

namespace gdn::tune {

namespace {

constexpr size_t kMost = 3;       // configurations of a kernel
constexpr double kWithin = 1.02;  // of a device's best
constexpr double kUnknown = std::numeric_limits<double>::infinity();

/// What one device wants of one length class.
struct Demand {
    const Device *device;
    LengthClass length_class;
    size_t best;               // candidate that its entry names
    std::vector<double> cost;  // per candidate; kUnknown where it was not measured
    double regret(size_t candidate) const { return std::max(1.0, cost[candidate] / cost[best]); }
};

class Cover {
public:
    Cover(const std::vector<Demand> &demands, size_t candidates) : demands_(demands), candidates_(candidates) {}

    /// Candidates in ascending order, `forced` among them: of the covers within kWithin a smallest one. Where kMost are not enough, the
    /// limit grows to the least that they can do.
    std::vector<size_t> find(const std::vector<size_t> &forced) {
        std::set<double> regrets = {kWithin};
        for (const Demand &demand : demands_) {
            for (size_t i = 0; i < candidates_; i++) {
                if (std::isfinite(demand.regret(i)) && demand.regret(i) > kWithin) regrets.insert(demand.regret(i));
            }
        }
        // The default's cost is known everywhere: with the largest regret there is a cover.
        const std::vector<double> limits(regrets.begin(), regrets.end());
        limit_ = *std::partition_point(limits.begin(), limits.end(), [&](double limit) {
            limit_ = limit;
            return !search(forced, kMost, true);
        });
        for (size_t size = std::max<size_t>(1, forced.size()); !search(forced, size, false); size++) continue;
        return best_;
    }

    double worst(const std::vector<size_t> &chosen) const {
        double worst = 1;
        for (const Demand &demand : demands_) worst = std::max(worst, regret(demand, chosen));
        return worst;
    }

private:
    size_t winners(const std::vector<size_t> &chosen) const {
        return static_cast<size_t>(std::count_if(demands_.begin(), demands_.end(),
            [&](const Demand &demand) { return std::find(chosen.begin(), chosen.end(), demand.best) != chosen.end(); }));
    }

    static double regret(const Demand &demand, const std::vector<size_t> &chosen) {
        double best = kUnknown;
        for (size_t i : chosen) best = std::min(best, demand.regret(i));
        return best;
    }

    /// Every cover of `size` must contain one of the candidates near the first demand that is not satisfied yet: all of them are tried.
    /// Leaves the best in best_ (`any`: the first found): smallest mean of regrets, then the most devices' own best, then the first in order.
    /// True if there is one.
    bool search(const std::vector<size_t> &forced, size_t size, bool any) {
        any_ = any;
        best_.clear();
        best_score_ = kUnknown;
        extend(forced, size);
        return !best_.empty();
    }

    void extend(const std::vector<size_t> &chosen, size_t size) {
        if (any_ && !best_.empty()) return;
        const auto open =
            std::find_if(demands_.begin(), demands_.end(), [&](const Demand &demand) { return !(regret(demand, chosen) <= limit_); });
        if (open == demands_.end()) {
            double score = 0;
            for (const Demand &demand : demands_) score += std::log(regret(demand, chosen));
            std::vector<size_t> sorted = chosen;
            std::sort(sorted.begin(), sorted.end());
            // Sums of the same terms in another order may differ in the last bits.
            const size_t more = winners(sorted), less = winners(best_);
            if (score < best_score_ - 1e-12 || (score < best_score_ + 1e-12 && (more > less || (more == less && sorted < best_)))) {
                best_score_ = std::min(score, best_score_);
                best_ = sorted;
            }
        } else if (chosen.size() < size) {
            for (size_t i = 0; i < candidates_; i++) {
                if (open->regret(i) > limit_) continue;
                std::vector<size_t> longer = chosen;
                longer.push_back(i);
                extend(longer, size);
            }
        }
    }

    const std::vector<Demand> &demands_;
    const size_t candidates_;
    double limit_ = 1;
    bool any_ = false;
    std::vector<size_t> best_;
    double best_score_ = kUnknown;
};

/// What one kernel's files say, and its part of default.json.
class KernelCover {
public:
    KernelCover(const Kernel &kernel, const std::vector<DeviceFile> &devices) : kernel_(kernel) {
        std::set<Config> configs;
        each_entry(devices, [&](const Device &, LengthClass, const Entry &entry) { configs.insert(complete(entry.config)); });
        configs.erase(complete({}));
        configs_ = {complete({})};  // candidate 0
        configs_.insert(configs_.end(), configs.begin(), configs.end());
        each_entry(devices, [&](const Device &device, LengthClass c, const Entry &entry) { demands_.push_back(demand(device, c, entry)); });
    }

    bool empty() const { return demands_.empty(); }

    std::string json() {
        // Classes that nobody tuned use the default.
        std::set<LengthClass> seen;
        for (const Demand &demand : demands_) seen.insert(demand.length_class);
        const bool all = seen.size() == classes_of(kernel_.family).size();
        Cover cover(demands_, configs_.size());
        shipped_ = cover.find(all ? std::vector<size_t>{} : std::vector<size_t>{0});
        listed_ = shipped_;
        std::set<size_t> wanted;
        for (const Demand &demand : demands_) wanted.insert(demand.best);
        for (size_t i : wanted) {
            if (std::find(shipped_.begin(), shipped_.end(), i) == shipped_.end()) listed_.push_back(i);
        }

        std::string text = "{\n      \"worst\": " + fixed(cover.worst(shipped_), 4) + ",\n      \"configs\": [";
        for (size_t i = 0; i < listed_.size(); i++) {
            text += std::string(i ? "," : "") + "\n        {\"config\": " + difference(configs_[listed_[i]]) +
                    ", \"cover\": " + (i < shipped_.size() ? "true" : "false") + "}";
        }
        text += "\n      ],\n      \"use\": [";
        const char *between = "";
        for (const auto &[place, who] : users()) {
            const auto &[level, key, c] = place;
            text += between + std::string("\n        {\"level\": ") + quoted(kLevels[level]) + ", \"key\": " + quoted(key) +
                    ", \"class\": " + quoted(name_of(c)) + ", \"config\": " + std::to_string(choice(level, who, listed_)) +
                    ", \"cover\": " + std::to_string(choice(level, who, shipped_)) + "}";
            between = ",";
        }
        return text + "\n      ]\n    }";
    }

private:
    static constexpr const char *kLevels[] = {"device", "architecture", "vendor", "default"};
    using Users = std::map<std::tuple<size_t, std::string, LengthClass>, std::vector<const Demand *>>;

    template <class Visit> void each_entry(const std::vector<DeviceFile> &devices, Visit visit) const {
        for (const DeviceFile &file : devices) {
            const auto found = file.kernels.find(kernel_.name);
            if (found == file.kernels.end()) continue;
            for (const auto &[c, entry] : found->second) visit(file.device, c, entry);
        }
    }

    /// Parameters that the space got after the measurement stand at their defaults.
    Config complete(const Config &config) const { return kernel_.space.config(kernel_.space.point(config)); }
    size_t index(const Config &config) const {
        return static_cast<size_t>(std::find(configs_.begin(), configs_.end(), complete(config)) - configs_.begin());
    }

    Demand demand(const Device &device, LengthClass c, const Entry &entry) const {
        Demand demand{&device, c, index(entry.config), std::vector<double>(configs_.size(), kUnknown)};
        double slowest = 1;
        for (const auto &[config, cost] : entry.others) {
            slowest = std::max(slowest, cost);
            // Nothing is better than what won.
            if (const size_t i = index(config); i < configs_.size()) demand.cost[i] = std::min(demand.cost[i], std::max(cost, entry.cost));
        }
        demand.cost[demand.best] = entry.cost;
        // Costs may stem from a time when the default was another; a default of now that was not among them counts as the slowest.
        const auto is_default = [&](const Parameter &p) {
            const auto value = entry.default_config.find(p.name);
            return value == entry.default_config.end() || value->second == p.default_value;
        };
        const std::vector<Parameter> &parameters = kernel_.space.parameters();
        const bool same = std::all_of(parameters.begin(), parameters.end(), is_default);
        if (same && demand.best != 0) demand.cost[0] = 1;
        if (demand.cost[0] == kUnknown) demand.cost[0] = slowest;
        return demand;
    }

    Users users() const {
        Users users;
        for (const Demand &demand : demands_) {
            const std::string keys[] = {demand.device->key(), demand.device->architecture, demand.device->vendor, ""};
            for (size_t level = 0; level < std::size(kLevels); level++) users[{level, keys[level], demand.length_class}].push_back(&demand);
        }
        return users;
    }

    /// Position in `among` of the configuration with the smallest geometric mean of costs; of equal ones that which is the best of most.
    /// Where a device does not know one, nothing is gained by it: it counts as 1. The device itself has its measured best where that is there.
    size_t choice(size_t level, const std::vector<const Demand *> &who, const std::vector<size_t> &among) const {
        if (level == 0) {
            const auto best = std::find(among.begin(), among.end(), who[0]->best);
            if (best != among.end()) return static_cast<size_t>(best - among.begin());
        }
        size_t best = 0, best_winners = 0;
        double best_sum = kUnknown;
        for (size_t i = 0; i < among.size(); i++) {
            double sum = 0;
            bool known = false;
            size_t winners = 0;
            for (const Demand *demand : who) {
                const double cost = demand->cost[among[i]];
                known = known || cost != kUnknown;
                sum += cost == kUnknown ? 0 : std::log(cost);
                winners += demand->best == among[i];
            }
            if (known && (sum < best_sum - 1e-12 || (sum < best_sum + 1e-12 && winners > best_winners))) {
                best_sum = sum;
                best_winners = winners;
                best = i;
            }
        }
        return best;
    }

    std::string difference(const Config &config) const {
        std::string text;
        for (const auto &[name, value] : changed(config, configs_[0])) {
            text += (text.empty() ? "" : ", ") + quoted(name) + ": " + std::to_string(value);
        }
        return "{" + text + "}";
    }

    const Kernel &kernel_;
    std::vector<Config> configs_;  // candidates: the default, then what won a final comparison somewhere; a search's costs alone are luck
    std::vector<Demand> demands_;
    std::vector<size_t> shipped_, listed_;
};

}  // namespace

std::string cover_json(const std::string &target, const std::vector<DeviceFile> &devices, const std::vector<Kernel> &kernels) {
    for (const DeviceFile &file : devices) {
        if (file.target != target)
            throw Error("the file of " + file.device.key() + " is of the target " + file.target + ", not of " + target);
        require_known(file, kernels);
    }
    std::map<std::string, std::string> parts;
    for (const Kernel &kernel : kernels) {
        if (kernel.target != target) continue;
        KernelCover cover(kernel, devices);
        if (!cover.empty()) parts[kernel.name] = cover.json();
    }
    if (parts.empty()) return "{\"schema\": 2, \"target\": " + quoted(target) + ", \"kernels\": {}}\n";
    std::string text = "{\n  \"schema\": 2,\n  \"target\": " + quoted(target) + ",\n  \"kernels\": {";
    const char *between = "";
    for (const auto &[name, part] : parts) {
        text += between + std::string("\n    ") + quoted(name) + ": " + part;
        between = ",";
    }
    return text + "\n  }\n}\n";
}

}  // namespace gdn::tune
