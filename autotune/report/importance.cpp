#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "autotune/format.h"
#include "autotune/report/report.h"

namespace gdn::tune {

std::vector<Importance> importance(const std::vector<Trial> &trials) {
    std::vector<const Trial *> good;
    std::vector<double> logs;
    std::set<std::string> names;
    for (const Trial &trial : trials) {
        if (trial.status != Status::kOk || !(trial.cost.value > 0) || !std::isfinite(trial.cost.value)) continue;
        good.push_back(&trial);
        logs.push_back(std::log(trial.cost.value));
        for (const auto &[name, value] : trial.config) names.insert(name);
    }
    // A few hopeless configurations would otherwise be the whole variance: what lies beyond four deviations counts as four. The deviation
    // is that of the half nearest to the median.
    const double median = quantile(logs, 0.5), deviation = (quantile(logs, 0.75) - quantile(logs, 0.25)) / 1.349;
    double mean = 0, total = 0;
    for (double &log : logs) {
        if (deviation > 0) log = std::min(median + 4 * deviation, std::max(median - 4 * deviation, log));
        mean += log / static_cast<double>(logs.size());
    }
    for (double log : logs) total += (log - mean) * (log - mean);

    std::vector<Importance> out;
    for (const std::string &name : names) {
        struct Group {
            double sum = 0, best = 0;
            int count = 0;
        };
        std::map<int, Group> groups;
        for (size_t i = 0; i < good.size(); i++) {
            const auto found = good[i]->config.find(name);
            if (found == good[i]->config.end()) continue;
            Group &group = groups[found->second];
            group.sum += logs[i];
            group.best = group.count++ ? std::min(group.best, good[i]->cost.value) : good[i]->cost.value;
        }
        Importance one;
        one.parameter = name;
        double between = 0;
        int members = 0;
        for (const auto &[value, group] : groups) {
            one.best.emplace_back(value, group.best);
            between += group.count * std::pow(group.sum / group.count - mean, 2);
            members += group.count;
        }
        // Groups of a parameter without effect differ by chance, the more so the smaller they are: epsilon squared takes that share off.
        const int freedom = members - static_cast<int>(groups.size());
        if (groups.size() > 1 && freedom > 0 && total > 1e-18) {
            const double within = std::max(0.0, total - between) / freedom;
            one.share = std::min(1.0, std::max(0.0, (between - static_cast<double>(groups.size() - 1) * within) / total));
        }
        out.push_back(one);
    }
    std::stable_sort(out.begin(), out.end(), [](const Importance &a, const Importance &b) { return a.share > b.share; });
    return out;
}

}  // namespace gdn::tune
