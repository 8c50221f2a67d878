#include "forward.h"

#include <atomic>
#include <cstring>

#include "error.h"
#include "scan.h"
#include "workspace.h"

namespace gdn {

namespace {

/// What the workers of a call share.
struct Shared {
    const Plan &plan;
    const Division &division;
    const Arena &arena;
    char *memory;
    std::atomic<int64_t> next{0};
    std::atomic<int> failed{0};
    const char *kernel = nullptr;  // of the first failure; written by the worker that set `failed`
    char text[256] = "";
};

void run_lane(void *arg, int64_t lane) {
    Shared &shared = *static_cast<Shared *>(arg);
    // Work that is gone already is not worth the descriptors.
    if (shared.next.load(std::memory_order_relaxed) >= shared.division.tasks) {
        return;
    }
    Scan scan(shared.plan, shared.division, shared.arena, shared.memory + (size_t)lane * shared.arena.bytes);
    while (!shared.failed.load(std::memory_order_relaxed)) {
        const int64_t task =
            shared.division.lanes == 1 ? shared.next.load(std::memory_order_relaxed) : shared.next.fetch_add(1, std::memory_order_relaxed);
        if (task >= shared.division.tasks) {
            break;
        }
        if (shared.division.lanes == 1) {
            shared.next.store(task + 1, std::memory_order_relaxed);
        }
        scan.run(task);
        if (scan.calls().failed()) {
            int expected = 0;
            if (shared.failed.compare_exchange_strong(expected, 1)) {
                shared.kernel = scan.calls().failed_kernel();
                memcpy(shared.text, scan.calls().failed_text(), sizeof shared.text);
            }
            break;
        }
    }
}

gdn_status run_plan(gdn_context *context, const Plan &plan, const Dispatch &dispatch, const Arena &arena, char *memory) {
    const Division division = divide(plan, dispatch, context->threads);
    Shared shared = {plan, division, arena, memory};
    if (division.lanes == 1) {
        run_lane(&shared, 0);
    } else if (context->options.parallel_for) {
        context->options.parallel_for(context->options.parallel_for_user, division.lanes, run_lane, &shared);
    } else {
        context->pool->run(division.lanes, run_lane, &shared);
    }
    if (shared.failed.load()) {
        return fail(GDN_STATUS_INTERNAL, "kernel %s failed: %s", shared.kernel, shared.text);
    }
    return GDN_STATUS_OK;
}

}  // namespace

gdn_status run_operator(gdn_context *context, const gdn_args *args, Entry entry, void *workspace, size_t workspace_size) {
    const Dispatch &dispatch = *context->dispatch.load(std::memory_order_acquire);
    Plan plan;
    gdn_status status = make_plan(dispatch, args, entry, &plan);
    if (status == GDN_STATUS_OK && context->options.flags & GDN_CHECK_VALUES) {
        status = check_values(plan);
    }
    if (status != GDN_STATUS_OK) {
        return status;
    }
    const Arena arena = arena_of(plan);
    const size_t needed = workspace_bytes(plan, arena, context->threads);
    if (workspace) {
        if (reinterpret_cast<uintptr_t>(workspace) % 64) {
            return fail(GDN_STATUS_INVALID_ARGUMENT, "workspace is at an address that is not a multiple of 64");
        }
        if (workspace_size < needed) {
            return fail(
                GDN_STATUS_WORKSPACE_TOO_SMALL, "workspace has %zu bytes, expected %zu (gdn_workspace_size)", workspace_size, needed);
        }
        return run_plan(context, plan, dispatch, arena, static_cast<char *>(workspace));
    }
    if (workspace_size) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "workspace is NULL with %zu bytes, expected NULL and 0 or memory", workspace_size);
    }
    const BorrowedWorkspace borrowed(context, needed);
    if (!borrowed.data()) {
        return fail(GDN_STATUS_OUT_OF_MEMORY, "the allocator gave no workspace of %zu bytes", needed);
    }
    return run_plan(context, plan, dispatch, arena, static_cast<char *>(borrowed.data()));
}

}  // namespace gdn

using namespace gdn;

extern "C" {

gdn_status gdn_workspace_size(const gdn_context *context, const gdn_args *args, size_t *bytes) {
    if (!context || !bytes) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "%s is NULL", context ? "bytes" : "context");
    }
    Plan plan;
    const gdn_status status = make_plan(*context->dispatch.load(std::memory_order_acquire), args, Entry::kForward, &plan);
    if (status == GDN_STATUS_OK) {
        *bytes = workspace_bytes(plan, arena_of(plan), context->threads);
    }
    return report(context, status);
}

gdn_status gdn_supports(const gdn_context *context, const gdn_args *args) {
    if (!context) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "context is NULL");
    }
    Plan plan;
    return make_plan(*context->dispatch.load(std::memory_order_acquire), args, Entry::kForward, &plan);
}

gdn_status gdn_forward(gdn_context *context, const gdn_args *args, void *workspace, size_t workspace_bytes) {
    if (!context) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "context is NULL");
    }
    return report(context, run_operator(context, args, Entry::kForward, workspace, workspace_bytes));
}

gdn_status gdn_step(gdn_context *context, const gdn_args *args, void *workspace, size_t workspace_bytes) {
    if (!context) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "context is NULL");
    }
    return report(context, run_operator(context, args, Entry::kStep, workspace, workspace_bytes));
}

}  // extern "C"
