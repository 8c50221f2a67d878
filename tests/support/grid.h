// Cases on targets as GoogleTest parameters, and views of part of a call.
#pragma once

#include <cstdint>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "case.h"

namespace gdn_test {

struct Run {
    std::string target;
    Case c;

    friend void PrintTo(const Run &run, std::ostream *out) { *out << run.target << " " << name(run.c); }
};

inline std::string run_name(const ::testing::TestParamInfo<Run> &info) { return info.param.target + "_" + name(info.param.c); }

// Every case on every target, the targets of one case in a row (they share the reference's result). Cases of one name count once.
inline std::vector<Run> on_targets(const std::vector<Case> &cases) {
    std::vector<Run> runs;
    std::set<std::string> seen;
    for (const Case &c : cases)
        if (seen.insert(name(c)).second)
            for (const std::string &target : targets(c.precision)) runs.push_back({target, c});
    return runs;
}

inline constexpr gdn_variant kVariants[] = {
    GDN_VARIANT_DELTA_RULE, GDN_VARIANT_GLA, GDN_VARIANT_GDN, GDN_VARIANT_KDA, GDN_VARIANT_GDN2, GDN_VARIANT_FG2, GDN_VARIANT_FG2_PLUS};
inline constexpr gdn_dtype kDtypes[] = {GDN_DTYPE_F32, GDN_DTYPE_BF16, GDN_DTYPE_F16};

struct Size {
    std::int64_t K, V;
};
inline constexpr Size kSizes[] = {{64, 64}, {128, 128}, {256, 256}, {96, 192}, {192, 192}, {128, 256}, {48, 80}, {8, 24}, {1, 1}};

// G2's lengths.
inline constexpr std::int64_t kLengths[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128, 129, 200};

// Extents [first, first + count) along one dimension of a view.
inline void narrow(gdn_tensor &tensor, int dimension, std::int64_t first, std::int64_t count) {
    if (!tensor.data) return;
    const std::int64_t bytes = tensor.dtype == GDN_DTYPE_F32 || tensor.dtype == GDN_DTYPE_I32 ? 4 : tensor.dtype == GDN_DTYPE_I64 ? 8 : 2;
    tensor.data = static_cast<char *>(tensor.data) + first * tensor.strides[dimension] * bytes;
    tensor.shape[dimension] = count;
}

// Tokens [first, first + count) of every sequence. States stay.
inline gdn_args time_slice(gdn_args args, std::int64_t first, std::int64_t count) {
    for (gdn_tensor *tensor : {&args.q, &args.k, &args.v, &args.g, &args.beta, &args.b, &args.w, &args.beta_k, &args.beta_v, &args.o})
        narrow(*tensor, 1, first, count);
    return args;
}

// Sequences [first, first + count) of a batch.
inline gdn_args batch_slice(gdn_args args, std::int64_t first, std::int64_t count) {
    for (gdn_tensor *tensor : {&args.q, &args.k, &args.v, &args.g, &args.beta, &args.b, &args.w, &args.beta_k, &args.beta_v, &args.o,
             &args.initial_state, &args.final_state, &args.snapshots})
        narrow(*tensor, 0, first, count);
    return args;
}

// Key head h and the value heads that use it (division map).
inline gdn_args head_slice(gdn_args args, std::int64_t h) {
    const std::int64_t H = args.q.shape[2], HV = args.v.shape[2], group = HV / H;
    const auto cut = [&](gdn_tensor &tensor, int dimension) {
        if (!tensor.data) return;
        const bool per_value_head = tensor.shape[dimension] == HV;
        narrow(tensor, dimension, per_value_head ? h * group : h, per_value_head ? group : 1);
    };
    for (gdn_tensor *tensor : {&args.q, &args.k, &args.v, &args.g, &args.beta, &args.b, &args.w, &args.beta_k, &args.beta_v, &args.o})
        cut(*tensor, 2);
    cut(args.A_log, 0);
    cut(args.dt_bias, 0);
    cut(args.initial_state, 1);
    cut(args.final_state, 1);
    cut(args.snapshots, 2);
    return args;
}

}  // namespace gdn_test
