// The mixer's manners: every wrong argument is named and nothing is written; workspace and allocations; two contexts; value checks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "call.h"

using namespace gdn_test;
using ::testing::HasSubstr;

namespace {

/// A valid call with everything that the mixer has; states in place of nothing.
struct SmallMixer {
    explicit SmallMixer(const CallSize &size = {}, std::int64_t W = 4) : call(size) {
        const auto [B, T, H, HV, K, V] = size;
        gdn_mixer_args_init(&args);
        args.op = &call.args;
        args.gate_activation = GDN_ACTIVATION_SILU;
        args.conv_weight_q = call.tensor(memory[0], {H, K, W}, -1, 1);
        args.conv_weight_k = call.tensor(memory[1], {H, K, W}, -1, 1);
        args.conv_weight_v = call.tensor(memory[2], {HV, V, W}, -1, 1);
        args.conv_bias_q = call.tensor(memory[3], {H, K}, -1, 1);
        args.conv_bias_k = call.tensor(memory[4], {H, K}, -1, 1);
        args.conv_bias_v = call.tensor(memory[5], {HV, V}, -1, 1);
        args.conv_initial_q = call.tensor(memory[6], {B, W - 1, H, K}, -1, 1);
        args.conv_initial_k = call.tensor(memory[7], {B, W - 1, H, K}, -1, 1);
        args.conv_initial_v = call.tensor(memory[8], {B, W - 1, HV, V}, -1, 1);
        args.z = call.tensor(memory[9], {B, T, HV, V}, -1, 1);
        args.norm_weight = call.tensor(memory[10], {V}, 0, 1);
        args.conv_final_q = call.tensor(final[0], {B, W - 1, H, K}, 0, 0);
        args.conv_final_k = call.tensor(final[1], {B, W - 1, H, K}, 0, 0);
        args.conv_final_v = call.tensor(final[2], {B, W - 1, HV, V}, 0, 0);
        for (std::vector<float> &output : final) std::memset(output.data(), 0xFF, output.size() * sizeof(float));
        call.args.qk_l2norm = 1;
        call.poison();
    }
    bool poisoned() const {
        bool all = call.poisoned();
        for (const std::vector<float> &output : final)
            for (float x : output) {
                std::uint32_t bits;
                std::memcpy(&bits, &x, 4);
                all = all && bits == 0xFFFFFFFFu;
            }
        return all;
    }
    bool filled() const {
        bool all = call.filled();
        for (const std::vector<float> &output : final)
            for (float x : output) all = all && std::isfinite(x);
        return all;
    }

    SmallCall call;
    gdn_mixer_args args;
    std::vector<float> memory[11], final[3];
};

struct Wrong {
    const char *name;
    gdn_status status;
    std::vector<std::string> says;
    std::function<void(SmallMixer &)> make;
};

void PrintTo(const Wrong &wrong, std::ostream *out) { *out << wrong.name; }

constexpr gdn_status kInvalid = GDN_STATUS_INVALID_ARGUMENT, kUnsupported = GDN_STATUS_UNSUPPORTED;

std::vector<Wrong> wrongs() {
    static std::vector<std::int64_t> list, other;
    static std::vector<float> spare;
    return {
        {"struct_size", kInvalid, {"struct_size"}, [](SmallMixer &m) { m.args.struct_size = 8; }},
        {"op", kInvalid, {"args.op is NULL"}, [](SmallMixer &m) { m.args.op = nullptr; }},
        {"op_struct_size", kInvalid, {"struct_size"}, [](SmallMixer &m) { m.call.args.struct_size = 8; }},
        {"conv_activation", kInvalid, {"conv_activation is 2"}, [](SmallMixer &m) { m.args.conv_activation = GDN_ACTIVATION_SIGMOID; }},
        {"gate_activation", kInvalid, {"gate_activation is 3"},
            [](SmallMixer &m) { m.args.gate_activation = static_cast<gdn_activation>(3); }},
        {"gate_activation_none", kInvalid, {"gate_activation is none", "z is given"},
            [](SmallMixer &m) { m.args.gate_activation = GDN_ACTIVATION_NONE; }},
        {"gate_without_z", kInvalid, {"gate_activation is silu", "z is absent"}, [](SmallMixer &m) { m.args.z = {}; }},
        {"output_norm", kInvalid, {"output_norm is 2"}, [](SmallMixer &m) { m.args.output_norm = 2; }},
        {"norm_eps_nan", kInvalid, {"norm_eps"}, [](SmallMixer &m) { m.args.norm_eps = NAN; }},
        {"norm_eps_negative", kInvalid, {"norm_eps is -1"}, [](SmallMixer &m) { m.args.norm_eps = -1; }},
        {"weight_without_norm", kInvalid, {"norm_weight is given", "output_norm is 0"}, [](SmallMixer &m) { m.args.output_norm = 0; }},
        {"norm_weight_shape", kInvalid, {"norm_weight has shape [47]", "expected [48]"},
            [](SmallMixer &m) { m.args.norm_weight.shape[0] = 47; }},
        {"norm_weight_dtype", kInvalid, {"norm_weight has dtype bf16"}, [](SmallMixer &m) { m.args.norm_weight.dtype = GDN_DTYPE_BF16; }},
        {"norm_weight_stride", kInvalid, {"norm_weight has innermost stride 2"}, [](SmallMixer &m) { m.args.norm_weight.strides[0] = 2; }},
        {"snapshots", kInvalid, {"snapshots is given"},
            [](SmallMixer &m) {
                m.call.args.snapshots = m.call.tensor(m.call.snapshots, {2, 1, 4, 32, 48}, 0, 0);
            }},

        {"q_absent", kInvalid, {"q is absent"}, [](SmallMixer &m) { m.call.args.q = {}; }},
        {"k_shape", kInvalid, {"k has shape"}, [](SmallMixer &m) { m.call.args.k.shape[3] = 31; }},
        {"o_in_z", kInvalid, {"o overlaps z"}, [](SmallMixer &m) { m.args.z.data = m.call.args.o.data; }},

        {"width_1", kInvalid, {"conv_weight_q has width 1", "2 to 8"}, [](SmallMixer &m) { m.args.conv_weight_q.shape[2] = 1; }},
        {"width_9", kInvalid, {"conv_weight_q has width 9"},
            [](SmallMixer &m) {
                m.args.conv_weight_q = m.call.tensor(spare, {2, 32, 9}, 0, 1);
            }},
        {"widths_differ", kInvalid, {"conv_weight_k has shape [2, 32, 3]", "expected [2, 32, 4]"},
            [](SmallMixer &m) { m.args.conv_weight_k.shape[2] = 3; }},
        {"weight_q_dtype", kInvalid, {"conv_weight_q has dtype bf16", "f32"},
            [](SmallMixer &m) { m.args.conv_weight_q.dtype = GDN_DTYPE_BF16; }},
        {"weight_q_rank", kInvalid, {"conv_weight_q has 2 dimensions", "expected 3"}, [](SmallMixer &m) { m.args.conv_weight_q.ndim = 2; }},
        {"weight_q_null", kInvalid, {"conv_weight_k is given", "conv_weight_q is absent"},
            [](SmallMixer &m) { m.args.conv_weight_q = {}, m.args.conv_bias_q = m.args.conv_initial_q = m.args.conv_final_q = {}; }},
        {"weight_k_absent", kInvalid, {"conv_weight_k is absent"}, [](SmallMixer &m) { m.args.conv_weight_k = {}; }},
        {"weight_v_absent", kInvalid, {"conv_weight_v is absent"}, [](SmallMixer &m) { m.args.conv_weight_v = {}; }},
        {"weight_v_heads", kInvalid, {"conv_weight_v has shape [2, 48, 4]", "expected [4, 48, 4]"},
            [](SmallMixer &m) { m.args.conv_weight_v.shape[0] = 2; }},
        {"bias_q_shape", kInvalid, {"conv_bias_q has shape"}, [](SmallMixer &m) { m.args.conv_bias_q.shape[1] = 31; }},
        {"bias_k_dtype", kInvalid, {"conv_bias_k has dtype f16"}, [](SmallMixer &m) { m.args.conv_bias_k.dtype = GDN_DTYPE_F16; }},
        {"bias_v_stride", kInvalid, {"conv_bias_v has innermost stride 2"}, [](SmallMixer &m) { m.args.conv_bias_v.strides[1] = 2; }},
        {"bias_without_convolution", kInvalid, {"conv_bias_q is given", "no convolution"},
            [](SmallMixer &m) { m.args.conv_weight_q = m.args.conv_weight_k = m.args.conv_weight_v = {}; }},

        {"initial_q_shape", kInvalid, {"conv_initial_q has shape [2, 2, 2, 32]", "expected [2, 3, 2, 32]"},
            [](SmallMixer &m) { m.args.conv_initial_q.shape[1] = 2; }},
        {"initial_k_dtype", kInvalid, {"conv_initial_k has dtype bf16", "expected f32 as q"},
            [](SmallMixer &m) { m.args.conv_initial_k.dtype = GDN_DTYPE_BF16; }},
        {"initial_v_stride", kInvalid, {"conv_initial_v has innermost stride 2"},
            [](SmallMixer &m) { m.args.conv_initial_v.strides[3] = 2; }},
        {"final_q_rank", kInvalid, {"conv_final_q has 3 dimensions"}, [](SmallMixer &m) { m.args.conv_final_q.ndim = 3; }},
        {"final_k_dtype", kInvalid, {"conv_final_k has dtype unknown"},
            [](SmallMixer &m) { m.args.conv_final_k.dtype = static_cast<gdn_dtype>(99); }},
        {"final_v_shape", kInvalid, {"conv_final_v has shape"}, [](SmallMixer &m) { m.args.conv_final_v.shape[0] = 1; }},
        {"final_overlaps_itself", kInvalid, {"conv_final_q overlaps itself"}, [](SmallMixer &m) { m.args.conv_final_q.strides[1] = 0; }},
        {"final_shifted", kInvalid, {"conv_final_q overlaps conv_initial_q"},
            [](SmallMixer &m) {
                spare.assign(m.memory[6].size() + 64, 0);  // room behind, so that it meets nothing else
                m.args.conv_initial_q.data = spare.data(), m.args.conv_final_q.data = spare.data() + 64;
            }},
        {"final_is_another_initial", kInvalid, {"conv_final_k overlaps conv_initial_q"},
            [](SmallMixer &m) { m.args.conv_final_k = m.args.conv_initial_q; }},
        {"finals_meet", kInvalid, {"conv_final_k overlaps conv_final_q"}, [](SmallMixer &m) { m.args.conv_final_k = m.args.conv_final_q; }},
        {"final_in_q", kInvalid, {"conv_final_q overlaps q"}, [](SmallMixer &m) { m.args.conv_final_q.data = m.call.args.q.data; }},
        {"final_in_weight", kInvalid, {"conv_final_q overlaps conv_weight_v"},
            [](SmallMixer &m) { m.args.conv_final_q.data = m.args.conv_weight_v.data; }},

        {"z_shape", kInvalid, {"z has shape", "expected [2, 20, 4, 48]"}, [](SmallMixer &m) { m.args.z.shape[1] = 19; }},
        {"z_dtype", kInvalid, {"z has dtype i32"}, [](SmallMixer &m) { m.args.z.dtype = GDN_DTYPE_I32; }},
        {"z_stride", kInvalid, {"z has innermost stride 2"}, [](SmallMixer &m) { m.args.z.strides[3] = 2; }},
        {"z_token_stride", kUnsupported, {"z has a token stride of 2147483648"},
            [](SmallMixer &m) { m.args.z.strides[1] = std::int64_t{1} << 31; }},

        {"pool_size", kInvalid, {"conv_initial_q has shape [2,", "expected [3, 3, 2, 32]"},
            [](SmallMixer &m) {
                list = {0, 2}, m.call.args.initial_slots = SmallCall::indices(list);
                m.call.args.initial_state = m.call.tensor(spare, {3, 4, 32, 48}, 0, 1);
            }},
        {"final_slots_twice", kInvalid, {"both write slot 1"},
            [](SmallMixer &m) {
                list = {1, 1}, m.call.args.final_slots = SmallCall::indices(list);
            }},
        // The recurrent states are apart, the convolution's pool is one: sequence 1 would read what sequence 0 wrote.
        {"conv_slot_read_by_another", kInvalid, {"writes slot 1, which sequence 1 reads"},
            [](SmallMixer &m) {
                list = {1, 0}, m.call.args.final_slots = SmallCall::indices(list);
                m.args.conv_final_q = m.args.conv_initial_q;
            }},
    };
}

class MixerErrors : public ::testing::TestWithParam<Wrong> {};

TEST_P(MixerErrors, NamesTheArgumentAndWritesNothing) {
    const Wrong &wrong = GetParam();
    ContextPtr context = make_context();
    SmallMixer good, bad;
    wrong.make(bad);
    std::vector<float> before[11];
    std::copy(std::begin(bad.memory), std::end(bad.memory), before);
    std::size_t bytes = 7;
    EXPECT_EQ(gdn_mixer_workspace_size(context.get(), &bad.args, &bytes), wrong.status);
    EXPECT_EQ(bytes, 7u);
    EXPECT_EQ(gdn_mixer_forward(context.get(), &bad.args, nullptr, 0), wrong.status);
    for (const std::string &text : wrong.says) EXPECT_THAT(gdn_last_error(), HasSubstr(text));
    EXPECT_TRUE(bad.poisoned());
    for (int i = 0; i < 11; i++) EXPECT_TRUE(bad.memory[i] == before[i]) << i;
    ASSERT_EQ(gdn_mixer_forward(context.get(), &good.args, nullptr, 0), GDN_STATUS_OK) << gdn_last_error();
    EXPECT_TRUE(good.filled());
}

INSTANTIATE_TEST_SUITE_P(All, MixerErrors, ::testing::ValuesIn(wrongs()), [](const auto &info) { return std::string(info.param.name); });

TEST(MixerErrors, NullHandlesAndSteps) {
    ContextPtr context = make_context();
    SmallMixer m;
    std::size_t bytes;
    gdn_mixer_args_init(nullptr);
    EXPECT_EQ(gdn_mixer_forward(nullptr, &m.args, nullptr, 0), kInvalid);
    EXPECT_EQ(gdn_mixer_step(nullptr, &m.args, nullptr, 0), kInvalid);
    EXPECT_EQ(gdn_mixer_workspace_size(nullptr, &m.args, &bytes), kInvalid);
    EXPECT_EQ(gdn_mixer_workspace_size(context.get(), &m.args, nullptr), kInvalid);
    EXPECT_EQ(gdn_mixer_forward(context.get(), nullptr, nullptr, 0), kInvalid);
    EXPECT_EQ(gdn_mixer_step(context.get(), &m.args, nullptr, 0), kInvalid);
    EXPECT_THAT(gdn_last_error(), HasSubstr("T=20"));
    EXPECT_TRUE(m.poisoned());
}

TEST(MixerWorkspace, TooSmallOrMisaligned) {
    ContextPtr context = make_context();
    SmallMixer m;
    std::size_t bytes = 0;
    ASSERT_EQ(gdn_mixer_workspace_size(context.get(), &m.args, &bytes), GDN_STATUS_OK);
    std::vector<char> memory(bytes + 128);
    char *aligned = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
    EXPECT_EQ(gdn_mixer_forward(context.get(), &m.args, aligned, bytes - 1), GDN_STATUS_WORKSPACE_TOO_SMALL);
    EXPECT_THAT(gdn_last_error(), HasSubstr("gdn_mixer_workspace_size"));
    EXPECT_EQ(gdn_mixer_forward(context.get(), &m.args, aligned + 4, bytes), kInvalid);
    EXPECT_EQ(gdn_mixer_forward(context.get(), &m.args, nullptr, bytes), kInvalid);
    EXPECT_TRUE(m.poisoned());
    EXPECT_EQ(gdn_mixer_forward(context.get(), &m.args, aligned, bytes), GDN_STATUS_OK) << gdn_last_error();
    EXPECT_TRUE(m.filled());
}

TEST(MixerWorkspace, IndependentOfTokens) {
    for (int threads : {1, 4})
        for (std::int64_t HV : {4, 8}) {
            CallSize size;
            size.B = 1, size.H = 4, size.HV = HV, size.K = size.V = 128;
            ContextPtr context = make_context(threads);
            std::size_t few = 0, many = 0;
            SmallMixer m(size);
            EXPECT_EQ(gdn_mixer_workspace_size(context.get(), &m.args, &few), GDN_STATUS_OK) << gdn_last_error();
            std::uintptr_t address = std::uintptr_t{1} << 40;  // a size is asked for, no tensor is read
            gdn_args &op = m.call.args;
            for (gdn_tensor *t : {&op.q, &op.k, &op.v, &op.g, &op.beta, &op.o, &m.args.z})
                t->shape[1] = 100000, t->data = reinterpret_cast<void *>(address += std::uintptr_t{1} << 40);
            EXPECT_EQ(gdn_mixer_workspace_size(context.get(), &m.args, &many), GDN_STATUS_OK) << gdn_last_error();
            EXPECT_EQ(few, many);
            // The weights in their order and a worker's rows stay far below what L2 holds.
            EXPECT_LT(few, (static_cast<std::size_t>(threads) << 18) + 4 * (2 * 4 + 8) * 128 * 4);
        }
}

TEST(MixerWorkspace, NothingIsAllocated) {
    struct Counting {
        int allocations = 0;
    } counting;
    for (int threads : {1, 2}) {
        gdn_context_options options = options_with_threads(threads);
        options.alloc_user = &counting;
        options.alloc = [](void *user, std::size_t bytes, std::size_t alignment) -> void * {
            static_cast<Counting *>(user)->allocations++;
            return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
        };
        options.free = [](void *, void *memory, std::size_t) { std::free(memory); };
        ContextPtr context = make_context(options);
        SmallMixer m;
        CallSize one;
        one.T = 1;
        SmallMixer step(one);
        std::size_t bytes = 0, step_bytes = 0;
        ASSERT_EQ(gdn_mixer_workspace_size(context.get(), &m.args, &bytes), GDN_STATUS_OK);
        ASSERT_EQ(gdn_mixer_workspace_size(context.get(), &step.args, &step_bytes), GDN_STATUS_OK);
        bytes = std::max(bytes, step_bytes);
        void *memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
        const int before = counting.allocations;
        for (int i = 0; i < 3; i++) {
            ASSERT_EQ(gdn_mixer_forward(context.get(), &m.args, memory, bytes), GDN_STATUS_OK) << gdn_last_error();
            ASSERT_EQ(gdn_mixer_step(context.get(), &step.args, memory, bytes), GDN_STATUS_OK) << gdn_last_error();
        }
        EXPECT_EQ(counting.allocations, before);
        ASSERT_EQ(gdn_mixer_forward(context.get(), &m.args, nullptr, 0), GDN_STATUS_OK);
        ASSERT_EQ(gdn_mixer_forward(context.get(), &m.args, nullptr, 0), GDN_STATUS_OK);
        EXPECT_EQ(counting.allocations, before + 1);  // the context's workspace, once
        std::free(memory);
    }
}

TEST(MixerCheckValues, Units) {
    gdn_context_options options = options_with_threads(1);
    options.flags = GDN_CHECK_VALUES;
    ContextPtr checking = make_context(options), trusting = make_context();
    SmallMixer m;
    m.call.g[5] = 0.5f;
    EXPECT_EQ(gdn_mixer_forward(checking.get(), &m.args, nullptr, 0), GDN_STATUS_INVALID_VALUE);
    EXPECT_THAT(gdn_last_error(), HasSubstr("g is 0.5"));
    EXPECT_TRUE(m.poisoned());
    EXPECT_EQ(gdn_mixer_forward(trusting.get(), &m.args, nullptr, 0), GDN_STATUS_OK);
}

}  // namespace
