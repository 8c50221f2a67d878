// What there is and what a call would use: kernel and target lists, and gdn_explain's JSON, which is written by hand since libgdn has no
// JSON library.
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "context.h"
#include "cpu.h"
#include "error.h"
#include "forward.h"
#include "workspace.h"

namespace gdn {

namespace {

/// Appends to a bounded buffer and counts what would have been needed.
class Text {
public:
    Text(char *text, size_t size) : text_(text), size_(size) {}

    [[gnu::format(printf, 2, 3)]] void add(const char *format, ...) {
        va_list list;
        va_start(list, format);
        const size_t left = length_ < size_ ? size_ - length_ : 0;
        const int wrote = vsnprintf(left ? text_ + length_ : nullptr, left, format, list);
        va_end(list);
        length_ += wrote > 0 ? (size_t)wrote : 0;
    }
    size_t needed() const { return length_ + 1; }

private:
    char *text_;
    size_t size_, length_ = 0;
};

const char *type_name(Type type) { return type == Type::kF32 ? "f32" : type == Type::kBf16 ? "bf16" : "f16"; }

const char *level_name(Level level) {
    switch (level) {
    case Level::kDevice: return "device";
    case Level::kArchitecture: return "architecture";
    case Level::kVendor: return "vendor";
    case Level::kDefault: return "default";
    case Level::kOverride: return "override";
    case Level::kReference: return "reference";
    case Level::kOnly: return "only";
    }
    return "unknown";
}

/// The list of kernels, one object per role, and of chunks one per length class that the call has.
class KernelList {
public:
    KernelList(const Dispatch &dispatch, Text &text) : dispatch_(dispatch), text_(text) {}

    void add(const char *role, const char *tensor, const KernelRow *row, const char *why, int32_t length_class = -1) {
        text_.add("%s{\"role\": \"%s\"", any_ ? ", " : "", role);
        if (tensor) {
            text_.add(", \"tensor\": \"%s\"", tensor);
        }
        if (length_class >= 0) {
            text_.add(", \"class\": \"%s\"", length_class ? "long" : "short");
        }
        text_.add(", \"kernel\": \"%s\", \"target\": \"%s\", \"config\": \"%s\", \"level\": \"%s\", \"why\": \"%s\"}", row->symbol,
            row->target_name, row->config, level_name(dispatch_.level(*row, length_class > 0)), why);
        any_ = true;
    }

private:
    const Dispatch &dispatch_;
    Text &text_;
    bool any_ = false;
};

/// The best target in use whose cores have this precision: what an ordinary call can hope for where the very best has low precision only.
int32_t best_target(const Dispatch &dispatch, Precision precision) {
    int32_t best = dispatch.target_count();
    for (int32_t i = 0; i < dispatch.row_count(); i++) {
        const KernelRow &row = dispatch.rows()[i];
        const bool runs = !(parse_features(dispatch.targets()[row.target].features) & ~cpu_features());
        if (row.family == Family::kCoreChunk && row.precision == precision && row.target >= dispatch.target() && runs &&
            row.target < best) {
            best = row.target;
        }
    }
    return best < dispatch.target_count() ? best : dispatch.target();
}

const char *core_reason(const KernelRow &row, int32_t best_target) {
    if (row.target != best_target) {
        return "the chosen target has no kernel for this, so the next one's is used";
    }
    return row.k && row.v ? "made for this size" : "no kernel of this size, so one with sizes at run time";
}

void explain(const gdn_context &context, const Dispatch &dispatch, const Plan &plan, Text &text) {
    const Division division = divide(plan, dispatch, context.threads);
    const RunParams &run = plan.run[length_class(longest(plan))];
    const int32_t target = best_target(dispatch, plan.chunk[0] ? plan.chunk[0]->precision : Precision::kF32);
    bool forced = false;  // a better target that was passed over
    for (int32_t t = 0; t < dispatch.target(); t++) {
        forced |= !(parse_features(dispatch.targets()[t].features) & ~cpu_features());
    }
    text.add("{\"target\": \"%s\", \"target_why\": \"%s\"", dispatch.targets()[target].name,
        forced ? "forced" : "the best one that this machine runs");
    text.add(", \"variant\": \"%s\", \"dtype\": \"%s\", \"sequences\": %lld, \"tokens\": %lld, \"key_heads\": %d, \"value_heads\": %d, "
             "\"k\": %d, \"v\": %d",
        variant_name(plan.variant), type_name(plan.o.type), (long long)plan.n, (long long)plan.tokens, plan.h, plan.hv, plan.k, plan.v);
    if (!plan.aligned()) {
        text.add(", \"padded_k\": %d, \"padded_v\": %d", plan.kp, plan.vp);
    }
    text.add(", \"kernels\": [");
    KernelList list(dispatch, text);
    bool mapped = false;
    for (int i = 0; i < kSources; i++) {
        if (plan.map[i]) {
            list.add("map", source_name(plan, i), plan.map[i], "no stage reads this dtype, unit or width itself");
            mapped = true;
        }
    }
    list.add("stage", nullptr, plan.stage, mapped ? "needs the fewest maps before it" : "reads these tensors as they are");
    // Which cores run depends on the length class of each sequence.
    bool chunked[kLengthClasses] = {}, stepped = false, one_pass = false;
    const int64_t sequences = plan.cu.data ? plan.n : plan.n > 0;
    for (int64_t s = 0; s < sequences; s++) {
        const LengthPlan length = length_plan(plan, plan.sequence_length(s));
        chunked[length_class(plan.sequence_length(s))] |= length.chunk_tokens > 0;
        const bool pass = plan.one_pass() && plan.sequence_length(s) == 1;
        one_pass |= pass;
        stepped |= length.step_tokens > 0 && !pass;
    }
    for (int32_t i = 0; i < kLengthClasses; i++) {
        if (chunked[i]) {
            list.add("chunk", nullptr, division.chunk[i], core_reason(*division.chunk[i], target), i);
        }
    }
    if (one_pass) {
        list.add("step", nullptr, plan.pending, "one pass over the state: the token's write stays pending");
    }
    if (stepped) {
        const KernelRow *step =
            plan.v_first && !chunked[0] && !chunked[1] && division.v_first_step && plan.aligned() ? division.v_first_step : division.step;
        list.add("step", nullptr, step, core_reason(*step, best_target(dispatch, Precision::kF32)));
    }
    if (plan.block && plan.snapshot_count && plan.snapshot_kind == GDN_SNAPSHOT_LAST_TOKENS && !plan.v_first) {
        list.add("block", nullptr, plan.block, "keeps the state after every token");
    }
    if (plan.store) {
        list.add("store", nullptr, plan.store, "o is not float32");
    }
    text.add("], \"state\": \"%s\"", plan.direct()      ? "lives in final_state between time blocks"
                                     : !plan.final.data ? "in workspace: no final_state is wanted"
                                     : plan.v_first     ? "in workspace while chunks run: V-first"
                                                        : "in workspace: K or V is not a multiple of 16");
    text.add(", \"threads\": %d, \"workers\": %d, \"tasks\": %lld, \"heads_per_task\": %d, \"v_slices\": %d", context.threads,
        division.lanes, (long long)division.tasks, division.heads_per_task, division.slices);
    text.add(", \"time_block\": %d, \"short_steps\": %d, \"tail_steps\": %d, \"workspace_bytes\": %zu}", run.time_block, run.short_steps,
        run.tail_steps, workspace_bytes(plan, arena_of(plan), context.threads));
}

}  // namespace
}  // namespace gdn

using namespace gdn;

extern "C" {

int64_t gdn_kernel_count(void) { return kKernelRowCount; }

gdn_status gdn_kernel_get(int64_t index, gdn_kernel_info *info) {
    if (!info) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "info is NULL");
    }
    if (index < 0 || index >= kKernelRowCount) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "index is %lld, expected 0 to %d", (long long)index, (int)kKernelRowCount - 1);
    }
    const KernelRow &row = kKernelRows[index];
    int32_t first = (int32_t)index;
    while (first > 0 && same_kernel(kKernelRows[first - 1], row)) {
        first--;
    }
    *info = {row.symbol, row.family_name, row.target_name, row.config, row.generator,
        !(parse_features(kTargetRows[row.target].features) & ~cpu_features()), (int32_t)index - first, row.name};
    return GDN_STATUS_OK;
}

int64_t gdn_target_count(void) { return kTargetRowCount; }

gdn_status gdn_target_get(int64_t index, gdn_target_info *info) {
    if (!info) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "info is NULL");
    }
    if (index < 0 || index >= kTargetRowCount) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "index is %lld, expected 0 to %d", (long long)index, (int)kTargetRowCount - 1);
    }
    const TargetRow &row = kTargetRows[index];
    *info = {row.name, row.features, !(parse_features(row.features) & ~cpu_features())};
    return GDN_STATUS_OK;
}

gdn_status gdn_explain(const gdn_context *context, const gdn_args *args, char *text, size_t size, size_t *needed) {
    if (!context) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "context is NULL");
    }
    if (!text && size) {
        return report(context, fail(GDN_STATUS_INVALID_ARGUMENT, "text is NULL, expected %zu bytes", size));
    }
    const Dispatch &dispatch = *context->dispatch.load(std::memory_order_acquire);
    Plan plan;
    const gdn_status status = make_plan(dispatch, args, Entry::kForward, &plan);
    if (status != GDN_STATUS_OK) {
        return report(context, status);
    }
    Text out(text, size);
    explain(*context, dispatch, plan, out);
    if (needed) {
        *needed = out.needed();
    }
    return GDN_STATUS_OK;
}

}  // extern "C"
