// Rows of the kernel table called directly, on rows that end (or begin) at a page that cannot be touched.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "../../runtime/src/cpu.h"
#include "../../runtime/src/halide_glue.h"
#include "../support/dtype.h"
#include "../support/guarded_buffer.h"

namespace gdn_test {

inline gdn_dtype dtype_of(gdn::Type type) {
    return type == gdn::Type::kBf16 ? GDN_DTYPE_BF16 : type == gdn::Type::kF16 ? GDN_DTYPE_F16 : GDN_DTYPE_F32;
}

// Kernels of a family that this machine can run.
inline std::vector<const gdn::KernelRow *> rows_of(gdn::Family family) {
    std::vector<const gdn::KernelRow *> rows;
    for (int i = 0; i < gdn::kKernelRowCount; i++) {
        const gdn::KernelRow &row = gdn::kKernelRows[i];
        const std::uint64_t needed = gdn::parse_features(gdn::kTargetRows[row.target].features);
        if (row.family == family && (gdn::cpu_features() & needed) == needed) rows.push_back(&row);
    }
    return rows;
}

// n rows of `width` elements, `stride` apart (0: one row, read n times). Nothing lies behind the last element, or nothing before the first.
class Rows {
public:
    Rows(gdn_dtype dtype, int width, int n, int stride, Guard guard = Guard::kEnd, std::size_t alignment = 1)
        : dtype_(dtype), width_(width), n_(n), stride_(stride),
          memory_((static_cast<std::size_t>(n - 1) * stride + width) * dtype_bytes(dtype), guard, alignment) {
        buffer_.init(dtype == GDN_DTYPE_F32 ? gdn::Type::kF32 : dtype == GDN_DTYPE_BF16 ? gdn::Type::kBf16 : gdn::Type::kF16, 2);
        buffer_.dim(0, width, 1);
        buffer_.dim(1, n, stride);
        buffer_.host(memory_.data());
    }

    float operator()(int c, int t) const { return load_element(dtype_, at(c, t)); }
    void set(int c, int t, double x) { store_element(dtype_, at(c, t), static_cast<float>(x)); }
    template <class F> void fill(F f) {
        for (int t = 0; t < (stride_ ? n_ : 1); t++)
            for (int c = 0; c < width_; c++) set(c, t, f(c, t));
    }
    std::uint16_t &half(int c, int t) { return *static_cast<std::uint16_t *>(at(c, t)); }
    std::uint32_t bits(int c, int t) const { return float_bits(*static_cast<float *>(at(c, t))); }

    int width() const { return width_; }
    int n() const { return n_; }
    GuardedBuffer &memory() { return memory_; }
    halide_buffer_t *buffer() { return &buffer_.b; }

private:
    void *at(int c, int t) const { return memory_.data() + (static_cast<std::size_t>(t) * stride_ + c) * dtype_bytes(dtype_); }

    gdn_dtype dtype_;
    int width_, n_, stride_;
    GuardedBuffer memory_;
    gdn::Buffer buffer_;
};

// Arguments in the kernel's order, then the call. What a kernel does not read is described, but has no memory.
class KernelCall {
public:
    explicit KernelCall(const gdn::KernelRow &row) : row_(row) { argv_.push_back(&context_); }
    KernelCall &scalar(float &x) { return argv_.push_back(&x), *this; }
    KernelCall &scalar(int &x) { return argv_.push_back(&x), *this; }
    KernelCall &rows(Rows *rows) { return argv_.push_back(rows->buffer()), *this; }
    KernelCall &rows(Rows *rows, bool read) {
        if (!read) rows->buffer()->host = nullptr;
        return this->rows(rows);
    }
    int run() { return row_.call(argv_.data()); }

private:
    const gdn::KernelRow &row_;
    gdn::KernelContext storage_{};
    void *context_ = &storage_;
    std::vector<void *> argv_;
};

constexpr double kEps = 0x1p-23;  // float32's epsilon, the unit of relative error in these tests

// |given - expected| in units of eps |expected|; below the normal range in units of its smallest number.
inline double error_in_eps(double given, double expected) {
    if (given == expected || (std::isnan(given) && std::isnan(expected))) return 0;
    if (!std::isfinite(given) || !std::isfinite(expected)) return INFINITY;
    return std::fabs(given - expected) / std::fmax(std::fabs(expected) * kEps, 0x1p-126);
}

}  // namespace gdn_test
