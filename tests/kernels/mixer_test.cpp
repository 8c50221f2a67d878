// The mixer against its parts in double: every variant, kinds of everything around the operator, splits, slots, views, company, NaN (G12).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "../support/dtype.h"
#include "../support/grid.h"
#include "../support/mixer_case.h"

namespace gdn_test {
namespace {

struct MixerRun {
    std::string target;
    MixerCase c;
    friend void PrintTo(const MixerRun &run, std::ostream *out) { *out << run.target << " " << name(run.c); }
};

std::vector<MixerRun> on_targets(std::vector<MixerCase> cases, std::size_t stride) {
    std::vector<MixerRun> runs;
    for (std::size_t i = 0; i < cases.size(); i += small_budget() ? stride : 1)
        for (const std::string &target : targets(cases[i].op.precision)) runs.push_back({target, cases[i]});
    return runs;
}

std::string run_name(const ::testing::TestParamInfo<MixerRun> &info) {
    return std::to_string(info.index) + "_" + info.param.target + "_" + name(info.param.c);
}

// Key heads, value heads to each.
constexpr std::int64_t kGroups[][2] = {{2, 1}, {2, 2}, {3, 3}, {1, 3}, {4, 2}, {1, 1}};
constexpr gdn_activation kGates[] = {GDN_ACTIVATION_SILU, GDN_ACTIVATION_SIGMOID, GDN_ACTIVATION_NONE};

MixerCase mixed(int i, gdn_variant variant, Size size) {
    MixerCase m;
    Case &c = m.op;
    c.variant = variant;
    c.K = size.K;
    c.V = variant == GDN_VARIANT_FG2 ? size.K : size.V;
    c.l2norm = true;
    c.seed = static_cast<std::uint64_t>(i) + 1;
    c.H = kGroups[i % 6][0];
    c.HV = c.H * kGroups[i % 6][1];
    c.head_map = i % 4 == 1 ? GDN_HEAD_MAP_MODULO : GDN_HEAD_MAP_DIVIDE;
    c.gates_per_value_head = i % 3 == 1;
    c.dtype = kDtypes[i % 3];
    c.gate_dtype = i % 4 == 2 ? GDN_DTYPE_F32 : GDN_DTYPE_NONE;
    c.gate = i % 2 ? GDN_GATE_LOGIT : GDN_GATE_VALUE;
    c.decay = i % 2 ? GDN_DECAY_SOFTPLUS : GDN_DECAY_LOG;
    c.initial = i % 5 != 3;
    c.final = i % 7 != 6;
    c.padded = i % 4 == 3;
    c.v_first = i % 6 == 2;
    c.in_place = c.initial && c.final && i % 3 == 2;
    c.guard = i % 2 ? Guard::kEnd : Guard::kBegin;
    m.W = 2 + (i * 3 + 2) % 7;
    m.bias = i % 3 == 1;
    m.order = static_cast<WeightOrder>(i % 3);
    m.activation = i % 5 == 4 ? GDN_ACTIVATION_NONE : GDN_ACTIVATION_SILU;
    m.conv_initial = i % 4 != 2;
    m.conv_final = i % 8 != 5;
    m.conv_in_place = m.conv_initial && m.conv_final && i % 3 == 0;
    m.norm = i % 6 != 4;
    m.norm_weight = m.norm && i % 4 != 0;
    m.gate = kGates[i % 3];
    m.z_dtype = i % 4 == 1 ? kDtypes[(i + 1) % 3] : GDN_DTYPE_NONE;
    return m;
}

std::vector<MixerCase> grid() {
    std::vector<MixerCase> cases;
    const std::vector<std::int64_t> lengths[] = {{21}, {3, 3}, {40}, {1, 1}, {2}, {75}, {33, 33}, {8}};
    int i = 0;
    for (const Size &size : {Size{64, 64}, Size{128, 128}, Size{48, 80}, Size{8, 24}, Size{128, 256}})
        for (gdn_variant variant : kVariants) {
            MixerCase m = mixed(i, variant, size);
            m.op.lengths = lengths[(i + i / 8) % 8];
            cases.push_back(m);
            i++;
        }
    // Packed, with sequences of one token, none, fewer than the window, many.
    for (gdn_variant variant : kVariants) {
        MixerCase m = mixed(i, variant, {64, 64});
        m.op.packed = true;
        m.op.lengths = {5, 0, 1, 2, 37, 1, 0, 16};
        m.op.slots = m.op.initial && m.op.final;
        cases.push_back(m);
        i++;
    }
    // Every width, with sequences shorter than the window.
    for (std::int64_t W = 2; W <= 8; W++)
        for (std::int64_t T : {W - 2, W - 1, W, std::int64_t{19}}) {
            MixerCase m = mixed(i++, GDN_VARIANT_GDN, {48, 64});
            m.W = W;
            m.op.lengths = {T, T};
            cases.push_back(m);
        }
    // No convolution, with and without activation.
    for (gdn_activation activation : {GDN_ACTIVATION_NONE, GDN_ACTIVATION_SILU})
        for (gdn_dtype dtype : kDtypes)
            for (std::int64_t T : {1, 27}) {
                MixerCase m = mixed(i++, GDN_VARIANT_KDA, {64, 64});
                m.W = 0;
                m.activation = activation;
                m.op.dtype = dtype;
                m.op.lengths = {T, T};
                m.bias = m.conv_initial = m.conv_final = m.conv_in_place = false;
                cases.push_back(m);
            }
    for (std::size_t at = 0; at < cases.size(); at++) {
        Case &c = cases[at].op;
        if (c.variant == GDN_VARIANT_GLA) c.gate = GDN_GATE_VALUE;
        if (!c.final) c.in_place = c.slots = false;
    }
    return cases;
}

class Mixer : public ::testing::TestWithParam<MixerRun> {};

TEST_P(Mixer, IsItsParts) {
    const MixerCase &c = GetParam().c;
    EXPECT_TRUE(matches_reference(c, Context(GetParam().target)));
    EXPECT_TRUE(matches_reference(c, Context(GetParam().target, 3)));
    if (c.op.total() == 1 && !c.op.packed) {
        EXPECT_TRUE(matches_reference(c, Context(GetParam().target), Call::kStep));
    }
}

INSTANTIATE_TEST_SUITE_P(Grid, Mixer, ::testing::ValuesIn(on_targets(grid(), 5)), run_name);

// A decode step: many heads, in place and not, V-first, packed in a batch of sequences, weights in every order.
std::vector<MixerCase> steps() {
    std::vector<MixerCase> cases;
    int i = 0;
    for (const auto &heads : {std::pair<std::int64_t, std::int64_t>{16, 16}, {16, 32}, {3, 9}, {20, 20}, {1, 20}, {10, 20}})
        for (gdn_variant variant : {GDN_VARIANT_GDN, GDN_VARIANT_KDA, GDN_VARIANT_GDN2}) {
            MixerCase m = mixed(i, variant, i % 5 ? Size{64, 64} : Size{128, 128});
            m.op.H = heads.first;
            m.op.HV = heads.second;
            m.op.lengths = {1, 1, 1};
            m.op.slots = m.op.initial && m.op.final && i % 2 == 0;
            m.op.head_map = i % 3 == 1 ? GDN_HEAD_MAP_MODULO : GDN_HEAD_MAP_DIVIDE;
            if (i % 3) m.W = 4;
            if (i % 4 == 3) m.op.packed = true;
            cases.push_back(m);
            i++;
        }
    return cases;
}

class MixerStep : public ::testing::TestWithParam<MixerRun> {};

TEST_P(MixerStep, IsItsPartsAndTheForwardsBits) {
    const MixerCase &c = GetParam().c;
    for (int threads : {1, 2}) {
        const Context context(GetParam().target, threads);
        MixerProblem step(c), forward(c);
        ASSERT_EQ(step.run(context, Call::kStep), GDN_STATUS_OK) << gdn_last_error();
        EXPECT_TRUE(step.check(*reference_of(c, step), GetParam().target));
        ASSERT_EQ(forward.run(context), GDN_STATUS_OK) << gdn_last_error();
        EXPECT_TRUE(step.output_bits() == forward.output_bits());
    }
}

INSTANTIATE_TEST_SUITE_P(All, MixerStep, ::testing::ValuesIn(on_targets(steps(), 3)), run_name);

gdn_mixer_args mixer_slice(gdn_mixer_args args, gdn_args *op, std::int64_t first, std::int64_t count) {
    *op = time_slice(*op, first, count);
    args.op = op;
    narrow(args.z, 1, first, count);
    return args;
}

// G12: pieces equal one call, output and stored states.
TEST(MixerSplits, PiecesEqualOneCall) {
    for (const std::string &target : targets())
        for (const auto &pieces : {std::vector<std::int64_t>{1, 1, 2, 5, 3}, {5, 3, 1, 7}, {1, 1, 1, 1, 1, 1}, {64, 1, 9}})
            for (gdn_dtype dtype : kDtypes)
                for (std::int64_t W : {4, 7}) {
                    MixerCase m;
                    m.op.variant = W == 4 ? GDN_VARIANT_GDN2 : GDN_VARIANT_GDN;
                    m.op.H = 2;
                    m.op.HV = 4;
                    m.op.l2norm = true;
                    m.op.dtype = dtype;
                    m.op.in_place = m.conv_in_place = true;
                    m.W = W;
                    std::int64_t total = 0, at = 0;
                    for (std::int64_t piece : pieces) total += piece;
                    m.op.lengths = {total};
                    MixerProblem whole(m), split(m);
                    const Context context(target);
                    ASSERT_EQ(whole.run(context), GDN_STATUS_OK) << gdn_last_error();
                    for (std::int64_t piece : pieces) {
                        gdn_args op = split.op().args();
                        const gdn_mixer_args args = mixer_slice(split.args(), &op, at, piece);
                        ASSERT_EQ((piece == 1 ? gdn_mixer_step : gdn_mixer_forward)(context.get(), &args, nullptr, 0), GDN_STATUS_OK)
                            << gdn_last_error();
                        at += piece;
                    }
                    EXPECT_TRUE(split.check(*reference_of(m, split), target)) << target;
                    EXPECT_TRUE(whole.check(*reference_of(m, whole), target)) << target;
                    for (int i = 0; i < 3; i++) EXPECT_TRUE(whole.final_of(i).bits() == split.final_of(i).bits());
                }
}

// R102: a sequence shorter than the window reads slot 2 and writes slot 5; slot 2 keeps its bits, in every pool.
TEST(MixerSlots, TheSourceIsNotWritten) {
    for (const std::string &target : targets())
        for (std::int64_t T : {1, 2, 3, 30}) {
            MixerCase m;
            m.op.lengths = {T};
            m.op.H = 2;
            m.op.HV = 4;
            m.op.initial = false;
            m.op.final = false;
            m.conv_initial = m.conv_final = false;
            MixerProblem problem(m);
            const std::int64_t slots = 6, K = m.op.K, V = m.op.V;
            HostTensor states(GDN_DTYPE_F32, {slots, 4, K, V});
            HostTensor conv[3] = {HostTensor(GDN_DTYPE_F32, {slots, 3, 2, K}), HostTensor(GDN_DTYPE_F32, {slots, 3, 2, K}),
                HostTensor(GDN_DTYPE_F32, {slots, 3, 4, V})};
            HostTensor from(GDN_DTYPE_I32, {1}), to(GDN_DTYPE_I32, {1});
            from.fill_integers({2});
            to.fill_integers({5});
            for (HostTensor *tensor : {&states, &conv[0], &conv[1], &conv[2]}) {
                std::vector<float> values(static_cast<std::size_t>(tensor->elements()));
                for (std::size_t i = 0; i < values.size(); i++) values[i] = 0.01f * static_cast<float>(i % 37);
                tensor->fill(values);
            }
            gdn_args &op = problem.op().args();
            op.initial_state = op.final_state = states.view();
            op.initial_slots = from.view();
            op.final_slots = to.view();
            gdn_mixer_args &args = problem.args();
            args.conv_initial_q = args.conv_final_q = conv[0].view();
            args.conv_initial_k = args.conv_final_k = conv[1].view();
            args.conv_initial_v = args.conv_final_v = conv[2].view();
            const std::vector<unsigned char> before[] = {states.bits(), conv[0].bits(), conv[1].bits(), conv[2].bits()};
            ASSERT_EQ(gdn_mixer_forward(Context(target).get(), &args, nullptr, 0), GDN_STATUS_OK) << gdn_last_error();
            int which = 0;
            for (HostTensor *tensor : {&states, &conv[0], &conv[1], &conv[2]}) {
                const std::vector<unsigned char> after = tensor->bits();
                const std::size_t slot = after.size() / slots;
                EXPECT_TRUE(std::equal(after.begin(), after.begin() + static_cast<std::ptrdiff_t>(5 * slot), before[which].begin()))
                    << target << ", T = " << T << ": a slot other than 5 was written";
                EXPECT_FALSE(std::equal(after.begin() + static_cast<std::ptrdiff_t>(5 * slot), after.end(),
                    before[which].begin() + static_cast<std::ptrdiff_t>(5 * slot)))
                    << "slot 5 was not written";
                which++;
            }
            // The kept inputs: what is still in the window of the old state, then the new tokens.
            const std::vector<float> rows = conv[0].read(), q = problem.op().q.read();
            const std::size_t row = static_cast<std::size_t>(2 * K);
            for (std::int64_t j = 0; j < 3; j++) {
                const std::int64_t t = T - 3 + j;
                const float *expected =
                    t < 0 ? &rows[(2 * 3 + static_cast<std::size_t>(t + 3)) * row] : &q[static_cast<std::size_t>(t) * row];
                EXPECT_TRUE(std::equal(expected, expected + row, &rows[(5 * 3 + static_cast<std::size_t>(j)) * row])) << T << " " << j;
            }
        }
}

/// The problem's q, k, v as slices of one tensor [B, T, channels of all].
struct Fused {
    Fused(MixerProblem &problem, gdn_args *op) {
        const Case &c = problem.what().op;
        const std::int64_t row = 2 * c.H * c.K + c.HV * c.V, B = op->q.shape[0], T = op->q.shape[1];
        memory = HostTensor(c.dtype, {B, T, row});
        std::int64_t at = 0;
        for (auto [view, tensor] :
            {std::pair<gdn_tensor *, HostTensor *>{&op->q, &problem.op().q}, {&op->k, &problem.op().k}, {&op->v, &problem.op().v}}) {
            const std::int64_t width = view->shape[2] * view->shape[3];
            for (std::int64_t i = 0; i < B * T * width; i++)
                std::memcpy(memory.at(i / width * row + at + i % width), tensor->at(i), dtype_bytes(c.dtype));
            view->data = memory.at(at);
            view->strides[1] = row;
            view->strides[0] = row * T;
            view->strides[2] = view->shape[3];
            at += width;
        }
    }
    HostTensor memory;
};

// R112: slices of a fused projection are read where they are, to the same bits; so are weights in any order.
TEST(MixerViews, FusedProjectionAndWeightOrders) {
    for (const std::string &target : targets())
        for (std::int64_t T : {1, 2, 45}) {
            MixerCase m;
            m.op.variant = GDN_VARIANT_GDN;
            m.op.H = 2;
            m.op.HV = 6;
            m.op.lengths = {T, T};
            m.op.l2norm = true;
            m.bias = true;
            const Context context(target);
            MixerProblem plain(m);
            ASSERT_EQ(plain.run(context), GDN_STATUS_OK) << gdn_last_error();
            MixerProblem views(m);
            const Fused fused(views, &views.op().args());
            ASSERT_EQ(views.run(context), GDN_STATUS_OK) << gdn_last_error();
            EXPECT_TRUE(plain.output_bits() == views.output_bits()) << target << ", T = " << T;
            for (WeightOrder order : {WeightOrder::kHeadsOuter, WeightOrder::kCheckpoint}) {
                MixerCase other = m;
                other.order = order;
                MixerProblem ordered(other);
                ASSERT_EQ(ordered.run(context), GDN_STATUS_OK) << gdn_last_error();
                EXPECT_TRUE(plain.output_bits() == ordered.output_bits()) << target << ", T = " << T;
            }
        }
}

std::vector<MixerCase> companies() {
    std::vector<MixerCase> cases;
    int i = 3;
    for (gdn_variant variant : {GDN_VARIANT_GDN, GDN_VARIANT_KDA, GDN_VARIANT_GDN2, GDN_VARIANT_FG2_PLUS})
        for (std::int64_t T : {1, 4, 43, 100}) {
            MixerCase m = mixed(i++, variant, {64, 64});
            m.op.lengths = {T, T, T};
            m.op.H = 2;
            m.op.HV = i % 2 ? 4 : 2;
            m.op.head_map = GDN_HEAD_MAP_DIVIDE;
            m.op.in_place = m.conv_in_place = false;
            m.op.final = m.op.initial = true;
            cases.push_back(m);
        }
    return cases;
}

class MixerInvariance : public ::testing::TestWithParam<MixerRun> {};

TEST_P(MixerInvariance, Threads) {
    const MixerCase &c = GetParam().c;
    MixerProblem problem(c);
    ASSERT_EQ(problem.run(Context(GetParam().target, 1)), GDN_STATUS_OK) << gdn_last_error();
    const std::vector<unsigned char> whole = problem.output_bits();
    const auto same = [&](const Context &context) {
        problem.reset();
        if (problem.run(context) != GDN_STATUS_OK) return ::testing::AssertionFailure() << gdn_last_error();
        return problem.output_bits() == whole ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << "other bits";
    };
    for (int threads : {1, 2, 5, 16}) EXPECT_TRUE(same(Context(GetParam().target, threads))) << threads << " threads";
    for (const char *overrides : {"core_chunk.time_block 8\n", "core_chunk.time_block 256\n", "core_chunk.task_grain 1\n"}) {
        Context context(GetParam().target, 3);
        context.apply(overrides);
        EXPECT_TRUE(same(context)) << overrides;
    }
    // Pools of the caller's: one that starts from the end, one with a thread per task.
    gdn_context_options options;
    gdn_context_options_init(&options);
    options.parallel_for = [](void *, std::int64_t n, void (*body)(void *, std::int64_t), void *arg) {
        for (std::int64_t i = n - 1; i >= 0; i--) body(arg, i);
    };
    EXPECT_TRUE(same(Context(GetParam().target, 4, &options))) << "backwards";
    options.parallel_for = [](void *, std::int64_t n, void (*body)(void *, std::int64_t), void *arg) {
        std::vector<std::thread> threads;
        for (std::int64_t i = 0; i < n; i++) threads.emplace_back(body, arg, i);
        for (std::thread &thread : threads) thread.join();
    };
    EXPECT_TRUE(same(Context(GetParam().target, 4, &options))) << "a thread per task";
}

TEST_P(MixerInvariance, AloneInBatchOrPacked) {
    const MixerCase &c = GetParam().c;
    const Context context(GetParam().target);
    MixerProblem problem(c);
    ASSERT_EQ(problem.run(context), GDN_STATUS_OK) << gdn_last_error();
    const std::vector<unsigned char> whole = problem.output_bits();
    gdn_mixer_args &args = problem.args();
    gdn_tensor *const per_sequence[] = {&args.conv_initial_q, &args.conv_initial_k, &args.conv_initial_v, &args.conv_final_q,
        &args.conv_final_k, &args.conv_final_v, &args.z};
    const gdn_mixer_args all = args;
    const gdn_args all_op = problem.op().args();
    problem.reset();
    for (std::int64_t n = 0; n < 3; n++) {
        const gdn_args part = batch_slice(all_op, n, 1);
        args = all;
        args.op = &part;
        for (gdn_tensor *tensor : per_sequence) narrow(*tensor, 0, n, 1);
        ASSERT_EQ(gdn_mixer_forward(context.get(), &args, nullptr, 0), GDN_STATUS_OK) << gdn_last_error();
    }
    args = all;
    EXPECT_TRUE(problem.output_bits() == whole) << "one by one";
    if (c.op.padded) return;  // gaps between sequences cannot be packed
    problem.reset();
    gdn_args packed = all_op;
    for (gdn_tensor *tensor : {&packed.q, &packed.k, &packed.v, &packed.g, &packed.beta, &packed.b, &packed.w, &packed.beta_k,
             &packed.beta_v, &packed.o, &args.z}) {
        tensor->shape[1] *= tensor->shape[0];
        tensor->shape[0] = tensor->data ? 1 : 0;
    }
    HostTensor cu(GDN_DTYPE_I32, {4});
    cu.fill_integers({0, c.op.total(), 2 * c.op.total(), 3 * c.op.total()});
    packed.cu_seqlens = cu.view();
    args.op = &packed;
    ASSERT_EQ(gdn_mixer_forward(context.get(), &args, nullptr, 0), GDN_STATUS_OK) << gdn_last_error();
    args = all;
    EXPECT_TRUE(problem.output_bits() == whole) << "packed";
}

INSTANTIATE_TEST_SUITE_P(All, MixerInvariance, ::testing::ValuesIn(on_targets(companies(), 4)), run_name);

// A NaN in q, k, v, z of one head at token t reaches no earlier token and no other key head, and not the tokens past the window but through
// the state.
TEST(MixerNan, StaysInItsHeadAndTime) {
    for (const std::string &target : targets()) {
        gdn_context_options options;
        gdn_context_options_init(&options);
        MixerCase m;
        m.op.variant = GDN_VARIANT_GDN2;
        m.op.H = 2;
        m.op.HV = 4;
        m.op.l2norm = true;
        m.op.lengths = {27};
        m.norm_weight = true;
        const Context context(target);
        MixerProblem problem(m);
        ASSERT_EQ(problem.run(context), GDN_STATUS_OK) << gdn_last_error();
        const std::vector<float> clean = problem.op().o.read();
        for (HostTensor *where : {&problem.op().q, &problem.op().k, &problem.op().v, &problem.z})
            for (std::int64_t t : {0, 1, 7, 8, 16, 23, 24, 26}) {
                const std::int64_t heads = where->shape()[2], channels = where->shape()[3], head = heads == 4 ? 2 : 1;
                void *element = where->at((t * heads + head) * channels + 5);
                const float before = load_element(m.op.dtype, element);
                store_element(m.op.dtype, element, std::nanf(""));
                problem.reset();
                ASSERT_EQ(problem.run(context), GDN_STATUS_OK) << gdn_last_error();
                store_element(m.op.dtype, element, before);
                const std::vector<float> y = problem.op().o.read();
                bool reached = false;
                for (std::size_t i = 0; i < y.size(); i++) {
                    const std::int64_t hv = static_cast<std::int64_t>(i) / m.op.V % 4, now = static_cast<std::int64_t>(i) / m.op.V / 4;
                    const bool may = now >= t && (heads == 4 ? hv == 2 : hv >= 2) && (where != &problem.z || now == t);
                    reached = reached || std::isnan(y[i]);
                    if (may) continue;
                    ASSERT_EQ(float_bits(y[i]), float_bits(clean[i])) << target << ", t = " << t << ", element " << i;
                }
                EXPECT_TRUE(reached);
            }
    }
}

// Two contexts at once on the same inputs, each with states of its own.
TEST(MixerThreads, TwoContexts) {
    MixerCase m;
    m.op.H = m.op.HV = 4;
    m.op.lengths = {70, 70};
    m.op.l2norm = true;
    MixerProblem one(m), other(m);
    const Context a("auto", 2), b("auto", 1);
    for (int round = 0; round < 5; round++) {
        one.reset();
        other.reset();
        std::thread thread([&] { EXPECT_EQ(other.run(b), GDN_STATUS_OK); });
        EXPECT_EQ(one.run(a), GDN_STATUS_OK);
        thread.join();
        EXPECT_TRUE(one.output_bits() == other.output_bits());
    }
    EXPECT_TRUE(one.check(*reference_of(m, one), "auto"));
}

// Steps whose writes stay pending give the bits of those that write at once, at sizes with a one-pass kernel and without.
TEST(MixerPending, SameBits) {
    for (const std::string &target : targets())
        for (const Size &size : {Size{128, 128}, Size{48, 80}})
            for (gdn_head_map map : {GDN_HEAD_MAP_DIVIDE, GDN_HEAD_MAP_MODULO}) {
                MixerCase m;
                m.op.variant = GDN_VARIANT_GDN2;
                m.op.K = size.K;
                m.op.V = size.V;
                m.op.H = 2;
                m.op.HV = 4;
                m.op.head_map = map;
                m.op.l2norm = true;
                m.op.lengths = {1, 1};
                m.op.in_place = m.conv_in_place = true;
                MixerProblem plain(m), one_pass(m);
                HostTensor rows(GDN_DTYPE_F32, {2, 4, 2 * size.K + size.V});
                const Context context(target);
                for (int token = 0; token < 4; token++) {
                    one_pass.op().args().final_pending = rows.view();
                    if (token) one_pass.op().args().initial_pending = rows.view();
                    ASSERT_EQ(plain.run(context, Call::kStep), GDN_STATUS_OK) << gdn_last_error();
                    ASSERT_EQ(one_pass.run(context, Call::kStep), GDN_STATUS_OK) << gdn_last_error();
                    EXPECT_EQ(plain.op().o.bits(), one_pass.op().o.bits()) << target << ", token " << token;
                    for (int i = 0; i < 3; i++) EXPECT_EQ(plain.final_of(i).bits(), one_pass.final_of(i).bits());
                }
            }
}

// Low precision goes through like the operator's.
TEST(Mixer, LowPrecision) {
    for (const std::string &target : targets(GDN_PRECISION_LOW)) {
        MixerCase m;
        m.op.precision = GDN_PRECISION_LOW;
        m.op.K = m.op.V = 128;
        m.op.lengths = {40};
        m.op.l2norm = true;
        EXPECT_TRUE(matches_reference(m, Context(target)));
    }
}

}  // namespace
}  // namespace gdn_test
