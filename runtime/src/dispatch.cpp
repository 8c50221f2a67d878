#include "dispatch.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "cpu.h"

namespace gdn {

bool can_run(const KernelRow &row, int32_t k, int32_t v) {
    if (row.k && row.k != k) {
        return false;
    }
    if (row.v) {
        return row.v == v;
    }
    return row.panel == 0 || v % row.panel == 0;
}

int32_t fetch_slots(const KernelRow &row, int32_t k, int32_t v) {
    if (row.fetch_lines <= 0) {
        return 0;
    }
    if (row.k) {
        return row.fetch_slots;
    }
    // One line per two key channels of each of the (2 chunk / rows) (V / cols) tiles of the state read.
    return (2 * row.chunk / row.rows) * (v / row.cols) * (k / (2 * row.fetch_lines));
}

int32_t Dispatch::key_of(const Need &n) {
    // Every family has its own stretch of keys; inside it only the fields that the family uses count.
    static_assert(
        ((int)StageVariant::kFg2Plus * 5 + (int)Form::kLogits) * 4 + (int)Type::kF16 < 100, "the stages' stretch is full: move the others");
    switch (n.family) {
    case Family::kStage: return ((int32_t)n.variant * 5 + (int32_t)n.form) * 4 + (int32_t)n.dtype;               // < 100
    case Family::kMap: return 100 + (int32_t)n.map * 4 + (int32_t)n.dtype;                                       // < 128
    case Family::kStore: return 128 + (int32_t)n.dtype;                                                          // < 132
    case Family::kCoreChunk: return 132 + ((int32_t)n.precision * 3 + (int32_t)n.decay) * 3 + (int32_t)n.erase;  // < 150
    case Family::kCoreStep:
        return 150 + (((int32_t)n.precision * 2 + (int32_t)n.layout) * 3 + (int32_t)n.decay) * 3 + (int32_t)n.erase;  // < 186
    case Family::kCoreBlock: return 186 + (int32_t)n.decay * 3 + (int32_t)n.erase;                                    // < 195
    case Family::kShortConv: return 195 + (n.width ? 4 : 0) + (int32_t)n.dtype;                                       // < 203
    case Family::kGatedNorm: return 203 + (int32_t)n.z_dtype * 4 + (int32_t)n.dtype;                                  // < 219
    case Family::kCorePending: return 219 + (int32_t)n.decay * 3 + (int32_t)n.erase;                                  // < 228
    case Family::kShortConvStep: return 228 + (int32_t)n.dtype;                                                       // < 232
    }
    return kKeys - 1;
}

namespace {

Need need_of(const KernelRow &row) {
    Need n;
    n.family = row.family;
    n.precision = row.precision;
    n.decay = row.decay;
    n.erase = row.erase;
    n.layout = row.layout;
    n.variant = row.variant;
    n.form = row.form;
    n.map = row.map;
    n.dtype = row.dtype;
    n.z_dtype = row.z_dtype;
    n.width = row.width;
    return n;
}

// Best first among rows that answer the same need.
bool better(const KernelRow *a, const KernelRow *b) {
    if (a->target != b->target) {
        return a->target < b->target;
    }
    const bool fixed_a = a->k && a->v, fixed_b = b->k && b->v;
    if (fixed_a != fixed_b) {
        return fixed_a;
    }
    if (a->panel != b->panel) {
        return a->panel > b->panel;
    }
    return a < b;
}

}  // namespace

size_t Dispatch::bytes(int32_t row_count) { return sizeof(Dispatch) + (size_t)row_count * (sizeof(const KernelRow *) + sizeof(RunParams)); }

Dispatch *Dispatch::create(void *memory, const TargetRow *targets, int32_t target_count, const KernelRow *rows, int32_t row_count,
    uint64_t features, int32_t first_target) {
    Dispatch *d = new (memory) Dispatch;
    d->targets_ = targets;
    d->rows_ = rows;
    d->target_count_ = target_count;
    d->row_count_ = row_count;
    d->target_ = -1;
    d->order_ = reinterpret_cast<const KernelRow **>(d + 1);
    d->params_ = reinterpret_cast<RunParams *>(d->order_ + row_count);

    uint64_t runs = 0;  // bit per target
    for (int32_t t = std::max(first_target, 0); t < target_count && t < 64; t++) {
        if (!(parse_features(targets[t].features) & ~features)) {
            runs |= 1ull << t;
            if (d->target_ < 0) {
                d->target_ = t;
            }
        }
    }
    int32_t count = 0;
    for (int32_t i = 0; i < row_count; i++) {
        d->params_[i] = rows[i].run;
        if (runs >> rows[i].target & 1) {
            d->order_[count++] = &rows[i];
        }
    }
    std::sort(d->order_, d->order_ + count, [](const KernelRow *a, const KernelRow *b) {
        const int32_t key_a = key_of(need_of(*a)), key_b = key_of(need_of(*b));
        return key_a != key_b ? key_a < key_b : better(a, b);
    });
    int32_t at = 0;
    for (int32_t key = 0; key <= kKeys; key++) {
        while (at < count && key_of(need_of(*d->order_[at])) < key) {
            at++;
        }
        d->first_[key] = at;
    }
    return d;
}

const KernelRow *Dispatch::find(const Need &need, int32_t k, int32_t v) const {
    const int32_t key = key_of(need);
    for (int32_t i = first_[key]; i < first_[key + 1]; i++) {
        if (can_run(*order_[i], k, v)) {
            return order_[i];
        }
    }
    return nullptr;
}

int32_t find_target(const TargetRow *targets, int32_t count, const char *name) {
    for (int32_t t = 0; t < count; t++) {
        if (!strcmp(targets[t].name, name)) {
            return t;
        }
    }
    return -1;
}

}  // namespace gdn
