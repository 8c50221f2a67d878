// A huge range of addresses backed by one small piece of memory, mapped again and again.
#pragma once

#include <cstddef>

namespace gdn_test {

class RepeatedMapping {
public:
    // `piece` (a multiple of the page size) bytes of memory, `times` times in a row. data() is NULL where the system refuses.
    RepeatedMapping(std::size_t piece, std::size_t times);
    ~RepeatedMapping();
    RepeatedMapping(const RepeatedMapping &) = delete;
    RepeatedMapping &operator=(const RepeatedMapping &) = delete;
    unsigned char *data() const { return data_; }

private:
    unsigned char *data_ = nullptr;
    std::size_t bytes_ = 0;
};

}  // namespace gdn_test
