// Which machine this is, from recorded files.
#include <filesystem>

#include <gtest/gtest.h>

#include "autotune/db/journal.h"
#include "autotune/machine.h"
#include "gdn/gdn.h"
#include "support/folder.h"

namespace gdn::tune {
namespace {

using namespace gdn_test;

void put(const Folder &root, const std::string &path, const std::string &text) {
    std::filesystem::create_directories(std::filesystem::path(root.path() + path).parent_path());
    write_text(root.path() + path, text + "\n");
}

Device example() {
    Device device;
    device.vendor = "AuthenticAMD";
    device.name = "AMD EPYC 9B14 96-Core Processor";
    device.architecture = "znver4";
    device.features = "avx avx2";
    device.cores = 96;
    device.threads = 192;
    device.l1_bytes = 32 << 10;
    device.l2_bytes = 1 << 20;
    device.l3_bytes = 32 << 20;
    return device;
}

std::string refusal(const std::string &json) {
    try {
        Device::parse(json);
    } catch (const Error &error) {
        return error.what();
    }
    return "";
}

TEST(Device, KeyNamesFilesAndIsTheLibrarys) {
    Device device = example();
    EXPECT_EQ(device.key(), "authenticamd-amd_epyc_9b14_96_core_processor");
    device.name = "AMD EPYC";
    EXPECT_EQ(device.key(), "authenticamd-amd_epyc-znver4");
    device.vendor = "Apple";
    device.name = device.architecture = "avalanche";
    EXPECT_EQ(device.key(), "apple-avalanche");
    device.name = " a/../b\xff ";
    EXPECT_EQ(device.key(), "apple-a_b-avalanche");
    gdn_device_info info;
    ASSERT_EQ(gdn_device_get(&info), GDN_STATUS_OK);
    EXPECT_EQ(this_device().key(), info.key);
}

TEST(Device, ThisOneIsComplete) {
    const Device device = this_device();
    EXPECT_NE(device.vendor, "");
    EXPECT_NE(device.architecture, "");
    EXPECT_GE(device.cores, 1);
    EXPECT_GE(device.threads, device.cores);
    EXPECT_EQ(device.difference(this_device()), "");
    EXPECT_EQ(Device::parse(device.json()).json(), device.json());
}

TEST(Device, JsonIsStrict) {
    const std::string json = example().json();
    EXPECT_EQ(Device::parse(json).difference(example()), "");
    const auto with = [&](const std::string &from, const std::string &to) {
        std::string text = json;
        text.replace(text.find(from), from.size(), to);
        return refusal(text);
    };
    EXPECT_EQ(with("\"cores\":96", "\"cores\":\"96\""), "the device's cores must be a number from 0 to 2147483647, and is \"96\"");
    EXPECT_EQ(with("\"cores\":96", "\"cores\":-1"), "the device's cores must be a number from 0 to 2147483647, and is -1");
    EXPECT_EQ(with("\"cores\":96", "\"cores\":3000000000"), "the device's cores must be a number from 0 to 2147483647, and is 3000000000");
    EXPECT_EQ(with("\"cores\":96", "\"cores\":1.5"), "the device's cores must be a number from 0 to 2147483647, and is 1.5");
    EXPECT_EQ(with("\"znver4\"", "4"), "the device's architecture must be text, and is 4");
    EXPECT_EQ(with("\"cores\"", "\"kernels\""), "the device has no cores");
    EXPECT_EQ(with("{", "{\"x\":1,"), "the device has a field that nobody knows: x");
    EXPECT_EQ(with("\"AuthenticAMD\"", "\"\""), "the device has an empty vendor or name");
    EXPECT_EQ(refusal("[1]"), "a device must be a JSON object, and is [1]");
    EXPECT_EQ(refusal(json.substr(1)), "a device must be a JSON object, and is " + json.substr(1, 80) + "..");
}

TEST(Device, EveryFieldCounts) {
    const Device a = example();
    Device b = a;
    b.name = "AMD EPYC 9B45";
    b.l3_bytes = 16;
    EXPECT_EQ(a.difference(b), "name: AMD EPYC 9B14 96-Core Processor here, AMD EPYC 9B45 there; l3_bytes: 33554432 here, 16 there");
    const auto differs = [&](auto Device::*field, auto value) {
        Device other = a;
        other.*field = value;
        return a.difference(other) != "";
    };
    EXPECT_TRUE(differs(&Device::vendor, "x"));
    EXPECT_TRUE(differs(&Device::architecture, "x"));
    EXPECT_TRUE(differs(&Device::features, "x"));
    EXPECT_TRUE(differs(&Device::cores, 1));
    EXPECT_TRUE(differs(&Device::threads, 1));
    EXPECT_TRUE(differs(&Device::l1_bytes, 1));
    EXPECT_TRUE(differs(&Device::l2_bytes, 1));
}

TEST(Machine, TopologyFromFiles) {
    const Folder root;
    const std::string cpus = "/sys/devices/system/cpu/";
    put(root, cpus + "online", "0-3,6");
    const char *const cores[][2] = {{"0", "0"}, {"0", "1"}, {"0", "0"}, {"0", "1"}};
    for (int i = 0; i < 4; i++) {
        put(root, cpus + "cpu" + std::to_string(i) + "/topology/physical_package_id", cores[i][0]);
        put(root, cpus + "cpu" + std::to_string(i) + "/topology/core_id", cores[i][1]);
    }
    put(root, cpus + "cpu6/topology/physical_package_id", "1");
    put(root, cpus + "cpu6/topology/core_id", "0");
    const char *const caches[][3] = {{"1", "Data", "48K"}, {"1", "Instruction", "32K"}, {"2", "Unified", "2048K"}, {"3", "Unified", "30M"}};
    for (int i = 0; i < 4; i++) {
        const std::string folder = cpus + "cpu0/cache/index" + std::to_string(i) + "/";
        put(root, folder + "level", caches[i][0]);
        put(root, folder + "type", caches[i][1]);
        put(root, folder + "size", caches[i][2]);
    }
    put(root, "/proc/cpuinfo",
        "processor\t: 0\nmodel name\t: X\nflags\t\t: fpu sse2 avx2 avx md_clear fma hypervisor\n\nprocessor\t: 1\nflags\t\t: none");
    const Topology t = topology(root.path());
    EXPECT_EQ(t.threads, 5);
    EXPECT_EQ(t.cores, 3);
    EXPECT_EQ(t.l1_bytes, 48 << 10);
    EXPECT_EQ(t.l2_bytes, 2 << 20);
    EXPECT_EQ(t.l3_bytes, 30 << 20);
    EXPECT_EQ(t.features, "avx avx2 fma sse2");
    EXPECT_EQ(features_of("processor : 0\nFeatures : sve fp asimd\n"), "asimd fp sve");
    EXPECT_EQ(topology(root.path() + "/nowhere").threads, 0);
}

TEST(Machine, CpuLists) {
    EXPECT_EQ(parse_cpu_list("0-2,5\n"), (std::vector<int>{0, 1, 2, 5}));
    EXPECT_EQ(parse_cpu_list("7"), std::vector<int>{7});
    for (const char *text : {"", "x", "3-1", "1-", "-1", "0-99999999", "1;2"}) EXPECT_TRUE(parse_cpu_list(text).empty()) << text;
}

}  // namespace
}  // namespace gdn::tune
