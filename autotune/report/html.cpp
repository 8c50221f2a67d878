// The page. It is well-formed XML too, so that a test can hold it to that.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "autotune/format.h"
#include "autotune/report/chart.h"
#include "autotune/report/collect.h"
#include "autotune/report/report.h"
#include "autotune/report/style.h"

namespace gdn::tune {
namespace {

bool good(const Trial &trial) { return trial.status == Status::kOk && std::isfinite(trial.cost.value) && trial.cost.value > 0; }

const Trial *cheapest(const std::vector<Trial> &trials) {
    const Trial *best = nullptr;
    for (const Trial &trial : trials) {
        if (good(trial) && (!best || trial.cost.value < best->cost.value)) best = &trial;
    }
    return best;
}

/// Measured trials of the search that succeeded, the best of each configuration, cheapest first.
std::vector<const Trial *> ranking(const ReportTask &task) {
    std::map<Config, const Trial *> best;
    for (const Trial &trial : task.trials) {
        if (!good(trial)) continue;
        const Trial *&there = best[trial.config];
        if (!there || trial.cost.value < there->cost.value) there = &trial;
    }
    std::vector<const Trial *> out;
    for (const auto &[config, trial] : best) out.push_back(trial);
    std::stable_sort(out.begin(), out.end(), [](const Trial *a, const Trial *b) { return a->cost.value < b->cost.value; });
    return out;
}

/// Time against the default's in one shape; NaN if it was not measured.
double shape_cost(const Trial &trial, size_t shape) {
    std::vector<double> ratios;
    if (shape < trial.ns.size() && shape < trial.anchor.size()) {
        for (size_t i = 0; i < std::min(trial.ns[shape].size(), trial.anchor[shape].size()); i++)
            ratios.push_back(trial.ns[shape][i] / trial.anchor[shape][i]);
    }
    return quantile(ratios, 0.5);
}

double median_ns(const std::vector<std::vector<double>> &ns, size_t shape) {
    return shape < ns.size() ? quantile(ns[shape], 0.5) : std::numeric_limits<double>::quiet_NaN();
}

/// Only what differs from the default, a chip each.
std::string chips(const Config &config, const Config &default_config) {
    std::string out;
    for (const auto &[name, value] : changed(config, default_config)) {
        out += "<span class=\"chip\">" + escape(name) + " <b>" + std::to_string(value) + "</b></span>\n";
    }
    return out.empty() ? "<span class=\"soft\">the default</span>" : out;
}

std::string gain(const Estimate &cost) {
    const bool better = cost.high<1, worse = cost.low> 1;
    return std::string("<span class=\"") + (better ? "good" : worse ? "bad" : "soft") + "\">" + percent(1 - cost.value) + "</span>";
}
std::string gain_interval(const Estimate &cost) { return fixed(100 * (1 - cost.high), 1) + " to " + percent(1 - cost.low); }

std::map<Status, int> failures(const ReportTask &task) {
    std::map<Status, int> out;
    for (const Trial &trial : task.trials) {
        if (trial.status != Status::kOk && trial.status != Status::kSkipped) out[trial.status]++;
    }
    return out;
}

std::string words(Status status) {
    std::string out = name_of(status);
    std::replace(out.begin(), out.end(), '_', ' ');
    return out;
}

std::string failures_text(const ReportTask &task) {
    std::string out;
    for (const auto &[status, count] : failures(task)) out += (out.empty() ? "" : ", ") + std::to_string(count) + " " + words(status);
    return out.empty() ? "none" : out;
}

/// Valid points of the space; 0: there is no space.
uint64_t points_of(const ReportTask &task) { return task.task.space.parameters().empty() ? 0 : task.task.space.valid_count(); }

size_t evaluations(const ReportTask &task) {
    return static_cast<size_t>(
        std::count_if(task.trials.begin(), task.trials.end(), [](const Trial &t) { return t.status != Status::kSkipped; }));
}

/// A kernel's name, which may break after any of its words.
std::string name(const std::string &text) {
    std::string out = escape(text);
    for (size_t at = out.find('_'); at != std::string::npos; at = out.find('_', at + 1)) out.insert(at + 1, "<wbr/>");
    return "<span class=\"code\">" + out + "</span>";
}

class Table {
public:
    /// A name that begins with # is a column of numbers.
    Table(const std::string &label, const std::vector<std::string> &columns) {
        out_ = "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"" + escape(label) + "\"><table>\n<thead><tr>";
        for (const std::string &column : columns) {
            const bool number = column[0] == '#';
            numbers_.push_back(number);
            out_ += std::string("<th scope=\"col\"") + (number ? " class=\"number\">" : ">") + escape(column.substr(number)) + "</th>";
        }
        out_ += "</tr></thead>\n<tbody>\n";
    }
    /// Cells are HTML. One with chips or commas may wrap.
    void row(const std::vector<std::string> &cells) {
        out_ += "<tr>";
        for (size_t i = 0; i < cells.size(); i++) {
            const char *look = numbers_[i] ? " class=\"number\""
                               : cells[i].find("\"chip\"") != std::string::npos || cells[i].find(", ") != std::string::npos
                                   ? " class=\"wide\""
                               : i ? ""
                                   : " class=\"name\"";
            out_ += std::string("<td") + look + ">" + cells[i] + "</td>";
        }
        out_ += "</tr>\n";
    }
    std::string done() { return out_ + "</tbody></table></div>\n"; }

private:
    std::string out_;
    std::vector<bool> numbers_;
};

std::string paragraph(const std::string &text, const std::string &look = "") {
    return text.empty() ? "" : "<p" + (look.empty() ? "" : " class=\"" + look + "\"") + ">" + text + "</p>\n";
}

std::string figure(const std::string &title, const std::string &text, const std::string &svg) {
    return "<figure><figcaption><b>" + escape(title) + "</b><span>" + escape(text) + "</span></figcaption>\n" + svg + "</figure>\n";
}

std::string bytes(int64_t n) {
    return n >= 1 << 20 ? fixed(static_cast<double>(n) / (1 << 20), n % (1 << 20) ? 1 : 0) + " MiB"
                        : fixed(static_cast<double>(n) / 1024, 0) + " KiB";
}

std::string provenance(const ReportInput &input) {
    std::string out = "<dl>\n";
    const auto fact = [&](const char *name, const std::string &value) {
        if (!value.empty()) out += std::string("<dt>") + name + "</dt><dd>" + escape(value) + "</dd>\n";
    };
    const Device &device = input.info.device;
    fact("Machine", device.name + (device.architecture.empty() ? "" : " (" + device.architecture + ")"));
    if (device.cores > 0) fact("Cores", count_of(device.cores, "core") + ", " + count_of(device.threads, "thread"));
    std::string caches;
    const std::pair<const char *, int64_t> levels[] = {{"L1 ", device.l1_bytes}, {"L2 ", device.l2_bytes}, {"L3 ", device.l3_bytes}};
    for (const auto &[name, size] : levels) {
        if (size > 0) caches += (caches.empty() ? "" : ", ") + (name + bytes(size));
    }
    fact("Caches", caches);
    if (input.peak_gflops > 0) fact("Peak", fixed(input.peak_gflops, 1) + " GFLOP/s");
    if (input.memory_gbytes > 0) fact("Memory", fixed(input.memory_gbytes, 1) + " GB/s");
    fact("Measured", input.info.date);
    fact("gdn", input.info.gdn_version);
    fact("Halide", input.info.halide_version);
    fact("Generator", input.info.generator_hash);
    out += "</dl>\n";
    if (input.info.noisy)
        out += paragraph(
            "This machine was found unfit for measuring, and the run was forced: read the small differences as noise.", "warning");
    const nlohmann::json doctor = nlohmann::json::parse(input.info.doctor, nullptr, false);
    std::string findings;
    if (doctor.is_object() && doctor.contains("findings") && doctor["findings"].is_array()) {
        for (const nlohmann::json &finding : doctor["findings"]) {
            const auto word = [&](const char *key) {
                return finding.is_object() && finding.contains(key) && finding[key].is_string() ? finding[key].get<std::string>() : "";
            };
            if (!word("text").empty()) findings += "<dt>" + escape(word("what")) + "</dt><dd>" + escape(word("text")) + "</dd>\n";
        }
    }
    if (!findings.empty()) out += "<details><summary>State of the machine (gdn doctor)</summary><dl>\n" + findings + "</dl></details>\n";
    return out;
}

std::string summary(const ReportInput &input) {
    Table table("Summary",
        {"Kernel", "Target", "Length", "#Default", "#Best", "#Gain", "#95 % interval", "Best configuration", "#Evaluations", "Failures"});
    for (size_t i = 0; i < input.tasks.size(); i++) {
        const ReportTask &task = input.tasks[i];
        const Trial *best = best_of(task);
        std::vector<std::string> row = {"<a href=\"#task" + std::to_string(i + 1) + "\">" + name(task.task.kernel) + "</a>",
            escape(task.task.target), name_of(task.task.length_class)};
        if (best) {
            for (std::string cell : {duration(median_ns(best->anchor, 0)), duration(median_ns(best->ns, 0)), gain(best->cost),
                     gain_interval(best->cost), chips(best->config, task.task.default_config)}) {
                row.push_back(cell);
            }
        } else {
            const char *why = task.trials.empty() ? "nothing tried" : "<span class=\"bad\">none succeeded</span>";
            row.insert(row.end(), {"–", "–", "–", "–", why});
        }
        row.push_back(std::to_string(evaluations(task)));
        row.push_back(escape(failures_text(task)));
        table.row(row);
    }
    return table.done() + paragraph("Gain: how much less time the best configuration takes than the default, over all shapes of the task "
                                    "(geometric mean). Times are those of the "
                                    "first shape. A gain is coloured only where its interval excludes zero.",
                              "soft");
}

/// How the best configuration moves from task to task: only parameters that some task sets away from its default.
std::string best_configurations(const ReportInput &input) {
    std::set<std::string> names;
    for (const ReportTask &task : input.tasks) {
        const Trial *best = best_of(task);
        if (!best) continue;
        for (const auto &[name, value] : changed(best->config, task.task.default_config)) names.insert(name);
    }
    if (input.tasks.size() < 2 || names.empty()) return "";
    std::vector<std::string> columns = {"Kernel", "Target", "Length"};
    for (const std::string &name : names) columns.push_back("#" + name);
    Table table("Best configurations", columns);
    for (const ReportTask &task : input.tasks) {
        const Trial *best = best_of(task);
        if (!best) continue;
        std::vector<std::string> row = {name(task.task.kernel), escape(task.task.target), name_of(task.task.length_class)};
        for (const std::string &name : names) {
            const auto value = best->config.find(name), usual = task.task.default_config.find(name);
            if (value == best->config.end()) {
                row.push_back("");
            } else if (usual != task.task.default_config.end() && usual->second == value->second) {
                row.push_back("<span class=\"soft\">" + std::to_string(value->second) + "</span>");
            } else {
                row.push_back("<b>" + std::to_string(value->second) + "</b>");
            }
        }
        table.row(row);
    }
    return "<h2>How the best configuration moves</h2>\n" +
           paragraph("Bold: away from the kernel's default. Parameters that stay at their default everywhere are left out.") + table.done();
}

std::string strategies(const ReportTask &task) {
    if (task.strategies.empty()) return "";
    const double best = best_known(task);
    std::vector<std::string> columns = {"Strategy", "#Runs"};
    for (double share : kReportShares) columns.push_back("#After " + percent(share, 0));
    columns.insert(columns.end(), {"#At the end", "#Within 2 %", "#Evaluations to it"});
    const bool holes = std::any_of(task.strategies.begin(), task.strategies.end(), [](const Convergence &c) { return c.unrecorded > 0; });
    if (holes) columns.push_back("#Not recorded");
    Table table("Strategies", columns);
    const auto cell = [](const std::vector<double> &values) {
        if (values.empty()) return std::string("–");
        return percent(quantile(values, 0.5)) + " <span class=\"soft\">(" + fixed(100 * quantile(values, 0), 1) + "–" +
               fixed(100 * quantile(values, 1), 1) + ")</span>";
    };
    for (const Convergence &strategy : task.strategies) {
        std::vector<std::string> row = {escape(strategy.searcher), std::to_string(strategy.best.size())};
        for (double share : kReportShares) row.push_back(cell(distances(task, strategy, share)));
        std::vector<double> ends, needed;
        for (const std::vector<double> &run : strategy.best) {
            if (run.empty()) continue;
            ends.push_back(run.back() / best - 1);
            const auto there = std::find_if(run.begin(), run.end(), [&](double cost) { return cost <= best * 1.02; });
            if (there != run.end()) needed.push_back(static_cast<double>(there - run.begin() + 1));
        }
        row.push_back(cell(ends));
        row.push_back(std::to_string(needed.size()) + " of " + std::to_string(strategy.best.size()));
        row.push_back(needed.empty() ? "–" : fixed(quantile(needed, 0.5), 0));
        if (holes) row.push_back(std::to_string(strategy.unrecorded));
        table.row(row);
    }
    return "<h3>Strategies: distance to the best known configuration</h3>\n" + table.done() +
           paragraph("How much more time the best configuration takes that a strategy has found after a share of the space: median over "
                     "its runs, in parentheses the luckiest and the unluckiest. Within 2 %: how many runs came so near to the best, and "
                     "after how many evaluations half of those had.",
               "soft");
}

/// Median and quartiles over the runs of a strategy; a run that ended early keeps its last value.
Curve curve_of(const Convergence &strategy) {
    Curve curve;
    curve.name = strategy.searcher;
    size_t longest = 0;
    for (const auto &run : strategy.best) longest = std::max(longest, run.size());
    for (size_t i = 0; i < longest; i++) {
        std::vector<double> values;
        for (const auto &run : strategy.best) {
            if (!run.empty()) values.push_back(run[std::min(i, run.size() - 1)]);
        }
        curve.middle.push_back(quantile(values, 0.5));
        if (strategy.best.size() > 1) curve.low.push_back(quantile(values, 0.25)), curve.high.push_back(quantile(values, 0.75));
    }
    return curve;
}

std::string convergence_figure(const ReportTask &task, uint64_t points) {
    const double best = best_known(task);
    if (!task.strategies.empty()) {
        std::vector<Curve> curves;
        size_t runs = 0;
        for (const Convergence &strategy : task.strategies)
            curves.push_back(curve_of(strategy)), runs = std::max(runs, strategy.best.size());
        std::vector<std::pair<double, std::string>> shares;
        for (double share : kReportShares) shares.emplace_back(share * static_cast<double>(points), percent(share, 0));
        return figure("Convergence",
            runs > 1
                ? "Best time so far: the median of the runs, and a band with the middle half of them. Upright lines: shares of the space."
                : "Best time so far. Upright lines: shares of the space.",
            convergence(curves, {}, shares, best));
    }
    Curve curve;
    std::vector<double> dots;
    for (const Trial &trial : task.trials) {
        if (trial.status == Status::kSkipped) continue;
        dots.push_back(good(trial) ? trial.cost.value : std::numeric_limits<double>::quiet_NaN());
    }
    curve.name = task.task.searcher;
    curve.middle = best_so_far(task.trials);
    return figure("Convergence", "Best time so far; every dot is one evaluation, the slower ones lie above the frame.",
        convergence({curve}, dots, {}, best));
}

std::vector<Importance> moving(const ReportTask &task) {
    std::vector<Importance> all = importance(task.trials);
    all.erase(std::remove_if(all.begin(), all.end(), [](const Importance &one) { return one.best.size() < 2; }), all.end());
    return all;
}

std::string importance_figure(const std::vector<Importance> &parameters) {
    std::vector<Bar> all;
    for (const Importance &one : parameters) {
        if (all.size() == 12) break;
        const auto best =
            std::min_element(one.best.begin(), one.best.end(), [](const auto &a, const auto &b) { return a.second < b.second; });
        all.push_back({one.parameter, "best " + std::to_string(best->first), one.share});
    }
    return figure("Which parameters matter",
        "How much of the spread each explains alone. What is missing to 100 % are their interactions and noise.", bars(all));
}

std::string heat_figure(const ReportTask &task, const std::string &one, const std::string &other) {
    std::set<int> row_values, column_values;
    std::map<std::pair<int, int>, Cell> cells;
    for (const Trial &trial : task.trials) {
        const auto row = trial.config.find(one), column = trial.config.find(other);
        if (row == trial.config.end() || column == trial.config.end() || trial.status == Status::kSkipped) continue;
        row_values.insert(row->second), column_values.insert(column->second);
        Cell &cell = cells[{row->second, column->second}];
        if (!good(trial)) {
            cell.failures++;
        } else if (cell.cost == 0 || trial.cost.value < cell.cost) {
            cell.cost = trial.cost.value;
        }
    }
    std::vector<std::string> rows, columns;
    std::vector<std::vector<Cell>> grid;
    for (int column : column_values) columns.push_back(std::to_string(column));
    for (int row : row_values) {
        rows.push_back(std::to_string(row));
        grid.emplace_back();
        for (int column : column_values) grid.back().push_back(cells[{row, column}]);
    }
    return figure("The two that matter most", "Best time / default's time for each pair of values, whatever the other parameters were.",
        heat_map(one, rows, other, columns, grid));
}

/// The ceilings are those of one core: rates are given per thread beside them.
double threads_of(const ReportTask &task, size_t shape) { return std::max(1, task.task.shapes[shape].threads); }

std::string roofline_figure(const ReportInput &input, const ReportTask &task, const Trial &best) {
    std::vector<Spot> spots;
    for (size_t s = 0; s < task.work.size() && s < task.task.shapes.size(); s++) {
        const Measurer::Work &work = task.work[s];
        for (const bool is_best : {false, true}) {
            const double ns = median_ns(is_best ? best.ns : best.anchor, s);
            if (work.flops > 0 && std::isfinite(work.flops / work.bytes) && std::isfinite(work.flops / ns)) {
                spots.push_back({work.flops / work.bytes, work.flops / ns / threads_of(task, s), is_best,
                    (is_best ? "best, " : "default, ") + text_of(task.task.shapes[s])});
            }
        }
    }
    if (spots.empty()) return "";
    return figure("Roofline", "Where default and best stand under what the machine allows, a pair for each shape.",
        roofline(spots, input.peak_gflops, input.memory_gbytes));
}

std::string shapes(const ReportInput &input, const ReportTask &task, const Trial &best) {
    const bool speed = !task.work.empty(), several = task.task.shapes.size() > 1, share = speed && input.peak_gflops > 0;
    std::vector<std::string> columns = {"Shape", "#Default", "#Best", "#Gain"};
    if (speed) columns.insert(columns.end(), {"#GFLOP/s, default", "#GFLOP/s, best"});
    if (share) columns.push_back("#Of the peak");
    if (several) columns.insert(columns.end(), {"Best for this shape alone", "#Its gain"});
    Table table("Shapes", columns);
    for (size_t s = 0; s < task.task.shapes.size(); s++) {
        const double usual = median_ns(best.anchor, s), ns = median_ns(best.ns, s);
        std::vector<std::string> row = {"<span class=\"code\">" + escape(text_of(task.task.shapes[s])) + "</span>", duration(usual),
            duration(ns), percent(1 - shape_cost(best, s))};
        if (speed) {
            const double flops = s < task.work.size() ? task.work[s].flops : 0;
            row.insert(row.end(), {fixed(flops / usual, 1), fixed(flops / ns, 1)});
            if (share) row.push_back(percent(flops / ns / threads_of(task, s) / input.peak_gflops, 0));
        }
        if (several) {
            const Trial *alone = nullptr;
            for (const Trial &trial : task.trials) {
                if (good(trial) && std::isfinite(shape_cost(trial, s)) && (!alone || shape_cost(trial, s) < shape_cost(*alone, s)))
                    alone = &trial;
            }
            row.push_back(!alone                         ? "–"
                          : alone->config == best.config ? "<span class=\"soft\">the same</span>"
                                                         : chips(alone->config, task.task.default_config));
            row.push_back(alone ? percent(1 - shape_cost(*alone, s)) : "–");
        }
        table.row(row);
    }
    return "<h3>Shapes</h3>\n" + table.done();
}

std::string top_ten(const ReportTask &task, const std::vector<const Trial *> &ranked) {
    std::vector<std::string> columns = {"#Rank", "#Time / default's", "#95 % interval", "Configuration"};
    const size_t shapes = std::min<size_t>(task.task.shapes.size(), 4);
    for (size_t s = 0; s < shapes; s++) columns.push_back("#" + text_of(task.task.shapes[s]));
    Table table("Ten best configurations", columns);
    for (size_t i = 0; i < ranked.size() && i < 10; i++) {
        const Trial &trial = *ranked[i];
        std::vector<std::string> row = {std::to_string(i + 1), fixed(trial.cost.value, 4),
            fixed(trial.cost.low, 4) + " to " + fixed(trial.cost.high, 4), chips(trial.config, task.task.default_config)};
        for (size_t s = 0; s < shapes; s++) row.push_back(duration(median_ns(trial.ns, s)));
        table.row(row);
    }
    return "<h3>Ten best configurations of the search</h3>\n" + paragraph("Parameters that are not shown are at their default.", "soft") +
           table.done();
}

std::string failure_table(const ReportTask &task) {
    const std::map<Status, int> all = failures(task);
    if (all.empty()) return "";
    Table table("Failures", {"Outcome", "#Count", "First configuration", "What was said"});
    for (const auto &[status, count] : all) {
        const Trial &first = *std::find_if(task.trials.begin(), task.trials.end(), [s = status](const Trial &t) { return t.status == s; });
        table.row({words(status), std::to_string(count), chips(first.config, task.task.default_config),
            "<code>" + escape(shortened(first.error, 300)) + "</code>"});
    }
    return "<h3>Failures</h3>\n" + table.done();
}

std::string section(const ReportInput &input, size_t number) {
    const ReportTask &task = input.tasks[number];
    const std::string length = task.task.length_class == LengthClass::kAny ? "" : std::string(", ") + name_of(task.task.length_class);
    std::string out = "<section id=\"task" + std::to_string(number + 1) + "\">\n<h2>" + name(task.task.kernel) + " on " +
                      escape(task.task.target) + length + "</h2>\n";
    const uint64_t points = points_of(task);
    std::string line = count_of(evaluations(task), "evaluation") + (points ? " in a space of " + count_of(points, "valid point") : "") +
                       "; failures: " + failures_text(task) + ".";
    const Trial *best = best_of(task);
    if (!best) {
        return out + paragraph(task.trials.empty() ? "Nothing was tried yet." : "No configuration succeeded. " + escape(line), "bad") +
               failure_table(task) + "</section>\n";
    }
    out += paragraph("The best configuration takes " + gain(best->cost) + " less time than the default (95 % interval " +
                     gain_interval(best->cost) + "): " + chips(best->config, task.task.default_config));
    if (!task.finish.done) {
        line += " It was found in the search and not yet compared with the default in alternation, so part of its lead may be luck.";
    } else if (!task.finish.why.empty()) {
        line += " Final phase: " + task.finish.why;
    }
    out += paragraph(escape(line), "soft");

    const std::vector<const Trial *> ranked = ranking(task);
    std::vector<double> costs;
    for (const Trial *trial : ranked) costs.push_back(trial->cost.value);
    const std::vector<Importance> parameters = moving(task);
    out += "<div class=\"figures\">\n";
    if (!costs.empty()) {
        out += figure("How good the configurations are",
            "Blue: faster than the default. Ends of the time axis are the fastest and nearly the slowest that ran.",
            histogram(costs, ranked[0]->cost.value));
        out += convergence_figure(task, points);
    }
    if (!parameters.empty()) out += importance_figure(parameters);
    if (parameters.size() > 1) out += heat_figure(task, parameters[0].parameter, parameters[1].parameter);
    out += roofline_figure(input, task, *best);
    out += "</div>\n" + strategies(task) + shapes(input, task, *best);
    if (!ranked.empty()) out += top_ten(task, ranked);
    return out + failure_table(task) + "<details><summary>Whole configurations</summary>\n" +
           paragraph("Best: <code>" + escape(text_of(best->config)) + "</code>") +
           paragraph("Default: <code>" + escape(text_of(task.task.default_config)) + "</code>") + "</details>\n</section>\n";
}

}  // namespace

const Trial *best_of(const ReportTask &task) {
    if (task.finish.done) {
        for (const Trial &trial : task.finals) {
            if (good(trial) && trial.config == task.finish.winner) return &trial;
        }
    }
    return cheapest(task.trials);
}

double best_known(const ReportTask &task) {
    double best = std::numeric_limits<double>::infinity();
    if (const Trial *trial = cheapest(task.trials)) best = trial->cost.value;
    for (const Convergence &strategy : task.strategies) {
        for (const std::vector<double> &run : strategy.best) {
            if (!run.empty()) best = std::min(best, run.back());
        }
    }
    return best;
}

std::vector<double> distances(const ReportTask &task, const Convergence &strategy, double share) {
    const double best = best_known(task), after = std::ceil(share * static_cast<double>(points_of(task)) - 1e-9);
    std::vector<double> out;
    for (const std::vector<double> &run : strategy.best) {
        if (after < 1 || static_cast<double>(run.size()) < after) return {};
        out.push_back(run[static_cast<size_t>(after) - 1] / best - 1);
    }
    return out;
}

std::string html(const ReportInput &input) {
    std::string out = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" "
                      "content=\"width=device-width, initial-scale=1\"/>\n"
                      "<title>" +
                      escape(input.title) + "</title>\n<style>" + kStyle + "</style>\n</head>\n<body>\n<h1>" + escape(input.title) +
                      "</h1>\n" + paragraph(escape(input.text)) + provenance(input);
    out += input.tasks.empty() ? paragraph("There is no task yet.", "soft")
                               : "<h2>Summary</h2>\n" + summary(input) + best_configurations(input);
    for (size_t i = 0; i < input.tasks.size(); i++) out += section(input, i);
    return out + "</body>\n</html>\n";
}

}  // namespace gdn::tune
