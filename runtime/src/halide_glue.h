// Everything that knows Halide's runtime: buffer descriptors and the handlers. The only header of the runtime that includes
// HalideRuntime.h.
#pragma once

#include <cstdint>
#include <new>

#include "HalideRuntime.h"
#include "kernel_table.h"

namespace gdn {

/// A strided view in Halide's form: dimension 0 innermost, strides in elements. Up to four dimensions. Not copyable: b.dim points into it.
struct Buffer {
    // In unions: nothing is written before init(). A call has more descriptors than it uses, and decode counts nanoseconds.
    union {
        halide_buffer_t b;
    };
    union {
        halide_dimension_t d[4];
    };

    Buffer() {}
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;

    void init(Type type, int dimensions) {
        init(type == Type::kF32 ? halide_type_t(halide_type_float, 32) : halide_type_t(halide_type_uint, 16), dimensions);
    }
    void init_u64(int dimensions) { init(halide_type_t(halide_type_uint, 64), dimensions); }
    void init(halide_type_t type, int dimensions) {
        new (&b) halide_buffer_t{};
        b.type = type;
        b.dimensions = dimensions;
        b.dim = d;
        for (int i = 0; i < dimensions; i++) {
            new (&d[i]) halide_dimension_t;
        }
    }
    void dim(int i, int32_t extent, int32_t stride) {
        d[i].extent = extent;
        d[i].stride = stride;
    }
    void host(const void *p) { b.host = static_cast<uint8_t *>(const_cast<void *>(p)); }
};

/// What kernels get as user_context: where an error's text goes. One per worker of a call.
struct KernelContext {
    char error[256];
};

/// Installs handlers that neither print nor abort. Runs once per process; cheap afterwards.
void install_halide_handlers();

}  // namespace gdn
