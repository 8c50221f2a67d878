#include "autotune/doctor.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <thread>

#include <nlohmann/json.hpp>
#include <sched.h>
#include <unistd.h>

#include "autotune/clock.h"
#include "autotune/machine.h"
#include "autotune/vitals.h"

namespace gdn::tune {
namespace {

namespace fs = std::filesystem;
using Grade = Finding::Grade;

constexpr std::chrono::milliseconds kNap{300};  // in which only others run
constexpr int kPieces = 300;
constexpr double kPieceSeconds = 0.001;

std::string text_of(const char *pattern, double a, double b = 0, double c = 0) {
    char text[256];
    std::snprintf(text, sizeof text, pattern, a, b, c);
    return text;
}

Grade grade_of(double value, double note, double unfit) {
    return value > unfit ? Grade::kUnfit : value > note ? Grade::kNote : Grade::kGood;
}

/// Sixteen additions that wait for each other: sixteen cycles on every CPU.
uint64_t chain(uint64_t steps) {
    uint64_t x = steps;
    const auto add = [&x] {
        x++;
        __asm__ volatile("" : "+r"(x));
    };
    for (uint64_t i = 0; i < steps; i++) {
        add(), add(), add(), add(), add(), add(), add(), add();
        add(), add(), add(), add(), add(), add(), add(), add();
    }
    return x;
}

double time_of(uint64_t steps) {
    const double begin = now();
    volatile uint64_t result = chain(steps);
    static_cast<void>(result);
    return now() - begin;
}

/// The loop again and again on one CPU.
Finding listen_to_the_clock() {
    cpu_set_t before, one;
    const bool known = sched_getaffinity(0, sizeof before, &before) == 0;
    CPU_ZERO(&one);
    const int cpu = sched_getcpu();
    if (cpu >= 0) CPU_SET(static_cast<size_t>(cpu), &one);
    const bool pinned = known && cpu >= 0 && sched_setaffinity(0, sizeof one, &one) == 0;

    uint64_t steps = 10000;
    std::vector<double> times;
    for (int round = 0; round < 2; round++) {  // the second at the clock that the first has woken
        times.clear();
        for (int i = 0; i < 15; i++) times.push_back(time_of(steps));
        std::nth_element(times.begin(), times.begin() + 7, times.end());
        steps = static_cast<uint64_t>(std::max(1.0, static_cast<double>(steps) * kPieceSeconds / times[7]));
    }
    times.clear();
    for (int i = 0; i < kPieces; i++) times.push_back(time_of(steps));
    if (pinned) sched_setaffinity(0, sizeof before, &before);
    const Steadiness result = steadiness(times);
    return clock_finding(result, 16 * static_cast<double>(steps) / result.median * 1e-9);
}

std::map<int, ProcessTimes> processes() {
    std::map<int, ProcessTimes> all;
    std::error_code error;
    for (const fs::directory_entry &entry : fs::directory_iterator("/proc", error)) {
        const int pid = std::atoi(entry.path().filename().c_str());
        if (pid > 0) all[pid] = parse_process(whole_file(entry.path().string() + "/stat"));
    }
    return all;
}

/// "cc1plus, ld": at most three that ran.
std::string busiest(const std::map<int, ProcessTimes> &before, const std::map<int, ProcessTimes> &after) {
    std::vector<std::pair<int64_t, std::string>> ran;
    for (const auto &[pid, process] : after) {
        const auto old = before.find(pid);
        const int64_t ticks = process.ticks - (old == before.end() ? 0 : old->second.ticks);
        if (ticks > 0) ran.emplace_back(-ticks, process.name);
    }
    std::sort(ran.begin(), ran.end());
    std::string names;
    for (size_t i = 0; i < std::min<size_t>(3, ran.size()); i++) names += (i ? ", " : "") + ran[i].second;
    return names;
}

}  // namespace

const char *name_of(Grade grade) { return grade == Grade::kGood ? "good" : grade == Grade::kNote ? "note" : "unfit"; }

std::map<int, CpuTimes> parse_stat(const std::string &text) {
    std::map<int, CpuTimes> cpus;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        int cpu = 0, read = 0;
        // "cpu  1 2 .." is the sum of all.
        if (line.size() < 4 || line[3] == ' ' || std::sscanf(line.c_str(), "cpu%d%n", &cpu, &read) != 1) continue;
        std::istringstream numbers(line.substr(static_cast<size_t>(read)));
        int64_t user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, stolen = 0;
        numbers >> user >> nice >> system >> idle >> wait >> irq >> soft >> stolen;
        cpus[cpu] = {user + nice + system + irq + soft, idle + wait, stolen};
    }
    return cpus;
}

ProcessTimes parse_process(const std::string &text) {
    const size_t open = text.find('('), close = text.rfind(')');  // a name may hold both
    if (open == std::string::npos || close == std::string::npos || close < open) return {"", -1};
    std::istringstream fields(text.substr(close + 1));
    std::string word;
    for (int i = 0; i < 11; i++) fields >> word;  // fields 3 to 13
    int64_t user = 0, system = 0;
    if (!(fields >> user >> system)) return {"", -1};
    return {text.substr(open + 1, close - open - 1), user + system};
}

std::vector<Finding> other_load(
    const std::map<int, CpuTimes> &before, const std::map<int, CpuTimes> &after, const std::vector<int> &cpus, const std::string &names) {
    CpuTimes here, elsewhere;
    for (const auto &[cpu, end] : after) {
        const auto begin = before.find(cpu);
        if (begin == before.end()) continue;
        CpuTimes &sum = std::find(cpus.begin(), cpus.end(), cpu) != cpus.end() ? here : elsewhere;
        sum.busy += end.busy - begin->second.busy;
        sum.idle += end.idle - begin->second.idle;
        sum.stolen += end.stolen - begin->second.stolen;
    }
    const auto percent = [](int64_t part, const CpuTimes &of) {
        const int64_t all = of.busy + of.idle + of.stolen;
        return all > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(all) : 0.0;
    };
    const double busy = percent(here.busy, here), around = percent(elsewhere.busy, elsewhere), stolen = percent(here.stolen, here);
    const std::string who = names.empty() ? "" : " (" + names + ")";
    std::vector<Finding> findings;
    const Grade grade = grade_of(busy, 3, 10);
    findings.push_back({grade, "other load",
        text_of("other programs use %.0f %% of the CPUs that this one may use", busy) + (grade == Grade::kGood ? "" : who),
        grade == Grade::kGood ? "" : "end or pause other programs, or give this one CPUs of its own (taskset, cpusets)"});
    if (around > 30) {
        findings.push_back({Grade::kNote, "other load",
            text_of("other CPUs are %.0f %% busy", around) + who + ": caches, memory and clock are shared with them",
            "take the machine for yourself where exact results matter"});
    }
    const Grade theft = grade_of(stolen, 0.5, 3);
    findings.push_back({theft, "stolen time", text_of("the host gave %.1f %% of the CPUs' time to others", stolen),
        theft == Grade::kGood ? "" : "measure on a dedicated host, or when its other guests are quiet"});
    return findings;
}

Steadiness steadiness(std::vector<double> samples) {
    Steadiness s;
    s.samples = samples.size();
    if (samples.empty()) return s;
    std::sort(samples.begin(), samples.end());
    const auto at = [&](double share) { return samples[static_cast<size_t>(share * static_cast<double>(samples.size() - 1) + 0.5)]; };
    s.median = at(0.5);
    s.spread = (at(0.9) - at(0.1)) / s.median;
    s.p95 = at(0.95) / s.median;
    double all = 0, above = 0;
    for (double sample : samples) {
        all += sample;
        above += std::max(0.0, sample - s.median);
    }
    s.lost = above / all;
    return s;
}

Finding clock_finding(const Steadiness &s, double ghz) {
    const Grade grade = std::max(grade_of(s.spread, 0.02, 0.05), grade_of(s.lost, 0.03, 0.15));
    return {grade, "clock",
        text_of("about %.2f GHz; ", ghz) +
            text_of("equal pieces of work differ by %.1f %% (10th to 90th of 100), the 95th takes %.2f times the median, ", 100 * s.spread,
                s.p95) +
            text_of("%.1f %% of the time went elsewhere", 100 * s.lost),
        grade == Grade::kGood ? "" : "see the other lines for what disturbs; on a laptop, plug it in and let it cool"};
}

int64_t throttle_count(const std::string &root) {
    int64_t sum = -1;
    for (int cpu : parse_cpu_list(first_line(root + "/sys/devices/system/cpu/online"))) {
        for (const char *name : {"core_throttle_count", "package_throttle_count"}) {
            const std::string count = first_line(root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/thermal_throttle/" + name);
            if (!count.empty()) sum = std::max<int64_t>(sum, 0) + std::atoll(count.c_str());
        }
    }
    return sum;
}

Finding throttle_finding(int64_t before, int64_t after) {
    if (after < 0) return {Grade::kGood, "throttling", "nobody counts it here", ""};
    const std::string advice = "cool the machine; measure at a lower, fixed clock";
    if (after > before)
        return {
            Grade::kUnfit, "throttling", "the CPU got too hot during this check: " + std::to_string(after - before) + " events", advice};
    if (after > 0) return {Grade::kNote, "throttling", std::to_string(after) + " events since the machine was started, none now", advice};
    return {Grade::kGood, "throttling", "none since the machine was started", ""};
}

std::vector<Finding> settings(const std::string &root, const std::vector<int> &cpus) {
    std::vector<Finding> findings;
    const std::string sys = root + "/sys/devices/system/cpu/", cpu = sys + "cpu" + std::to_string(cpus.empty() ? 0 : cpus[0]) + "/";
    const auto add = [&](Grade grade, const char *what, const std::string &text, const std::string &advice = "") {
        findings.push_back({grade, what, text, advice});
    };

    std::map<std::string, int> governors;
    for (int c : cpus) governors[first_line(sys + "cpu" + std::to_string(c) + "/cpufreq/scaling_governor")]++;
    std::string names;
    for (const auto &[name, count] : governors) names += (names.empty() ? "" : ", ") + (name.empty() ? "not visible" : name);
    const bool fixed = governors.size() == 1 && (governors.count("performance") || governors.count(""));
    add(fixed ? Grade::kGood : Grade::kNote, "governor", names, fixed ? "" : "cpupower frequency-set -g performance");

    const std::string no_turbo = first_line(sys + "intel_pstate/no_turbo"), boost = first_line(sys + "cpufreq/boost");
    const bool turbo = no_turbo == "0" || boost == "1";
    add(turbo ? Grade::kNote : Grade::kGood, "turbo",
        turbo                               ? "on: the clock depends on heat and on what the neighbours do"
        : no_turbo.empty() && boost.empty() ? "not visible"
                                            : "off",
        !turbo ? ""
               : "switch it off while measuring: echo " + std::string(no_turbo == "0" ? "1 > /sys/devices/system/cpu/intel_pstate/no_turbo"
                                                                                      : "0 > /sys/devices/system/cpu/cpufreq/boost"));

    const std::string load = first_line(root + "/proc/loadavg");
    const double share =
        std::atof(load.c_str()) / std::max<double>(1, static_cast<double>(parse_cpu_list(first_line(sys + "online")).size()));
    add(grade_of(share, 0.3, 1e9), "load",
        load.empty() ? "not visible" : "load average " + load.substr(0, load.find(' ')) + " over the last minute",
        share > 0.3 ? "wait until it is below a third of the CPUs" : "");

    const std::string cpuinfo = whole_file(root + "/proc/cpuinfo"), host = first_line(root + "/sys/class/dmi/id/sys_vendor");
    const bool guest = (" " + value_of(cpuinfo, "flags") + " ").find(" hypervisor ") != std::string::npos;
    add(guest ? Grade::kNote : Grade::kGood, "virtual machine",
        guest ? "yes" + (host.empty() ? "" : ", by " + host) + ": clock, heat and neighbours cannot be seen" : "no",
        guest ? "repeat runs at another time of day before sharing results" : "");

    const std::vector<int> siblings = parse_cpu_list(first_line(cpu + "topology/thread_siblings_list"));
    add(siblings.size() > 1 ? Grade::kNote : Grade::kGood, "sibling",
        siblings.size() > 1 ? std::to_string(siblings.size()) + " CPUs share each core: what runs on the sibling slows what is measured"
                            : "a core for each CPU",
        siblings.size() > 1 ? "keep the siblings idle, or take them offline (cpu<n>/online)" : "");

    std::istringstream quota(first_line(root + "/sys/fs/cgroup/cpu.max"));
    double runs = 0, period = 0;
    if (quota >> runs >> period && period > 0) {  // "max" is no number
        const bool tight = runs / period < static_cast<double>(std::max<size_t>(1, cpus.size()));
        add(runs < period ? Grade::kUnfit
            : tight       ? Grade::kNote
                          : Grade::kGood,
            "quota", text_of("this container may use %.2g CPUs", runs / period),
            tight ? "raise its CPU limit: at the limit everything stands still for a while" : "");
    }

    const std::string pages = first_line(root + "/sys/kernel/mm/transparent_hugepage/enabled");
    const size_t open = pages.find('['), close = pages.find(']');
    const std::string chosen = open < close && close != std::string::npos ? pages.substr(open + 1, close - open - 1) : "not visible";
    add(chosen == "never" ? Grade::kNote : Grade::kGood, "huge pages", chosen,
        chosen == "never" ? "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled" : "");

    if (const double gib = available_bytes(root) / (1 << 30); gib > 0) {
        add(gib < 1   ? Grade::kUnfit
            : gib < 4 ? Grade::kNote
                      : Grade::kGood,
            "memory", text_of("%.1f GiB free", gib), gib < 4 ? "a candidate may ask for 4 GiB" : "");
    }
    return findings;
}

std::vector<Finding> Checkup::unfit() const {
    std::vector<Finding> result;
    std::copy_if(findings.begin(), findings.end(), std::back_inserter(result),
        [](const Finding &finding) { return finding.grade == Grade::kUnfit; });
    return result;
}

std::string Checkup::json() const {
    nlohmann::ordered_json result = {{"fit", fit()}, {"findings", nlohmann::ordered_json::array()}};
    for (const Finding &finding : findings) {
        result["findings"].push_back(
            {{"what", finding.what}, {"grade", name_of(finding.grade)}, {"text", finding.text}, {"advice", finding.advice}});
    }
    return result.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Checkup examine() {
    const std::vector<int> cpus = allowed_cpus();
    const std::map<int, ProcessTimes> ran = processes();
    const std::map<int, CpuTimes> before = parse_stat(whole_file("/proc/stat"));
    const std::clock_t own = std::clock();
    std::this_thread::sleep_for(kNap);
    std::map<int, CpuTimes> after = parse_stat(whole_file("/proc/stat"));
    // Threads of this process are no other program: a BLAS spins for a moment after it was loaded.
    const int64_t ticks = static_cast<int64_t>(std::clock() - own) * sysconf(_SC_CLK_TCK) / CLOCKS_PER_SEC;
    if (!cpus.empty()) {
        CpuTimes &here = after[cpus.front()];
        here.busy -= ticks, here.idle += ticks;
    }
    Checkup checkup;
    checkup.findings = other_load(before, after, cpus, busiest(ran, processes()));
    const int64_t throttled = throttle_count("");
    checkup.findings.insert(checkup.findings.begin(), listen_to_the_clock());
    checkup.findings.push_back(throttle_finding(throttled, throttle_count("")));
    for (Finding &finding : settings("", cpus)) checkup.findings.push_back(std::move(finding));
    return checkup;
}

}  // namespace gdn::tune
