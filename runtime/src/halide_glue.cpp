#include "halide_glue.h"

#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace gdn {

namespace {

// Kernels return a code after calling this; the driver turns code and text into GDN_STATUS_INTERNAL.
void on_error(void *user_context, const char *text) {
    if (user_context) {
        KernelContext *context = static_cast<KernelContext *>(user_context);
        snprintf(context->error, sizeof context->error, "%s", text);
        context->error[strcspn(context->error, "\n")] = 0;
    }
}

void on_print(void *, const char *) {}

void *on_malloc(void *, size_t bytes) {
    const size_t aligned = (bytes + 127) & ~static_cast<size_t>(127);
    return aligned < bytes ? nullptr : aligned_alloc(128, aligned ? aligned : 128);
}

void on_free(void *, void *memory) { free(memory); }

void install() {
    halide_set_error_handler(on_error);
    halide_set_custom_print(on_print);
    halide_set_custom_malloc(on_malloc);
    halide_set_custom_free(on_free);
}

}  // namespace

void install_halide_handlers() {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
}

}  // namespace gdn
