#include "context.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "cpu.h"
#include "error.h"
#include "halide_glue.h"
#include "overrides.h"

namespace gdn {

void *context_alloc(const gdn_context_options &options, size_t bytes, size_t alignment) {
    if (options.alloc) {
        return options.alloc(options.alloc_user, bytes, alignment);
    }
    const size_t rounded = (bytes + alignment - 1) & ~(alignment - 1);
    return rounded < bytes ? nullptr : aligned_alloc(alignment, rounded);
}

void context_free(const gdn_context_options &options, void *memory, size_t bytes) {
    if (!memory) {
        return;
    }
    if (options.alloc) {
        options.free(options.alloc_user, memory, bytes);
    } else {
        free(memory);
    }
}

void run_lanes(gdn_context *context, int32_t lanes, Body body, void *arg) {
    if (lanes <= 1) {
        body(arg, 0);
    } else if (context->options.parallel_for) {
        context->options.parallel_for(context->options.parallel_for_user, lanes, body, arg);
    } else {
        context->pool->run(lanes, body, arg);
    }
}

void context_log(const gdn_context *context, gdn_log_level level, const char *line) {
    if (context->options.log && level <= context->log_level) {
        context->options.log(context->options.log_user, level, line);
    }
}

gdn_status report(const gdn_context *context, gdn_status status) {
    if (status != GDN_STATUS_OK && context && context->options.log) {
        context_log(context, GDN_LOG_ERROR, last_error());
    }
    return status;
}

BorrowedWorkspace::BorrowedWorkspace(gdn_context *context, size_t bytes) : context_(context) {
    for (auto &place : context->blocks) {
        if (!place.load(std::memory_order_relaxed)) {
            continue;
        }
        block_ = place.exchange(nullptr, std::memory_order_acquire);
        if (block_ && block_->bytes >= bytes) {
            return;
        }
        if (block_) {  // too small for this shape: the larger one takes its place
            context_free(context->options, block_, block_->bytes + kHeader);
            block_ = nullptr;
        }
    }
    void *memory = context_alloc(context->options, bytes + kHeader, kHeader);
    if (memory) {
        block_ = static_cast<gdn_context::Block *>(memory);
        block_->bytes = bytes;
    }
}

BorrowedWorkspace::~BorrowedWorkspace() {
    if (!block_) {
        return;
    }
    for (auto &place : context_->blocks) {
        gdn_context::Block *expected = nullptr;
        if (place.compare_exchange_strong(expected, block_, std::memory_order_release, std::memory_order_relaxed)) {
            return;
        }
    }
    context_free(context_->options, block_, block_->bytes + kHeader);
}

namespace {

/// Puts a new table in place of the context's; `change` is held.
void replace_dispatch(gdn_context *context, Dispatch *next) {
    Dispatch *before = context->dispatch.load(std::memory_order_relaxed);
    if (before) {
        before->next_retired = context->retired;
        context->retired = before;
    }
    context->dispatch.store(next, std::memory_order_release);
}

Dispatch *new_dispatch(const gdn_context *context, int32_t first_target) {
    void *memory = context_alloc(context->options, Dispatch::bytes(kKernelRowCount), 64);
    return memory ? Dispatch::create(memory, kTargetRows, kTargetRowCount, kKernelRows, kKernelRowCount, cpu_features(), first_target,
                        kChoiceRows, kChoiceRowCount)
                  : nullptr;
}

gdn_status out_of_memory(size_t bytes) { return fail(GDN_STATUS_OUT_OF_MEMORY, "the allocator gave no memory of %zu bytes", bytes); }

gdn_status check_target(const char *target, int32_t *index) {
    *index = 0;
    if (!strcmp(target, "auto")) {
        return GDN_STATUS_OK;
    }
    *index = find_target(kTargetRows, kTargetRowCount, target);
    if (*index < 0) {
        char names[256] = "auto";
        for (int32_t i = 0; i < kTargetRowCount; i++) {
            const size_t at = strlen(names);
            snprintf(names + at, sizeof names - at, ", %s", kTargetRows[i].name);
        }
        return fail(GDN_STATUS_INVALID_ARGUMENT, "target \"%.64s\" is unknown, expected one of %s", target, names);
    }
    if (parse_features(kTargetRows[*index].features) & ~cpu_features()) {
        return fail(GDN_STATUS_UNSUPPORTED, "target %s needs the CPU features %s, which this machine or its system does not offer", target,
            kTargetRows[*index].features);
    }
    return GDN_STATUS_OK;
}

/// New table for `first_target` with the user's changes of the one before, so that overrides outlive a change of target.
gdn_status set_target(gdn_context *context, const char *target) {
    int32_t index;
    const gdn_status status = check_target(target, &index);
    if (status != GDN_STATUS_OK) {
        return status;
    }
    pthread_mutex_lock(&context->change);
    Dispatch *next = new_dispatch(context, index);
    if (next) {
        const Dispatch *before = context->dispatch.load(std::memory_order_relaxed);
        if (before) {
            next->inherit(*before);
        }
        replace_dispatch(context, next);
    }
    pthread_mutex_unlock(&context->change);
    return next ? GDN_STATUS_OK : out_of_memory(Dispatch::bytes(kKernelRowCount));
}

gdn_status apply_overrides(gdn_context *context, const char *text, size_t size) {
    pthread_mutex_lock(&context->change);
    const Dispatch *before = context->dispatch.load(std::memory_order_relaxed);
    const size_t bytes = Dispatch::bytes(kKernelRowCount);
    Dispatch *next = new_dispatch(context, before->target() < 0 ? 0 : before->target());
    gdn_status status = next ? GDN_STATUS_OK : out_of_memory(bytes);
    if (next) {
        next->inherit(*before);
        status = parse_overrides(text, size, kKernelRows, kKernelRowCount, next->mutable_params(), next->mutable_picks());
        if (status == GDN_STATUS_OK) {
            next->arrange();
            replace_dispatch(context, next);
        } else {
            context_free(context->options, next, bytes);
        }
    }
    pthread_mutex_unlock(&context->change);
    return status;
}

/// Reads `gdn.tuned` of a folder and applies it.
gdn_status load_tuned(gdn_context *context, const char *folder) {
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/gdn.tuned", folder) >= sizeof path) {
        return fail(GDN_STATUS_IO, "tuned_dir is longer than a path may be");
    }
    FILE *file = fopen(path, "rbe");
    if (!file) {
        return fail(GDN_STATUS_IO, "%.300s: %s", path, strerror(errno));
    }
    char *text = static_cast<char *>(malloc(kMaxOverrideBytes + 1));
    gdn_status status = text ? GDN_STATUS_OK : out_of_memory(kMaxOverrideBytes + 1);
    if (text) {
        const size_t size = fread(text, 1, kMaxOverrideBytes + 1, file);
        if (ferror(file)) {
            status = fail(GDN_STATUS_IO, "%.300s: could not be read", path);
        } else {
            status = apply_overrides(context, text, size);
        }
    }
    free(text);
    fclose(file);
    return status;
}

gdn_status thread_count(const gdn_context_options &options, int32_t *threads) {
    if (options.num_threads < 0 || options.num_threads > 4096) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "num_threads is %d, expected 0 to 4096", options.num_threads);
    }
    *threads = options.num_threads;
    if (*threads) {
        return GDN_STATUS_OK;
    }
    const char *wish = getenv("GDN_NUM_THREADS");
    if (wish && *wish) {
        char *end;
        const long count = strtol(wish, &end, 10);
        if (*end || count < 1 || count > 4096) {
            return fail(GDN_STATUS_INVALID_ARGUMENT, "GDN_NUM_THREADS is \"%.32s\", expected 1 to 4096", wish);
        }
        *threads = (int32_t)count;
        return GDN_STATUS_OK;
    }
    *threads = affinity_count();
    return GDN_STATUS_OK;
}

gdn_status log_level(gdn_log_level *level) {
    const char *wish = getenv("GDN_LOG");
    *level = GDN_LOG_WARNING;
    if (!wish || !*wish) {
        return GDN_STATUS_OK;
    }
    constexpr const char *kNames[] = {"error", "warning", "info"};
    for (int i = 0; i < 3; i++) {
        if (!strcmp(wish, kNames[i])) {
            *level = (gdn_log_level)i;
            return GDN_STATUS_OK;
        }
    }
    return fail(GDN_STATUS_INVALID_ARGUMENT, "GDN_LOG is \"%.32s\", expected error, warning or info", wish);
}

/// What runs from now on, and a line for each step down.
void log_dispatch(gdn_context *context) {
    const Dispatch *dispatch = context->dispatch.load(std::memory_order_relaxed);
    char line[160];
    snprintf(line, sizeof line, "target %s, %d threads, %d kernels", dispatch->target() < 0 ? "none" : kTargetRows[dispatch->target()].name,
        context->threads, (int)kKernelRowCount);
    context_log(context, GDN_LOG_INFO, line);
    dispatch->describe_levels(
        [](void *made, const char *text) { context_log(static_cast<gdn_context *>(made), GDN_LOG_INFO, text); }, context);
}

gdn_status start(gdn_context *context) {
    gdn_context_options &options = context->options;
    gdn_status status = thread_count(options, &context->threads);
    if (status == GDN_STATUS_OK) {
        status = log_level(&context->log_level);
    }
    const auto from_environment = [](const char *given, const char *name) {
        const char *value = given ? given : getenv(name);
        return value && *value ? value : nullptr;
    };
    if (status == GDN_STATUS_OK) {
        const char *target = from_environment(options.target, "GDN_TARGET");
        status = set_target(context, target ? target : "auto");
    }
    const char *tuned = from_environment(options.tuned_dir, "GDN_TUNED_DIR");
    if (status == GDN_STATUS_OK && tuned) {
        status = load_tuned(context, tuned);
    }
    options.target = options.tuned_dir = nullptr;  // the caller's strings may go now
    if (status == GDN_STATUS_OK && context->threads > 1 && !options.parallel_for) {
        void *memory = context_alloc(options, sizeof(Pool), 64);
        if (!memory) {
            return out_of_memory(sizeof(Pool));
        }
        context->pool = new (memory) Pool(context->threads);
    }
    if (status == GDN_STATUS_OK) {
        log_dispatch(context);
    }
    return status;
}

/// The caller's items, which lanes take in turn.
struct Items {
    int64_t count;
    void (*body)(void *arg, int64_t i);
    void *arg;
    std::atomic<int64_t> next{0};
};

void run_items(void *arg, int64_t) {
    Items &items = *static_cast<Items *>(arg);
    for (int64_t i; (i = items.next.fetch_add(1, std::memory_order_relaxed)) < items.count;) {
        items.body(items.arg, i);
    }
}

}  // namespace
}  // namespace gdn

using namespace gdn;

extern "C" {

const char *gdn_version(void) {
#define GDN_TEXT_(x) #x
#define GDN_TEXT(x) GDN_TEXT_(x)
    return GDN_TEXT(GDN_VERSION_MAJOR) "." GDN_TEXT(GDN_VERSION_MINOR) "." GDN_TEXT(GDN_VERSION_PATCH);
}

void gdn_args_init(gdn_args *args) {
    if (!args) {
        return;
    }
    memset(args, 0, sizeof *args);
    args->struct_size = sizeof *args;
    args->variant = GDN_VARIANT_GDN;
    args->state_dtype = GDN_DTYPE_F32;
}

void gdn_context_options_init(gdn_context_options *options) {
    if (!options) {
        return;
    }
    memset(options, 0, sizeof *options);
    options->struct_size = sizeof *options;
}

gdn_status gdn_context_create(const gdn_context_options *options, gdn_context **context) {
    if (!context) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "context is NULL");
    }
    *context = nullptr;
    gdn_context_options chosen;
    gdn_context_options_init(&chosen);
    if (options) {
        if (options->struct_size < sizeof chosen) {
            return fail(GDN_STATUS_INVALID_ARGUMENT, "options.struct_size is %zu, expected %zu (gdn_context_options_init sets it)",
                options->struct_size, sizeof chosen);
        }
        chosen = *options;
    }
    if (!chosen.alloc != !chosen.free) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "options.%s is NULL, expected alloc and free together or neither",
            chosen.alloc ? "free" : "alloc");
    }
    if (chosen.flags & ~GDN_CHECK_VALUES) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "options.flags is 0x%x, expected no other bit than GDN_CHECK_VALUES", chosen.flags);
    }
    install_halide_handlers();
    void *memory = context_alloc(chosen, sizeof(gdn_context), 64);
    if (!memory) {
        return out_of_memory(sizeof(gdn_context));
    }
    gdn_context *made = new (memory) gdn_context;
    made->options = chosen;
    const gdn_status status = start(made);
    if (status != GDN_STATUS_OK) {
        report(made, status);
        gdn_context_destroy(made);
        return status;
    }
    *context = made;
    return GDN_STATUS_OK;
}

void gdn_context_destroy(gdn_context *context) {
    if (!context) {
        return;
    }
    const gdn_context_options options = context->options;
    if (context->pool) {
        context->pool->~Pool();
        context_free(options, context->pool, sizeof(Pool));
    }
    for (auto &place : context->blocks) {
        if (gdn_context::Block *block = place.load(std::memory_order_acquire)) {
            context_free(options, block, block->bytes + 64);
        }
    }
    Dispatch *dispatch = context->dispatch.load(std::memory_order_acquire);
    if (dispatch) {
        dispatch->next_retired = context->retired;
    }
    while (dispatch) {
        Dispatch *next = dispatch->next_retired;
        context_free(options, dispatch, Dispatch::bytes(kKernelRowCount));
        dispatch = next;
    }
    pthread_mutex_destroy(&context->change);
    context->~gdn_context();
    context_free(options, context, sizeof *context);
}

gdn_status gdn_set_target(gdn_context *context, const char *target) {
    if (!context) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "context is NULL");
    }
    if (!target) {
        return report(context, fail(GDN_STATUS_INVALID_ARGUMENT, "target is NULL, expected a name or \"auto\""));
    }
    const gdn_status status = set_target(context, target);
    if (status == GDN_STATUS_OK) {
        log_dispatch(context);
    }
    return report(context, status);
}

int32_t gdn_context_threads(const gdn_context *context) { return context ? context->threads : 0; }

gdn_status gdn_context_run(gdn_context *context, int64_t n, void (*body)(void *arg, int64_t i), void *arg) {
    if (!context) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "context is NULL");
    }
    if (!body || n < 0) {
        return report(context, !body ? fail(GDN_STATUS_INVALID_ARGUMENT, "body is NULL, expected a function")
                                     : fail(GDN_STATUS_INVALID_ARGUMENT, "n is %lld, expected 0 or more", static_cast<long long>(n)));
    }
    Items items = {n, body, arg};
    run_lanes(context, static_cast<int32_t>(std::min<int64_t>(n, context->threads)), run_items, &items);
    return GDN_STATUS_OK;
}

gdn_status gdn_apply_overrides(gdn_context *context, const char *text, size_t size) {
    if (!context) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "context is NULL");
    }
    if (!text && size) {
        return report(context, fail(GDN_STATUS_INVALID_ARGUMENT, "text is NULL, expected %zu bytes", size));
    }
    return report(context, apply_overrides(context, text, size));
}

}  // extern "C"
