#include "state.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "constant_rows.h"

namespace gdn {

namespace {

constexpr int32_t kTile = 16;  // a cache line of floats: transposing tile by tile touches every line once

/// to[j * to_row + i] = from[i * from_row + j]
void transpose(const float *from, int64_t from_row, float *to, int64_t to_row, int32_t rows, int32_t columns) {
    for (int32_t i0 = 0; i0 < rows; i0 += kTile) {
        for (int32_t j0 = 0; j0 < columns; j0 += kTile) {
            const int32_t i1 = std::min(i0 + kTile, rows), j1 = std::min(j0 + kTile, columns);
            for (int32_t j = j0; j < j1; j++) {
                for (int32_t i = i0; i < i1; i++) {
                    to[j * to_row + i] = from[i * from_row + j];
                }
            }
        }
    }
}

}  // namespace

void copy_rows(State from, State to, int32_t rows, int32_t columns) {
    if (from.row == columns && to.row == columns) {
        memcpy(to.data, from.data, (size_t)rows * (size_t)columns * sizeof(float));
        return;
    }
    for (int32_t r = 0; r < rows; r++) {
        memcpy(to.data + (int64_t)r * to.row, from.data + (int64_t)r * from.row, (size_t)columns * sizeof(float));
    }
}

void zero_rows(State to, int32_t rows, int32_t columns) {
    for (int32_t r = 0; r < rows; r++) {
        memset(to.data + (int64_t)r * to.row, 0, (size_t)columns * sizeof(float));
    }
}

void import_state(const StatePart &part, State home, int32_t kp) {
    if (part.k < kp || part.columns < home.row) {
        zero_rows(home, kp, home.row);
    }
    if (part.v_first) {
        transpose(part.data + (int64_t)part.column * part.row, part.row, home.data, home.row, part.columns, part.k);
    } else {
        copy_rows({part.data + part.column, part.row}, home, part.k, part.columns);
    }
}

void export_state(State home, const StatePart &part) {
    if (part.v_first) {
        transpose(home.data, home.row, part.data + (int64_t)part.column * part.row, part.row, part.k, part.columns);
    } else {
        copy_rows(home, {part.data + part.column, part.row}, part.k, part.columns);
    }
}

Pending nothing_pending() {
    float *const zeros = const_cast<float *>(kConstantRows.zeros);
    return {const_cast<float *>(kConstantRows.ones), zeros, zeros};
}

bool is_settled(const Pending &pending, int32_t k, int32_t v) {
    const auto all = [](const float *row, int32_t n, float value) {
        return std::all_of(row, row + n, [=](float x) { return x == value; });
    };
    return all(pending.alpha, k, 1.0f) && all(pending.a, k, 0.0f) && all(pending.r, v, 0.0f);
}

void settle(State state, const Pending &pending, int32_t k, int32_t column, int32_t columns, bool v_first) {
    const float *r = pending.r + column;
    for (int32_t i = 0; i < (v_first ? columns : k); i++) {
        float *row = state.data + (int64_t)i * state.row;
        if (v_first) {
            for (int32_t c = 0; c < k; c++) {
                row[c] = pending.alpha[c] * row[c] + pending.a[c] * r[i];
            }
        } else {
            for (int32_t j = 0; j < columns; j++) {
                row[j] = pending.alpha[i] * row[j] + pending.a[i] * r[j];
            }
        }
    }
}

}  // namespace gdn
