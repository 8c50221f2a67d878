// Very long sequences: 2^20 tokens behind 64-bit offsets, R20's T = 32769 in fp16, R21's 131073 tokens in pieces.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "../support/case.h"
#include "../support/dtype.h"
#include "../support/grid.h"
#include "../support/random.h"
#include "../support/repeated_mapping.h"

namespace gdn_test {
namespace {

class OperatorLong : public ::testing::TestWithParam<std::string> {};

// K = V = 16, one head. The tokens of q and o (f32) or of k, v and g (f16) lie so far apart that the last one is 2^33 elements away; the
// memory behind every tensor repeats after `period` tokens, so that it is small. o repeats too: what is left of it at the end are its last
// `period` tokens.
void million_tokens(const std::string &target, gdn_dtype dtype) {
    const std::int64_t T = std::int64_t{1} << (small_budget() ? 16 : 20), period = 512, K = 16;
    const std::int64_t far = (std::int64_t{1} << 33) / T, near = 16, stride_f32 = dtype == GDN_DTYPE_F32 ? far : near,
                       stride_f16 = dtype == GDN_DTYPE_F16 ? far : near;
    const auto bytes = static_cast<std::int64_t>(dtype_bytes(dtype));

    gdn_reference::Operands x;
    x.variant = GDN_VARIANT_KDA;
    x.B = x.H = x.HV = 1;
    x.T = period;
    x.K = x.V = K;
    Random random(20);
    std::vector<std::unique_ptr<RepeatedMapping>> mappings;
    gdn_args args;
    gdn_args_init(&args);
    args.variant = GDN_VARIANT_KDA;
    const auto tensor = [&](gdn_reference::Array *array, std::int64_t channels, gdn_tensor &view, std::int64_t stride, auto draw) {
        const auto piece = static_cast<std::size_t>(period * stride * bytes);
        mappings.push_back(std::make_unique<RepeatedMapping>(piece, static_cast<std::size_t>(T / period)));
        unsigned char *data = mappings.back()->data();
        view.data = data;
        view.dtype = dtype;
        view.ndim = channels == 0 ? 3 : 4;
        const std::int64_t shape[] = {1, T, 1, channels}, strides[] = {T * stride, stride, stride, 1};
        for (int i = 0; i < view.ndim; i++) {
            view.shape[i] = shape[i];
            view.strides[i] = i == view.ndim - 1 ? 1 : strides[i];
        }
        if (!data || !array) return;
        array->T = period;
        array->heads = 1;
        array->channels = std::max<std::int64_t>(channels, 1);
        std::vector<double> row(static_cast<std::size_t>(array->channels));
        for (std::int64_t t = 0; t < period; t++) {
            draw(row);
            for (std::size_t c = 0; c < row.size(); c++) {
                array->data.push_back(rounded(dtype, static_cast<float>(row[c])));
                store_element(dtype, data + (t * stride + static_cast<std::int64_t>(c)) * bytes, array->data.back());
            }
        }
    };
    const auto unit = [&](std::vector<double> &row) {
        double sum = 0;
        for (double &value : row) {
            value = random.normal();
            sum += value * value;
        }
        for (double &value : row) value /= std::sqrt(sum);
    };
    tensor(&x.q, K, args.q, stride_f32, unit);
    tensor(&x.k, K, args.k, stride_f16, unit);
    tensor(&x.v, K, args.v, stride_f16, [&](std::vector<double> &row) {
        for (double &value : row) value = random.normal();
    });
    tensor(&x.g, K, args.g, stride_f16, [&](std::vector<double> &row) {
        for (double &value : row) value = -random.log_uniform(1e-6, 1e-3);
    });
    tensor(&x.beta, 0, args.beta, near, [&](std::vector<double> &row) { row[0] = random.uniform(); });
    tensor(nullptr, K, args.o, stride_f32, unit);
    for (const auto &mapping : mappings)
        if (!mapping->data()) GTEST_SKIP() << "no address space for 2^33 elements";
    HostTensor final_state(GDN_DTYPE_F32, {1, 1, K, K});
    args.final_state = final_state.view();

    const Context context(target);
    gdn_args shown = args;
    std::size_t at_T = 0, at_64 = 0;
    ASSERT_EQ(gdn_workspace_size(context.get(), &shown, &at_T), GDN_STATUS_OK) << gdn_last_error();
    shown = time_slice(args, 0, 64);
    ASSERT_EQ(gdn_workspace_size(context.get(), &shown, &at_64), GDN_STATUS_OK) << gdn_last_error();
    EXPECT_EQ(at_T, at_64) << "the workspace depends on T";

    // GDN_CHECK_VALUES is off in this context: it would read the whole range once more.
    gdn_context_options options;
    gdn_context_options_init(&options);
    options.target = target.c_str();
    options.num_threads = 1;
    gdn_context *plain = nullptr;
    ASSERT_EQ(gdn_context_create(&options, &plain), GDN_STATUS_OK);
    const gdn_status status = gdn_forward(plain, &args, nullptr, 0);
    gdn_context_destroy(plain);
    ASSERT_EQ(status, GDN_STATUS_OK) << gdn_last_error();

    // The reference walks the same period again and again.
    std::vector<double> state(static_cast<std::size_t>(K * K)), o(static_cast<std::size_t>(period * K));
    gdn_reference::Raw raw;
    std::vector<gdn_reference::Token> tokens(static_cast<std::size_t>(period), gdn_reference::Token(K, K));
    for (std::int64_t t = 0; t < period; t++) {
        gdn_reference::read_token(x, 0, t, 0, raw);
        gdn_reference::apply_variant(x.variant, raw, tokens[static_cast<std::size_t>(t)]);
    }
    for (std::int64_t t = 0; t < T; t++)
        gdn_reference::recur(tokens[static_cast<std::size_t>(t % period)], 0.25, state.data(), o.data() + t % period * K);

    ErrorSum o_sum, S_sum;
    for (std::int64_t t = 0; t < period; t++)
        for (std::int64_t d = 0; d < K; d++)
            o_sum.add(load_element(dtype, static_cast<unsigned char *>(args.o.data) + (t * stride_f32 + d) * bytes),
                o[static_cast<std::size_t>(t * K + d)]);
    const std::vector<float> given = final_state.read();
    for (std::size_t i = 0; i < given.size(); i++) S_sum.add(given[i], state[i]);
    EXPECT_TRUE(o_sum.error().within(dtype == GDN_DTYPE_F32 ? kBoundF32 : kBound16)) << o_sum.error().rms;
    EXPECT_TRUE(S_sum.error().within(kBoundF32)) << S_sum.error().rms;
}

TEST_P(OperatorLong, MillionTokensF32) { million_tokens(GetParam(), GDN_DTYPE_F32); }
TEST_P(OperatorLong, MillionTokensF16) { million_tokens(GetParam(), GDN_DTYPE_F16); }

// The error must not grow with T: the first and the last 1024 tokens are judged alike.
TEST_P(OperatorLong, R20_Fp16_32769) {
    for (gdn_variant variant : {GDN_VARIANT_GDN, GDN_VARIANT_KDA, GDN_VARIANT_GDN2}) {
        Case c;
        c.variant = variant;
        c.dtype = GDN_DTYPE_F16;
        c.K = c.V = 16;
        c.lengths = {small_budget() ? 4097 : 32769};
        c.inputs = Inputs::kWeakDecay;
        Problem problem(c);
        const Context context(GetParam());
        ASSERT_EQ(problem.run(context), GDN_STATUS_OK) << gdn_last_error();
        const auto expected = reference_of(c, problem);
        EXPECT_TRUE(problem.check(*expected, GetParam()));
        const std::vector<float> o = problem.o.read();
        const std::size_t part = 1024 * 16;
        ErrorSum first, last;
        for (std::size_t i = 0; i < part; i++) first.add(o[i], expected->o[i]);
        for (std::size_t i = o.size() - part; i < o.size(); i++) last.add(o[i], expected->o[i]);
        EXPECT_LT(last.error().rms, 2 * first.error().rms);
    }
}

TEST_P(OperatorLong, R21_PiecesOf4096) {
    for (gdn_dtype dtype : {GDN_DTYPE_F16, GDN_DTYPE_F32}) {
        Case c;
        c.variant = GDN_VARIANT_GDN;
        c.dtype = dtype;
        c.K = c.V = 16;
        c.lengths = {small_budget() ? 8193 : 131073};
        c.inputs = Inputs::kWeakDecay;
        Problem problem(c);
        const Context context(GetParam());
        for (std::int64_t t = 0; t < c.total(); t += 4096) {
            gdn_args args = time_slice(problem.args(), t, std::min<std::int64_t>(4096, c.total() - t));
            if (t > 0) args.initial_state = args.final_state;  // in place from the second piece on
            ASSERT_EQ(gdn_forward(context.get(), &args, nullptr, 0), GDN_STATUS_OK) << gdn_last_error();
        }
        EXPECT_TRUE(problem.check(*reference_of(c, problem), GetParam()));
    }
}

INSTANTIATE_TEST_SUITE_P(All, OperatorLong, ::testing::ValuesIn(targets()), [](const auto &info) { return info.param; });

// A stride that a kernel's 32-bit index cannot reach within its group of tokens is refused, not wrapped.
TEST(OperatorLongStride, Refused) {
    Case c;
    c.lengths = {16};
    Problem problem(c);
    gdn_args args = problem.args();
    args.q.strides[1] = std::int64_t{1} << 31;
    args.q.strides[0] = std::int64_t{1} << 40;
    const Context context;
    EXPECT_NE(gdn_forward(context.get(), &args, nullptr, 0), GDN_STATUS_OK);
    EXPECT_NE(std::string(gdn_last_error()).find("q"), std::string::npos) << gdn_last_error();
    EXPECT_TRUE(problem.untouched());
    EXPECT_EQ(problem.run(context), GDN_STATUS_OK) << gdn_last_error();
}

}  // namespace
}  // namespace gdn_test
