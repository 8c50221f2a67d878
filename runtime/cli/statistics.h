// Robust numbers of a few samples.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

namespace gdn::cli {

inline double median(std::vector<double> x) {
    if (x.empty()) return 0;
    std::sort(x.begin(), x.end());
    const size_t n = x.size();
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/// Median of the distances from the median.
inline double mad(const std::vector<double> &x) {
    const double middle = median(x);
    std::vector<double> distance;
    for (double value : x) distance.push_back(std::fabs(value - middle));
    return median(distance);
}

/// a[i] / b[i], the samples of one round beside each other.
inline std::vector<double> ratios(const std::vector<double> &a, const std::vector<double> &b) {
    std::vector<double> result;
    for (size_t i = 0; i < a.size() && i < b.size(); i++) result.push_back(a[i] / b[i]);
    return result;
}

}  // namespace gdn::cli
