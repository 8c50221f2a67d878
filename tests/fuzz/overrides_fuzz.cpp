// gdn_apply_overrides on any text: never crashes, reads nothing past the text, and a text that is refused changes nothing.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <gdn/gdn.h>

namespace {

void require(bool good, const char *what) {
    if (good) return;
    std::fprintf(stderr, "%s: %s\n", what, gdn_last_error());
    std::abort();
}

// What the context would do for one call: names kernels and their run-time parameters.
std::string explained(const gdn_context *context) {
    static float values[16 * 16];
    gdn_args args;
    gdn_args_init(&args);
    const auto tensor = [&](std::initializer_list<std::int64_t> shape) {
        gdn_tensor t{};
        t.data = values;
        t.dtype = GDN_DTYPE_F32;
        for (std::int64_t extent : shape) t.shape[t.ndim++] = extent;
        std::int64_t stride = 1;
        for (int i = t.ndim - 1; i >= 0; i--) {
            t.strides[i] = stride;
            stride *= t.shape[i];
        }
        return t;
    };
    static float o[16];
    args.q = args.k = args.v = tensor({1, 1, 1, 16});
    args.beta = args.g = tensor({1, 1, 1});
    args.o = tensor({1, 1, 1, 16});
    args.o.data = o;
    std::size_t needed = 0;
    require(gdn_explain(context, &args, nullptr, 0, &needed) == GDN_STATUS_OK || needed > 0, "explain");
    std::vector<char> text(needed + 1);
    require(gdn_explain(context, &args, text.data(), text.size(), nullptr) == GDN_STATUS_OK, "explain");
    return text.data();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    gdn_context *context = nullptr;
    require(gdn_context_create(nullptr, &context) == GDN_STATUS_OK, "context");
    const std::string before = explained(context);
    // A copy of exactly this size: the address sanitizer sees a byte too many.
    std::vector<char> text(data, data + size);
    text.shrink_to_fit();
    const gdn_status status = gdn_apply_overrides(context, text.data(), text.size());
    if (status != GDN_STATUS_OK) {
        require(std::strlen(gdn_last_error()) > 0, "a refusal without reason");
        require(explained(context) == before, "a refused text has changed the context");
    } else {
        explained(context);
    }
    gdn_context_destroy(context);
    return 0;
}
