#include "dispatch.h"

#include <algorithm>
#include <cstdio>
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
    case Family::kStage: return ((int32_t)n.variant * 5 + (int32_t)n.form) * 4 + (int32_t)n.dtype;  // < 100
    case Family::kMap: return 100 + (int32_t)n.map * 4 + (int32_t)n.dtype;                          // < 128
    case Family::kStore: return 128 + (int32_t)n.dtype;                                             // < 132
    case Family::kCoreChunk:
        return (n.length_class ? 232 : 132) + ((int32_t)n.precision * 3 + (int32_t)n.decay) * 3 + (int32_t)n.erase;  // < 150, < 250
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

bool same_kernel(const KernelRow &a, const KernelRow &b) { return a.target == b.target && !strcmp(a.name, b.name); }

size_t Dispatch::bytes(int32_t row_count) {
    return sizeof(Dispatch) + (size_t)row_count * (kLengthClasses * sizeof(Entry) + sizeof(RunParams) + sizeof *levels_ + sizeof *picks_);
}

Dispatch *Dispatch::create(void *memory, const TargetRow *targets, int32_t target_count, const KernelRow *rows, int32_t row_count,
    uint64_t features, int32_t first_target, const ChoiceRow *choices, int32_t choice_count, const Device &device) {
    Dispatch *d = new (memory) Dispatch;
    d->targets_ = targets;
    d->rows_ = rows;
    d->target_count_ = target_count;
    d->row_count_ = row_count;
    d->choices_ = choices;
    d->choice_count_ = choice_count;
    d->device_ = &device;
    d->order_ = reinterpret_cast<Entry *>(d + 1);
    d->params_ = reinterpret_cast<RunParams *>(d->order_ + (int64_t)row_count * kLengthClasses);
    d->levels_ = reinterpret_cast<Level(*)[kLengthClasses]>(d->params_ + row_count);
    d->picks_ = reinterpret_cast<uint8_t *>(d->levels_ + row_count);

    d->target_ = -1;
    d->runs_ = 0;
    for (int32_t t = std::max(first_target, 0); t < target_count && t < 64; t++) {
        if (!(parse_features(targets[t].features) & ~features)) {
            d->runs_ |= 1ull << t;
            if (d->target_ < 0) {
                d->target_ = t;
            }
        }
    }
    for (int32_t i = 0; i < row_count; i++) {
        d->params_[i] = rows[i].run;
        d->picks_[i] = 0;
    }
    d->arrange();
    return d;
}

void Dispatch::inherit(const Dispatch &before) {
    std::copy(before.params_, before.params_ + row_count_, params_);
    std::copy(before.picks_, before.picks_ + row_count_, picks_);
    arrange();
}

void Dispatch::arrange() {
    int32_t count = 0;
    for (int32_t from = 0, to; from < row_count_; from = to) {
        const KernelRow &first = rows_[from];
        to = from + 1;
        while (to < row_count_ && same_kernel(first, rows_[to])) {
            to++;
        }
        for (int32_t c = 0; c < length_classes(first.family); c++) {
            const KernelRow *const row = choose(from, to, c);
            if (runs_ >> first.target & 1) {
                Need need = need_of(*row);
                need.length_class = c;
                order_[count++] = {row, key_of(need), c};
            }
        }
    }
    std::sort(order_, order_ + count, [](const Entry &a, const Entry &b) { return a.key != b.key ? a.key < b.key : better(a.row, b.row); });
    int32_t at = 0;
    for (int32_t key = 0; key <= kKeys; key++) {
        while (at < count && order_[at].key < key) {
            at++;
        }
        first_[key] = at;
    }
}

/// How a choice knows this device; kOnly if it does not, or speaks of another length.
Level Dispatch::level_of(const ChoiceRow &choice, int32_t c) const {
    const LengthClass other = c ? LengthClass::kShort : LengthClass::kLong;
    const char *const keys[] = {device_->key, device_->architecture, device_->vendor, ""};
    return choice.length_class != other && !strcmp(choice.key, keys[(int)choice.level]) ? choice.level : Level::kOnly;
}

/// The row of from .. to, all of one kernel, for a length class.
const KernelRow *Dispatch::choose(int32_t from, int32_t to, int32_t c) const {
    int32_t row = from;
    const bool reference = targets_[rows_[from].target].reference;
    Level level = to - from > 1 ? Level::kDefault : reference ? Level::kReference : Level::kOnly;
    if (level == Level::kDefault) {
        Level best = Level::kOnly;
        for (const ChoiceRow *choice = choices_; choice < choices_ + choice_count_; choice++) {
            if (choice->row < from || choice->row >= to) {
                continue;
            }
            const Level known = level_of(*choice, c);
            if (known < best || (known == best && known != Level::kOnly && choice->length_class != LengthClass::kAny)) {
                best = level = known;
                row = choice->row;
            }
        }
    }
    for (int32_t i = from; i < to; i++) {
        if (picks_[i] >> c & 1) {
            row = i;
            level = Level::kOverride;
        }
    }
    levels_[row][c] = level;
    return &rows_[row];
}

void Dispatch::describe_levels(void (*line)(void *arg, const char *text), void *arg) const {
    for (int32_t target = std::max(target_, 0); target < target_count_; target++) {
        int32_t counts[(int)Level::kOnly + 1] = {};  // of kernels with a choice; both length classes of core_chunk count
        for (const Entry *entry = order_; entry < order_ + first_[kKeys]; entry++) {
            if (entry->row->target == target) {
                counts[(int)level(*entry->row, entry->length_class)]++;
            }
        }
        int32_t chosen = 0;
        for (int known = (int)Level::kDevice; known <= (int)Level::kDefault; known++) {
            chosen += counts[known];
        }
        for (int known = (int)Level::kArchitecture; known <= (int)Level::kDefault; known++) {
            if (!counts[known]) {
                continue;
            }
            char which[48] = "", used[96] = "the defaults", text[400];
            if (counts[known] < chosen) {
                snprintf(which, sizeof which, "%d of %d have ", counts[known], chosen);
            }
            if (known == (int)Level::kArchitecture) {
                snprintf(used, sizeof used, "those of architecture %s", device_->architecture);
            } else if (known == (int)Level::kVendor) {
                snprintf(used, sizeof used, "those of vendor %s", device_->vendor);
            }
            snprintf(
                text, sizeof text, "kernels of %s: %sno entries for device %s, using %s", targets_[target].name, which, device_->key, used);
            line(arg, text);
        }
    }
    int32_t missing = 0, reference = -1;
    for (int32_t key = 0; key < kKeys; key++) {
        const int32_t best = first_[key] < first_[key + 1] ? order_[first_[key]].row->target : -1;
        if (best > target_ && targets_[best].reference) {
            missing++;
            reference = best;
        }
    }
    if (missing) {
        char text[160];
        snprintf(text, sizeof text, "kinds of calls that only kernels of %s serve: %d", targets_[reference].name, missing);
        line(arg, text);
    }
}

const KernelRow *Dispatch::find(const Need &need, int32_t k, int32_t v) const {
    const int32_t key = key_of(need);
    for (int32_t i = first_[key]; i < first_[key + 1]; i++) {
        if (can_run(*order_[i].row, k, v)) {
            return order_[i].row;
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
