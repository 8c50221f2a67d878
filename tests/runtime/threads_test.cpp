// Threads: the pool, the caller's own, the affinity mask, calls from many threads at once.
#include <gtest/gtest.h>

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <thread>

#include "call.h"
#include "threads.h"

using namespace gdn_test;

namespace {

// Big enough for several threads to be used (workspace.cpp keeps small calls on one).
CallSize wide() {
    CallSize size;
    size.B = 3, size.T = 40, size.H = 4, size.HV = 8, size.K = 64, size.V = 64;
    return size;
}

struct Lanes {
    std::atomic<int> seen[16] = {};
    std::atomic<int> inside{0}, most{0};
};

void enter_lane(void *arg, std::int64_t lane) {
    Lanes &lanes = *static_cast<Lanes *>(arg);
    lanes.seen[lane]++;
    const int now = ++lanes.inside;
    int most = lanes.most;
    while (now > most && !lanes.most.compare_exchange_weak(most, now)) {
    }
    std::this_thread::yield();
    lanes.inside--;
}

TEST(Pool, EveryLaneOnce) {
    gdn::Pool pool(4);
    EXPECT_EQ(pool.started(), 0);
    for (int round = 0; round < 200; round++) {
        Lanes lanes;
        const int count = 1 + round % 7;
        pool.run(count, enter_lane, &lanes);
        for (int i = 0; i < 16; i++) ASSERT_EQ(lanes.seen[i], i < count ? 1 : 0);
    }
    EXPECT_EQ(pool.started(), 3);
}

TEST(Pool, OneThreadStartsNone) {
    gdn::Pool pool(1);
    Lanes lanes;
    pool.run(5, enter_lane, &lanes);
    EXPECT_EQ(lanes.most, 1);
    EXPECT_EQ(pool.started(), 0);
}

TEST(Pool, BusyPoolRunsOnTheCaller) {
    gdn::Pool pool(3);
    struct Nested {
        gdn::Pool *pool;
        std::atomic<int> inner{0};
    } nested{&pool, {}};
    pool.run(
        3,
        [](void *arg, std::int64_t) {
            Nested &n = *static_cast<Nested *>(arg);
            Lanes lanes;
            n.pool->run(4, enter_lane, &lanes);
            EXPECT_LE(lanes.most, 1);
            for (int i = 0; i < 4; i++) n.inner += lanes.seen[i];
        },
        &nested);
    EXPECT_EQ(nested.inner, 12);
}

TEST(Threads, NumberChangesNoBit) {
    SmallCall one(wide()), many(wide());
    ASSERT_EQ(gdn_forward(make_context(1).get(), &one.args, nullptr, 0), GDN_STATUS_OK) << gdn_last_error();
    for (int threads : {2, 3, 16}) {
        many.poison();
        ASSERT_EQ(gdn_forward(make_context(threads).get(), &many.args, nullptr, 0), GDN_STATUS_OK) << gdn_last_error();
        EXPECT_TRUE(many.o == one.o && many.final_state == one.final_state) << threads;
    }
}

// The caller's pool may run the lanes in any order, on any threads, even one after the other on its own.
TEST(Threads, CallersParallelFor) {
    struct Counter {
        std::int64_t calls = 0, lanes = 0;
        bool spread = false;
    } counter;
    gdn_context_options options = options_with_threads(4);
    options.parallel_for_user = &counter;
    options.parallel_for = [](void *user, std::int64_t n, void (*body)(void *, std::int64_t), void *arg) {
        Counter &c = *static_cast<Counter *>(user);
        c.calls++;
        c.lanes += n;
        if (c.spread) {
            std::vector<std::thread> threads;
            for (std::int64_t i = n; i-- > 0;) threads.emplace_back(body, arg, i);
            for (std::thread &t : threads) t.join();
        } else {
            for (std::int64_t i = n; i-- > 0;) body(arg, i);
        }
    };
    ContextPtr context = make_context(options);
    SmallCall one(wide()), call(wide());
    ASSERT_EQ(gdn_forward(make_context(1).get(), &one.args, nullptr, 0), GDN_STATUS_OK);
    for (const bool spread : {false, true}) {
        counter.spread = spread;
        call.poison();
        ASSERT_EQ(gdn_forward(context.get(), &call.args, nullptr, 0), GDN_STATUS_OK) << gdn_last_error();
        EXPECT_TRUE(call.o == one.o && call.final_state == one.final_state);
    }
    EXPECT_EQ(counter.calls, 2);
    EXPECT_EQ(counter.lanes, 8);
}

// R139, R113: many host threads, one context; and contexts with other wishes beside them.
TEST(Threads, ManyCallersOfOneContext) {
    ContextPtr shared = make_context(2), own = make_context(1);
    SmallCall expected(wide());
    ASSERT_EQ(gdn_forward(own.get(), &expected.args, nullptr, 0), GDN_STATUS_OK);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; i++) {
        threads.emplace_back([&, i] {
            SmallCall call(wide());
            for (int round = 0; round < 5; round++) {
                call.poison();
                const gdn_status status = gdn_forward(i % 3 ? shared.get() : own.get(), &call.args, nullptr, 0);
                wrong += status != GDN_STATUS_OK || call.o != expected.o || call.final_state != expected.final_state;
                if (i == 7) gdn_set_target(shared.get(), "auto");  // a new table under running calls
            }
        });
    }
    for (std::thread &t : threads) t.join();
    EXPECT_EQ(wrong, 0);
}

struct AffinityGuard {
    AffinityGuard() { sched_getaffinity(0, sizeof mask, &mask); }
    ~AffinityGuard() { sched_setaffinity(0, sizeof mask, &mask); }
    cpu_set_t mask;
};

int context_threads(gdn_context *context) {
    SmallCall call;
    char text[8192];
    EXPECT_EQ(gdn_explain(context, &call.args, text, sizeof text, nullptr), GDN_STATUS_OK);
    const std::string json = text;
    return std::stoi(json.substr(json.find("\"threads\": ") + 11));
}

TEST(Threads, DefaultIsTheAffinityMask) {
    unsetenv("GDN_NUM_THREADS");
    const AffinityGuard guard;
    EXPECT_EQ(context_threads(make_context(0).get()), CPU_COUNT(&guard.mask));
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
        if (CPU_ISSET(cpu, &guard.mask)) CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(context_threads(make_context(0).get()), 1);
}

TEST(Threads, EnvironmentAndOption) {
    setenv("GDN_NUM_THREADS", "3", 1);
    EXPECT_EQ(context_threads(make_context(0).get()), 3);
    EXPECT_EQ(context_threads(make_context(2).get()), 2);
    setenv("GDN_NUM_THREADS", "many", 1);
    gdn_context *context = nullptr;
    gdn_context_options options = options_with_threads(0);
    EXPECT_EQ(gdn_context_create(&options, &context), GDN_STATUS_INVALID_ARGUMENT);
    EXPECT_NE(std::string(gdn_last_error()).find("GDN_NUM_THREADS"), std::string::npos);
    unsetenv("GDN_NUM_THREADS");
}

// R114: a pool made while the caller is pinned to one CPU (OpenMP with OMP_PROC_BIND does that) is not pinned with it.
TEST(Pool, WorkersDoNotInheritANarrowerMask) {
    const AffinityGuard guard;
    if (CPU_COUNT(&guard.mask) < 2) GTEST_SKIP() << "one CPU";
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
        if (CPU_ISSET(cpu, &guard.mask)) CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    gdn::Pool pool(2);
    struct Widest {
        pthread_t caller = pthread_self();
        std::atomic<int> cpus{0};
    } widest;
    for (int round = 0; round < 1000 && !widest.cpus; round++)
        pool.run(
            2,
            [](void *arg, std::int64_t) {
                Widest &w = *static_cast<Widest *>(arg);
                if (pthread_equal(pthread_self(), w.caller)) {
                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
                } else {
                    w.cpus = gdn::affinity_count();
                }
            },
            &widest);
    EXPECT_EQ(widest.cpus, CPU_COUNT(&guard.mask));
}

// R115: little stack, many tasks.
TEST(Threads, SmallStack) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    pthread_t thread;
    ASSERT_EQ(pthread_create(
                  &thread, &attributes,
                  [](void *) -> void * {
                      CallSize size;
                      size.B = 1000, size.T = 2, size.H = size.HV = 20, size.K = size.V = 16;
                      SmallCall call(size);
                      ContextPtr context = make_context(2);
                      EXPECT_EQ(gdn_forward(context.get(), &call.args, nullptr, 0), GDN_STATUS_OK);
                      EXPECT_TRUE(call.filled());
                      return nullptr;
                  },
                  nullptr),
        0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
}

}  // namespace
