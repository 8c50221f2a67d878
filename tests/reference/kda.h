// KDA (Kimi Linear, arXiv 2510.26692): as gdn with a decay per key channel.
#pragma once

#include "raw.h"
#include "recurrence.h"

namespace gdn_reference {

inline void kda(const Raw &x, Token &y) {
    y.q = x.q;
    y.alpha = x.alpha;
    for (std::size_t c = 0; c < x.k.size(); c++) {
        y.a[c] = x.k[c];
        y.e[c] = x.beta[0] * x.k[c];
    }
    for (std::size_t d = 0; d < x.v.size(); d++) y.u[d] = x.beta[0] * x.v[d];
}

}  // namespace gdn_reference
