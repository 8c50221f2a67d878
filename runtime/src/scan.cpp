#include "scan.h"

#include <algorithm>

#include "constant_rows.h"
#include "mixer_calls.h"

namespace gdn {

LengthPlan length_plan(const Plan &plan, int64_t length) {
    int64_t tail = plan.snapshot_count && plan.snapshot_kind == GDN_SNAPSHOT_LAST_TOKENS ? std::min(plan.snapshot_count, length) : 0;
    int64_t chunked = length - tail;
    const int32_t c = length_class(length);
    if (!plan.chunk[c]) {
        return {0, length};
    }
    if (!plan.step) {
        return {length, 0};
    }
    if (chunked <= std::max(plan.run[c].short_steps, 1)) {
        return {0, length};
    }
    const int64_t ragged = chunked % plan.chunk[c]->chunk;
    if (ragged <= plan.run[c].tail_steps) {
        chunked -= ragged;
        tail += ragged;
    }
    return {chunked, tail};
}

Scan::Scan(const Plan &plan, const Division &division, const Arena &arena, char *memory, MixerCalls *mixer)
    : plan_(plan), division_(division), arena_(arena), mixer_(mixer), calls_(plan, division, arena, memory) {
    o_direct_ = plan.o.type == Type::kF32 && plan.v == plan.vp && !mixer;
    for (int i = 0; i < kSources; i++) {
        group_.data[i] = zero_row();
        group_.stride[i] = 0;
    }
    group_.A_log = group_.dt_bias = zero_row();
    group_.A_log_stride = group_.dt_bias_stride = 0;
}

void Scan::run(int64_t task) {
    int64_t slice = 0, sequence = task;
    int32_t group = 0;
    if (division_.slices > 1 || division_.groups > 1) {  // else four divisions for nothing
        const int64_t unit = task / division_.slices;
        slice = task % division_.slices;
        group = (int32_t)(unit % division_.groups);
        sequence = unit / division_.groups;
    }
    const int32_t hv0 = group * division_.heads_per_task;
    const int32_t hv1 = std::min(hv0 + division_.heads_per_task, plan_.hv);
    enter(sequence, slice);
    if (length_ == 1 && decodes()) {
        decode(hv0, hv1);
    } else if (length_ == 0) {
        empty(hv0, hv1);
    } else {
        heads(hv0, hv1);
    }
}

void Scan::enter(int64_t sequence, int64_t slice) {
    sequence_ = sequence;
    begin_ = plan_.sequence_begin(sequence_);
    length_ = plan_.sequence_length(sequence_);
    class_ = length_class(length_);
    chunk_ = division_.chunk[class_];
    initial_slot_ = !plan_.initial.data ? -1 : plan_.initial_slots.data ? plan_.initial_slots[sequence_] : sequence_;
    final_slot_ = plan_.final_slots.data ? plan_.final_slots[sequence_] : sequence_;
    column_ = (int32_t)slice * division_.slice_columns;
    columns_ = division_.slice_columns;
    valid_columns_ = std::min(columns_, plan_.v - column_);
    tokens_ = length_plan(plan_, length_);
}

Pending Scan::pending(const PendingView &view, int64_t slot, int32_t hv) const {
    if (!view.data || slot < 0) {
        return nothing_pending();
    }
    float *row = reinterpret_cast<float *>(view.data + slot * view.slot + hv * view.head);
    return {row, row + plan_.k, row + 2 * plan_.k};
}

/// Whether this head's initial state has a write to be applied first.
bool Scan::unsettled(int32_t hv, Pending *before) const {
    if (!plan_.initial_pending.data) {
        return false;
    }
    *before = pending(plan_.initial_pending, initial_slot_, hv);
    return !is_settled(*before, plan_.k, plan_.v);
}

void Scan::leave_nothing_pending(int32_t hv) {
    if (plan_.final_pending.data) {
        const Pending row = pending(plan_.final_pending, final_slot_, hv);
        std::fill_n(row.alpha, plan_.k, 1.0f);
        std::fill_n(row.a, plan_.k + plan_.v, 0.0f);
    }
}

bool Scan::readable(const StateView &view) const { return view.data && plan_.aligned() && plan_.v_first == v_first_; }

StatePart Scan::part(const StateView &view, int64_t slot, int32_t hv, int64_t snapshot) const {
    char *data = view.data + slot * view.slot + hv * view.head + snapshot * view.snapshot;
    return {reinterpret_cast<float *>(data), view.row, plan_.v_first, plan_.k, column_, valid_columns_};
}

namespace {

/// Where the slice's part of a state begins, for kernels that work on the caller's memory.
State slice_of(const StatePart &part) { return {part.data + (part.v_first ? (int64_t)part.column * part.row : part.column), part.row}; }

}  // namespace

void Scan::empty(int32_t hv0, int32_t hv1) {
    for (int32_t hv = hv0; plan_.final.data && hv < hv1; hv++) {
        const int32_t rows = plan_.v_first ? valid_columns_ : plan_.k, width = plan_.v_first ? plan_.k : valid_columns_;
        const State to = slice_of(part(plan_.final, final_slot_, hv));
        if (initial_slot_ < 0) {
            zero_rows(to, rows, width);
            leave_nothing_pending(hv);
            continue;
        }
        const State from = slice_of(part(plan_.initial, initial_slot_, hv));
        if (from.data != to.data) {
            copy_rows(from, to, rows, width);
        }
        Pending before;
        if (unsettled(hv, &before)) {
            settle(to, before, plan_.k, column_, valid_columns_, plan_.v_first);
        }
        leave_nothing_pending(hv);
    }
}

/// Heads from hv on whose sources lie at one stride, so that one stage call takes them.
int32_t Scan::decode_run(int32_t hv, int32_t most) const {
    if (plan_.h == plan_.hv) {
        return most;
    }
    return std::min(most, plan_.modulo ? plan_.h - hv % plan_.h : plan_.heads_per_key - hv % plan_.heads_per_key);
}

bool Scan::decodes() {
    v_first_ = plan_.v_first;
    if (plan_.snapshot_count || division_.slices > 1 || !readable(plan_.final) || !(v_first_ ? plan_.v_first_step : plan_.step)) {
        return false;
    }
    return plan_.one_pass() || !(plan_.initial_pending.data || plan_.final_pending.data);
}

void Scan::decode(int32_t hv0, int32_t hv1) {
    const int64_t most = INT32_MAX / (2 * kMaxRows);  // strides between heads, in elements, that 32 bits can follow over a call's heads
    const bool far = plan_.final.head / 4 > most || (initial_slot_ >= 0 && plan_.initial.head / 4 > most) || plan_.o.head / 2 > most;
    // What is the same for every group of heads: where head 0 is, and the strides from head to head.
    const bool one_to_one = plan_.h == plan_.hv;
    const char *first_head[kSources];
    bool far_sources = false;
    for (int s = 0; s < kSources; s++) {
        const TokenView &source = plan_.source[s];
        if (!source.data) {
            continue;
        }
        far_sources |= source.head > 2 * most + 1;
        first_head[s] = source.data + sequence_ * source.sequence + begin_ * source.token;
        const bool still = !one_to_one && !source.per_value_head && !plan_.modulo;
        group_.stride[s] = still ? 0 : (int32_t)(source.head >> (source.type == Type::kF32 ? 2 : 1));
    }
    if (far_sources) {
        std::fill_n(group_.stride, (int)kSources, 0);
    }
    const State first_to = slice_of(part(plan_.final, final_slot_, 0));
    const State first_from = initial_slot_ < 0 ? first_to : slice_of(part(plan_.initial, initial_slot_, 0));
    char *const first_o = const_cast<char *>(plan_.o.data) + sequence_ * plan_.o.sequence + begin_ * plan_.o.token;
    const int32_t rows = far ? 1 : std::min(plan_.rows(), (int32_t)kMaxRows);
    const int32_t element = plan_.o.type == Type::kF32 ? 4 : 2;
    for (int32_t hv = hv0; hv < hv1; hv += rows) {
        const int32_t n = std::min(rows, hv1 - hv);
        for (int32_t i = 0; i < n;) {
            const int32_t run = far_sources ? 1 : decode_run(hv + i, n - i);
            for (int s = 0; s < kSources; s++) {
                const TokenView &source = plan_.source[s];
                if (source.data) {
                    const int32_t head = one_to_one ? hv + i : plan_.head_of(hv + i, source.per_value_head);
                    group_.data[s] = first_head[s] + head * source.head;
                }
            }
            const auto head_row = [&](const HeadView &view, const char **data, int32_t *stride) {
                if (view.data) {
                    *data = view.data + (int64_t)plan_.head_of(hv + i, view.per_value_head) * view.head;
                    *stride = (!view.per_value_head && !plan_.modulo && plan_.h != plan_.hv) || far_sources ? 0 : (int32_t)(view.head / 4);
                }
            };
            head_row(plan_.A_log, &group_.A_log, &group_.A_log_stride);
            head_row(plan_.dt_bias, &group_.dt_bias, &group_.dt_bias_stride);
            calls_.stage(group_, i, run);
            i += run;
        }
        const State to = {first_to.data + hv * (plan_.final.head / 4), first_to.row};
        State from = to;
        int32_t from_head = (int32_t)(n > 1 ? plan_.final.head / 4 : 0);
        const int32_t to_head = from_head;
        if (initial_slot_ >= 0) {
            from = {first_from.data + hv * (plan_.initial.head / 4), first_from.row};
            from_head = (int32_t)(n > 1 ? plan_.initial.head / 4 : 0);
        } else {
            for (int32_t i = 0; i < n; i++) {
                zero_rows({to.data + (int64_t)i * to_head, to.row}, v_first_ ? plan_.v : plan_.k, v_first_ ? plan_.k : plan_.v);
            }
        }
        char *o = first_o + hv * plan_.o.head;
        const int32_t o_stride = (int32_t)(n > 1 ? plan_.o.head / element : plan_.vp);
        const bool through = !o_direct_ && !mixer_;  // the mixer's rows of o are float32
        if (plan_.one_pass()) {
            for (int32_t i = 0; i < n; i++) {
                float *o_row = through ? calls_.o_scratch() + (int64_t)i * plan_.vp : reinterpret_cast<float *>(o) + (int64_t)i * o_stride;
                calls_.pending_step(i, {from.data + (int64_t)i * from_head, from.row}, {to.data + (int64_t)i * to_head, to.row},
                    pending(plan_.initial_pending, initial_slot_, hv + i), pending(plan_.final_pending, final_slot_, hv + i), o_row);
            }
        } else {
            calls_.step(v_first_, 0, n, 0, from, from_head, to, to_head, through ? calls_.o_scratch() : reinterpret_cast<float *>(o),
                through ? plan_.vp : o_stride);
        }
        if (through) {
            calls_.store(0, n, plan_.v, o, o_stride);
        }
    }
}

void Scan::heads(int32_t hv0, int32_t hv1) {
    v_first_ = plan_.v_first && tokens_.chunk_tokens == 0 && division_.v_first_step && plan_.aligned();
    direct_ = readable(plan_.final);
    const int32_t together = direct_ ? hv1 - hv0 : std::max(arena_.home_count, 1);
    for (int s = 0; s < kSources; s++) {
        if (plan_.source[s].data) {
            group_.stride[s] = plan_.source[s].token_elements;
        }
    }
    group_.A_log_stride = group_.dt_bias_stride = 0;
    const int32_t values_per_key = mixer_ ? plan_.heads_per_key : 1;
    const int64_t chunk = chunk_ ? chunk_->chunk : 1;
    const int64_t block_tokens = std::max(time_block(plan_, class_) / chunk, (int64_t)1) * chunk;
    const bool boundaries = plan_.snapshot_count && plan_.snapshot_kind == GDN_SNAPSHOT_BOUNDARIES;
    for (int32_t from = hv0; from < hv1; from += together) {
        const int32_t count = std::min(together, hv1 - from);
        int64_t t0 = 0;
        do {
            int64_t t1 = std::min(t0 + block_tokens, tokens_.chunk_tokens);
            if (boundaries) {
                t1 = std::min(t1, (t0 / plan_.snapshot_interval + 1) * plan_.snapshot_interval);
            }
            const bool last = t1 == tokens_.chunk_tokens;
            Head head = head_at(from, 0);
            for (int32_t i = 0; i < count; i++) {
                const bool wraps = i + 1 == count;
                if (mixer_ && i % values_per_key == 0) {
                    mixer_->next_key_head();
                }
                const Head next = head_at(from + (wraps ? 0 : i + 1), wraps ? 0 : i + 1);
                const int64_t next_token = wraps ? t1 : t0;
                block(head, next_token < tokens_.chunk_tokens ? &next : nullptr, next_token, t0, t1, t0 == 0, last);
                head = next;
            }
            t0 = t1;
        } while (t0 < tokens_.chunk_tokens);
        if (calls_.failed()) {
            return;
        }
        for (int32_t i = 0; i < count; i++) {
            leave_nothing_pending(head_at(from + i, i).hv);
        }
    }
}

Scan::Head Scan::head_at(int32_t hv, int32_t index) const {
    Head head;
    if (mixer_ && plan_.modulo) {
        hv = hv % plan_.heads_per_key * plan_.h + hv / plan_.heads_per_key;
    }
    head.hv = hv;
    for (int s = 0; s < kSources; s++) {
        const TokenView &source = plan_.source[s];
        head.base[s] = source.data ? sequence_ * source.sequence + begin_ * source.token +
                                         (int64_t)plan_.head_of(hv, source.per_value_head) * source.head
                                   : 0;
    }
    head.o = const_cast<char *>(plan_.o.data) + sequence_ * plan_.o.sequence + begin_ * plan_.o.token + hv * plan_.o.head;
    if (direct_) {
        head.home = slice_of(part(plan_.final, final_slot_, hv));
    } else {
        head.home = calls_.home(index);
        if (v_first_) {
            head.home.row = plan_.kp;
        }
    }
    return head;
}

void Scan::fill_group(const Head &head, int64_t t, int32_t n) {
    for (int s = 0; s < kSources; s++) {
        const TokenView &source = plan_.source[s];
        if (source.data) {
            group_.data[s] = source.data + head.base[s] + t * source.token;
        }
    }
    if (plan_.A_log.data) {
        group_.A_log = plan_.A_log.data + (int64_t)plan_.head_of(head.hv, plan_.A_log.per_value_head) * plan_.A_log.head;
    }
    if (plan_.dt_bias.data) {
        group_.dt_bias = plan_.dt_bias.data + (int64_t)plan_.head_of(head.hv, plan_.dt_bias.per_value_head) * plan_.dt_bias.head;
    }
    if (mixer_) {
        mixer_->convolve(head.hv, t, n, &group_);
    }
}

/// Scratch rows of o -> n rows from token t at `o`.
void Scan::store(const Head &head, int64_t t, int32_t n, char *o) {
    if (mixer_) {
        mixer_->norm(head.hv, t, n, calls_.o_scratch(), columns_, o);
    } else {
        calls_.store(0, n, valid_columns_, o, plan_.o.token_elements);
    }
}

/// The state before the first token, in the order in which it is walked. False: zeros.
bool Scan::initial_state(const Head &head, State *state) const {
    if (initial_slot_ < 0) {
        return false;
    }
    const StatePart from = part(plan_.initial, initial_slot_, head.hv);
    Pending before;
    const bool apply = unsettled(head.hv, &before);
    if (readable(plan_.initial) && !apply) {
        *state = slice_of(from);
        return true;
    }
    *state = head.home;
    if (!readable(plan_.initial)) {
        import_state(from, head.home, plan_.kp);
    } else if (slice_of(from).data != head.home.data) {
        copy_rows(slice_of(from), head.home, v_first_ ? columns_ : plan_.kp, v_first_ ? plan_.kp : columns_);
    }
    if (apply) {
        settle(head.home, before, plan_.k, column_, valid_columns_, v_first_);
    }
    return true;
}

void Scan::export_snapshot(const Head &head, State from, int64_t index) {
    const StatePart to = part(plan_.snapshots, sequence_, head.hv, index);
    if (v_first_) {
        copy_rows(from, slice_of(to), valid_columns_, plan_.k);
    } else {
        export_state(from, to);
    }
}

/// `from` is the state after `tokens` tokens; kept if that is a boundary.
void Scan::boundary_snapshot(const Head &head, State from, int64_t tokens) {
    const int64_t index = tokens / plan_.snapshot_interval - 1;
    if (tokens % plan_.snapshot_interval == 0 && index >= 0 && index < plan_.snapshot_count) {
        export_snapshot(head, from, index);
    }
}

/// Tokens [t0, t1) of one head through chunks, and behind the last block the tokens that go one at a time.
void Scan::block(const Head &head, const Head *next_head, int64_t next_token, int64_t t0, int64_t t1, bool first, bool last) {
    const State pong = calls_.pong();
    const int32_t rows = v_first_ ? columns_ : plan_.kp, width = v_first_ ? plan_.kp : columns_;
    State current = head.home;
    const bool zero = first && !initial_state(head, &current);
    const int64_t c = chunk_ ? chunk_->chunk : 1, chunks = (t1 - t0 + c - 1) / c, ahead = plan_.run[class_].fetch_ahead;
    if (chunks == 0) {
        if (zero) {
            zero_rows(head.home, rows, width);
        }
        steps(head, current);
        return;
    }
    // A chunk may not write the state it reads: destinations alternate, and the last one is home unless a step behind it brings it there.
    bool to_home = chunks % 2 == 1;
    if (zero) {
        current = to_home ? pong : head.home;
        zero_rows(current, rows, width);
    } else if (to_home && current.data == head.home.data) {
        if (last && tokens_.step_tokens) {
            to_home = false;
        } else {
            copy_rows(head.home, pong, rows, width);
            current = pong;
        }
    }
    const int32_t o_row = plan_.o.token_elements;
    const int32_t element = plan_.o.type == Type::kF32 ? 4 : 2;
    for (int64_t t = t0; t < t1; t += c) {
        const int32_t n = (int32_t)std::min(c, t1 - t);
        const State to = to_home ? head.home : pong;
        const bool through = !o_direct_ || n < c;
        char *o = head.o + t * plan_.o.token + (int64_t)column_ * element;
        // What is fetched: the chunk `ahead` of this one, which behind the block's end is one of the next head.
        const int64_t beyond = ahead - 1 - (t1 - t - 1) / c;  // chunks of the next head before it
        const int64_t next_t = beyond < 0 ? t + ahead * c : next_token + beyond * c;
        const Head *next = ahead == 0 || next_t >= tokens_.chunk_tokens ? nullptr : beyond < 0 ? &head : next_head;
        // Where that chunk's o rows will be; with a store behind this chunk, its own.
        const char *o_rows = through || !next ? o : next->o + next_t * plan_.o.token + (int64_t)column_ * element;
        const int32_t o_count = ahead == 0 ? 0 : through ? n : next ? (int32_t)std::min(c, tokens_.chunk_tokens - next_t) : 0;
        State next_state = {nullptr, 0};
        if (beyond == 0 && next) {
            next_state = next->home;
            if (next_token == 0 && initial_slot_ >= 0 && readable(plan_.initial)) {
                next_state = slice_of(part(plan_.initial, initial_slot_, next->hv));
            }
        }
        list_next(next, next_t, o_rows, (int64_t)valid_columns_ * element, o_count, next_state.row == columns_ ? next_state.data : nullptr);
        fill_group(head, t, n);
        calls_.stage(group_, 0, n);
        if (n < c) {
            calls_.pad(n, (int32_t)c);
        }
        if (through) {
            calls_.chunk(*chunk_, current, to, column_, calls_.o_scratch(), columns_);
            store(head, t, n, o);
        } else {
            calls_.chunk(*chunk_, current, to, column_, reinterpret_cast<float *>(o), o_row);
        }
        current = to;
        to_home = !to_home;
    }
    if (plan_.snapshot_count && plan_.snapshot_kind == GDN_SNAPSHOT_BOUNDARIES) {
        boundary_snapshot(head, current, t1);
    }
    if (last) {
        steps(head, current);
    }
}

/// Below this many tokens steps are quicker than a block, which always computes a whole chunk's algebra.
constexpr int32_t kFewestBlockTokens = 4;

/// The last tokens of a sequence one at a time (those whose states are kept: in blocks), and the way home of the state.
void Scan::steps(const Head &head, State current) {
    const bool boundaries = plan_.snapshot_count && plan_.snapshot_kind == GDN_SNAPSHOT_BOUNDARIES;
    const int64_t first_snapshot = plan_.snapshot_count && !boundaries ? length_ - plan_.snapshot_count : length_;
    const bool in_place = plan_.snapshots.data && readable(plan_.snapshots);
    const int32_t element = plan_.o.type == Type::kF32 ? 4 : 2;
    const bool blocks =
        plan_.block && in_place && !v_first_ && columns_ == plan_.vp && plan_.snapshots.snapshot / 4 < INT32_MAX / plan_.block->chunk;
    const int32_t rows = blocks ? plan_.block->chunk : plan_.rows();
    for (int64_t t = tokens_.chunk_tokens, n64; t < length_; t += n64) {
        // A group does not straddle the first token whose state is kept.
        n64 = std::min<int64_t>(rows, (t < first_snapshot ? first_snapshot : length_) - t);
        const int32_t n = (int32_t)n64;
        fill_group(head, t, n);
        calls_.stage(group_, 0, n);
        char *o = head.o + t * plan_.o.token + (int64_t)column_ * element;
        if (blocks && t >= first_snapshot && n >= kFewestBlockTokens) {
            const auto snapshot = [&](int64_t token) {
                return slice_of(part(plan_.snapshots, sequence_, head.hv, token - first_snapshot));
            };
            calls_.pad(n, rows);
            const bool through = !o_direct_ || n < rows;
            calls_.block(current, snapshot(t), (int32_t)(plan_.snapshots.snapshot / 4), n,
                through ? calls_.o_scratch() : reinterpret_cast<float *>(o), through ? columns_ : plan_.o.token_elements);
            if (through) {
                calls_.store(0, n, valid_columns_, o, plan_.o.token_elements);
            }
            current = snapshot(t + n - 1);
            continue;
        }
        for (int32_t i = 0; i < n; i++) {
            // Snapshots are a chain: each is written from the one before it.
            const int64_t snapshot = t + i - first_snapshot;
            const State to = snapshot >= 0 && in_place ? slice_of(part(plan_.snapshots, sequence_, head.hv, snapshot)) : head.home;
            float *o_row = o_direct_ ? reinterpret_cast<float *>(o + i * plan_.o.token) : calls_.o_scratch() + (int64_t)i * columns_;
            calls_.step(v_first_, i, 1, column_, current, 0, to, 0, o_row, columns_);
            current = to;
            if (snapshot >= 0 && !in_place) {
                export_snapshot(head, current, snapshot);
            } else if (boundaries) {
                boundary_snapshot(head, current, t + i + 1);
            }
        }
        if (!o_direct_) {
            store(head, t, n, o);
        }
    }
    if (!plan_.final.data) {
        return;
    }
    if (!direct_) {
        export_state(current, part(plan_.final, final_slot_, head.hv));
    } else if (current.data != head.home.data) {
        copy_rows(current, head.home, v_first_ ? columns_ : plan_.kp, v_first_ ? plan_.kp : columns_);
    }
}

/// Fills the addresses that the chunk's state-read loop fetches: raw rows of a coming stage call, o rows, then the next head's state.
void Scan::list_next(const Head *next, int64_t next_t, const char *o_rows, int64_t o_bytes, int32_t o_count, const void *state) {
    const int32_t lines = chunk_->fetch_lines;
    if (lines <= 0) {
        return;
    }
    uint64_t *const slots = calls_.slots();
    const int32_t capacity = std::min(arena_.slot_count, fetch_slots(*chunk_, plan_.kp, columns_));
    const int64_t span = (int64_t)lines * 64;
    int32_t used = 0;
    const auto add = [&](const char *row, int64_t bytes) {
        for (int64_t at = 0; at < bytes && used < capacity; at += span) {
            slots[used++] = reinterpret_cast<uint64_t>(row + at);
        }
    };
    if (next) {
        const int32_t n = (int32_t)std::min<int64_t>(chunk_->chunk, tokens_.chunk_tokens - next_t);
        for (int32_t i = 0; i < n; i++) {
            for (int s = 0; s < kSources; s++) {
                const TokenView &source = plan_.source[s];
                // Rows of one number lie side by side for the heads and are hot; fg2 gives one tensor twice.
                if (source.data && !source.scalar && !(s == kSourceW && source.data == plan_.source[kSourceB].data)) {
                    const int32_t element = plan_.mixing && s < kSourceG ? plan_.raw_element : source.type == Type::kF32 ? 4 : 2;
                    add(source.data + next->base[s] + (next_t + i) * source.token, source.width * element);
                }
            }
            if (mixer_ && mixer_->z_bytes()) {
                add(mixer_->z_row(next->hv, next_t + i), mixer_->z_bytes());
            }
        }
    }
    for (int32_t i = 0; i < o_count; i++) {
        add(o_rows + i * plan_.o.token, o_bytes);
    }
    if (state) {
        const int64_t bytes = (int64_t)plan_.kp * columns_ * 4;
        add(static_cast<const char *>(state), bytes);
    }
    // Slots without a row to fetch point at a line that is hot anyway.
    const int32_t stale = listed_ < 0 ? arena_.slot_count : listed_;
    for (int32_t i = used; i < stale; i++) {
        slots[i] = reinterpret_cast<uint64_t>(slots);
    }
    listed_ = used;
}

}  // namespace gdn
