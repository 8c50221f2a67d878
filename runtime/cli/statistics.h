// Robust numbers of a few samples.
#pragma once
#include <algorithm>
#include <cmath>
#include <utility>
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

/// 95 % interval of the median, whatever the distribution: between two samples in order.
inline std::pair<double, double> median_interval(std::vector<double> x) {
    if (x.empty()) return {0, 0};
    std::sort(x.begin(), x.end());
    const double n = static_cast<double>(x.size());
    const auto below = static_cast<size_t>(std::max(0.0, std::floor(n / 2 - 0.98 * std::sqrt(n))));
    return {x[below], x[x.size() - 1 - below]};
}

/// a[i] / b[i], the samples of one round beside each other.
inline std::vector<double> ratios(const std::vector<double> &a, const std::vector<double> &b) {
    std::vector<double> result;
    for (size_t i = 0; i < a.size() && i < b.size(); i++) result.push_back(a[i] / b[i]);
    return result;
}

}  // namespace gdn::cli
