// States: layouts, strides, slots, snapshots, in place, hand-over between calls.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "../support/case.h"
#include "../support/grid.h"

namespace gdn_test {
namespace {

class OperatorState : public ::testing::TestWithParam<Run> {};

TEST_P(OperatorState, MatchesReference) { EXPECT_TRUE(matches_reference(GetParam().c, GetParam().target)); }

// All ways that a state can come and go, at a size that runs on the caller's memory and at one that is padded inside.
std::vector<Case> states() {
    std::vector<Case> cases;
    for (const Size &size : {Size{32, 48}, Size{8, 24}, Size{128, 128}})
        for (gdn_variant variant : {GDN_VARIANT_GDN, GDN_VARIANT_KDA, GDN_VARIANT_GDN2})
            for (bool v_first : {false, true})
                for (int how = 0; how < 7; how++)
                    for (bool packed : {false, true}) {
                        Case c;
                        c.variant = variant;
                        c.K = size.K;
                        c.V = size.V;
                        c.H = size.K == 128 ? 1 : 2;
                        c.HV = 2 * c.H;
                        c.v_first = v_first;
                        c.packed = packed;
                        c.lengths = packed ? std::vector<std::int64_t>{11, 0, 1, 34} : std::vector<std::int64_t>{26, 26, 26, 26};
                        c.initial = how != 1 && how != 3;
                        c.final = how != 2 && how != 3;
                        c.in_place = how == 4 || how == 6;
                        c.slots = how == 5 || how == 6;
                        c.padded = (how + v_first + packed) % 2;
                        c.index_dtype = packed == v_first ? GDN_DTYPE_I32 : GDN_DTYPE_I64;
                        cases.push_back(c);
                    }
    return within_budget(cases, 5);
}

INSTANTIATE_TEST_SUITE_P(All, OperatorState, ::testing::ValuesIn(on_targets(states())), run_name);

std::vector<Case> snapshots() {
    std::vector<Case> cases;
    for (const Size &size : {Size{32, 48}, Size{8, 24}, Size{64, 64}})
        for (gdn_variant variant : {GDN_VARIANT_GDN, GDN_VARIANT_KDA, GDN_VARIANT_GDN2, GDN_VARIANT_FG2_PLUS})
            for (std::int64_t T : {1, 3, 8, 13, 40})
                for (std::int64_t n : {1, 3, 8, 16}) {
                    Case c;
                    c.variant = variant;
                    c.K = size.K;
                    c.V = size.V;
                    c.HV = 2;
                    c.lengths = {T, T};
                    c.n_snapshots = n;
                    c.packed = (T + n) % 2;
                    if (c.packed) c.lengths = {T, 0, 2};
                    c.v_first = n == 3;
                    c.padded = T == 13;
                    c.final = n != 16;
                    cases.push_back(c);
                }
    // The prefix cache's: the state at each multiple of 64.
    for (gdn_variant variant : {GDN_VARIANT_GDN, GDN_VARIANT_KDA, GDN_VARIANT_GDN2})
        for (std::int64_t T : {63, 64, 65, 200, 256})
            for (std::int64_t interval : {64, 128}) {
                Case c;
                c.variant = variant;
                c.K = 48;
                c.V = 32;
                c.lengths = {T, T};
                c.n_snapshots = 4;
                c.snapshot_kind = GDN_SNAPSHOT_BOUNDARIES;
                c.snapshot_interval = interval;
                c.v_first = variant == GDN_VARIANT_GDN2;
                c.padded = interval == 128;
                cases.push_back(c);
            }
    return within_budget(cases, 6);
}

INSTANTIATE_TEST_SUITE_P(Snapshots, OperatorState, ::testing::ValuesIn(on_targets(snapshots())), run_name);

class OnTarget : public ::testing::TestWithParam<std::string> {};
using StateHandOver = OnTarget;

// R102: reading slot 2 and writing slot 5 leaves slot 2 as it was, bit for bit (Problem::untouched() sees to it); R65: interleaved
// sequences in slots of one pool are the runs alone.
TEST_P(StateHandOver, InterleavedSlotsAreSeparateRuns) {
    const Context context(GetParam());
    Case c;
    c.variant = GDN_VARIANT_GDN2;
    c.K = 32;
    c.V = 48;
    c.lengths = {12, 12};
    c.H = 2;
    c.HV = 2;
    Problem separate(c);
    ASSERT_EQ(separate.run(context), GDN_STATUS_OK) << gdn_last_error();

    Problem pooled(c);
    HostTensor pool(GDN_DTYPE_F32, {4, c.HV, c.K, c.V}), slots(GDN_DTYPE_I32, {1});
    const std::int64_t size = c.HV * c.K * c.V;
    std::vector<float> values(static_cast<std::size_t>(4 * size), 7.0f);
    for (std::int64_t i = 0; i < size; i++) {
        values[static_cast<std::size_t>(i)] = separate.operands().initial_state[static_cast<std::size_t>(i)];
        values[static_cast<std::size_t>(3 * size + i)] = separate.operands().initial_state[static_cast<std::size_t>(size + i)];
    }
    pool.fill(values);
    for (std::int64_t t = 0; t < 12; t++)
        for (std::int64_t n : {0, 1}) {
            gdn_args args = time_slice(batch_slice(pooled.args(), n, 1), t, 1);
            slots.fill_integers({3 * n});
            args.initial_state = args.final_state = pool.view();
            args.initial_slots = args.final_slots = slots.view();
            ASSERT_EQ(gdn_step(context.get(), &args, nullptr, 0), GDN_STATUS_OK) << gdn_last_error();
        }
    // Steps against a block of 12: equal within the bound, not bit for bit.
    const std::vector<float> after = pool.read();
    for (std::int64_t n : {0, 1}) {
        const std::vector<float> expected = separate.state(n);
        ErrorSum sum;
        for (std::int64_t i = 0; i < size; i++)
            sum.add(after[static_cast<std::size_t>(3 * n * size + i)], expected[static_cast<std::size_t>(i)]);
        EXPECT_TRUE(sum.error().within(kBoundF32)) << sum.error().rms;
    }
    for (std::int64_t i = size; i < 3 * size; i++) ASSERT_EQ(after[static_cast<std::size_t>(i)], 7.0f);
}

// R61: a state's own bits survive a token that neither decays nor writes, whatever the tensors' dtype; R11: also a whole block of them.
TEST_P(StateHandOver, KeptBitExact) {
    const Context context(GetParam());
    for (gdn_variant variant : kVariants)
        for (gdn_dtype dtype : kDtypes)
            for (std::int64_t T : {1, 2, 3, 5, 8, 16, 37})
                for (bool v_first : {false, true}) {
                    if (variant == GDN_VARIANT_GLA) continue;  // always writes
                    Case c;
                    c.variant = variant;
                    c.dtype = dtype;
                    c.lengths = {T};
                    c.K = c.V = 32;
                    c.v_first = v_first;
                    Problem problem(c);
                    gdn_reference::Operands x = problem.operands();
                    for (auto array : {&x.g, &x.beta, &x.b, &x.w, &x.beta_k, &x.beta_v})
                        std::fill(array->data.begin(), array->data.end(), 0.0f);
                    for (std::size_t i = 0; i < x.initial_state.size(); i++)
                        x.initial_state[i] = (i % 2 ? -1.0f : 3.0f) + std::ldexp(1.0f, -20) * static_cast<float>(i % 7);
                    Problem still(c, x);
                    ASSERT_EQ(still.run(context), GDN_STATUS_OK) << gdn_last_error();
                    ASSERT_TRUE(still.state(0) == x.initial_state) << name(c);
                }
}

// R44: an initial state of zeros is no initial state, bit for bit; many short sequences and one long one.
TEST_P(StateHandOver, ZerosAreAbsent) {
    const Context context(GetParam(), 2);
    Case c;
    c.variant = GDN_VARIANT_KDA;
    c.K = c.V = 16;
    c.packed = true;
    c.lengths.assign(63, 1);
    c.lengths.push_back(small_budget() ? 513 : 4097);
    c.initial = false;
    Problem absent(c);
    ASSERT_EQ(absent.run(context), GDN_STATUS_OK) << gdn_last_error();
    c.initial = true;
    gdn_reference::Operands x = absent.operands();
    x.initial_state.assign(static_cast<std::size_t>(64 * 256), 0.0f);
    Problem zeros(c, x);
    ASSERT_EQ(zeros.run(context), GDN_STATUS_OK) << gdn_last_error();
    EXPECT_TRUE(absent.output_bits() == zeros.output_bits());
}

// R19: a large state read out through 16-bit storage goes to infinity by the storage's own rule, and only there.
TEST_P(StateHandOver, LargeStateIn16Bits) {
    const Context context(GetParam());
    Case c;
    c.variant = GDN_VARIANT_GDN;
    c.dtype = GDN_DTYPE_F16;
    c.K = c.V = 16;
    c.lengths = {3};
    c.scale = 1;
    Problem problem(c);
    gdn_reference::Operands x = problem.operands();
    for (auto array : {&x.g, &x.beta}) std::fill(array->data.begin(), array->data.end(), 0.0f);
    std::fill(x.initial_state.begin(), x.initial_state.end(), 0.0f);
    for (std::size_t i = 0; i < 16; i++) x.initial_state[i * 17] = 1e5f;
    for (std::size_t i = 0; i < x.q.data.size(); i++) x.q.data[i] = i % 16 == 3 ? 1.0f : i % 16 == 5 ? 0.5f : 0.0f;
    Problem big(c, x);
    ASSERT_EQ(big.run(context), GDN_STATUS_OK) << gdn_last_error();
    const std::vector<float> o = big.o.read();
    for (std::size_t i = 0; i < o.size(); i++) EXPECT_EQ(o[i], i % 16 == 3 ? INFINITY : i % 16 == 5 ? 49984.0f : 0.0f);
}

INSTANTIATE_TEST_SUITE_P(All, StateHandOver, ::testing::ValuesIn(targets()), [](const auto &info) { return info.param; });

}  // namespace
}  // namespace gdn_test
