// The mixer: convolutions before the operator, gated norm behind it, in one walk over heads and tokens. Every chunk of a head passes
// through the whole of it while its rows are in the nearest cache; nothing waits for anything but its own rows.
#include <algorithm>
#include <cstring>

#include "error.h"
#include "lanes.h"
#include "mixer_calls.h"
#include "scan.h"

namespace gdn {

namespace {

struct MixerCall {
    const Plan &plan;
    const MixerPlan &mixer;
    const Division &division;
    const Arena &arena;
    const MixerArena &mixer_arena;
};

/// A task is one sequence and some key heads with all their value heads.
class MixerWorker {
public:
    MixerWorker(const MixerCall &call, char *memory)
        : plan_(call.plan), mixer_(call.mixer), division_(call.division), calls_(call.plan, call.mixer, call.mixer_arena, memory),
          scan_(plan_, call.division, call.arena, memory, &calls_) {}

    void run(int64_t task) {
        const int32_t values = plan_.heads_per_key, per_task = division_.heads_per_task / values;
        const int32_t first = (int32_t)(task % division_.groups) * per_task, last = std::min(first + per_task, plan_.h);
        scan_.enter(task / division_.groups, 0);
        calls_.enter(task / division_.groups);
        if (scan_.length() == 0) {
            each_run(first, last - first, [this](int32_t hv, int32_t n, int32_t) { scan_.empty(hv, hv + n); });
        } else if (scan_.length() > 1 || !token(first, last)) {
            scan_.heads(first * values, last * values);
        }
        if (mixer_.width > 1) {
            calls_.finish(kSourceQ, first, last - first);
            calls_.finish(kSourceK, first, last - first);
            each_run(first, last - first, [this](int32_t hv, int32_t n, int32_t) { calls_.finish(kSourceV, hv, n); });
        }
    }

    const char *failed_kernel() const { return calls_.failed() ? calls_.failed_kernel() : scan_.calls().failed_kernel(); }
    const char *failed_text() const { return calls_.failed() ? calls_.failed_text() : scan_.calls().failed_text(); }

private:
    /// body(first, count, at) for every run of neighbouring value heads of these key heads; `at` counts the heads of the runs before.
    template <typename Body> void each_run(int32_t key, int32_t keys, const Body &body) {
        if (!plan_.modulo || keys == plan_.h) {
            body(key * plan_.heads_per_key, keys * plan_.heads_per_key, 0);
            return;
        }
        for (int32_t i = 0; i < plan_.heads_per_key; i++) {
            body(i * plan_.h + key, keys, i * keys);
        }
    }

    /// One token: all heads of a group through a kernel before the next kernel. False if the operator cannot.
    bool token(int32_t first, int32_t last) {
        if (!scan_.decodes()) {
            return false;
        }
        const TokenView source[3] = {plan_.source[0], plan_.source[1], plan_.source[2]}, o = plan_.o;
        for (int32_t key = first, step = token_keys(plan_); key < last; key += step) {
            const int32_t keys = std::min(step, last - key);
            if (mixer_.convolves) {
                calls_.token(kSourceQ, key, keys, calls_.token_rows(kSourceQ));
                calls_.token(kSourceK, key, keys, calls_.token_rows(kSourceK));
                at_rows(kSourceQ, calls_.token_rows(kSourceQ), key, plan_.k);
                at_rows(kSourceK, calls_.token_rows(kSourceK), key, plan_.k);
            }
            each_run(key, keys, [&](int32_t hv, int32_t n, int32_t at) {
                const int64_t from = (int64_t)at * plan_.v;
                if (mixer_.convolves) {
                    calls_.token(kSourceV, hv, n, calls_.token_rows(kSourceV) + from);
                    at_rows(kSourceV, calls_.token_rows(kSourceV) + from, hv, plan_.v);
                }
                move(&plan_.o, calls_.token_o() + from, hv, plan_.v);
                scan_.decode(hv, hv + n);
                calls_.token_norm(hv, n, calls_.token_o() + from);
            });
        }
        std::copy(source, source + 3, plan_.source);
        plan_.o = o;
        return true;
    }

    void at_rows(Source source, float *rows, int32_t first, int32_t width) { move(&plan_.source[source], rows, first, width); }
    /// Lets a view find head `first` at `rows`, the next heads `width` floats apart, whatever the sequence and its token.
    static void move(TokenView *view, float *rows, int32_t first, int32_t width) {
        view->data = reinterpret_cast<char *>(rows) - (int64_t)first * width * 4;
        view->sequence = view->token = 0;
        view->head = (int64_t)width * 4;
        view->type = Type::kF32;
    }

    Plan plan_;  // this worker's: views of the operator move to rows of workspace
    const MixerPlan &mixer_;
    const Division &division_;
    MixerCalls calls_;
    Scan scan_;
};

struct Layout {
    Arena arena;
    MixerArena mixer;
    size_t bytes;  // of the call
};

Layout layout_of(const gdn_context *context, const Plan &plan, const MixerPlan &mixer) {
    Layout layout;
    layout.arena = arena_of(plan);
    layout.mixer = mixer_arena(plan, mixer, &layout.arena);
    layout.bytes = mixer.weight_bytes + workspace_bytes(plan, layout.arena, context->threads);
    return layout;
}

gdn_status run_mixer(gdn_context *context, const gdn_mixer_args *args, Entry entry, void *workspace, size_t workspace_size) {
    const Dispatch &dispatch = *context->dispatch.load(std::memory_order_acquire);
    Plan plan;
    MixerPlan mixer;
    gdn_status status = make_mixer_plan(dispatch, args, entry, &plan, &mixer);
    if (status == GDN_STATUS_OK && context->options.flags & GDN_CHECK_VALUES) {
        status = check_values(plan);
    }
    if (status != GDN_STATUS_OK) {
        return status;
    }
    const Layout layout = layout_of(context, plan, mixer);
    return in_workspace(context, layout.bytes, workspace, workspace_size, "gdn_mixer_workspace_size", [&](char *memory) {
        transpose_weights(&mixer, memory);
        const Division division = divide(plan, dispatch, context->threads);
        const MixerCall call = {plan, mixer, division, layout.arena, layout.mixer};
        return Lanes<MixerWorker, MixerCall>(call, division, layout.arena.bytes, memory + mixer.weight_bytes).run(context);
    });
}

}  // namespace
}  // namespace gdn

using namespace gdn;

extern "C" {

void gdn_mixer_args_init(gdn_mixer_args *args) {
    if (!args) {
        return;
    }
    memset(args, 0, sizeof *args);
    args->struct_size = sizeof *args;
    args->conv_activation = GDN_ACTIVATION_SILU;
    args->output_norm = 1;
    args->norm_eps = 1e-5f;
}

gdn_status gdn_mixer_workspace_size(const gdn_context *context, const gdn_mixer_args *args, size_t *bytes) {
    if (!context || !bytes) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "%s is NULL", context ? "bytes" : "context");
    }
    Plan plan;
    MixerPlan mixer;
    const gdn_status status = make_mixer_plan(*context->dispatch.load(std::memory_order_acquire), args, Entry::kForward, &plan, &mixer);
    if (status == GDN_STATUS_OK) {
        *bytes = layout_of(context, plan, mixer).bytes;
    }
    return report(context, status);
}

gdn_status gdn_mixer_forward(gdn_context *context, const gdn_mixer_args *args, void *workspace, size_t workspace_bytes) {
    if (!context) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "context is NULL");
    }
    return report(context, run_mixer(context, args, Entry::kForward, workspace, workspace_bytes));
}

gdn_status gdn_mixer_step(gdn_context *context, const gdn_mixer_args *args, void *workspace, size_t workspace_bytes) {
    if (!context) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "context is NULL");
    }
    return report(context, run_mixer(context, args, Entry::kStep, workspace, workspace_bytes));
}

}  // extern "C"
