// Estimates from samples of a noisy machine.
#pragma once
#include <vector>

namespace gdn::tune {

struct Estimate {
    double value = 0;          // mean of the samples within 5 (1 + 6 / n) MAD of the median, winsorised at 10 %
    double low = 0, high = 0;  // 95 % interval of it
    double median = 0, mad = 0;
    int samples = 0;
    bool below(const Estimate &other) const { return samples && other.samples && high < other.low; }
};

Estimate estimate(std::vector<double> samples);
/// Product of estimates (the geometric mean's factors) raised to 1/n: values multiply, relative half-widths add in quadrature.
Estimate geometric_mean(const std::vector<Estimate> &factors);

}  // namespace gdn::tune
