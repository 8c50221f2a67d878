// What a context holds, and how calls borrow from it.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "dispatch.h"
#include "gdn/gdn.h"
#include "threads.h"

struct gdn_context {
    gdn_context_options options = {};
    int32_t threads = 1;
    gdn_log_level log_level = GDN_LOG_WARNING;

    /// The table as calls see it. Replaced as a whole; the ones before stay until the context ends, since a running call may still read
    /// them.
    std::atomic<gdn::Dispatch *> dispatch{nullptr};
    pthread_mutex_t change = PTHREAD_MUTEX_INITIALIZER;  // of gdn_set_target and gdn_apply_overrides
    gdn::Dispatch *retired = nullptr;

    gdn::Pool *pool = nullptr;  // NULL with one thread or with the caller's parallel_for

    /// Workspaces of calls that brought none, free for the next call. One atomic exchange takes or returns one.
    struct Block {
        size_t bytes;
    };
    static constexpr int kBlocks = 8;
    std::atomic<Block *> blocks[kBlocks] = {};
};

namespace gdn {

/// Memory through the context's allocator.
void *context_alloc(const gdn_context_options &options, size_t bytes, size_t alignment);
void context_free(const gdn_context_options &options, void *memory, size_t bytes);

void context_log(const gdn_context *context, gdn_log_level level, const char *line);

/// Logs a failed call and hands its status on.
gdn_status report(const gdn_context *context, gdn_status status);

/// body(arg, lane) for every lane in [0, lanes), through the caller's parallel_for or on the context's threads.
void run_lanes(gdn_context *context, int32_t lanes, Body body, void *arg);

/// A workspace of the context's own, 64-byte aligned, for the length of a call.
class BorrowedWorkspace {
public:
    BorrowedWorkspace(gdn_context *context, size_t bytes);
    ~BorrowedWorkspace();
    BorrowedWorkspace(const BorrowedWorkspace &) = delete;
    BorrowedWorkspace &operator=(const BorrowedWorkspace &) = delete;
    void *data() const { return block_ ? reinterpret_cast<char *>(block_) + kHeader : nullptr; }

private:
    static constexpr size_t kHeader = 64;
    gdn_context *context_;
    gdn_context::Block *block_ = nullptr;
};

}  // namespace gdn
