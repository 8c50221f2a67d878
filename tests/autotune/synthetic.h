// A kernel that is a formula: the tuner's tests need neither a compiler nor a clock.
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "autotune/build/builder.h"
#include "autotune/db/journal.h"
#include "autotune/measure/measurer.h"
#include "support/folder.h"

namespace gdn::tune::synthetic {

using namespace gdn_test;

inline uint64_t hash_of(const std::string &text) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return hash;
}

/// 189 valid points of 324.
inline Kernel kernel() {
    Kernel k;
    k.name = "core_synthetic_128x128";
    k.family = "core_synthetic";
    k.target = "x86_avx512";
    k.arguments = "-g core_synthetic target=host";
    k.space = Space({{"cols", Kind::kSchedule, {16, 32, 48, 64}, 32}, {"panel", Kind::kAlgorithm, {16, 32, 64}, 32},
                        {"rows", Kind::kSchedule, {2, 4, 8}, 4}, {"time_block", Kind::kRuntime, {8, 16, 32}, 16},
                        {"unroll", Kind::kSchedule, {1, 2, 4}, 2}},
        {{"cols is at most panel", {"cols", "panel"}, {{16, 16}, {16, 32}, {16, 64}, {32, 32}, {32, 64}, {48, 64}, {64, 64}}}});
    return k;
}

inline Task task(const std::string &searcher = "exhaustive", uint64_t seed = 7) {
    const Kernel k = kernel();
    Task t;
    t.kernel = k.name;
    t.target = k.target;
    t.shapes = {{1, 1024, 16}, {2, 4096, 4}};
    t.space = k.space;
    t.default_config = k.space.config(k.space.default_point());
    t.kernel_arguments = k.arguments;
    t.searcher = searcher;
    t.seed = seed;
    t.batch = 8;
    return t;
}

inline RunInfo run_info() {
    RunInfo info;
    info.device.vendor = "AuthenticAMD";
    info.device.name = "AMD EPYC 9B14";
    info.device.architecture = "znver4";
    info.device.features = "avx2 avx512f fma";
    info.device.cores = 2;
    info.device.threads = 4;
    info.device.l1_bytes = 32 << 10;
    info.device.l2_bytes = 1 << 20;
    info.device.l3_bytes = 32 << 20;
    info.generator_hash = "0123456789abcdef";
    info.halide_version = "21.0.0";
    info.gdn_version = "0.1.0";
    info.date = "2026-01-31";
    info.doctor = R"({"findings": []})";
    return info;
}

inline Status status(const Config &c) {
    const int cols = c.at("cols"), rows = c.at("rows"), unroll = c.at("unroll");
    if (cols == 64 && unroll == 4) return Status::kBuildFailed;
    if (cols == 48 && rows == 8) return Status::kBuildTimeout;
    if (cols == 48 && rows == 2) return Status::kLaunchFailed;
    if (cols == 64 && rows == 8) return Status::kRunTimeout;
    if (cols == 64 && rows == 2) return Status::kOverLimit;
    if (cols == 64) return unroll == 2 ? Status::kCrashed : Status::kWrongResult;
    return Status::kOk;
}

inline bool builds(const Config &c) { return status(c) != Status::kBuildFailed && status(c) != Status::kBuildTimeout; }

/// Smallest, 0.8705, at cols:32,panel:64,rows:8,time_block:32,unroll:4; the default's is 1.
inline double surface(const Config &c) {
    static const std::map<std::string, std::map<int, double>> kFactors = {{"cols", {{16, 1.1}, {32, 1}, {48, 0.97}}},
        {"panel", {{16, 1.04}, {32, 1}, {64, 0.96}}}, {"rows", {{2, 1.05}, {4, 1}, {8, 0.93}}},
        {"time_block", {{8, 1.03}, {16, 1}, {32, 0.99}}}, {"unroll", {{1, 1.02}, {2, 1}, {4, 0.985}}}};
    double cost = 1;
    for (const auto &[name, value] : c) {
        if (name != "unroll" || c.at("rows") != 2) cost *= kFactors.at(name).at(value);
    }
    return cost;
}

inline const Config kBest = {{"cols", 32}, {"panel", 64}, {"rows", 8}, {"time_block", 32}, {"unroll", 4}};

/// Two rows at a time are the same code however they are unrolled.
inline std::string object_of(Config c) {
    c.erase("time_block");
    if (c.at("rows") == 2) c["unroll"] = 1;
    return text_of(c);
}

using Event = std::function<void(const std::string &what, const Config &config)>;

class FakeBuilder : public Builder {
public:
    Event event;                   // before each build
    std::set<std::string> broken;  // configurations that fail besides those of the formula, and kernels of which all do

    std::vector<Built> build(
        const std::vector<Request> &requests, const std::function<void(size_t)> &done, const std::atomic<bool> *stop) override {
        std::vector<Built> all;
        for (const Request &request : requests) {
            all.emplace_back();
            if (stop && *stop) continue;
            if (event) event("build", request.config);
            Built &built = all.back();
            built.seconds = static_cast<double>(hash_of(text_of(request.config)) % 1000) / 1000;
            built.status = broken.count(text_of(request.config)) || broken.count(request.kernel->name) ? Status::kBuildFailed
                           : builds(request.config)                                                    ? Status::kOk
                                                                                                       : status(request.config);
            if (built.status == Status::kOk) {
                built.hash = std::to_string(hash_of(object_of(request.config)));
            } else {
                built.error = "the generator says no";
            }
            if (done) done(all.size());
        }
        return all;
    }
};

class FakeMeasurer : public Measurer {
public:
    Event event;  // before each candidate
    std::function<double(const Config &)> cost = surface;
    std::function<Status(const Config &)> outcome = status;
    double noise = 0.003;  // of one sample, relative

    std::vector<Trial> measure(const Kernel &, const std::vector<Shape> &shapes, const Candidate &,
        const std::vector<Candidate> &candidates, const MeasureOptions &options, const std::atomic<bool> *stop) override {
        std::vector<Trial> all;
        for (const Candidate &candidate : candidates) {
            all.emplace_back();
            if (stop && *stop) continue;
            if (event) event("measure", candidate.config);
            all.back() = trial(candidate, shapes.size(), options.rounds);
        }
        return all;
    }

    Work work(const Kernel &, const Shape &) override { return {}; }

private:
    // Of the code and the run-time parameter alone: who else is measured does not matter.
    Trial trial(const Candidate &candidate, size_t shapes, int rounds) const {
        const Config &c = candidate.config;
        Trial t;
        t.status = outcome(c);
        if (t.status != Status::kOk) {
            t.error = "the candidate failed";
            return t;
        }
        Random random(hash_of(object_of(c)) + static_cast<uint64_t>(c.at("time_block")));
        const auto sample = [&](double mean) { return mean * (1 + noise * (2 * random.unit() - 1)); };
        double sum = 0, squares = 0, n = 0;
        for (size_t i = 0; i < shapes; i++) {
            t.ns.emplace_back();
            t.anchor.emplace_back();
            for (int r = 0; r < rounds; r++) {
                t.ns.back().push_back(sample(1e6 * cost(c)));
                t.anchor.back().push_back(sample(1e6));
                const double ratio = t.ns.back().back() / t.anchor.back().back();
                sum += ratio;
                squares += ratio * ratio;
                n++;
            }
        }
        const double mean = sum / n, half = 2 * std::sqrt(std::max(0.0, squares / n - mean * mean) / n);
        t.cost = {mean, mean - half, mean + half, mean, half, static_cast<int>(n)};
        t.verify_error = 3e-7;
        return t;
    }
};

/// Equal to the last bit.
inline bool same(const Trial &a, const Trial &b) {
    const auto estimate = [](const Estimate &e) { return std::make_tuple(e.value, e.low, e.high, e.median, e.mad, e.samples); };
    return a.config == b.config && a.status == b.status && a.error == b.error && a.ns == b.ns && a.anchor == b.anchor &&
           estimate(a.cost) == estimate(b.cost) && a.abandoned == b.abandoned && a.verify_error == b.verify_error &&
           a.build_seconds == b.build_seconds && a.object_hash == b.object_hash;
}

inline bool same(const std::vector<Trial> &a, const std::vector<Trial> &b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Trial &x, const Trial &y) { return same(x, y); });
}

}  // namespace gdn::tune::synthetic
