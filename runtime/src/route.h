// What of a call follows from dtypes, units, K and V alone: the kernels, their parameters, the layout of scratch. Every call of a layer
// has the same, so a Dispatch remembers those that it has found.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernel_table.h"

namespace gdn {

/// Lengths of a sequence for which chunk kernels and run-time parameters are chosen each by itself: 0 short, 1 long.
constexpr int32_t kLengthClasses = 2;
inline int32_t length_class(int64_t tokens) { return tokens > kShortTokens; }

/// Inputs of the stage, in its argument order.
enum Source { kSourceQ, kSourceK, kSourceV, kSourceG, kSourceB, kSourceW, kSources };

/// Offsets in bytes of one worker's arrays, each 64-byte aligned. All rows are float32.
struct Arena {
    size_t q, a, alpha, u, e, o;  // rows of the stage and of o, Plan::rows() of each
    size_t raw[kSources];         // rows of sources that go through a map
    size_t slice_u;               // u rows of one V slice
    size_t slots;                 // addresses for `next`
    size_t pong;                  // the state that a chunk writes when it may not write where it reads
    size_t homes;                 // states of the heads worked on together, where they cannot live in final_state
    size_t bytes;                 // of one worker
    int32_t home_count;
    int32_t slot_count;
};

struct Route {
    // stage row, and for every source either NULL (the stage reads the tensor) or the map row that brings it into float32 scratch first
    const KernelRow *stage;
    const KernelRow *map[kSources];
    float map_pad[kSources];
    const KernelRow *store;     // NULL where o is float32
    const KernelRow *gla_copy;  // gla: brings v to the u rows where v is read by the stage and is not float32
    Form form;

    // cores; any of them may be missing where another can stand in
    const KernelRow *chunk[kLengthClasses];
    const KernelRow *step;   // K-first
    const KernelRow *block;  // chunk that keeps the state after every token
    const KernelRow *v_first_step;
    const KernelRow *pending;  // step in one pass over the state, K-first
    RunParams run[kLengthClasses];

    Arena scratch;  // all but the homes
};

/// Routes by key. An entry is written once and stays, so that reading takes no lock; what finds no room is worked out at every call.
class RouteCache {
public:
    /// NULL if it is not here. `key` is odd.
    const Route *find(uint64_t key) const {
        for (uint32_t i = 0; i < kProbes; i++) {
            const Entry &entry = entries_[place(key, i)];
            if (entry.key.load(std::memory_order_acquire) == key) {
                return &entry.route;
            }
        }
        return nullptr;
    }

    void add(uint64_t key, const Route &route) {
        for (uint32_t i = 0; i < kProbes; i++) {
            Entry &entry = entries_[place(key, i)];
            uint64_t free = 0;
            if (entry.key.compare_exchange_strong(free, kBeingWritten, std::memory_order_relaxed)) {
                entry.route = route;
                entry.key.store(key, std::memory_order_release);
                return;
            }
        }
    }

private:
    static constexpr uint32_t kEntries = 32, kProbes = 4;
    static constexpr uint64_t kBeingWritten = 2;
    static uint32_t place(uint64_t key, uint32_t probe) { return ((uint32_t)(key * 0x9e3779b97f4a7c15u >> 59) + probe) % kEntries; }

    struct Entry {
        std::atomic<uint64_t> key{0};  // 0: free
        Route route;
    };
    Entry entries_[kEntries];
};

}  // namespace gdn
