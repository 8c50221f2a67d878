#include "mixer_calls.h"

#include <algorithm>
#include <cstring>

#include "constant_rows.h"

namespace gdn {

namespace {

constexpr int32_t kMostConvolvedStride = (INT32_MAX - 2 * kMaxChannels) / (kMaxRows + kMaxTaps);
constexpr int64_t kMostHeadStride = INT32_MAX / (2 * kMaxRows);  // elements, that 32 bits can follow over a call's heads

/// The same row of several heads, `bytes` of each. from NULL: zeros.
void copy_heads(char *to, int64_t to_head, const char *from, int64_t from_head, int32_t heads, size_t bytes) {
    if (to == from && to_head == from_head) {
        return;
    }
    if (to_head == (int64_t)bytes && (!from || from_head == (int64_t)bytes)) {
        bytes *= (size_t)heads;
        heads = 1;
    }
    for (int32_t i = 0; i < heads; i++) {
        if (from) {
            memcpy(to + i * to_head, from + i * from_head, bytes);
        } else {
            memset(to + i * to_head, 0, bytes);
        }
    }
}

}  // namespace

MixerArena mixer_arena(const Plan &plan, const MixerPlan &mixer, Arena *arena) {
    MixerArena m;
    const auto take = [arena](size_t bytes) {
        const size_t from = arena->bytes;
        arena->bytes += (bytes + 63) & ~(size_t)63;
        return from;
    };
    const size_t kp = (size_t)plan.kp, vp = (size_t)plan.vp, keys = (size_t)token_keys(plan), values = keys * (size_t)plan.heads_per_key;
    // With one value head to a key head nobody comes back for rows: they stay in L1.
    m.kept = plan.heads_per_key > 1 ? std::max(time_block(plan, 0), time_block(plan, 1)) + 2 * kMaxRows : kMaxRows;
    const size_t kept = (size_t)m.kept, old = (size_t)mixer.width - 1;
    const bool rows = mixer.convolves;
    m.q = take(rows ? 4 * kp * std::max(kept, keys) : 0);
    m.k = take(rows ? 4 * kp * std::max(kept, keys) : 0);
    m.v = take(rows ? 4 * vp * std::max((size_t)kMaxRows, values) : 0);
    m.o = take(4 * vp * values);
    const size_t heads = std::min((size_t)kMaxRows, values);
    m.edge = take(rows ? (size_t)plan.raw_element * std::max(kp, vp) * std::max(old + kMaxRows, (old + 1) * heads) : 0);
    m.z = take(mixer.z_copy ? 4 * vp * kMaxRows : 0);
    return m;
}

void transpose_weights(MixerPlan *mixer, char *workspace) {
    for (Convolution &c : mixer->conv) {
        if (!c.transposed) {
            continue;
        }
        const gdn_tensor &t = *c.transposed;
        const float *from = static_cast<const float *>(t.data);
        float *to = reinterpret_cast<float *>(workspace + c.transposed_at);
        c.weight = to;
        for (int32_t tap = 0; tap < mixer->width; tap++) {
            for (int64_t h = 0; h < c.heads; h++) {
                const float *head = from + tap * t.strides[2] + (c.heads > 1 ? h * t.strides[0] : 0);
                for (int64_t d = 0; d < c.channels; d++) {
                    *to++ = head[c.channels > 1 ? d * t.strides[1] : 0];
                }
            }
        }
    }
}

MixerCalls::MixerCalls(const Plan &plan, const MixerPlan &mixer, const MixerArena &arena, char *memory)
    : plan_(plan), mixer_(mixer), old_(mixer.width - 1), element_(plan.raw_element), kept_rows_(arena.kept) {
    const auto at = [memory](size_t offset) { return reinterpret_cast<float *>(memory + offset); };
    q_ = at(arena.q);
    k_ = at(arena.k);
    v_ = at(arena.v);
    o_ = at(arena.o);
    z_rows_ = at(arena.z);
    edge_ = memory + arena.edge;
    context_.error[0] = 0;
    z_bytes_ = mixer.z.data ? (int64_t)plan.v * (mixer.z.type == Type::kF32 ? 4 : 2) : 0;

    activation_ = mixer.silu ? 1 : 0;
    void **argv = conv_argv_;
    *argv++ = &context_pointer_;
    *argv++ = &activation_;
    if (mixer.convolves) {
        conv_[0].init(mixer.raw[0].type, 2);
        conv_[1].init(Type::kF32, 2);
        conv_[2].init(Type::kF32, 1);
        conv_[3].init(Type::kF32, 2);
        for (Buffer &b : conv_) {
            *argv++ = &b.b;
        }
    }

    if (mixer.step_kernel) {
        argv = step_argv_;
        *argv++ = &context_pointer_;
        *argv++ = &activation_;
        for (int i = 0; i < 6; i++) {
            const bool raw = i == 0 || i == 1 || i == 5, rows = i == 1 || i == 2 || i == 5;
            step_[i].init(raw ? mixer.raw[0].type : Type::kF32, rows ? 2 : 1);
            if (rows) {
                step_[i].dim(1, i == 2 ? old_ + 1 : old_, 0);
            }
            *argv++ = &step_[i].b;
        }
    }

    norm_ = mixer.norm ? 1 : 0;
    gate_ = mixer.gate;
    eps_ = mixer.eps;
    argv = norm_argv_;
    *argv++ = &context_pointer_;
    *argv++ = &eps_;
    *argv++ = &norm_;
    *argv++ = &gate_;
    norm_buffer_[0].init(Type::kF32, 2);
    norm_buffer_[1].init(mixer.norm_kernel->z_dtype, 2);
    norm_buffer_[2].init(Type::kF32, 1);
    norm_buffer_[3].init(mixer.norm_kernel->dtype, 2);
    for (Buffer &b : norm_buffer_) {
        b.dim(0, plan.v, 1);
        *argv++ = &b.b;
    }
    norm_buffer_[2].host(mixer.weight ? mixer.weight : kConstantRows.ones);
}

void MixerCalls::call(const KernelRow *row, void **argv) {
    if (row->call(argv) && !failed_) {
        failed_ = row->symbol;
    }
}

void MixerCalls::enter(int64_t sequence) {
    next_key_head();
    moved_ = false;
    const int64_t begin = plan_.sequence_begin(sequence);
    length_ = plan_.sequence_length(sequence);
    initial_slot_ = plan_.initial_slots.data ? plan_.initial_slots[sequence] : sequence;
    final_slot_ = plan_.final_slots.data ? plan_.final_slots[sequence] : sequence;
    for (int i = 0; i < 3; i++) {
        raw_[i] = mixer_.raw[i].data + sequence * mixer_.raw[i].sequence + begin * mixer_.raw[i].token;
    }
    z_ = mixer_.z.data + sequence * mixer_.z.sequence + begin * mixer_.z.token;
    y_ = const_cast<char *>(mixer_.y.data) + sequence * mixer_.y.sequence + begin * mixer_.y.token;
}

/// Token t of a head's input; before the first token the old ones, or NULL for zeros.
const char *MixerCalls::input(int source, int32_t head, int64_t t) const {
    if (t >= 0) {
        return raw_[source] + t * mixer_.raw[source].token + head * mixer_.raw[source].head;
    }
    const ConvState &state = mixer_.conv[source].initial;
    return state.data && initial_slot_ >= 0 ? state.data + initial_slot_ * state.slot + (t + old_) * state.row + head * state.head
                                            : nullptr;
}

void MixerCalls::run_convolution(const char *x, int32_t x_row, const float *weight, int32_t tap, const float *bias, int32_t channels,
    int32_t n, float *y, int32_t y_row) {
    conv_[0].host(x);
    conv_[0].dim(0, channels, 1);
    conv_[0].dim(1, n + old_, x_row);
    conv_[1].host(weight);
    conv_[1].dim(0, channels, 1);
    conv_[1].dim(1, old_ + 1, tap);
    conv_[2].host(bias ? bias : kConstantRows.zeros);
    conv_[2].dim(0, channels, 1);
    conv_[3].host(y);
    conv_[3].dim(0, channels, 1);
    conv_[3].dim(1, n, y_row);
    call(mixer_.conv_kernel, conv_argv_);
}

/// Tokens t .. t + n of one head. Where they need old tokens, those and the new ones are put in a row first.
void MixerCalls::rows(int source, int32_t head, int64_t t, int32_t n, float *to, int32_t to_row) {
    const Convolution &c = mixer_.conv[source];
    const char *x = nullptr;
    int32_t x_row = mixer_.raw[source].token_elements;
    if (t >= old_ && x_row <= kMostConvolvedStride) {
        x = input(source, head, t - old_);
    } else {
        x = edge_;
        x_row = c.channels;
        const size_t bytes = (size_t)c.channels * (size_t)element_;
        for (int32_t i = 0; i < n + old_; i++) {
            copy_heads(edge_ + (size_t)i * bytes, 0, input(source, head, t - old_ + i), 0, 1, bytes);
        }
    }
    run_convolution(
        x, x_row, c.weight + head * c.weight_head, c.tap, c.bias ? c.bias + head * c.bias_head : nullptr, c.channels, n, to, to_row);
}

void MixerCalls::convolve(int32_t hv, int64_t t, int32_t n, RowGroup *group) {
    if (!mixer_.convolves) {
        return;
    }
    const int32_t kp = plan_.kp, vp = plan_.vp;
    int64_t at = (t - kept_from_) * kp;
    if (kept_from_ < 0 || t < kept_from_ || t + n > kept_to_) {
        if (kept_from_ < 0 || t != kept_to_ || t + n - kept_from_ > kept_rows_) {
            kept_from_ = t;
        }
        kept_to_ = t + n;
        at = (t - kept_from_) * kp;
        const int32_t h = plan_.head_of(hv, false);
        rows(kSourceQ, h, t, n, q_ + at, kp);
        rows(kSourceK, h, t, n, k_ + at, kp);
    }
    rows(kSourceV, hv, t, n, v_, vp);
    group->data[kSourceQ] = reinterpret_cast<const char *>(q_ + at);
    group->data[kSourceK] = reinterpret_cast<const char *>(k_ + at);
    group->data[kSourceV] = reinterpret_cast<const char *>(v_);
    group->stride[kSourceQ] = group->stride[kSourceK] = kp;
    group->stride[kSourceV] = vp;
}

/// One token of some heads, whose old rows move on in the same sweep.
void MixerCalls::step(int source, int32_t first, int32_t heads, float *to) {
    moved_ = true;
    const Convolution &c = mixer_.conv[source];
    const int64_t bytes = (int64_t)c.channels * element_;
    for (int32_t from = first; from < first + heads; from += kMaxRows) {
        const int32_t n = std::min(kMaxRows, first + heads - from);
        const char *old = input(source, from, -old_);
        const ConvState &final = c.final;
        const bool together =
            c.neighbours && mixer_.raw[source].head == bytes && (!old || c.initial.head == bytes) && (!final.data || final.head == bytes);
        const int32_t group = together ? n : 1;
        for (int32_t i = 0; i < n; i += group) {
            const int32_t head = from + i;
            step_[0].host(input(source, head, 0));
            step_[1].host(old ? input(source, head, -old_) : zero_row());
            step_[1].d[1].stride = old ? (int32_t)(c.initial.row / element_) : 0;
            step_[2].host(c.weight + head * c.weight_head);
            step_[2].d[1].stride = c.tap;
            step_[3].host(c.bias ? c.bias + head * c.bias_head : kConstantRows.zeros);
            step_[4].host(to);
            step_[5].host(final.data ? final.data + final_slot_ * final.slot + head * final.head : edge_);
            step_[5].d[1].stride = final.data ? (int32_t)(final.row / element_) : group * c.channels;
            for (Buffer &b : step_) {
                b.dim(0, group * c.channels, 1);
            }
            call(mixer_.step_kernel, step_argv_);
            to += group * c.channels;
        }
    }
}

void MixerCalls::token(int source, int32_t first, int32_t heads, float *to) {
    if (mixer_.step_kernel) {
        step(source, first, heads, to);
        return;
    }
    const Convolution &c = mixer_.conv[source];
    const size_t bytes = (size_t)c.channels * (size_t)element_;
    for (int32_t from = first; from < first + heads; from += kMaxRows) {
        const int32_t n = std::min(kMaxRows, first + heads - from), row = n * c.channels;
        for (int32_t i = 0; i <= old_; i++) {
            copy_heads(edge_ + (size_t)(i * n) * bytes, (int64_t)bytes, input(source, from, i - old_),
                i < old_ ? c.initial.head : mixer_.raw[source].head, n, bytes);
        }
        const int32_t together = c.neighbours ? n : 1;
        for (int32_t i = 0; i < n; i += together) {
            run_convolution(edge_ + (size_t)i * bytes, row, c.weight + (from + i) * c.weight_head, c.tap,
                c.bias ? c.bias + (from + i) * c.bias_head : nullptr, together * c.channels, 1, to, row);
            to += together * c.channels;
        }
    }
}

void MixerCalls::finish(int source, int32_t first, int32_t heads) {
    const ConvState &state = mixer_.conv[source].final;
    if (!state.data || moved_) {
        return;
    }
    const size_t bytes = (size_t)mixer_.conv[source].channels * (size_t)element_;
    char *to = state.data + final_slot_ * state.slot + first * state.head;
    // Upwards: in place, a row that is moved has not been written yet.
    for (int32_t i = 0; i < old_; i++) {
        const int64_t t = length_ - old_ + i;
        copy_heads(to + i * state.row, state.head, input(source, first, t),
            t < 0 ? mixer_.conv[source].initial.head : mixer_.raw[source].head, heads, bytes);
    }
}

void MixerCalls::run_norm(const float *o, int32_t o_row, const char *z, int32_t z_row, char *y, int32_t y_row, int32_t n) {
    if (mixer_.z_copy) {
        Buffer in, none, out;
        float scale = 1.0f, bound = 0.0f, pad = 0.0f;
        int32_t valid = plan_.v;
        in.init(mixer_.z.type, 2);
        in.dim(0, plan_.v, 1);
        in.dim(1, n, z_row);
        in.host(z);
        none.init(Type::kF32, 2);  // A_log and dt_bias, which a copy does not read
        none.dim(0, plan_.v, 1);
        none.dim(1, n, 0);
        none.host(zero_row());
        out.init(Type::kF32, 2);
        out.dim(0, plan_.vp, 1);
        out.dim(1, n, plan_.vp);
        out.host(z_rows_);
        Buffer A_log;
        A_log.init(Type::kF32, 2);
        A_log.dim(0, 1, 1);
        A_log.dim(1, n, 0);
        A_log.host(zero_row());
        void *argv[] = {&context_pointer_, &scale, &bound, &pad, &valid, &in.b, &A_log.b, &none.b, &out.b};
        call(mixer_.z_copy, argv);
        z = reinterpret_cast<const char *>(z_rows_);
        z_row = plan_.vp;
    }
    norm_buffer_[0].host(o);
    norm_buffer_[0].dim(1, n, o_row);
    norm_buffer_[1].host(mixer_.gate ? z : zero_row());
    norm_buffer_[1].dim(1, n, mixer_.gate ? z_row : 0);
    norm_buffer_[3].host(y);
    norm_buffer_[3].dim(1, n, y_row);
    call(mixer_.norm_kernel, norm_argv_);
}

void MixerCalls::norm(int32_t hv, int64_t t, int32_t n, const float *o, int32_t o_row, char *y) {
    run_norm(o, o_row, z_bytes_ ? z_row(hv, t) : nullptr, mixer_.z.token_elements, y, mixer_.y.token_elements, n);
}

void MixerCalls::token_norm(int32_t first, int32_t heads, const float *o) {
    const int64_t z_head = mixer_.z.head / (mixer_.z.type == Type::kF32 ? 4 : 2), y_head = mixer_.y.head / element_;
    const int32_t most = z_head > kMostHeadStride || y_head > kMostHeadStride ? 1 : kMaxRows;
    for (int32_t i = 0; i < heads; i += most) {
        const int32_t n = std::min(most, heads - i);
        run_norm(o + (int64_t)i * plan_.v, plan_.v, z_bytes_ ? z_row(first + i, 0) : nullptr, most == 1 ? 0 : (int32_t)z_head,
            y_ + (first + i) * mixer_.y.head, most == 1 ? 0 : (int32_t)y_head, n);
    }
}

}  // namespace gdn
