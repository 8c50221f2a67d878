// gdn_forward, gdn_step and the mixer's calls on descriptors that start out right and are then spoilt: never crash; refused means nothing written; accepted
// means nothing written outside o, the final states and snapshots. Every tensor ends at a page that cannot be touched, so kernels (which no
// sanitizer sees) are watched too.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <gdn/gdn.h>

#include "../support/guarded_buffer.h"

namespace {

using gdn_test::Guard;
using gdn_test::GuardedBuffer;

constexpr std::size_t kBytes = 1 << 16;

enum Which {
    kQ,
    kK,
    kV,
    kG,
    kBeta,
    kB,
    kW,
    kBetaK,
    kBetaV,
    kALog,
    kDtBias,
    kInitialState,
    kInitialSlots,
    kCu,
    kO,
    kFinalState,
    kFinalSlots,
    kSnapshots,
    kInitialPending,
    kFinalPending,
    kTensors,  // of the operator; the mixer's follow
    kWeights = kTensors,
    kBiases = kWeights + 3,
    kConvInitial = kBiases + 3,
    kConvFinal = kConvInitial + 3,
    kZ = kConvFinal + 3,
    kNormWeight,
    kAll
};

gdn_tensor gdn_args::*const kMembers[kTensors] = {&gdn_args::q, &gdn_args::k, &gdn_args::v, &gdn_args::g, &gdn_args::beta, &gdn_args::b,
    &gdn_args::w, &gdn_args::beta_k, &gdn_args::beta_v, &gdn_args::A_log, &gdn_args::dt_bias, &gdn_args::initial_state,
    &gdn_args::initial_slots, &gdn_args::cu_seqlens, &gdn_args::o, &gdn_args::final_state, &gdn_args::final_slots, &gdn_args::snapshots,
    &gdn_args::initial_pending, &gdn_args::final_pending};

gdn_tensor gdn_mixer_args::*const kMixerMembers[kAll - kTensors] = {&gdn_mixer_args::conv_weight_q, &gdn_mixer_args::conv_weight_k,
    &gdn_mixer_args::conv_weight_v, &gdn_mixer_args::conv_bias_q, &gdn_mixer_args::conv_bias_k, &gdn_mixer_args::conv_bias_v,
    &gdn_mixer_args::conv_initial_q, &gdn_mixer_args::conv_initial_k, &gdn_mixer_args::conv_initial_v, &gdn_mixer_args::conv_final_q,
    &gdn_mixer_args::conv_final_k, &gdn_mixer_args::conv_final_v, &gdn_mixer_args::z, &gdn_mixer_args::norm_weight};

struct Call {
    gdn_args op;
    gdn_mixer_args mixer;
    bool mixes = false;  // the mixer is called

    int tensors() const { return mixes ? kAll : kTensors; }
    gdn_tensor &tensor(int i) { return i < kTensors ? op.*kMembers[i] : mixer.*kMixerMembers[i - kTensors]; }
    static bool output(int i) {
        return i == kO || i == kFinalState || i == kSnapshots || i == kFinalPending || (i >= kConvFinal && i < kZ);
    }
    /// A state that is read and written at one place.
    bool in_place(int i) {
        const int final = i == kInitialState                    ? kFinalState
                          : i == kInitialPending                ? kFinalPending
                          : i >= kConvInitial && i < kConvFinal ? i + kConvFinal - kConvInitial
                                                                : -1;
        return final >= 0 && tensor(i).data && tensor(final).data == tensor(i).data;
    }
};

void require(bool good, const char *what) {
    if (good) return;
    std::fprintf(stderr, "%s: %s\n", what, gdn_last_error());
    std::abort();
}

class Bytes {
public:
    Bytes(const std::uint8_t *data, std::size_t size) : data_(data), size_(size) {}
    std::uint8_t byte() { return at_ < size_ ? data_[at_++] : 0; }
    std::int64_t below(std::int64_t n) { return byte() % n; }
    bool more() const { return at_ < size_; }
    // Small, or at an edge, or anything.
    std::int64_t odd_number() {
        static const std::int64_t edges[] = {
            -1, 0, 1, INT32_MAX, INT32_MIN, std::int64_t{1} << 32, INT64_MAX, INT64_MIN, std::int64_t{1} << 62, 257, 256, 1 << 20};
        const std::uint8_t kind = byte();
        if (kind < 100) return byte() % 40;
        if (kind < 200) return edges[byte() % 12];
        std::int64_t value = 0;
        for (int i = 0; i < 8; i++) value = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << 8 | byte());
        return value;
    }

private:
    const std::uint8_t *data_;
    std::size_t size_, at_ = 0;
};

std::vector<GuardedBuffer> &buffers() {
    static std::vector<GuardedBuffer> all = [] {
        std::vector<GuardedBuffer> list;
        for (int i = 0; i < kAll; i++) list.emplace_back(kBytes, Guard::kEnd);
        return list;
    }();
    return all;
}

int element_bytes(gdn_dtype dtype) { return dtype == GDN_DTYPE_BF16 || dtype == GDN_DTYPE_F16 ? 2 : dtype == GDN_DTYPE_I64 ? 8 : 4; }

// Whether every element lies in the tensor's buffer; where it does, the view is moved so that its last byte is the buffer's last.
bool fits(const gdn_tensor &tensor, std::int64_t *bytes) {
    __int128 last = 0;
    bool empty = false;
    if (tensor.ndim < 0 || tensor.ndim > GDN_MAX_DIMS) return false;
    for (int i = 0; i < tensor.ndim; i++) {
        if (tensor.shape[i] < 0) return false;
        if (tensor.shape[i] == 0)
            empty = true;
        else
            last += static_cast<__int128>(tensor.shape[i] - 1) * tensor.strides[i];
        if (tensor.shape[i] > 1 && tensor.strides[i] < 0) return false;
    }
    const __int128 size = empty ? 0 : (last + 1) * element_bytes(tensor.dtype);
    if (size > static_cast<__int128>(kBytes)) return false;
    *bytes = static_cast<std::int64_t>(size);
    return true;
}

gdn_tensor make(gdn_dtype dtype, std::initializer_list<std::int64_t> shape) {
    gdn_tensor tensor{};
    tensor.dtype = dtype;
    for (std::int64_t extent : shape) tensor.shape[tensor.ndim++] = extent;
    std::int64_t stride = 1;
    for (int i = tensor.ndim - 1; i >= 0; i--) {
        tensor.strides[i] = stride;
        stride *= tensor.shape[i];
    }
    tensor.data = &tensor;  // present; placed later
    return tensor;
}

void good_arguments(Bytes &in, gdn_args &args) {
    gdn_args_init(&args);
    args.variant = static_cast<gdn_variant>(in.below(7));
    args.decay = static_cast<gdn_decay>(in.below(4));
    args.gate = static_cast<gdn_gate>(in.below(2));
    args.head_map = static_cast<gdn_head_map>(in.below(2));
    args.state_layout = static_cast<gdn_state_layout>(in.below(2));
    const std::uint8_t flags = in.byte();
    args.qk_l2norm = flags & 1;
    static const gdn_dtype dtypes[] = {GDN_DTYPE_F32, GDN_DTYPE_BF16, GDN_DTYPE_F16};
    const gdn_dtype dtype = dtypes[in.below(3)], gate_dtype = dtypes[in.below(3)], index = flags & 2 ? GDN_DTYPE_I32 : GDN_DTYPE_I64;
    const bool packed = flags & 4, slots = flags & 8;
    const std::int64_t N = 1 + in.below(3), T = in.below(20), H = 1 + in.below(3), HV = H * (1 + in.below(3)), K = 1 + in.below(24);
    const std::int64_t V = args.variant == GDN_VARIANT_FG2 ? K : 1 + in.below(24), B = packed ? 1 : N, GH = flags & 16 ? HV : H;
    args.q = make(dtype, {B, T, H, K});
    args.k = make(dtype, {B, T, H, K});
    args.v = make(dtype, {B, T, HV, V});
    args.o = make(dtype, {B, T, HV, V});
    const bool scalar = args.variant == GDN_VARIANT_GDN;
    if (args.variant != GDN_VARIANT_DELTA_RULE) {
        args.g = scalar ? make(gate_dtype, {B, T, GH}) : make(gate_dtype, {B, T, GH, K});
        if (args.decay >= GDN_DECAY_SOFTPLUS && flags & 32) {
            args.A_log = make(GDN_DTYPE_F32, {GH});
            args.dt_bias = scalar ? make(GDN_DTYPE_F32, {GH}) : make(GDN_DTYPE_F32, {GH, K});
        }
    }
    switch (args.variant) {
    case GDN_VARIANT_DELTA_RULE:
    case GDN_VARIANT_GDN:
    case GDN_VARIANT_KDA: args.beta = make(gate_dtype, {B, T, GH}); break;
    case GDN_VARIANT_GDN2:
        args.b = make(gate_dtype, {B, T, GH, K});
        args.w = make(gate_dtype, {B, T, HV, V});
        break;
    case GDN_VARIANT_FG2: args.beta = make(gate_dtype, {B, T, GH, K}); break;
    case GDN_VARIANT_FG2_PLUS:
        args.beta_k = make(gate_dtype, {B, T, GH, K});
        args.beta_v = make(gate_dtype, {B, T, HV, V});
        break;
    default: break;
    }
    const bool v_first = args.state_layout == GDN_STATE_V_FIRST;
    const std::int64_t rows = v_first ? V : K, columns = v_first ? K : V;
    if (flags & 64) args.initial_state = make(GDN_DTYPE_F32, {slots ? 4 : N, HV, rows, columns});
    if (flags & 128) args.final_state = make(GDN_DTYPE_F32, {slots ? 4 : N, HV, rows, columns});
    if (args.final_state.data && in.below(4) == 0) {
        args.final_pending = make(GDN_DTYPE_F32, {slots ? 4 : N, HV, 2 * K + V});
        if (args.initial_state.data && in.below(2)) args.initial_pending = make(GDN_DTYPE_F32, {slots ? 4 : N, HV, 2 * K + V});
    }
    if (slots && args.initial_state.data) args.initial_slots = make(index, {N});
    if (slots && args.final_state.data) args.final_slots = make(index, {N});
    if (packed) args.cu_seqlens = make(index, {N + 1});
    if (in.below(4) == 0) {
        args.snapshots = make(GDN_DTYPE_F32, {N, 1 + in.below(3), HV, rows, columns});
        args.snapshot_kind = static_cast<gdn_snapshot_kind>(in.below(2));
        args.snapshot_interval = args.snapshot_kind == GDN_SNAPSHOT_BOUNDARIES ? 64 : 0;
    }
}

void spoil(Bytes &in, gdn_args &args) {
    gdn_tensor &tensor = args.*kMembers[in.below(kTensors)];
    switch (in.below(12)) {
    case 0: tensor.shape[in.below(GDN_MAX_DIMS)] = in.odd_number(); break;
    case 1: tensor.strides[in.below(GDN_MAX_DIMS)] = in.odd_number(); break;
    case 2: tensor.ndim = static_cast<std::int32_t>(in.odd_number()); break;
    case 3: tensor.dtype = static_cast<gdn_dtype>(in.below(8)); break;
    case 4: tensor.data = tensor.data ? nullptr : &tensor; break;
    case 5: tensor = args.*kMembers[in.below(kTensors)]; break;
    case 6: args.variant = static_cast<gdn_variant>(in.below(9)); break;
    case 7: args.decay = static_cast<gdn_decay>(in.below(5)); break;
    case 8: {
        const std::int64_t bits = in.odd_number();
        std::memcpy(&args.scale, &bits, sizeof(float));
        break;
    }
    case 9: args.snapshot_interval = in.odd_number(); break;
    case 10: args.struct_size = static_cast<std::size_t>(in.odd_number()); break;
    case 11: args.allow_neg_eigval = 1; break;
    }
}

void good_mixer(Bytes &in, Call &call) {
    gdn_mixer_args &args = call.mixer;
    gdn_mixer_args_init(&args);
    args.op = &call.op;
    const gdn_args &op = call.op;
    const std::uint8_t flags = in.byte();
    const std::int64_t W = 1 + in.below(8), K = op.q.shape[3], V = op.v.shape[3], H = op.q.shape[2], HV = op.v.shape[2];
    const std::int64_t N = op.cu_seqlens.data ? op.cu_seqlens.shape[0] - 1 : op.q.shape[0];
    args.conv_activation = flags & 1 ? GDN_ACTIVATION_SILU : GDN_ACTIVATION_NONE;
    args.output_norm = flags & 2 ? 1 : 0;
    for (int i = 0; i < 3 && W > 1; i++) {
        const std::int64_t heads = i == 2 ? HV : H, channels = i == 2 ? V : K;
        call.tensor(kWeights + i) = make(GDN_DTYPE_F32, {heads, channels, W});
        if (flags & 4) {
            call.tensor(kWeights + i).strides[1] = 1;
            call.tensor(kWeights + i).strides[2] = heads * channels;
            call.tensor(kWeights + i).strides[0] = channels;
        }
        if (flags & 8) call.tensor(kBiases + i) = make(GDN_DTYPE_F32, {heads, channels});
        if (flags & 16) call.tensor(kConvInitial + i) = make(op.q.dtype, {op.initial_slots.data ? 4 : N, W - 1, heads, channels});
        if (flags & 32) call.tensor(kConvFinal + i) = make(op.q.dtype, {op.final_slots.data ? 4 : N, W - 1, heads, channels});
    }
    if (flags & 64) {
        static const gdn_dtype dtypes[] = {GDN_DTYPE_F32, GDN_DTYPE_BF16, GDN_DTYPE_F16};
        args.z = make(dtypes[in.below(3)], {op.q.shape[0], op.q.shape[1], HV, V});
        args.gate_activation = static_cast<gdn_activation>(1 + in.below(2));
    }
    if (flags & 128 && args.output_norm) args.norm_weight = make(GDN_DTYPE_F32, {V});
    if (in.below(8)) call.op.snapshots = gdn_tensor{};
}

void spoil_mixer(Bytes &in, Call &call) {
    gdn_tensor &tensor = call.tensor(kTensors + static_cast<int>(in.below(kAll - kTensors)));
    switch (in.below(10)) {
    case 0: tensor.shape[in.below(GDN_MAX_DIMS)] = in.odd_number(); break;
    case 1: tensor.strides[in.below(GDN_MAX_DIMS)] = in.odd_number(); break;
    case 2: tensor.ndim = static_cast<std::int32_t>(in.odd_number()); break;
    case 3: tensor.dtype = static_cast<gdn_dtype>(in.below(8)); break;
    case 4: tensor.data = tensor.data ? nullptr : &tensor; break;
    case 5: tensor = call.tensor(static_cast<int>(in.below(kAll))); break;
    case 6: call.mixer.conv_activation = static_cast<gdn_activation>(in.below(4)); break;
    case 7: call.mixer.gate_activation = static_cast<gdn_activation>(in.below(4)); break;
    case 8: call.mixer.output_norm = static_cast<std::int32_t>(in.below(3)); break;
    case 9: {
        const std::int64_t bits = in.odd_number();
        std::memcpy(&call.mixer.norm_eps, &bits, sizeof(float));
        break;
    }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    static gdn_context *contexts[2];
    if (!contexts[0])
        for (int i = 0; i < 2; i++) {
            gdn_context_options options;
            gdn_context_options_init(&options);
            options.num_threads = i + 1;
            require(gdn_context_create(&options, &contexts[i]) == GDN_STATUS_OK, "context");
        }

    Bytes in(data, size);
    Call call;
    gdn_args &args = call.op;
    good_arguments(in, args);
    gdn_context *context = contexts[in.below(2)];
    const bool step = in.below(2), own_workspace = in.below(2);
    const int aliases = static_cast<int>(in.below(4));
    const gdn_args good = args;
    for (int i = static_cast<int>(in.below(4)); i > 0 && in.more(); i--) spoil(in, args);
    if (in.below(2)) {
        const gdn_args spoilt = args;
        call.mixes = true;
        args = good;
        good_mixer(in, call);
        const gdn_tensor snapshots = args.snapshots;
        if (in.below(2)) {
            args = spoilt;
            args.snapshots = snapshots;
        }
        for (int i = static_cast<int>(in.below(4)); i > 0 && in.more(); i--) spoil_mixer(in, call);
    }
    const int tensors = call.tensors();

    // Inputs hold small numbers, outputs 0xFF.
    std::int64_t bytes[kAll] = {};
    bool all_fit = true, indices_fit = true;
    for (int i = 0; i < tensors; i++) {
        gdn_tensor &tensor = call.tensor(i);
        unsigned char *start = buffers()[i].data();
        if (!tensor.data) continue;
        if (!fits(tensor, &bytes[i])) {
            all_fit = false;
            if (i == kInitialSlots || i == kCu || i == kFinalSlots) indices_fit = false;
            bytes[i] = static_cast<std::int64_t>(kBytes);
        }
        tensor.data = start + kBytes - bytes[i];
        if (Call::output(i)) {
            std::memset(start, 0xFF, kBytes);
        } else if (i == kCu || i == kInitialSlots || i == kFinalSlots) {
            std::int64_t value = 0;
            const int width = element_bytes(tensor.dtype);
            for (std::int64_t at = 0; at + width <= bytes[i]; at += width) {
                // Mostly right: offsets that climb to T, slots one after the other.
                const bool last = i == kCu && at + width == bytes[i];
                if (last) value = args.q.shape[1];
                if (in.byte() == 255) value = in.odd_number();
                std::memcpy(start + kBytes - bytes[i] + at, &value, static_cast<std::size_t>(width));
                value += i == kCu ? in.below(7) : 1;
            }
        } else {
            const int width = element_bytes(tensor.dtype);
            const std::uint64_t word = width == 2 ? 0x2000 : 0x3E000000;
            for (std::int64_t at = 0; at + width <= bytes[i]; at += width)
                std::memcpy(start + kBytes - bytes[i] + at, &word, static_cast<std::size_t>(width));
        }
    }
    if (aliases == 1 && args.initial_state.data && bytes[kInitialState] == bytes[kFinalState])
        args.final_state.data = args.initial_state.data;
    if (aliases == 1 && args.initial_pending.data && bytes[kInitialPending] == bytes[kFinalPending])
        args.final_pending.data = args.initial_pending.data;
    for (int i = 0; i < 3 && aliases == 1 && call.mixes; i++)
        if (call.tensor(kConvInitial + i).data && bytes[kConvInitial + i] == bytes[kConvFinal + i])
            call.tensor(kConvFinal + i).data = call.tensor(kConvInitial + i).data;
    if (aliases == 3 && call.mixes && bytes[kZ] == bytes[kO]) args.o.data = call.mixer.z.data;
    if (aliases == 2 && bytes[kO] == bytes[kV]) args.o.data = args.v.data;
    if (!indices_fit) return 0;

    std::size_t workspace_bytes = 0;
    const gdn_status sized = call.mixes ? gdn_mixer_workspace_size(context, &call.mixer, &workspace_bytes)
                                        : gdn_workspace_size(context, &args, &workspace_bytes);
    const gdn_status supported = call.mixes ? sized : gdn_supports(context, &args);
    if (supported != GDN_STATUS_OK) require(std::strlen(gdn_last_error()) > 0, "a refusal without reason");
    if (supported == GDN_STATUS_OK) require(sized == GDN_STATUS_OK, "supported, but without a workspace size");
    if (!all_fit) return 0;

    std::uint64_t before[kAll];
    for (int i = 0; i < tensors; i++) before[i] = buffers()[i].hash();
    GuardedBuffer workspace;
    if (own_workspace && sized == GDN_STATUS_OK && workspace_bytes < (1 << 24)) workspace = GuardedBuffer(workspace_bytes, Guard::kEnd, 64);
    const std::size_t given = workspace.data() ? workspace_bytes : 0;
    const gdn_status status = call.mixes ? (step ? gdn_mixer_step : gdn_mixer_forward)(context, &call.mixer, workspace.data(), given)
                                         : (step ? gdn_step : gdn_forward)(context, &args, workspace.data(), given);
    require(workspace.slack_untouched(), "the workspace was overrun");
    // A step wants T = 1, which support does not know of.
    if (!step) require((status == GDN_STATUS_OK) == (supported == GDN_STATUS_OK), "gdn_supports and gdn_forward disagree");
    for (int i = 0; i < tensors; i++) {
        const bool output = Call::output(i), in_place = call.in_place(i);
        if (status != GDN_STATUS_OK || (!output && !in_place)) {
            require(buffers()[i].hash() == before[i], status == GDN_STATUS_OK ? "an input was written" : "a refused call has written");
        } else if (output && call.tensor(i).data) {
            const unsigned char *start = buffers()[i].data(), *end = start + kBytes - bytes[i];
            for (const unsigned char *p = start; p < end; p++) require(*p == 0xFF, "memory before an output was written");
        }
    }
    return 0;
}
