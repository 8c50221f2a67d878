// A checked call: gdn_args flattened into what the drivers need, with the kernels chosen. Built on the stack for every call, nothing is
// kept.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "dispatch.h"
#include "gdn/gdn.h"

namespace gdn {

constexpr int32_t kMaxChannels = 256;  // largest K and V
constexpr int32_t kMaxRows = 16;       // rows of one kernel call: the largest chunk, or heads of one decode call
constexpr int64_t kMaxTokenStride = (INT32_MAX - 2 * kMaxChannels) / kMaxRows;  // elements; kernels address a call's rows with 32 bits
constexpr int64_t kMaxRowStride = INT32_MAX / (2 * kMaxChannels);               // elements between rows of a state, likewise

inline int32_t round_up16(int64_t n) { return (int32_t)((n + 15) & ~(int64_t)15); }

/// One token tensor. Strides in bytes unless said.
struct TokenView {
    const char *data;  // NULL: absent
    int64_t sequence;  // 0 when sequences are packed
    int64_t token;
    int64_t head;
    int32_t token_elements;  // token stride in elements; fits by kMaxTokenStride
    int32_t width;           // channels
    Type type;
    bool per_value_head;  // false: indexed by the key head
    bool scalar;          // one number per head: no channel axis
};

/// A_log, dt_bias: one row per head.
struct HeadView {
    const char *data;  // NULL: absent
    int64_t head;      // bytes
    bool per_value_head;
};

/// initial_state, final_state, snapshots: float32, innermost stride 1.
struct StateView {
    char *data;        // NULL: absent
    int64_t slot;      // bytes from sequence (or pool slot) to the next
    int64_t head;      // bytes
    int64_t snapshot;  // bytes from snapshot to snapshot
    int32_t row;       // elements between rows: of K rows (K-first) or V rows (V-first)
};

/// initial_pending, final_pending: rows (alpha [k], a [k], r [v]) of float32.
struct PendingView {
    char *data;          // NULL: absent
    int64_t slot, head;  // bytes
};

/// cu_seqlens and slots: i32 or i64.
struct IndexList {
    const char *data;  // NULL: absent
    int64_t stride;    // bytes
    bool wide;

    int64_t operator[](int64_t i) const {
        const char *p = data + i * stride;
        return wide ? *reinterpret_cast<const int64_t *>(p) : *reinterpret_cast<const int32_t *>(p);
    }
};

/// The route (kernels() and scratch_of()) comes out of the dispatch's cache: a field of it may depend on nothing but what route_key() holds.
struct Plan : Route {
    // sizes
    int64_t n;       // sequences
    int64_t tokens;  // per sequence; the total when packed
    int32_t h, hv, k, v;
    int32_t kp, vp;         // K and V as the kernels see them: rounded up to 16
    int32_t heads_per_key;  // HV / H

    // meaning
    gdn_variant variant;
    gdn_decay decay;
    gdn_gate gate;
    bool modulo;  // head map
    bool v_first;
    bool l2norm;
    bool scalar;  // decay per head, not per channel
    bool own;     // e is not beta a
    bool gla;     // e = 0, u = v
    float scale, gate_scale, lower_bound;

    // tensors
    TokenView source[kSources];
    TokenView o;
    HeadView A_log, dt_bias;
    StateView initial, final, snapshots;
    PendingView initial_pending, final_pending;
    IndexList initial_slots, final_slots, cu;
    gdn_snapshot_kind snapshot_kind;
    int64_t snapshot_count, snapshot_interval;

    // mixer: q and k, v come from, and o goes to, rows of workspace; see mixer_calls.h
    bool mixing;
    int32_t raw_element;  // bytes of an element of the caller's q, k and v

    bool aligned() const { return k == kp && v == vp; }
    /// States are driven in the caller's final_state; no copy of it in workspace.
    bool direct() const { return final.data && !v_first && aligned(); }
    /// A sequence of one token goes over its state once, and leaves its write pending.
    bool one_pass() const { return final_pending.data && pending && !v_first && !snapshot_count; }
    /// Channels of a source's row as the stage reads it: padded, or 1 for a gate per head. (A tensor of one channel is not such a gate.)
    int32_t row_width(int source) const {
        const bool scalar_g = stage->variant == StageVariant::kGdn, scalar_b = scalar_g || stage->variant == StageVariant::kKda;
        if ((source == kSourceG && scalar_g) || (source == kSourceB && scalar_b)) {
            return 1;
        }
        return source == kSourceV || source == kSourceW ? vp : kp;
    }
    /// Rows of scratch: those of the largest call.
    int32_t rows() const {
        int32_t most = 8;
        for (const KernelRow *row : {chunk[0], chunk[1], block}) {
            most = row && row->chunk > most ? row->chunk : most;
        }
        return most;
    }
    int64_t sequence_begin(int64_t s) const { return cu.data ? cu[s] : 0; }
    int64_t sequence_length(int64_t s) const { return cu.data ? cu[s + 1] - cu[s] : tokens; }
    int32_t head_of(int32_t hv_index, bool per_value_head) const {
        if (per_value_head) {
            return hv_index;
        }
        return modulo ? hv_index % h : hv_index / heads_per_key;
    }
};

enum class Entry : uint8_t { kForward, kStep };

/// An enumeration from the caller as the number that it is: it may hold anything.
template <typename E> int number_of(const E &value) {
    int number;
    static_assert(sizeof number == sizeof value, "enumerations of the C interface are ints");
    memcpy(&number, &value, sizeof number);
    return number;
}

gdn_dtype dtype_of(const gdn_tensor &t);
const char *dtype_name(gdn_dtype dtype);
Type type_of(gdn_dtype dtype);
int64_t bytes_of(gdn_dtype dtype);
bool is_float(gdn_dtype dtype);
/// A tensor counts as given when it has memory, or has none because it has no elements.
bool present(const gdn_tensor &t);

/// What checks the tensors of a call, as a PlanExtension sees it.
class TensorChecks {
public:
    /// Rank, extents (-1: any), strides, alignment. Notes what memory the tensor spans: no output may meet another tensor.
    virtual bool tensor(const char *name, const gdn_tensor &t, int32_t ndim, const int64_t *expected, bool inner_one, bool output) = 0;
    /// But `final` may be exactly the memory of `initial`.
    virtual void may_be(const gdn_tensor &final, const gdn_tensor &initial) = 0;

    gdn_status status = GDN_STATUS_OK;
    bool in_place = false;  // some state of the extension is, so that its slots must not be written by one and read by another sequence

protected:
    ~TensorChecks() = default;
};

/// Tensors that a call has beside the operator's.
class PlanExtension {
public:
    /// Called when everything but overlaps and slots has been checked and before kernels are chosen. On failure the text is set.
    virtual gdn_status check(TensorChecks &checks, Plan *plan) = 0;

protected:
    ~PlanExtension() = default;
};

/// Checks every argument and fills `plan`. On failure nothing has been written but the thread's error text.
/// Reads tensor data of cu_seqlens and slots only, unless `check_values`.
gdn_status make_plan(const Dispatch &dispatch, const gdn_args *args, Entry entry, Plan *plan, PlanExtension *extension = nullptr);

/// GDN_CHECK_VALUES: reads g and the gates whose sign the variant depends on.
gdn_status check_values(const Plan &plan);

const char *variant_name(gdn_variant variant);
const char *source_name(const Plan &plan, int source);

}  // namespace gdn
