// gdn bench mixer: one call of the mixer, the operator alone on the same inputs in the same run, and the operator with one part around it.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "bench.h"
#include "command.h"
#include "console.h"
#include "machine.h"
#include "mixer_problem.h"
#include "statistics.h"

namespace gdn::cli {

using nlohmann::ordered_json;

namespace {

Distance verify(const Context &context, MixerProblem &problem, bool step, void *memory, size_t bytes) {
    const Setup &setup = problem.op.setup();
    const int64_t tokens = std::min(setup.tokens, std::max<int64_t>(64, (int64_t{1} << 25) / (setup.dk * setup.dv)));
    std::vector<gdn_reference::MixerResult> expected;
    const int64_t heads[] = {0, setup.heads - 1};
    Progress progress("verifying");
    for (int64_t hv : heads) expected.push_back(gdn_reference::run_mixer(problem.operands(setup.batch - 1, hv, tokens)));
    check((step ? gdn_mixer_step : gdn_mixer_forward)(context.get(), &problem.args, memory, bytes), "the mixer");
    Distance worst;
    for (int i = 0; i < 2; i++) worst.worst(problem.op.distance(expected[static_cast<size_t>(i)].op, setup.batch - 1, heads[i], tokens));
    return worst;
}

}  // namespace

void bench_mixer(const BenchOptions &given) {
    BenchOptions options = given;
    Setup &setup = options.setup;
    if (options.step) setup.tokens = 1;
    const int cpu = pin_for(options);
    const Context context(setup.target, setup.threads);
    std::vector<std::unique_ptr<MixerProblem>> sets;
    const int64_t wanted = options.hot || options.step ? 1 : 4 * last_level_cache_bytes();
    for (int64_t sum = 0; sum < wanted; sum += sets.back()->bytes()) {
        check_interrupt();
        sets.push_back(std::make_unique<MixerProblem>(setup, sets.size() + 1, options.step, options.huge_pages));
    }
    size_t bytes = 0;
    check(gdn_mixer_workspace_size(context.get(), &sets.front()->args, &bytes), "this call");
    Buffer memory(bytes, options.huge_pages), operator_memory = workspace(context, sets.front()->op.args, options.huge_pages);

    const Distance distance = verify(context, *sets.front(), options.step, memory.data(), bytes);
    if (!bounds(setup).hold(distance)) {
        throw Failure(kExitVerification,
            format("wrong result, nothing was timed: relative error y %.3g, state %.3g", distance.o.rms, distance.state.rms));
    }

    std::vector<gdn_mixer_args> convolution, norm;
    for (const auto &set : sets) {
        convolution.push_back(set->convolution_only());
        norm.push_back(set->norm_only());
    }
    const auto run = options.step ? gdn_mixer_step : gdn_mixer_forward;
    Contender contenders[4];  // mixer, operator, with convolutions only, with norm only
    size_t next[4] = {};
    for (int i = 0; i < 4; i++) {
        contenders[i].warm_up = static_cast<int64_t>(sets.size());
        contenders[i].call = [&, i] {
            const size_t at = next[i];
            next[i] = (at + 1) % sets.size();
            if (i == 1) {
                check((options.step ? gdn_step : gdn_forward)(
                          context.get(), &sets[at]->op.args, operator_memory.data(), operator_memory.size()),
                    "the operator");
            } else {
                check(run(context.get(),
                          i == 0   ? &sets[at]->args
                          : i == 2 ? &convolution[at]
                                   : &norm[at],
                          memory.data(), bytes),
                    "the mixer");
            }
        };
    }
    const ordered_json explanation = explain(context, sets.front()->op.args);
    const int lanes = vector_lanes(explanation["target"]);
    const Rounds rounds = measure(
        {&contenders[0], &contenders[1], &contenders[2], &contenders[3]}, [&] { return fma_peak(lanes); }, options.rounds,
        options.step ? 2e-3 : 5e-3, "measuring");

    const double token_heads = static_cast<double>(setup.batch * setup.tokens * setup.heads);
    ordered_json json = {{"benchmark", options.step ? "mixer_step" : "mixer"}};
    json.update(setup.json());
    json["width"] = kConvWidth;
    json["ns_per_token_head"] = median(contenders[0].ns) / token_heads;
    json["operator_ns_per_token_head"] = median(contenders[1].ns) / token_heads;
    const char *const names[] = {"ratio", nullptr, "convolution_ratio", "norm_ratio"};
    for (int i : {0, 2, 3}) {
        const std::vector<double> paired = ratios(contenders[i].ns, contenders[1].ns);
        json[names[i]] = median(paired);
        json[std::string(names[i]) + "_spread"] = spread(paired);
    }
    json["rel_error"] = distance.rms();
    json["target"] = explanation["target"];
    json["input_sets"] = sets.size();
    json["workspace_bytes"] = bytes;
    json["median_ns"] = median(contenders[0].ns);
    json["mad_ns"] = mad(contenders[0].ns);
    json["samples"] = contenders[0].ns;
    json["operator_samples"] = contenders[1].ns;
    add_run_facts(json, options, cpu, rounds);
    if (options.json) {
        std::printf("%s\n", json.dump(2).c_str());
        return;
    }
    const Style &s = style();
    std::printf("%s%s%s\n", s.bold, setup.text().c_str(), s.off);
    std::printf(
        "  mixer      %s%.1f ns%s per token-head, error %.2g\n", s.bold, json["ns_per_token_head"].get<double>(), s.off, distance.rms());
    std::printf("  operator   %.1f ns\n", json["operator_ns_per_token_head"].get<double>());
    std::printf("  ratio      %s%.3f%s (%.3f to %.3f over %d rounds); with convolutions only %.3f, with norm and gate only %.3f\n", s.bold,
        json["ratio"].get<double>(), s.off, json["ratio_spread"]["min"].get<double>(), json["ratio_spread"]["max"].get<double>(),
        json["rounds"].get<int>(), json["convolution_ratio"].get<double>(), json["norm_ratio"].get<double>());
}

}  // namespace gdn::cli
