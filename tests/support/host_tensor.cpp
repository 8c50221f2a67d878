#include "host_tensor.h"

#include <cstring>

#include "dtype.h"

namespace gdn_test {

HostTensor::HostTensor(gdn_dtype dtype, std::vector<std::int64_t> shape, Guard guard, std::vector<std::int64_t> padding)
    : dtype_(dtype), shape_(std::move(shape)), strides_(shape_.size(), 1) {
    padding.resize(shape_.size());
    for (std::size_t i = shape_.size() - 1; i-- > 0;) strides_[i] = strides_[i + 1] * shape_[i + 1] + padding[i];
    std::int64_t extent = 1;
    for (std::size_t i = 0; i < shape_.size(); i++) extent = shape_[i] == 0 || extent == 0 ? 0 : extent + (shape_[i] - 1) * strides_[i];
    buffer_ = GuardedBuffer(static_cast<std::size_t>(extent) * dtype_bytes(dtype), guard);
}

gdn_tensor HostTensor::view() const {
    gdn_tensor tensor{};
    if (!present()) return tensor;
    tensor.data = buffer_.data();
    tensor.dtype = dtype_;
    tensor.ndim = static_cast<std::int32_t>(shape_.size());
    for (std::size_t i = 0; i < shape_.size(); i++) {
        tensor.shape[i] = shape_[i];
        tensor.strides[i] = strides_[i];
    }
    return tensor;
}

std::int64_t HostTensor::elements() const {
    std::int64_t product = present() ? 1 : 0;
    for (std::int64_t extent : shape_) product *= extent;
    return product;
}

void *HostTensor::at(std::int64_t index) const {
    std::int64_t offset = 0;
    for (std::size_t i = shape_.size(); i-- > 0; index /= shape_[i]) offset += index % shape_[i] * strides_[i];
    return buffer_.data() + offset * static_cast<std::int64_t>(dtype_bytes(dtype_));
}

void HostTensor::fill(const std::vector<float> &values) {
    for (std::size_t i = 0; i < values.size(); i++) store_element(dtype_, at(static_cast<std::int64_t>(i)), values[i]);
}

void HostTensor::fill_integers(const std::vector<std::int64_t> &values) {
    for (std::size_t i = 0; i < values.size(); i++) {
        const auto narrow = static_cast<std::int32_t>(values[i]);
        if (dtype_ == GDN_DTYPE_I64)
            std::memcpy(at(static_cast<std::int64_t>(i)), &values[i], 8);
        else
            std::memcpy(at(static_cast<std::int64_t>(i)), &narrow, 4);
    }
}

std::vector<float> HostTensor::read() const {
    std::vector<float> values(static_cast<std::size_t>(elements()));
    for (std::size_t i = 0; i < values.size(); i++) values[i] = load_element(dtype_, at(static_cast<std::int64_t>(i)));
    return values;
}

std::vector<unsigned char> HostTensor::bits() const {
    const std::size_t size = dtype_bytes(dtype_), count = static_cast<std::size_t>(elements());
    std::vector<unsigned char> bytes(count * size);
    for (std::size_t i = 0; i < count; i++) std::memcpy(bytes.data() + i * size, at(static_cast<std::int64_t>(i)), size);
    return bytes;
}

bool HostTensor::padding_untouched() const {
    if (!present()) return true;
    const std::size_t size = dtype_bytes(dtype_);
    std::vector<bool> used(buffer_.bytes());
    for (std::int64_t i = 0; i < elements(); i++) {
        const std::size_t offset = static_cast<std::size_t>(static_cast<unsigned char *>(at(i)) - buffer_.data());
        for (std::size_t b = 0; b < size; b++) used[offset + b] = true;
    }
    for (std::size_t i = 0; i < used.size(); i++)
        if (!used[i] && buffer_.data()[i] != 0xFF) return false;
    return buffer_.slack_untouched();
}

}  // namespace gdn_test
