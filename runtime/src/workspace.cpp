#include "workspace.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace gdn {

namespace {

// Heads whose states live in workspace are worked on together (time blocks go over them) as far as this many bytes per worker allow.
constexpr size_t kWorkerBytes = 248 << 10;

// Less work than this (state elements touched) is done before another thread has woken up.
constexpr int64_t kWorthThreads = 1 << 17;

/// Addresses of rows to fetch that there is room for where V may be cut: kernels of slices may be tuned to more than the whole's has.
constexpr int32_t kSliceSlots = 512;

/// A parameter in a row's configuration, "cols:32,rows:8"; -1 where it has none.
int32_t config_value(const KernelRow &row, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = row.config; at && *at;) {
        if (!strncmp(at, name, length) && at[length] == ':') {
            return (int32_t)strtol(at + length + 1, nullptr, 10);
        }
        at = strchr(at, ',');
        at += at ? 1 : 0;
    }
    return -1;
}

/// The compiler sums the dot products of tokens in an order that follows from how they are tiled.
bool same_dots(const KernelRow &a, const KernelRow &b) {
    for (const char *name : {"dot_registers", "dot_s", "stage_from"}) {
        if (config_value(a, name) != config_value(b, name)) {
            return false;
        }
    }
    return true;
}

/// A slice must give the bits of the whole. Kernels of one fixed K do whatever their V, and so do those of run-time K, and both round
/// alike (see generators/core_chunk.cpp) but for panels of 16 columns, whose dot products the compiler sums in another order.
bool same_arithmetic(const KernelRow *whole, const KernelRow *slice) {
    return !whole || (slice && whole->target == slice->target && whole->chunk == slice->chunk && same_dots(*whole, *slice) &&
                         (whole->k == slice->k || (whole->panel % 32 == 0 && slice->panel % 32 == 0)));
}

/// Value heads that stay together: in the mixer those of one key head, whose convolution runs once.
int32_t unit_heads(const Plan &plan) { return plan.mixing ? plan.heads_per_key : 1; }

int32_t most_slices(const Plan &plan, const RunParams &run) {
    return run.v_slice_min > 0 ? std::max(1, plan.vp / std::max(16, run.v_slice_min)) : 1;
}

int32_t most_slices(const Plan &plan) { return std::max(most_slices(plan, plan.run[0]), most_slices(plan, plan.run[1])); }

/// The rows of chunks for slices of so many columns, of each length class; false if one of them rounds otherwise or fetches more than there
/// is room for.
bool sliced_chunks(const Plan &plan, const Dispatch &dispatch, int32_t columns, Division *d) {
    for (int32_t i = 0; i < kLengthClasses; i++) {
        const KernelRow *const whole = plan.chunk[i];
        if (!whole) {
            return false;
        }
        Need need;
        need.family = Family::kCoreChunk;
        need.precision = whole->precision;
        need.decay = whole->decay;
        need.erase = whole->erase;
        need.length_class = i;
        d->chunk[i] = dispatch.find(need, plan.kp, columns);
        if (!same_arithmetic(whole, d->chunk[i]) || fetch_slots(*d->chunk[i], plan.kp, columns) > plan.scratch.slot_count) {
            return false;
        }
    }
    return true;
}

}  // namespace

Arena scratch_of(const Plan &plan) {
    Arena arena;
    size_t at = 0;
    const auto take = [&at](size_t floats) {
        const size_t from = at;
        at += (floats * sizeof(float) + 63) & ~(size_t)63;
        return from;
    };
    const size_t rows = (size_t)plan.rows(), kp = (size_t)plan.kp, vp = (size_t)plan.vp, state = kp * vp;
    arena.q = take(rows * kp);
    arena.a = take(rows * kp);
    arena.alpha = take(rows * (plan.scalar ? 1 : kp));
    arena.u = take(rows * vp);
    arena.e = take(rows * (plan.own ? kp : 1));
    arena.o = take(rows * vp);
    for (int i = 0; i < kSources; i++) {
        arena.raw[i] = plan.map[i] ? take(rows * (size_t)plan.row_width(i)) : 0;
    }
    arena.slice_u = most_slices(plan) > 1 ? take(rows * vp / 2) : 0;
    arena.slot_count = plan.chunk[0] && most_slices(plan) > 1 ? kSliceSlots : 0;
    for (const KernelRow *row : plan.chunk) {
        arena.slot_count = row ? std::max({1, arena.slot_count, fetch_slots(*row, plan.kp, plan.vp)}) : arena.slot_count;
    }
    arena.slots = take((size_t)arena.slot_count * 2);
    arena.pong = take(state);
    arena.home_count = 0;
    arena.homes = arena.bytes = at;
    return arena;
}

Arena arena_of(const Plan &plan) {
    Arena arena = plan.scratch;
    if (!plan.direct()) {
        const size_t used = arena.homes, one = (size_t)plan.kp * (size_t)plan.vp * sizeof(float);  // a multiple of 64
        const size_t fit = used < kWorkerBytes ? (kWorkerBytes - used) / one : 0;
        const size_t unit = (size_t)unit_heads(plan);
        arena.home_count = (int32_t)std::min<size_t>(std::max<size_t>(fit / unit, 1) * unit, (size_t)plan.hv);
        arena.bytes = used + one * (size_t)arena.home_count;
    }
    return arena;
}

int64_t longest(const Plan &plan) {
    if (!plan.cu.data) {
        return plan.tokens;
    }
    int64_t most = 1;
    for (int64_t s = 0; s < plan.n; s++) {
        most = std::max(most, plan.sequence_length(s));
    }
    return most;
}

Division divide(const Plan &plan, const Dispatch &dispatch, int32_t threads) {
    Division d;
    d.heads_per_task = plan.hv;
    d.groups = d.slices = d.lanes = 1;
    d.slice_columns = plan.vp;
    d.tasks = plan.n;
    std::copy(plan.chunk, plan.chunk + kLengthClasses, d.chunk);
    d.step = plan.step;
    d.v_first_step = plan.v_first_step;
    const int64_t total = plan.cu.data ? plan.tokens : plan.n * plan.tokens;
    if (threads <= 1 || plan.n == 0 || total * plan.hv * plan.kp * plan.vp < kWorthThreads) {
        return d;
    }
    const int64_t most_tokens = longest(plan);
    const RunParams &run = plan.run[length_class(most_tokens)];
    const int32_t unit = unit_heads(plan);
    const int64_t units = plan.n * (plan.hv / unit);
    if (units < threads) {
        // Too few heads: cut the value channels, whose columns do not meet before o. Chunks only: a step is over too soon. Not with blocks:
        // they have no kernels for slices, and steps in their place would round otherwise. Not with pending writes: all slices would read
        // what one of them replaces. Not in the mixer: its norm wants whole rows.
        const int64_t most = plan.mixing ? 1 : most_slices(plan, run);
        for (int32_t slices = (int32_t)std::min<int64_t>(threads / units, most); slices > 1; slices--) {
            const int32_t columns = plan.vp / slices;
            Division sliced = d;
            if (plan.vp % slices || columns % 16 || most_tokens <= run.short_steps || plan.block || plan.initial_pending.data ||
                plan.final_pending.data || !sliced_chunks(plan, dispatch, columns, &sliced)) {
                continue;
            }
            Need need;
            need.family = Family::kCoreStep;
            need.decay = plan.chunk[0]->decay;
            need.erase = plan.chunk[0]->erase;
            sliced.step = dispatch.find(need, plan.kp, columns);
            need.layout = Layout::kVFirst;
            sliced.v_first_step = plan.v_first_step ? dispatch.find(need, plan.kp, columns) : nullptr;
            if (!same_arithmetic(plan.step, sliced.step) || !same_arithmetic(plan.v_first_step, sliced.v_first_step)) {
                continue;
            }
            d = sliced;
            d.slices = slices;
            d.slice_columns = columns;
            break;
        }
        d.heads_per_task = unit;
    } else if (run.task_grain > 0) {
        d.heads_per_task = std::min((run.task_grain + unit - 1) / unit * unit, plan.hv);
    } else {
        // Largest group of heads (time blocks like many) whose longest worker has at most 5 % more than its share.
        const double share = (double)total * plan.hv / threads;
        int32_t best = unit;
        double best_load = 1e300;
        for (int32_t heads = plan.hv; heads >= unit; heads -= unit) {
            const int64_t groups = (plan.hv + heads - 1) / heads, tasks = groups * plan.n;
            // Equal tasks go in rounds; with unequal lengths the longest may start last.
            const double equal = (double)((tasks + threads - 1) / threads) * heads * ((double)total / (double)plan.n);
            const double load = most_tokens * plan.n == total ? equal : share + (double)heads * (double)most_tokens;
            if (load < best_load * 0.999) {
                best = heads;
                best_load = load;
            }
            if (load <= share * 1.05) {
                break;
            }
        }
        d.heads_per_task = best;
    }
    d.groups = (plan.hv + d.heads_per_task - 1) / d.heads_per_task;
    d.tasks = plan.n * d.groups * d.slices;
    d.lanes = (int32_t)std::min<int64_t>(threads, d.tasks);
    return d;
}

size_t workspace_bytes(const Plan &plan, const Arena &arena, int32_t threads) {
    if (threads <= 1) {
        return arena.bytes;
    }
    int64_t lanes = 0;
    if (__builtin_mul_overflow(plan.n, (int64_t)plan.hv * most_slices(plan), &lanes) || lanes > threads) {
        lanes = threads;
    }
    return arena.bytes * (size_t)std::max<int64_t>(lanes, 1);
}

}  // namespace gdn
