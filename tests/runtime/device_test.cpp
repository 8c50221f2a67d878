// Which CPU this is: other machines played by the words that they tell.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "device.h"
#include "gdn/gdn.h"

using namespace gdn;

namespace {

Device x86(const char *vendor, const char *brand, std::uint32_t family, std::uint32_t model, std::uint32_t leaf7_ecx = 0,
    std::uint32_t leaf7_1_eax = 0) {
    X86Identity identity = {};
    std::snprintf(identity.vendor, sizeof identity.vendor, "%s", vendor);
    std::snprintf(identity.brand, sizeof identity.brand, "%s", brand);
    const std::uint32_t base = family < 15 ? family : 15;
    identity.signature = (family - base) << 20 | (model >> 4) << 16 | base << 8 | (model & 15) << 4 | 1;
    identity.leaf7_ecx = leaf7_ecx;
    identity.leaf7_1_eax = leaf7_1_eax;
    return device_of_x86(identity);
}

TEST(Device, Amd) {
    const Device genoa = x86("AuthenticAMD", "AMD EPYC 9B14", 25, 17);
    EXPECT_STREQ(genoa.vendor, "AuthenticAMD");
    EXPECT_STREQ(genoa.name, "AMD EPYC 9B14");
    EXPECT_STREQ(genoa.architecture, "znver4");
    EXPECT_STREQ(genoa.key, "authenticamd-amd_epyc_9b14");
    const auto of = [](std::uint32_t family, std::uint32_t model) {
        return std::string(x86("AuthenticAMD", "x1", family, model).architecture);
    };
    EXPECT_EQ(of(0x17, 0x01), "znver1");
    EXPECT_EQ(of(0x17, 0x31), "znver2");
    EXPECT_EQ(of(0x17, 0x71), "znver2");
    EXPECT_EQ(of(0x19, 0x01), "znver3");
    EXPECT_EQ(of(0x19, 0x50), "znver3");
    EXPECT_EQ(of(0x19, 0x61), "znver4");
    EXPECT_EQ(of(0x19, 0xa0), "znver4");
    EXPECT_EQ(of(0x1a, 0x02), "znver5");
    EXPECT_EQ(of(0x1a, 0x44), "znver5");
    EXPECT_EQ(of(0x1a, 0x90), "AuthenticAMD-26-144");
    EXPECT_EQ(of(0x1f, 0x00), "AuthenticAMD-31-0");
}

TEST(Device, Intel) {
    const Device rapids = x86("GenuineIntel", "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz", 6, 0x8f);
    EXPECT_STREQ(rapids.name, "Intel Xeon Platinum 8481C CPU");
    EXPECT_STREQ(rapids.architecture, "sapphirerapids");
    EXPECT_STREQ(rapids.key, "genuineintel-intel_xeon_platinum_8481c_cpu");
    const auto of = [](std::uint32_t model, std::uint32_t ecx = 0, std::uint32_t eax = 0) {
        return std::string(x86("GenuineIntel", "x1", 6, model, ecx, eax).architecture);
    };
    EXPECT_EQ(of(0x3f), "haswell");
    EXPECT_EQ(of(0x4f), "broadwell");
    EXPECT_EQ(of(0x9e), "skylake");
    EXPECT_EQ(of(0x55), "skylake-avx512");
    EXPECT_EQ(of(0x55, 1u << 11), "cascadelake");
    EXPECT_EQ(of(0x55, 1u << 11, 1u << 5), "cooperlake");
    EXPECT_EQ(of(0x7e), "icelake-client");
    EXPECT_EQ(of(0x6a), "icelake-server");
    EXPECT_EQ(of(0xcf), "emeraldrapids");
    EXPECT_EQ(of(0xad), "graniterapids");
    EXPECT_EQ(of(0x97), "alderlake");
    EXPECT_EQ(of(0xfe), "GenuineIntel-6-254");
}

// Hypervisors hide the brand's number: one name, several processors.
TEST(Device, BrandWithoutANumber) {
    const Device milan = x86("AuthenticAMD", "AMD EPYC", 25, 1), genoa = x86("AuthenticAMD", "AMD EPYC", 25, 17);
    EXPECT_STREQ(milan.key, "authenticamd-amd_epyc-znver3");
    EXPECT_STREQ(genoa.key, "authenticamd-amd_epyc-znver4");
    EXPECT_STREQ(x86("GenuineIntel", "   Intel Xeon Processor (Skylake, IBRS)  ", 6, 0x55).key,
        "genuineintel-intel_xeon_processor_skylake_ibrs-skylake_avx512");
}

TEST(Device, X86ThatTellsLittle) {
    const Device nobody = device_of_x86({});
    EXPECT_STREQ(nobody.vendor, "unknown");
    EXPECT_STREQ(nobody.architecture, "unknown-0-0");
    EXPECT_STREQ(nobody.name, "unknown-0-0");
    EXPECT_STREQ(nobody.key, "unknown-unknown_0_0");
    const Device odd = x86("CentaurHauls", "../..//etc\x01\xff 7", 7, 59);
    EXPECT_STREQ(odd.architecture, "CentaurHauls-7-11");  // only families 6 and 15 have a long model
    EXPECT_STREQ(odd.key, "centaurhauls-etc_7");          // nothing that a path could trip over
    X86Identity longest = {};
    std::memset(longest.vendor, 'V', 12);
    std::memset(longest.brand, 'b', 48);
    longest.signature = 0xffffffff;
    const Device device = device_of_x86(longest);
    EXPECT_STREQ(device.architecture, "VVVVVVVVVVVV-270-255");
    EXPECT_EQ(std::string(device.key), "vvvvvvvvvvvv-" + std::string(48, 'b') + "-vvvvvvvvvvvv_270_255");
}

TEST(Device, Arm) {
    const auto of = [](std::uint64_t implementer, std::uint64_t part) {
        return device_of_arm(implementer << 24 | 0xf << 16 | part << 4 | 1);
    };
    const Device pi = of(0x41, 0xd0b);
    EXPECT_STREQ(pi.vendor, "ARM");
    EXPECT_STREQ(pi.name, "cortex-a76");
    EXPECT_STREQ(pi.architecture, "cortex-a76");
    EXPECT_STREQ(pi.key, "arm-cortex_a76");
    EXPECT_STREQ(of(0x41, 0xd0c).architecture, "neoverse-n1");
    EXPECT_STREQ(of(0x41, 0xd40).architecture, "neoverse-v1");
    EXPECT_STREQ(of(0x41, 0xd49).architecture, "neoverse-n2");
    EXPECT_STREQ(of(0x41, 0xd4f).architecture, "neoverse-v2");
    EXPECT_STREQ(of(0x61, 0x023).architecture, "apple-m1");
    EXPECT_STREQ(of(0x61, 0x023).vendor, "Apple");
    EXPECT_STREQ(of(0x41, 0xfff).architecture, "ARM-15-4095");
    EXPECT_STREQ(of(0x99, 0x001).architecture, "implementer_0x99-15-1");
    EXPECT_STREQ(device_of_arm(0).key, "unknown-unknown_0_0");
}

TEST(Device, ArmFromCpuinfo) {
    const char *text =
        "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x1\nCPU part\t: 0xd05\nCPU revision\t: 0\n\n"
        "processor\t: 4\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x4\nCPU part\t: 0xd0b\nCPU revision\t: 1";
    EXPECT_EQ(midr_of_cpuinfo(text), 0x414fd0b1u);
    EXPECT_STREQ(device_of_arm(midr_of_cpuinfo(text)).architecture, "cortex-a76");
    EXPECT_EQ(midr_of_cpuinfo(""), 0u);
    EXPECT_EQ(midr_of_cpuinfo("CPU part"), 0u);
    EXPECT_EQ(midr_of_cpuinfo("vendor_id : GenuineIntel\nmodel name : something\n"), 0u);
}

TEST(Device, StepsDownAreLoggedWheneverTheTargetIsChosen) {
    std::vector<std::string> lines;
    gdn_context_options options;
    gdn_context_options_init(&options);
    options.num_threads = 1;
    options.log = [](void *user, gdn_log_level, const char *line) { static_cast<std::vector<std::string> *>(user)->push_back(line); };
    options.log_user = &lines;
    const Device stranger = {"Nobody", "Nothing", "none", "nobody-nothing"};
    fake_device(&stranger);
    setenv("GDN_LOG", "info", 1);
    gdn_context *context = nullptr;
    const gdn_status made = gdn_context_create(&options, &context);
    unsetenv("GDN_LOG");
    ASSERT_EQ(made, GDN_STATUS_OK);
    const std::vector<std::string> at_start = lines;
    lines.clear();
    EXPECT_EQ(gdn_set_target(context, "auto"), GDN_STATUS_OK);
    gdn_context_destroy(context);
    fake_device(nullptr);
    ASSERT_FALSE(at_start.empty());
    EXPECT_EQ(at_start[0].substr(0, 7), "target ");
    EXPECT_EQ(lines, at_start);
    bool choice = false, told = false;
    for (std::int64_t i = 0; i < gdn_kernel_count(); i++) {
        gdn_kernel_info info;
        gdn_kernel_get(i, &info);
        choice |= info.runs_here && info.configuration > 0;
    }
    for (const std::string &line : lines) told |= line.find("no entries for device nobody-nothing, using the defaults") != std::string::npos;
    EXPECT_EQ(told, choice);
}

TEST(Device, Public) {
    EXPECT_EQ(gdn_device_get(nullptr), GDN_STATUS_INVALID_ARGUMENT);
    gdn_device_info info;
    ASSERT_EQ(gdn_device_get(&info), GDN_STATUS_OK);
    for (const char *text : {info.vendor, info.name, info.architecture, info.key}) EXPECT_GT(std::strlen(text), 2u);
    const Device other = device_of_arm(0x410fd4f0);
    fake_device(&other);
    gdn_device_info fake;
    gdn_device_get(&fake);
    fake_device(nullptr);
    EXPECT_STREQ(fake.key, "arm-neoverse_v2");
    gdn_device_info again;
    gdn_device_get(&again);
    EXPECT_EQ(again.key, info.key);
}

}  // namespace
