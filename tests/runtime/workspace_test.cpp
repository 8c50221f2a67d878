// Workspace: how much, whose, and that nothing else is allocated.
#include <gtest/gtest.h>

#include <cstdlib>

#include "call.h"

using namespace gdn_test;

namespace {

struct Counting {
    int allocations = 0, live = 0;
    std::size_t bytes = 0;
    bool refuse = false;
};

gdn_context_options counted(Counting &counting, int threads) {
    gdn_context_options options = options_with_threads(threads);
    options.alloc_user = &counting;
    options.alloc = [](void *user, std::size_t bytes, std::size_t alignment) -> void * {
        Counting &c = *static_cast<Counting *>(user);
        if (c.refuse) return nullptr;
        c.allocations++;
        c.live++;
        c.bytes += bytes;
        return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    };
    options.free = [](void *user, void *memory, std::size_t bytes) {
        Counting &c = *static_cast<Counting *>(user);
        c.live--;
        c.bytes -= bytes;
        std::free(memory);
    };
    return options;
}

std::size_t bytes_of(gdn_context *context, const SmallCall &call) {
    std::size_t bytes = 0;
    EXPECT_EQ(gdn_workspace_size(context, &call.args, &bytes), GDN_STATUS_OK) << gdn_last_error();
    return bytes;
}

TEST(Workspace, IndependentOfTokensAndBelow256KiB) {
    for (const gdn_variant variant : {GDN_VARIANT_DELTA_RULE, GDN_VARIANT_GLA, GDN_VARIANT_GDN, GDN_VARIANT_KDA, GDN_VARIANT_GDN2,
             GDN_VARIANT_FG2, GDN_VARIANT_FG2_PLUS})
        for (const int threads : {1, 4})
            for (int mode = 0; mode < 12; mode++) {
                CallSize size;
                size.B = 1, size.T = 3, size.H = 4, size.HV = 8, size.K = size.V = 128;
                SmallCall call(size, variant);
                if (mode & 1) call.args.final_state = {};
                if (mode & 2) call.args.state_layout = GDN_STATE_V_FIRST;
                if (mode & 4) {  // everything through maps
                    call.args.gate = GDN_GATE_LOGIT;
                    call.args.qk_l2norm = 1;
                    if (call.args.g.data) call.args.decay = GDN_DECAY_LOWER_BOUND;
                }
                if (mode & 8)
                    for (gdn_tensor *t : {&call.args.q, &call.args.k, &call.args.v, &call.args.o}) t->dtype = GDN_DTYPE_F16;
                std::uintptr_t address = std::uintptr_t{1} << 40;  // sizes are asked for, no tensor is read
                ContextPtr context = make_context(threads);
                const std::size_t few = bytes_of(context.get(), call);
                EXPECT_LT(few, static_cast<std::size_t>(threads) << 18) << variant << " mode " << mode;
                for (gdn_tensor *t : {&call.args.q, &call.args.k, &call.args.v, &call.args.g, &call.args.beta, &call.args.b, &call.args.w,
                         &call.args.beta_k, &call.args.beta_v, &call.args.o})
                    if (t->data) t->shape[1] = 100000, t->data = reinterpret_cast<void *>(address += std::uintptr_t{1} << 40);
                EXPECT_EQ(bytes_of(context.get(), call), few);
            }
}

TEST(Workspace, TooSmallOrMisaligned) {
    ContextPtr context = make_context();
    SmallCall call;
    const std::size_t bytes = bytes_of(context.get(), call);
    std::vector<char> memory(bytes + 128);
    char *aligned = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
    EXPECT_EQ(gdn_forward(context.get(), &call.args, aligned, bytes - 1), GDN_STATUS_WORKSPACE_TOO_SMALL);
    EXPECT_NE(std::string(gdn_last_error()).find(std::to_string(bytes)), std::string::npos);
    EXPECT_EQ(gdn_forward(context.get(), &call.args, aligned + 4, bytes), GDN_STATUS_INVALID_ARGUMENT);
    EXPECT_EQ(gdn_forward(context.get(), &call.args, nullptr, bytes), GDN_STATUS_INVALID_ARGUMENT);
    EXPECT_TRUE(call.poisoned());
    EXPECT_EQ(gdn_forward(context.get(), &call.args, aligned, bytes), GDN_STATUS_OK) << gdn_last_error();
    EXPECT_TRUE(call.filled());
}

TEST(Workspace, NothingIsAllocatedAfterTheFirstCallOfAShape) {
    Counting counting;
    {
        ContextPtr context = make_context(counted(counting, 2));
        ASSERT_NE(context, nullptr);
        SmallCall call;
        ASSERT_EQ(gdn_forward(context.get(), &call.args, nullptr, 0), GDN_STATUS_OK);
        const int after_first = counting.allocations;
        for (int i = 0; i < 5; i++) ASSERT_EQ(gdn_forward(context.get(), &call.args, nullptr, 0), GDN_STATUS_OK);
        CallSize longer;
        longer.T = 300;
        SmallCall other(longer);
        ASSERT_EQ(gdn_forward(context.get(), &other.args, nullptr, 0), GDN_STATUS_OK);
        EXPECT_EQ(counting.allocations, after_first);
    }
    EXPECT_EQ(counting.live, 0);
    EXPECT_EQ(counting.bytes, 0u);
}

TEST(Workspace, StepWithWorkspaceAllocatesNothing) {
    Counting counting;
    ContextPtr context = make_context(counted(counting, 1));
    CallSize size;
    size.T = 1;
    SmallCall call(size);
    std::size_t bytes = bytes_of(context.get(), call);
    void *memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    const int before = counting.allocations;
    for (int i = 0; i < 3; i++) ASSERT_EQ(gdn_step(context.get(), &call.args, memory, bytes), GDN_STATUS_OK) << gdn_last_error();
    EXPECT_EQ(counting.allocations, before);
    EXPECT_TRUE(call.filled());
    std::free(memory);
}

TEST(Workspace, AllocatorThatRefuses) {
    Counting counting;
    counting.refuse = true;
    gdn_context *none = nullptr;
    gdn_context_options options = counted(counting, 1);
    EXPECT_EQ(gdn_context_create(&options, &none), GDN_STATUS_OUT_OF_MEMORY);
    EXPECT_EQ(none, nullptr);
    counting.refuse = false;
    ContextPtr context = make_context(options);
    SmallCall call;
    counting.refuse = true;
    EXPECT_EQ(gdn_forward(context.get(), &call.args, nullptr, 0), GDN_STATUS_OUT_OF_MEMORY);
    EXPECT_TRUE(call.poisoned());
    EXPECT_EQ(gdn_set_target(context.get(), "auto"), GDN_STATUS_OUT_OF_MEMORY);
    counting.refuse = false;
    EXPECT_EQ(gdn_forward(context.get(), &call.args, nullptr, 0), GDN_STATUS_OK) << gdn_last_error();
}

}  // namespace
