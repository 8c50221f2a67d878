#include "guarded_buffer.h"

#include <cstring>
#include <new>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace gdn_test {

GuardedBuffer::GuardedBuffer(std::size_t bytes, Guard guard, std::size_t alignment)
    : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))), bytes_(bytes) {
    const std::size_t inner = (bytes + alignment + page_ - 1) / page_ * page_;
    map_bytes_ = inner + 2 * page_;
    void *map = mmap(nullptr, map_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) throw std::bad_alloc();
    if (mprotect(static_cast<unsigned char *>(map) + page_, inner, PROT_READ | PROT_WRITE) != 0) {
        munmap(map, map_bytes_);
        throw std::bad_alloc();
    }
    map_ = static_cast<unsigned char *>(map);
    data_ = guard == Guard::kBegin ? map_ + page_ : map_ + page_ + (inner - bytes) / alignment * alignment;
    poison();
}

GuardedBuffer::~GuardedBuffer() {
    if (map_) munmap(map_, map_bytes_);
}

GuardedBuffer::GuardedBuffer(GuardedBuffer &&other) noexcept { *this = std::move(other); }

GuardedBuffer &GuardedBuffer::operator=(GuardedBuffer &&other) noexcept {
    std::swap(map_, other.map_);
    std::swap(data_, other.data_);
    std::swap(map_bytes_, other.map_bytes_);
    std::swap(page_, other.page_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

void GuardedBuffer::poison() { std::memset(map_ + page_, 0xFF, map_bytes_ - 2 * page_); }

bool GuardedBuffer::slack_untouched() const {
    if (!map_) return true;
    for (const unsigned char *p = map_ + page_; p < data_; p++)
        if (*p != 0xFF) return false;
    for (const unsigned char *p = data_ + bytes_; p < map_ + map_bytes_ - page_; p++)
        if (*p != 0xFF) return false;
    return true;
}

std::uint64_t GuardedBuffer::hash() const { return map_ ? hash_bytes(map_ + page_, map_bytes_ - 2 * page_) : 0; }

void GuardedBuffer::make_read_only() { mprotect(map_ + page_, map_bytes_ - 2 * page_, PROT_READ); }

std::uint64_t hash_bytes(const void *data, std::size_t bytes) {
    const unsigned char *p = static_cast<const unsigned char *>(data);
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (; bytes >= 8; p += 8, bytes -= 8) {
        std::uint64_t word;
        std::memcpy(&word, p, 8);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    for (; bytes > 0; p++, bytes--) hash = (hash ^ *p) * 0x100000001b3u;
    return hash;
}

}  // namespace gdn_test
