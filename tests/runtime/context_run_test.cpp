// gdn_context_run: the caller's work on the context's threads.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "call.h"

using namespace gdn_test;

namespace {

struct Work {
    std::atomic<int> seen[64] = {};
    std::mutex mutex;
    std::set<std::thread::id> threads;
};

void take(void *arg, std::int64_t i) {
    Work &work = *static_cast<Work *>(arg);
    work.seen[i]++;
    const std::lock_guard<std::mutex> lock(work.mutex);
    work.threads.insert(std::this_thread::get_id());
}

void in_reverse(void *calls, std::int64_t n, void (*body)(void *arg, std::int64_t i), void *arg) {
    ++*static_cast<int *>(calls);
    for (std::int64_t i = n; i-- > 0;) body(arg, i);
}

gdn_context *make_context(int threads, int *calls = nullptr) {
    gdn_context_options options;
    gdn_context_options_init(&options);
    options.num_threads = threads;
    options.parallel_for = calls ? in_reverse : nullptr;
    options.parallel_for_user = calls;
    gdn_context *context = nullptr;
    EXPECT_EQ(gdn_context_create(&options, &context), GDN_STATUS_OK);
    return context;
}

TEST(ContextRun, EveryItemOnce) {
    for (const int threads : {1, 2, 5}) {
        gdn_context *context = make_context(threads);
        EXPECT_EQ(gdn_context_threads(context), threads);
        for (const int count : {0, 1, 2, 7, 64}) {
            Work work;
            ASSERT_EQ(gdn_context_run(context, count, take, &work), GDN_STATUS_OK);
            for (int i = 0; i < 64; i++) ASSERT_EQ(work.seen[i], i < count ? 1 : 0);
            EXPECT_LE(work.threads.size(), static_cast<std::size_t>(threads));
        }
        gdn_context_destroy(context);
    }
}

TEST(ContextRun, GoesThroughTheCallersOwnThreads) {
    int calls = 0;
    gdn_context *context = make_context(3, &calls);
    Work work;
    ASSERT_EQ(gdn_context_run(context, 9, take, &work), GDN_STATUS_OK);
    EXPECT_EQ(calls, 1);
    for (int i = 0; i < 9; i++) EXPECT_EQ(work.seen[i], 1);
    gdn_context_destroy(context);
}

TEST(ContextRun, BadArguments) {
    gdn_context *context = make_context(1);
    Work work;
    EXPECT_EQ(gdn_context_run(nullptr, 1, take, &work), GDN_STATUS_INVALID_ARGUMENT);
    EXPECT_EQ(gdn_context_threads(nullptr), 0);
    EXPECT_EQ(gdn_context_run(context, 1, nullptr, &work), GDN_STATUS_INVALID_ARGUMENT);
    EXPECT_TRUE(std::strstr(gdn_last_error(), "body"));
    EXPECT_EQ(gdn_context_run(context, -1, take, &work), GDN_STATUS_INVALID_ARGUMENT);
    EXPECT_TRUE(std::strstr(gdn_last_error(), "-1"));
    EXPECT_EQ(work.seen[0], 0);
    gdn_context_destroy(context);
}

}  // namespace
