#include "machine.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <new>
#include <thread>
#include <utility>

#include <climits>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

namespace gdn::cli {
namespace {

double seconds(clockid_t clock) {
    timespec time;
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Value of "key : value" or "key: value" lines.
std::string field(const std::string &path, const std::string &key) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        if (line.compare(0, key.size(), key) != 0) continue;
        const size_t colon = line.find(':');
        if (colon == std::string::npos) continue;
        const size_t begin = line.find_first_not_of(" \t", colon + 1);
        return begin == std::string::npos ? "" : line.substr(begin);
    }
    return "";
}

/// Sum of body() over pinned threads that start together.
double on_each(const std::vector<int> &cpus, const std::function<double()> &body) {
    std::vector<double> results(cpus.size(), 0.0);
    std::atomic<size_t> waiting{cpus.size()};
    std::vector<std::thread> threads;
    for (size_t i = 0; i < cpus.size(); i++) {
        threads.emplace_back([&, i] {
            pin(cpus[i]);
            waiting--;
            while (waiting) sched_yield();
            results[i] = body();
        });
    }
    double sum = 0;
    for (size_t i = 0; i < cpus.size(); i++) {
        threads[i].join();
        sum += results[i];
    }
    return sum;
}

}  // namespace

double now() { return seconds(CLOCK_MONOTONIC); }

double process_cpu_time() { return seconds(CLOCK_PROCESS_CPUTIME_ID); }

std::string date() {
    const time_t time = std::time(nullptr);
    tm utc;
    gmtime_r(&time, &utc);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return text;
}

std::string first_line(const std::string &path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

std::string cpu_name() {
    for (const char *key : {"model name", "Model", "CPU part"}) {
        std::string name = field("/proc/cpuinfo", key);
        if (!name.empty()) return name;
    }
    return "unknown";
}

int64_t cache_bytes(int level) {
    for (int index = 0; index < 8; index++) {
        const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
        if (first_line(folder + "level") != std::to_string(level) || first_line(folder + "type") == "Instruction") continue;
        const std::string size = first_line(folder + "size");
        if (size.empty()) continue;
        const int64_t number = std::atoll(size.c_str());
        return size.back() == 'K' ? number << 10 : size.back() == 'M' ? number << 20 : number;
    }
#ifdef _SC_LEVEL1_DCACHE_SIZE
    const int names[] = {0, _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
    if (level >= 1 && level <= 3) return std::max(0L, sysconf(names[level]));
#endif
    return 0;
}

int64_t last_level_cache_bytes() {
    const int64_t kUnknown = 32 << 20;
    for (int level = 4; level >= 1; level--) {
        if (const int64_t bytes = cache_bytes(level); bytes > 0) return bytes;
    }
    return kUnknown;
}

std::vector<int> allowed_cpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    std::vector<int> cpus;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
        }
    }
    return cpus;
}

bool pin(int cpu) {
    if (cpu < 0 || cpu >= CPU_SETSIZE) return false;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

std::string program_folder() {
    char path[PATH_MAX];
    const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
    if (size <= 0) return ".";
    const std::string program(path, static_cast<size_t>(size));
    return program.substr(0, program.rfind('/'));
}

int64_t huge_page_bytes() { return std::atoll(field("/proc/self/smaps_rollup", "AnonHugePages").c_str()) << 10; }

Buffer::Buffer(size_t bytes, bool huge_pages) : size_(bytes) {
    const size_t kHugePage = size_t{2} << 20;
    mapped_ = huge_pages ? (bytes + 2 * kHugePage - 1) / kHugePage * kHugePage + kHugePage : std::max<size_t>(bytes, 1);
    map_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map_ == MAP_FAILED) {
        map_ = nullptr;
        throw std::bad_alloc();
    }
    data_ = map_;
    if (huge_pages) data_ = reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(map_) + kHugePage - 1) / kHugePage * kHugePage);
    madvise(map_, mapped_, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

Buffer::~Buffer() {
    if (map_) munmap(map_, mapped_);
}

Buffer::Buffer(Buffer &&other) noexcept { *this = std::move(other); }

Buffer &Buffer::operator=(Buffer &&other) noexcept {
    std::swap(map_, other.map_);
    std::swap(mapped_, other.mapped_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

int vector_lanes(const std::string &target) {
    if (target.find("avx512") != std::string::npos) return 16;
    if (target.find("avx") != std::string::npos) return 8;
    return 4;
}

double fma_peak(int lanes, const std::vector<int> &cpus) {
    return on_each(cpus, [lanes] { return fma_peak(lanes); });
}

double fma_sustained(int lanes, const std::vector<int> &cpus) {
    return on_each(cpus, [lanes] { return fma_rate(lanes, 12); });
}

}  // namespace gdn::cli
