#include "error.h"

#include <cstdarg>
#include <cstdio>

namespace gdn {

namespace {
// Plain array: a thread that never fails pays nothing, and nothing has to be destroyed at thread exit or dlclose.
thread_local char error_text[512];
}  // namespace

gdn_status fail(gdn_status status, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(error_text, sizeof error_text, format, list);
    va_end(list);
    return status;
}

const char *last_error() { return error_text; }

}  // namespace gdn

extern "C" {

const char *gdn_last_error(void) { return gdn::last_error(); }

const char *gdn_status_string(gdn_status status) {
    switch (status) {
    case GDN_STATUS_OK: return "ok";
    case GDN_STATUS_INVALID_ARGUMENT: return "invalid argument";
    case GDN_STATUS_UNSUPPORTED: return "unsupported";
    case GDN_STATUS_WORKSPACE_TOO_SMALL: return "workspace too small";
    case GDN_STATUS_OUT_OF_MEMORY: return "out of memory";
    case GDN_STATUS_INVALID_VALUE: return "invalid value";
    case GDN_STATUS_IO: return "input/output error";
    case GDN_STATUS_CORRUPT: return "corrupt file";
    case GDN_STATUS_INTERNAL: return "internal error";
    }
    return "unknown status";
}

}  // extern "C"
