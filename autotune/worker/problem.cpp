#include "autotune/worker/problem.h"

#include <new>

#include <unistd.h>

#include "autotune/worker/failure.h"

namespace gdn::tune {

Tensor::Tensor(gdn_dtype dtype, std::vector<int64_t> shape, bool exact) : dtype_(dtype), shape_(std::move(shape)) {
    memory_ = gdn_test::GuardedBuffer(static_cast<size_t>(elements() * element_bytes()), gdn_test::Guard::kEnd, exact ? 1 : 64);
}

int64_t Tensor::elements() const {
    int64_t product = present() ? 1 : 0;
    for (const int64_t extent : shape_) product *= extent;
    return product;
}

gdn_tensor Tensor::view() const {
    gdn_tensor tensor = {};
    if (!present()) return tensor;
    tensor.data = data();
    tensor.dtype = dtype_;
    tensor.ndim = static_cast<int32_t>(shape_.size());
    int64_t stride = 1;
    for (size_t i = shape_.size(); i-- > 0; stride *= shape_[i]) {
        tensor.shape[i] = shape_[i];
        tensor.strides[i] = stride;
    }
    return tensor;
}

std::vector<float> Tensor::values() const {
    std::vector<float> all(static_cast<size_t>(elements()));
    for (size_t i = 0; i < all.size(); i++) all[i] = element(static_cast<int64_t>(i));
    return all;
}

std::string Problem::written_beside() const {
    for (const Output &output : outputs()) {
        if (!output.tensor->slack_untouched()) return output.name;
    }
    return "";
}

void States::begin(const Tensor &initial, bool cold) {
    constexpr size_t kLeastCache = size_t{16} << 20;
    const size_t bytes = static_cast<size_t>(initial.elements() * initial.element_bytes()), place = (bytes + 63) / 64 * 64;
    size_t count = 1;
    if (cold) {
        size_t cache = kLeastCache;
#ifdef _SC_LEVEL3_CACHE_SIZE
        cache = std::max(cache, static_cast<size_t>(std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE))));
#endif
        count = std::max<size_t>(2, std::min(2 * cache, kColdBytes) / place);
    }
    memory_.reset(static_cast<unsigned char *>(std::aligned_alloc(64, count * place)));
    if (!memory_) throw std::bad_alloc();
    for (size_t i = 0; i < count; i++) {
        places_.push_back(memory_.get() + i * place);
        std::copy_n(initial.data(), bytes, memory_.get() + i * place);
    }
}

std::unique_ptr<Problem> make_problem(const Job &job, const Shape &shape, bool small) {
    if (job.family.compare(0, 4, "core") == 0 || job.family == "stage") return make_operator_problem(job, shape, small);
    return make_mixer_problem(job, shape, small);
}

}  // namespace gdn::tune
