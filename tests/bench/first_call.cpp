// A fresh process that loads libgdn and makes one small call. Prints "load_seconds first_call_seconds".
#include <chrono>
#include <cstdio>
#include <vector>

#include <dlfcn.h>

#include <gdn/gdn.h>

namespace {

constexpr int64_t kTokens = 8, kDim = 128;

gdn_tensor view(std::vector<float> &data, std::initializer_list<int64_t> shape) {
    gdn_tensor tensor = {};
    tensor.data = data.data();
    tensor.dtype = GDN_DTYPE_F32;
    for (int64_t extent : shape) tensor.shape[tensor.ndim++] = extent;
    int64_t stride = 1;
    for (int i = tensor.ndim; i-- > 0; stride *= tensor.shape[i]) tensor.strides[i] = stride;
    return tensor;
}

}  // namespace

int main() {
    std::vector<float> q(kTokens * kDim, 0.1f), k(q), v(q), g(kTokens * kDim, -0.1f), beta(kTokens, 0.5f), o(q), state(kDim * kDim);
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    void *library = dlopen(GDN_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    const auto init = reinterpret_cast<decltype(&gdn_args_init)>(dlsym(library, "gdn_args_init"));
    const auto create = reinterpret_cast<decltype(&gdn_context_create)>(dlsym(library, "gdn_context_create"));
    const auto forward = reinterpret_cast<decltype(&gdn_forward)>(dlsym(library, "gdn_forward"));
    if (!init || !create || !forward) return 1;
    const auto loaded = Clock::now();

    gdn_args args;
    init(&args);
    args.variant = GDN_VARIANT_KDA;
    args.q = view(q, {1, kTokens, 1, kDim});
    args.k = view(k, {1, kTokens, 1, kDim});
    args.v = view(v, {1, kTokens, 1, kDim});
    args.g = view(g, {1, kTokens, 1, kDim});
    args.o = view(o, {1, kTokens, 1, kDim});
    args.beta = view(beta, {1, kTokens, 1});
    args.final_state = view(state, {1, 1, kDim, kDim});
    gdn_context *context = nullptr;
    if (create(nullptr, &context) != GDN_STATUS_OK || forward(context, &args, nullptr, 0) != GDN_STATUS_OK) return 1;
    const auto called = Clock::now();
    std::printf(
        "%.9f %.9f\n", std::chrono::duration<double>(loaded - start).count(), std::chrono::duration<double>(called - loaded).count());
}
