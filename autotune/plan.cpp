#include "autotune/plan.h"

#include <algorithm>
#include <set>

#include "autotune/measure/shapes.h"

namespace gdn::tune {

std::vector<std::string> searched_parameters(const Kernel &kernel, const std::vector<Shape> &shapes) {
    bool threads = false, ragged = false, long_enough = false;
    for (const Shape &shape : shapes) {
        threads |= shape.threads > 1;
        ragged |= shape.T % 8 != 0;
        long_enough |= shape.T > 8;
    }
    std::vector<std::string> names;
    for (const Parameter &p : kernel.space.parameters()) {
        if (p.values.size() < 2) continue;
        const bool shown = p.kind != Kind::kRuntime ? true
                           // The runtime takes them from the chunk kernel's row, see Division.
                           : p.name == "task_grain" || p.name == "v_slice_min" ? threads && kernel.family == "core_chunk"
                           : p.name == "short_steps" || p.name == "tail_steps" ? ragged
                                                                               : long_enough;
        if (shown) names.push_back(p.name);
    }
    return names;
}

namespace {

/// Shapes of that class that the kernel can be called with; `why` says what is wrong with the last other one.
std::vector<Shape> shapes_of(const Kernel &kernel, LengthClass c, const PlanRequest &request, std::string *why) {
    std::vector<Shape> shapes;
    if (request.shapes.empty()) {
        shapes = default_shapes(kernel, c);
        for (Shape &shape : shapes) shape.threads = request.threads;
        return shapes;
    }
    for (const std::string &text : request.shapes) {
        for (const Shape &shape : parse_shapes(text)) {
            if (class_of(kernel, shape) != c) continue;
            try {
                resolved(kernel, shape);
                shapes.push_back(shape);
            } catch (const Error &error) {
                *why = error.what();
            }
        }
    }
    return shapes;
}

/// Names in those of the configurations that are points of the kernel's space, over this base.
std::vector<std::string> named_by(const std::vector<Config> &configs, const Kernel &kernel, const Config &base, std::string *why) {
    std::vector<std::string> names;
    for (const Config &config : configs) {
        Config whole = config;
        whole.insert(base.begin(), base.end());
        if (points_of(kernel.space, {whole}, why).empty()) continue;
        for (const auto &[name, value] : config) names.push_back(name);
    }
    return names;
}

}  // namespace

std::vector<SessionTask> plan_tasks(const std::vector<Kernel> &kernels, const PlanRequest &request) {
    std::vector<Kernel> chosen;
    std::set<std::pair<std::string, std::string>> seen;
    for (const std::string &glob : request.globs.empty() ? std::vector<std::string>{"*"} : request.globs) {
        for (Kernel &kernel : select_kernels(kernels, glob, request.target)) {
            if (seen.insert({kernel.name, kernel.target}).second) chosen.push_back(std::move(kernel));
        }
    }
    std::vector<SessionTask> tasks;
    std::string why = "there is nothing to tune", unfit;  // the second says more where it says something
    for (const Kernel &kernel : chosen) {
        for (const LengthClass c : classes_of(kernel.family)) {
            if (!request.classes.empty() && !std::count(request.classes.begin(), request.classes.end(), c)) continue;
            const std::vector<Shape> shapes = shapes_of(kernel, c, request, &unfit);
            if (shapes.empty()) {
                why = "no shape that was given belongs to " + kernel.name;
                continue;
            }
            // What is not searched stays at the base; a base outside the space is found here.
            Config base = kernel.space.config(kernel.space.default_point());
            for (const auto &[name, value] : request.base) base[name] = value;
            kernel.space.point(base);
            std::vector<std::string> parameters = request.parameters;
            if (parameters.empty()) {
                parameters =
                    request.configs.empty() ? searched_parameters(kernel, shapes) : named_by(request.configs, kernel, base, &unfit);
            }
            for (const auto &[name, list] : request.values) {
                if (list.size() < 2 || std::count(parameters.begin(), parameters.end(), name)) continue;
                if (!request.parameters.empty()) {
                    throw Error("the parameter " + name + " is given several values, but is not among the parameters to search");
                }
                parameters.push_back(name);
            }
            if (parameters.empty()) {
                why = "nothing of " + kernel.name + " can be varied";
                continue;
            }
            SessionTask t;
            t.kernel = kernel;
            t.weight = weight_of(kernel);
            t.task.kernel = kernel.name;
            t.task.target = kernel.target;
            t.task.length_class = c;
            t.task.shapes = shapes;
            t.task.default_config = kernel.space.config(kernel.space.default_point());
            std::map<std::string, std::vector<int>> values;
            for (const auto &[name, value] : request.base) values[name] = {value};
            for (const std::string &name : parameters) values.erase(name);
            for (const auto &[name, list] : request.values) values[name] = list;
            t.task.space = kernel.space.restricted(values).with_parameters(parameters);
            if (!request.configs.empty() && points_of(t.task.space, request.configs, &unfit).empty()) continue;
            t.task.kernel_arguments = kernel.arguments;
            t.task.searcher = request.searcher;
            t.task.seed = request.seed;
            t.task.batch = request.batch;
            t.task.rounds = request.rounds;
            t.task.shard = request.shard;
            t.task.shards = request.shards;
            tasks.push_back(std::move(t));
        }
    }
    if (tasks.empty()) throw Error(unfit.empty() ? why : unfit);
    return tasks;
}

}  // namespace gdn::tune
