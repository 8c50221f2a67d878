// FG2-GDN+ (arXiv 2604.19021): a = e = sqrt(beta_k) (.) k, u = sqrt(beta_v) (.) v.
#pragma once

#include <cmath>

#include "raw.h"
#include "recurrence.h"

namespace gdn_reference {

inline void fg2_plus(const Raw &x, Token &y) {
    y.q = x.q;
    y.alpha = x.alpha;
    for (std::size_t c = 0; c < x.k.size(); c++) {
        y.a[c] = std::sqrt(x.beta_k[c]) * x.k[c];
        y.e[c] = std::sqrt(x.beta_k[c]) * x.k[c];
    }
    for (std::size_t d = 0; d < x.v.size(); d++) y.u[d] = std::sqrt(x.beta_v[d]) * x.v[d];
}

}  // namespace gdn_reference
