// A strided tensor of the caller in guarded memory.
#pragma once

#include <cstdint>
#include <vector>

#include <gdn/gdn.h>

#include "guarded_buffer.h"

namespace gdn_test {

class HostTensor {
public:
    HostTensor() = default;  // absent
    // `padding[i]` elements lie between neighbours along dimension i (missing: none); the innermost stride is 1.
    HostTensor(gdn_dtype dtype, std::vector<std::int64_t> shape, Guard guard = Guard::kEnd, std::vector<std::int64_t> padding = {});

    bool present() const { return !shape_.empty(); }
    gdn_tensor view() const;
    gdn_dtype dtype() const { return dtype_; }
    const std::vector<std::int64_t> &shape() const { return shape_; }
    std::int64_t elements() const;  // of the shape, padding not counted

    void fill(const std::vector<float> &values);  // row-major order of the shape; rounds to dtype
    void fill_integers(const std::vector<std::int64_t> &values);
    std::vector<float> read() const;
    std::vector<unsigned char> bits() const;  // the elements' bytes, packed: for bitwise comparison

    // Address of element `index` in row-major order of the shape.
    void *at(std::int64_t index) const;

    void poison() { buffer_.poison(); }
    bool padding_untouched() const;
    std::uint64_t hash() const { return buffer_.hash(); }
    GuardedBuffer &buffer() { return buffer_; }

private:
    gdn_dtype dtype_ = GDN_DTYPE_NONE;
    std::vector<std::int64_t> shape_, strides_;
    GuardedBuffer buffer_;
};

}  // namespace gdn_test
