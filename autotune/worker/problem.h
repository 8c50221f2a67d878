// A call of a kernel that is verified and timed: its memory, its inputs, what comes out in double.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "autotune/worker/loaded_kernel.h"
#include "tests/support/dtype.h"
#include "tests/support/guarded_buffer.h"

namespace gdn::tune {

/// Contiguous elements between pages that cannot be touched. `exact`: the byte behind the last element is on such a page, else the first
/// element is 64-byte aligned.
class Tensor {
public:
    Tensor() = default;
    Tensor(gdn_dtype dtype, std::vector<int64_t> shape, bool exact);

    bool present() const { return !shape_.empty(); }
    gdn_dtype dtype() const { return dtype_; }
    int64_t elements() const;
    gdn_tensor view() const;
    unsigned char *data() const { return memory_.data(); }
    float *floats() const { return reinterpret_cast<float *>(memory_.data()); }
    float element(int64_t i) const { return gdn_test::load_element(dtype_, memory_.data() + i * element_bytes()); }
    std::vector<float> values() const;
    int64_t element_bytes() const { return static_cast<int64_t>(gdn_test::dtype_bytes(dtype_)); }
    /// draw() once per element, in order.
    template <class Draw> void fill(Draw draw) {
        const int64_t n = elements();
        if (dtype_ == GDN_DTYPE_F32) {
            for (int64_t i = 0; i < n; i++) floats()[i] = static_cast<float>(draw());
        } else {
            for (int64_t i = 0; i < n; i++) gdn_test::store_element(dtype_, data() + i * element_bytes(), static_cast<float>(draw()));
        }
    }
    /// Rows of the innermost dimension, scaled to a length that `length` draws.
    template <class Draw, class Length> void fill_rows(Draw draw, Length length) {
        const int64_t width = shape_.back();
        std::vector<float> row(static_cast<size_t>(width));
        for (int64_t at = 0; at < elements(); at += width) {
            float squares = 0;
            for (float &x : row) {
                x = static_cast<float>(draw());
                squares += x * x;
            }
            const float scale = static_cast<float>(length()) / std::sqrt(squares);
            for (int64_t i = 0; i < width; i++) {
                gdn_test::store_element(dtype_, data() + (at + i) * element_bytes(), row[static_cast<size_t>(i)] * scale);
            }
        }
    }
    void poison() { memory_.poison(); }
    void make_read_only() { memory_.make_read_only(); }
    bool slack_untouched() const { return memory_.slack_untouched(); }

private:
    gdn_dtype dtype_ = GDN_DTYPE_NONE;
    std::vector<int64_t> shape_;
    gdn_test::GuardedBuffer memory_;
};

/// Copies of an initial state that timed calls update in place: one that stays in the cache, or as many as fill the last-level cache twice.
class States {
public:
    void begin(const Tensor &initial, bool cold);
    bool begun() const { return !places_.empty(); }
    void *first() const { return places_[0]; }
    void *next() {
        void *const place = places_[next_];
        next_ = next_ + 1 == places_.size() ? 0 : next_ + 1;
        return place;
    }

private:
    struct Free {
        void operator()(void *memory) const { std::free(memory); }
    };
    std::unique_ptr<unsigned char, Free> memory_;
    std::vector<void *> places_;
    size_t next_ = 0;
};

inline constexpr uint64_t kSeed = 20261130;  // of all inputs
inline constexpr int64_t kRows = 8;          // tokens of one call

/// As kernels' parameters name it; those without one are for f32.
inline gdn_dtype dtype_of(const std::string &name) {
    return name == "bf16" ? GDN_DTYPE_BF16 : name == "f16" ? GDN_DTYPE_F16 : GDN_DTYPE_F32;
}

/// What drawing takes: uniform numbers of a range.
inline auto between(Random *random, double low, double high) {
    return [random, low, high] { return low + (high - low) * random->unit(); };
}

/// visit(sequence, head, first token, count) in the scan's order: a block of 32 tokens of one head, chunk by chunk, then of the next head.
template <class Visit> void each_chunk(const Shape &shape, Visit visit) {
    constexpr int64_t kBlock = 32;
    for (int64_t n = 0; n < shape.B; n++) {
        for (int64_t block = 0; block < shape.T; block += kBlock) {
            for (int32_t head = 0; head < shape.H; head++) {
                for (int64_t t = block; t < std::min(block + kBlock, shape.T); t += kRows) {
                    visit(n, head, t, static_cast<int32_t>(std::min(kRows, shape.T - t)));
                }
            }
        }
    }
}

/// An output. Element i belongs to group i / width % groups: a head, say. Every group is judged by itself.
struct Output {
    std::string name, group;  // "o", "head"
    const Tensor *tensor;
    int64_t width, groups;
    double bound;
};

class Problem {
public:
    virtual ~Problem() = default;
    /// All that the reference depends on.
    virtual std::string key() const = 0;
    /// What outputs() should hold, one after the other.
    virtual std::vector<double> reference() const = 0;
    virtual void use(const LoadedKernel &kernel) = 0;
    /// Everything that is verified, into outputs that hold NaN before. Throws Failure.
    virtual void run() = 0;
    virtual std::vector<Output> outputs() const = 0;
    /// The buffer beside which something was written, of the outputs and of all else that run() lets be written; "": none.
    virtual std::string written_beside() const;
    /// What is timed.
    virtual void call() = 0;
};

/// `small`: not the shape itself but an odd one of its kind (three value heads for one key head, a ragged end), without room around it.
std::unique_ptr<Problem> make_problem(const Job &job, const Shape &shape, bool small);
std::unique_ptr<Problem> make_operator_problem(const Job &job, const Shape &shape, bool small);
std::unique_ptr<Problem> make_mixer_problem(const Job &job, const Shape &shape, bool small);

}  // namespace gdn::tune
