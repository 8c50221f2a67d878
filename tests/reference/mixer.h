// The mixer of gdn.h in double, made of its parts: short convolutions, the operator, gated norm.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gated_norm.h"
#include "operator.h"
#include "short_conv.h"

namespace gdn_reference {

struct MixerOperands {
    Operands op;
    std::int64_t W = 0;                      // 0: no convolution
    gdn_activation f = GDN_ACTIVATION_SILU;  // of the convolutions
    // of q, k, v
    std::vector<float> weight[3];   // [heads][channels][W]
    std::vector<float> bias[3];     // [heads][channels]; empty: 0
    std::vector<float> initial[3];  // [slots or N][W - 1][heads][channels]; empty: zeros

    GatedNorm norm;
    std::vector<float> norm_weight;  // empty: ones
    Array z;
};

struct MixerResult {
    Result op;                                      // o is y
    std::vector<std::vector<float>> conv_final[3];  // [N] of [W - 1][heads][channels]
};

inline MixerResult run_mixer(const MixerOperands &x) {
    MixerResult result;
    Operands op = x.op;
    const std::int64_t N = op.sequences(), old_tokens = x.W > 0 ? x.W - 1 : 0;
    Array *const arrays[3] = {&op.q, &op.k, &op.v};
    for (int i = 0; i < 3; i++) {
        Array &array = *arrays[i];
        const std::int64_t row = array.heads * array.channels;
        const Array input = array;
        result.conv_final[i].resize(static_cast<std::size_t>(N));
        for (std::int64_t n = 0; n < N; n++) {
            const std::int64_t first = op.cu_seqlens.empty() ? n * op.T : op.cu_seqlens[n], L = op.length(n);
            const std::int64_t slot = op.initial_slots.empty() ? n : op.initial_slots[n];
            std::vector<float> &final = result.conv_final[i][n];
            final.resize(static_cast<std::size_t>(old_tokens * row));
            for (std::int64_t c = 0; c < row; c++) {
                std::vector<double> old(static_cast<std::size_t>(old_tokens)), tokens, w = {1};
                for (std::int64_t j = 0; j < old_tokens && !x.initial[i].empty() && slot >= 0; j++)
                    old[j] = x.initial[i][(slot * old_tokens + j) * row + c];
                for (std::int64_t t = 0; t < L; t++) tokens.push_back(input.data[(first + t) * row + c]);
                if (x.W > 0) w.assign(x.weight[i].begin() + c * x.W, x.weight[i].begin() + (c + 1) * x.W);
                const std::vector<double> y = short_conv(tokens, old, w, x.bias[i].empty() ? 0.0 : x.bias[i][c], x.f);
                for (std::int64_t t = 0; t < L; t++) array.data[(first + t) * row + c] = static_cast<float>(y[t]);
                old.insert(old.end(), tokens.begin(), tokens.end());
                for (std::int64_t j = 0; j < old_tokens; j++)
                    final[j * row + c] = static_cast<float>(old[old.size() - static_cast<std::size_t>(old_tokens - j)]);
            }
        }
    }
    result.op = run(op);
    const std::int64_t V = op.V;
    const std::vector<double> weight =
        x.norm_weight.empty() ? std::vector<double>(V, 1.0) : std::vector<double>(x.norm_weight.begin(), x.norm_weight.end());
    for (std::size_t at = 0; at < result.op.o.size(); at += V) {
        const std::vector<double> o(result.op.o.begin() + at, result.op.o.begin() + at + V);
        std::vector<double> z;
        if (x.norm.gate) z.assign(x.z.data.begin() + at, x.z.data.begin() + at + V);
        const std::vector<double> y = gated_norm(x.norm, o, weight, z);
        std::copy(y.begin(), y.end(), result.op.o.begin() + at);
    }
    return result;
}

}  // namespace gdn_reference
