#include "plan.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "error.h"
#include "workspace.h"

namespace gdn {

namespace {

constexpr int64_t kMaxExtent = (int64_t)1 << 48;

constexpr gdn_dtype kUnknownDtype = (gdn_dtype)7;

}  // namespace

gdn_dtype dtype_of(const gdn_tensor &t) {
    const int number = number_of(t.dtype);
    return number >= GDN_DTYPE_NONE && number <= GDN_DTYPE_I64 ? (gdn_dtype)number : kUnknownDtype;
}

const char *dtype_name(gdn_dtype dtype) {
    switch (dtype) {
    case GDN_DTYPE_NONE: return "none";
    case GDN_DTYPE_F32: return "f32";
    case GDN_DTYPE_BF16: return "bf16";
    case GDN_DTYPE_F16: return "f16";
    case GDN_DTYPE_I32: return "i32";
    case GDN_DTYPE_I64: return "i64";
    }
    return "unknown";
}

Type type_of(gdn_dtype dtype) { return dtype == GDN_DTYPE_F32 ? Type::kF32 : dtype == GDN_DTYPE_BF16 ? Type::kBf16 : Type::kF16; }
int64_t bytes_of(gdn_dtype dtype) { return dtype == GDN_DTYPE_I64 ? 8 : dtype == GDN_DTYPE_F32 || dtype == GDN_DTYPE_I32 ? 4 : 2; }
bool is_float(gdn_dtype dtype) { return dtype == GDN_DTYPE_F32 || dtype == GDN_DTYPE_BF16 || dtype == GDN_DTYPE_F16; }

bool present(const gdn_tensor &t) {
    if (t.data) {
        return true;
    }
    for (int32_t i = 0; i < t.ndim && i < GDN_MAX_DIMS; i++) {
        if (t.shape[i] == 0) {
            return true;
        }
    }
    return false;
}

namespace {

struct ShapeText {
    char text[160];
};

ShapeText shape_text(int32_t ndim, const int64_t *shape) {
    ShapeText out;
    size_t at = 0;
    out.text[0] = 0;
    for (int32_t i = 0; i < ndim && i < GDN_MAX_DIMS; i++) {
        at += (size_t)snprintf(out.text + at, sizeof out.text - at, "%s%lld", i ? ", " : "", (long long)shape[i]);
    }
    return out;
}

/// Memory that a tensor spans, for the overlap checks.
struct Span {
    const char *name;
    const gdn_tensor *tensor;
    const char *begin, *end;  // NULL: no elements
};

class Checker final : public TensorChecks {
public:
    bool ok() const { return status == GDN_STATUS_OK; }

    bool tensor(const char *name, const gdn_tensor &t, int32_t ndim, const int64_t *expected, bool inner_one, bool output) override {
        if (t.ndim != ndim) {
            return bad("%s has %d dimensions, expected %d: [%s]", name, t.ndim, ndim, expected_text(ndim, expected).text);
        }
        const int64_t size = bytes_of(t.dtype);
        int64_t last = 0;
        bool empty = false, nested = true;  // nested: every stride passes over all that the dimensions inside it reach
        for (int32_t i = ndim - 1; i >= 0; i--) {
            const int64_t extent = t.shape[i], stride = t.strides[i];
            if (extent < 0 || extent > kMaxExtent) {
                return bad("%s has extent %lld in dimension %d, expected 0 to 2^48", name, (long long)extent, i);
            }
            if (expected[i] >= 0 && extent != expected[i]) {
                return bad("%s has shape [%s], expected [%s]", name, shape_text(ndim, t.shape).text, expected_text(ndim, expected).text);
            }
            empty |= extent == 0;
            if (extent <= 1) {
                continue;
            }
            if (stride < 0) {
                return bad("%s has stride %lld in dimension %d, expected no negative stride", name, (long long)stride, i);
            }
            nested &= stride > last;
            int64_t reach;
            if (__builtin_mul_overflow(extent - 1, stride, &reach) || __builtin_add_overflow(last, reach, &last) ||
                last > kMaxExtent * 64) {
                return bad("%s spans more than the address space (stride %lld in dimension %d)", name, (long long)stride, i);
            }
        }
        if (!empty) {
            if (!t.data) {
                return bad("%s is NULL, expected memory of shape [%s]", name, shape_text(ndim, t.shape).text);
            }
            if (inner_one && t.shape[ndim - 1] > 1 && t.strides[ndim - 1] != 1) {
                return bad("%s has innermost stride %lld, expected 1", name, (long long)t.strides[ndim - 1]);
            }
            if (reinterpret_cast<uintptr_t>(t.data) & (uintptr_t)(size - 1)) {
                return bad("%s is at an address that is not a multiple of its element size %lld", name, (long long)size);
            }
            if (output && !nested && !distinct(t)) {
                return bad("%s overlaps itself: strides [%s] of shape [%s] give two elements one address", name,
                    shape_text(ndim, t.strides).text, shape_text(ndim, t.shape).text);
            }
        }
        const char *begin = empty ? nullptr : static_cast<const char *>(t.data);
        *(output ? outputs_end_ : inputs_end_)++ = {name, &t, begin, empty ? nullptr : begin + (last + 1) * size};
        return true;
    }

    /// True if tensor() is certain to find nothing wrong, seen with few instructions; decode is made of such tensors. All extents are
    /// given, `size` is that of the dtype. Notes the span.
    template <int32_t kDims, bool kOutput> bool plain(const char *name, const gdn_tensor &t, const int64_t (&extent)[kDims], int64_t size) {
        constexpr int32_t kFree = kDims == 4 ? 3 : kDims;  // dimensions before the innermost, whose stride is 1 where there are four
        constexpr uint64_t kNear = (uint64_t)1 << 20, kShort = (uint64_t)1 << 32;  // 3 kNear kShort + kNear < 64 kMaxExtent
        if (t.ndim != kDims || !t.data || reinterpret_cast<uintptr_t>(t.data) & (uintptr_t)(size - 1)) {
            return false;
        }
        int64_t last = 0;
        if (kFree < kDims) {
            last = extent[kFree] - 1;
            if (t.shape[kFree] != extent[kFree] || (uint64_t)last >= kNear || t.strides[kFree] != 1) {
                return false;
            }
        }
        uint64_t strides = 0;
#pragma GCC unroll 4
        for (int32_t i = kFree - 1; i >= 0; i--) {
            const int64_t beyond = extent[i] - 1;
            if (t.shape[i] != extent[i] || (uint64_t)beyond >= kNear || (kOutput && beyond && t.strides[i] <= last)) {
                return false;
            }
            strides |= (uint64_t)t.strides[i];
            last += (int64_t)((uint64_t)beyond * (uint64_t)t.strides[i]);
        }
        if (strides >= kShort) {
            return false;
        }
        const char *begin = static_cast<const char *>(t.data);
        *(kOutput ? outputs_end_ : inputs_end_)++ = {name, &t, begin, begin + (last + 1) * size};
        return true;
    }

    void may_be(const gdn_tensor &final, const gdn_tensor &initial) override { *twins_end_++ = {&final, &initial}; }

    template <typename... A> [[gnu::cold]] bool bad(const char *format, A... a) {
        status = fail(GDN_STATUS_INVALID_ARGUMENT, format, a...);
        return false;
    }
    template <typename... A> [[gnu::cold]] bool unsupported(const char *format, A... a) {
        status = fail(GDN_STATUS_UNSUPPORTED, format, a...);
        return false;
    }

    /// No output meets an input or another output, but for the twins (the slot rules look at those).
    bool overlaps() {
        for (const Span *out = outputs_; out < outputs_end_; out++) {
            const char *const begin = out->begin, *const end = out->end;
            for (const Span *in = inputs_; in < inputs_end_; in++) {
                if (end > in->begin && in->end > begin && !twins(*out, *in) && !interleaved(*out, *in)) {
                    return bad("%s overlaps %s, expected memory of its own", out->name, in->name);
                }
            }
            for (const Span *other = outputs_; other < out; other++) {
                if (end > other->begin && other->end > begin && !interleaved(*out, *other)) {
                    return bad("%s overlaps %s, expected memory of its own", out->name, other->name);
                }
            }
        }
        return true;
    }

private:
    static ShapeText expected_text(int32_t ndim, const int64_t *expected) {
        ShapeText out;
        size_t at = 0;
        out.text[0] = 0;
        for (int32_t i = 0; i < ndim; i++) {
            at +=
                (size_t)(expected[i] < 0 ? snprintf(out.text + at, sizeof out.text - at, "%sany", i ? ", " : "")
                                         : snprintf(out.text + at, sizeof out.text - at, "%s%lld", i ? ", " : "", (long long)expected[i]));
        }
        return out;
    }

    /// True if no two index tuples share an address, by nesting in whatever order the strides have.
    [[gnu::cold]] static bool distinct(const gdn_tensor &t) {
        int64_t strides[GDN_MAX_DIMS], shape[GDN_MAX_DIMS];
        int32_t n = 0;
        for (int32_t i = 0; i < t.ndim; i++) {
            if (t.shape[i] == 1) {
                continue;
            }
            int32_t at = n++;
            for (; at > 0 && strides[at - 1] > t.strides[i]; at--) {
                strides[at] = strides[at - 1];
                shape[at] = shape[at - 1];
            }
            strides[at] = t.strides[i];
            shape[at] = t.shape[i];
        }
        int64_t reach = 0;
        for (int32_t i = 0; i < n; i++) {
            if (strides[i] <= reach) {
                return false;
            }
            reach += (shape[i] - 1) * strides[i];
        }
        return true;
    }

    bool twins(const Span &out, const Span &in) const {
        for (const Twins *pair = twins_; pair < twins_end_; pair++) {
            if (pair->final == out.tensor && pair->initial == in.tensor) {
                return true;
            }
        }
        return false;
    }

    /// Bounding ranges meet, but the tensors may be slices of one packed buffer: with a period P that divides all outer strides of both,
    /// they are apart if their inner parts are apart modulo P.
    [[gnu::cold]] static bool interleaved(const Span &a, const Span &b) {
        const int64_t size_a = bytes_of(a.tensor->dtype), size_b = bytes_of(b.tensor->dtype);
        for (int32_t i = 0; i < a.tensor->ndim; i++) {
            const int64_t period = a.tensor->strides[i] * size_a;
            int64_t inner_a, inner_b;
            if (a.tensor->shape[i] <= 1 || period <= 0 || !inner_reach(*a.tensor, size_a, period, &inner_a) ||
                !inner_reach(*b.tensor, size_b, period, &inner_b) || inner_a > period || inner_b > period) {
                continue;
            }
            int64_t delta = (b.begin - a.begin) % period;
            delta += delta < 0 ? period : 0;
            if (delta >= inner_a && period - delta >= inner_b) {
                return true;
            }
        }
        return false;
    }

    /// Bytes that the dimensions of stride below `period` span; false if another stride is not a multiple of it.
    static bool inner_reach(const gdn_tensor &t, int64_t size, int64_t period, int64_t *reach) {
        *reach = size;
        for (int32_t i = 0; i < t.ndim; i++) {
            if (t.shape[i] <= 1) {
                continue;
            }
            const int64_t stride = t.strides[i] * size;
            if (stride >= period) {
                if (stride % period) {
                    return false;
                }
            } else {
                *reach += (t.shape[i] - 1) * stride;
            }
        }
        return true;
    }

    struct Twins {
        const gdn_tensor *final, *initial;
    };
    Span inputs_[32], outputs_[8];  // with the mixer's
    Twins twins_[8];
    Span *inputs_end_ = inputs_, *outputs_end_ = outputs_;
    Twins *twins_end_ = twins_;
};

/// What a variant takes. Tensors that it has no place for are refused.
struct VariantFacts {
    const char *name;
    StageVariant stage;
    bool g_scalar, g_channel;  // allowed shapes of g
    bool beta, beta_channel, b, w, beta_k, beta_v;
    bool own;
    bool may_double;  // allow_neg_eigval
};

constexpr VariantFacts kVariants[] = {
    {"delta_rule", StageVariant::kGdn, false, false, true, false, false, false, false, false, false, true},
    {"gla", StageVariant::kGdn, true, true, false, false, false, false, false, false, false, false},
    {"gdn", StageVariant::kGdn, true, false, true, false, false, false, false, false, false, true},
    {"kda", StageVariant::kKda, false, true, true, false, false, false, false, false, false, true},
    {"gdn2", StageVariant::kGdn2, false, true, false, false, true, true, false, false, true, true},
    {"fg2", StageVariant::kFg2Plus, false, true, false, true, false, false, false, false, false, false},
    {"fg2_plus", StageVariant::kFg2Plus, false, true, false, false, false, false, true, true, false, false},
};

/// Key and value channels from which GDN_PRECISION_LOW has an effect.
constexpr int32_t kFewestLowChannels = 64;

class Builder {
public:
    Builder(const Dispatch &dispatch, const gdn_args &args, Entry entry, Plan *plan, PlanExtension *extension)
        : dispatch_(dispatch), a_(args), entry_(entry), p_(*plan), extension_(extension) {}

    gdn_status run() {
        if (options() && tensors() && states() && sequences() && extension() && check_.overlaps() && slots() && route()) {
            return GDN_STATUS_OK;
        }
        return check_.status;
    }

private:
    bool extension() {
        p_.mixing = false;
        check_.status = extension_ ? extension_->check(check_, &p_) : GDN_STATUS_OK;
        return check_.ok();
    }

    bool options() {
        const auto range = [this](const char *name, const auto &value, int count) {
            const int number = number_of(value);
            return number >= 0 && number < count ? true : check_.bad("%s is %d, expected 0 to %d", name, number, count - 1);
        };
        if (!range("variant", a_.variant, 7) || !range("decay", a_.decay, 4) || !range("gate", a_.gate, 2) ||
            !range("head_map", a_.head_map, 2) || !range("state_layout", a_.state_layout, 2) || !range("precision", a_.precision, 2)) {
            return false;
        }
        if (number_of(a_.state_dtype) != GDN_DTYPE_F32) {
            const int number = number_of(a_.state_dtype);
            return check_.unsupported("state_dtype is %s, only f32 is supported",
                dtype_name(number >= 0 && number <= GDN_DTYPE_I64 ? (gdn_dtype)number : kUnknownDtype));
        }
        facts_ = &kVariants[a_.variant];
        if (a_.allow_neg_eigval && !facts_->may_double) {
            return check_.bad("allow_neg_eigval is set, but variant %s has no gate that may be doubled", facts_->name);
        }
        if (a_.allow_neg_eigval && a_.gate != GDN_GATE_LOGIT) {
            return check_.bad("allow_neg_eigval is set with gate values: it doubles sigmoid of a logit, values are given as they are");
        }
        if (!std::isfinite(a_.scale)) {
            return check_.bad("scale is %g, expected a finite number", (double)a_.scale);
        }
        p_.lower_bound = a_.lower_bound == 0 ? -5.0f : a_.lower_bound;
        if (!(p_.lower_bound >= -100.0f && p_.lower_bound < 0.0f)) {
            return check_.bad("lower_bound is %g, expected -100 <= lower_bound < 0", (double)a_.lower_bound);
        }
        p_.variant = a_.variant;
        p_.decay = a_.decay;
        p_.gate = a_.gate;
        p_.modulo = a_.head_map == GDN_HEAD_MAP_MODULO;
        p_.v_first = a_.state_layout == GDN_STATE_V_FIRST;
        p_.l2norm = a_.qk_l2norm != 0;
        p_.gate_scale = a_.allow_neg_eigval ? 2.0f : 1.0f;
        p_.own = facts_->own;
        p_.gla = a_.variant == GDN_VARIANT_GLA;
        return true;
    }

    bool dtype(const char *name, const gdn_tensor &t) {
        return is_float(dtype_of(t)) ? true : check_.bad("%s has dtype %s, expected f32, bf16 or f16", name, dtype_name(dtype_of(t)));
    }

    /// A token tensor of kDims dimensions: [B, T, heads, width] or [B, T, heads]. `heads` -1: H or HV.
    template <int32_t kDims, bool kOutput>
    [[gnu::always_inline]] bool view_of(const char *name, const gdn_tensor &t, int64_t heads, int64_t width, TokenView *view) {
        static_assert((int)Type::kF32 == GDN_DTYPE_F32 && (int)Type::kBf16 == GDN_DTYPE_BF16 && (int)Type::kF16 == GDN_DTYPE_F16);
        const unsigned number = (unsigned)number_of(t.dtype);
        const int64_t accept = heads < 0 ? t.shape[2] : heads, size = number == GDN_DTYPE_F32 ? 4 : 2;
        const int64_t token = t.strides[1] & token_mask_;
        int64_t extent[kDims] = {batch_, tokens_, accept};
        if (kDims == 4) {
            extent[kDims - 1] = width;
        }
        if (number - 1 > 2 || (accept != p_.hv && accept != p_.h) || token > kMaxTokenStride ||
            !check_.plain<kDims, kOutput>(name, t, extent, size)) {
            return any_token_view(name, t, kDims, heads, width, kOutput, view);
        }
        view->data = static_cast<const char *>(t.data);
        view->sequence = (t.strides[0] & sequence_mask_) * size;
        view->token = token * size;
        view->token_elements = (int32_t)token;
        view->head = accept <= 1 ? 0 : t.strides[2] * size;
        view->width = (int32_t)width;
        view->type = (Type)number;
        view->per_value_head = accept == p_.hv;
        view->scalar = kDims == 3;
        return true;
    }

    /// Of an input: one copy of the code for all of them.
    template <int32_t kDims>
    [[gnu::noinline]] bool token_view(const char *name, const gdn_tensor &t, int64_t heads, int64_t width, TokenView *view) {
        return view_of<kDims, false>(name, t, heads, width, view);
    }

    [[gnu::noinline, gnu::cold]] bool any_token_view(
        const char *name, const gdn_tensor &t, int32_t ndim, int64_t heads, int64_t width, bool output, TokenView *view) {
        if (!dtype(name, t)) {
            return false;
        }
        int64_t accept = heads;
        if (heads < 0) {  // H|HV
            if (t.ndim == ndim && t.shape[2] != p_.h && t.shape[2] != p_.hv) {
                return check_.bad("%s has %lld heads, expected H=%d or HV=%d", name, (long long)t.shape[2], p_.h, p_.hv);
            }
            accept = t.ndim == ndim ? t.shape[2] : p_.hv;
        }
        const int64_t exact[4] = {batch_, tokens_, accept, width};
        if (!check_.tensor(name, t, ndim, exact, ndim == 4, output)) {
            return false;
        }
        const int64_t size = bytes_of(t.dtype);
        view->data = static_cast<const char *>(t.data);
        view->sequence = packed_ || t.shape[0] <= 1 ? 0 : t.strides[0] * size;
        const int64_t token = t.shape[1] <= 1 ? 0 : t.strides[1];
        if (token > kMaxTokenStride) {
            return check_.unsupported("%s has a token stride of %lld elements, the kernels address at most %lld", name, (long long)token,
                (long long)kMaxTokenStride);
        }
        view->token = token * size;
        view->token_elements = (int32_t)token;
        view->head = t.shape[2] <= 1 ? 0 : t.strides[2] * size;
        view->width = (int32_t)width;
        view->type = type_of(t.dtype);
        view->per_value_head = t.shape[2] == p_.hv;
        view->scalar = ndim == 3;
        return true;
    }

    bool required(const char *name, const gdn_tensor &t) {
        return present(t) ? true : check_.bad("%s is absent, variant %s needs it", name, facts_->name);
    }
    bool absent(const char *name, const gdn_tensor &t, const char *why) {
        return !present(t) ? true : check_.bad("%s is given, but %s", name, why);
    }
    bool not_of_variant(const char *name, const gdn_tensor &t) {
        return !present(t) ? true : check_.bad("%s is given, but variant %s has no %s", name, facts_->name, name);
    }

    bool tensors() {
        packed_ = present(a_.cu_seqlens);
        // q gives B, T, H, K and v gives HV, V; everything else is measured against them.
        for (const auto &t : {std::pair<const char *, const gdn_tensor *>{"q", &a_.q}, {"v", &a_.v}}) {
            if (!required(t.first, *t.second)) {
                return false;
            }
            if (t.second->ndim != 4) {
                return check_.bad("%s has %d dimensions, expected 4: [B, T, heads, channels]", t.first, t.second->ndim);
            }
        }
        batch_ = a_.q.shape[0];
        tokens_ = a_.q.shape[1];
        const int64_t h = a_.q.shape[2], k = a_.q.shape[3], hv = a_.v.shape[2], v = a_.v.shape[3];
        if (batch_ < 0 || tokens_ < 0 || batch_ > kMaxExtent || tokens_ > kMaxExtent) {
            return check_.bad("q has shape [%s], expected extents of 0 to 2^48", shape_text(4, a_.q.shape).text);
        }
        if (packed_ && batch_ != 1) {
            return check_.bad("q has B=%lld, expected B=1 with cu_seqlens", (long long)batch_);
        }
        if (h < 1 || hv < 1 || h > 65536 || hv > 65536) {
            return check_.bad("q has %lld heads and v has %lld, expected 1 to 65536", (long long)h, (long long)hv);
        }
        if (hv != h && (int32_t)hv % (int32_t)h) {
            return check_.bad("HV=%lld is not a multiple of H=%lld (q has %lld heads, v has %lld)", (long long)hv, (long long)h,
                (long long)h, (long long)hv);
        }
        if (k < 1 || v < 1) {
            return check_.bad("K=%lld, V=%lld (last extents of q and v), expected at least 1", (long long)k, (long long)v);
        }
        if (k > kMaxChannels || v > kMaxChannels) {
            return check_.unsupported(
                "K=%lld, V=%lld (last extents of q and v), at most %d is supported", (long long)k, (long long)v, kMaxChannels);
        }
        p_.h = (int32_t)h;
        p_.hv = (int32_t)hv;
        p_.k = (int32_t)k;
        p_.v = (int32_t)v;
        p_.kp = round_up16(k);
        p_.vp = round_up16(v);
        p_.heads_per_key = hv == h ? 1 : (int32_t)hv / (int32_t)h;
        p_.scale = a_.scale == 0 ? 1.0f / std::sqrt((float)k) : a_.scale;
        sequence_mask_ = packed_ || batch_ <= 1 ? 0 : -1;
        token_mask_ = tokens_ <= 1 ? 0 : -1;

        for (TokenView &view : p_.source) {
            view.data = nullptr;
        }
        if (!token_view<4>("q", a_.q, h, k, &p_.source[kSourceQ]) || !required("k", a_.k) ||
            !token_view<4>("k", a_.k, h, k, &p_.source[kSourceK]) || !token_view<4>("v", a_.v, hv, v, &p_.source[kSourceV])) {
            return false;
        }
        if (!present(a_.o)) {
            return check_.bad("o is absent, expected memory of shape [%lld, %lld, %lld, %lld]", (long long)batch_, (long long)tokens_,
                (long long)hv, (long long)v);
        }
        if (!view_of<4, true>("o", a_.o, hv, v, &p_.o)) {
            return false;
        }
        if (a_.k.dtype != a_.q.dtype || a_.v.dtype != a_.q.dtype || a_.o.dtype != a_.q.dtype) {
            return check_.bad("q is %s, k is %s, v is %s, o is %s, expected one dtype", dtype_name(a_.q.dtype), dtype_name(a_.k.dtype),
                dtype_name(a_.v.dtype), dtype_name(a_.o.dtype));
        }
        return decay() && gates();
    }

    bool decay() {
        const gdn_tensor &g = a_.g;
        p_.A_log.data = p_.dt_bias.data = nullptr;
        const bool logits = a_.decay == GDN_DECAY_SOFTPLUS || a_.decay == GDN_DECAY_LOWER_BOUND;
        if (!present(g)) {
            // alpha = 1: the cheapest form of the variant that has no other use for channels of alpha
            p_.scalar = a_.variant == GDN_VARIANT_DELTA_RULE || a_.variant == GDN_VARIANT_GLA || a_.variant == GDN_VARIANT_GDN ||
                        a_.variant == GDN_VARIANT_KDA;
            return absent("A_log", a_.A_log, "g is absent") && absent("dt_bias", a_.dt_bias, "g is absent");
        }
        if (!facts_->g_scalar && !facts_->g_channel) {
            return not_of_variant("g", g);
        }
        p_.scalar = !facts_->g_channel || (facts_->g_scalar && g.ndim == 3);
        TokenView *view = &p_.source[kSourceG];
        if (!(p_.scalar ? token_view<3>("g", g, -1, 1, view) : token_view<4>("g", g, -1, p_.k, view))) {
            return false;
        }
        if (!logits) {
            return absent("A_log", a_.A_log, "only logit decays use it") && absent("dt_bias", a_.dt_bias, "only logit decays use it");
        }
        const int64_t heads = g.shape[2];
        if (present(a_.A_log)) {
            const int64_t expected[1] = {heads};
            if (!f32("A_log", a_.A_log) || !check_.tensor("A_log", a_.A_log, 1, expected, false, false)) {
                return false;
            }
            p_.A_log = {static_cast<const char *>(a_.A_log.data), heads > 1 ? a_.A_log.strides[0] * 4 : 0, heads == p_.hv};
        }
        if (present(a_.dt_bias)) {
            const int64_t expected[2] = {heads, p_.k};
            if (!f32("dt_bias", a_.dt_bias) || !check_.tensor("dt_bias", a_.dt_bias, p_.scalar ? 1 : 2, expected, !p_.scalar, false)) {
                return false;
            }
            p_.dt_bias = {static_cast<const char *>(a_.dt_bias.data), heads > 1 ? a_.dt_bias.strides[0] * 4 : 0, heads == p_.hv};
        }
        return true;
    }

    bool f32(const char *name, const gdn_tensor &t) {
        return dtype_of(t) == GDN_DTYPE_F32 ? true : check_.bad("%s has dtype %s, expected f32", name, dtype_name(dtype_of(t)));
    }

    bool gates() {
        TokenView &b = p_.source[kSourceB], &w = p_.source[kSourceW];
        if (facts_->beta || facts_->beta_channel) {
            if (!required("beta", a_.beta)) {
                return false;
            }
            if (facts_->beta_channel && p_.k != p_.v) {
                return check_.bad("K=%d and V=%d differ, variant fg2 needs K = V", p_.k, p_.v);
            }
            if (!(facts_->beta ? token_view<3>("beta", a_.beta, -1, 1, &b) : token_view<4>("beta", a_.beta, -1, p_.k, &b))) {
                return false;
            }
            if (facts_->beta_channel) {
                w = b;
            }
        } else if (!not_of_variant("beta", a_.beta)) {
            return false;
        }
        if (facts_->b ? !(required("b", a_.b) && token_view<4>("b", a_.b, -1, p_.k, &b)) : !not_of_variant("b", a_.b)) {
            return false;
        }
        if (facts_->w ? !(required("w", a_.w) && token_view<4>("w", a_.w, p_.hv, p_.v, &w)) : !not_of_variant("w", a_.w)) {
            return false;
        }
        if (facts_->beta_k ? !(required("beta_k", a_.beta_k) && token_view<4>("beta_k", a_.beta_k, -1, p_.k, &b))
                           : !not_of_variant("beta_k", a_.beta_k)) {
            return false;
        }
        return facts_->beta_v ? required("beta_v", a_.beta_v) && token_view<4>("beta_v", a_.beta_v, p_.hv, p_.v, &w)
                              : not_of_variant("beta_v", a_.beta_v);
    }

    bool index_list(const char *name, const gdn_tensor &t, int64_t extent, IndexList *list) {
        const gdn_dtype kind = dtype_of(t);
        if (kind != GDN_DTYPE_I32 && kind != GDN_DTYPE_I64) {
            return check_.bad("%s has dtype %s, expected i32 or i64", name, dtype_name(kind));
        }
        if (!check_.tensor(name, t, 1, &extent, false, false)) {
            return false;
        }
        *list = {static_cast<const char *>(t.data), t.strides[0] * bytes_of(t.dtype), t.dtype == GDN_DTYPE_I64};
        return true;
    }

    bool sequences() {
        if (!packed_) {
            if (entry_ == Entry::kStep && tokens_ != 1) {
                return check_.bad("q has T=%lld, gdn_step takes one token per sequence", (long long)tokens_);
            }
            return true;
        }
        int64_t before = p_.cu[0];
        if (before != 0) {
            return check_.bad("cu_seqlens starts at %lld, expected 0", (long long)before);
        }
        for (int64_t s = 0; s < p_.n; s++) {
            const int64_t end = p_.cu[s + 1];
            if (end < before) {
                return check_.bad("cu_seqlens[%lld]=%lld is below cu_seqlens[%lld]=%lld, expected no descent", (long long)s + 1,
                    (long long)end, (long long)s, (long long)before);
            }
            if (entry_ == Entry::kStep && end - before != 1) {
                return check_.bad("cu_seqlens gives sequence %lld %lld tokens, gdn_step takes one token per sequence", (long long)s,
                    (long long)(end - before));
            }
            before = end;
        }
        if (before != tokens_) {
            return check_.bad("cu_seqlens ends at %lld, expected the %lld tokens of q", (long long)before, (long long)tokens_);
        }
        return true;
    }

    /// A state of `slots` sequences, -1: a pool of any number.
    template <bool kOutput> [[gnu::always_inline]] bool state_view(const char *name, const gdn_tensor &t, int64_t slots, StateView *view) {
        const int64_t count = slots < 0 ? t.shape[0] : slots;
        const int64_t extent[4] = {count, p_.hv, p_.v_first ? p_.v : p_.k, p_.v_first ? p_.k : p_.v};
        const int64_t row = extent[2] <= 1 ? extent[3] : t.strides[2];
        if (number_of(t.dtype) != GDN_DTYPE_F32 || row > kMaxRowStride || !check_.plain<4, kOutput>(name, t, extent, 4)) {
            return any_state_view(name, t, slots, false, kOutput, view);
        }
        *view = {static_cast<char *>(t.data), count <= 1 ? 0 : t.strides[0] * 4, p_.hv <= 1 ? 0 : t.strides[1] * 4, 0, (int32_t)row};
        return true;
    }

    [[gnu::noinline, gnu::cold]] bool any_state_view(
        const char *name, const gdn_tensor &t, int64_t slots, bool snapshots, bool output, StateView *view) {
        const int64_t rows = p_.v_first ? p_.v : p_.k, columns = p_.v_first ? p_.k : p_.v;
        const int64_t plain[4] = {slots, p_.hv, rows, columns}, with_snapshots[5] = {slots, -1, p_.hv, rows, columns};
        if (!f32(name, t) || !check_.tensor(name, t, snapshots ? 5 : 4, snapshots ? with_snapshots : plain, true, output)) {
            return false;
        }
        const int32_t d = snapshots ? 1 : 0;
        const int64_t row = t.shape[2 + d] <= 1 ? columns : t.strides[2 + d];
        if (row > kMaxRowStride) {
            return check_.unsupported("%s has a stride of %lld elements between rows, the kernels address at most %lld", name,
                (long long)row, (long long)kMaxRowStride);
        }
        view->data = static_cast<char *>(t.data);
        view->slot = t.shape[0] <= 1 ? 0 : t.strides[0] * 4;
        view->snapshot = snapshots && t.shape[1] > 1 ? t.strides[1] * 4 : 0;
        view->head = t.shape[1 + d] <= 1 ? 0 : t.strides[1 + d] * 4;
        view->row = (int32_t)row;
        return true;
    }

    bool pending_view(const char *name, const gdn_tensor &t, const gdn_tensor &state, bool output, PendingView *view) {
        view->data = nullptr;
        if (!present(t)) {
            return true;
        }
        const int64_t shape[3] = {state.shape[0], p_.hv, 2 * (int64_t)p_.k + p_.v};
        if (!f32(name, t) || !check_.tensor(name, t, 3, shape, true, output)) {
            return false;
        }
        *view = {static_cast<char *>(t.data), t.shape[0] <= 1 ? 0 : t.strides[0] * 4, t.shape[1] <= 1 ? 0 : t.strides[1] * 4};
        return true;
    }

    bool pendings() {
        const gdn_tensor &i = a_.initial_pending, &f = a_.final_pending;
        if (present(i) && (!present(a_.initial_state) || !present(a_.final_state))) {
            return check_.bad("initial_pending is given, but %s is absent", present(a_.final_state) ? "initial_state" : "final_state");
        }
        if (present(f) && !present(a_.final_state)) {
            return check_.bad("final_pending is given, but final_state is absent");
        }
        if (!pending_view("initial_pending", i, a_.initial_state, false, &p_.initial_pending) ||
            !pending_view("final_pending", f, a_.final_state, true, &p_.final_pending)) {
            return false;
        }
        if (i.data == f.data && p_.initial_pending.data && p_.initial_pending.head == p_.final_pending.head &&
            (p_.initial_pending.slot == p_.final_pending.slot || i.shape[0] <= 1 || f.shape[0] <= 1)) {
            check_.may_be(f, i);
            check_.in_place = true;
        }
        return true;
    }

    bool states() {
        p_.initial.data = p_.final.data = p_.snapshots.data = nullptr;
        p_.initial_slots.data = p_.final_slots.data = p_.cu.data = nullptr;
        p_.snapshot_count = 0;
        p_.tokens = tokens_;
        p_.n = batch_;
        if (packed_) {
            if (!index_list("cu_seqlens", a_.cu_seqlens, -1, &p_.cu)) {
                return false;
            }
            p_.n = a_.cu_seqlens.shape[0] - 1;
            if (p_.n < 0) {
                return check_.bad("cu_seqlens has no entry, expected N + 1 of them");
            }
        }
        const auto slotted = [this](const char *slots_name, const gdn_tensor &slot_tensor, const char *state_name, const gdn_tensor &state,
                                 IndexList *list) {
            if (!present(slot_tensor)) {
                return true;
            }
            if (!present(state)) {
                return check_.bad("%s is given, but %s is absent", slots_name, state_name);
            }
            return index_list(slots_name, slot_tensor, p_.n, list);
        };
        if (!slotted("initial_slots", a_.initial_slots, "initial_state", a_.initial_state, &p_.initial_slots) ||
            !slotted("final_slots", a_.final_slots, "final_state", a_.final_state, &p_.final_slots)) {
            return false;
        }
        if (present(a_.initial_state) &&
            !state_view<false>("initial_state", a_.initial_state, p_.initial_slots.data ? -1 : p_.n, &p_.initial)) {
            return false;
        }
        if (present(a_.final_state) && !state_view<true>("final_state", a_.final_state, p_.final_slots.data ? -1 : p_.n, &p_.final)) {
            return false;
        }
        if (present(a_.snapshots)) {
            if (!any_state_view("snapshots", a_.snapshots, p_.n, true, true, &p_.snapshots)) {
                return false;
            }
            p_.snapshot_count = p_.snapshots.data ? a_.snapshots.shape[1] : 0;
            const int kind = number_of(a_.snapshot_kind);
            if (kind != GDN_SNAPSHOT_LAST_TOKENS && kind != GDN_SNAPSHOT_BOUNDARIES) {
                return check_.bad("snapshot_kind is %d, expected 0 or 1", kind);
            }
            p_.snapshot_kind = a_.snapshot_kind;
            p_.snapshot_interval = a_.snapshot_interval;
            if (a_.snapshot_kind == GDN_SNAPSHOT_BOUNDARIES && (a_.snapshot_interval <= 0 || a_.snapshot_interval % 64)) {
                return check_.bad("snapshot_interval is %lld, expected a positive multiple of 64", (long long)a_.snapshot_interval);
            }
        }
        if (!pendings()) {
            return false;
        }
        state_in_place_ = false;
        if (p_.initial.data && p_.final.data) {
            const gdn_tensor &i = a_.initial_state, &f = a_.final_state;
            state_in_place_ = p_.initial.data == p_.final.data && p_.initial.head == p_.final.head && p_.initial.row == p_.final.row &&
                              (p_.initial.slot == p_.final.slot || i.shape[0] <= 1 || f.shape[0] <= 1);
            if (state_in_place_) {
                check_.may_be(f, i);
            }
        }
        return true;
    }

    int64_t initial_slot(int64_t s) const { return p_.initial_slots.data ? p_.initial_slots[s] : s; }
    int64_t final_slot(int64_t s) const { return p_.final_slots.data ? p_.final_slots[s] : s; }

    /// Every slot in range, no slot written twice, and none written that another sequence reads.
    bool slots() {
        const int64_t n = p_.n;
        if (p_.initial_slots.data) {
            const int64_t count = a_.initial_state.shape[0];
            for (int64_t s = 0; s < n; s++) {
                if (p_.initial_slots[s] < -1 || p_.initial_slots[s] >= count) {
                    return check_.bad("initial_slots[%lld]=%lld, expected -1 to %lld", (long long)s, (long long)p_.initial_slots[s],
                        (long long)count - 1);
                }
            }
        }
        if (p_.final_slots.data) {
            const int64_t count = a_.final_state.shape[0];
            for (int64_t s = 0; s < n; s++) {
                if (p_.final_slots[s] < 0 || p_.final_slots[s] >= count) {
                    return check_.bad(
                        "final_slots[%lld]=%lld, expected 0 to %lld", (long long)s, (long long)p_.final_slots[s], (long long)count - 1);
                }
            }
        }
        const bool shared = (state_in_place_ || check_.in_place) && (p_.initial_slots.data || p_.final_slots.data);
        if (!p_.final_slots.data && !shared) {
            return true;
        }
        return n * n <= 4096 ? slots_by_pairs(shared) : slots_by_bits(shared);
    }

    bool slots_by_pairs(bool shared) {
        for (int64_t s = 0; s < p_.n; s++) {
            const int64_t target = final_slot(s);
            for (int64_t other = 0; other < p_.n; other++) {
                if (other == s) {
                    continue;
                }
                if (final_slot(other) == target) {
                    return written_twice(s, other, target);
                }
                if (shared && initial_slot(other) == target) {
                    return written_and_read(s, other, target);
                }
            }
        }
        return true;
    }

    /// The same over windows of the slot numbers with a bit set on the stack: linear in sequences, no memory taken.
    bool slots_by_bits(bool shared) {
        constexpr int64_t kWindow = 1 << 15;
        uint64_t bits[kWindow / 64];
        int64_t lowest = INT64_MAX, highest = -1;
        for (int64_t s = 0; s < p_.n; s++) {
            const int64_t slot = final_slot(s);
            lowest = slot < lowest ? slot : lowest;
            highest = slot > highest ? slot : highest;
        }
        if ((highest - lowest) / kWindow > p_.n) {
            return slots_by_pairs(shared);
        }
        for (int64_t from = lowest; from <= highest; from += kWindow) {
            memset(bits, 0, sizeof bits);
            for (int64_t s = 0; s < p_.n; s++) {
                const int64_t slot = final_slot(s), at = slot - from;
                if (at < 0 || at >= kWindow) {
                    continue;
                }
                uint64_t &word = bits[at / 64];
                const uint64_t bit = 1ull << (at % 64);
                if (word & bit) {
                    return written_twice(first_target(slot), s, slot);
                }
                word |= bit;
            }
            for (int64_t s = 0; shared && s < p_.n; s++) {
                const int64_t slot = initial_slot(s), at = slot - from;
                if (at >= 0 && at < kWindow && (bits[at / 64] >> (at % 64) & 1) && final_slot(s) != slot) {
                    return written_and_read(first_target(slot), s, slot);
                }
            }
        }
        return true;
    }

    int64_t first_target(int64_t slot) const {
        int64_t s = 0;
        while (final_slot(s) != slot) {
            s++;
        }
        return s;
    }
    bool written_twice(int64_t s, int64_t other, int64_t slot) {
        return check_.bad("final_slots: sequences %lld and %lld both write slot %lld, expected distinct slots", (long long)s,
            (long long)other, (long long)slot);
    }
    bool written_and_read(int64_t s, int64_t other, int64_t slot) {
        return check_.bad("final_slots: sequence %lld writes slot %lld, which sequence %lld reads (initial_slots)", (long long)s,
            (long long)slot, (long long)other);
    }

    /// Everything that kernels() and scratch_of() look at, as an odd number; 0 where q, k or v has no memory (nothing runs then).
    uint64_t route_key() const {
        for (int i = kSourceQ; i <= kSourceV; i++) {
            if (!p_.source[i].data) {
                return 0;
            }
        }
        const bool blocks = p_.snapshot_count && p_.snapshot_kind == GDN_SNAPSHOT_LAST_TOKENS;
        uint64_t key = 1;
        int at = 1;
        const auto put = [&](uint32_t value, int bits) {
            key |= (uint64_t)value << at;
            at += bits;
        };
        put((uint32_t)p_.k, 9);
        put((uint32_t)p_.v, 9);
        put((uint32_t)p_.variant, 3);
        put((uint32_t)p_.decay, 2);
        put((uint32_t)p_.gate, 1);
        put(p_.l2norm, 1);
        put(p_.scalar, 1);
        put(p_.v_first, 1);
        put((uint32_t)a_.precision, 1);
        put(blocks, 1);
        put(p_.mixing, 1);
        put((uint32_t)p_.o.type, 2);
        for (const TokenView &source : p_.source) {
            put(source.data ? (uint32_t)source.type : 0, 2);
        }
        return key;
    }

    bool route() {
        const uint64_t key = route_key();
        if (const Route *known = key ? dispatch_.routes().find(key) : nullptr) {
            static_cast<Route &>(p_) = *known;
            return true;
        }
        if (!kernels()) {
            return false;
        }
        p_.scratch = scratch_of(p_);
        if (key) {
            dispatch_.routes().add(key, p_);
        }
        return true;
    }

    const KernelRow *map_row(MapKind kind, Type type) const {
        Need need;
        need.family = Family::kMap;
        need.map = kind;
        need.dtype = type;
        return dispatch_.find(need, p_.kp, p_.vp);
    }

    /// Tries the stage of one form and dtype. Returns how many tensors have to be mapped first, or -1 if it cannot serve.
    int try_stage(StageVariant variant, Form form, Type type) {
        const bool inside_norm = form == Form::kNorm || form == Form::kLogits;
        if (inside_norm && !p_.l2norm) {
            return -1;
        }
        Need need;
        need.family = Family::kStage;
        need.variant = variant;
        need.form = form;
        need.dtype = type;
        stage_ = dispatch_.find(need, p_.kp, p_.vp);
        if (!stage_) {
            return -1;
        }
        int maps = 0;
        const bool wide = type == Type::kF32;  // maps write float32, so only the float32 stage can read what they wrote
        const bool k_fits = p_.k == p_.kp, v_fits = p_.v == p_.vp;
        const auto take = [&](int source, MapKind kind, bool fits, Type wanted, float pad, bool wanted_is_f32) {
            const TokenView &view = p_.source[source];
            map_[source] = nullptr;
            if (!view.data) {
                return true;
            }
            if (kind == MapKind::kCopy && fits && view.type == wanted) {
                return true;
            }
            if (!wanted_is_f32) {
                return false;
            }
            map_[source] = map_row(kind, view.type);
            map_pad_[source] = pad;
            maps++;
            return map_[source] != nullptr;
        };
        const MapKind norm = p_.l2norm && !inside_norm ? MapKind::kL2Norm : MapKind::kCopy;
        if (!take(kSourceQ, norm, k_fits, type, 0.0f, wide) || !take(kSourceK, norm, k_fits, type, 0.0f, wide) ||
            !take(kSourceV, MapKind::kCopy, v_fits, type, 0.0f, wide)) {
            return -1;
        }
        const bool g_fits = p_.scalar || k_fits, b_scalar = variant == StageVariant::kGdn || variant == StageVariant::kKda;
        map_[kSourceG] = nullptr;
        if (p_.source[kSourceG].data) {
            bool taken = false;
            switch (form) {
            case Form::kLog:
            case Form::kNorm: taken = p_.decay == GDN_DECAY_LOG && take(kSourceG, MapKind::kCopy, g_fits, Type::kF32, 0.0f, true); break;
            case Form::kLogits:
                taken = p_.decay == GDN_DECAY_SOFTPLUS && g_fits && take(kSourceG, MapKind::kCopy, g_fits, type, 0.0f, wide);
                break;
            case Form::kLinear: {
                const MapKind kind = p_.decay == GDN_DECAY_LOG           ? MapKind::kExp
                                     : p_.decay == GDN_DECAY_SOFTPLUS    ? MapKind::kSoftplus
                                     : p_.decay == GDN_DECAY_LOWER_BOUND ? MapKind::kLowerBound
                                                                         : MapKind::kCopy;
                taken = take(kSourceG, kind, g_fits, Type::kF32, 1.0f, true);
                break;
            }
            case Form::kNone: break;
            }
            if (!taken) {
                return -1;
            }
        }
        const bool logits_inside = form == Form::kLogits;
        if (logits_inside && p_.gate != GDN_GATE_LOGIT && !p_.gla) {
            return -1;
        }
        const MapKind gate = p_.gate == GDN_GATE_LOGIT && !logits_inside ? MapKind::kSigmoid : MapKind::kCopy;
        // Padded gate channels: 0 as a value; as a logit any number will do, q, k and v are 0 there.
        if (!take(kSourceB, gate, b_scalar || k_fits, type, 0.0f, wide) || !take(kSourceW, gate, v_fits, type, 0.0f, wide)) {
            return -1;
        }
        return maps;
    }

    bool stage() {
        StageVariant variant = facts_->stage;
        if (variant == StageVariant::kKda && p_.scalar) {
            variant = StageVariant::kGdn;  // no g: the rule is the same
        }
        if (p_.gla && !p_.scalar) {
            variant = StageVariant::kKda;
        }
        constexpr Form kForms[] = {Form::kLogits, Form::kNorm, Form::kLog, Form::kLinear};
        int best = INT32_MAX;
        const Type types[] = {p_.source[kSourceQ].type, Type::kF32};
        p_.stage = nullptr;
        for (int t = types[0] == Type::kF32 ? 1 : 0; t < 2 && best; t++) {
            for (const Form form : kForms) {
                const int maps = try_stage(variant, form, types[t]);
                if (maps >= 0 && maps < best) {
                    best = maps;
                    p_.stage = stage_;
                    p_.form = form;
                    memcpy(p_.map, map_, sizeof map_);
                    memcpy(p_.map_pad, map_pad_, sizeof map_pad_);
                    if (!maps) {
                        break;
                    }
                }
            }
        }
        return p_.stage ? true
                        : check_.unsupported("no stage kernel of this library serves variant %s with these dtypes and units", facts_->name);
    }

    bool kernels() {
        if (!stage()) {
            return false;
        }
        p_.gla_copy = nullptr;
        if (p_.gla && !p_.map[kSourceV] && p_.source[kSourceV].type != Type::kF32) {
            p_.gla_copy = map_row(MapKind::kCopy, p_.source[kSourceV].type);
            if (!p_.gla_copy) {
                return check_.unsupported("no map kernel of this library reads v as %s", dtype_name(a_.v.dtype));
            }
        }
        Need need;
        p_.store = nullptr;
        if (p_.o.type != Type::kF32) {
            need.family = Family::kStore;
            need.dtype = p_.o.type;
            p_.store = dispatch_.find(need, p_.kp, p_.vp);
            if (!p_.store) {
                return check_.unsupported("no store kernel of this library writes o as %s", dtype_name(a_.o.dtype));
            }
            need.dtype = Type::kNone;
        }
        need.decay = p_.scalar ? DecayShape::kScalar : DecayShape::kChannel;
        need.erase = p_.own ? Erase::kOwn : Erase::kTied;
        need.family = Family::kCorePending;
        p_.pending = p_.aligned() ? dispatch_.find(need, p_.kp, p_.vp) : nullptr;
        need.family = Family::kCoreStep;
        p_.step = dispatch_.find(need, p_.kp, p_.vp);
        p_.v_first_step = nullptr;
        if (p_.v_first) {
            need.layout = Layout::kVFirst;
            p_.v_first_step = dispatch_.find(need, p_.kp, p_.vp);
            need.layout = Layout::kKFirst;
        }
        p_.block = nullptr;
        if (p_.snapshot_count && p_.snapshot_kind == GDN_SNAPSHOT_LAST_TOKENS) {
            need.family = Family::kCoreBlock;
            p_.block = dispatch_.find(need, p_.kp, p_.vp);
            if (p_.block && p_.block->chunk > kMaxRows) {
                p_.block = nullptr;
            }
        }
        need.family = Family::kCoreChunk;
        const bool low = a_.precision == GDN_PRECISION_LOW;
        need.precision = low ? Precision::kLow : Precision::kF32;
        if (low && !dispatch_.find(need, p_.kp, p_.vp)) {
            return check_.unsupported("precision low: no such kernel for variant %s, K=%d, V=%d on this machine", facts_->name, p_.k, p_.v);
        }
        if (low && (p_.kp < kFewestLowChannels || p_.vp < kFewestLowChannels)) {
            // Small heads gain nothing from low precision and have few numbers over which its error would average.
            need.precision = Precision::kF32;
        }
        for (int32_t i = 0; i < kLengthClasses; i++) {
            need.length_class = i;
            p_.chunk[i] = dispatch_.find(need, p_.kp, p_.vp);
            if (p_.chunk[i] && p_.chunk[i]->chunk > kMaxRows) {
                p_.chunk[i] = nullptr;
            }
        }
        if (!p_.step && p_.snapshot_count && p_.snapshot_kind == GDN_SNAPSHOT_LAST_TOKENS) {
            return check_.unsupported(
                "snapshots of the last tokens need a step kernel, this library has none for variant %s", facts_->name);
        }
        for (int32_t i = 0; i < kLengthClasses; i++) {
            if (!p_.chunk[i] && !p_.step) {
                return check_.unsupported(
                    "no core kernel of this library serves variant %s, K=%d, V=%d on this machine", facts_->name, p_.k, p_.v);
            }
            p_.run[i] = dispatch_.params(p_.chunk[i] ? *p_.chunk[i] : *p_.step);
        }
        return true;
    }

    const Dispatch &dispatch_;
    const gdn_args &a_;
    const Entry entry_;
    Plan &p_;
    PlanExtension *const extension_;
    Checker check_;
    const VariantFacts *facts_ = nullptr;
    int64_t batch_ = 0, tokens_ = 0;
    int64_t sequence_mask_ = 0, token_mask_ = 0;  // of strides: 0 where there is one sequence, or one token
    bool packed_ = false, state_in_place_ = false;
    const KernelRow *stage_ = nullptr;
    const KernelRow *map_[kSources];
    float map_pad_[kSources];
};

float half_to_float(uint16_t bits, Type type) {
    uint32_t word;
    float value;
    if (type == Type::kBf16) {
        word = (uint32_t)bits << 16;
        memcpy(&value, &word, 4);
        return value;
    }
    const uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
    const float sign = bits & 0x8000 ? -1.0f : 1.0f;
    if (exponent == 31) {
        return fraction ? NAN : sign * INFINITY;
    }
    return sign * (exponent ? std::ldexp((float)(fraction | 1024), (int)exponent - 25) : std::ldexp((float)fraction, -24));
}

}  // namespace

gdn_status make_plan(const Dispatch &dispatch, const gdn_args *args, Entry entry, Plan *plan, PlanExtension *extension) {
    if (!args) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "args is NULL");
    }
    if (args->struct_size < sizeof(gdn_args)) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "args.struct_size is %zu, expected %zu (gdn_args_init sets it)", args->struct_size,
            sizeof(gdn_args));
    }
    if (dispatch.target() < 0) {
        return fail(GDN_STATUS_UNSUPPORTED, "this machine runs no target of this library");
    }
    return Builder(dispatch, *args, entry, plan, extension).run();
}

const char *variant_name(gdn_variant variant) { return kVariants[variant].name; }

const char *source_name(const Plan &plan, int source) {
    switch (source) {
    case kSourceQ: return "q";
    case kSourceK: return "k";
    case kSourceV: return "v";
    case kSourceG: return "g";
    case kSourceB: return plan.variant == GDN_VARIANT_GDN2 ? "b" : plan.variant == GDN_VARIANT_FG2_PLUS ? "beta_k" : "beta";
    default: return plan.variant == GDN_VARIANT_GDN2 ? "w" : plan.variant == GDN_VARIANT_FG2_PLUS ? "beta_v" : "beta";
    }
}

gdn_status check_values(const Plan &plan) {
    // NaN passes: it is not outside a unit, and the operator contains it.
    const auto scan = [&plan](int source, float low, float high, const char *unit) -> gdn_status {
        const TokenView &view = plan.source[source];
        if (!view.data) {
            return GDN_STATUS_OK;
        }
        const int64_t sequences = plan.cu.data ? 1 : plan.n;
        const int32_t heads = view.per_value_head ? plan.hv : plan.h;
        for (int64_t b = 0; b < sequences; b++) {
            for (int64_t t = 0; t < plan.tokens; t++) {
                for (int32_t h = 0; h < heads; h++) {
                    const char *row = view.data + b * view.sequence + t * view.token + h * view.head;
                    for (int32_t c = 0; c < view.width; c++) {
                        const float x = view.type == Type::kF32 ? reinterpret_cast<const float *>(row)[c]
                                                                : half_to_float(reinterpret_cast<const uint16_t *>(row)[c], view.type);
                        if (x < low || x > high) {
                            return fail(GDN_STATUS_INVALID_VALUE, "%s is %g at sequence %lld, token %lld, head %d, channel %d, expected %s",
                                source_name(plan, source), (double)x, (long long)b, (long long)t, h, c, unit);
                        }
                    }
                }
            }
        }
        return GDN_STATUS_OK;
    };
    gdn_status status = GDN_STATUS_OK;
    if (plan.decay == GDN_DECAY_LOG) {
        status = scan(kSourceG, -INFINITY, 0.0f, "a log decay <= 0");
    } else if (plan.decay == GDN_DECAY_LINEAR) {
        status = scan(kSourceG, 0.0f, 1.0f, "a linear decay in [0, 1]");
    }
    const bool rooted = plan.variant == GDN_VARIANT_FG2 || plan.variant == GDN_VARIANT_FG2_PLUS;
    if (status == GDN_STATUS_OK && rooted && plan.gate == GDN_GATE_VALUE) {
        status = scan(kSourceB, 0.0f, INFINITY, "no negative value: its square root is taken");
        if (status == GDN_STATUS_OK) {
            status = scan(kSourceW, 0.0f, INFINITY, "no negative value: its square root is taken");
        }
    }
    return status;
}

}  // namespace gdn
