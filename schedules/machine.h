// What a schedule needs to know of the machine that it is written for.
#pragma once
#include <Halide.h>

#include <string>

namespace gdn {

struct Machine {
    std::string schedule;  // folder of schedules/: x86_avx512, x86_avx2, arm_neon, reference
    int lanes;             // float32 in one vector
    int registers;         // architectural vector registers
    int l1_bytes;          // data cache of one core that schedules may count on
};

inline Machine machine_of(const Halide::Target &target, const std::string &schedule) {
    if (target.arch == Halide::Target::ARM) return {schedule, 4, 32, 32 << 10};
    if (target.has_feature(Halide::Target::AVX512)) return {schedule, 16, 32, 32 << 10};
    if (target.has_feature(Halide::Target::AVX2)) return {schedule, 8, 16, 32 << 10};
    return {schedule, 4, 16, 32 << 10};
}

}  // namespace gdn
