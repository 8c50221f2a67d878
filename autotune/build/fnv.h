// FNV-1a of 128 bits (Fowler, Noll, Vo): names for contents. Where a wrong match would matter, the contents are compared too.
#pragma once
#include <cstdint>
#include <string>

namespace gdn::tune {

inline unsigned __int128 fnv1a(const std::string &bytes) {
    constexpr auto kPrime = static_cast<unsigned __int128>(1) << 88 | 0x13b;
    auto hash = static_cast<unsigned __int128>(0x6c62272e07bb0142) << 64 | 0x62b821756295c58d;
    for (unsigned char c : bytes) hash = (hash ^ c) * kPrime;
    return hash;
}

inline std::string hex16(uint64_t n) {
    std::string text(16, '0');
    for (size_t i = 16; i-- > 0; n >>= 4) text[i] = "0123456789abcdef"[n & 15];
    return text;
}

/// 32 hex digits.
inline std::string name_of_content(const std::string &bytes) {
    const unsigned __int128 hash = fnv1a(bytes);
    return hex16(static_cast<uint64_t>(hash >> 64)) + hex16(static_cast<uint64_t>(hash));
}

/// 16 hex digits.
inline std::string short_name_of_content(const std::string &bytes) {
    const unsigned __int128 hash = fnv1a(bytes);
    return hex16(static_cast<uint64_t>(hash >> 64) ^ static_cast<uint64_t>(hash));
}

}  // namespace gdn::tune
