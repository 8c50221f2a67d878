// The output norm and gate of one row, in double: y = o / sqrt(mean o^2 + eps) * weight * act(z).
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "units.h"

namespace gdn_reference {

struct GatedNorm {
    bool norm = true;
    double eps = 1e-5;
    bool gate = true;
    gdn_activation f = GDN_ACTIVATION_SILU;  // of the gate
};

// weight and z are read only where there is a norm, or a gate.
inline std::vector<double> gated_norm(
    const GatedNorm &what, const std::vector<double> &o, const std::vector<double> &weight, const std::vector<double> &z) {
    double squares = 0;
    for (double value : o) squares += value * value;
    const double rms = std::sqrt(squares / static_cast<double>(o.size()) + what.eps);
    std::vector<double> y;
    for (std::size_t d = 0; d < o.size(); d++) {
        double value = o[d];
        if (what.norm) value = value / rms * weight[d];
        if (what.gate) value *= activation(what.f, z[d]);
        y.push_back(value);
    }
    return y;
}

}  // namespace gdn_reference
