// What the entry points share: tasks taken in turn by the lanes of a call, and where its workspace comes from.
#pragma once

#include <atomic>
#include <cstring>

#include "context.h"
#include "error.h"
#include "halide_glue.h"
#include "workspace.h"

namespace gdn {

/// A call's tasks and the workers that take them. Worker is made as Worker(call, memory) on its lane and has run(task), failed_kernel()
/// (NULL: none failed) and failed_text().
template <typename Worker, typename Call> class Lanes {
public:
    /// `bytes` of `memory` to each lane.
    Lanes(const Call &call, const Division &division, size_t bytes, char *memory)
        : call_(call), division_(division), bytes_(bytes), memory_(memory) {}

    gdn_status run(gdn_context *context) {
        run_lanes(context, division_.lanes, run_lane, this);
        return failed_.load() ? fail(GDN_STATUS_INTERNAL, "kernel %s failed: %s", kernel_, text_) : GDN_STATUS_OK;
    }

private:
    static void run_lane(void *arg, int64_t lane) {
        Lanes &lanes = *static_cast<Lanes *>(arg);
        // Work that is gone already is not worth the descriptors.
        if (lanes.next_.load(std::memory_order_relaxed) >= lanes.division_.tasks) {
            return;
        }
        Worker worker(lanes.call_, lanes.memory_ + (size_t)lane * lanes.bytes_);
        while (!lanes.failed_.load(std::memory_order_relaxed)) {
            const int64_t task = lanes.take();
            if (task >= lanes.division_.tasks) {
                break;
            }
            worker.run(task);
            if (worker.failed_kernel()) {
                int expected = 0;
                if (lanes.failed_.compare_exchange_strong(expected, 1)) {
                    lanes.kernel_ = worker.failed_kernel();
                    memcpy(lanes.text_, worker.failed_text(), sizeof lanes.text_);
                }
                break;
            }
        }
    }

    int64_t take() {
        if (division_.lanes > 1) {
            return next_.fetch_add(1, std::memory_order_relaxed);
        }
        const int64_t task = next_.load(std::memory_order_relaxed);
        next_.store(task + 1, std::memory_order_relaxed);
        return task;
    }

    const Call &call_;
    const Division &division_;
    const size_t bytes_;
    char *const memory_;
    std::atomic<int64_t> next_{0};
    std::atomic<int> failed_{0};
    const char *kernel_ = nullptr;            // of the first failure; written by the worker that set `failed_`
    char text_[sizeof KernelContext::error];  // of that failure; of no meaning before
};

/// run(memory) in the caller's workspace, or in one of the context's where the caller brought none.
template <typename Run>
gdn_status in_workspace(gdn_context *context, size_t needed, void *workspace, size_t size, const char *asked, const Run &run) {
    if (workspace) {
        if (reinterpret_cast<uintptr_t>(workspace) % 64) {
            return fail(GDN_STATUS_INVALID_ARGUMENT, "workspace is at an address that is not a multiple of 64");
        }
        if (size < needed) {
            return fail(GDN_STATUS_WORKSPACE_TOO_SMALL, "workspace has %zu bytes, expected %zu (%s)", size, needed, asked);
        }
        return run(static_cast<char *>(workspace));
    }
    if (size) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "workspace is NULL with %zu bytes, expected NULL and 0 or memory", size);
    }
    const BorrowedWorkspace borrowed(context, needed);
    if (!borrowed.data()) {
        return fail(GDN_STATUS_OUT_OF_MEMORY, "the allocator gave no workspace of %zu bytes", needed);
    }
    return run(static_cast<char *>(borrowed.data()));
}

}  // namespace gdn
