// Calling the kernels: descriptors and argument vectors built once per worker and call; per kernel call only addresses, strides and
// extents move.
#pragma once

#include <cstdint>

#include "halide_glue.h"
#include "plan.h"
#include "state.h"
#include "workspace.h"

namespace gdn {

/// Rows that the stage reads in one call: consecutive tokens of one head, or consecutive heads of one token.
struct RowGroup {
    const char *data[kSources];
    int32_t stride[kSources];  // elements from row to row
    const char *A_log, *dt_bias;
    int32_t A_log_stride, dt_bias_stride;
};

class Calls {
public:
    Calls(const Plan &plan, const Division &division, const Arena &arena, char *memory);
    Calls(const Calls &) = delete;
    Calls &operator=(const Calls &) = delete;

    /// Sources of n rows -> scratch rows first .. first + n.
    void stage(const RowGroup &group, int32_t first, int32_t n);
    /// Makes scratch rows n .. end tokens that change nothing: q = a = e = u = 0, alpha = 1, beta = 0.
    void pad(int32_t n, int32_t end);
    /// One chunk of scratch rows; o_rows apart by o_stride elements. `column` is where the slice begins in the u rows.
    void chunk(const KernelRow &row, State from, State to, int32_t column, float *o_rows, int32_t o_stride);
    /// As chunk, the state after each of the first n tokens going to `to` + token * to_token elements.
    void block(State from, State to, int32_t to_token, int32_t n, float *o_rows, int32_t o_stride);
    /// One token of `heads` heads in scratch rows first .. (first = 0 for more than one); strides between heads in elements.
    void step(bool v_first, int32_t first, int32_t heads, int32_t column, State from, int32_t from_head, State to, int32_t to_head,
        float *o_rows, int32_t o_stride);
    /// One token of one head, scratch row `row`, in one pass: applies `before`, leaves the token's write in `after` (which may be the same memory).
    void pending_step(int32_t row, State from, State to, const Pending &before, const Pending &after, float *o_row);
    /// Scratch rows of o -> n rows of `columns` channels of the caller's o at `to`, `stride` elements apart.
    void store(int32_t first, int32_t n, int32_t columns, char *to, int32_t stride);

    float *o_scratch() const { return o_; }
    uint64_t *slots() const { return slots_; }
    State pong() const { return {pong_, columns_}; }
    State home(int32_t i) const { return {homes_ + (int64_t)i * plan_.kp * plan_.vp, columns_}; }

    bool failed() const { return failed_ != nullptr; }
    const char *failed_kernel() const { return failed_; }
    const char *failed_text() const { return context_.error; }

private:
    void call(const KernelRow *row, void **argv);
    void move_rows(int32_t first, int32_t n);
    void map(int source, const RowGroup &group, int32_t n);
    void build_stage();
    void build_map();
    void build_chunk(const KernelRow &row);
    void build_step();
    void build_pending();
    void build_store();

    const Plan &plan_;
    const Division &division_;
    const int32_t columns_;  // of vp, in a slice
    KernelContext context_;
    void *context_pointer_ = &context_;
    const char *failed_ = nullptr;

    float *q_, *a_, *alpha_, *u_, *e_, *o_, *slice_u_, *pong_, *homes_;
    float *raw_[kSources];
    uint64_t *slots_;
    int32_t alpha_row_, e_row_;  // elements of a row
    // Kernels may count on 64-byte alignment of every row array; rows of one element in the middle of theirs go through here.
    alignas(64) float one_alpha_[kMaxRows];
    alignas(64) float one_e_[kMaxRows];

    enum { kIn = 8, kOut = 5 };  // of the stage: sources, A_log, dt_bias; q, a, alpha, u, e
    Buffer stage_in_[kIn];
    Buffer rows_[kOut];                         // scratch rows rows_first_ .. of the stage's outputs and the step's inputs
    int32_t rows_first_ = -1, rows_count_ = 0;  // where they point
    bool has_w_, has_logits_, has_maps_;  // of the stage: whether it reads w, and A_log and dt_bias; whether a source goes through a map
    float stage_scale_, gate_scale_, lower_bound_;
    void *stage_argv_[1 + 3 + kIn + kOut];

    Buffer map_in_[kSources], map_A_log_, map_dt_bias_, map_out_;
    float map_gate_scale_, map_pad_;
    int32_t map_valid_;
    void *map_argv_[1 + 4 + 3 + 1];

    const KernelRow *chunk_built_ = nullptr;  // whose descriptors chunk_ holds
    bool step_built_ = false, map_built_ = false;
    Buffer chunk_[9];  // q a alpha u e S0 next o S1
    void *chunk_argv_[1 + 9];
    Buffer step_[3];  // S0 o S1
    Buffer step_u_;   // of a slice
    void *step_argv_[1 + kOut + 3];
    bool pending_built_ = false;
    Buffer pending_[12];  // q a alpha u e alpha_0 a_0 r_0 S0 o r S1
    void *pending_argv_[1 + 12];
    Buffer store_[2];  // o y
    void *store_argv_[1 + 2];
};

}  // namespace gdn
