// Tuned data that no machine measured: kernels, devices and entries for tests.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "autotune/data/tuned.h"

namespace gdn_test {

/// core_chunk with rows 2, 4, 8, 16 [8], cols 16, 32 [32] and ahead 0, 1, 2 [0]; no rows 16 with cols 16.
inline gdn::tune::Kernel tuned_kernel(const std::string &name = "core_chunk_a", const std::string &target = "x86_avx512") {
    using gdn::tune::Kind;
    const gdn::tune::Constraint constraint = {
        "rows times cols is not 256", {"rows", "cols"}, {{2, 16}, {2, 32}, {4, 16}, {4, 32}, {8, 16}, {8, 32}, {16, 32}}};
    const gdn::tune::Space space(
        {{"rows", Kind::kSchedule, {2, 4, 8, 16}, 8}, {"cols", Kind::kSchedule, {16, 32}, 32}, {"ahead", Kind::kRuntime, {0, 1, 2}, 0}},
        {constraint});
    return {name, "core_chunk", target, {}, "", space};
}

inline gdn::tune::Config tuned_config(int rows = 8, int cols = 32, int ahead = 0) {
    return {{"rows", rows}, {"cols", cols}, {"ahead", ahead}};
}

inline gdn::tune::Device tuned_device(
    const std::string &name = "EPYC 9B14", const std::string &architecture = "znver4", const std::string &vendor = "AuthenticAMD") {
    gdn::tune::Device device;
    device.vendor = vendor;
    device.name = name;
    device.architecture = architecture;
    device.features = "avx2 avx512f";
    device.cores = 8;
    device.threads = 16;
    device.l1_bytes = 32768;
    device.l2_bytes = 1 << 20;
    device.l3_bytes = 32 << 20;
    return device;
}

/// The winner costs `cost`, one per cent to either side; the default, rows 4 and what else `others` says are known too.
inline gdn::tune::Entry tuned_entry(
    const gdn::tune::Config &config, double cost, std::vector<std::pair<gdn::tune::Config, double>> others = {}) {
    gdn::tune::Entry entry;
    entry.config = config;
    entry.default_config = tuned_config();
    entry.cost = cost;
    entry.low = cost - 0.01;
    entry.high = cost + 0.01;
    entry.default_ns = 12000.5;
    entry.ns = 11000;
    entry.samples = 7;
    entry.date = "2026-01-31T12:00:00Z";
    entry.generator_hash = "00000000000000aa";
    entry.halide_version = "21.0.0";
    entry.gdn_version = "0.5.0";
    entry.shapes = {"B=1,T=1024,H=16", "B=1,T=4096,H=16"};
    others.emplace_back(config, cost);
    if (config != entry.default_config) others.emplace_back(entry.default_config, 1);
    std::sort(others.begin(), others.end(),
        [](const auto &a, const auto &b) { return std::tie(a.second, a.first) < std::tie(b.second, b.first); });
    entry.others = others;
    return entry;
}

}  // namespace gdn_test
