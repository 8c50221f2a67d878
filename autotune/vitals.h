// What the doctor looks at, one organ at a time: pure functions of recorded text and of samples.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "autotune/doctor.h"

namespace gdn::tune {

/// Clock ticks since boot.
struct CpuTimes {
    int64_t busy = 0, idle = 0, stolen = 0;
};
/// Per CPU of a /proc/stat.
std::map<int, CpuTimes> parse_stat(const std::string &text);

/// Ticks that a process has run, from its /proc/<pid>/stat.
struct ProcessTimes {
    std::string name;
    int64_t ticks = 0;
};
/// Ticks < 0 where the text is not of that form.
ProcessTimes parse_process(const std::string &text);

/// How much of the time that this process slept others have used, on `cpus` and elsewhere. `names`: the busiest of them, for people.
std::vector<Finding> other_load(
    const std::map<int, CpuTimes> &before, const std::map<int, CpuTimes> &after, const std::vector<int> &cpus, const std::string &names);

/// Of times of equal pieces of work.
struct Steadiness {
    double median = 0;
    double spread = 0;  // between the 10th and 90th of a hundred, relative to the median
    double p95 = 0;     // relative to the median
    double lost = 0;    // share of all the time that is above the median: spent on something else
    size_t samples = 0;
};
Steadiness steadiness(std::vector<double> samples);
/// `ghz`: of one cycle per addition in a chain.
Finding clock_finding(const Steadiness &steadiness, double ghz);

/// Throttling events of all CPUs; -1 where nobody counts.
int64_t throttle_count(const std::string &root);
Finding throttle_finding(int64_t before, int64_t after);

/// Governor, turbo, load average, virtual machine, sibling, quota, huge pages, memory.
std::vector<Finding> settings(const std::string &root, const std::vector<int> &cpus);

}  // namespace gdn::tune
