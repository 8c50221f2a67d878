// What the CPU and the operating system offer. Own cpuid and XCR0 reading: a feature counts only when the system saves its registers.
#pragma once

#include <cstdint>

namespace gdn {

/// Bits of a feature word, one per name that TargetRow::features may hold.
enum CpuFeature : uint64_t {
    kSse3 = 1ull << 0,
    kSsse3 = 1ull << 1,
    kSse41 = 1ull << 2,
    kSse42 = 1ull << 3,
    kPopcnt = 1ull << 4,
    kAvx = 1ull << 5,
    kF16c = 1ull << 6,
    kFma = 1ull << 7,
    kAvx2 = 1ull << 8,
    kBmi = 1ull << 9,
    kBmi2 = 1ull << 10,
    kLzcnt = 1ull << 11,
    kAvx512F = 1ull << 12,
    kAvx512Cd = 1ull << 13,
    kAvx512Dq = 1ull << 14,
    kAvx512Bw = 1ull << 15,
    kAvx512Vl = 1ull << 16,
    kAvx512Vnni = 1ull << 17,
    kAvx512Bf16 = 1ull << 18,
    kMovbe = 1ull << 19,
    kAvx512Ifma = 1ull << 20,
    kAvx512Vbmi = 1ull << 21,
    kAvx512Vbmi2 = 1ull << 22,
    kAvx512Bitalg = 1ull << 23,
    kAvx512Vpopcntdq = 1ull << 24,
    kGfni = 1ull << 25,
    kNeon = 1ull << 32,
    kUnknownFeature = 1ull << 63,  // no CPU has it: a target that names a feature which this library cannot check never runs
};

/// Raw words as the CPU gives them, so that tests can play other machines (a hypervisor that masks AVX-512, Zen 4, ..).
struct CpuidWords {
    uint32_t max_leaf;  // leaf 0, eax
    uint32_t leaf1_ecx;
    uint32_t leaf7_ebx;
    uint32_t leaf7_ecx;
    uint32_t leaf7_1_eax;   // subleaf 1; 0 where leaf 7 has none
    uint32_t extended_ecx;  // leaf 0x80000001
    uint64_t xcr0;          // 0 where OSXSAVE is off
};

/// Features that are both present and usable.
uint64_t features_of(const CpuidWords &words);

/// Features of this machine, or those of fake_cpu_features().
uint64_t cpu_features();

/// For tests: makes cpu_features() return `features` for contexts created and targets set from now on; 0 = the machine again.
void fake_cpu_features(uint64_t features);

/// "avx2 fma" -> bits. Unknown names give kUnknownFeature.
uint64_t parse_features(const char *names);

}  // namespace gdn
