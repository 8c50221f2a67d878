#include "threads.h"

#include <csignal>
#include <cstdlib>

namespace gdn {

namespace {

struct Mask {
    cpu_set_t cpus;
    bool known;
};

Mask read_mask() {
    Mask mask;
    CPU_ZERO(&mask.cpus);
    mask.known = !sched_getaffinity(0, sizeof mask.cpus, &mask.cpus);
    return mask;
}

// The process's mask before anything in it (OpenMP with OMP_PROC_BIND) narrowed the thread that calls us.
const Mask load_mask = read_mask();

}  // namespace

int32_t affinity_count() {
    const Mask mask = read_mask();
    const int count = mask.known ? CPU_COUNT(&mask.cpus) : 1;
    return count > 0 ? count : 1;
}

Pool::Pool(int32_t threads) : threads_(threads) {
    // The creator's mask; the process's where more threads are asked for than that allows.
    const Mask own = read_mask();
    const Mask &mask = own.known && (CPU_COUNT(&own.cpus) >= threads || !load_mask.known) ? own : load_mask;
    mask_ = mask.cpus;
    has_mask_ = mask.known;
}

Pool::~Pool() {
    pthread_mutex_lock(&mutex_);
    stop_ = true;
    pthread_cond_broadcast(&wake_);
    pthread_mutex_unlock(&mutex_);
    for (int32_t i = 0; i < started_; i++) {
        pthread_join(workers_[i], nullptr);
    }
    free(workers_);
    pthread_cond_destroy(&wake_);
    pthread_cond_destroy(&done_);
    pthread_mutex_destroy(&mutex_);
}

void Pool::start() {
    tried_ = true;
    workers_ = static_cast<pthread_t *>(malloc((size_t)threads_ * sizeof(pthread_t)));
    if (!workers_) {
        return;
    }
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (has_mask_) {
        pthread_attr_setaffinity_np(&attributes, sizeof mask_, &mask_);
    }
    // Signals are the program's business: no handler of it should run on a thread that it does not know.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started_ < threads_ - 1 && !pthread_create(&workers_[started_], &attributes, worker_entry, this)) {
        started_++;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
}

void *Pool::worker_entry(void *pool) {
    static_cast<Pool *>(pool)->work();
    return nullptr;
}

void Pool::work() {
    pthread_mutex_lock(&mutex_);
    for (;;) {
        while (!stop_ && next_lane_ >= lanes_) {
            pthread_cond_wait(&wake_, &mutex_);
        }
        if (stop_) {
            break;
        }
        const int32_t lane = next_lane_++;
        const Body body = body_;
        void *const arg = arg_;
        running_++;
        pthread_mutex_unlock(&mutex_);
        body(arg, lane);
        pthread_mutex_lock(&mutex_);
        if (--running_ == 0) {
            pthread_cond_signal(&done_);
        }
    }
    pthread_mutex_unlock(&mutex_);
}

void Pool::run(int32_t lanes, Body body, void *arg) {
    bool mine = false;
    if (lanes > 1 && threads_ > 1) {
        mine = !busy_.exchange(true, std::memory_order_acquire);
    }
    if (mine && !tried_) {
        start();
    }
    if (!mine || !started_) {
        if (mine) {
            busy_.store(false, std::memory_order_release);
        }
        for (int32_t lane = 0; lane < lanes; lane++) {
            body(arg, lane);
        }
        return;
    }
    pthread_mutex_lock(&mutex_);
    body_ = body;
    arg_ = arg;
    lanes_ = lanes;
    next_lane_ = 1;
    pthread_cond_broadcast(&wake_);
    pthread_mutex_unlock(&mutex_);

    body(arg, 0);

    pthread_mutex_lock(&mutex_);
    // Lanes that no worker has taken yet: theirs is the work that lane 0 has already done, since lanes share one counter of tasks.
    while (next_lane_ < lanes_) {
        const int32_t lane = next_lane_++;
        pthread_mutex_unlock(&mutex_);
        body(arg, lane);
        pthread_mutex_lock(&mutex_);
    }
    while (running_ > 0) {
        pthread_cond_wait(&done_, &mutex_);
    }
    lanes_ = next_lane_ = 0;
    pthread_mutex_unlock(&mutex_);
    busy_.store(false, std::memory_order_release);
}

}  // namespace gdn
