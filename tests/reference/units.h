// From what a caller passes to what the formulas use: decay units, gate units, l2 norm. All in double.
#pragma once

#include <cmath>
#include <vector>

#include <gdn/gdn.h>

namespace gdn_reference {

inline double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

inline double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }

// alpha from g in the given unit. `A` is exp(A_log).
inline double decay(gdn_decay unit, double g, double A, double dt_bias, double lower_bound) {
    switch (unit) {
    case GDN_DECAY_LOG: return std::exp(g);
    case GDN_DECAY_LINEAR: return g;
    case GDN_DECAY_SOFTPLUS: return std::exp(-A * softplus(g + dt_bias));
    case GDN_DECAY_LOWER_BOUND: return std::exp(lower_bound * sigmoid(A * (g + dt_bias)));
    }
    return std::nan("");
}

// A gate from its unit; `twice` is allow_neg_eigval.
inline double gate(gdn_gate unit, double x, bool twice) { return unit == GDN_GATE_LOGIT ? (twice ? 2 : 1) * sigmoid(x) : x; }

// The functions around the operator: after a convolution, of an output gate.
inline double activation(gdn_activation f, double x) {
    return f == GDN_ACTIVATION_SILU ? x * sigmoid(x) : f == GDN_ACTIVATION_SIGMOID ? sigmoid(x) : x;
}

// x / sqrt(sum x^2 + 1e-6)
inline void l2norm(std::vector<double> &x) {
    double sum = 0;
    for (double value : x) sum += value * value;
    const double scale = 1 / std::sqrt(sum + 1e-6);
    for (double &value : x) value *= scale;
}

}  // namespace gdn_reference
