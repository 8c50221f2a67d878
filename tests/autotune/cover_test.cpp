// Covers over synthetic devices against brute force.
#include <cmath>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/folder.h"
#include "tuned_files.h"

namespace gdn_test {
namespace {

using namespace gdn::tune;
using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kKernel[] = "core_chunk_a";

DeviceFile device_file(const std::string &name, const std::map<LengthClass, Entry> &classes, const std::string &architecture = "znver4",
    const std::string &vendor = "AuthenticAMD") {
    return {"x86_avx512", tuned_device(name, architecture, vendor), {{kKernel, classes}}};
}

json cover_of(const std::vector<DeviceFile> &files) {
    const json root = json::parse(cover_json("x86_avx512", files, {tuned_kernel(), tuned_kernel("core_chunk_b")}));
    EXPECT_EQ(root["schema"], 2);
    EXPECT_EQ(root["target"], "x86_avx512");
    return root["kernels"].value(kKernel, json());
}

Config config_at(const json &cover, size_t i) {
    Config config = tuned_config();
    for (const auto &[name, value] : cover["configs"].at(i)["config"].items()) config[name] = value;
    return config;
}

/// Which configuration a level uses: of all ("config") or of the cover.
Config used(const json &cover, const std::string &level, const std::string &key, const std::string &c, const char *of = "config") {
    for (const json &row : cover["use"]) {
        if (row["level"] == level && row["key"] == key && row["class"] == c) return config_at(cover, row[of]);
    }
    ADD_FAILURE() << "no entry " << level << " " << key << " " << c;
    return {};
}

size_t shipped(const json &cover) {
    size_t n = 0;
    for (const json &config : cover["configs"]) n += config["cover"].get<bool>();
    return n;
}

double known_cost(const Entry &entry, const Config &config) {
    if (config == entry.default_config) return 1;
    for (const auto &[other, cost] : entry.others) {
        if (other == config) return cost;
    }
    return INFINITY;
}

/// The largest regret of a set of configurations.
double worst_of(const std::vector<DeviceFile> &files, const std::vector<Config> &set) {
    double worst = 1;
    for (const DeviceFile &file : files) {
        for (const auto &[c, entry] : file.kernels.at(kKernel)) {
            double best = INFINITY;
            for (const Config &config : set) best = std::min(best, known_cost(entry, config) / entry.cost);
            worst = std::max(worst, best);
        }
    }
    return worst;
}

/// The smallest worst regret of any set of n configurations, `with` among them.
double brute_force(
    const std::vector<DeviceFile> &files, const std::vector<Config> &all, size_t n, std::vector<Config> with, size_t from = 0) {
    if (with.size() == n) return worst_of(files, with);
    double best = INFINITY;
    for (size_t i = from; i < all.size(); i++) {
        with.push_back(all[i]);
        best = std::min(best, brute_force(files, all, n, with, i + 1));
        with.pop_back();
    }
    return best;
}

std::vector<Config> all_configs() {
    std::vector<Config> all;
    const Space space = tuned_kernel().space;
    space.each_valid([&](const Point &point) {
        all.push_back(space.config(point));
        return true;
    });
    return all;
}

/// Random costs of a random part of the space; `spread` decides how hard it is to cover.
std::vector<DeviceFile> random_files(Random &random, size_t devices, double spread, bool both_classes) {
    std::vector<DeviceFile> files;
    for (size_t d = 0; d < devices; d++) {
        std::map<LengthClass, Entry> classes;
        for (LengthClass c : {LengthClass::kShort, LengthClass::kLong}) {
            if (c == LengthClass::kShort && !both_classes) continue;
            std::vector<std::pair<Config, double>> others;
            std::pair<Config, double> best{tuned_config(), 1};
            for (const Config &config : all_configs()) {
                if (config == tuned_config() || random.below(3) == 0) continue;
                const double cost = std::round(1e4 * (1 + spread * (random.unit() - 0.6))) / 1e4;
                others.emplace_back(config, cost);
                if (cost < best.second) best = others.back();
            }
            others.erase(std::remove(others.begin(), others.end(), best), others.end());
            classes[c] = tuned_entry(best.first, best.second, others);
        }
        files.push_back(device_file("cpu " + std::to_string(d), classes));
    }
    return files;
}

TEST(Cover, IsSmallestAndNearestByBruteForce) {
    Random random(7);
    size_t sizes[4] = {}, impossible = 0;
    for (int round = 0; round < 60; round++) {
        const bool both = random.below(2) == 0;
        const double spreads[] = {0.02, 0.06, 0.2};
        const std::vector<DeviceFile> files = random_files(random, 1 + random.below(6), spreads[random.below(3)], both);
        std::set<Config> candidates = {tuned_config()};
        for (const DeviceFile &file : files) {
            for (const auto &[c, entry] : file.kernels.at(kKernel)) candidates.insert(entry.config);
        }
        const std::vector<Config> all(candidates.begin(), candidates.end());
        const std::vector<Config> forced = both ? std::vector<Config>{} : std::vector<Config>{tuned_config()};
        const json cover = cover_of(files);
        const size_t n = shipped(cover);
        ASSERT_GE(n, 1u);
        ASSERT_LE(n, 3u);
        sizes[n]++;
        std::vector<Config> set;
        for (size_t i = 0; i < n; i++) set.push_back(config_at(cover, i));
        const double worst = worst_of(files, set);
        EXPECT_NEAR(cover["worst"], worst, 1e-4);
        if (worst > 1.02) {
            impossible++;
            EXPECT_NEAR(worst, brute_force(files, all, 3, forced), 1e-12) << "the best that three can do";
        }
        for (size_t fewer = std::max<size_t>(1, forced.size()); fewer < n; fewer++) {
            EXPECT_GT(brute_force(files, all, fewer, forced), std::max(worst, 1.02)) << fewer << " would do";
        }
        EXPECT_TRUE(both || std::count(set.begin(), set.end(), tuned_config())) << "the class that nobody tuned";
        for (const json &row : cover["use"]) {
            EXPECT_LT(row["cover"], n);
            EXPECT_LT(row["config"], cover["configs"].size());
        }
        for (const DeviceFile &file : files) {
            for (const auto &[c, entry] : file.kernels.at(kKernel)) {
                EXPECT_EQ(used(cover, "device", file.device.key(), name_of(c)), entry.config);
                const double cost = known_cost(entry, used(cover, "device", file.device.key(), name_of(c), "cover"));
                double best = INFINITY;
                for (const Config &config : set) best = std::min(best, known_cost(entry, config));
                EXPECT_EQ(cost, best);
            }
        }
    }
    for (size_t n : {1, 2, 3}) EXPECT_GT(sizes[n], 3u) << "rounds whose cover has " << n;
    EXPECT_GT(impossible, 3u);
}

TEST(Cover, ADeviceWithinTwoPerCentNeedsNoConfigurationOfItsOwn) {
    const Config x = tuned_config(4), y = tuned_config(2);
    const auto entry = [&](const Config &best, double cost, const Config &other, double other_cost) {
        return std::map<LengthClass, Entry>{{LengthClass::kShort, tuned_entry(best, cost, {{other, other_cost}})},
            {LengthClass::kLong, tuned_entry(best, cost, {{other, other_cost}})}};
    };
    json cover = cover_of({device_file("a", entry(x, 0.9, y, 0.95)), device_file("b", entry(y, 0.9, x, 0.918))});
    EXPECT_EQ(shipped(cover), 1u);
    EXPECT_EQ(config_at(cover, 0), x);
    ASSERT_EQ(cover["configs"].size(), 2u) << "with GDN_TUNED=all b has its own";
    EXPECT_EQ(config_at(cover, 1), y);
    EXPECT_NEAR(cover["worst"], 1.02, 1e-9);
    cover = cover_of({device_file("a", entry(x, 0.9, y, 0.95)), device_file("b", entry(y, 0.9, x, 0.919))});
    EXPECT_EQ(shipped(cover), 2u);
    cover = cover_of({device_file("a", entry(x, 0.985, y, 0.99)), device_file("b", entry(y, 0.985, x, 0.999))});
    EXPECT_EQ(shipped(cover), 1u);
    EXPECT_EQ(cover["configs"].size(), 2u);
}

TEST(Cover, LevelsTakeTheBestCommonConfiguration) {
    const Config x = tuned_config(4), y = tuned_config(2), z = tuned_config(16), one_time = tuned_config(2, 16);
    const auto both = [](const Entry &entry) {
        return std::map<LengthClass, Entry>{{LengthClass::kShort, entry}, {LengthClass::kLong, entry}};
    };
    const std::vector<DeviceFile> files = {
        device_file("a", both(tuned_entry(x, 0.80, {{y, 0.90}, {z, 0.99}})), "znver4"),
        device_file("b", both(tuned_entry(y, 0.85, {{x, 0.97}, {z, 0.99}})), "znver4"),
        device_file("c", both(tuned_entry(one_time, 0.70, {{x, 0.97}, {y, 0.95}})), "znver3"),
        device_file("d", both(tuned_entry(z, 0.50, {{x, 1.2}, {y, 1.3}})), "sapphirerapids", "GenuineIntel"),
    };
    const json cover = cover_of(files);
    EXPECT_EQ(used(cover, "architecture", "znver4", "long"), y) << "0.9 x 0.85 < 0.8 x 0.97";
    EXPECT_EQ(used(cover, "architecture", "znver3", "long"), one_time);
    EXPECT_EQ(used(cover, "vendor", "AuthenticAMD", "short"), one_time) << "0.7 < 0.9 x 0.85 x 0.95 = 0.727";
    EXPECT_EQ(used(cover, "vendor", "GenuineIntel", "short"), z);
    EXPECT_EQ(used(cover, "default", "", "long"), z) << "0.99 x 0.99 x 1 x 0.5";
    EXPECT_EQ(cover["use"].size(), 2u * (4 + 3 + 2 + 1));
}

/// Of many measurements of a search the lowest is luck; the winner has shown what it is worth.
TEST(Cover, WhatOnlyASearchMeasuredIsNotShipped) {
    const Config x = tuned_config(4), y = tuned_config(2), lucky = tuned_config(2, 16);
    const json cover = cover_of({device_file("a", {{LengthClass::kShort, tuned_entry(x, 0.95, {{lucky, 0.9}, {y, 0.93}})},
                                                      {LengthClass::kLong, tuned_entry(y, 0.96, {{lucky, 0.9}, {x, 0.99}})}})});
    EXPECT_EQ(cover["configs"].size(), 2u);
    ASSERT_EQ(shipped(cover), 1u) << "y is as good as the winner of short sequences, though not better";
    for (const char *level : {"device", "architecture", "vendor", "default"}) {
        const std::string key = level == std::string("device")         ? tuned_device("a").key()
                                : level == std::string("architecture") ? "znver4"
                                : level == std::string("vendor")       ? "AuthenticAMD"
                                                                       : "";
        EXPECT_EQ(used(cover, level, key, "short", "cover"), y);
        EXPECT_EQ(used(cover, level, key, "long"), y);
    }
    EXPECT_NEAR(cover["worst"], 1, 1e-9);
}

TEST(Cover, ClassesThatNobodyTunedUseTheDefault) {
    const json cover = cover_of({device_file("a", {{LengthClass::kLong, tuned_entry(tuned_config(4), 0.5)}})});
    EXPECT_EQ(shipped(cover), 2u);
    EXPECT_EQ(cover["configs"][0]["config"], json::object());
    EXPECT_EQ(cover["use"].size(), 4u) << "four levels of the long class";
    EXPECT_TRUE(cover_of({}).is_null()) << "a kernel that nobody tuned is absent";
}

TEST(Cover, ParametersAndDefaultsThatCameLaterAreUnderstood) {
    // Measured before the space had `ahead`, and when eight rows were not the default.
    Entry entry = tuned_entry({{"rows", 4}, {"cols", 32}}, 0.9, {{{{"rows", 2}, {"cols", 32}}, 1}, {{{"rows", 2}, {"cols", 16}}, 1.3}});
    entry.default_config = {{"rows", 2}, {"cols", 32}};
    entry.others.erase(std::remove_if(entry.others.begin(), entry.others.end(), [](const auto &o) { return o.first == tuned_config(); }),
        entry.others.end());
    const json cover = cover_of({device_file("a", {{LengthClass::kShort, entry}, {LengthClass::kLong, entry}})});
    EXPECT_EQ(used(cover, "device", tuned_device("a").key(), "long"), tuned_config(4));
    EXPECT_EQ(config_at(cover, 0), tuned_config(4));
    EXPECT_EQ(shipped(cover), 1u) << "the default of now is no cheaper than what is known";
}

TEST(Cover, RefusesWhatItCannotPlace) {
    const auto refusal = [](const DeviceFile &file) { return error_of([&] { cover_json("x86_avx512", {file}, {tuned_kernel()}); }); };
    const DeviceFile good = device_file("a", {{LengthClass::kLong, tuned_entry(tuned_config(4), 0.5)}});
    EXPECT_EQ(refusal(good), "");
    EXPECT_THAT(refusal(device_file("a", {{LengthClass::kLong, tuned_entry(tuned_config(5), 0.5)}})), HasSubstr("rows"));
    DeviceFile other = good;
    other.target = "x86_avx2";
    EXPECT_THAT(refusal(other), HasSubstr("x86_avx2"));
}

TEST(Cover, IsTheSameWhateverTheOrderOfDevices) {
    Random random(11);
    std::vector<DeviceFile> files = random_files(random, 4, 0.1, true);
    const std::string text = cover_json("x86_avx512", files, {tuned_kernel()});
    std::reverse(files.begin(), files.end());
    EXPECT_EQ(cover_json("x86_avx512", files, {tuned_kernel()}), text);
}

}  // namespace
}  // namespace gdn_test
