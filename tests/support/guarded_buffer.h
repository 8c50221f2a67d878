// Memory between two pages that cannot be touched. Filled with 0xFF bytes: NaN in every float kind, -1 in every integer kind.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gdn_test {

// kEnd: the byte after the buffer faults (and what lies before it on its page is watched). kBegin: the byte before it faults.
enum class Guard { kEnd, kBegin };

class GuardedBuffer {
public:
    GuardedBuffer() = default;
    // `alignment` moves the start of a kEnd buffer down to a multiple of it. Throws std::bad_alloc.
    GuardedBuffer(std::size_t bytes, Guard guard, std::size_t alignment = 1);
    ~GuardedBuffer();
    GuardedBuffer(GuardedBuffer &&other) noexcept;
    GuardedBuffer &operator=(GuardedBuffer &&other) noexcept;
    GuardedBuffer(const GuardedBuffer &) = delete;
    GuardedBuffer &operator=(const GuardedBuffer &) = delete;

    unsigned char *data() const { return data_; }
    std::size_t bytes() const { return bytes_; }

    void poison();                 // 0xFF everywhere
    bool slack_untouched() const;  // the rest of the pages still holds 0xFF
    std::uint64_t hash() const;    // of data and slack
    void make_read_only();         // a write faults from now on

private:
    unsigned char *map_ = nullptr, *data_ = nullptr;
    std::size_t map_bytes_ = 0, page_ = 0, bytes_ = 0;
};

std::uint64_t hash_bytes(const void *data, std::size_t bytes);

}  // namespace gdn_test
