// The short convolution of one channel, in double: y_t = act(bias + sum_j w_{W-1-j} x_{t-j}), with what came before the first token in `old`.
#pragma once

#include <cstddef>
#include <vector>

#include "units.h"

namespace gdn_reference {

// x: tokens in order. old: the last inputs before them, oldest first; what lies further back is 0. w: the newest token's tap last.
inline std::vector<double> short_conv(
    const std::vector<double> &x, const std::vector<double> &old, const std::vector<double> &w, double bias, gdn_activation f) {
    std::vector<double> all = old;
    all.insert(all.end(), x.begin(), x.end());
    std::vector<double> y;
    for (std::size_t now = old.size(); now < all.size(); now++) {
        double sum = bias;
        for (std::size_t back = 0; back < w.size() && back <= now; back++) sum += w[w.size() - 1 - back] * all[now - back];
        y.push_back(activation(f, sum));
    }
    return y;
}

}  // namespace gdn_reference
