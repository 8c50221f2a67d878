#include "overrides.h"

#include <cstring>

#include "error.h"

namespace gdn {

namespace {

struct Parameter {
    const char *name;
    int32_t RunParams::*member;
    int32_t low, high, step;
};

constexpr Parameter kParameters[] = {
    {"time_block", &RunParams::time_block, 8, 4096, 8},
    {"task_grain", &RunParams::task_grain, 0, 65536, 1},
    {"short_steps", &RunParams::short_steps, 1, 64, 1},
    {"tail_steps", &RunParams::tail_steps, 0, 15, 1},
    {"v_slice_min", &RunParams::v_slice_min, 0, 256, 16},
};

struct Piece {
    const char *text;
    size_t length;

    bool is(const char *other) const { return strlen(other) == length && !memcmp(text, other, length); }
};

bool blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/// Cuts the next run of non-blank bytes off [*at, end).
Piece next_piece(const char **at, const char *end) {
    while (*at < end && blank(**at)) {
        ++*at;
    }
    const char *from = *at;
    while (*at < end && !blank(**at)) {
        ++*at;
    }
    return {from, (size_t)(*at - from)};
}

bool parse_number(const Piece &piece, int32_t *value) {
    if (!piece.length || piece.length > 9) {
        return false;
    }
    *value = 0;
    for (size_t i = 0; i < piece.length; i++) {
        if (piece.text[i] < '0' || piece.text[i] > '9') {
            return false;
        }
        *value = *value * 10 + (piece.text[i] - '0');
    }
    return true;
}

}  // namespace

gdn_status parse_overrides(const char *text, size_t size, const KernelRow *rows, int32_t row_count, RunParams *params) {
    if (size > kMaxOverrideBytes) {
        return fail(GDN_STATUS_CORRUPT, "overrides have more than %zu bytes", kMaxOverrideBytes);
    }
    const char *at = text, *const end = text + size;
    for (int line = 1; at < end; line++) {
        const char *newline = static_cast<const char *>(memchr(at, '\n', (size_t)(end - at)));
        const char *line_end = newline ? newline : end;
        const char *comment = static_cast<const char *>(memchr(at, '#', (size_t)(line_end - at)));
        const char *const stop = comment ? comment : line_end;
        const Piece name = next_piece(&at, stop), number = next_piece(&at, stop), rest = next_piece(&at, stop);
        at = line_end + (newline ? 1 : 0);
        if (!name.length) {
            continue;
        }
        const int shown = name.length > 80 ? 80 : (int)name.length;
        const char *dot = static_cast<const char *>(memrchr(name.text, '.', name.length));
        if (!dot || !number.length || rest.length) {
            return fail(GDN_STATUS_CORRUPT, "overrides, line %d: expected \"scope.parameter value\"", line);
        }
        const Piece scope = {name.text, (size_t)(dot - name.text)}, wanted = {dot + 1, name.length - scope.length - 1};
        const Parameter *parameter = nullptr;
        for (const Parameter &p : kParameters) {
            if (wanted.is(p.name)) {
                parameter = &p;
            }
        }
        if (!parameter) {
            return fail(GDN_STATUS_CORRUPT, "overrides, line %d: \"%.*s\" names no run-time parameter", line, shown, name.text);
        }
        int32_t value;
        if (!parse_number(number, &value) || value < parameter->low || value > parameter->high || value % parameter->step) {
            return fail(GDN_STATUS_CORRUPT, "overrides, line %d: %s is \"%.*s\", expected a multiple of %d from %d to %d", line,
                parameter->name, number.length > 32 ? 32 : (int)number.length, number.text, parameter->step, parameter->low,
                parameter->high);
        }
        bool found = false;
        for (int32_t i = 0; i < row_count; i++) {
            const KernelRow &row = rows[i];
            if ((row.family == Family::kCoreChunk || row.family == Family::kCoreStep) &&
                (scope.is(row.family_name) || scope.is(row.name) || scope.is(row.symbol))) {
                params[i].*parameter->member = value;
                found = true;
            }
        }
        if (!found) {
            return fail(
                GDN_STATUS_CORRUPT, "overrides, line %d: \"%.*s\" names no core kernel or family of this library", line, shown, name.text);
        }
    }
    return GDN_STATUS_OK;
}

}  // namespace gdn
