#include "overrides.h"

#include <cstdio>
#include <cstring>

#include "dispatch.h"
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
    {"fetch_ahead", &RunParams::fetch_ahead, 0, 8, 1},
};

struct Piece {
    const char *text;
    size_t length;

    bool is(const char *other) const { return strlen(other) == length && !memcmp(text, other, length); }
    bool begins(const char *with) const { return strlen(with) <= length && !memcmp(text, with, strlen(with)); }
    Piece from(size_t at) const { return {text + at, length - at}; }
    int shown() const { return length > 80 ? 80 : (int)length; }
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

/// "core_chunk_channel_tied_128x128" of every target, or "core_chunk_channel_tied_128x128__x86_avx512".
bool names(const Piece &scope, const KernelRow &row) {
    if (!scope.begins(row.name)) {
        return false;
    }
    const Piece rest = scope.from(strlen(row.name));
    return !rest.length || (rest.begins("__") && rest.from(2).is(row.target_name));
}

/// Cuts the next "name:value" off a configuration's text.
Piece next_entry(const char **at, const char *end) {
    const char *comma = static_cast<const char *>(memchr(*at, ',', (size_t)(end - *at)));
    const Piece entry = {*at, (size_t)((comma ? comma : end) - *at)};
    *at = comma ? comma + 1 : end;
    return entry;
}

bool has_entry(const KernelRow &row, const Piece &wanted) {
    const char *at = row.config, *const end = at + strlen(at);
    while (at < end) {
        const Piece entry = next_entry(&at, end);
        if (entry.length == wanted.length && !memcmp(entry.text, wanted.text, wanted.length)) {
            return true;
        }
    }
    return false;
}

bool has_entries(const KernelRow &row, const Piece &wanted) {
    const char *at = wanted.text, *const end = at + wanted.length;
    while (at < end) {
        if (!has_entry(row, next_entry(&at, end))) {
            return false;
        }
    }
    return wanted.length > 0;
}

/// "0 (cols:32,rows:8), 1 (cols:16,rows:8)": what tells the configurations from .. to of a kernel apart.
void list_configurations(const KernelRow *rows, int32_t from, int32_t to, char *out, size_t size) {
    size_t n = 0;
    const auto add = [&](const char *before, const Piece &piece) {
        const int wrote = snprintf(out + n, size - n, "%s%.*s", before, (int)piece.length, piece.text);
        n = wrote < 0 || n + (size_t)wrote >= size ? size - 1 : n + (size_t)wrote;
    };
    out[0] = 0;
    for (int32_t i = from; i < to; i++) {
        char number[16];
        snprintf(number, sizeof number, "%s%d", i > from ? ", " : "", i - from);
        add(number, {"", 0});
        const char *at = rows[i].config, *const end = at + strlen(at), *before = " (";
        while (at < end) {
            const Piece entry = next_entry(&at, end);
            bool common = true;
            for (int32_t other = from; other < to; other++) {
                common &= has_entry(rows[other], entry);
            }
            if (!common) {
                add(before, entry);
                before = ",";
            }
        }
        add(*before == ',' ? ")" : "", {"", 0});
    }
}

/// "kernel@class.config which".
gdn_status pick(int line, const Piece &scope, const Piece &which, const KernelRow *rows, int32_t row_count, uint8_t *picks) {
    const char *at_sign = static_cast<const char *>(memchr(scope.text, '@', scope.length));
    const Piece kernel = {scope.text, at_sign ? (size_t)(at_sign - scope.text) : scope.length};
    const Piece length = {kernel.text + kernel.length, scope.length - kernel.length};
    const uint8_t mask = !length.length ? 3 : length.is("@short") ? 1 : length.is("@long") ? 2 : 0;
    if (!mask) {
        return fail(GDN_STATUS_CORRUPT, "overrides, line %d: \"%.*s\" is no length class, expected @short or @long", line, length.shown(),
            length.text);
    }
    bool known = false, picked = false;
    char exist[320] = "";
    for (int32_t from = 0, to; from < row_count; from = to) {
        to = from + 1;
        while (to < row_count && same_kernel(rows[from], rows[to])) {
            to++;
        }
        if (!names(kernel, rows[from])) {
            continue;
        }
        if (length.length && rows[from].family != Family::kCoreChunk) {
            return fail(GDN_STATUS_CORRUPT, "overrides, line %d: \"%.*s\": only kernels of core_chunk have length classes", line,
                scope.shown(), scope.text);
        }
        if (!known) {
            list_configurations(rows, from, to, exist, sizeof exist);
        }
        known = true;
        int32_t number, match = -1, matches = 0;
        if (parse_number(which, &number)) {
            match = from + number;
            matches = number < to - from;
        } else {
            for (int32_t i = from; i < to; i++) {
                if (has_entries(rows[i], which)) {
                    match = i;
                    matches++;
                }
            }
        }
        if (matches > 1) {
            list_configurations(rows, from, to, exist, sizeof exist);
            return fail(GDN_STATUS_CORRUPT, "overrides, line %d: \"%.*s\" fits more than one configuration of \"%.*s\": %s", line,
                which.shown(), which.text, kernel.shown(), kernel.text, exist);
        }
        if (matches) {
            for (int32_t i = from; i < to; i++) {
                picks[i] = (uint8_t)((picks[i] & ~mask) | (i == match ? mask : 0));
            }
            picked = true;
        }
    }
    if (!known) {
        return fail(GDN_STATUS_CORRUPT, "overrides, line %d: \"%.*s\" names no kernel of this library", line, kernel.shown(), kernel.text);
    }
    return picked ? GDN_STATUS_OK
                  : fail(GDN_STATUS_CORRUPT, "overrides, line %d: \"%.*s\" is no configuration of \"%.*s\", expected one of %s", line,
                        which.shown(), which.text, kernel.shown(), kernel.text, exist);
}

}  // namespace

gdn_status parse_overrides(const char *text, size_t size, const KernelRow *rows, int32_t row_count, RunParams *params, uint8_t *picks) {
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
        const int shown = name.shown();
        const char *dot = static_cast<const char *>(memrchr(name.text, '.', name.length));
        if (!dot || !number.length || rest.length) {
            return fail(GDN_STATUS_CORRUPT, "overrides, line %d: expected \"scope.parameter value\"", line);
        }
        const Piece scope = {name.text, (size_t)(dot - name.text)}, wanted = {dot + 1, name.length - scope.length - 1};
        if (wanted.is("config")) {
            const gdn_status status = pick(line, scope, number, rows, row_count, picks);
            if (status != GDN_STATUS_OK) {
                return status;
            }
            continue;
        }
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
                (scope.is(row.family_name) || names(scope, row) || scope.is(row.symbol))) {
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
