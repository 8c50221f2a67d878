// Which CPU this is: what tuned configurations are kept by.
#pragma once

#include <cstdint>

namespace gdn {

struct Device {
    char vendor[24];        // "AuthenticAMD", "GenuineIntel", an ARM implementer ("ARM", "Apple", ..)
    char name[80];          // brand, "AMD EPYC 9B14"; where there is none, the architecture
    char architecture[56];  // "znver4", "sapphirerapids", "neoverse-v1"; of one that is not known "<vendor>-<family>-<model>"
    char key[160];          // "authenticamd-amd_epyc_9b14": names files
};

/// What x86 tells, so that tests can play other machines.
struct X86Identity {
    char vendor[13];     // leaf 0
    char brand[49];      // leaves 0x80000002 to 4; "" where there are none
    uint32_t signature;  // leaf 1, eax
    uint32_t leaf7_ecx;  // tells the processors apart that share a model number
    uint32_t leaf7_1_eax;
};

Device device_of_x86(const X86Identity &identity);
/// `midr` is the main ID register.
Device device_of_arm(uint64_t midr);
/// Main ID register from the text of /proc/cpuinfo: of the last CPU in it, since the large cores come last. 0 if it has none.
uint64_t midr_of_cpuinfo(const char *text);

/// This machine, or that of fake_device().
const Device &this_device();
/// For tests: contexts created and targets set from now on take this device, which outlives them; NULL = the machine again.
void fake_device(const Device *device);

}  // namespace gdn
