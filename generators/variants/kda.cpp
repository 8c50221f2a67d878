// Kimi Delta Attention, arXiv 2510.26692: a = k, e = beta k, u = beta v, alpha per key channel.
#include "variant.h"

namespace gdn {

Variant kda_variant() {
    return {"kda", false, true, false, false, [](const VariantInput &in) {
                VariantRows out;
                out.a = in.k;
                out.beta = in.b.value;
                out.u = [=](const Halide::Expr &d) { return in.b.value(d) * in.v(d); };
                out.alpha = in.alpha;
                return out;
            }};
}

}  // namespace gdn
