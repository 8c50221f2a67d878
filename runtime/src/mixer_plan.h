// The mixer's own part of a checked call: what stands beside the operator's Plan.
#pragma once

#include "plan.h"

namespace gdn {

constexpr int32_t kMaxTaps = 8;

/// conv_initial, conv_final of q, k or v: [slot, W - 1, head, channel]. Strides in bytes.
struct ConvState {
    char *data;  // NULL: absent
    int64_t slot, row, head;
};

/// The convolution of q, k or v.
struct Convolution {
    const float *weight;  // (channel, tap); channels are neighbours
    int64_t weight_head;  // elements
    int32_t tap;          // elements from tap to tap
    const float *bias;    // (channel); NULL: absent
    int64_t bias_head;    // elements
    ConvState initial, final;
    int32_t heads, channels;
    bool neighbours;  // heads follow each other like channels in weight and bias: one kernel call takes many heads

    /// Weights in another order than kernels read: brought to workspace, [W, heads x channels], before the call's tasks begin. Else NULL.
    const gdn_tensor *transposed;
    size_t transposed_at;  // bytes from the workspace's begin
};

struct MixerPlan {
    int32_t width;   // W; 1 without convolution
    bool convolves;  // q, k and v go through a convolution or an activation
    bool silu;
    Convolution conv[3];  // q, k, v, as in Source
    TokenView raw[3];     // the caller's q, k, v
    TokenView y;          // the caller's o

    TokenView z;
    int32_t gate;  // as the kernel counts: 0 none, 1 silu, 2 sigmoid
    bool norm;
    float eps;
    const float *weight;  // NULL: ones

    const KernelRow *conv_kernel;  // NULL where nothing is convolved
    const KernelRow *step_kernel;  // convolves one token and moves the state on; NULL where conv_kernel and copies do
    const KernelRow *norm_kernel;
    const KernelRow *z_copy;  // brings z to float32 where no norm kernel reads its dtype beside y's

    size_t weight_bytes;  // of the transposed weights, at the workspace's begin
};

/// Key heads whose one token is convolved and stepped together in a decode step.
inline int32_t token_keys(const Plan &plan) {
    const int32_t keys = kMaxRows / plan.heads_per_key;
    return keys < 1 ? 1 : keys > plan.h ? plan.h : keys;
}

/// make_plan() for a mixer's call.
gdn_status make_mixer_plan(const Dispatch &dispatch, const gdn_mixer_args *args, Entry entry, Plan *plan, MixerPlan *mixer);

}  // namespace gdn
