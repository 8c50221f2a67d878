// A sequence's result does not depend on its company: bit for bit the same alone, in a batch, packed, among other heads, with any threads.
#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "../support/case.h"
#include "../support/grid.h"

namespace gdn_test {
namespace {

class OperatorInvariance : public ::testing::TestWithParam<Run> {};

std::vector<Case> companies() {
    std::vector<Case> cases;
    int i = 0;
    for (const Size &size : {Size{64, 64}, Size{128, 128}, Size{48, 80}, Size{96, 192}, Size{24, 24}})
        for (gdn_variant variant : kVariants)
            for (std::int64_t T : {1, 3, 7, 37, 64}) {
                if (variant == GDN_VARIANT_FG2 && size.K != size.V) continue;
                Case c;
                c.variant = variant;
                c.K = size.K;
                c.V = size.V;
                c.H = 2;
                c.HV = 4;
                c.lengths = {T, T, T};
                c.dtype = kDtypes[i % 3];
                c.v_first = i % 7 == 0;
                c.gate = i % 2 ? GDN_GATE_LOGIT : GDN_GATE_VALUE;
                c.l2norm = i++ % 2;
                cases.push_back(c);
            }
    return within_budget(cases, 9);
}

// Bits of the part of a call that `part` names, taken from its own tensors.
std::vector<unsigned char> run_part(const Context &context, Problem &problem, const gdn_args &part) {
    problem.reset();
    EXPECT_EQ(gdn_forward(context.get(), &part, nullptr, 0), GDN_STATUS_OK) << gdn_last_error();
    return problem.output_bits();
}

// Everything that `given` wrote (anything but 0xFF) is what `whole` has there.
::testing::AssertionResult agrees_where_written(const std::vector<unsigned char> &given, const std::vector<unsigned char> &whole) {
    std::size_t written = 0;
    for (std::size_t i = 0; i + 2 <= given.size(); i += 2) {
        if (given[i] == 0xFF && given[i + 1] == 0xFF) continue;
        written++;
        if (given[i] != whole[i] || given[i + 1] != whole[i + 1])
            return ::testing::AssertionFailure() << "bytes at " << i << " of o and the states differ";
    }
    if (written == 0) return ::testing::AssertionFailure() << "nothing was written";
    return ::testing::AssertionSuccess();
}

TEST_P(OperatorInvariance, AloneInBatchPackedAmongHeads) {
    const Case &c = GetParam().c;
    const Context context(GetParam().target);
    Problem problem(c);
    ASSERT_EQ(problem.run(context), GDN_STATUS_OK) << gdn_last_error();
    const std::vector<unsigned char> whole = problem.output_bits();
    for (std::int64_t n = 0; n < 3; n++)
        EXPECT_TRUE(agrees_where_written(run_part(context, problem, batch_slice(problem.args(), n, 1)), whole))
            << "sequence " << n << " alone";
    for (std::int64_t h = 0; h < 2; h++)
        EXPECT_TRUE(agrees_where_written(run_part(context, problem, head_slice(problem.args(), h)), whole)) << "head " << h << " alone";

    // The batch packed, with empty sequences between.
    gdn_args packed = problem.args();
    for (gdn_tensor *tensor :
        {&packed.q, &packed.k, &packed.v, &packed.g, &packed.beta, &packed.b, &packed.w, &packed.beta_k, &packed.beta_v, &packed.o}) {
        tensor->shape[1] *= tensor->shape[0];
        tensor->shape[0] = tensor->data ? 1 : 0;
    }
    HostTensor cu(GDN_DTYPE_I32, {4});
    cu.fill_integers({0, c.total(), 2 * c.total(), 3 * c.total()});
    packed.cu_seqlens = cu.view();
    EXPECT_TRUE(run_part(context, problem, packed) == whole) << "packed";
}

TEST_P(OperatorInvariance, Threads) {
    const Case &c = GetParam().c;
    Problem problem(c);
    ASSERT_EQ(problem.run(Context(GetParam().target, 1)), GDN_STATUS_OK) << gdn_last_error();
    const std::vector<unsigned char> whole = problem.output_bits();
    for (int threads : {2, 4}) {
        const Context context(GetParam().target, threads);
        EXPECT_TRUE(run_part(context, problem, problem.args()) == whole) << threads << " threads";
    }
    // A pool of the caller's that starts from the end, and one with a thread per task.
    gdn_context_options options;
    gdn_context_options_init(&options);
    options.parallel_for = [](void *, std::int64_t n, void (*body)(void *, std::int64_t), void *arg) {
        for (std::int64_t i = n - 1; i >= 0; i--) body(arg, i);
    };
    EXPECT_TRUE(run_part(Context(GetParam().target, 4, &options), problem, problem.args()) == whole) << "backwards";
    options.parallel_for = [](void *, std::int64_t n, void (*body)(void *, std::int64_t), void *arg) {
        std::vector<std::thread> threads;
        for (std::int64_t i = 0; i < n; i++) threads.emplace_back(body, arg, i);
        for (std::thread &thread : threads) thread.join();
    };
    EXPECT_TRUE(run_part(Context(GetParam().target, 4, &options), problem, problem.args()) == whole) << "a thread per task";
}

INSTANTIATE_TEST_SUITE_P(All, OperatorInvariance, ::testing::ValuesIn(on_targets(companies())), run_name);

// Fewer heads than threads: columns of V are shared out.
class OperatorSlices : public ::testing::TestWithParam<Run> {};

std::vector<Case> slices() {
    std::vector<Case> cases;
    int i = 0;
    for (const Size &size : {Size{64, 64}, Size{128, 128}, Size{256, 256}, Size{128, 256}, Size{96, 192}, Size{48, 80}})
        for (gdn_variant variant : kVariants)
            for (std::int64_t T : {1, 3, 40, 43}) {
                if (variant == GDN_VARIANT_FG2 && size.K != size.V) continue;
                Case c;
                c.variant = variant;
                c.K = size.K;
                c.V = size.V;
                c.lengths = {T};
                c.dtype = i % 4 ? GDN_DTYPE_F32 : GDN_DTYPE_BF16;
                c.v_first = i % 5 == 0;
                c.in_place = i % 3 == 0;
                c.n_snapshots = i++ % 3 == 1 ? 2 : 0;
                cases.push_back(c);
            }
    return within_budget(cases, 7);
}

TEST_P(OperatorSlices, Bitwise) {
    Problem problem(GetParam().c);
    ASSERT_EQ(problem.run(Context(GetParam().target, 1)), GDN_STATUS_OK) << gdn_last_error();
    const std::vector<unsigned char> whole = problem.output_bits();
    for (int threads : {2, 3, 4})
        for (const char *least : {"16", "32", "64"}) {
            Context context(GetParam().target, threads);
            context.apply(std::string("core_chunk.v_slice_min ") + least + "\ncore_step.v_slice_min " + least + "\n");
            problem.reset();
            ASSERT_EQ(problem.run(context), GDN_STATUS_OK) << gdn_last_error();
            EXPECT_TRUE(problem.output_bits() == whole) << threads << " threads, slices of at least " << least;
            EXPECT_TRUE(problem.untouched());
        }
}

INSTANTIATE_TEST_SUITE_P(All, OperatorSlices, ::testing::ValuesIn(on_targets(slices())), run_name);

// What only orders the work changes no bit.
TEST(OperatorRepeat, RunTimeParameters) {
    for (const std::string &target : targets())
        for (gdn_variant variant : {GDN_VARIANT_GDN, GDN_VARIANT_KDA, GDN_VARIANT_GDN2}) {
            Case c;
            c.variant = variant;
            c.H = 3;
            c.HV = 6;
            c.lengths = {75, 75};
            Problem problem(c);
            ASSERT_EQ(problem.run(Context(target)), GDN_STATUS_OK) << gdn_last_error();
            const std::vector<unsigned char> whole = problem.output_bits();
            for (const char *overrides : {"core_chunk.time_block 8\n", "core_chunk.time_block 128\n", "core_chunk.task_grain 1\n",
                     "core_chunk.task_grain 3\ncore_chunk.time_block 16\n", "core_chunk.fetch_ahead 0\n", "core_chunk.fetch_ahead 2\n",
                     "core_chunk.fetch_ahead 8\ncore_chunk.time_block 8\n"})
                for (int threads : {1, 3}) {
                    Context context(target, threads);
                    context.apply(overrides);
                    problem.reset();
                    ASSERT_EQ(problem.run(context), GDN_STATUS_OK) << gdn_last_error();
                    EXPECT_TRUE(problem.output_bits() == whole) << target << " " << overrides;
                }
        }
}

// R109: the same call twice.
TEST(OperatorRepeat, Repeats) {
    for (const std::string &target : targets()) {
        const Context context(target, 3);
        Case c;
        c.variant = GDN_VARIANT_GDN2;
        c.H = c.HV = 5;
        c.lengths = {61, 61};
        Problem problem(c);
        ASSERT_EQ(problem.run(context), GDN_STATUS_OK) << gdn_last_error();
        const std::vector<unsigned char> first = problem.output_bits();
        for (int i = 0; i < 10; i++) {
            problem.reset();
            ASSERT_EQ(problem.run(context), GDN_STATUS_OK) << gdn_last_error();
            ASSERT_TRUE(problem.output_bits() == first);
        }
    }
}

// Blocks with snapshots are another arithmetic than steps: threads must not decide which of them runs.
TEST(OperatorSnapshots, ThreadsGiveTheSameBits) {
    for (const std::string &target : targets()) {
        Case c;
        c.K = c.V = 128;
        c.lengths = {264};
        c.n_snapshots = 8;
        std::vector<unsigned char> bits;
        for (int threads : {1, 2, 4}) {
            Problem problem(c);
            problem.reset();
            ASSERT_EQ(problem.run(Context(target, threads)), GDN_STATUS_OK) << gdn_last_error();
            if (threads == 1) bits = problem.output_bits();
            EXPECT_EQ(problem.output_bits(), bits) << target << ", " << threads << " threads";
        }
    }
}

}  // namespace
}  // namespace gdn_test
