// Moving states between the caller's layout and the K-first, padded form that the cores work on.
#pragma once

#include <cstdint>

namespace gdn {

/// A state in memory: rows of `row` elements apart. K-first unless the place says otherwise.
struct State {
    float *data;
    int32_t row;
};

/// The part of the caller's state that a task works on: K rows (or columns, V-first) and value channels [column, column + columns).
struct StatePart {
    float *data;  // of the whole state
    int32_t row;
    bool v_first;
    int32_t k, column, columns;
};

/// part -> home, kp x home.row, zeros beyond K and beyond the part's columns.
void import_state(const StatePart &part, State home, int32_t kp);
/// home -> part.
void export_state(State home, const StatePart &part);
/// rows x columns elements.
void copy_rows(State from, State to, int32_t rows, int32_t columns);
void zero_rows(State to, int32_t rows, int32_t columns);

/// A write that is still to be applied: the state is Diag(alpha) S + a r^T. Channels: k of alpha and a, r of the value channels.
struct Pending {
    float *alpha, *a, *r;
};

/// One that changes nothing; never written.
Pending nothing_pending();
/// (1, 0, 0): nothing to apply. A NaN in r is something, whatever a is.
bool is_settled(const Pending &pending, int32_t k, int32_t v);
/// Applies it to k x columns elements of `state` (V-first: columns x k) at value channel `column`.
void settle(State state, const Pending &pending, int32_t k, int32_t column, int32_t columns, bool v_first);

}  // namespace gdn
