// Delta rule (arXiv 2406.06484): a = k, e = beta k, u = beta v, no decay.
#pragma once

#include "raw.h"
#include "recurrence.h"

namespace gdn_reference {

inline void delta_rule(const Raw &x, Token &y) {
    y.q = x.q;
    y.alpha.assign(x.k.size(), 1.0);
    for (std::size_t c = 0; c < x.k.size(); c++) {
        y.a[c] = x.k[c];
        y.e[c] = x.beta[0] * x.k[c];
    }
    for (std::size_t d = 0; d < x.v.size(); d++) y.u[d] = x.beta[0] * x.v[d];
}

}  // namespace gdn_reference
