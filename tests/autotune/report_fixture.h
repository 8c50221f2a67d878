// A task with trials as a run leaves them, for the tests of reports and experiments.
#pragma once
#include <cmath>

#include "autotune/report/report.h"
#include "autotune/space/random.h"

namespace gdn::tune {

inline double surface(const Config &config) {
    return 0.8 + 0.02 * std::pow(config.at("rows") - 4, 2) + 0.1 * std::fabs(std::log2(config.at("cols") / 32.0)) +
           0.002 * config.at("unroll");
}

inline Trial measured(const Config &config, double cost, size_t shapes) {
    Trial trial;
    trial.config = config;
    trial.status = Status::kOk;
    trial.ns.assign(shapes, {cost * 1000, cost * 1010, cost * 1020});
    trial.anchor.assign(shapes, {1000, 1010, 1020});
    trial.cost = {cost, cost * 0.99, cost * 1.01, cost, 0.01, 3};
    return trial;
}

inline Trial failed(const Config &config, Status status, const std::string &error) {
    Trial trial;
    trial.config = config;
    trial.status = status;
    trial.error = error;
    return trial;
}

inline Task small_task() {
    Task task;
    task.kernel = "core_chunk_channel_tied_128x128";
    task.target = "x86_avx512";
    task.length_class = LengthClass::kLong;
    task.space = Space({{"rows", Kind::kSchedule, {2, 4, 8}, 8}, {"cols", Kind::kSchedule, {16, 32, 64}, 32},
                           {"unroll", Kind::kSchedule, {1, 2, 4, 8}, 1}, {"grain", Kind::kRuntime, {0}, 0}},
        {{"rows times cols fit", {"rows", "cols"}, {{2, 16}, {2, 32}, {2, 64}, {4, 16}, {4, 32}, {4, 64}, {8, 16}, {8, 32}}}});
    task.default_config = {{"rows", 8}, {"cols", 32}, {"unroll", 1}, {"grain", 0}};
    task.searcher = "exhaustive";
    task.seed = 1;
    task.batch = 8;
    for (int64_t tokens : {1024, 4096}) {
        Shape shape;
        shape.T = tokens;
        task.shapes.push_back(shape);
    }
    return task;
}

/// Every valid point of small_task(): 32, two of which fail.
inline ReportTask recorded_task() {
    ReportTask out;
    out.task = small_task();
    const double usual = surface(out.task.default_config);
    out.task.space.each_valid([&](const Point &point) {
        const Config config = out.task.space.config(point);
        if (config.at("rows") == 2 && config.at("cols") == 64 && config.at("unroll") > 2) {
            out.trials.push_back(failed(config, Status::kCrashed, "signal 11 (Segmentation fault)"));
        } else {
            out.trials.push_back(measured(config, surface(config) / usual, 2));
        }
        return true;
    });
    out.work.assign(2, {6e5, 2e5});
    return out;
}

}  // namespace gdn::tune
