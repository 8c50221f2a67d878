#include "autotune/data/t4.h"

#include <nlohmann/json.hpp>

namespace gdn::tune {

namespace {

using nlohmann::ordered_json;

const char *invalidity(Status status) {
    switch (status) {
    case Status::kOk: return "correct";
    case Status::kBuildFailed:
    case Status::kBuildTimeout: return "compile";
    case Status::kRunTimeout: return "timeout";
    case Status::kWrongResult: return "correctness";
    default: return "runtime";
    }
}

ordered_json json_of(const RunInfo &info, const Trial &trial) {
    ordered_json result = {{"timestamp", info.date}, {"configuration", trial.config},
        {"times", {{"compilation_time", 1e3 * trial.build_seconds}, {"framework", 0}, {"search_algorithm", 0}, {"validation", 0},
                      {"runtimes", ordered_json::array()}}},
        {"invalidity", invalidity(trial.status)}, {"correctness", trial.status == Status::kOk ? 1 : 0},
        {"measurements", ordered_json::array()}, {"objectives", {"cost"}}};
    for (const std::vector<double> &shape : trial.ns) {
        for (double ns : shape) result["times"]["runtimes"].push_back(ns * 1e-6);
    }
    if (trial.status == Status::kOk) {
        for (const auto &[name, value] :
            {std::pair("cost", trial.cost.value), std::pair("low", trial.cost.low), std::pair("high", trial.cost.high)}) {
            result["measurements"].push_back({{"name", name}, {"value", value}, {"unit", ""}});
        }
    }
    return result;
}

}  // namespace

std::string t4_json(const Journal &journal, int64_t id, const Task &task) {
    const RunInfo &info = journal.info();
    ordered_json shapes = ordered_json::array();
    for (const Shape &shape : task.shapes) shapes.push_back(text_of(shape));
    ordered_json root = {{"schema_version", "1.0.0"},
        {"metadata", {{"task", task.name()}, {"shapes", shapes}, {"device", ordered_json::parse(info.device.json())},
                         {"generator", info.generator_hash}, {"halide", info.halide_version}, {"gdn", info.gdn_version},
                         {"searcher", task.searcher}, {"seed", task.seed}}},
        {"results", ordered_json::array()}};
    for (const char *phase : {"search", "final"}) {
        for (const Trial &trial : journal.trials(id, phase)) {
            if (trial.status != Status::kSkipped) root["results"].push_back(json_of(info, trial));
        }
    }
    return root.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace gdn::tune
