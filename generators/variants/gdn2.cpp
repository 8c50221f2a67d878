// Gated DeltaNet-2, arXiv 2605.22791: a = k, e = b (.) k, u = w (.) v, alpha per key channel.
#include "variant.h"

namespace gdn {

Variant gdn2_variant() {
    return {"gdn2", false, false, true, true, [](const VariantInput &in) {
                VariantRows out;
                out.a = in.k;
                out.e = [=](const Halide::Expr &c) { return in.b.value(c) * in.k(c); };
                out.u = [=](const Halide::Expr &d) { return in.w.value(d) * in.v(d); };
                out.alpha = in.alpha;
                return out;
            }};
}

}  // namespace gdn
