// A small valid call of the operator in plain vectors, for tests of the runtime: what is wrong is put in afterwards.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gdn/gdn.h>

namespace gdn_test {

struct ContextDeleter {
    void operator()(gdn_context *context) const { gdn_context_destroy(context); }
};
using ContextPtr = std::unique_ptr<gdn_context, ContextDeleter>;

inline gdn_context_options options_with_threads(int threads) {
    gdn_context_options options;
    gdn_context_options_init(&options);
    options.num_threads = threads;
    return options;
}

inline ContextPtr make_context(const gdn_context_options &options) {
    gdn_context *context = nullptr;
    gdn_context_create(&options, &context);
    return ContextPtr(context);
}

inline ContextPtr make_context(int threads = 1) { return make_context(options_with_threads(threads)); }

struct CallSize {
    std::int64_t B = 2, T = 20, H = 2, HV = 4, K = 32, V = 48;
};

struct SmallCall {
    explicit SmallCall(const CallSize &size = {}, gdn_variant variant = GDN_VARIANT_KDA) : size(size) {
        const auto [B, T, H, HV, K, V] = size;
        gdn_args_init(&args);
        args.variant = variant;
        args.q = tensor(q, {B, T, H, K}, -1, 1);
        args.k = tensor(k, {B, T, H, K}, -0.3f, 0.3f);
        args.v = tensor(v, {B, T, HV, V}, -1, 1);
        const bool channels = variant != GDN_VARIANT_GDN && variant != GDN_VARIANT_DELTA_RULE;
        if (variant != GDN_VARIANT_DELTA_RULE) args.g = channels ? tensor(g, {B, T, HV, K}, -1, 0) : tensor(g, {B, T, HV}, -1, 0);
        if (variant == GDN_VARIANT_GDN2) {
            args.b = tensor(b, {B, T, H, K}, 0, 1);
            args.w = tensor(w, {B, T, HV, V}, 0, 1);
        } else if (variant == GDN_VARIANT_FG2_PLUS) {
            args.beta_k = tensor(b, {B, T, H, K}, 0, 1);
            args.beta_v = tensor(w, {B, T, HV, V}, 0, 1);
        } else if (variant == GDN_VARIANT_FG2) {
            args.beta = tensor(beta, {B, T, HV, K}, 0, 1);
        } else if (variant != GDN_VARIANT_GLA) {
            args.beta = tensor(beta, {B, T, HV}, 0, 1);
        }
        args.initial_state = tensor(initial_state, {B, HV, K, V}, -1, 1);
        args.final_state = tensor(final_state, {B, HV, K, V}, 0, 0);
        args.o = tensor(o, {B, T, HV, V}, 0, 0);
        poison();
    }

    gdn_tensor tensor(std::vector<float> &data, std::vector<std::int64_t> shape, float low, float high) {
        gdn_tensor t = {};
        std::int64_t count = 1;
        for (std::size_t i = shape.size(); i-- > 0;) {
            t.shape[i] = shape[i];
            t.strides[i] = count;
            count *= shape[i];
        }
        data.resize(static_cast<std::size_t>(count));
        std::uniform_real_distribution<float> value(low, std::nextafter(high, high + 1));
        for (float &x : data) x = value(random);
        t.data = data.data();
        t.dtype = GDN_DTYPE_F32;
        t.ndim = static_cast<std::int32_t>(shape.size());
        return t;
    }

    static gdn_tensor indices(std::vector<std::int64_t> &data) {
        gdn_tensor t = {};
        t.data = data.data();
        t.dtype = GDN_DTYPE_I64;
        t.ndim = 1;
        t.shape[0] = static_cast<std::int64_t>(data.size());
        t.strides[0] = 1;
        return t;
    }

    void poison() {
        for (std::vector<float> *output : {&o, &final_state})
            if (!output->empty()) std::memset(output->data(), 0xFF, output->size() * sizeof(float));
    }
    bool poisoned() const {
        for (const std::vector<float> *output : {&o, &final_state})
            for (const float &x : *output) {
                std::uint32_t bits;
                std::memcpy(&bits, &x, 4);
                if (bits != 0xFFFFFFFFu) return false;
            }
        return true;
    }
    bool filled() const {
        for (const std::vector<float> *output : {&o, &final_state})
            for (const float x : *output)
                if (!std::isfinite(x)) return false;
        return true;
    }

    CallSize size;
    std::mt19937 random{7};
    gdn_args args;
    std::vector<float> q, k, v, g, beta, b, w, initial_state, final_state, o, snapshots;
};

}  // namespace gdn_test
