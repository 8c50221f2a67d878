// FG2-GDN+, arXiv 2604.19021: a = e = sqrt(beta_k) (.) k, u = sqrt(beta_v) (.) v, alpha per key channel. b is beta_k and w is beta_v.
// FG2-GDN is the case beta_k = beta_v.
#include "variant.h"

namespace gdn {

Variant fg2_plus_variant() {
    return {"fg2_plus", false, false, true, false, [](const VariantInput &in) {
                VariantRows out;
                out.a = [=](const Halide::Expr &c) { return in.b.root(c) * in.k(c); };
                out.beta = [](const Halide::Expr &) { return Halide::Expr(1.0f); };
                out.u = [=](const Halide::Expr &d) { return in.w.root(d) * in.v(d); };
                out.alpha = in.alpha;
                return out;
            }};
}

}  // namespace gdn
