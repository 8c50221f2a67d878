// One worker's walk over its tasks.
#pragma once

#include <cstdint>

#include "calls.h"
#include "forward.h"

namespace gdn {

class MixerCalls;

class Scan {
public:
    /// With a mixer, q, k and v come through its convolutions and o goes through its norm.
    Scan(const Plan &plan, const Division &division, const Arena &arena, char *memory, MixerCalls *mixer = nullptr);

    /// Runs task 0 <= task < division.tasks.
    void run(int64_t task);
    const Calls &calls() const { return calls_; }

    // The parts of run(), for the mixer. Heads of heads() are counted in the mixer's order: all value heads of a key head in a row.
    void enter(int64_t sequence, int64_t slice);
    int64_t length() const { return length_; }
    void empty(int32_t hv0, int32_t hv1);
    /// Whether the sequence's one token may go through decode(): several heads per kernel call, states stepped where they are.
    bool decodes();
    void decode(int32_t hv0, int32_t hv1);
    void heads(int32_t hv0, int32_t hv1);

private:
    struct Head {
        int32_t hv;
        State home;              // where the state is between time blocks; K-first unless v_first_
        int64_t base[kSources];  // bytes from TokenView::data to the sequence's first token of this head
        char *o;
    };

    Head head_at(int32_t hv, int32_t index) const;
    StatePart part(const StateView &view, int64_t slot, int32_t hv, int64_t snapshot = 0) const;
    Pending pending(const PendingView &view, int64_t slot, int32_t hv) const;
    bool unsettled(int32_t hv, Pending *before) const;
    void leave_nothing_pending(int32_t hv);
    bool readable(const StateView &view) const;

    int32_t decode_run(int32_t hv, int32_t most) const;
    void block(const Head &head, const Head *next_head, int64_t next_token, int64_t t0, int64_t t1, bool first, bool last);
    void steps(const Head &head, State current);
    bool initial_state(const Head &head, State *state) const;
    void export_snapshot(const Head &head, State from, int64_t index);
    void boundary_snapshot(const Head &head, State from, int64_t tokens);
    void fill_group(const Head &head, int64_t t, int32_t n);
    void store(const Head &head, int64_t t, int32_t n, char *o);
    void list_next(const Head *next, int64_t next_t, const char *o_rows, int64_t o_bytes, int32_t o_count, const void *state);

    const Plan &plan_;
    const Division &division_;
    const Arena &arena_;
    MixerCalls *const mixer_;
    Calls calls_;
    RowGroup group_;
    int32_t listed_ = -1;  // entries of the slot list that are not the idle address; -1: the list is not made yet

    // of the current task
    int64_t sequence_ = 0, begin_ = 0, length_ = 0;
    int32_t class_ = 0;                 // of the sequence's length
    const KernelRow *chunk_ = nullptr;  // division's for this class
    int64_t initial_slot_ = -1, final_slot_ = -1;
    int32_t column_ = 0, columns_ = 0, valid_columns_ = 0;  // of the slice; valid: without the padding of V
    LengthPlan tokens_ = {0, 0};
    bool v_first_ = false;   // states are walked V-first: only steps, no copies
    bool direct_ = false;    // homes are the caller's final_state
    bool o_direct_ = false;  // cores write the caller's o
};

}  // namespace gdn
