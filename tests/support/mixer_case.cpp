#include "mixer_case.h"

#include <algorithm>
#include <deque>
#include <ostream>

#include "dtype.h"
#include "random.h"

namespace gdn_test {
namespace {

using gdn_reference::MixerOperands;
using gdn_reference::MixerResult;

gdn_dtype z_dtype(const MixerCase &c) { return c.z_dtype == GDN_DTYPE_NONE ? c.op.dtype : c.z_dtype; }

std::vector<float> draw(Random &random, std::int64_t count, double low, double high, gdn_dtype dtype) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float &value : values) value = rounded(dtype, static_cast<float>(random.uniform(low, high)));
    return values;
}

// [H, K, W] values into memory of another order, and the view that reads them as [H, K, W].
HostTensor weights_in(WeightOrder order, std::int64_t H, std::int64_t K, std::int64_t W, const std::vector<float> &values, Guard guard) {
    const std::vector<std::int64_t> shape = order == WeightOrder::kChannelsInner ? std::vector<std::int64_t>{W, H, K}
                                            : order == WeightOrder::kHeadsOuter  ? std::vector<std::int64_t>{H, W, K}
                                                                                 : std::vector<std::int64_t>{H, K, W};
    HostTensor tensor(GDN_DTYPE_F32, shape, guard);
    for (std::int64_t h = 0; h < H; h++)
        for (std::int64_t c = 0; c < K; c++)
            for (std::int64_t i = 0; i < W; i++) {
                const std::int64_t at = order == WeightOrder::kChannelsInner ? (i * H + h) * K + c
                                        : order == WeightOrder::kHeadsOuter  ? (h * W + i) * K + c
                                                                             : (h * K + c) * W + i;
                store_element(GDN_DTYPE_F32, tensor.at(at), values[static_cast<std::size_t>((h * K + c) * W + i)]);
            }
    return tensor;
}

gdn_tensor weight_view(const HostTensor &tensor, WeightOrder order) {
    gdn_tensor view = tensor.view();
    if (!view.data || order == WeightOrder::kCheckpoint) return view;
    const gdn_tensor is = view;
    const int from[2][3] = {{1, 2, 0}, {0, 2, 1}};
    for (int i = 0; i < 3; i++) {
        const int d = from[order == WeightOrder::kHeadsOuter][i];
        view.shape[i] = is.shape[d];
        view.strides[i] = is.strides[d];
    }
    return view;
}

}  // namespace

std::string name(const MixerCase &c) {
    static const char *const orders[] = {"", "_headsouter", "_checkpoint"}, *const functions[] = {"none", "silu", "sigmoid"};
    std::string text = name(c.op) + "_W" + std::to_string(c.W) + orders[static_cast<int>(c.order)];
    if (c.bias) text += "_bias";
    if (c.activation != GDN_ACTIVATION_SILU) text += "_linear";
    if (!c.conv_initial) text += "_noC0";
    if (!c.conv_final) text += "_noC1";
    if (c.conv_in_place) text += "_cinplace";
    text += c.norm ? c.norm_weight ? "" : "_noweight" : "_nonorm";
    text += std::string("_") + functions[c.gate];
    if (c.z_dtype != GDN_DTYPE_NONE) text += std::string("_z") + dtype_name(c.z_dtype);
    return text;
}

void PrintTo(const MixerCase &c, std::ostream *out) { *out << name(c); }

MixerProblem::MixerProblem(const MixerCase &c) : case_(c), op_(c.op) {
    MixerOperands &x = operands_;
    x.op = op_.operands();
    Random random(c.op.seed * 7919 + static_cast<std::uint64_t>(c.W));
    const Guard guard = c.op.guard;
    const std::int64_t N = c.op.sequences(), slots = c.op.slots ? 2 * N + 1 : N;
    const std::vector<std::int64_t> padding = c.op.padded ? std::vector<std::int64_t>{11, 9, 7} : std::vector<std::int64_t>();

    gdn_mixer_args_init(&args_);
    args_.op = &op_.args();
    args_.conv_activation = x.f = c.activation;
    x.W = c.W;
    gdn_tensor gdn_mixer_args::*const weights[] = {
        &gdn_mixer_args::conv_weight_q, &gdn_mixer_args::conv_weight_k, &gdn_mixer_args::conv_weight_v};
    gdn_tensor gdn_mixer_args::*const biases[] = {&gdn_mixer_args::conv_bias_q, &gdn_mixer_args::conv_bias_k, &gdn_mixer_args::conv_bias_v};
    gdn_tensor gdn_mixer_args::*const initials[] = {
        &gdn_mixer_args::conv_initial_q, &gdn_mixer_args::conv_initial_k, &gdn_mixer_args::conv_initial_v};
    gdn_tensor gdn_mixer_args::*const finals[] = {
        &gdn_mixer_args::conv_final_q, &gdn_mixer_args::conv_final_k, &gdn_mixer_args::conv_final_v};
    for (int i = 0; i < 3 && c.W > 0; i++) {
        const std::int64_t heads = i == 2 ? c.op.HV : c.op.H, channels = i == 2 ? c.op.V : c.op.K;
        x.weight[i] = draw(random, heads * channels * c.W, -1, 1, GDN_DTYPE_F32);
        weight[i] = weights_in(c.order, heads, channels, c.W, x.weight[i], guard);
        args_.*weights[i] = weight_view(weight[i], c.order);
        if (c.bias) {
            x.bias[i] = draw(random, heads * channels, -0.5, 0.5, GDN_DTYPE_F32);
            bias[i] = HostTensor(GDN_DTYPE_F32, {heads, channels}, guard, c.op.padded ? std::vector<std::int64_t>{5} : padding);
            bias[i].fill(x.bias[i]);
            args_.*biases[i] = bias[i].view();
        }
        if (c.conv_initial) {
            x.initial[i] = draw(random, slots * (c.W - 1) * heads * channels, -1, 1, c.op.dtype);
            initial[i] = HostTensor(c.op.dtype, {slots, c.W - 1, heads, channels}, guard, padding);
            initial[i].fill(x.initial[i]);
            args_.*initials[i] = initial[i].view();
        }
        if (c.conv_final && !c.conv_in_place) final[i] = HostTensor(c.op.dtype, {slots, c.W - 1, heads, channels}, guard, padding);
        if (c.conv_final) args_.*finals[i] = final_of(i).view();
    }

    x.norm.norm = c.norm;
    x.norm.eps = c.eps;
    x.norm.gate = c.gate != GDN_ACTIVATION_NONE;
    x.norm.f = args_.gate_activation = c.gate;
    args_.output_norm = c.norm;
    args_.norm_eps = static_cast<float>(c.eps);
    if (c.norm && c.norm_weight) {
        x.norm_weight = draw(random, c.op.V, 0.5, 1.5, GDN_DTYPE_F32);
        norm_weight = HostTensor(GDN_DTYPE_F32, {c.op.V}, guard);
        norm_weight.fill(x.norm_weight);
        args_.norm_weight = norm_weight.view();
    }
    if (x.norm.gate) {
        x.z.T = x.op.T;
        x.z.heads = c.op.HV;
        x.z.channels = c.op.V;
        x.z.data = draw(random, x.op.B * x.op.T * c.op.HV * c.op.V, -4, 4, z_dtype(c));
        z = HostTensor(z_dtype(c), {x.op.B, x.op.T, c.op.HV, c.op.V}, guard, c.op.padded ? std::vector<std::int64_t>{3, 6, 2} : padding);
        z.fill(x.z.data);
        args_.z = z.view();
    }
    for (HostTensor *tensor : inputs()) input_hashes_.push_back(tensor->hash());
}

std::vector<HostTensor *> MixerProblem::inputs() {
    std::vector<HostTensor *> all = {&z, &norm_weight};
    for (int i = 0; i < 3; i++) {
        all.push_back(&weight[i]);
        all.push_back(&bias[i]);
        if (!case_.conv_in_place) all.push_back(&initial[i]);
    }
    return all;
}

void MixerProblem::reset() {
    op_.reset();
    for (int i = 0; i < 3; i++) {
        if (case_.conv_in_place && initial[i].present())
            initial[i].fill(operands_.initial[i]);
        else if (final[i].present())
            final[i].poison();
    }
}

gdn_status MixerProblem::run(const Context &context, Call call) {
    std::size_t bytes = 0;
    const gdn_status status = gdn_mixer_workspace_size(context.get(), &args_, &bytes);
    if (status != GDN_STATUS_OK) return status;
    GuardedBuffer workspace(bytes, Guard::kEnd, 64);
    const auto entry = call == Call::kStep ? gdn_mixer_step : gdn_mixer_forward;
    const gdn_status done = entry(context.get(), &args_, workspace.data(), bytes);
    EXPECT_TRUE(workspace.slack_untouched()) << "workspace of " << bytes << " bytes overrun";
    return done;
}

std::int64_t MixerProblem::final_slot(std::int64_t n) const {
    const gdn_tensor &slots = args_.op->final_slots;
    if (!slots.data) return n;
    return slots.dtype == GDN_DTYPE_I64 ? static_cast<const std::int64_t *>(slots.data)[n]
                                        : static_cast<const std::int32_t *>(slots.data)[n];
}

std::vector<unsigned char> MixerProblem::output_bits() const {
    std::vector<unsigned char> all = op_.output_bits();
    for (int i = 0; i < 3; i++) {
        if (!final_of(i).present()) continue;
        const std::vector<unsigned char> bits = final_of(i).bits();
        all.insert(all.end(), bits.begin(), bits.end());
    }
    return all;
}

::testing::AssertionResult MixerProblem::untouched() {
    static const char *const names[] = {"z", "norm_weight", "conv_weight_q", "conv_bias_q", "conv_initial_q", "conv_weight_k",
        "conv_bias_k", "conv_initial_k", "conv_weight_v", "conv_bias_v", "conv_initial_v"};
    const std::vector<HostTensor *> all = inputs();
    for (std::size_t i = 0; i < all.size(); i++)
        if (all[i]->hash() != input_hashes_[i])
            return ::testing::AssertionFailure() << (case_.conv_in_place ? "an input" : names[i]) << " was written";
    for (int i = 0; i < 3; i++)
        if (!final_of(i).padding_untouched())
            return ::testing::AssertionFailure() << "memory between or around the rows of a convolution's state was written";
    return op_.untouched();
}

::testing::AssertionResult MixerProblem::check(const MixerResult &expected, const std::string &target) {
    const ::testing::AssertionResult operators = op_.check(expected.op, target);
    if (!operators) return operators;
    const std::int64_t N = case_.op.sequences();
    for (int i = 0; i < 3 && case_.W > 0 && case_.conv_final; i++) {
        const std::int64_t size = static_cast<std::int64_t>(expected.conv_final[i][0].size()), pool = final_of(i).shape()[0];
        std::vector<float> should;  // what the whole pool holds
        for (std::int64_t slot = 0; slot < pool; slot++) {
            const std::vector<float> &before = operands_.initial[i];
            std::vector<float> row(static_cast<std::size_t>(size), bits_float(0xFFFFFFFF));
            if (case_.conv_in_place) row.assign(before.begin() + slot * size, before.begin() + (slot + 1) * size);
            for (std::int64_t n = 0; n < N; n++)
                if (final_slot(n) == slot) row = expected.conv_final[i][static_cast<std::size_t>(n)];
            should.insert(should.end(), row.begin(), row.end());
        }
        const std::vector<float> is = final_of(i).read();
        for (std::size_t at = 0; at < should.size(); at++)
            if (!(is[at] == should[at] || (std::isnan(is[at]) && std::isnan(should[at]))))
                return ::testing::AssertionFailure() << "conv_final of "
                                                     << "qkv"[i] << ", element " << at << ": " << is[at] << ", expected " << should[at];
    }
    return untouched();
}

std::shared_ptr<const MixerResult> reference_of(const MixerCase &c, const MixerProblem &problem) {
    static std::deque<std::pair<std::string, std::shared_ptr<const MixerResult>>> kept;
    const std::string key = name(c);
    for (const auto &entry : kept)
        if (entry.first == key) return entry.second;
    kept.emplace_front(key, std::make_shared<const MixerResult>(gdn_reference::run_mixer(problem.operands())));
    if (kept.size() > 4) kept.pop_back();
    return kept.front().second;
}

::testing::AssertionResult matches_reference(const MixerCase &c, const Context &context, Call call) {
    MixerProblem problem(c);
    const gdn_status status = problem.run(context, call);
    if (status != GDN_STATUS_OK)
        return ::testing::AssertionFailure() << name(c) << ": " << gdn_status_string(status) << ": " << gdn_last_error();
    return problem.check(*reference_of(c, problem), context.target());
}

}  // namespace gdn_test
