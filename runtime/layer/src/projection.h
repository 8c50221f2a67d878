// Products with weights, through CBLAS, on the context's threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "gdn/gdn.h"

namespace gdn::layer {

/// y[r, o] (+)= sum_i x[r, i] w[o, i]; w [out, in] is contiguous, rows of x and y lie `x_stride` and `y_stride` floats apart.
struct Product {
    const float *x;
    std::int64_t x_stride;
    const float *w;
    std::int64_t in, out;
    float *y;
    std::int64_t y_stride;
    bool add = false;  // to what y holds; else y is written without being read
};

/// Computes the products, which must not depend on each other, for the same rows. They are cut into tasks of single-threaded BLAS calls by
/// their sizes alone, so that the number of threads changes no bit; where the BLAS has threads of its own (blas_threads() > 1), it gets each
/// whole.
void multiply(gdn_context *context, std::int64_t rows, const Product *products, int count);

/// Extents that a BLAS with 32-bit integers takes.
inline constexpr std::int64_t kMaxExtent = INT32_MAX;

/// Floats on a 64-byte border, all zero at first.
class Floats {
public:
    Floats() = default;
    explicit Floats(std::int64_t count);

    float *data() const { return data_.get(); }
    std::int64_t size() const { return size_; }
    /// At least `count` floats; what they hold is lost where there were fewer.
    void reserve(std::int64_t count);

private:
    struct Free {
        void operator()(float *memory) const;
    };
    std::unique_ptr<float[], Free> data_;
    std::int64_t size_ = 0;
};

}  // namespace gdn::layer
