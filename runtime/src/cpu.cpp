#include "cpu.h"

#include <atomic>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace gdn {

namespace {

std::atomic<uint64_t> fake_features{0};

struct FeatureName {
    const char *name;
    uint64_t bit;
};

// Spelled as in /proc/cpuinfo.
constexpr FeatureName kFeatureNames[] = {
    {"sse3", kSse3},
    {"ssse3", kSsse3},
    {"sse4_1", kSse41},
    {"sse4_2", kSse42},
    {"popcnt", kPopcnt},
    {"avx", kAvx},
    {"f16c", kF16c},
    {"fma", kFma},
    {"avx2", kAvx2},
    {"bmi1", kBmi},
    {"bmi2", kBmi2},
    {"abm", kLzcnt},
    {"avx512f", kAvx512F},
    {"avx512cd", kAvx512Cd},
    {"avx512dq", kAvx512Dq},
    {"avx512bw", kAvx512Bw},
    {"avx512vl", kAvx512Vl},
    {"avx512_vnni", kAvx512Vnni},
    {"avx512_bf16", kAvx512Bf16},
    {"movbe", kMovbe},
    {"avx512ifma", kAvx512Ifma},
    {"avx512vbmi", kAvx512Vbmi},
    {"avx512_vbmi2", kAvx512Vbmi2},
    {"avx512_bitalg", kAvx512Bitalg},
    {"avx512_vpopcntdq", kAvx512Vpopcntdq},
    {"gfni", kGfni},
    {"asimd", kNeon},
};

uint64_t read_machine() {
#if defined(__x86_64__)
    CpuidWords words = {};
    uint32_t a = 0, b = 0, c = 0, d = 0;
    __cpuid(0, words.max_leaf, b, c, d);
    if (words.max_leaf >= 1) {
        __cpuid(1, a, b, words.leaf1_ecx, d);
        if (words.leaf1_ecx & (1u << 27)) {  // OSXSAVE: xgetbv may be used
            uint32_t low = 0, high = 0;
            __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
            words.xcr0 = (uint64_t)high << 32 | low;
        }
    }
    if (words.max_leaf >= 7) {
        __cpuid_count(7, 0, a, words.leaf7_ebx, words.leaf7_ecx, d);
        if (a >= 1) {
            __cpuid_count(7, 1, words.leaf7_1_eax, b, c, d);
        }
    }
    __cpuid(0x80000000u, a, b, c, d);
    if (a >= 0x80000001u) {
        __cpuid(0x80000001u, a, b, words.extended_ecx, d);
    }
    return features_of(words);
#elif defined(__aarch64__)
    return kNeon;  // part of the base architecture
#else
    return 0;
#endif
}

}  // namespace

uint64_t features_of(const CpuidWords &words) {
    uint64_t found = 0;
    const auto add = [&found](uint32_t word, int bit, uint64_t feature) {
        if (word >> bit & 1) {
            found |= feature;
        }
    };
    const uint32_t leaf1 = words.max_leaf >= 1 ? words.leaf1_ecx : 0;
    add(leaf1, 0, kSse3);
    add(leaf1, 9, kSsse3);
    add(leaf1, 19, kSse41);
    add(leaf1, 20, kSse42);
    add(leaf1, 22, kMovbe);
    add(leaf1, 23, kPopcnt);
    add(words.extended_ecx, 5, kLzcnt);

    const bool xsave = leaf1 >> 27 & 1;
    const bool ymm = xsave && (words.xcr0 & 0x6) == 0x6;  // xmm and ymm halves are saved
    const bool zmm = ymm && (words.xcr0 & 0xe0) == 0xe0;  // masks, upper zmm halves, zmm16-31
    const uint32_t leaf7 = words.max_leaf >= 7 ? words.leaf7_ebx : 0;
    add(leaf7, 3, kBmi);
    add(leaf7, 8, kBmi2);
    if (ymm) {
        add(leaf1, 28, kAvx);
        add(leaf1, 29, kF16c);
        add(leaf1, 12, kFma);
        add(leaf7, 5, kAvx2);
    }
    if (zmm) {
        add(leaf7, 16, kAvx512F);
        add(leaf7, 17, kAvx512Dq);
        add(leaf7, 21, kAvx512Ifma);
        add(leaf7, 28, kAvx512Cd);
        add(leaf7, 30, kAvx512Bw);
        add(leaf7, 31, kAvx512Vl);
        if (words.max_leaf >= 7) {
            add(words.leaf7_ecx, 1, kAvx512Vbmi);
            add(words.leaf7_ecx, 6, kAvx512Vbmi2);
            add(words.leaf7_ecx, 8, kGfni);
            add(words.leaf7_ecx, 11, kAvx512Vnni);
            add(words.leaf7_ecx, 12, kAvx512Bitalg);
            add(words.leaf7_ecx, 14, kAvx512Vpopcntdq);
            add(words.leaf7_1_eax, 5, kAvx512Bf16);
        }
    }
    return found;
}

uint64_t cpu_features() {
    static const uint64_t machine = read_machine();
    const uint64_t fake = fake_features.load(std::memory_order_relaxed);
    return fake ? fake : machine;
}

void fake_cpu_features(uint64_t features) { fake_features.store(features, std::memory_order_relaxed); }

uint64_t parse_features(const char *names) {
    uint64_t bits = 0;
    while (*names) {
        const size_t length = strcspn(names, " ");
        if (length) {
            uint64_t bit = kUnknownFeature;
            for (const FeatureName &f : kFeatureNames) {
                if (strlen(f.name) == length && !memcmp(f.name, names, length)) {
                    bit = f.bit;
                }
            }
            bits |= bit;
        }
        names += length;
        names += *names == ' ';
    }
    return bits;
}

}  // namespace gdn
