#include "autotune/measure/demand.h"

#include <algorithm>
#include <cstdio>

#include "autotune/measure/shapes.h"

namespace gdn::tune {

namespace {

constexpr double kItself = 128 << 20;  // code, stacks, workspaces
constexpr double kTogether = 32;       // children at a time, however much memory there is

std::string gib(double bytes) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f GiB", bytes / (1 << 30));
    return text;
}

}  // namespace

Measurer::Work work_of(const Kernel &kernel, const Shape &s) {
    const auto param = [&](const char *name) {
        const auto found = kernel.params.find(name);
        return found == kernel.params.end() ? std::string() : found->second;
    };
    const auto bytes_of = [](const std::string &dtype) { return dtype == "bf16" || dtype == "f16" ? 2.0 : 4.0; };
    const double K = static_cast<double>(s.K), V = static_cast<double>(s.V), tokens = static_cast<double>(s.B * s.T * s.H),
                 states = static_cast<double>(s.B * s.H) * K * V * 4, element = bytes_of(param("dtype"));
    const std::string core = param("core"), variant = param("variant");
    // q, k and the decay's, the gates' numbers of one token and head; v and o come on top.
    const bool scalar = core == "scalar_tied" || variant == "gdn",
               own = core == "channel_own" || variant == "gdn2" || variant == "fg2_plus";
    const double keys = 2 * K + (own ? K : 1), values = V + (own ? V : 0), decay = scalar ? 1 : K;
    Measurer::Work work;
    if (kernel.family == "stage") {
        // Read: the caller's rows. Written: q, a, alpha, u, e. A scale and a product each, and the decay's exponential.
        const double g = param("form") == "logits" ? element : 4;
        work.bytes = tokens * ((keys + values) * element + decay * g + 4 * (2 * K + decay + V + (variant == "gdn2" ? K : 1)));
        work.flops =
            tokens * (2 * K + V + (own ? 2 * K + V : 0) + (param("form") == "norm" || param("form") == "logits" ? 4 * K : 0) + decay);
    } else if (kernel.family == "short_conv" || kernel.family == "short_conv_step") {
        const double width = param("width") == "any" ? 3 : 4, state = kernel.family == "short_conv_step" ? 2 * (width - 1) * element : 0;
        work.bytes = tokens * K * (element + 4 + state);
        work.flops = tokens * K * (2 * width + 1);
    } else if (kernel.family == "gated_norm") {
        work.bytes = tokens * V * (4 + bytes_of(param("z_dtype")) + element);
        work.flops = tokens * V * 6;
    } else {
        work.flops = 7 * K * V * tokens;
        work.bytes = tokens * 4 * (keys + values + decay + V) + 2 * states;
        if (kernel.family == "core_block") work.bytes += (static_cast<double>(s.T) - 1) * states;
    }
    return work;
}

// The tensors are what a call reads and writes, and states: a stage's calls have some that it does not touch, a block's last one is kept
// twice, and timed decoding has its own to update.
double child_bytes(const Kernel &kernel, const std::vector<Shape> &shapes) {
    const bool stage = kernel.family == "stage", block = kernel.family == "core_block", decoding = decodes(kernel.family),
               core = kernel.family.compare(0, 4, "core") == 0, convolution = kernel.family.compare(0, 10, "short_conv") == 0;
    double tensors = 0, reference = 0;
    for (Shape shape : shapes) {
        if (decoding) shape.T = kDecodedTokens;
        const double tokens = static_cast<double>(shape.B * shape.T * shape.H),
                     state = core || stage ? static_cast<double>(shape.B * shape.H * shape.K * shape.V) : 0;
        tensors += work_of(kernel, shape).bytes + 4 * state * (stage ? 2 : block || (decoding && !shape.cold) ? 1 : 0);
        if (shape.cold) tensors += std::max(2 * 4 * state, static_cast<double>(kColdBytes));
        const double values =
            tokens * static_cast<double>(convolution ? shape.K : shape.V) + state * (block ? 1 + static_cast<double>(shape.T) : 1);
        reference = std::max(reference, static_cast<double>(sizeof(double)) * values);
    }
    return tensors + reference + kItself;
}

void require_memory(const Kernel &kernel, const std::vector<Shape> &shapes, uint64_t most) {
    const double needed = child_bytes(kernel, shapes);
    if (needed <= static_cast<double>(most)) return;
    throw TaskError("the shapes of " + kernel.name + " need " + gib(needed) + " together, and a candidate may have " +
                    gib(static_cast<double>(most)) + ": name fewer or smaller ones");
}

size_t children_together(double child_bytes, double available) {
    return static_cast<size_t>(available > 0 ? std::clamp(available / 2 / child_bytes, 1.0, kTogether) : kTogether);
}

}  // namespace gdn::tune
