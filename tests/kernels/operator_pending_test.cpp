// Decoding in one pass: the last token's write stays pending until the next call.
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "../support/case.h"
#include "../support/grid.h"
#include "../support/pending_writes.h"

namespace gdn_test {
namespace {

std::vector<Case> cases() {
    std::vector<Case> all;
    for (const Size &size : kSizes)
        for (gdn_variant variant : kVariants)
            for (gdn_dtype dtype : {GDN_DTYPE_F32, GDN_DTYPE_BF16})
                for (bool v_first : {false, true}) {
                    if (variant == GDN_VARIANT_FG2 && size.K != size.V) continue;
                    if (dtype != GDN_DTYPE_F32 && size.K != 128 && size.K != 48) continue;
                    Case c;
                    c.variant = variant;
                    c.dtype = dtype;
                    c.K = size.K;
                    c.V = size.V;
                    c.H = 2;
                    c.HV = 4;
                    c.lengths = {9, 9};
                    c.v_first = v_first;
                    c.slots = variant == GDN_VARIANT_GDN2;
                    c.padded = variant == GDN_VARIANT_GDN || v_first;
                    c.initial = variant != GDN_VARIANT_DELTA_RULE;
                    all.push_back(c);
                }
    return within_budget(all, 9);
}

class OperatorPending : public ::testing::TestWithParam<Run> {};

// Steps with pending writes, then T = 0, give the reference's outputs and states; and the bits of o that steps without give.
TEST_P(OperatorPending, StepsMatchReferenceAndPlainSteps) {
    const Case &c = GetParam().c;
    Problem problem(c), plain(c);
    const Context context(GetParam().target);
    const auto expected = reference_of(c, problem);
    PendingWrites writes(problem), none(plain);
    for (std::int64_t t = 0; t < c.lengths[0]; t++) {
        ASSERT_EQ(writes.step(context, t), GDN_STATUS_OK) << gdn_last_error();
        ASSERT_EQ(none.step(context, t, false), GDN_STATUS_OK) << gdn_last_error();
    }
    ASSERT_EQ(writes.forward(context, 0, 0, false), GDN_STATUS_OK) << gdn_last_error();
    EXPECT_TRUE(problem.check(*expected, GetParam().target));
    EXPECT_EQ(problem.o.bits(), plain.o.bits());
}

// From steps into a chunk and back into steps.
TEST_P(OperatorPending, OtherLengthsApplyWhatIsPending) {
    const Case &c = GetParam().c;
    for (std::int64_t middle : {2, 8}) {
        Case longer = c;
        longer.lengths = {2 + middle + 2, 2 + middle + 2};
        Problem problem(longer);
        const Context context(GetParam().target);
        const auto expected = reference_of(longer, problem);
        PendingWrites writes(problem);
        ASSERT_EQ(writes.step(context, 0), GDN_STATUS_OK) << gdn_last_error();
        ASSERT_EQ(writes.step(context, 1), GDN_STATUS_OK) << gdn_last_error();
        ASSERT_EQ(writes.forward(context, 2, middle, true), GDN_STATUS_OK) << gdn_last_error();
        ASSERT_EQ(writes.step(context, 2 + middle), GDN_STATUS_OK) << gdn_last_error();
        ASSERT_EQ(writes.step(context, 3 + middle), GDN_STATUS_OK) << gdn_last_error();
        ASSERT_EQ(writes.forward(context, 0, 0, true), GDN_STATUS_OK) << gdn_last_error();
        EXPECT_TRUE(problem.check(*expected, GetParam().target)) << middle;
    }
}

// One token without final_pending: the state comes back whole.
TEST_P(OperatorPending, AStepWithoutItSettles) {
    Case c = GetParam().c;
    c.lengths = {3, 3};
    Problem problem(c);
    const Context context(GetParam().target);
    const auto expected = reference_of(c, problem);
    PendingWrites writes(problem);
    ASSERT_EQ(writes.step(context, 0), GDN_STATUS_OK) << gdn_last_error();
    ASSERT_EQ(writes.step(context, 1), GDN_STATUS_OK) << gdn_last_error();
    ASSERT_EQ(writes.forward(context, 2, 1, false), GDN_STATUS_OK) << gdn_last_error();
    EXPECT_TRUE(problem.check(*expected, GetParam().target));
}

// In place and out of place give the same bits, for every shipped kernel.
TEST_P(OperatorPending, InPlaceIsOutOfPlace) {
    Case c = GetParam().c;
    c.initial = true;
    c.slots = false;
    c.lengths = {2, 2};
    Problem problem(c);
    const Context context(GetParam().target);
    PendingWrites writes(problem);
    ASSERT_EQ(writes.step(context, 0), GDN_STATUS_OK) << gdn_last_error();
    HostTensor state(GDN_DTYPE_F32, problem.final_state.shape()), rows(GDN_DTYPE_F32, writes.rows().shape());
    state.poison();
    rows.poison();
    gdn_args apart = time_slice(problem.args(), 1, 1);
    PendingWrites::from_final(&apart);
    apart.final_state = state.view();
    apart.initial_pending = writes.rows().view();
    apart.final_pending = rows.view();
    ASSERT_EQ(gdn_step(context.get(), &apart, nullptr, 0), GDN_STATUS_OK) << gdn_last_error();
    const auto o = problem.o.bits();
    ASSERT_EQ(writes.step(context, 1), GDN_STATUS_OK) << gdn_last_error();
    EXPECT_EQ(o, problem.o.bits());
    EXPECT_EQ(state.bits(), problem.final_state.bits());
    EXPECT_EQ(rows.bits(), writes.rows().bits());
}

INSTANTIATE_TEST_SUITE_P(All, OperatorPending, ::testing::ValuesIn(on_targets(cases())), run_name);

// Sequences of every length class in one call, on more threads than heads.
TEST(OperatorPendingPacked, EveryLengthClass) {
    for (const std::string &target : targets()) {
        Case c;
        c.variant = GDN_VARIANT_GDN2;
        c.K = c.V = 64;
        c.lengths = {1, 1, 1, 1};
        Problem before(c);
        const Context context(target, 3);
        PendingWrites writes(before);
        ASSERT_EQ(writes.step(context, 0), GDN_STATUS_OK) << gdn_last_error();
        HostTensor settled(GDN_DTYPE_F32, before.final_state.shape());
        gdn_args settle = time_slice(before.args(), 0, 0);
        PendingWrites::from_final(&settle);
        settle.initial_pending = writes.rows().view();
        settle.final_state = settled.view();
        ASSERT_EQ(gdn_forward(context.get(), &settle, nullptr, 0), GDN_STATUS_OK) << gdn_last_error();

        Case packed = c;
        packed.packed = true;
        packed.lengths = {1, 0, 5, 100};
        packed.seed = 7;
        Problem with(packed), without(packed);
        gdn_args a = with.args(), b = without.args();
        a.initial_state = before.final_state.view();
        a.initial_pending = writes.rows().view();
        HostTensor rows(GDN_DTYPE_F32, writes.rows().shape());
        a.final_pending = rows.view();
        b.initial_state = settled.view();
        ASSERT_EQ(gdn_forward(context.get(), &a, nullptr, 0), GDN_STATUS_OK) << gdn_last_error();
        gdn_args finish = time_slice(before.args(), 0, 0);
        finish.initial_state = a.final_state;
        finish.final_state = a.final_state;
        finish.initial_pending = finish.final_pending = rows.view();
        ASSERT_EQ(gdn_forward(context.get(), &finish, nullptr, 0), GDN_STATUS_OK) << gdn_last_error();
        ASSERT_EQ(gdn_forward(context.get(), &b, nullptr, 0), GDN_STATUS_OK) << gdn_last_error();
        const auto close = [](const HostTensor &x, const HostTensor &y) {
            const auto given = x.read(), expected = y.read();
            ErrorSum sum;
            for (std::size_t i = 0; i < given.size(); i++) sum.add(given[i], expected[i]);
            return sum.error().rms;
        };
        EXPECT_LE(close(with.o, without.o), 1e-6) << target;
        EXPECT_LE(close(with.final_state, without.final_state), 1e-6) << target;
    }
}

// A NaN in one head stays there.
TEST(OperatorPendingNan, StaysInItsHead) {
    for (const std::string &target : targets()) {
        Case c;
        c.variant = GDN_VARIANT_KDA;
        c.K = c.V = 64;
        c.H = c.HV = 2;
        c.lengths = {3};
        Problem clean(c), dirty(c);
        const Context context(target);
        PendingWrites a(clean), b(dirty);
        std::vector<float> v = dirty.v.read();
        v[static_cast<std::size_t>(1 * 2 * c.V)] = std::numeric_limits<float>::quiet_NaN();  // token 1, head 0
        dirty.v.fill(v);
        for (std::int64_t t = 0; t < 3; t++) {
            ASSERT_EQ(a.step(context, t), GDN_STATUS_OK);
            ASSERT_EQ(b.step(context, t), GDN_STATUS_OK);
        }
        const auto x = clean.o.read(), y = dirty.o.read();
        for (std::int64_t t = 0; t < 3; t++)
            for (std::int64_t h = 0; h < 2; h++)
                for (std::int64_t d = 0; d < c.V; d++) {
                    const auto i = static_cast<std::size_t>((t * 2 + h) * c.V + d);
                    if (t == 0 || h == 1) {
                        EXPECT_EQ(x[i], y[i]) << target << " token " << t << " head " << h;
                    }
                }
        EXPECT_TRUE(std::isnan(y[static_cast<std::size_t>(1 * 2 * c.V)]));
    }
}

TEST(OperatorPendingErrors, AreNamed) {
    Case c;
    c.K = c.V = 16;
    c.lengths = {1};
    Problem problem(c);
    const Context context;
    HostTensor rows(GDN_DTYPE_F32, {1, 1, 48}), narrow(GDN_DTYPE_F32, {1, 1, 47});
    const auto fails = [&](const gdn_args &args, const std::string &text) {
        const auto before = problem.output_bits();
        EXPECT_EQ(gdn_step(context.get(), &args, nullptr, 0), GDN_STATUS_INVALID_ARGUMENT);
        EXPECT_NE(std::string(gdn_last_error()).find(text), std::string::npos) << gdn_last_error();
        EXPECT_EQ(before, problem.output_bits());
    };
    gdn_args args = problem.args();
    args.final_pending = narrow.view();
    fails(args, "final_pending has shape [1, 1, 47], expected [1, 1, 48]");
    args.final_pending = rows.view();
    args.final_pending.dtype = GDN_DTYPE_BF16;
    fails(args, "final_pending has dtype bf16");
    args.final_pending = rows.view();
    args.final_pending.data = args.q.data;
    fails(args, "final_pending overlaps q");
    args.final_pending = rows.view();
    args.initial_pending = rows.view();
    args.initial_state.data = nullptr;
    args.initial_state.ndim = 0;
    args.initial_state.dtype = GDN_DTYPE_NONE;
    fails(args, "initial_pending is given, but initial_state is absent");
    args = problem.args();
    args.final_pending = rows.view();
    args.final_state = gdn_tensor{};
    fails(args, "final_pending is given, but final_state is absent");
}

}  // namespace
}  // namespace gdn_test
