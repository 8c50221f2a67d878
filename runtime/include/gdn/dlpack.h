/* DLPack tensors as gdn tensors: gdn_tensor_from_dlpack(). Needs <dlpack/dlpack.h>, which is not part of gdn: include it first or have it
 * on the path. Usable from C and C++. Strides are in elements on both sides, so nothing is copied: the DLTensor's memory must outlive the
 * call. */
#ifndef GDN_DLPACK_ADAPTER_H
#define GDN_DLPACK_ADAPTER_H

#if !defined(DLPACK_DLPACK_H_)
#if defined(__has_include)
#if !__has_include(<dlpack/dlpack.h>)
#error "gdn/dlpack.h needs <dlpack/dlpack.h> of https://github.com/dmlc/dlpack on the include path"
#endif
#endif
#include <dlpack/dlpack.h>
#endif

#include <string.h>

#include "gdn/gdn.h"

#ifdef __cplusplus
extern "C" {
#endif

/** View of `from` in `*to`. GDN_STATUS_UNSUPPORTED for memory that the CPU does not see, for a dtype that gdn does not know, and for more
 * than GDN_MAX_DIMS dimensions; `*to` is absent then. (gdn_last_error() has no text for it: the adapter is not part of the library.) */
static inline gdn_status gdn_tensor_from_dlpack(const DLTensor *from, gdn_tensor *to) {
    gdn_tensor view;
    int64_t stride = 1;
    int32_t i;
    if (!to) {
        return GDN_STATUS_INVALID_ARGUMENT;
    }
    memset(&view, 0, sizeof view);
    *to = view;
    if (!from) {
        return GDN_STATUS_INVALID_ARGUMENT;
    }
    if (from->device.device_type != kDLCPU && from->device.device_type != kDLCUDAHost && from->device.device_type != kDLROCMHost) {
        return GDN_STATUS_UNSUPPORTED;
    }
    if (from->ndim < 0 || from->ndim > GDN_MAX_DIMS || from->dtype.lanes != 1) {
        return GDN_STATUS_UNSUPPORTED;
    }
    if (from->dtype.code == kDLFloat && from->dtype.bits == 32) {
        view.dtype = GDN_DTYPE_F32;
    } else if (from->dtype.code == kDLFloat && from->dtype.bits == 16) {
        view.dtype = GDN_DTYPE_F16;
    } else if (from->dtype.code == kDLBfloat && from->dtype.bits == 16) {
        view.dtype = GDN_DTYPE_BF16;
    } else if (from->dtype.code == kDLInt && from->dtype.bits == 32) {
        view.dtype = GDN_DTYPE_I32;
    } else if (from->dtype.code == kDLInt && from->dtype.bits == 64) {
        view.dtype = GDN_DTYPE_I64;
    } else {
        return GDN_STATUS_UNSUPPORTED;
    }
    view.data = from->data ? (char *)from->data + from->byte_offset : NULL;
    view.ndim = from->ndim;
    for (i = from->ndim - 1; i >= 0; i--) {
        view.shape[i] = from->shape[i];
        view.strides[i] = from->strides ? from->strides[i] : stride; /* no strides: row-major and compact */
        stride *= from->shape[i];
    }
    *to = view;
    return GDN_STATUS_OK;
}

#ifdef __cplusplus
}
#endif

#endif
