#include "calls.h"

#include <algorithm>
#include <cstring>

#include "constant_rows.h"

namespace gdn {

Calls::Calls(const Plan &plan, const Division &division, const Arena &arena, char *memory)
    : plan_(plan), division_(division), columns_(division.slice_columns) {
    const auto at = [memory](size_t offset) { return reinterpret_cast<float *>(memory + offset); };
    q_ = at(arena.q);
    a_ = at(arena.a);
    alpha_ = at(arena.alpha);
    u_ = at(arena.u);
    e_ = at(arena.e);
    o_ = at(arena.o);
    slice_u_ = at(arena.slice_u);
    pong_ = at(arena.pong);
    homes_ = at(arena.homes);
    slots_ = reinterpret_cast<uint64_t *>(memory + arena.slots);
    alpha_row_ = plan.scalar ? 1 : plan.kp;
    e_row_ = plan.own ? plan.kp : 1;
    context_.error[0] = 0;
    for (int i = 0; i < kSources; i++) {
        raw_[i] = at(arena.raw[i]);
    }
    build_stage();
    if (plan.store) {
        build_store();
    }
}

void Calls::call(const KernelRow *row, void **argv) {
    if (row->call(argv) && !failed_) {
        failed_ = row->symbol;
    }
}

void Calls::build_stage() {
    const KernelRow &row = *plan_.stage;
    const int32_t kp = plan_.kp, vp = plan_.vp;
    stage_scale_ = plan_.scale;
    gate_scale_ = plan_.gate_scale;
    lower_bound_ = plan_.lower_bound;
    void **argv = stage_argv_;
    *argv++ = &context_pointer_;
    *argv++ = &stage_scale_;
    *argv++ = &gate_scale_;
    *argv++ = &lower_bound_;
    has_w_ = row.variant == StageVariant::kGdn2 || row.variant == StageVariant::kFg2Plus;
    has_logits_ = row.form == Form::kLogits;
    has_maps_ = false;
    for (const KernelRow *map : plan_.map) {
        has_maps_ |= map != nullptr;
    }
    const auto take = [&argv](Buffer &buffer, Type type, int32_t width) {
        buffer.init(type, 2);
        buffer.dim(0, width, 1);
        buffer.host(zero_row());
        *argv++ = &buffer.b;
    };
    const int32_t g_width = plan_.row_width(kSourceG);
    take(stage_in_[kSourceQ], row.dtype, kp);
    take(stage_in_[kSourceK], row.dtype, kp);
    take(stage_in_[kSourceV], row.dtype, vp);
    take(stage_in_[kSourceG], has_logits_ ? row.dtype : Type::kF32, g_width);
    take(stage_in_[kSourceB], row.dtype, plan_.row_width(kSourceB));
    // What the kernel has no use for gets the descriptor of a tensor of the same type.
    if (has_w_) {
        take(stage_in_[kSourceW], row.dtype, vp);
    } else {
        *argv++ = &stage_in_[kSourceV].b;
    }
    if (has_logits_) {
        take(stage_in_[kSources], Type::kF32, 1);
        take(stage_in_[kSources + 1], Type::kF32, g_width);
    } else {
        *argv++ = &stage_in_[kSourceG].b;
        *argv++ = &stage_in_[kSourceG].b;
    }
    const int32_t width[kOut] = {kp, kp, alpha_row_, vp, e_row_};
    for (int i = 0; i < kOut; i++) {
        rows_[i].init(Type::kF32, 2);
        rows_[i].dim(0, width[i], 1);
        rows_[i].dim(1, 0, width[i]);
        *argv++ = &rows_[i].b;
    }
}

/// Lets rows_ be scratch rows first .. first + n.
void Calls::move_rows(int32_t first, int32_t n) {
    if (first == rows_first_ && n == rows_count_) {
        return;
    }
    rows_first_ = first;
    rows_count_ = n;
    const int64_t at = first;
    float *const data[kOut] = {q_ + at * plan_.kp, a_ + at * plan_.kp, first && alpha_row_ == 1 ? one_alpha_ : alpha_ + at * alpha_row_,
        u_ + at * plan_.vp, first && e_row_ == 1 ? one_e_ : e_ + at * e_row_};
    for (int i = 0; i < kOut; i++) {
        rows_[i].host(data[i]);
        rows_[i].d[1].extent = n;
    }
}

void Calls::build_map() {
    map_built_ = true;
    lower_bound_ = plan_.lower_bound;
    void **argv = map_argv_;
    *argv++ = &context_pointer_;
    *argv++ = &map_gate_scale_;
    *argv++ = &lower_bound_;
    *argv++ = &map_pad_;
    *argv++ = &map_valid_;
    *argv++ = nullptr;  // in: one descriptor per source, since their dtypes differ
    *argv++ = &map_A_log_.b;
    *argv++ = &map_dt_bias_.b;
    *argv++ = &map_out_.b;
    for (int i = 0; i < kSources; i++) {
        map_in_[i].init(plan_.source[i].type, 2);
        map_in_[i].dim(0, plan_.source[i].width, 1);
    }
    map_A_log_.init(Type::kF32, 2);
    map_A_log_.dim(0, 1, 1);
    map_dt_bias_.init(Type::kF32, 2);
    map_out_.init(Type::kF32, 2);
}

void Calls::build_chunk(const KernelRow &row) {
    chunk_built_ = &row;
    const int32_t kp = plan_.kp, panel = row.panel, panels = columns_ / panel, c = row.chunk;
    void **argv = chunk_argv_;
    *argv++ = &context_pointer_;
    for (Buffer &b : chunk_) {
        *argv++ = &b.b;
    }
    const auto rows = [c](Buffer &b, const float *data, int32_t width) {
        b.init(Type::kF32, 2);
        b.dim(0, width, 1);
        b.dim(1, c, width);
        b.host(data);
    };
    rows(chunk_[0], q_, kp);
    rows(chunk_[1], a_, kp);
    rows(chunk_[2], alpha_, alpha_row_);
    rows(chunk_[4], e_, e_row_);
    for (const int i : {3, 5, 7, 8}) {
        chunk_[i].init(Type::kF32, 3);
        chunk_[i].dim(0, panel, 1);
    }
    chunk_[3].dim(1, panels, panel);
    chunk_[3].dim(2, c, columns_);
    chunk_[3].host(columns_ == plan_.vp ? u_ : slice_u_);
    chunk_[5].dim(2, panels, panel);
    chunk_[8].dim(2, panels, panel);
    chunk_[7].dim(1, panels, panel);
    chunk_[6].init_u64(1);
    chunk_[6].dim(0, std::max(1, fetch_slots(row, kp, columns_)), 1);
    chunk_[6].host(slots_);
}

void Calls::build_step() {
    step_built_ = true;
    void **argv = step_argv_;
    *argv++ = &context_pointer_;
    for (Buffer &b : rows_) {
        *argv++ = &b.b;
    }
    for (Buffer &b : step_) {
        *argv++ = &b.b;
    }
    if (columns_ != plan_.vp) {  // a slice's u rows are read one at a time
        step_u_.init(Type::kF32, 2);
        step_u_.dim(0, columns_, 1);
        step_u_.dim(1, 1, columns_);
        step_argv_[1 + 3] = &step_u_.b;
    }
    step_[0].init(Type::kF32, 3);
    step_[1].init(Type::kF32, 2);
    step_[1].dim(0, columns_, 1);
    step_[2].init(Type::kF32, 3);
}

void Calls::build_store() {
    store_argv_[0] = &context_pointer_;
    store_argv_[1] = &store_[0].b;
    store_argv_[2] = &store_[1].b;
    store_[0].init(Type::kF32, 2);
    store_[1].init(plan_.o.type, 2);
}

void Calls::map(int source, const RowGroup &group, int32_t n) {
    if (!map_built_) {
        build_map();
    }
    const KernelRow *row = plan_.map[source];
    const TokenView &view = plan_.source[source];
    const int32_t width = plan_.row_width(source);
    // allow_neg_eigval doubles beta and b, never w.
    map_gate_scale_ = source == kSourceB ? plan_.gate_scale : 1.0f;
    map_pad_ = plan_.map_pad[source];
    map_valid_ = view.width;
    map_in_[source].host(group.data[source]);
    map_in_[source].dim(1, n, group.stride[source]);
    map_A_log_.host(group.A_log);
    map_A_log_.dim(1, n, group.A_log_stride);
    map_dt_bias_.host(group.dt_bias);
    map_dt_bias_.dim(0, view.width, 1);
    map_dt_bias_.dim(1, n, group.dt_bias_stride);
    map_out_.host(raw_[source]);
    map_out_.dim(0, width, 1);
    map_out_.dim(1, n, width);
    map_argv_[5] = &map_in_[source].b;
    call(row, map_argv_);
}

void Calls::stage(const RowGroup &group, int32_t first, int32_t n) {
    const int sources = has_w_ ? kSources : kSourceW;
    for (int i = 0; i < sources; i++) {
        Buffer &in = stage_in_[i];
        if (has_maps_ && plan_.map[i]) {
            map(i, group, n);
            in.host(raw_[i]);
            in.dim(1, n, in.d[0].extent);
        } else {
            in.host(group.data[i]);
            in.dim(1, n, group.stride[i]);
        }
    }
    if (has_logits_) {
        stage_in_[6].host(group.A_log);
        stage_in_[6].dim(1, n, group.A_log_stride);
        stage_in_[7].host(group.dt_bias);
        stage_in_[7].dim(1, n, group.dt_bias_stride);
    }
    move_rows(first, n);
    call(plan_.stage, stage_argv_);
    if (first && alpha_row_ == 1) {
        memcpy(alpha_ + first, one_alpha_, (size_t)n * sizeof(float));
    }
    if (first && e_row_ == 1) {
        memcpy(e_ + first, one_e_, (size_t)n * sizeof(float));
    }
    if (!plan_.source[kSourceG].data) {
        std::fill_n(alpha_ + (int64_t)first * alpha_row_, (int64_t)n * alpha_row_, 1.0f);
    }
    if (plan_.gla) {  // nothing is erased and v is written as it is
        memset(e_ + (int64_t)first * e_row_, 0, (size_t)n * (size_t)e_row_ * sizeof(float));
        float *u = u_ + (int64_t)first * plan_.vp;
        const Buffer &v = stage_in_[kSourceV];
        if (plan_.gla_copy) {
            if (!map_built_) {
                build_map();
            }
            map_pad_ = 0.0f;
            map_valid_ = plan_.source[kSourceV].width;
            map_in_[kSourceV].host(v.b.host);
            map_in_[kSourceV].dim(1, n, v.d[1].stride);
            map_A_log_.host(zero_row());
            map_A_log_.dim(1, n, 0);
            map_dt_bias_.host(zero_row());
            map_dt_bias_.dim(0, map_valid_, 1);
            map_dt_bias_.dim(1, n, 0);
            map_out_.host(u);
            map_out_.dim(0, plan_.vp, 1);
            map_out_.dim(1, n, plan_.vp);
            map_argv_[5] = &map_in_[kSourceV].b;
            call(plan_.gla_copy, map_argv_);
        } else {
            for (int32_t i = 0; i < n; i++) {
                memcpy(u + (int64_t)i * plan_.vp, v.b.host + (int64_t)i * v.d[1].stride * 4, (size_t)plan_.vp * sizeof(float));
            }
        }
    }
}

void Calls::pad(int32_t n, int32_t end) {
    const int64_t left = end - n;
    const auto zero = [n, left](float *rows, int64_t width) { memset(rows + n * width, 0, (size_t)(left * width) * sizeof(float)); };
    zero(q_, plan_.kp);
    zero(a_, plan_.kp);
    zero(u_, plan_.vp);
    zero(e_, e_row_);
    std::fill_n(alpha_ + (int64_t)n * alpha_row_, left * alpha_row_, 1.0f);
}

void Calls::chunk(const KernelRow &row, State from, State to, int32_t column, float *o_rows, int32_t o_stride) {
    if (chunk_built_ != &row) {
        build_chunk(row);
    }
    if (columns_ != plan_.vp) {
        for (int32_t i = 0; i < row.chunk; i++) {
            memcpy(slice_u_ + (int64_t)i * columns_, u_ + (int64_t)i * plan_.vp + column, (size_t)columns_ * sizeof(float));
        }
    }
    chunk_[5].host(from.data);
    chunk_[5].dim(1, plan_.kp, from.row);
    chunk_[8].host(to.data);
    chunk_[8].dim(1, plan_.kp, to.row);
    chunk_[7].host(o_rows);
    chunk_[7].dim(2, row.chunk, o_stride);
    call(&row, chunk_argv_);
}

void Calls::block(State from, State to, int32_t to_token, int32_t n, float *o_rows, int32_t o_stride) {
    if (chunk_built_ != plan_.block) {
        build_chunk(*plan_.block);
        chunk_[8].init(Type::kF32, 4);
        chunk_[8].dim(0, plan_.block->panel, 1);
        chunk_[8].dim(2, plan_.vp / plan_.block->panel, plan_.block->panel);
    }
    chunk_[5].host(from.data);
    chunk_[5].dim(1, plan_.kp, from.row);
    chunk_[8].host(to.data);
    chunk_[8].dim(1, plan_.kp, to.row);
    chunk_[8].dim(3, n, to_token);
    chunk_[7].host(o_rows);
    chunk_[7].dim(2, plan_.block->chunk, o_stride);
    call(plan_.block, chunk_argv_);
}

void Calls::step(bool v_first, int32_t first, int32_t heads, int32_t column, State from, int32_t from_head, State to, int32_t to_head,
    float *o_rows, int32_t o_stride) {
    if (!step_built_) {
        build_step();
    }
    const int32_t kp = plan_.kp;
    move_rows(first, heads);
    if (first && alpha_row_ == 1) {
        one_alpha_[0] = alpha_[first];
    }
    if (first && e_row_ == 1) {
        one_e_[0] = e_[first];
    }
    if (columns_ != plan_.vp) {
        step_u_.host(u_ + (int64_t)first * plan_.vp + column);
    }
    const auto state = [&](Buffer &b, State s, int32_t head) {
        b.host(s.data);
        b.dim(0, v_first ? kp : columns_, 1);
        b.dim(1, v_first ? columns_ : kp, s.row);
        b.dim(2, heads, head);
    };
    state(step_[0], from, from_head);
    state(step_[2], to, to_head);
    step_[1].host(o_rows);
    step_[1].dim(1, heads, o_stride);
    call(v_first ? division_.v_first_step : division_.step, step_argv_);
}

void Calls::build_pending() {
    pending_built_ = true;
    const int32_t kp = plan_.kp, panel = plan_.pending->panel, panels = plan_.vp / panel;
    void **argv = pending_argv_;
    *argv++ = &context_pointer_;
    for (Buffer &b : pending_) {
        *argv++ = &b.b;
    }
    const int32_t keys[5] = {kp, kp, alpha_row_, 0, e_row_};
    for (const int i : {0, 1, 2, 4, 5, 6}) {
        pending_[i].init(Type::kF32, 1);
        pending_[i].dim(0, i < 5 ? keys[i] : kp, 1);
    }
    for (const int i : {3, 7, 9, 10}) {
        pending_[i].init(Type::kF32, 2);
        pending_[i].dim(0, panel, 1);
        pending_[i].dim(1, panels, panel);
    }
    for (const int i : {8, 11}) {
        pending_[i].init(Type::kF32, 3);
        pending_[i].dim(0, panel, 1);
        pending_[i].dim(2, panels, panel);
    }
}

void Calls::pending_step(int32_t row, State from, State to, const Pending &before, const Pending &after, float *o_row) {
    if (!pending_built_) {
        build_pending();
    }
    const int32_t k = plan_.kp;
    const float *const a = a_ + (int64_t)row * k, *const alpha = alpha_ + (int64_t)row * alpha_row_;
    const void *const hosts[12] = {q_ + (int64_t)row * k, a, alpha, u_ + (int64_t)row * plan_.vp, e_ + (int64_t)row * e_row_, before.alpha,
        before.a, before.r, from.data, o_row, after.r, to.data};
    for (int i = 0; i < 12; i++) {
        pending_[i].host(hosts[i]);
    }
    pending_[8].dim(1, k, from.row);
    pending_[11].dim(1, k, to.row);
    call(plan_.pending, pending_argv_);
    if (alpha_row_ == 1) {
        std::fill_n(after.alpha, k, *alpha);
    } else {
        memcpy(after.alpha, alpha, (size_t)k * sizeof(float));
    }
    memcpy(after.a, a, (size_t)k * sizeof(float));
}

void Calls::store(int32_t first, int32_t n, int32_t columns, char *to, int32_t stride) {
    const float *rows = o_ + (int64_t)first * columns_;
    if (!plan_.store) {
        for (int32_t i = 0; i < n; i++) {
            memcpy(to + (int64_t)i * stride * 4, rows + (int64_t)i * columns_, (size_t)columns * sizeof(float));
        }
        return;
    }
    store_[0].host(rows);
    store_[0].dim(0, columns, 1);
    store_[0].dim(1, n, columns_);
    store_[1].host(to);
    store_[1].dim(0, columns, 1);
    store_[1].dim(1, n, stride);
    call(plan_.store, store_argv_);
}

}  // namespace gdn
