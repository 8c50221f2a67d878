// What of a kernel's row follows from its configuration: one place for the table's generator and for candidates that take a row's place.
#pragma once

#include <map>
#include <string>

#include "kernel_table.h"

namespace gdn {

/// Sets the columns that a configuration decides; family, k, v and, of cores without a panel parameter, panel are there already.
inline void configure(KernelRow *row, const std::map<std::string, int> &config) {
    const auto value = [&config](const char *name) {
        const auto found = config.find(name);
        return found == config.end() ? 0 : found->second;
    };
    const bool chunks = row->family == Family::kCoreChunk || row->family == Family::kCoreBlock;
    if (chunks || row->family == Family::kCorePending) {
        row->panel = value("panel");
    }
    if (chunks) {
        row->chunk = value("chunk");
        row->rows = value("rows");
        row->cols = value("cols");
        row->fetch_lines = value("fetch_lines");
        row->fetch_slots =
            row->k && row->fetch_lines ? row->k / 2 / row->fetch_lines * (2 * row->chunk / row->rows) * (row->v / row->cols) : 0;
    }
    row->run = {
        value("time_block"), value("task_grain"), value("short_steps"), value("tail_steps"), value("v_slice_min"), value("fetch_ahead")};
}

}  // namespace gdn
