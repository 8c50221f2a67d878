#include "device.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "error.h"
#include "gdn/gdn.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace gdn {

namespace {

std::atomic<const Device *> faked{nullptr};

struct Part {
    uint32_t number;
    const char *name;
};

// Names as LLVM spells them for -mcpu.
constexpr Part kIntelFamily6[] = {{0x2a, "sandybridge"}, {0x2d, "sandybridge"}, {0x3a, "ivybridge"}, {0x3e, "ivybridge"}, {0x3c, "haswell"},
    {0x3f, "haswell"}, {0x45, "haswell"}, {0x46, "haswell"}, {0x3d, "broadwell"}, {0x47, "broadwell"}, {0x4f, "broadwell"},
    {0x56, "broadwell"}, {0x4e, "skylake"}, {0x5e, "skylake"}, {0x8e, "skylake"}, {0x9e, "skylake"}, {0xa5, "skylake"}, {0xa6, "skylake"},
    {0xa7, "rocketlake"}, {0x66, "cannonlake"}, {0x7d, "icelake-client"}, {0x7e, "icelake-client"}, {0x6a, "icelake-server"},
    {0x6c, "icelake-server"}, {0x8c, "tigerlake"}, {0x8d, "tigerlake"}, {0x8f, "sapphirerapids"}, {0xcf, "emeraldrapids"},
    {0xad, "graniterapids"}, {0xae, "graniterapids-d"}, {0x97, "alderlake"}, {0x9a, "alderlake"}, {0xb7, "raptorlake"},
    {0xba, "raptorlake"}, {0xbf, "raptorlake"}, {0xaa, "meteorlake"}, {0xac, "meteorlake"}, {0xc5, "arrowlake"}, {0xb5, "arrowlake"},
    {0xc6, "arrowlake-s"}, {0xbd, "lunarlake"}, {0xbe, "gracemont"}, {0xaf, "sierraforest"}, {0xb6, "grandridge"},
    {0xdd, "clearwaterforest"}};

struct Implementer {
    uint32_t number;
    const char *name;
};

constexpr Implementer kImplementers[] = {{0x41, "ARM"}, {0x42, "Broadcom"}, {0x43, "Cavium"}, {0x46, "Fujitsu"}, {0x48, "HiSilicon"},
    {0x4e, "NVIDIA"}, {0x50, "AppliedMicro"}, {0x51, "Qualcomm"}, {0x53, "Samsung"}, {0x61, "Apple"}, {0x6d, "Microsoft"},
    {0xc0, "Ampere"}};

// Implementer << 12 | part.
constexpr Part kArmParts[] = {{0x41d03, "cortex-a53"}, {0x41d05, "cortex-a55"}, {0x41d07, "cortex-a57"}, {0x41d08, "cortex-a72"},
    {0x41d09, "cortex-a73"}, {0x41d0a, "cortex-a75"}, {0x41d0b, "cortex-a76"}, {0x41d0c, "neoverse-n1"}, {0x41d0d, "cortex-a77"},
    {0x41d0e, "cortex-a76ae"}, {0x41d40, "neoverse-v1"}, {0x41d41, "cortex-a78"}, {0x41d42, "cortex-a78ae"}, {0x41d44, "cortex-x1"},
    {0x41d46, "cortex-a510"}, {0x41d47, "cortex-a710"}, {0x41d48, "cortex-x2"}, {0x41d49, "neoverse-n2"}, {0x41d4a, "neoverse-e1"},
    {0x41d4b, "cortex-a78c"}, {0x41d4c, "cortex-x1c"}, {0x41d4d, "cortex-a715"}, {0x41d4e, "cortex-x3"}, {0x41d4f, "neoverse-v2"},
    {0x41d80, "cortex-a520"}, {0x41d81, "cortex-a720"}, {0x41d82, "cortex-x4"}, {0x41d84, "neoverse-v3"}, {0x41d85, "cortex-x925"},
    {0x41d87, "cortex-a725"}, {0x41d8e, "neoverse-n3"}, {0x430af, "thunderx2t99"}, {0x46001, "a64fx"}, {0x48d01, "tsv110"},
    {0x4e004, "carmel"}, {0x51001, "oryon-1"}, {0x51c00, "falkor"}, {0x61022, "apple-m1"}, {0x61023, "apple-m1"}, {0x61024, "apple-m1"},
    {0x61025, "apple-m1"}, {0x61028, "apple-m1"}, {0x61029, "apple-m1"}, {0x61032, "apple-m2"}, {0x61033, "apple-m2"},
    {0x61034, "apple-m2"}, {0x61035, "apple-m2"}, {0x61038, "apple-m2"}, {0x61039, "apple-m2"}, {0x61042, "apple-m3"},
    {0x61043, "apple-m3"}, {0x61044, "apple-m3"}, {0x61045, "apple-m3"}, {0x61048, "apple-m3"}, {0x61049, "apple-m3"}, {0xc0ac3, "ampere1"},
    {0xc0ac4, "ampere1a"}, {0xc0ac5, "ampere1b"}};

template <size_t N> const char *name_in(const Part (&parts)[N], uint32_t number) {
    for (const Part &part : parts) {
        if (part.number == number) {
            return part.name;
        }
    }
    return nullptr;
}

const char *intel_name(uint32_t model, const X86Identity &identity) {
    if (model == 0x55) {  // three generations, told apart by what they can do
        return identity.leaf7_1_eax >> 5 & 1 ? "cooperlake" : identity.leaf7_ecx >> 11 & 1 ? "cascadelake" : "skylake-avx512";
    }
    return name_in(kIntelFamily6, model);
}

const char *amd_name(uint32_t family, uint32_t model) {
    const uint32_t high = model >> 4;
    switch (family) {
    case 0x15: return high >= 6 ? "bdver4" : high >= 3 ? "bdver3" : model == 2 || high == 1 ? "bdver2" : "bdver1";
    case 0x17: return high >= 3 ? "znver2" : "znver1";
    case 0x19: return high == 1 || high == 6 || high == 7 || high == 10 ? "znver4" : high <= 5 ? "znver3" : nullptr;
    case 0x1a: return high <= 4 || high == 6 || (high == 7 && model <= 0x77) ? "znver5" : nullptr;
    default: return nullptr;
    }
}

bool letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

bool starts(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

/// Copies a brand without what says nothing of the processor: trade marks, the clock, blanks in a row.
void tidy(const char *brand, char *out, size_t size) {
    size_t n = 0;
    while (*brand && n + 1 < size) {
        if (starts(brand, "(R)") || starts(brand, "(r)")) {
            brand += 3;
        } else if (starts(brand, "(TM)") || starts(brand, "(tm)")) {
            brand += 4;
        } else if (starts(brand, " @ ")) {
            break;
        } else if (*brand == ' ' && (n == 0 || out[n - 1] == ' ')) {
            brand++;
        } else {
            out[n++] = *brand++;
        }
    }
    while (n && out[n - 1] == ' ') {
        n--;
    }
    out[n] = 0;
}

void append_slug(char *key, size_t size, const char *text) {
    size_t n = strlen(key);
    const size_t begin = n;
    for (; *text && n + 1 < size; text++) {
        const char c = lower(*text);
        if (letter_or_digit(c)) {
            key[n++] = c;
        } else if (n > begin && key[n - 1] != '_') {
            key[n++] = '_';
        }
    }
    while (n > begin && key[n - 1] == '_') {
        n--;
    }
    key[n] = 0;
}

/// A brand without a number ("AMD EPYC", as hypervisors like to say) stands for several processors: the architecture goes into the key.
void set_key(Device &device) {
    append_slug(device.key, sizeof device.key, device.vendor);
    strcat(device.key, "-");
    append_slug(device.key, sizeof device.key, device.name);
    if (!strpbrk(device.name, "0123456789") && strcmp(device.name, device.architecture) != 0) {
        strcat(device.key, "-");
        append_slug(device.key, sizeof device.key, device.architecture);
    }
}

void set_architecture(Device &device, const char *name, uint32_t family, uint32_t model) {
    if (name) {
        snprintf(device.architecture, sizeof device.architecture, "%s", name);
    } else {
        snprintf(device.architecture, sizeof device.architecture, "%s-%u-%u", device.vendor, family, model);
    }
    if (!*device.name) {
        snprintf(device.name, sizeof device.name, "%s", device.architecture);
    }
}

#if defined(__x86_64__)
Device read_machine() {
    X86Identity identity = {};
    uint32_t a = 0, b = 0, c = 0, d = 0;
    __cpuid(0, a, b, c, d);
    const uint32_t max_leaf = a;
    memcpy(identity.vendor, &b, 4);
    memcpy(identity.vendor + 4, &d, 4);
    memcpy(identity.vendor + 8, &c, 4);
    if (max_leaf >= 1) {
        __cpuid(1, identity.signature, b, c, d);
    }
    if (max_leaf >= 7) {
        __cpuid_count(7, 0, a, b, identity.leaf7_ecx, d);
        if (a >= 1) {
            __cpuid_count(7, 1, identity.leaf7_1_eax, b, c, d);
        }
    }
    __cpuid(0x80000000u, a, b, c, d);
    if (a >= 0x80000004u) {
        uint32_t words[12];
        for (uint32_t i = 0; i < 3; i++) {
            __cpuid(0x80000002u + i, words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
        }
        memcpy(identity.brand, words, sizeof words);
    }
    return device_of_x86(identity);
}
#elif defined(__aarch64__)
/// Up to size - 1 bytes of a file as text; false if there are none.
bool read_text(const char *path, char *text, size_t size) {
    FILE *file = fopen(path, "rbe");
    const size_t n = file ? fread(text, 1, size - 1, file) : 0;
    if (file) {
        fclose(file);
    }
    text[n] = 0;
    return n > 0;
}

/// Of the CPU with the largest capacity, where the system says which that is; of the last among equals.
uint64_t midr_of_system() {
    uint64_t midr = 0, most = 0;
    for (int cpu = 0; cpu < 1024; cpu++) {
        char path[96], text[32];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/regs/identification/midr_el1", cpu);
        if (!read_text(path, text, sizeof text)) {
            break;
        }
        const uint64_t found = strtoull(text, nullptr, 16);
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpu_capacity", cpu);
        const uint64_t capacity = read_text(path, text, sizeof text) ? strtoull(text, nullptr, 10) : 0;
        if (capacity >= most) {
            midr = found;
            most = capacity;
        }
    }
    return midr;
}

Device read_machine() {
    uint64_t midr = midr_of_system();
    if (!midr) {
        constexpr size_t kMost = 256 << 10;
        if (char *text = static_cast<char *>(malloc(kMost))) {
            midr = read_text("/proc/cpuinfo", text, kMost) ? midr_of_cpuinfo(text) : 0;
            free(text);
        }
    }
    return device_of_arm(midr);
}
#else
Device read_machine() { return device_of_x86({}); }
#endif

}  // namespace

Device device_of_x86(const X86Identity &identity) {
    Device device = {};
    snprintf(device.vendor, sizeof device.vendor, "%s", *identity.vendor ? identity.vendor : "unknown");
    tidy(identity.brand, device.name, sizeof device.name);
    uint32_t family = identity.signature >> 8 & 0xf, model = identity.signature >> 4 & 0xf;
    if (family == 6 || family == 15) {
        model |= identity.signature >> 12 & 0xf0;
    }
    if (family == 15) {
        family += identity.signature >> 20 & 0xff;
    }
    const char *name = nullptr;
    if (!strcmp(device.vendor, "GenuineIntel") && family == 6) {
        name = intel_name(model, identity);
    } else if (!strcmp(device.vendor, "AuthenticAMD")) {
        name = amd_name(family, model);
    }
    set_architecture(device, name, family, model);
    set_key(device);
    return device;
}

Device device_of_arm(uint64_t midr) {
    Device device = {};
    const uint32_t implementer = midr >> 24 & 0xff, part = midr >> 4 & 0xfff;
    snprintf(device.vendor, sizeof device.vendor, midr ? "implementer_0x%02x" : "unknown", implementer);
    for (const Implementer &known : kImplementers) {
        if (known.number == implementer) {
            snprintf(device.vendor, sizeof device.vendor, "%s", known.name);
        }
    }
    set_architecture(device, name_in(kArmParts, implementer << 12 | part), midr >> 16 & 0xf, part);
    set_key(device);
    return device;
}

uint64_t midr_of_cpuinfo(const char *text) {
    struct Field {
        const char *key;
        int shift;
        uint64_t most;
    };
    constexpr Field kFields[] = {{"CPU implementer", 24, 0xff}, {"CPU variant", 20, 0xf}, {"CPU part", 4, 0xfff}, {"CPU revision", 0, 0xf}};
    uint64_t midr = 0;
    while (*text) {
        for (const Field &field : kFields) {
            if (starts(text, field.key)) {
                const char *value = text + strcspn(text, ":\n");
                if (*value == ':') {
                    const uint64_t number = strtoull(value + 1, nullptr, 0) & field.most;
                    midr = (midr & ~(field.most << field.shift)) | number << field.shift;
                }
            }
        }
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return midr ? midr | 0xf0000 : 0;  // architecture: "see the feature registers", as all since ARMv7 say
}

const Device &this_device() {
    static const Device machine = read_machine();
    const Device *fake = faked.load(std::memory_order_acquire);
    return fake ? *fake : machine;
}

void fake_device(const Device *device) { faked.store(device, std::memory_order_release); }

}  // namespace gdn

extern "C" gdn_status gdn_device_get(gdn_device_info *info) {
    if (!info) {
        return gdn::fail(GDN_STATUS_INVALID_ARGUMENT, "info is NULL");
    }
    const gdn::Device &device = gdn::this_device();
    *info = {device.vendor, device.name, device.architecture, device.key};
    return GDN_STATUS_OK;
}
