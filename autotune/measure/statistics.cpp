#include "autotune/measure/statistics.h"

#include <algorithm>
#include <cmath>

namespace gdn::tune {

namespace {

double median_of(std::vector<double> values) {
    const size_t n = values.size(), half = n / 2;
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(half), values.end());
    const double upper = values[half];
    if (n % 2) return upper;
    return (*std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(half)) + upper) / 2;
}

/// 97.5 % quantile of Student's t.
double student(size_t freedom) {
    constexpr double kTable[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228};
    return freedom <= 10 ? kTable[freedom - 1] : 1.96 + 2.65 / static_cast<double>(freedom);
}

}  // namespace

Estimate estimate(std::vector<double> samples) {
    Estimate result;
    if (samples.empty()) return result;
    result.median = median_of(samples);
    std::vector<double> distances;
    for (const double x : samples) distances.push_back(std::fabs(x - result.median));
    result.mad = median_of(distances);
    // Few samples have a MAD that is often too small by chance: a fence of 5 MAD would cut good ones and make the interval too narrow.
    const double fence = 5 * (1 + 6 / static_cast<double>(samples.size())) * result.mad;
    const auto far = [&](double x) { return std::fabs(x - result.median) > fence; };
    samples.erase(std::remove_if(samples.begin(), samples.end(), far), samples.end());
    std::sort(samples.begin(), samples.end());

    const size_t n = samples.size(), cut = n / 10;
    result.samples = static_cast<int>(n);
    std::fill_n(samples.begin(), cut, samples[cut]);
    std::fill_n(samples.rbegin(), cut, samples[n - 1 - cut]);
    double sum = 0, squares = 0;
    for (const double x : samples) sum += x;
    result.value = sum / static_cast<double>(n);
    for (const double x : samples) squares += (x - result.value) * (x - result.value);
    if (n == 1) {  // one sample says nothing of how far off it may be
        result.low = 0;
        result.high = 2 * result.value;
        return result;
    }
    // The winsorised deviation stands for less than all of the samples (Tukey and McLaughlin 1963).
    const double deviation = std::sqrt(squares / static_cast<double>(n - 1)), kept = static_cast<double>(n - 2 * cut);
    const double half = student(n - 2 * cut - 1) * deviation * std::sqrt(static_cast<double>(n)) / kept;
    result.low = std::max(0.0, result.value - half);
    result.high = result.value + half;
    return result;
}

Estimate geometric_mean(const std::vector<Estimate> &factors) {
    Estimate result;
    if (factors.empty()) return result;
    const double n = static_cast<double>(factors.size());
    double value = 0, median = 0, half = 0, mad = 0;
    result.samples = factors[0].samples;
    for (const Estimate &f : factors) {
        value += std::log(f.value);
        median += std::log(f.median);
        half += std::pow((f.high - f.value) / f.value, 2);
        mad += std::pow(f.mad / f.median, 2);
        result.samples = std::min(result.samples, f.samples);
    }
    result.value = std::exp(value / n);
    result.median = std::exp(median / n);
    result.mad = result.median * std::sqrt(mad) / n;
    const double width = result.value * std::sqrt(half) / n;
    result.low = std::max(0.0, result.value - width);
    result.high = result.value + width;
    return result;
}

}  // namespace gdn::tune
