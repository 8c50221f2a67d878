// G15: every wrong argument gives a code and a text that names it, expected and given; nothing is written and the next good call is right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "call.h"

using namespace gdn_test;
using ::testing::HasSubstr;

namespace {

struct Wrong {
    const char *name;
    gdn_status status;
    std::vector<std::string> says;
    std::function<void(SmallCall &)> make;
    gdn_variant variant = GDN_VARIANT_KDA;
};

void PrintTo(const Wrong &wrong, std::ostream *out) { *out << wrong.name; }

constexpr gdn_status kInvalid = GDN_STATUS_INVALID_ARGUMENT, kUnsupported = GDN_STATUS_UNSUPPORTED;

std::vector<Wrong> wrongs() {
    static std::vector<std::int64_t> list;
    static std::vector<float> spare;
    return {
        {"struct_size", kInvalid, {"struct_size"}, [](SmallCall &c) { c.args.struct_size = 8; }},
        {"variant", kInvalid, {"variant", "99"}, [](SmallCall &c) { c.args.variant = static_cast<gdn_variant>(99); }},
        {"decay", kInvalid, {"decay", "-1"}, [](SmallCall &c) { c.args.decay = static_cast<gdn_decay>(-1); }},
        {"gate", kInvalid, {"gate", "7"}, [](SmallCall &c) { c.args.gate = static_cast<gdn_gate>(7); }},
        {"head_map", kInvalid, {"head_map"}, [](SmallCall &c) { c.args.head_map = static_cast<gdn_head_map>(2); }},
        {"state_layout", kInvalid, {"state_layout"}, [](SmallCall &c) { c.args.state_layout = static_cast<gdn_state_layout>(2); }},
        {"precision", kInvalid, {"precision"}, [](SmallCall &c) { c.args.precision = static_cast<gdn_precision>(2); }},
        {"state_dtype", kUnsupported, {"state_dtype", "bf16"}, [](SmallCall &c) { c.args.state_dtype = GDN_DTYPE_BF16; }},
        {"neg_eigval_of_values", kInvalid, {"allow_neg_eigval"}, [](SmallCall &c) { c.args.allow_neg_eigval = 1; }},
        {"neg_eigval_of_fg2", kInvalid, {"allow_neg_eigval", "fg2_plus"},
            [](SmallCall &c) { c.args.allow_neg_eigval = 1, c.args.gate = GDN_GATE_LOGIT; }, GDN_VARIANT_FG2_PLUS},
        {"scale", kInvalid, {"scale"}, [](SmallCall &c) { c.args.scale = NAN; }},
        {"lower_bound_positive", kInvalid, {"lower_bound", "2"}, [](SmallCall &c) { c.args.lower_bound = 2; }},
        {"lower_bound_far", kInvalid, {"lower_bound", "-101"}, [](SmallCall &c) { c.args.lower_bound = -101; }},

        {"q_absent", kInvalid, {"q is absent"}, [](SmallCall &c) { c.args.q = {}; }},
        {"q_null", kInvalid, {"q is absent"}, [](SmallCall &c) { c.args.q.data = nullptr; }},
        {"k_absent", kInvalid, {"k is absent"}, [](SmallCall &c) { c.args.k = {}; }},
        {"v_absent", kInvalid, {"v is absent"}, [](SmallCall &c) { c.args.v = {}; }},
        {"o_absent", kInvalid, {"o is absent"}, [](SmallCall &c) { c.args.o = {}; }},
        {"beta_absent", kInvalid, {"beta is absent", "kda"}, [](SmallCall &c) { c.args.beta = {}; }},
        {"w_absent", kInvalid, {"w is absent", "gdn2"}, [](SmallCall &c) { c.args.w = {}; }, GDN_VARIANT_GDN2},
        {"w_not_of_kda", kInvalid, {"w is given", "kda"}, [](SmallCall &c) { c.args.w = c.args.v; }},
        {"g_not_of_delta_rule", kInvalid, {"g is given", "delta_rule"}, [](SmallCall &c) { c.args.g = c.args.beta; },
            GDN_VARIANT_DELTA_RULE},
        {"A_log_without_logits", kInvalid, {"A_log is given"}, [](SmallCall &c) { c.args.A_log = c.tensor(spare, {4}, 0, 1); }},
        {"dt_bias_without_g", kInvalid, {"dt_bias is given", "g is absent"},
            [](SmallCall &c) {
                c.args.g = {}, c.args.decay = GDN_DECAY_SOFTPLUS, c.args.dt_bias = c.tensor(spare, {4, 32}, 0, 1);
            }},

        {"q_rank", kInvalid, {"q has 3 dimensions"}, [](SmallCall &c) { c.args.q.ndim = 3; }},
        {"g_rank", kInvalid, {"g has 2 dimensions", "expected 4"}, [](SmallCall &c) { c.args.g.ndim = 2; }},  // R81
        {"rank_beyond_the_struct", kInvalid, {"g has 9 dimensions"}, [](SmallCall &c) { c.args.g.ndim = 9; }},
        {"k_channels", kInvalid, {"k has shape [2, 20, 2, 31]", "expected [2, 20, 2, 32]"}, [](SmallCall &c) { c.args.k.shape[3] = 31; }},
        {"k_tokens", kInvalid, {"k has shape [2, 19, 2, 32]"}, [](SmallCall &c) { c.args.k.shape[1] = 19; }},
        {"v_batch", kInvalid, {"v has shape [1,"}, [](SmallCall &c) { c.args.v.shape[0] = 1; }},
        {"o_heads", kInvalid, {"o has shape", "expected [2, 20, 4, 48]"}, [](SmallCall &c) { c.args.o.shape[2] = 2; }},
        {"head_counts", kInvalid, {"HV=3 is not a multiple of H=2", "q has 2 heads", "v has 3"},
            [](SmallCall &c) { c.args.v.shape[2] = 3; }},  // R74
        {"no_heads", kInvalid, {"0 heads"}, [](SmallCall &c) { c.args.q.shape[2] = 0; }},
        {"g_heads", kInvalid, {"g has 3 heads", "H=2", "HV=4"}, [](SmallCall &c) { c.args.g.shape[2] = 3; }},
        {"beta_heads", kInvalid, {"beta has 1 heads"}, [](SmallCall &c) { c.args.beta.shape[2] = 1; }},
        {"negative_length", kInvalid, {"-1"}, [](SmallCall &c) { c.args.q.shape[1] = -1; }},
        {"no_channels", kInvalid, {"K=0"}, [](SmallCall &c) { c.args.q.shape[3] = 0; }},
        {"too_many_channels", kUnsupported, {"K=257", "256"}, [](SmallCall &c) { c.args.q.shape[3] = 257; }},  // R79
        {"fg2_rectangular", kInvalid, {"K=32", "V=48", "fg2"}, [](SmallCall &) {}, GDN_VARIANT_FG2},
        {"A_log_heads", kInvalid, {"A_log has shape [2]", "expected [4]"},
            [](SmallCall &c) { c.args.decay = GDN_DECAY_SOFTPLUS, c.args.A_log = c.tensor(spare, {2}, 0, 1); }},
        {"dt_bias_shape", kInvalid, {"dt_bias has 1 dimensions"},
            [](SmallCall &c) { c.args.decay = GDN_DECAY_SOFTPLUS, c.args.dt_bias = c.tensor(spare, {4}, 0, 1); }},

        {"q_dtype", kInvalid, {"q has dtype i32"}, [](SmallCall &c) { c.args.q.dtype = GDN_DTYPE_I32; }},
        {"g_dtype", kInvalid, {"g has dtype none"}, [](SmallCall &c) { c.args.g.dtype = GDN_DTYPE_NONE; }},
        {"dtype_beyond_the_enum", kInvalid, {"beta has dtype unknown"},
            [](SmallCall &c) { c.args.beta.dtype = static_cast<gdn_dtype>(77); }},
        {"mixed_dtypes", kInvalid, {"q is f32", "k is bf16"}, [](SmallCall &c) { c.args.k.dtype = GDN_DTYPE_BF16; }},
        {"state_tensor_dtype", kInvalid, {"final_state has dtype f16"}, [](SmallCall &c) { c.args.final_state.dtype = GDN_DTYPE_F16; }},

        {"inner_stride", kInvalid, {"v has innermost stride 2"}, [](SmallCall &c) { c.args.v.strides[3] = 2; }},
        {"negative_stride", kInvalid, {"k has stride -64", "dimension 1"}, [](SmallCall &c) { c.args.k.strides[1] = -64; }},
        {"huge_stride", kUnsupported, {"q has a token stride of 2147483648"},
            [](SmallCall &c) { c.args.q.strides[1] = std::int64_t{1} << 31; }},
        {"overflowing_stride", kInvalid, {"q spans more"}, [](SmallCall &c) { c.args.q.strides[1] = INT64_MAX / 4; }},
        {"o_overlaps_itself", kInvalid, {"o overlaps itself"}, [](SmallCall &c) { c.args.o.strides[2] = 0; }},
        {"final_state_overlaps_itself", kInvalid, {"final_state overlaps itself"}, [](SmallCall &c) { c.args.final_state.strides[1] = 7; }},
        {"misaligned", kInvalid, {"g is at an address"}, [](SmallCall &c) { c.args.g.data = static_cast<char *>(c.args.g.data) + 2; }},
        {"o_is_v", kInvalid, {"o overlaps v"}, [](SmallCall &c) { c.args.o.data = c.args.v.data; }},
        {"final_state_in_q", kInvalid, {"final_state overlaps"}, [](SmallCall &c) { c.args.v.data = c.args.final_state.data; }},
        {"states_shifted", kInvalid, {"final_state overlaps initial_state"},
            [](SmallCall &c) {
                c.args.final_state.data = c.initial_state.data() + 48, c.args.final_state.shape[0] = c.args.initial_state.shape[0];
            }},

        {"state_shape", kInvalid, {"initial_state has shape", "expected [2, 4, 32, 48]"},
            [](SmallCall &c) { c.args.initial_state.shape[2] = 48; }},
        {"v_first_shape", kInvalid, {"initial_state has shape", "expected [2, 4, 48, 32]"},
            [](SmallCall &c) { c.args.state_layout = GDN_STATE_V_FIRST; }},
        {"slots_without_state", kInvalid, {"initial_slots is given", "initial_state is absent"},
            [](SmallCall &c) {
                list = {0, 1}, c.args.initial_slots = c.indices(list), c.args.initial_state = {};
            }},
        {"slot_high", kInvalid, {"initial_slots[1]=2", "-1 to 1"},
            [](SmallCall &c) {
                list = {0, 2}, c.args.initial_slots = c.indices(list);
            }},
        {"slot_low", kInvalid, {"initial_slots[0]=-2"},
            [](SmallCall &c) {
                list = {-2, 1}, c.args.initial_slots = c.indices(list);
            }},
        {"final_slot_none", kInvalid, {"final_slots[0]=-1"},
            [](SmallCall &c) {
                list = {-1, 1}, c.args.final_slots = c.indices(list);
            }},
        {"slot_twice", kInvalid, {"sequences 0 and 1 both write slot 1"},
            [](SmallCall &c) {
                list = {1, 1}, c.args.final_slots = c.indices(list);
            }},
        {"slot_count", kInvalid, {"final_slots has shape [3]"},
            [](SmallCall &c) {
                list = {0, 1, 0}, c.args.final_slots = c.indices(list);
            }},
        {"slot_read_by_another", kInvalid, {"final_slots", "writes slot 1, which sequence 1 reads"},
            [](SmallCall &c) {
                list = {1, 0}, c.args.final_slots = c.indices(list), c.args.final_state = c.args.initial_state;
            }},
        {"slot_dtype", kInvalid, {"final_slots has dtype f32"},
            [](SmallCall &c) {
                list = {0, 1}, c.args.final_slots = c.indices(list), c.args.final_slots.dtype = GDN_DTYPE_F32;
            }},

        {"packed_batch", kInvalid, {"B=2", "cu_seqlens"},
            [](SmallCall &c) {
                list = {0, 20}, c.args.cu_seqlens = c.indices(list);
            }},
        {"snapshot_interval", kInvalid, {"snapshot_interval is 63"},
            [](SmallCall &c) {
                c.args.snapshots = c.tensor(c.snapshots, {2, 1, 4, 32, 48}, 0, 0);
                c.args.snapshot_kind = GDN_SNAPSHOT_BOUNDARIES, c.args.snapshot_interval = 63;
            }},
        {"snapshot_kind", kInvalid, {"snapshot_kind is 5"},
            [](SmallCall &c) {
                c.args.snapshots = c.tensor(c.snapshots, {2, 1, 4, 32, 48}, 0, 0);
                c.args.snapshot_kind = static_cast<gdn_snapshot_kind>(5);
            }},
        {"snapshot_shape", kInvalid, {"snapshots has 4 dimensions"}, [](SmallCall &c) { c.args.snapshots = c.args.initial_state; }},
    };
}

class G15Errors : public ::testing::TestWithParam<Wrong> {};

TEST_P(G15Errors, NamesTheArgumentAndWritesNothing) {
    const Wrong &wrong = GetParam();
    ContextPtr context = make_context();
    CallSize size;
    SmallCall good(size, wrong.variant == GDN_VARIANT_FG2 ? GDN_VARIANT_KDA : wrong.variant), call(size, wrong.variant);
    wrong.make(call);
    const std::vector<float> initial = call.initial_state;
    EXPECT_EQ(gdn_supports(context.get(), &call.args), wrong.status);
    EXPECT_EQ(gdn_forward(context.get(), &call.args, nullptr, 0), wrong.status);
    for (const std::string &text : wrong.says) EXPECT_THAT(gdn_last_error(), HasSubstr(text));
    EXPECT_TRUE(call.poisoned());
    EXPECT_TRUE(call.initial_state == initial);
    ASSERT_EQ(gdn_forward(context.get(), &good.args, nullptr, 0), GDN_STATUS_OK) << gdn_last_error();
    EXPECT_TRUE(good.filled());
}

INSTANTIATE_TEST_SUITE_P(All, G15Errors, ::testing::ValuesIn(wrongs()), [](const auto &info) { return std::string(info.param.name); });

TEST(Errors, CuSeqlens) {
    struct {
        std::vector<std::int64_t> list;
        const char *says;
    } const cases[] = {{{1, 20}, "cu_seqlens starts at 1"}, {{0, 12, 7, 20}, "cu_seqlens[2]=7 is below cu_seqlens[1]=12"},
        {{0, 19}, "cu_seqlens ends at 19"}, {{0, 5, 21}, "cu_seqlens ends at 21"}, {{0, -3, 20}, "cu_seqlens[1]=-3"}};
    ContextPtr context = make_context();
    for (const auto &wrong : cases) {
        CallSize size;
        size.B = 1;
        SmallCall call(size);
        call.args.initial_state = call.args.final_state = {};
        std::vector<std::int64_t> list = wrong.list;
        call.args.cu_seqlens = SmallCall::indices(list);
        EXPECT_EQ(gdn_forward(context.get(), &call.args, nullptr, 0), GDN_STATUS_INVALID_ARGUMENT);
        EXPECT_THAT(gdn_last_error(), HasSubstr(wrong.says));
        EXPECT_TRUE(call.poisoned());
    }
}

TEST(Errors, StepTakesOneToken) {
    ContextPtr context = make_context();
    SmallCall call;
    EXPECT_EQ(gdn_step(context.get(), &call.args, nullptr, 0), GDN_STATUS_INVALID_ARGUMENT);
    EXPECT_THAT(gdn_last_error(), HasSubstr("T=20"));
    EXPECT_TRUE(call.poisoned());
}

TEST(Errors, NullHandles) {
    SmallCall call;
    std::size_t bytes;
    EXPECT_EQ(gdn_forward(nullptr, &call.args, nullptr, 0), GDN_STATUS_INVALID_ARGUMENT);
    EXPECT_EQ(gdn_step(nullptr, &call.args, nullptr, 0), GDN_STATUS_INVALID_ARGUMENT);
    EXPECT_EQ(gdn_workspace_size(nullptr, &call.args, &bytes), GDN_STATUS_INVALID_ARGUMENT);
    EXPECT_EQ(gdn_supports(nullptr, &call.args), GDN_STATUS_INVALID_ARGUMENT);
    EXPECT_EQ(gdn_set_target(nullptr, "auto"), GDN_STATUS_INVALID_ARGUMENT);
    EXPECT_EQ(gdn_context_create(nullptr, nullptr), GDN_STATUS_INVALID_ARGUMENT);
    ContextPtr context = make_context();
    EXPECT_EQ(gdn_forward(context.get(), nullptr, nullptr, 0), GDN_STATUS_INVALID_ARGUMENT);
    EXPECT_EQ(gdn_workspace_size(context.get(), &call.args, nullptr), GDN_STATUS_INVALID_ARGUMENT);
    EXPECT_EQ(gdn_set_target(context.get(), nullptr), GDN_STATUS_INVALID_ARGUMENT);
    EXPECT_EQ(gdn_set_target(context.get(), "x87"), GDN_STATUS_INVALID_ARGUMENT);
    EXPECT_THAT(gdn_last_error(), HasSubstr("\"x87\""));
    EXPECT_EQ(gdn_apply_overrides(context.get(), nullptr, 3), GDN_STATUS_INVALID_ARGUMENT);
    gdn_context_destroy(nullptr);
}

TEST(Errors, Options) {
    gdn_context *context = nullptr;
    gdn_context_options options = options_with_threads(-1);
    EXPECT_EQ(gdn_context_create(&options, &context), GDN_STATUS_INVALID_ARGUMENT);
    EXPECT_THAT(gdn_last_error(), HasSubstr("num_threads"));
    options = options_with_threads(1);
    options.struct_size = 4;
    EXPECT_EQ(gdn_context_create(&options, &context), GDN_STATUS_INVALID_ARGUMENT);
    options = options_with_threads(1);
    options.flags = 1u << 9;
    EXPECT_EQ(gdn_context_create(&options, &context), GDN_STATUS_INVALID_ARGUMENT);
    options = options_with_threads(1);
    options.alloc = [](void *, std::size_t, std::size_t) -> void * { return nullptr; };
    EXPECT_EQ(gdn_context_create(&options, &context), GDN_STATUS_INVALID_ARGUMENT);
    EXPECT_THAT(gdn_last_error(), HasSubstr("alloc and free"));
    EXPECT_EQ(context, nullptr);
}

// The text belongs to the thread, and a good call leaves it alone.
TEST(Errors, LastErrorIsOfTheLastFailure) {
    ContextPtr context = make_context();
    SmallCall bad, good;
    bad.args.k.shape[3] = 31;
    EXPECT_EQ(gdn_forward(context.get(), &bad.args, nullptr, 0), GDN_STATUS_INVALID_ARGUMENT);
    const std::string text = gdn_last_error();
    EXPECT_EQ(gdn_forward(context.get(), &good.args, nullptr, 0), GDN_STATUS_OK);
    EXPECT_EQ(gdn_last_error(), text);
}

TEST(Errors, GoToTheLog) {
    std::vector<std::string> lines;
    gdn_context_options options = options_with_threads(1);
    options.log = [](void *user, gdn_log_level level, const char *line) {
        static_cast<std::vector<std::string> *>(user)->push_back(std::to_string(level) + " " + line);
    };
    options.log_user = &lines;
    ContextPtr context = make_context(options);
    SmallCall call;
    call.args.v.strides[3] = 2;
    EXPECT_EQ(gdn_forward(context.get(), &call.args, nullptr, 0), GDN_STATUS_INVALID_ARGUMENT);
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_THAT(lines[0], HasSubstr("0 v has innermost stride 2"));
}

// Slices of one packed buffer are not overlaps: q | k | v | o side by side in every token.
TEST(Errors, PackedBufferIsNoOverlap) {
    CallSize size;
    size.HV = size.H;
    size.V = size.K;
    SmallCall call(size);
    const std::int64_t row = size.H * size.K, token = 4 * row;
    std::vector<float> packed(static_cast<std::size_t>(size.B * size.T * token), 0.1f);
    int i = 0;
    for (gdn_tensor *t : {&call.args.q, &call.args.k, &call.args.v, &call.args.o}) {
        t->data = packed.data() + i++ * row;
        t->strides[1] = token;
        t->strides[0] = size.T * token;
    }
    ContextPtr context = make_context();
    EXPECT_EQ(gdn_forward(context.get(), &call.args, nullptr, 0), GDN_STATUS_OK) << gdn_last_error();
    call.args.o.data = packed.data() + 2 * row + 1;
    EXPECT_EQ(gdn_forward(context.get(), &call.args, nullptr, 0), GDN_STATUS_INVALID_ARGUMENT);
}

// Slot rules over more sequences than pairs are compared for.
TEST(Errors, ManySlots) {
    CallSize size;
    size.B = 200, size.T = 1, size.H = size.HV = 1, size.K = size.V = 16;
    SmallCall call(size);
    std::vector<float> pool(1000 * 256, 0.5f);
    gdn_tensor state = call.args.initial_state;
    state.data = pool.data();
    state.shape[0] = 1000;
    call.args.initial_state = call.args.final_state = state;
    std::vector<std::int64_t> from(200), to(200);
    for (int i = 0; i < 200; i++) from[i] = i, to[i] = i % 2 ? i : 500 + i;
    call.args.initial_slots = SmallCall::indices(from);
    call.args.final_slots = SmallCall::indices(to);
    ContextPtr context = make_context();
    EXPECT_EQ(gdn_supports(context.get(), &call.args), GDN_STATUS_OK) << gdn_last_error();
    to[7] = 44;  // sequence 44 reads it
    EXPECT_EQ(gdn_supports(context.get(), &call.args), GDN_STATUS_INVALID_ARGUMENT);
    EXPECT_THAT(gdn_last_error(), HasSubstr("sequence 7 writes slot 44, which sequence 44 reads"));
    to[7] = 500 + 120;
    EXPECT_EQ(gdn_supports(context.get(), &call.args), GDN_STATUS_INVALID_ARGUMENT);
    EXPECT_THAT(gdn_last_error(), HasSubstr("sequences 7 and 120 both write slot 620"));
    to[7] = 7;
    for (auto &slot : from) slot = 999;  // many may read one
    EXPECT_EQ(gdn_supports(context.get(), &call.args), GDN_STATUS_OK) << gdn_last_error();
}

TEST(CheckValues, Units) {
    gdn_context_options options = options_with_threads(1);
    options.flags = GDN_CHECK_VALUES;
    ContextPtr checking = make_context(options), trusting = make_context();
    SmallCall call;
    call.g[5] = 0.5f;
    EXPECT_EQ(gdn_forward(trusting.get(), &call.args, nullptr, 0), GDN_STATUS_OK);
    call.poison();
    EXPECT_EQ(gdn_forward(checking.get(), &call.args, nullptr, 0), GDN_STATUS_INVALID_VALUE);
    EXPECT_THAT(gdn_last_error(), HasSubstr("g is 0.5 at sequence 0, token 0, head 0, channel 5"));
    EXPECT_TRUE(call.poisoned());
    call.g[5] = -INFINITY;  // an exact reset
    EXPECT_EQ(gdn_forward(checking.get(), &call.args, nullptr, 0), GDN_STATUS_OK) << gdn_last_error();
    call.args.decay = GDN_DECAY_LINEAR;
    for (float &x : call.g) x = 0.5f;
    EXPECT_EQ(gdn_forward(checking.get(), &call.args, nullptr, 0), GDN_STATUS_OK) << gdn_last_error();
    call.g.back() = -1e-3f;
    EXPECT_EQ(gdn_forward(checking.get(), &call.args, nullptr, 0), GDN_STATUS_INVALID_VALUE);
    EXPECT_THAT(gdn_last_error(), HasSubstr("sequence 1, token 19, head 3, channel 31"));
}

}  // namespace
