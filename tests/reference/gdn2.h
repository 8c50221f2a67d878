// Gated DeltaNet-2 (arXiv 2605.22791): a = k, e = b (.) k, u = w (.) v: erase and write have gates of their own.
#pragma once

#include "raw.h"
#include "recurrence.h"

namespace gdn_reference {

inline void gdn2(const Raw &x, Token &y) {
    y.q = x.q;
    y.alpha = x.alpha;
    for (std::size_t c = 0; c < x.k.size(); c++) {
        y.a[c] = x.k[c];
        y.e[c] = x.b[c] * x.k[c];
    }
    for (std::size_t d = 0; d < x.v.size(); d++) y.u[d] = x.w[d] * x.v[d];
}

}  // namespace gdn_reference
