// Which row of the kernel table serves a need. Of a kernel's configurations one is chosen for each length class when a Dispatch is made: the
// user's pick, else what tuned data says of this device, its architecture, its vendor, or of any. A Dispatch is immutable once calls see it:
// gdn_set_target and gdn_apply_overrides put a new one in its place, so that calls read it without a lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device.h"
#include "kernel_table.h"
#include "route.h"

namespace gdn {

/// One kind of question that can be asked of the table; the rows that answer it are kept together, best first.
struct Need {
    Family family = Family::kMap;
    Precision precision = Precision::kF32;
    DecayShape decay = DecayShape::kNone;
    Erase erase = Erase::kNone;
    Layout layout = Layout::kKFirst;
    StageVariant variant = StageVariant::kNone;
    Form form = Form::kNone;
    MapKind map = MapKind::kNone;
    Type dtype = Type::kNone;
    Type z_dtype = Type::kNone;
    int32_t width = 0;         // 4, or 0 for a run-time width
    int32_t length_class = 0;  // core_chunk: see length_class()
};

/// Length classes that rows of a family are chosen for.
inline int32_t length_classes(Family family) { return family == Family::kCoreChunk ? kLengthClasses : 1; }

/// Configurations of one kernel for one target.
bool same_kernel(const KernelRow &a, const KernelRow &b);

/// The predicate of a row: whether it may be called with this (padded) K and V. Both are multiples of 16.
bool can_run(const KernelRow &row, int32_t k, int32_t v);

/// Addresses that the `next` input of a core_chunk row holds for this K and V.
int32_t fetch_slots(const KernelRow &row, int32_t k, int32_t v);

class Dispatch {
public:
    /// Bytes of an instance, its lists included. `rows` and `targets` outlive it.
    static size_t bytes(int32_t row_count);

    /// Builds into `memory` of bytes(row_count). Rows of targets before `first_target` or which `features` does not run are left out. Of a
    /// kernel that no choice speaks of for this device, the first row is taken.
    static Dispatch *create(void *memory, const TargetRow *targets, int32_t target_count, const KernelRow *rows, int32_t row_count,
        uint64_t features, int32_t first_target, const ChoiceRow *choices = nullptr, int32_t choice_count = 0,
        const Device &device = this_device());

    /// First row that can run: dedicated size, then run-time sizes with the widest panel first, of the best target; then the same of the
    /// next targets, the machine's reference last. NULL if there is none.
    const KernelRow *find(const Need &need, int32_t k, int32_t v) const;

    /// Run-time parameters of a row of this table, overrides applied.
    const RunParams &params(const KernelRow &row) const { return params_[&row - rows_]; }
    /// Why the row is the one of its kernel that runs.
    Level level(const KernelRow &row, int32_t length_class) const { return levels_[&row - rows_][length_class]; }
    /// Calls line(arg, text) for every level below the device's own that kernels of a target in use had to step down to, the last of which
    /// are the reference kernels.
    void describe_levels(void (*line)(void *arg, const char *text), void *arg) const;

    /// What a user changes before calls see the table; arrange() then chooses anew.
    RunParams *mutable_params() { return params_; }
    uint8_t *mutable_picks() { return picks_; }
    void arrange();
    /// The user's changes of another Dispatch over the same rows.
    void inherit(const Dispatch &before);

    /// Routes over these rows and parameters; calls add to it.
    RouteCache &routes() const { return routes_; }

    int32_t target() const { return target_; }  // index of the best target in use, -1 if the machine runs none
    const TargetRow *targets() const { return targets_; }
    int32_t target_count() const { return target_count_; }
    const KernelRow *rows() const { return rows_; }
    int32_t row_count() const { return row_count_; }

    Dispatch *next_retired = nullptr;  // list of those that a running call may still read; see context.cpp

private:
    struct Entry {
        const KernelRow *row;
        int32_t key, length_class;
    };
    static constexpr int32_t kKeys = 256;
    static int32_t key_of(const Need &need);
    const KernelRow *choose(int32_t from, int32_t to, int32_t length_class) const;
    Level level_of(const ChoiceRow &choice, int32_t length_class) const;

    const TargetRow *targets_;
    const KernelRow *rows_;
    int32_t target_count_;
    int32_t row_count_;
    int32_t target_;
    uint64_t runs_;  // bit per target
    const ChoiceRow *choices_;
    int32_t choice_count_;
    const Device *device_;
    int32_t first_[kKeys + 1];  // first_[key] .. first_[key + 1]: range of order_
    Entry *order_;
    RunParams *params_;
    Level (*levels_)[kLengthClasses];
    uint8_t *picks_;  // bit per length class: the user wants this row
    mutable RouteCache routes_;
};

/// Index of the target called `name`, -1 if there is none.
int32_t find_target(const TargetRow *targets, int32_t count, const char *name);

}  // namespace gdn
