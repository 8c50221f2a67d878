// Kernel calls of the mixer: the convolution's rows before the operator's stage, the gated norm behind its cores, the convolution's states.
#pragma once

#include "calls.h"
#include "mixer_plan.h"

namespace gdn {

/// Offsets in bytes from a worker's memory of what the mixer keeps beside Arena's arrays. Rows are float32.
struct MixerArena {
    size_t q, k, v;  // convolved rows: of some tokens of one head, or of one token of token_keys() heads
    size_t o;        // of one token of token_keys() heads
    size_t edge;     // inputs in q's dtype: W - 1 old tokens and those behind them
    size_t z;        // rows of the gate that go through a map
    int32_t kept;    // rows of q and k
};

/// Appends the mixer's arrays to `arena`.
MixerArena mixer_arena(const Plan &plan, const MixerPlan &mixer, Arena *arena);

/// Brings weights that kernels cannot read as they lie to the workspace's begin, and lets `mixer` point there.
void transpose_weights(MixerPlan *mixer, char *workspace);

class MixerCalls {
public:
    MixerCalls(const Plan &plan, const MixerPlan &mixer, const MixerArena &arena, char *memory);
    MixerCalls(const MixerCalls &) = delete;
    MixerCalls &operator=(const MixerCalls &) = delete;

    /// What follows is about this sequence.
    void enter(int64_t sequence);

    /// Rows of tokens t .. t + n (n <= kMaxRows) of one value head through the convolutions; `group` then reads them. Rows of q and k are
    /// kept for the other value heads of their key head.
    void convolve(int32_t hv, int64_t t, int32_t n, RowGroup *group);
    void next_key_head() { kept_to_ = kept_from_ = -1; }
    /// Rows of o, `o_row` elements apart, of tokens t .. t + n through the gated norm to the caller's rows at `y`.
    void norm(int32_t hv, int64_t t, int32_t n, const float *o, int32_t o_row, char *y);

    /// The sequence's one token: `heads` heads of q, k or v from `first` on to float32 rows of K or V.
    void token(int source, int32_t first, int32_t heads, float *to);
    /// And value heads of o from rows of V to the caller's.
    void token_norm(int32_t first, int32_t heads, const float *o);
    float *token_rows(int source) const { return source == kSourceQ ? q_ : source == kSourceK ? k_ : v_; }
    float *token_o() const { return o_; }

    /// The last W - 1 inputs of these heads into the sequence's slot.
    void finish(int source, int32_t first, int32_t heads);

    /// Bytes of a row of z; 0: none.
    int64_t z_bytes() const { return z_bytes_; }
    const char *z_row(int32_t hv, int64_t t) const { return z_ + t * mixer_.z.token + hv * mixer_.z.head; }

    bool failed() const { return failed_ != nullptr; }
    const char *failed_kernel() const { return failed_; }
    const char *failed_text() const { return context_.error; }

private:
    void call(const KernelRow *row, void **argv);
    const char *input(int source, int32_t head, int64_t t) const;
    void rows(int source, int32_t head, int64_t t, int32_t n, float *to, int32_t to_row);
    void run_convolution(const char *x, int32_t x_row, const float *weight, int32_t tap, const float *bias, int32_t channels, int32_t n,
        float *y, int32_t y_row);
    void run_norm(const float *o, int32_t o_row, const char *z, int32_t z_row, char *y, int32_t y_row, int32_t n);

    void step(int source, int32_t first, int32_t heads, float *to);

    const Plan &plan_;
    const MixerPlan &mixer_;
    const int32_t old_, element_;  // W - 1; bytes of an element of q, k, v
    KernelContext context_;
    void *context_pointer_ = &context_;
    const char *failed_ = nullptr;

    float *q_, *k_, *v_, *o_, *z_rows_;
    char *edge_;
    const int32_t kept_rows_;
    int64_t kept_from_ = -1, kept_to_ = -1;  // tokens whose q and k rows are kept

    // of the sequence
    bool moved_ = false;  // its convolutions' states are final already
    int64_t initial_slot_ = -1, final_slot_ = -1, length_ = 0;
    const char *raw_[3] = {};  // its first token
    const char *z_ = nullptr;
    char *y_ = nullptr;
    int64_t z_bytes_;

    int32_t activation_, norm_, gate_;
    float eps_;
    Buffer conv_[4];  // x w bias y
    void *conv_argv_[1 + 1 + 4];
    Buffer step_[6];  // x h0 w bias y h1
    void *step_argv_[1 + 1 + 6];
    Buffer norm_buffer_[4];  // o z weight y
    void *norm_argv_[1 + 3 + 4];
};

}  // namespace gdn
