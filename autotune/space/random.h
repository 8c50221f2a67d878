// Random numbers that are the same on every machine and for ever: the standard's distributions are not.
#pragma once
#include <cstdint>

namespace gdn::tune {

/// splitmix64 (Steele, Lea, Flood 2014).
class Random {
public:
    explicit Random(uint64_t seed) : state_(seed) {}

    uint64_t next() {
        uint64_t z = state_ += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return z ^ z >> 31;
    }
    /// Uniform in [0, n), n > 0.
    uint64_t below(uint64_t n) { return static_cast<uint64_t>(static_cast<unsigned __int128>(next()) * n >> 64); }
    /// Uniform in [0, 1).
    double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

private:
    uint64_t state_;
};

}  // namespace gdn::tune
