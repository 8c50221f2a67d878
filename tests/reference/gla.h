// Gated linear attention (arXiv 2312.06635): a = k, nothing is erased, u = v.
#pragma once

#include "raw.h"
#include "recurrence.h"

namespace gdn_reference {

inline void gla(const Raw &x, Token &y) {
    y.q = x.q;
    y.alpha = x.alpha;
    for (std::size_t c = 0; c < x.k.size(); c++) {
        y.a[c] = x.k[c];
        y.e[c] = 0;
    }
    for (std::size_t d = 0; d < x.v.size(); d++) y.u[d] = x.v[d];
}

}  // namespace gdn_reference
