#include <algorithm>
#include <cmath>
#include <set>

#include "autotune/format.h"
#include "autotune/report/report.h"

namespace gdn::tune {
namespace {

std::string field(const std::string &text) {
    if (text.find_first_of("\",\r\n") == std::string::npos) return text;
    std::string out = "\"";
    for (char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
    return out + "\"";
}

}  // namespace

std::string csv(const ReportInput &input) {
    std::set<std::string> parameters;
    std::vector<std::string> shapes;
    for (const ReportTask &task : input.tasks) {
        for (const auto *trials : {&task.trials, &task.finals}) {
            for (const Trial &trial : *trials) {
                for (const auto &[name, value] : trial.config) parameters.insert(name);
            }
        }
        for (const Shape &shape : task.task.shapes) {
            const std::string text = text_of(shape);
            if (std::find(shapes.begin(), shapes.end(), text) == shapes.end()) shapes.push_back(text);
        }
    }
    std::string out = "kernel,target,class,phase";
    for (const std::string &name : parameters) out += "," + field(name);
    out += ",status,cost,low,high";
    for (const std::string &shape : shapes) out += "," + field("ns " + shape);
    out += ",error\r\n";
    for (const ReportTask &task : input.tasks) {
        for (const bool final : {false, true}) {
            for (const Trial &trial : final ? task.finals : task.trials) {
                out += field(task.task.kernel) + "," + field(task.task.target) + "," + name_of(task.task.length_class) + "," +
                       (final ? "final" : "search");
                for (const std::string &name : parameters) {
                    const auto found = trial.config.find(name);
                    out += "," + (found == trial.config.end() ? "" : std::to_string(found->second));
                }
                const bool ok = trial.status == Status::kOk;
                out += std::string(",") + name_of(trial.status);
                for (double value : {trial.cost.value, trial.cost.low, trial.cost.high}) out += "," + (ok ? plain(value) : "");
                for (const std::string &shape : shapes) {
                    out += ",";
                    for (size_t s = 0; s < task.task.shapes.size() && s < trial.ns.size(); s++) {
                        if (ok && text_of(task.task.shapes[s]) == shape) out += plain(quantile(trial.ns[s], 0.5));
                    }
                }
                out += "," + field(trial.error) + "\r\n";
            }
        }
    }
    return out;
}

std::string strategies_csv(const ReportInput &input) {
    std::string out = "kernel,target,class,searcher,run,evaluations,best\r\n";
    for (const ReportTask &task : input.tasks) {
        for (const Convergence &strategy : task.strategies) {
            for (size_t r = 0; r < strategy.best.size(); r++) {
                const std::vector<double> &run = strategy.best[r];
                for (size_t i = 0; i < run.size(); i++) {
                    if (!std::isfinite(run[i]) || (i > 0 && i + 1 < run.size() && run[i] == run[i - 1])) continue;
                    out += field(task.task.kernel) + "," + field(task.task.target) + "," + name_of(task.task.length_class) + "," +
                           field(strategy.searcher) + "," + std::to_string(r + 1) + "," + std::to_string(i + 1) + "," + plain(run[i]) +
                           "\r\n";
                }
            }
        }
    }
    return out;
}

}  // namespace gdn::tune
