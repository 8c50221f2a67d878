#include "forward.h"

#include "error.h"
#include "lanes.h"
#include "scan.h"
#include "workspace.h"

namespace gdn {

namespace {

struct OperatorCall {
    const Plan &plan;
    const Division &division;
    const Arena &arena;
};

class OperatorWorker {
public:
    OperatorWorker(const OperatorCall &call, char *memory) : scan_(call.plan, call.division, call.arena, memory) {}
    void run(int64_t task) { scan_.run(task); }
    const char *failed_kernel() const { return scan_.calls().failed_kernel(); }
    const char *failed_text() const { return scan_.calls().failed_text(); }

private:
    Scan scan_;
};

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
    return in_workspace(context, needed, workspace, workspace_size, "gdn_workspace_size", [&](char *memory) {
        const Division division = divide(plan, dispatch, context->threads);
        const OperatorCall call = {plan, division, arena};
        return Lanes<OperatorWorker, OperatorCall>(call, division, arena.bytes, memory).run(context);
    });
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
