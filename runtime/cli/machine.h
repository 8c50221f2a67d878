// Facts about the machine that a measurement stands on: clock, caches, CPUs, pages, and the ceilings of one core.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gdn::cli {

/// Seconds of the monotonic clock.
double now();
/// CPU seconds of this process, all threads.
double process_cpu_time();
/// "2026-01-31T12:00:00Z"
std::string date();

std::string cpu_name();
/// Bytes of the data or unified cache of a level of CPU 0; 0 if there is none or nobody says.
int64_t cache_bytes(int level);
int64_t last_level_cache_bytes();

/// CPUs that the calling thread may run on, ascending.
std::vector<int> allowed_cpus();
/// Pins the calling thread; false if the kernel refuses.
bool pin(int cpu);

/// Folder of the running program.
std::string program_folder();

/// Bytes of this process that lie in transparent huge pages.
int64_t huge_page_bytes();
/// First line of a small file, "" if it cannot be read.
std::string first_line(const std::string &path);

/// Memory from mmap: page aligned, zeroed, with 4 KiB pages or with 2 MiB pages asked for.
class Buffer {
public:
    Buffer() = default;
    Buffer(size_t bytes, bool huge_pages);
    ~Buffer();
    Buffer(Buffer &&other) noexcept;
    Buffer &operator=(Buffer &&other) noexcept;

    void *data() const { return data_; }
    size_t size() const { return size_; }

private:
    void *map_ = nullptr;
    size_t mapped_ = 0;
    void *data_ = nullptr;
    size_t size_ = 0;
};

/// Lanes of float32 in a vector register of the target: 16, 8 or 4.
int vector_lanes(const std::string &target);

/// Independent multiply-adds from registers at a vector width: GFLOP/s of the calling thread over about `milliseconds` (of a core of 100
/// GFLOP/s).
double fma_rate(int lanes, int milliseconds);
/// The best of three runs of a millisecond.
double fma_peak(int lanes);
/// The same on `cpus` at once, one pinned thread each: the sum.
double fma_peak(int lanes, const std::vector<int> &cpus);
/// As before, but what the threads get done together within a few milliseconds, not their best moments: shows whether the cores are free.
double fma_sustained(int lanes, const std::vector<int> &cpus);

/// x *= factor over n floats (a multiple of 16, 64-byte aligned): what touching a state once costs.
void sweep(float *x, size_t n, float factor, int lanes);

}  // namespace gdn::cli
