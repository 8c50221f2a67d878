// The context's own threads. Nothing global: two contexts with other wishes do not meet, and an unused context starts no thread.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstdint>

namespace gdn {

/// CPUs of the calling thread's affinity mask, at least 1.
int32_t affinity_count();

using Body = void (*)(void *arg, int64_t lane);

/// `threads` - 1 workers, started at the first run(). The caller is lane 0.
class Pool {
public:
    explicit Pool(int32_t threads);
    ~Pool();
    Pool(const Pool &) = delete;
    Pool &operator=(const Pool &) = delete;

    /// body(arg, lane) for lanes 0 .. lanes - 1, each on its own thread while there are enough; on the caller alone when the pool is in
    /// use by another call or no thread could be started.
    void run(int32_t lanes, Body body, void *arg);

    int32_t started() const { return started_; }  // workers alive, for tests

private:
    static void *worker_entry(void *pool);
    void work();
    void start();

    const int32_t threads_;
    cpu_set_t mask_;  // workers run on these, whatever the thread that starts them is pinned to
    bool has_mask_;
    std::atomic<bool> busy_{false};
    int32_t started_ = 0;
    bool tried_ = false;
    pthread_t *workers_ = nullptr;

    pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t wake_ = PTHREAD_COND_INITIALIZER;
    pthread_cond_t done_ = PTHREAD_COND_INITIALIZER;
    // Under mutex_:
    bool stop_ = false;
    int32_t lanes_ = 0;  // of the current job
    int32_t next_lane_ = 0;
    int32_t running_ = 0;  // workers inside the current job
    Body body_ = nullptr;
    void *arg_ = nullptr;
};

}  // namespace gdn
