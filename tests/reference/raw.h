// One token of one value head as the caller means it: units resolved, heads picked, the variant not yet applied.
#pragma once

#include <cstddef>
#include <vector>

namespace gdn_reference {

struct Raw {
    std::vector<double> q, k;            // [K], l2-normalised if that was asked for
    std::vector<double> v;               // [V]
    std::vector<double> alpha;           // [K]; a scalar decay stands in every channel
    std::vector<double> beta;            // [1] or, fg2, [K]
    std::vector<double> b, w;            // gdn2: [K], [V]
    std::vector<double> beta_k, beta_v;  // fg2_plus: [K], [V]
};

}  // namespace gdn_reference
