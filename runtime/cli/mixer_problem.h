// An operator's call with convolutions, gated norm and their states around it: what the benchmarks of mixer and layer time.
#pragma once
#include <cstdint>

#include "operator.h"
#include "tests/reference/mixer.h"
#include "tests/support/dtype.h"

namespace gdn::cli {

inline constexpr int64_t kConvWidth = 4;

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
            weight[i] = Tensor(GDN_DTYPE_F32, {kConvWidth, heads, channels}, huge_pages);
            fill(weight[i], -0.5f, 0.5f);
            *weights[i] = weight[i].view;
            const int order[3] = {1, 2, 0};
            for (int d = 0; d < 3; d++) {
                weights[i]->shape[d] = weight[i].view.shape[order[d]];
                weights[i]->strides[d] = weight[i].view.strides[order[d]];
            }
            initial[i] = Tensor(dtype, {B, kConvWidth - 1, heads, channels}, huge_pages);
            fill(initial[i], -1, 1);
            *initials[i] = initial[i].view;
            if (!step) final[i] = Tensor(dtype, {B, kConvWidth - 1, heads, channels}, huge_pages);
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
        x.W = kConvWidth;
        const int64_t h = hv / (setup.heads / setup.query_heads());
        for (int i = 0; i < 3; i++) {
            const int64_t heads = i == 2 ? setup.heads : setup.query_heads(), channels = i == 2 ? setup.dv : setup.dk,
                          head = i == 2 ? hv : h;
            for (int64_t c = 0; c < channels; c++) {
                for (int64_t tap = 0; tap < kConvWidth; tap++)
                    x.weight[i].push_back(element(weight[i], (tap * heads + head) * channels + c));
            }
            for (int64_t j = 0; j + 1 < kConvWidth; j++) {
                for (int64_t c = 0; c < channels; c++)
                    x.initial[i].push_back(element(initial[i], ((n * (kConvWidth - 1) + j) * heads + head) * channels + c));
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

}  // namespace gdn::cli
