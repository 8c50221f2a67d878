// The doctor's judgement on recorded files and made-up samples.
#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "autotune/space/random.h"
#include "autotune/vitals.h"
#include "support/folder.h"

namespace gdn::tune {
namespace {

using namespace gdn_test;

using Grade = Finding::Grade;

const char *const kStat = "cpu  900 0 100 1000 0 0 0 0 0 0\n"
                          "cpu0 400 50 50 500 0 0 0 0 0 0\n"
                          "cpu1 500 0 0 400 100 0 0 0 0 0\n"
                          "cpu10 1 2 3 4 5 6 7 8 9 10\nintr 5 5\n";

Finding find(const std::vector<Finding> &findings, const std::string &what) {
    for (const Finding &finding : findings) {
        if (finding.what == what) return finding;
    }
    return {Grade::kGood, "", "", ""};
}

TEST(Doctor, ReadsTimesOfCpus) {
    const auto cpus = parse_stat(kStat);
    ASSERT_EQ(cpus.size(), 3u);
    EXPECT_EQ(cpus.at(0).busy, 500);
    EXPECT_EQ(cpus.at(0).idle, 500);
    EXPECT_EQ(cpus.at(1).idle, 500);
    EXPECT_EQ(cpus.at(10).busy, 1 + 2 + 3 + 6 + 7);
    EXPECT_EQ(cpus.at(10).stolen, 8);
    EXPECT_TRUE(parse_stat("").empty());
}

TEST(Doctor, ReadsTimesOfProcesses) {
    const ProcessTimes p = parse_process("42 (a (b) c) R 1 42 42 0 -1 4194304 100 0 0 0 70 30 5 5 20 0 1 0 100 1000 10");
    EXPECT_EQ(p.name, "a (b) c");
    EXPECT_EQ(p.ticks, 100);
    for (const char *text : {"", "42", "42 (x", ")(", "42 (x) R 1"}) EXPECT_LT(parse_process(text).ticks, 0) << text;
}

TEST(Doctor, OtherLoadIsJudgedWhereWeMayRun) {
    const std::map<int, CpuTimes> before = {{0, {100, 100, 10}}, {1, {100, 100, 0}}};
    const auto after = [&](CpuTimes a, CpuTimes b) {
        return std::map<int, CpuTimes>{{0, {100 + a.busy, 100 + a.idle, 10 + a.stolen}}, {1, {100 + b.busy, 100 + b.idle, b.stolen}}};
    };
    std::vector<Finding> quiet = other_load(before, after({1, 99, 0}, {0, 100, 0}), {0, 1}, "top");
    ASSERT_EQ(quiet.size(), 2u);
    EXPECT_EQ(quiet[0].grade, Grade::kGood);
    EXPECT_EQ(quiet[0].text.find("top"), std::string::npos);
    EXPECT_EQ(quiet[1].grade, Grade::kGood);
    const Finding busy = other_load(before, after({40, 60, 0}, {10, 90, 0}), {0, 1}, "cc1plus, ld")[0];
    EXPECT_EQ(busy.grade, Grade::kUnfit);
    EXPECT_EQ(busy.text, "other programs use 25 % of the CPUs that this one may use (cc1plus, ld)");
    EXPECT_NE(busy.advice, "");
    EXPECT_EQ(other_load(before, after({5, 95, 0}, {5, 95, 0}), {0, 1}, "")[0].grade, Grade::kNote);
    // Busy elsewhere: worth a note.
    const std::vector<Finding> elsewhere = other_load(before, after({0, 100, 0}, {90, 10, 0}), {0}, "x");
    ASSERT_EQ(elsewhere.size(), 3u);
    EXPECT_EQ(elsewhere[0].grade, Grade::kGood);
    EXPECT_EQ(elsewhere[1].grade, Grade::kNote);
    const std::vector<Finding> stolen = other_load(before, after({0, 90, 10}, {0, 90, 10}), {0, 1}, "");
    EXPECT_EQ(stolen[1].what, "stolen time");
    EXPECT_EQ(stolen[1].grade, Grade::kUnfit);
    EXPECT_EQ(other_load(before, after({0, 990, 10}, {0, 1000, 10}), {0, 1}, "")[1].grade, Grade::kNote);
    EXPECT_EQ(other_load({}, {}, {}, "")[0].grade, Grade::kGood);
}

TEST(Doctor, SteadinessOfSamples) {
    std::vector<double> even(300, 1e-3);
    Steadiness s = steadiness(even);
    EXPECT_EQ(s.samples, 300u);
    EXPECT_DOUBLE_EQ(s.median, 1e-3);
    EXPECT_EQ(s.spread, 0);
    EXPECT_EQ(s.lost, 0);
    EXPECT_EQ(clock_finding(s, 3).grade, Grade::kGood);

    std::vector<double> ramp;
    for (int i = 0; i <= 100; i++) ramp.push_back(1 + 0.01 * i);
    std::reverse(ramp.begin(), ramp.end());
    s = steadiness(ramp);
    EXPECT_NEAR(s.median, 1.5, 1e-12);
    EXPECT_NEAR(s.spread, 0.8 / 1.5, 1e-12);
    EXPECT_NEAR(s.p95, 1.95 / 1.5, 1e-12);
    EXPECT_NEAR(s.lost, 12.75 / 151.5, 1e-12);
    EXPECT_EQ(clock_finding(s, 3).grade, Grade::kUnfit);
    EXPECT_EQ(steadiness({}).samples, 0u);
    EXPECT_EQ(steadiness({2}).median, 2);
}

TEST(Doctor, ClockIsJudgedByItsMiddleAndByLostTime) {
    Random random(7);
    std::vector<double> samples;
    for (int i = 0; i < 300; i++) samples.push_back(1e-3 * (1 + 0.005 * random.unit()));
    EXPECT_EQ(clock_finding(steadiness(samples), 3).grade, Grade::kGood);
    std::vector<double> hiccups = samples;
    for (size_t i = 0; i < 300; i += 60) hiccups[i] *= 4;  // 5 interruptions of 3 ms
    EXPECT_EQ(clock_finding(steadiness(hiccups), 3).grade, Grade::kNote);
    for (size_t i = 0; i < 300; i += 15) hiccups[i] = 5e-3;
    EXPECT_EQ(clock_finding(steadiness(hiccups), 3).grade, Grade::kUnfit);
    std::vector<double> two_clocks = samples;
    for (size_t i = 0; i < 100; i++) two_clocks[i] *= 1.08;
    EXPECT_EQ(clock_finding(steadiness(two_clocks), 3).grade, Grade::kUnfit);
    const Finding finding = clock_finding(steadiness(two_clocks), 2.5);
    EXPECT_EQ(finding.text.find("about 2.50 GHz; equal pieces of work differ by 8."), 0u) << finding.text;
}

TEST(Doctor, SettingsOfAWorkstation) {
    const Folder root;
    const auto put = [&](const std::string &path, const std::string &text) {
        std::filesystem::create_directories(std::filesystem::path(root.path() + path).parent_path());
        write_text(root.path() + path, text + "\n");
    };
    const auto grade = [&](const char *what) { return find(settings(root.path(), {0, 1}), what).grade; };
    const auto text = [&](const char *what) { return find(settings(root.path(), {0, 1}), what).text; };
    const std::string cpus = "/sys/devices/system/cpu/";
    EXPECT_EQ(text("governor"), "not visible");  // nothing at all is there
    EXPECT_EQ(throttle_count(root.path()), -1);

    put(cpus + "online", "0-3");
    for (int i = 0; i < 2; i++) put(cpus + "cpu" + std::to_string(i) + "/cpufreq/scaling_governor", "performance");
    EXPECT_EQ(grade("governor"), Grade::kGood);
    put(cpus + "cpu1/cpufreq/scaling_governor", "powersave");
    EXPECT_EQ(grade("governor"), Grade::kNote);
    EXPECT_EQ(text("governor"), "performance, powersave");

    EXPECT_EQ(text("turbo"), "not visible");
    put(cpus + "cpufreq/boost", "1");
    EXPECT_EQ(grade("turbo"), Grade::kNote);
    EXPECT_NE(find(settings(root.path(), {0}), "turbo").advice.find("cpufreq/boost"), std::string::npos);
    put(cpus + "cpufreq/boost", "0");
    EXPECT_EQ(text("turbo"), "off");
    put(cpus + "intel_pstate/no_turbo", "0");
    EXPECT_EQ(grade("turbo"), Grade::kNote);

    put("/proc/loadavg", "0.90 0.50 0.10 1/200 1234");
    EXPECT_EQ(grade("load"), Grade::kGood);
    EXPECT_EQ(text("load"), "load average 0.90 over the last minute");
    put("/proc/loadavg", "2.00 0.50 0.10 1/200 1234");
    EXPECT_EQ(grade("load"), Grade::kNote);

    put("/proc/cpuinfo", "flags : fpu avx");
    EXPECT_EQ(text("virtual machine"), "no");
    put("/proc/cpuinfo", "flags : fpu avx hypervisor");
    EXPECT_EQ(grade("virtual machine"), Grade::kNote);
    put("/sys/class/dmi/id/sys_vendor", "QEMU");
    EXPECT_EQ(text("virtual machine").find("yes, by QEMU"), 0u);

    EXPECT_EQ(grade("sibling"), Grade::kGood);
    put(cpus + "cpu0/topology/thread_siblings_list", "0,2");
    EXPECT_EQ(grade("sibling"), Grade::kNote);

    EXPECT_EQ(find(settings(root.path(), {0, 1}), "quota").what, "");
    put("/sys/fs/cgroup/cpu.max", "max 100000");
    EXPECT_EQ(find(settings(root.path(), {0, 1}), "quota").what, "");
    put("/sys/fs/cgroup/cpu.max", "200000 100000");
    EXPECT_EQ(grade("quota"), Grade::kGood);
    put("/sys/fs/cgroup/cpu.max", "150000 100000");
    EXPECT_EQ(grade("quota"), Grade::kNote);
    put("/sys/fs/cgroup/cpu.max", "50000 100000");
    EXPECT_EQ(grade("quota"), Grade::kUnfit);
    EXPECT_EQ(text("quota"), "this container may use 0.5 CPUs");

    EXPECT_EQ(text("huge pages"), "not visible");
    put("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
    EXPECT_EQ(text("huge pages"), "madvise");
    EXPECT_EQ(grade("huge pages"), Grade::kGood);
    put("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]");
    EXPECT_EQ(grade("huge pages"), Grade::kNote);

    put("/proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable:  8388608 kB");
    EXPECT_EQ(text("memory"), "8.0 GiB free");
    EXPECT_EQ(grade("memory"), Grade::kGood);
    put("/proc/meminfo", "MemAvailable: 2097152 kB");
    EXPECT_EQ(grade("memory"), Grade::kNote);
    put("/proc/meminfo", "MemAvailable: 524288 kB");
    EXPECT_EQ(grade("memory"), Grade::kUnfit);

    put(cpus + "cpu0/thermal_throttle/core_throttle_count", "3");
    put(cpus + "cpu3/thermal_throttle/package_throttle_count", "4");
    EXPECT_EQ(throttle_count(root.path()), 7);
}

TEST(Doctor, ThrottlingNowIsWorseThanOnce) {
    EXPECT_EQ(throttle_finding(-1, -1).grade, Grade::kGood);
    EXPECT_EQ(throttle_finding(0, 0).grade, Grade::kGood);
    EXPECT_EQ(throttle_finding(5, 5).grade, Grade::kNote);
    EXPECT_EQ(throttle_finding(5, 6).grade, Grade::kUnfit);
}

TEST(Doctor, CheckupIsFitWhereNothingIsUnfit) {
    Checkup checkup;
    EXPECT_TRUE(checkup.fit());
    checkup.findings = {{Grade::kGood, "memory", "much", ""}, {Grade::kNote, "turbo", "on", "off"}};
    EXPECT_TRUE(checkup.fit());
    checkup.findings.push_back({Grade::kUnfit, "clock", "odd \xff", "rest"});
    EXPECT_FALSE(checkup.fit());
    const nlohmann::json json = nlohmann::json::parse(checkup.json());
    EXPECT_EQ(json["fit"], false);
    EXPECT_EQ(json["findings"].size(), 3u);
    EXPECT_EQ(json["findings"][0]["grade"], "good");
    EXPECT_EQ(json["findings"][1]["grade"], "note");
    EXPECT_EQ(json["findings"][1]["advice"], "off");
    EXPECT_EQ(json["findings"][2]["grade"], "unfit");
    EXPECT_EQ(json["findings"][2]["what"], "clock");
}

TEST(Doctor, ExaminesThisMachine) {
    const Checkup checkup = examine();
    for (const char *what : {"clock", "other load", "stolen time", "throttling", "governor", "turbo", "load", "virtual machine", "sibling",
             "huge pages", "memory"}) {
        EXPECT_EQ(find(checkup.findings, what).what, what);
    }
    for (const Finding &finding : checkup.findings) {
        EXPECT_NE(finding.text, "") << finding.what;
        EXPECT_TRUE(finding.grade != Grade::kUnfit || finding.advice != "") << finding.what;
    }
}

}  // namespace
}  // namespace gdn::tune
