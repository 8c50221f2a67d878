// FG2-GDN (arXiv 2604.19021): a = e = sqrt(beta) (.) k, u = sqrt(beta) (.) v with one beta per channel, so K = V.
#pragma once

#include <cmath>

#include "raw.h"
#include "recurrence.h"

namespace gdn_reference {

inline void fg2(const Raw &x, Token &y) {
    y.q = x.q;
    y.alpha = x.alpha;
    for (std::size_t c = 0; c < x.k.size(); c++) {
        y.a[c] = std::sqrt(x.beta[c]) * x.k[c];
        y.e[c] = std::sqrt(x.beta[c]) * x.k[c];
    }
    for (std::size_t d = 0; d < x.v.size(); d++) y.u[d] = std::sqrt(x.beta[d]) * x.v[d];
}

}  // namespace gdn_reference
