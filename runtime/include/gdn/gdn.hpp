/// gdn for C++17: owning handles, tensor views, and failures as exceptions or, with -fno-exceptions, as a status to look at. Header only,
/// over gdn.h.
///
///     gdn::Context context;
///     gdn::Args args(GDN_VARIANT_KDA);
///     args->q = gdn::tensor(q, {B, T, H, K});            // contiguous, dtype from the pointer
///     args->final_state = gdn::tensor(state, {B, HV, K, V});
///     ...
///     context.forward(args);
#ifndef GDN_GDN_HPP
#define GDN_GDN_HPP

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>

#include "gdn/gdn.h"

#if !defined(GDN_NO_EXCEPTIONS) && !defined(__cpp_exceptions)
#define GDN_NO_EXCEPTIONS
#endif
#ifndef GDN_NO_EXCEPTIONS
#include <stdexcept>
#endif

namespace gdn {

#ifndef GDN_NO_EXCEPTIONS
/// Thrown by every call that fails; what() is gdn_last_error().
class Error : public std::runtime_error {
public:
    explicit Error(gdn_status status) : std::runtime_error(text(status)), status_(status) {}
    gdn_status status() const noexcept { return status_; }

private:
    static std::string text(gdn_status status) {
        const char *why = gdn_last_error();
        return *why ? std::string(gdn_status_string(status)) + ": " + why : gdn_status_string(status);
    }
    gdn_status status_;
};
#endif

/// What a call returned. With exceptions, a failure has been thrown before anyone sees it.
class [[nodiscard]] Status {
public:
    Status(gdn_status code) : code_(code) {}
    bool ok() const { return code_ == GDN_STATUS_OK; }
    explicit operator bool() const { return ok(); }
    gdn_status code() const { return code_; }
    /// Text of the failure: of this thread's last one.
    const char *message() const { return ok() ? "" : gdn_last_error(); }

private:
    gdn_status code_;
};

namespace detail {

#ifdef GDN_NO_EXCEPTIONS
using Result = Status;
inline Result check(gdn_status status) { return Status(status); }
#else
using Result = void;
inline void check(gdn_status status) {
    if (status != GDN_STATUS_OK) {
        throw Error(status);
    }
}
#endif

template <typename T> struct DtypeOf;
template <> struct DtypeOf<float> { static constexpr gdn_dtype value = GDN_DTYPE_F32; };
template <> struct DtypeOf<std::int32_t> { static constexpr gdn_dtype value = GDN_DTYPE_I32; };
template <> struct DtypeOf<std::int64_t> { static constexpr gdn_dtype value = GDN_DTYPE_I64; };

}  // namespace detail

/// Contiguous view, last dimension innermost. `data` is not copied and must outlive the view. More than GDN_MAX_DIMS dimensions are
/// refused by the call.
inline gdn_tensor tensor(void *data, gdn_dtype dtype, std::initializer_list<std::int64_t> shape) {
    gdn_tensor t = {};
    t.data = data;
    t.dtype = dtype;
    t.ndim = static_cast<std::int32_t>(shape.size());
    std::int64_t stride = 1;
    for (std::size_t i = shape.size() < GDN_MAX_DIMS ? shape.size() : GDN_MAX_DIMS; i-- > 0;) {
        t.shape[i] = shape.begin()[i];
        t.strides[i] = stride;
        stride *= shape.begin()[i];
    }
    return t;
}
/// View with strides in elements.
inline gdn_tensor tensor(
    void *data, gdn_dtype dtype, std::initializer_list<std::int64_t> shape, std::initializer_list<std::int64_t> strides) {
    gdn_tensor t = tensor(data, dtype, shape);
    for (std::size_t i = 0; i < strides.size() && i < GDN_MAX_DIMS; i++) {
        t.strides[i] = strides.begin()[i];
    }
    return t;
}
/// float, int32_t or int64_t; inputs may be const (the library never writes an input).
template <typename T, typename Dtype = detail::DtypeOf<std::remove_const_t<T>>>
gdn_tensor tensor(T *data, std::initializer_list<std::int64_t> shape) {
    return tensor(const_cast<std::remove_const_t<T> *>(data), Dtype::value, shape);
}
template <typename T, typename Dtype = detail::DtypeOf<std::remove_const_t<T>>>
gdn_tensor tensor(T *data, std::initializer_list<std::int64_t> shape, std::initializer_list<std::int64_t> strides) {
    return tensor(const_cast<std::remove_const_t<T> *>(data), Dtype::value, shape, strides);
}

/// The CPU as tuned configurations know it.
inline gdn_device_info device() {
    gdn_device_info info = {};
    gdn_device_get(&info);
    return info;
}

/// gdn_args with its defaults set.
class Args {
public:
    explicit Args(gdn_variant variant = GDN_VARIANT_GDN) {
        gdn_args_init(&args_);
        args_.variant = variant;
    }
    gdn_args *operator->() { return &args_; }
    const gdn_args *operator->() const { return &args_; }
    gdn_args &operator*() { return args_; }
    const gdn_args &operator*() const { return args_; }

private:
    gdn_args args_;
};

/// gdn_mixer_args with its defaults set, and the operator's arguments that belong to it. Copies hold arguments of their own.
class MixerArgs {
public:
    explicit MixerArgs(gdn_variant variant = GDN_VARIANT_GDN) : op(variant) {
        gdn_mixer_args_init(&args_);
        args_.op = &*op;
    }
    MixerArgs(const MixerArgs &other) : op(other.op), args_(other.args_) { args_.op = &*op; }
    MixerArgs &operator=(const MixerArgs &other) {
        op = other.op;
        args_ = other.args_;
        args_.op = &*op;
        return *this;
    }
    gdn_mixer_args *operator->() { return &args_; }
    const gdn_mixer_args *operator->() const { return &args_; }
    const gdn_mixer_args &operator*() const { return args_; }

    Args op;

private:
    gdn_mixer_args args_;
};

/// gdn_context_options with its defaults set.
class Options {
public:
    Options() { gdn_context_options_init(&options_); }
    gdn_context_options *operator->() { return &options_; }
    const gdn_context_options *operator->() const { return &options_; }
    const gdn_context_options &operator*() const { return options_; }

private:
    gdn_context_options options_;
};

/// Owns a gdn_context. Movable; calls may come from any number of threads.
class Context {
public:
#ifndef GDN_NO_EXCEPTIONS
    Context() : Context(Options()) {}
    explicit Context(const Options &options) { detail::check(open(options).code()); }
#else
    /// Not open yet: see open().
    Context() = default;
#endif
    /// Takes over a context made elsewhere.
    explicit Context(gdn_context *context) : context_(context) {}

    /// Makes the context; what it held before ends. Never throws.
    Status open(const Options &options = Options()) {
        gdn_context *made = nullptr;
        const gdn_status status = gdn_context_create(&*options, &made);
        if (status == GDN_STATUS_OK) {
            context_.reset(made);
        }
        return status;
    }

    gdn_context *get() const { return context_.get(); }
    explicit operator bool() const { return context_ != nullptr; }

    detail::Result set_target(const char *target) { return detail::check(gdn_set_target(get(), target)); }
    detail::Result apply_overrides(const std::string &text) { return detail::check(gdn_apply_overrides(get(), text.data(), text.size())); }

    /// The operator. Without a workspace the context keeps one.
    detail::Result forward(const Args &args, void *workspace = nullptr, std::size_t bytes = 0) {
        return detail::check(gdn_forward(get(), &*args, workspace, bytes));
    }
    /// One token per sequence.
    detail::Result step(const Args &args, void *workspace = nullptr, std::size_t bytes = 0) {
        return detail::check(gdn_step(get(), &*args, workspace, bytes));
    }

    /// The mixer: convolutions, operator, gated norm.
    detail::Result forward(const MixerArgs &args, void *workspace = nullptr, std::size_t bytes = 0) {
        return detail::check(gdn_mixer_forward(get(), &*args, workspace, bytes));
    }
    detail::Result step(const MixerArgs &args, void *workspace = nullptr, std::size_t bytes = 0) {
        return detail::check(gdn_mixer_step(get(), &*args, workspace, bytes));
    }

    /// Whether forward(args) would run; never throws.
    Status supports(const Args &args) const { return gdn_supports(get(), &*args); }

#ifndef GDN_NO_EXCEPTIONS
    std::size_t workspace_size(const Args &args) const {
        std::size_t bytes = 0;
        detail::check(gdn_workspace_size(get(), &*args, &bytes));
        return bytes;
    }
    std::size_t workspace_size(const MixerArgs &args) const {
        std::size_t bytes = 0;
        detail::check(gdn_mixer_workspace_size(get(), &*args, &bytes));
        return bytes;
    }
    /// gdn_explain's JSON.
    std::string explain(const Args &args) const {
        std::string text;
        detail::check(explain(args, text).code());
        return text;
    }
#endif
    Status workspace_size(const Args &args, std::size_t &bytes) const { return gdn_workspace_size(get(), &*args, &bytes); }
    Status workspace_size(const MixerArgs &args, std::size_t &bytes) const { return gdn_mixer_workspace_size(get(), &*args, &bytes); }
    Status explain(const Args &args, std::string &text) const {
        std::size_t needed = 0;
        gdn_status status = gdn_explain(get(), &*args, nullptr, 0, &needed);
        if (status == GDN_STATUS_OK) {
            text.assign(needed, '\0');
            status = gdn_explain(get(), &*args, &text[0], text.size(), nullptr);
            text.resize(needed - 1);
        }
        return status;
    }

private:
    struct Destroy {
        void operator()(gdn_context *context) const { gdn_context_destroy(context); }
    };
    std::unique_ptr<gdn_context, Destroy> context_;
};

}  // namespace gdn

#endif
