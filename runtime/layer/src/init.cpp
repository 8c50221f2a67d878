// Seeded weights, the same bits on every machine: an own counter-based generator, own log and exp out of + - * / and roots (which IEEE
// rounds the same everywhere; the build keeps this file free of fused multiply-adds), and no order between tensors or values.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>

#include "fail.h"
#include "weights.h"

namespace gdn::layer {
namespace {

/// Number i of a stream is a hash of i: the output function of splitmix64 over its Weyl sequence.
class Stream {
public:
    Stream(std::uint64_t seed, const std::string &name) {
        key_ = 0xcbf29ce484222325;  // FNV-1a of the tensor's name, so that no tensor's numbers depend on which others there are
        for (unsigned char c : name) key_ = (key_ ^ c) * 0x100000001b3;
        key_ = mix(key_ + mix(seed + kWeyl));
    }
    /// [0, 1), 53 bits
    double uniform(std::uint64_t i) const { return static_cast<double>(mix(key_ + i * kWeyl) >> 11) * 0x1p-53; }
    double uniform(std::uint64_t i, double low, double high) const { return low + (high - low) * uniform(i); }

private:
    static constexpr std::uint64_t kWeyl = 0x9e3779b97f4a7c15;
    static std::uint64_t mix(std::uint64_t x) {
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
        x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
        return x ^ (x >> 31);
    }
    std::uint64_t key_;
};

constexpr double kLn2 = 0.693147180559945309417232121458;

/// x = m 2^e with m near 1; log m = 2 artanh((m - 1) / (m + 1)) as a series.
double portable_log(double x) {
    int exponent;
    double m = std::frexp(x, &exponent);
    if (m < 0.70710678118654752) {
        m *= 2;
        exponent--;
    }
    const double s = (m - 1) / (m + 1), square = s * s;
    double sum = 0;
    for (int k = 23; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
    return 2 * s * sum + exponent * kLn2;
}

/// x = k ln 2 + r; e^r as a series.
double portable_exp(double x) {
    const double k = std::floor(x / kLn2 + 0.5), r = x - k * kLn2;
    double sum = 1;
    for (int n = 18; n >= 1; n--) sum = 1 + sum * r / n;
    return std::ldexp(sum, static_cast<int>(k));
}

/// Two independent normal numbers by the polar method: points in the square until one lies in the circle.
void normal_pair(const Stream &stream, std::uint64_t pair, double (&out)[2]) {
    constexpr std::uint64_t kTries = 32;
    for (std::uint64_t i = 0; i < kTries; i++) {
        const std::uint64_t at = 2 * (pair * kTries + i);
        const double x = 2 * stream.uniform(at) - 1, y = 2 * stream.uniform(at + 1) - 1, square = x * x + y * y;
        if (square >= 1 || square == 0) continue;
        const double scale = std::sqrt(-2 * portable_log(square) / square);
        out[0] = x * scale;
        out[1] = y * scale;
        return;
    }
    out[0] = out[1] = 0;  // one pair in 1e21
}

bool ends_with(const std::string &name, const char *end) {
    const std::size_t n = std::strlen(end);
    return name.size() >= n && name.compare(name.size() - n, n, end) == 0;
}

void fill(const Config &config, Init init, const Stream &stream, const TensorSpec &spec, std::vector<float> &values) {
    const auto each = [&](auto &&value) {
        for (std::size_t i = 0; i < values.size(); i++) values[i] = static_cast<float>(value(i));
    };
    if (spec.name == "A_log") {
        // exp(A_log) is uniform: U(1, 16), for gdn U(0, 16); the bounded gate starts at exp(A_log) = 1 (method.md 1.5).
        if (config.decay == DecayGate::kLowerBound)
            each([](std::size_t) { return 0.0; });
        else if (config.kind == Kind::kGdn)
            each([&](std::size_t i) { return portable_log(std::fmax(stream.uniform(i, 0, 16), 1e-4)); });
        else
            each([&](std::size_t i) { return portable_log(stream.uniform(i, 1, 16)); });
    } else if (spec.name == "dt_bias") {
        // softplus(dt_bias) = dt, log-uniform in [1e-3, 1e-1]
        const double low = portable_log(1e-3), high = portable_log(1e-1);
        each([&](std::size_t i) {
            const double dt = std::fmax(portable_exp(stream.uniform(i, low, high)), 1e-4);
            return dt + portable_log(1 - portable_exp(-dt));
        });
    } else if (spec.name == "o_norm.weight") {
        each([](std::size_t) { return 1.0; });
    } else if (spec.name.find("_conv1d.") != std::string::npos) {
        // Weight and bias of a depthwise convolution of width W: U(-W^-0.5, W^-0.5)
        const double bound = 1 / std::sqrt(static_cast<double>(config.conv_size));
        each([&](std::size_t i) { return stream.uniform(i, -bound, bound); });
    } else if (ends_with(spec.name, ".bias")) {
        each([](std::size_t) { return 0.0; });
    } else if (init == Init::kNv) {
        // Xavier-uniform with gain 2^-2.5: gain^2 = 1 / 32
        const double bound = std::sqrt(6.0 / 32 / static_cast<double>(spec.shape[0] + spec.shape[1]));
        each([&](std::size_t i) { return stream.uniform(i, -bound, bound); });
    } else {
        double pair[2] = {};
        for (std::size_t i = 0; i < values.size(); i++) {
            if (i % 2 == 0) normal_pair(stream, i / 2, pair);
            values[i] = static_cast<float>(0.02 * pair[i % 2]);
        }
    }
}

}  // namespace

StateDict initialise(const Config &config, std::uint64_t seed, Init init) {
    StateDict dict;
    try {
        for (const TensorSpec &spec : weights(config)) {
            Tensor &tensor = dict[spec.name];
            tensor.shape = spec.shape;
            tensor.data.resize(static_cast<std::size_t>(elements(spec.shape, spec.name)));
            fill(config, init, Stream(seed, spec.name), spec, tensor.data);
        }
    } catch (const std::bad_alloc &) {
        fail(GDN_STATUS_OUT_OF_MEMORY,
            "weights: expected memory for " + std::to_string(parameter_count(config)) + " numbers, found too little");
    }
    return dict;
}

}  // namespace gdn::layer
