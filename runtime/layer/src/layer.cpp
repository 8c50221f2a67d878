// The layer: projections, the mixer, the output projection, a block of tokens at a time.
//
//     P = x Wi^T          Wi: every weight that x meets, [q | k | v | w | b | z or z rank | decay rank or a], rows of all outputs
//     F = P[decay rank] f1^T      Z = bias + P[z rank] g1^T
//     O = mixer(P, F, Z, state)      y = O Wo^T
#include "gdn/layer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <mutex>

#include "fail.h"
#include "projection.h"
#include "weights.h"

namespace gdn::layer {
namespace {

// Tokens of a block: enough rows for a product to earn the packing of its weights, few enough for P to stay in the last-level cache.
constexpr std::int64_t kBlock = 512;
constexpr std::int64_t kLine = 16;  // floats of a cache line

/// Tokens [start, start + length) of x, counted over all rows.
struct Sequence {
    std::int64_t start, length;
};

void check(gdn_status status) {
    if (status != GDN_STATUS_OK) fail(status, gdn_last_error());
}

gdn_tensor view(const float *data, std::initializer_list<std::int64_t> shape) { return gdn::tensor(data, shape); }
gdn_tensor view(const float *data, std::initializer_list<std::int64_t> shape, std::initializer_list<std::int64_t> strides) {
    return gdn::tensor(data, shape, strides);
}

bool overlap(const float *a, const float *b, std::int64_t count) { return std::less<>()(a, b + count) && std::less<>()(b, a + count); }

/// What one call works with, kept for the next one.
struct Workspace {
    Floats p, f, z, o, x, y;                   // a block of each; x and y only where rows are gathered
    Floats recurrent, conv_q, conv_k, conv_v;  // one sequence's state from block to block, where the caller keeps none
    std::vector<Sequence> sequences, pieces;   // of the call, of the block
    std::vector<std::int64_t> cu_seqlens;
    std::vector<std::int32_t> slots;
};

/// Consecutive pieces of sequences, in Workspace::pieces.
struct Block {
    std::int64_t first = 0, count = 0;  // sequences
    std::int64_t rows = 0;
    bool fresh = true;       // the first piece is the beginning of its sequence
    bool continued = false;  // the (only) piece is not the end of its sequence
};

/// States of a call, as tensors.
struct States {
    gdn_tensor recurrent, q, k, v;

    void read(gdn_args &op, gdn_mixer_args &mixer) const {
        op.initial_state = recurrent;
        mixer.conv_initial_q = q, mixer.conv_initial_k = k, mixer.conv_initial_v = v;
    }
    void write(gdn_args &op, gdn_mixer_args &mixer) const {
        op.final_state = recurrent;
        mixer.conv_final_q = q, mixer.conv_final_k = k, mixer.conv_final_v = v;
    }
};

}  // namespace

struct Layer::Impl {
    Impl(Context &context, const Config &config, StateDict weights);

    void run(const float *x, float *y, std::int64_t B, std::int64_t T, State *state, const Batch &batch) const;

    gdn_context *context;
    Config config;
    std::int64_t d, H, HV, K, V, W;                                                            // W: 0 without convolution
    std::int64_t keys, values;                                                                 // H K, HV V
    std::int64_t GH, GK, FR, ZR;                                                               // heads and channels of the decay; ranks
    std::int64_t at_q = -1, at_k = -1, at_v = -1, at_w = -1, at_b = -1, at_z = -1, at_f = -1;  // columns of P
    std::int64_t in_rows = 0, p_stride = 0;
    Floats in_weight, f1, g1, g1_bias, o_weight;
    Floats conv_q, conv_k, conv_v;  // [W][channels]: neighbouring channels are neighbours
    Floats bias_q, bias_k, bias_v, A_log, dt_bias, norm;

    void take(const StateDict &weights, const char *name, std::int64_t *at);

    void list_sequences(std::int64_t B, std::int64_t T, const Batch &batch, std::vector<Sequence> &list) const;
    void check_state(const State &state, std::int64_t sequences) const;
    void reserve(Workspace &work, std::int64_t rows, bool gathered, bool carried) const;

    void project(const float *x, std::int64_t rows, Workspace &work) const;
    void project_out(const float *o, std::int64_t rows, float *y) const;
    /// Every field of the two but states and cu_seqlens, for B sequences of T rows from `row` of the block.
    void fill(gdn_args &op, gdn_mixer_args &mixer, const Workspace &work, std::int64_t row, std::int64_t B, std::int64_t T) const;
    States states(const Workspace &work, State *state, std::int64_t first, std::int64_t count) const;
    void mix(Workspace &work, const Block &block, State *state) const;
    void mix_by_tokens(const Workspace &work, const Block &block, State *state) const;
    void run_block(const float *x, float *y, Workspace &work, const Block &block, State *state) const;

    /// A workspace for the length of a call.
    class Borrowed {
    public:
        explicit Borrowed(const Impl &impl);
        ~Borrowed();
        Workspace &operator*() const { return *workspace_; }

    private:
        const Impl &impl_;
        std::unique_ptr<Workspace> workspace_;
    };
    mutable std::mutex mutex;
    mutable std::vector<std::unique_ptr<Workspace>> idle;
};

Layer::Impl::Borrowed::Borrowed(const Impl &impl) : impl_(impl) {
    {
        const std::lock_guard<std::mutex> lock(impl.mutex);
        if (!impl.idle.empty()) {
            workspace_ = std::move(impl.idle.back());
            impl.idle.pop_back();
        }
    }
    if (!workspace_) workspace_ = std::make_unique<Workspace>();
}

Layer::Impl::Borrowed::~Borrowed() {
    const std::lock_guard<std::mutex> lock(impl_.mutex);
    try {
        impl_.idle.push_back(std::move(workspace_));
    } catch (const std::bad_alloc &) {  // then the next call makes its own
    }
}

// ---- construction -------------------------------------------------------------------------------------------------

namespace {

Floats copy(const Tensor &tensor) {
    Floats made(static_cast<std::int64_t>(tensor.data.size()));
    std::copy(tensor.data.begin(), tensor.data.end(), made.data());
    return made;
}

Floats copy(const StateDict &weights, const char *name) {
    const auto found = weights.find(name);
    return found == weights.end() ? Floats() : copy(found->second);
}

/// [C, 1, W] as [W][C].
Floats copy_taps(const StateDict &weights, const char *name) {
    const auto found = weights.find(name);
    if (found == weights.end()) return {};
    const std::int64_t channels = found->second.shape[0], width = found->second.shape[2];
    Floats made(channels * width);
    for (std::int64_t c = 0; c < channels; c++)
        for (std::int64_t i = 0; i < width; i++)
            made.data()[i * channels + c] = found->second.data[static_cast<std::size_t>(c * width + i)];
    return made;
}

gdn_variant variant_of(Kind kind) {
    switch (kind) {
    case Kind::kGdn: return GDN_VARIANT_GDN;
    case Kind::kKda: return GDN_VARIANT_KDA;
    case Kind::kGdn2: return GDN_VARIANT_GDN2;
    case Kind::kFg2: return GDN_VARIANT_FG2;
    case Kind::kFg2Plus: return GDN_VARIANT_FG2_PLUS;
    }
    return GDN_VARIANT_GDN;
}

gdn_activation activation_of(OutputGate gate) { return gate == OutputGate::kSilu ? GDN_ACTIVATION_SILU : GDN_ACTIVATION_SIGMOID; }

}  // namespace

/// Appends a weight [out, d] to the packed one; `at` receives its first column of P, -1 where the layer has no such weight.
void Layer::Impl::take(const StateDict &weights, const char *name, std::int64_t *at) {
    const auto found = weights.find(name);
    if (found == weights.end()) return;
    const Tensor &tensor = found->second;
    std::copy(tensor.data.begin(), tensor.data.end(), in_weight.data() + in_rows * d);
    *at = in_rows;
    in_rows += tensor.shape[0];
}

Layer::Impl::Impl(Context &the_context, const Config &the_config, StateDict weights) : context(the_context.get()), config(the_config) {
    if (!context) fail(GDN_STATUS_INVALID_ARGUMENT, "context: expected an open one, found none");
    check_weights(config, weights);
    d = config.hidden_size, H = config.num_heads, HV = config.value_heads(), K = config.key_dim(), V = config.value_dim();
    W = config.use_short_conv ? config.conv_size : 0;
    keys = H * K, values = HV * V;
    GH = decay_heads(config), GK = decay_channels(config), FR = decay_rank(config), ZR = gate_rank(config);

    // Wide weights first, so that their columns begin on cache lines.
    constexpr const char *kInput[] = {"q_proj.weight", "k_proj.weight", "v_proj.weight", "w_proj.weight", "g_proj.weight",
        "g_proj.0.weight", "f_proj.0.weight", "b_proj.weight", "a_proj.weight"};
    std::int64_t *const places[] = {&at_q, &at_k, &at_v, &at_w, &at_z, &at_z, &at_f, &at_b, &at_f};
    std::int64_t total = 0;
    for (const char *name : kInput) {
        const auto found = weights.find(name);
        total += found == weights.end() ? 0 : found->second.shape[0];
    }
    if (std::max({total + kLine, d, values}) > kMaxExtent)
        fail(GDN_STATUS_UNSUPPORTED,
            "the projections have " + std::to_string(total) + " outputs, expected at most " + std::to_string(kMaxExtent - kLine));
    in_weight = Floats(total * d);
    for (std::size_t i = 0; i < std::size(kInput); i++) {
        take(weights, kInput[i], places[i]);
        weights.erase(kInput[i]);
    }
    p_stride = (total + kLine - 1) / kLine * kLine;

    f1 = copy(weights, "f_proj.1.weight"), g1 = copy(weights, "g_proj.1.weight"), g1_bias = copy(weights, "g_proj.1.bias");
    o_weight = copy(weights, "o_proj.weight"), norm = copy(weights, "o_norm.weight");
    A_log = copy(weights, "A_log"), dt_bias = copy(weights, "dt_bias");
    conv_q = copy_taps(weights, "q_conv1d.weight"), bias_q = copy(weights, "q_conv1d.bias");
    conv_k = copy_taps(weights, "k_conv1d.weight"), bias_k = copy(weights, "k_conv1d.bias");
    conv_v = copy_taps(weights, "v_conv1d.weight"), bias_v = copy(weights, "v_conv1d.bias");

    // Whether the operator takes such heads is known now, not at the first call.
    Workspace work;
    work.p.reserve(p_stride), work.f.reserve(GH * GK), work.z.reserve(values), work.o.reserve(values);
    gdn_args op;
    gdn_mixer_args mixer;
    fill(op, mixer, work, 0, 1, 1);
    std::size_t bytes = 0;
    check(gdn_mixer_workspace_size(context, &mixer, &bytes));
}

// ---- one block ----------------------------------------------------------------------------------------------------

void Layer::Impl::project(const float *x, std::int64_t rows, Workspace &work) const {
    float *p = work.p.data();
    const Product in = {x, d, in_weight.data(), d, in_rows, p, p_stride};
    multiply(context, rows, &in, 1);

    Product seconds[2];
    int count = 0;
    if (f1.size()) seconds[count++] = {p + at_f, p_stride, f1.data(), FR, GH * GK, work.f.data(), GH * GK};
    if (g1.size()) {
        seconds[count++] = {p + at_z, p_stride, g1.data(), ZR, values, work.z.data(), values, g1_bias.size() > 0};
        if (g1_bias.size()) {
            for (std::int64_t r = 0; r < rows; r++) std::copy_n(g1_bias.data(), values, work.z.data() + r * values);
        }
    }
    if (count) multiply(context, rows, seconds, count);
}

void Layer::Impl::project_out(const float *o, std::int64_t rows, float *y) const {
    const Product out = {o, values, o_weight.data(), values, d, y, d};
    multiply(context, rows, &out, 1);
}

void Layer::Impl::fill(gdn_args &op, gdn_mixer_args &mixer, const Workspace &work, std::int64_t row, std::int64_t B, std::int64_t T) const {
    const float *p = work.p.data() + row * p_stride;
    const auto heads = [&](std::int64_t at, std::int64_t count, std::int64_t channels) {
        return view(p + at, {B, T, count, channels}, {T * p_stride, p_stride, channels, 1});
    };
    const auto dense = [&](const Floats &rows, std::int64_t count, std::int64_t channels) {
        return view(rows.data() + row * count * channels, {B, T, count, channels});
    };
    gdn_args_init(&op);
    op.variant = variant_of(config.kind);
    op.decay = config.decay == DecayGate::kSoftplus ? GDN_DECAY_SOFTPLUS : GDN_DECAY_LOWER_BOUND;
    op.lower_bound = static_cast<float>(config.lower_bound);
    op.gate = GDN_GATE_LOGIT;
    op.allow_neg_eigval = config.allow_neg_eigval;
    op.qk_l2norm = 1;
    op.q = heads(at_q, H, K), op.k = heads(at_k, H, K), op.v = heads(at_v, HV, V);
    if (config.kind == Kind::kGdn) {
        op.g = view(p + at_f, {B, T, HV}, {T * p_stride, p_stride, 1});
    } else {
        op.g = dense(work.f, GH, GK);
    }
    switch (config.kind) {
    case Kind::kGdn:
    case Kind::kKda: op.beta = view(p + at_b, {B, T, HV}, {T * p_stride, p_stride, 1}); break;
    case Kind::kGdn2: op.b = heads(at_b, H, K), op.w = heads(at_w, HV, V); break;
    case Kind::kFg2: op.beta = heads(at_b, H, K); break;
    case Kind::kFg2Plus: op.beta_k = heads(at_b, H, K), op.beta_v = heads(at_w, HV, V); break;
    }
    op.A_log = view(A_log.data(), {GH});
    op.dt_bias = GK == 1 ? view(dt_bias.data(), {GH}) : view(dt_bias.data(), {GH, GK});
    op.o = dense(work.o, HV, V);

    gdn_mixer_args_init(&mixer);
    mixer.op = &op;
    mixer.norm_eps = static_cast<float>(config.norm_eps);
    mixer.norm_weight = view(norm.data(), {V});
    if (config.output_gate != OutputGate::kNone) {
        mixer.gate_activation = activation_of(config.output_gate);
        mixer.z = g1.size() ? dense(work.z, HV, V) : heads(at_z, HV, V);
    }
    if (W) {
        const auto taps = [&](const Floats &weight, std::int64_t count, std::int64_t channels) {
            return view(weight.data(), {count, channels, W}, {channels, 1, count * channels});
        };
        mixer.conv_weight_q = taps(conv_q, H, K), mixer.conv_weight_k = taps(conv_k, H, K), mixer.conv_weight_v = taps(conv_v, HV, V);
        if (config.conv_bias) {
            mixer.conv_bias_q = view(bias_q.data(), {H, K}), mixer.conv_bias_k = view(bias_k.data(), {H, K});
            mixer.conv_bias_v = view(bias_v.data(), {HV, V});
        }
    }
}

/// `count` states from the `first`th of the caller's, or the one that the workspace carries from block to block.
States Layer::Impl::states(const Workspace &work, State *state, std::int64_t first, std::int64_t count) const {
    const auto rows = [&](std::vector<float> State::*kept, const Floats &carried, std::int64_t n, std::int64_t a, std::int64_t b,
                          std::int64_t c) {
        const float *data = state ? (state->*kept).data() + first * a * b * c : carried.data();
        return view(data, {n, a, b, c});
    };
    States made = {rows(&State::recurrent, work.recurrent, count, HV, K, V), {}, {}, {}};
    if (W) {
        made.q = rows(&State::conv_q, work.conv_q, count, W - 1, H, K), made.k = rows(&State::conv_k, work.conv_k, count, W - 1, H, K);
        made.v = rows(&State::conv_v, work.conv_v, count, W - 1, HV, V);
    }
    return made;
}

void Layer::Impl::mix(Workspace &work, const Block &block, State *state) const {
    const bool single = std::all_of(work.pieces.begin(), work.pieces.end(), [](const Sequence &piece) { return piece.length == 1; });
    gdn_args op;
    gdn_mixer_args mixer;
    if (single) {
        fill(op, mixer, work, 0, block.count, 1);
    } else {
        fill(op, mixer, work, 0, 1, block.rows);
        if (block.count > 1) {
            work.cu_seqlens.assign(1, 0);
            for (const Sequence &piece : work.pieces) work.cu_seqlens.push_back(work.cu_seqlens.back() + piece.length);
            op.cu_seqlens = gdn::tensor(work.cu_seqlens.data(), {block.count + 1});
        }
    }
    if (state) {
        const States kept = states(work, state, block.first, block.count);
        kept.read(op, mixer);
        kept.write(op, mixer);
    } else {
        const States carried = states(work, nullptr, 0, 1);
        if (!block.fresh) carried.read(op, mixer);
        if (block.continued) carried.write(op, mixer);
        if (!block.fresh && block.count > 1) {
            work.slots.assign(static_cast<std::size_t>(block.count), -1);  // the others begin from zeros
            work.slots[0] = 0;
            op.initial_slots = gdn::tensor(work.slots.data(), {block.count});
        }
    }
    check(single ? gdn_mixer_step(context, &mixer, nullptr, 0) : gdn_mixer_forward(context, &mixer, nullptr, 0));
}

namespace {

/// Group `i` of `count` groups of neighbouring heads, of every tensor of a call.
void take_heads(gdn_args &op, gdn_mixer_args &mixer, std::int64_t i, std::int64_t count) {
    const auto narrow = [&](gdn_tensor &tensor, int dim) {
        if (!tensor.data) return;
        tensor.shape[dim] /= count;
        tensor.data = static_cast<float *>(tensor.data) + i * tensor.shape[dim] * tensor.strides[dim];
    };
    for (gdn_tensor *tensor :
        {&op.q, &op.k, &op.v, &op.g, &op.beta, &op.b, &op.w, &op.beta_k, &op.beta_v, &op.o, &mixer.z, &mixer.conv_initial_q,
            &mixer.conv_initial_k, &mixer.conv_initial_v, &mixer.conv_final_q, &mixer.conv_final_k, &mixer.conv_final_v}) {
        narrow(*tensor, 2);
    }
    for (gdn_tensor *tensor : {&op.initial_state, &op.final_state}) narrow(*tensor, 1);
    for (gdn_tensor *tensor : {&op.A_log, &op.dt_bias, &mixer.conv_weight_q, &mixer.conv_weight_k, &mixer.conv_weight_v, &mixer.conv_bias_q,
             &mixer.conv_bias_k, &mixer.conv_bias_v}) {
        narrow(*tensor, 0);
    }
}

/// The same call of one token, one token on.
void next_token(gdn_args &op, gdn_mixer_args &mixer) {
    for (gdn_tensor *tensor : {&op.q, &op.k, &op.v, &op.g, &op.beta, &op.b, &op.w, &op.beta_k, &op.beta_v, &op.o, &mixer.z}) {
        if (tensor->data) tensor->data = static_cast<float *>(tensor->data) + tensor->strides[1];
    }
}

/// The states that a call leaves are those that it begins with from now on.
void go_on(gdn_args &op, gdn_mixer_args &mixer) {
    op.initial_state = op.final_state;
    mixer.conv_initial_q = mixer.conv_final_q, mixer.conv_initial_k = mixer.conv_final_k, mixer.conv_initial_v = mixer.conv_final_v;
}

/// Runs body(i) for i in [0, n) on the context's threads; the first exception comes back to the caller.
template <typename Body> void run_parts(gdn_context *context, std::int64_t n, const Body &body) {
    struct Call {
        const Body &body;
        std::mutex mutex;
        std::exception_ptr failure;
    } call = {body, {}, nullptr};
    const auto part = [](void *arg, std::int64_t i) {
        Call &made = *static_cast<Call *>(arg);
        try {
            made.body(i);
        } catch (...) {
            const std::lock_guard<std::mutex> lock(made.mutex);
            if (!made.failure) made.failure = std::current_exception();
        }
    };
    check(gdn_context_run(context, n, part, &call));
    if (call.failure) std::rethrow_exception(call.failure);
}

}  // namespace

void Layer::Impl::mix_by_tokens(const Workspace &work, const Block &block, State *state) const {
    // Heads need nothing of each other: a group of them goes through all tokens before the next group does, so that its state stays in cache
    // and threads meet once a block. Fewer heads than four would not be worth a call a token.
    constexpr std::int64_t kFewest = 4;
    std::int64_t groups = H;
    while (groups > 1 && (H % groups || HV / groups < kFewest)) groups--;
    run_parts(context, groups, [&](std::int64_t group) {
        gdn_args op;
        gdn_mixer_args mixer;
        std::int64_t row = 0;
        for (std::int64_t n = 0; n < block.count; n++) {  // sequence after sequence: its state stays in cache from token to token
            const States one = states(work, state, block.first + n, 1);
            const std::int64_t length = work.pieces[static_cast<std::size_t>(n)].length;
            const bool known = state || (n == 0 && !block.fresh);
            fill(op, mixer, work, row, 1, 1);
            if (known) one.read(op, mixer);
            one.write(op, mixer);
            if (groups > 1) take_heads(op, mixer, group, groups);
            for (std::int64_t t = 0; t < length; t++) {
                check(gdn_mixer_step(context, &mixer, nullptr, 0));
                next_token(op, mixer);
                if (t == 0) go_on(op, mixer);
            }
            row += length;
        }
    });
}

// ---- a call -------------------------------------------------------------------------------------------------------

void Layer::Impl::list_sequences(std::int64_t B, std::int64_t T, const Batch &batch, std::vector<Sequence> &list) const {
    const auto number = [](std::int64_t n) { return std::to_string(n); };
    if (B < 0) fail_field("B", "0 or more", number(B));
    if (T < 0) fail_field("T", "0 or more", number(T));
    std::int64_t floats;
    if (__builtin_mul_overflow(B, T, &floats) || __builtin_mul_overflow(floats, d * static_cast<std::int64_t>(sizeof(float)), &floats))
        fail_field("B, T", "tokens that fit memory", number(B) + ", " + number(T));
    list.clear();
    if (batch.cu_seqlens) {
        if (B != 1) fail_field("B", "1 with cu_seqlens", number(B));
        if (batch.sequences < 0) fail_field("batch.sequences", "0 or more", number(batch.sequences));
        if (batch.mask) fail_field("batch.mask", "none with cu_seqlens", "one");
        const std::int64_t *cu = batch.cu_seqlens;
        if (cu[0] != 0) fail_field("batch.cu_seqlens[0]", "0", number(cu[0]));
        for (std::int64_t n = 0; n < batch.sequences; n++) {
            if (cu[n + 1] < cu[n]) fail_field("batch.cu_seqlens[" + number(n + 1) + "]", number(cu[n]) + " or more", number(cu[n + 1]));
            list.push_back({cu[n], cu[n + 1] - cu[n]});
        }
        if (cu[batch.sequences] != T)
            fail_field("batch.cu_seqlens[" + number(batch.sequences) + "]", "T = " + number(T), number(cu[batch.sequences]));
        return;
    }
    if (batch.sequences != 0 && batch.sequences != B)
        fail_field("batch.sequences", "B = " + number(B) + " (or 0) without cu_seqlens", number(batch.sequences));
    for (std::int64_t b = 0; b < B; b++) {
        std::int64_t padding = 0;
        if (batch.mask) {
            const std::uint8_t *mask = batch.mask + b * T;
            while (padding < T && !mask[padding]) padding++;
            for (std::int64_t t = padding; t < T; t++) {
                if (!mask[t]) fail_field("batch.mask[" + number(b) + ", " + number(t) + "]", "1: padding is on the left", "0");
            }
        }
        list.push_back({b * T + padding, T - padding});
    }
}

void Layer::Impl::check_state(const State &state, std::int64_t sequences) const {
    const auto number = [](std::int64_t n) { return std::to_string(n); };
    if (state.sequences != sequences) fail_field("state.sequences", number(sequences) + ", one state a sequence", number(state.sequences));
    const auto size = [&](const char *name, const std::vector<float> &values_of, std::int64_t each, const std::string &shape) {
        const auto found = static_cast<std::int64_t>(values_of.size());
        if (found != sequences * each)
            fail_field(std::string("state.") + name, number(sequences * each) + " values " + shape, number(found));
    };
    size("recurrent", state.recurrent, HV * K * V, text_of({sequences, HV, K, V}));
    const std::int64_t past = W ? W - 1 : 0;
    size("conv_q", state.conv_q, past * keys, text_of({sequences, past, keys}));
    size("conv_k", state.conv_k, past * keys, text_of({sequences, past, keys}));
    size("conv_v", state.conv_v, past * values, text_of({sequences, past, values}));
}

void Layer::Impl::reserve(Workspace &work, std::int64_t rows, bool gathered, bool carried) const {
    work.p.reserve(rows * p_stride);
    if (f1.size()) work.f.reserve(rows * GH * GK);
    if (g1.size()) work.z.reserve(rows * values);
    work.o.reserve(rows * values);
    if (gathered) work.x.reserve(rows * d), work.y.reserve(rows * d);
    if (carried) {
        const std::int64_t past = W ? W - 1 : 0;
        work.recurrent.reserve(HV * K * V);
        work.conv_q.reserve(past * keys), work.conv_k.reserve(past * keys), work.conv_v.reserve(past * values);
    }
}

void Layer::Impl::run_block(const float *x, float *y, Workspace &work, const Block &block, State *state) const {
    // Rows of one piece follow those of the one before, unless padding lies between.
    std::int64_t first = -1, next = -1;
    bool gathered = false;
    for (const Sequence &piece : work.pieces) {
        if (!piece.length) continue;
        if (first < 0) first = next = piece.start;
        gathered = gathered || piece.start != next;
        next = piece.start + piece.length;
    }
    const auto each = [&](auto body) {
        std::int64_t row = 0;
        for (const Sequence &piece : work.pieces) {
            if (piece.length) body(row * d, piece.start * d, piece.length * d);
            row += piece.length;
        }
    };
    if (gathered) each([&](std::int64_t row, std::int64_t at, std::int64_t count) { std::copy_n(x + at, count, work.x.data() + row); });
    project(gathered ? work.x.data() : x + first * d, block.rows, work);
    if (config.mode == Mode::kFusedRecurrent)
        mix_by_tokens(work, block, state);
    else
        mix(work, block, state);
    project_out(work.o.data(), block.rows, gathered ? work.y.data() : y + first * d);
    if (gathered) each([&](std::int64_t row, std::int64_t at, std::int64_t count) { std::copy_n(work.y.data() + row, count, y + at); });
}

void Layer::Impl::run(const float *x, float *y, std::int64_t B, std::int64_t T, State *state, const Batch &batch) const {
    const Borrowed borrowed(*this);
    Workspace &work = *borrowed;
    std::vector<Sequence> &sequences = work.sequences;
    list_sequences(B, T, batch, sequences);
    const auto N = static_cast<std::int64_t>(sequences.size());
    if (state) check_state(*state, N);
    if (B * T == 0) return;
    if (!x) fail_field("x", "[B, T, hidden_size]", "NULL");
    if (!y) fail_field("y", "[B, T, hidden_size]", "NULL");
    if (overlap(x, y, B * T * d)) fail_field("y", "memory apart from x", "memory that overlaps it");

    std::int64_t tokens = 0;
    bool carries = false;
    for (const Sequence &sequence : sequences) {
        tokens += sequence.length;
        carries = carries || sequence.length > kBlock;
    }
    reserve(work, std::min(tokens, kBlock), batch.mask, !state && (carries || config.mode == Mode::kFusedRecurrent));

    Block block;
    std::vector<Sequence> &pieces = work.pieces;
    pieces.clear();
    const auto flush = [&] {
        if (block.rows) run_block(x, y, work, block, state);
        block = {block.first + block.count, 0, 0, true, false};
        pieces.clear();
    };
    for (std::int64_t n = 0; n < N; n++) {
        const Sequence sequence = sequences[static_cast<std::size_t>(n)];
        // Cut at multiples of kBlock from the sequence's own start; a piece that does not fit begins a block.
        std::int64_t done = 0;
        do {
            const std::int64_t length = std::min(sequence.length - done, kBlock);
            const bool more = done + length < sequence.length;
            if (block.rows + length > kBlock || more) flush();
            if (!block.count) block.first = n, block.fresh = done == 0;
            block.count++, block.rows += length;
            pieces.push_back({sequence.start + done, length});
            if (more) {
                block.continued = true;
                flush();
            }
            done += length;
        } while (done < sequence.length);
    }
    flush();
    if (batch.mask) {
        for (std::int64_t b = 0; b < B; b++) std::fill(y + b * T * d, y + sequences[static_cast<std::size_t>(b)].start * d, 0.0f);
    }
}

// ---- the public face ----------------------------------------------------------------------------------------------

namespace {

template <typename Body> auto with_memory(Body body) {
    try {
        return body();
    } catch (const std::bad_alloc &) {
        fail(GDN_STATUS_OUT_OF_MEMORY, "the layer: out of memory");
    }
}

double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
double softplus(double x) { return x > 20 ? x : std::log1p(std::exp(x)); }

}  // namespace

Layer::Layer(Context &context, const Config &config, StateDict weights)
    : impl_(with_memory([&] { return std::make_unique<Impl>(context, config, std::move(weights)); })) {}
Layer::~Layer() = default;
Layer::Layer(Layer &&) noexcept = default;
Layer &Layer::operator=(Layer &&) noexcept = default;

const Config &Layer::config() const { return impl_->config; }

State Layer::make_state(std::int64_t sequences) const {
    if (sequences < 0) fail_field("sequences", "0 or more", std::to_string(sequences));
    const Impl &l = *impl_;
    const auto zeros = [&](std::int64_t each) { return std::vector<float>(static_cast<std::size_t>(sequences * each)); };
    return with_memory([&] {
        State state;
        state.sequences = sequences;
        state.recurrent = zeros(l.HV * l.K * l.V);
        if (l.W)
            state.conv_q = zeros((l.W - 1) * l.keys), state.conv_k = zeros((l.W - 1) * l.keys), state.conv_v = zeros((l.W - 1) * l.values);
        return state;
    });
}

void Layer::forward_train(const float *x, float *y, std::int64_t B, std::int64_t T, const Batch &batch) const {
    with_memory([&] { impl_->run(x, y, B, T, nullptr, batch); });
}

void Layer::forward(const float *x, float *y, std::int64_t B, std::int64_t T, State &state, const Batch &batch) const {
    with_memory([&] { impl_->run(x, y, B, T, &state, batch); });
}

std::map<std::string, Tensor> Layer::dump(const float *x, std::int64_t B, std::int64_t T) const {
    const Impl &l = *impl_;
    return with_memory([&] {
        Workspace work;
        l.list_sequences(B, T, {}, work.sequences);
        const std::int64_t rows = B * T;
        if (rows && !x) fail_field("x", "[B, T, hidden_size]", "NULL");
        std::map<std::string, Tensor> out;
        if (!rows) return out;
        l.reserve(work, rows, false, false);
        l.project(x, rows, work);

        // columns [at, at + heads * channels) of P, or of F, through `map(value, head, channel)`
        const auto put = [&](const char *name, const float *from, std::int64_t stride, std::int64_t heads, std::int64_t channels,
                             auto map) {
            Tensor tensor = {{B, T, heads, channels}, std::vector<float>(static_cast<std::size_t>(rows * heads * channels))};
            for (std::int64_t r = 0, i = 0; r < rows; r++)
                for (std::int64_t c = 0; c < heads * channels; c++, i++)
                    tensor.data[static_cast<std::size_t>(i)] = static_cast<float>(map(from + r * stride, r % T, c));
            out.emplace(name, std::move(tensor));
        };
        const float *p = work.p.data();
        const auto activated = [&](const char *name, std::int64_t at, std::int64_t heads, std::int64_t channels, const Floats &taps,
                                   const Floats &bias) {
            put(name, p + at, l.p_stride, heads, channels, [&](const float *row, std::int64_t t, std::int64_t c) {
                double sum = l.W ? 0.0 : row[c];
                for (std::int64_t i = 0; i < l.W; i++) {
                    const std::int64_t back = l.W - 1 - i;
                    if (back <= t) sum += static_cast<double>(taps.data()[i * heads * channels + c]) * row[c - back * l.p_stride];
                }
                if (bias.size()) sum += bias.data()[c];
                return sum * sigmoid(sum);
            });
        };
        activated("q", l.at_q, l.H, l.K, l.conv_q, l.bias_q);
        activated("k", l.at_k, l.H, l.K, l.conv_k, l.bias_k);
        activated("v", l.at_v, l.HV, l.V, l.conv_v, l.bias_v);

        const bool in_p = l.config.kind == Kind::kGdn;
        put("g", in_p ? p + l.at_f : work.f.data(), in_p ? l.p_stride : l.GH * l.GK, l.GH, l.GK,
            [&](const float *row, std::int64_t, std::int64_t c) {
                const double logit = static_cast<double>(row[c]) + l.dt_bias.data()[c],
                             A = std::exp(static_cast<double>(l.A_log.data()[c / l.GK]));
                return l.config.decay == DecayGate::kSoftplus ? -A * softplus(logit) : l.config.lower_bound * sigmoid(A * logit);
            });
        const auto gate = [&](const char *name, std::int64_t at, std::int64_t heads, std::int64_t channels, bool twice) {
            put(name, p + at, l.p_stride, heads, channels,
                [&](const float *row, std::int64_t, std::int64_t c) { return (twice ? 2 : 1) * sigmoid(row[c]); });
        };
        const bool twice = l.config.allow_neg_eigval;
        switch (l.config.kind) {
        case Kind::kGdn:
        case Kind::kKda: gate("beta", l.at_b, l.HV, 1, twice); break;
        case Kind::kGdn2: gate("b", l.at_b, l.H, l.K, twice), gate("w", l.at_w, l.HV, l.V, false); break;
        case Kind::kFg2: gate("beta", l.at_b, l.H, l.K, false); break;
        case Kind::kFg2Plus: gate("beta_k", l.at_b, l.H, l.K, false), gate("beta_v", l.at_w, l.HV, l.V, false); break;
        }

        gdn_args op;
        gdn_mixer_args mixer;
        l.fill(op, mixer, work, 0, B, T);
        mixer.output_norm = 0;
        mixer.gate_activation = GDN_ACTIVATION_NONE;
        mixer.z = mixer.norm_weight = {};
        check(gdn_mixer_forward(l.context, &mixer, nullptr, 0));
        put("o", work.o.data(), l.values, l.HV, l.V, [](const float *row, std::int64_t, std::int64_t c) { return row[c]; });
        return out;
    });
}

}  // namespace gdn::layer
