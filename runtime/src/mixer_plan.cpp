#include "mixer_plan.h"

#include "constant_rows.h"
#include "error.h"
#include <cmath>

namespace gdn {

namespace {

constexpr const char *kWeightNames[] = {"conv_weight_q", "conv_weight_k", "conv_weight_v"};
constexpr const char *kBiasNames[] = {"conv_bias_q", "conv_bias_k", "conv_bias_v"};
constexpr const char *kInitialNames[] = {"conv_initial_q", "conv_initial_k", "conv_initial_v"};
constexpr const char *kFinalNames[] = {"conv_final_q", "conv_final_k", "conv_final_v"};

class MixerChecks final : public PlanExtension {
public:
    MixerChecks(const gdn_mixer_args &args, MixerPlan *mixer) : a_(args), op_(*args.op), m_(*mixer) {}

    gdn_status check(TensorChecks &checks, Plan *plan) override {
        checks_ = &checks;
        p_ = plan;
        if (!options() || !convolutions() || !gate()) {
            return status_ != GDN_STATUS_OK ? status_ : checks.status;
        }
        p_->mixing = true;
        m_.y = p_->o;
        p_->raw_element = (int32_t)bytes_of(op_.q.dtype);
        for (int i = 0; i < 3; i++) {
            m_.raw[i] = p_->source[i];
            if (m_.convolves) {
                p_->source[i].type = Type::kF32;
            }
        }
        return GDN_STATUS_OK;
    }

private:
    template <typename... A> [[gnu::cold]] bool bad(const char *format, A... a) {
        status_ = fail(GDN_STATUS_INVALID_ARGUMENT, format, a...);
        return false;
    }

    bool options() {
        const int activation = number_of(a_.conv_activation), gate = number_of(a_.gate_activation);
        if (activation != GDN_ACTIVATION_NONE && activation != GDN_ACTIVATION_SILU) {
            return bad("conv_activation is %d, expected 0 (none) or 1 (silu)", activation);
        }
        if (gate < 0 || gate > GDN_ACTIVATION_SIGMOID) {
            return bad("gate_activation is %d, expected 0 to 2", gate);
        }
        if (a_.output_norm != 0 && a_.output_norm != 1) {
            return bad("output_norm is %d, expected 0 or 1", a_.output_norm);
        }
        if (!std::isfinite(a_.norm_eps) || a_.norm_eps < 0) {
            return bad("norm_eps is %g, expected a finite number >= 0", (double)a_.norm_eps);
        }
        if (present(op_.snapshots)) {
            return bad("snapshots is given, but the mixer keeps none: they would lack the convolution's inputs");
        }
        m_.silu = activation == GDN_ACTIVATION_SILU;
        m_.gate = gate;
        m_.norm = a_.output_norm != 0;
        m_.eps = a_.norm_eps;
        return true;
    }

    bool f32(const char *name, const gdn_tensor &t) {
        return dtype_of(t) == GDN_DTYPE_F32 ? true : bad("%s has dtype %s, expected f32", name, dtype_name(dtype_of(t)));
    }
    bool without_convolution(const char *name, const gdn_tensor &t) {
        return !present(t) ? true : bad("%s is given, but conv_weight_q is absent: there is no convolution", name);
    }

    bool convolutions() {
        const gdn_tensor *const weights[] = {&a_.conv_weight_q, &a_.conv_weight_k, &a_.conv_weight_v};
        const gdn_tensor *const biases[] = {&a_.conv_bias_q, &a_.conv_bias_k, &a_.conv_bias_v};
        const gdn_tensor *const initials[] = {&a_.conv_initial_q, &a_.conv_initial_k, &a_.conv_initial_v};
        const gdn_tensor *const finals[] = {&a_.conv_final_q, &a_.conv_final_k, &a_.conv_final_v};
        const bool given = present(a_.conv_weight_q);
        m_.width = 1;
        m_.weight_bytes = 0;
        m_.convolves = given || m_.silu;
        for (int i = 0; i < 3; i++) {
            Convolution &c = m_.conv[i];
            c.heads = i == kSourceV ? p_->hv : p_->h;
            c.channels = i == kSourceV ? p_->v : p_->k;
            c.weight = kConstantRows.ones;  // without convolution the activation is one of width 1
            c.weight_head = c.bias_head = 0;
            c.tap = 0;
            c.bias = nullptr;
            c.initial = c.final = {nullptr, 0, 0, 0};
            c.neighbours = false;
            c.transposed = nullptr;
            if (!given) {
                if (present(*weights[i])) {
                    return bad("%s is given, but conv_weight_q is absent: expected all three or none", kWeightNames[i]);
                }
                if (!without_convolution(kBiasNames[i], *biases[i]) || !without_convolution(kInitialNames[i], *initials[i]) ||
                    !without_convolution(kFinalNames[i], *finals[i])) {
                    return false;
                }
                continue;
            }
            if (!present(*weights[i])) {
                return bad("%s is absent, but conv_weight_q is given: expected all three or none", kWeightNames[i]);
            }
            if (!weight(i, *weights[i], &c) || !bias(i, *biases[i], &c) ||
                !state(kInitialNames[i], *initials[i], c, p_->initial_slots.data ? op_.initial_state.shape[0] : p_->n, false, &c.initial) ||
                !state(kFinalNames[i], *finals[i], c, p_->final_slots.data ? op_.final_state.shape[0] : p_->n, true, &c.final)) {
                return false;
            }
            const int64_t slots[] = {initials[i]->shape[0], finals[i]->shape[0]};
            if (c.initial.data && c.initial.data == c.final.data && c.initial.row == c.final.row && c.initial.head == c.final.head &&
                (c.initial.slot == c.final.slot || slots[0] <= 1 || slots[1] <= 1)) {
                checks_->may_be(*finals[i], *initials[i]);
                checks_->in_place = true;
            }
        }
        return true;
    }

    bool weight(int i, const gdn_tensor &t, Convolution *c) {
        const int64_t expected[3] = {c->heads, c->channels, i == 0 ? -1 : m_.width};
        if (!f32(kWeightNames[i], t) || !checks_->tensor(kWeightNames[i], t, 3, expected, false, false)) {
            return false;
        }
        if (i == 0) {
            if (t.shape[2] < 2 || t.shape[2] > kMaxTaps) {
                return bad("conv_weight_q has width %lld (last extent), expected 2 to %d", (long long)t.shape[2], kMaxTaps);
            }
            m_.width = (int32_t)t.shape[2];
        }
        const bool readable = (c->channels == 1 || t.strides[1] == 1) && t.strides[2] <= INT32_MAX / (2 * kMaxTaps);
        if (readable) {
            c->weight = static_cast<const float *>(t.data);
            c->weight_head = c->heads > 1 ? t.strides[0] : c->channels;
            c->tap = (int32_t)t.strides[2];
        } else {
            const int64_t row = (int64_t)c->heads * c->channels;
            c->transposed = &t;
            c->transposed_at = m_.weight_bytes;
            c->weight_head = c->channels;
            c->tap = (int32_t)row;
            m_.weight_bytes += ((size_t)(row * m_.width) * sizeof(float) + 63) & ~(size_t)63;
        }
        c->neighbours = c->weight_head == c->channels;
        return true;
    }

    bool bias(int i, const gdn_tensor &t, Convolution *c) {
        if (!present(t)) {
            return true;
        }
        const int64_t expected[2] = {c->heads, c->channels};
        if (!f32(kBiasNames[i], t) || !checks_->tensor(kBiasNames[i], t, 2, expected, true, false)) {
            return false;
        }
        c->bias = static_cast<const float *>(t.data);
        c->bias_head = c->heads > 1 ? t.strides[0] : c->channels;
        c->neighbours &= c->bias_head == c->channels;
        return true;
    }

    bool state(const char *name, const gdn_tensor &t, const Convolution &c, int64_t slots, bool output, ConvState *state) {
        if (!present(t)) {
            return true;
        }
        if (dtype_of(t) != dtype_of(op_.q)) {
            return bad("%s has dtype %s, expected %s as q", name, dtype_name(dtype_of(t)), dtype_name(dtype_of(op_.q)));
        }
        const int64_t expected[4] = {slots, m_.width - 1, c.heads, c.channels}, size = bytes_of(t.dtype);
        if (!checks_->tensor(name, t, 4, expected, true, output)) {
            return false;
        }
        *state = {static_cast<char *>(t.data), t.shape[0] <= 1 ? 0 : t.strides[0] * size, t.shape[1] <= 1 ? 0 : t.strides[1] * size,
            t.shape[2] <= 1 ? c.channels * size : t.strides[2] * size};
        return true;
    }

    bool gate() {
        const gdn_tensor &z = a_.z;
        m_.z = {};
        m_.weight = nullptr;
        if (present(z)) {
            if (m_.gate == GDN_ACTIVATION_NONE) {
                return bad("gate_activation is none, expected silu or sigmoid: z is given");
            }
            if (!is_float(dtype_of(z))) {
                return bad("z has dtype %s, expected f32, bf16 or f16", dtype_name(dtype_of(z)));
            }
            const int64_t expected[4] = {op_.q.shape[0], op_.q.shape[1], p_->hv, p_->v}, size = bytes_of(z.dtype);
            if (!checks_->tensor("z", z, 4, expected, true, false)) {
                return false;
            }
            const int64_t token = z.shape[1] <= 1 ? 0 : z.strides[1];
            if (token > kMaxTokenStride) {
                status_ = fail(GDN_STATUS_UNSUPPORTED, "z has a token stride of %lld elements, the kernels address at most %lld",
                    (long long)token, (long long)kMaxTokenStride);
                return false;
            }
            m_.z.data = static_cast<const char *>(z.data);
            m_.z.sequence = p_->cu.data || z.shape[0] <= 1 ? 0 : z.strides[0] * size;
            m_.z.token = token * size;
            m_.z.head = z.shape[2] <= 1 ? 0 : z.strides[2] * size;
            m_.z.token_elements = (int32_t)token;
            m_.z.width = p_->v;
            m_.z.type = type_of(z.dtype);
        } else if (m_.gate != GDN_ACTIVATION_NONE) {
            return bad("gate_activation is %s, but z is absent", m_.gate == GDN_ACTIVATION_SILU ? "silu" : "sigmoid");
        }
        if (!present(a_.norm_weight)) {
            return true;
        }
        if (!m_.norm) {
            return bad("norm_weight is given, but output_norm is 0");
        }
        const int64_t expected[1] = {p_->v};
        if (!f32("norm_weight", a_.norm_weight) || !checks_->tensor("norm_weight", a_.norm_weight, 1, expected, true, false)) {
            return false;
        }
        m_.weight = static_cast<const float *>(a_.norm_weight.data);
        return true;
    }

    const gdn_mixer_args &a_;
    const gdn_args &op_;
    MixerPlan &m_;
    Plan *p_ = nullptr;
    TensorChecks *checks_ = nullptr;
    gdn_status status_ = GDN_STATUS_OK;
};

gdn_status choose_kernels(const Dispatch &dispatch, const Plan &plan, MixerPlan *m) {
    Need need;
    m->conv_kernel = m->step_kernel = m->z_copy = nullptr;
    if (m->convolves) {
        need.family = Family::kShortConv;
        need.dtype = m->raw[0].type;
        need.width = m->width == 4 ? 4 : 0;
        m->conv_kernel = dispatch.find(need, plan.kp, plan.vp);
        if (!m->conv_kernel && need.width) {
            need.width = 0;
            m->conv_kernel = dispatch.find(need, plan.kp, plan.vp);
        }
        if (!m->conv_kernel) {
            return fail(GDN_STATUS_UNSUPPORTED, "no short_conv kernel of this library serves q's dtype on this machine");
        }
    }
    // 32 bits follow the three old rows of a state.
    bool near = m->width == 4;
    for (const Convolution &c : m->conv) {
        near = near && (!c.initial.data || c.initial.row <= INT32_MAX) && (!c.final.data || c.final.row <= INT32_MAX);
    }
    if (m->convolves && near) {
        need.family = Family::kShortConvStep;
        m->step_kernel = dispatch.find(need, plan.kp, plan.vp);
    }
    need = {};
    need.family = Family::kGatedNorm;
    need.dtype = plan.o.type;
    need.z_dtype = m->z.data ? m->z.type : Type::kF32;
    m->norm_kernel = dispatch.find(need, plan.kp, plan.vp);
    if (!m->norm_kernel) {
        need.z_dtype = Type::kF32;
        m->norm_kernel = dispatch.find(need, plan.kp, plan.vp);
        need = {};
        need.family = Family::kMap;
        need.map = MapKind::kCopy;
        need.dtype = m->z.type;
        m->z_copy = dispatch.find(need, plan.kp, plan.vp);
        if (!m->norm_kernel || !m->z_copy) {
            return fail(GDN_STATUS_UNSUPPORTED, "no gated_norm kernel of this library serves the dtypes of o and z on this machine");
        }
    }
    return GDN_STATUS_OK;
}

}  // namespace

gdn_status make_mixer_plan(const Dispatch &dispatch, const gdn_mixer_args *args, Entry entry, Plan *plan, MixerPlan *mixer) {
    if (!args) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "args is NULL");
    }
    if (args->struct_size < sizeof(gdn_mixer_args)) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "args.struct_size is %zu, expected %zu (gdn_mixer_args_init sets it)", args->struct_size,
            sizeof(gdn_mixer_args));
    }
    if (!args->op) {
        return fail(GDN_STATUS_INVALID_ARGUMENT, "args.op is NULL, expected the operator's arguments");
    }
    MixerChecks checks(*args, mixer);
    const gdn_status status = make_plan(dispatch, args->op, entry, plan, &checks);
    return status == GDN_STATUS_OK ? choose_kernels(dispatch, *plan, mixer) : status;
}

}  // namespace gdn
