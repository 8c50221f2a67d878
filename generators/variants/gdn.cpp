// Gated DeltaNet, arXiv 2412.06464: a = k, e = beta k, u = beta v, one alpha per head.
#include "variant.h"

namespace gdn {

Variant gdn_variant() {
    return {"gdn", true, true, false, false, [](const VariantInput &in) {
                VariantRows out;
                out.a = in.k;
                out.beta = in.b.value;
                out.u = [=](const Halide::Expr &d) { return in.b.value(d) * in.v(d); };
                out.alpha = in.alpha;
                return out;
            }};
}

}  // namespace gdn
