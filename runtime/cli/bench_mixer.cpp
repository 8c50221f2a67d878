// gdn bench mixer: one call of the mixer, the operator alone on the same inputs in the same run, and the operator with one part around it.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "bench.h"
#include "command.h"
#include "console.h"
#include "machine.h"
#include "statistics.h"
#include "tests/reference/mixer.h"
#include "tests/support/dtype.h"

namespace gdn::cli {

using nlohmann::ordered_json;

namespace {

constexpr int64_t kWidth = 4;

/// An operator's problem with convolutions, gate and norm around it.
struct MixerProblem {
    MixerProblem(const Setup &setup, uint64_t seed, bool step, bool huge_pages) : op(setup, Inputs::kModerate, seed, huge_pages) {
        const int64_t B = setup.batch, H = setup.query_heads(), HV = setup.heads, K = setup.dk, V = setup.dv;
        const gdn_dtype dtype = op.q.view.dtype;
        uint64_t state = seed * 0x9E3779B97F4A7C15u;
        const auto fill = [&state](Tensor &tensor, float low, float high) {
            for (int64_t i = 0; i < tensor.elements(); i++) {
                state = state * 6364136223846793005u + 1442695040888963407u;
                const float x = low + (high - low) * static_cast<float>(state >> 40) * 0x1p-24f;
                const size_t size = gdn_test::dtype_bytes(tensor.view.dtype);
                gdn_test::store_element(
                    tensor.view.dtype, static_cast<unsigned char *>(tensor.view.data) + static_cast<size_t>(i) * size, x);
            }
        };
        if (step) op.use_one_state();
        gdn_mixer_args_init(&args);
        gdn_tensor *const weights[] = {&args.conv_weight_q, &args.conv_weight_k, &args.conv_weight_v};
        gdn_tensor *const initials[] = {&args.conv_initial_q, &args.conv_initial_k, &args.conv_initial_v};
        gdn_tensor *const finals[] = {&args.conv_final_q, &args.conv_final_k, &args.conv_final_v};
        for (int i = 0; i < 3; i++) {
            const int64_t heads = i == 2 ? HV : H, channels = i == 2 ? V : K;
            weight[i] = Tensor(GDN_DTYPE_F32, {kWidth, heads, channels}, huge_pages);
            fill(weight[i], -0.5f, 0.5f);
            *weights[i] = weight[i].view;
            const int order[3] = {1, 2, 0};
            for (int d = 0; d < 3; d++) {
                weights[i]->shape[d] = weight[i].view.shape[order[d]];
                weights[i]->strides[d] = weight[i].view.strides[order[d]];
            }
            initial[i] = Tensor(dtype, {B, kWidth - 1, heads, channels}, huge_pages);
            fill(initial[i], -1, 1);
            *initials[i] = initial[i].view;
            if (!step) final[i] = Tensor(dtype, {B, kWidth - 1, heads, channels}, huge_pages);
            *finals[i] = step ? initial[i].view : final[i].view;
        }
        z = Tensor(dtype, {B, setup.tokens, HV, V}, huge_pages);
        fill(z, -4, 4);
        norm_weight = Tensor(GDN_DTYPE_F32, {V}, huge_pages);
        fill(norm_weight, 0.5f, 1.5f);
        args.op = &op.args;
        args.z = z.view;
        args.norm_weight = norm_weight.view;
        args.gate_activation = GDN_ACTIVATION_SILU;
    }
    MixerProblem(const MixerProblem &) = delete;

    int64_t bytes() const { return op.bytes() + z.elements() * static_cast<int64_t>(gdn_test::dtype_bytes(z.view.dtype)); }

    gdn_mixer_args convolution_only() const {
        gdn_mixer_args only = args;
        only.z = only.norm_weight = gdn_tensor{};
        only.gate_activation = GDN_ACTIVATION_NONE;
        only.output_norm = 0;
        return only;
    }
    gdn_mixer_args norm_only() const {
        gdn_mixer_args only = args;
        for (gdn_tensor *tensor : {&only.conv_weight_q, &only.conv_weight_k, &only.conv_weight_v, &only.conv_initial_q,
                 &only.conv_initial_k, &only.conv_initial_v, &only.conv_final_q, &only.conv_final_k, &only.conv_final_v}) {
            *tensor = gdn_tensor{};
        }
        only.conv_activation = GDN_ACTIVATION_NONE;
        return only;
    }

    /// What the reference reads of one sequence and value head.
    gdn_reference::MixerOperands operands(int64_t n, int64_t hv, int64_t tokens) const {
        const Setup &setup = op.setup();
        gdn_reference::MixerOperands x;
        x.op = op.operands(n, hv, tokens);
        x.W = kWidth;
        const int64_t h = hv / (setup.heads / setup.query_heads());
        for (int i = 0; i < 3; i++) {
            const int64_t heads = i == 2 ? setup.heads : setup.query_heads(), channels = i == 2 ? setup.dv : setup.dk,
                          head = i == 2 ? hv : h;
            for (int64_t c = 0; c < channels; c++) {
                for (int64_t tap = 0; tap < kWidth; tap++) x.weight[i].push_back(element(weight[i], (tap * heads + head) * channels + c));
            }
            for (int64_t j = 0; j + 1 < kWidth; j++) {
                for (int64_t c = 0; c < channels; c++)
                    x.initial[i].push_back(element(initial[i], ((n * (kWidth - 1) + j) * heads + head) * channels + c));
            }
        }
        for (int64_t d = 0; d < setup.dv; d++) x.norm_weight.push_back(element(norm_weight, d));
        x.z.T = tokens;
        x.z.heads = 1;
        x.z.channels = setup.dv;
        for (int64_t t = 0; t < tokens; t++) {
            for (int64_t d = 0; d < setup.dv; d++)
                x.z.data.push_back(element(z, ((n * setup.tokens + t) * setup.heads + hv) * setup.dv + d));
        }
        return x;
    }

    Problem op;
    gdn_mixer_args args;
    Tensor weight[3], initial[3], final[3], z, norm_weight;
};

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
    json["width"] = kWidth;
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
