// A NaN or infinity at token t of one head changes no output before t and no other head, and reaches the outputs that it must reach (R97).
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "../support/case.h"
#include "../support/dtype.h"
#include "../support/grid.h"

namespace gdn_test {
namespace {

constexpr std::int64_t kTokens = 27;  // three chunks of 8 and a ragged tail

struct Poison {
    const char *tensor;
    HostTensor *where;
    bool per_channel_of_v;  // only that column of o and S is reached
    bool only_this_token;   // q
};

class OperatorNan : public ::testing::TestWithParam<Run> {};

std::vector<Case> kernels() {
    std::vector<Case> cases;
    int i = 0;
    for (const Size &size : {Size{64, 64}, Size{128, 128}, Size{96, 192}, Size{128, 256}, Size{192, 192}, Size{256, 256}, Size{48, 80},
             Size{48, 64}, Size{8, 24}})
        for (gdn_variant variant : kVariants) {
            if (variant == GDN_VARIANT_FG2 && size.K != size.V) continue;
            const bool large = size.K * size.V > 128 * 128;
            // The large sizes differ in their cores only: one variant for each.
            if (large && variant != GDN_VARIANT_GDN && variant != GDN_VARIANT_KDA && variant != GDN_VARIANT_GDN2) continue;
            Case c;
            c.variant = variant;
            c.K = size.K;
            c.V = size.V;
            c.H = 2;
            c.HV = 4;
            c.lengths = {kTokens};
            c.dtype = kDtypes[i % 3];
            c.gate = i % 2 ? GDN_GATE_LOGIT : GDN_GATE_VALUE;
            c.decay = i % 2 ? GDN_DECAY_SOFTPLUS : i % 4 ? GDN_DECAY_LINEAR : GDN_DECAY_LOG;
            c.l2norm = i++ % 2;
            cases.push_back(c);
        }
    return within_budget(cases, 6);
}

void expect_contained(const Run &run, const char *overrides) {
    const Case &c = run.c;
    gdn_context_options options;
    gdn_context_options_init(&options);
    options.target = run.target.c_str();
    options.num_threads = 1;
    gdn_context *context = nullptr;
    ASSERT_EQ(gdn_context_create(&options, &context), GDN_STATUS_OK) << gdn_last_error();
    ASSERT_EQ(gdn_apply_overrides(context, overrides, std::string(overrides).size()), GDN_STATUS_OK) << gdn_last_error();

    Problem problem(c);
    ASSERT_EQ(gdn_forward(context, &problem.args(), nullptr, 0), GDN_STATUS_OK) << gdn_last_error();
    const std::vector<float> clean_o = problem.o.read(), clean_S = problem.final_state.read();
    const auto same = [](float a, float b) { return float_bits(a) == float_bits(b); };

    const Poison poisons[] = {{"q", &problem.q, false, true}, {"k", &problem.k, false, false}, {"v", &problem.v, true, false},
        {"g", &problem.g, false, false}, {"beta", &problem.beta, false, false}, {"b", &problem.b, false, false},
        {"w", &problem.w, true, false}, {"beta_k", &problem.beta_k, false, false}, {"beta_v", &problem.beta_v, true, false}};
    const std::int64_t tokens[] = {0, 5, 8, 15, 16, 23, 24, 26};
    int turn = 0;
    for (const Poison &poison : poisons) {
        if (!poison.where->present()) continue;
        const bool gate = poison.where != &problem.q && poison.where != &problem.k && poison.where != &problem.v;
        for (std::int64_t t : tokens)
            for (float bad : {std::nanf(""), INFINITY}) {
                if (gate && bad == INFINITY) continue;  // infinite gates and logits have meanings
                const std::int64_t heads = poison.where->shape()[2],
                                   channels = poison.where->shape().size() > 3 ? poison.where->shape()[3] : 1;
                // Key head 1 serves value heads 2 and 3.
                const std::int64_t head = heads == c.HV ? 2 : 1, first_hv = 2, last_hv = heads == c.HV ? 2 : 3;
                const std::int64_t channel = (7 * turn++ + 3) % channels;
                void *element = poison.where->at((t * heads + head) * channels + channel);
                const float before = load_element(poison.where->dtype(), element);
                store_element(poison.where->dtype(), element, bad);
                problem.reset();
                ASSERT_EQ(gdn_forward(context, &problem.args(), nullptr, 0), GDN_STATUS_OK) << gdn_last_error();
                store_element(poison.where->dtype(), element, before);
                const std::vector<float> o = problem.o.read(), S = problem.final_state.read();
                const std::string what = std::string(bad == INFINITY ? "infinity" : "NaN") + " in " + poison.tensor + " at token " +
                                         std::to_string(t) + ", channel " + std::to_string(channel) + ", " + overrides;
                // A value's or write gate's column; FG2's one beta gates keys and values, so it reaches all.
                const auto reached = [&](std::int64_t d) { return !poison.per_channel_of_v || d == channel; };
                for (std::int64_t s = 0; s < kTokens; s++)
                    for (std::int64_t hv = 0; hv < c.HV; hv++)
                        for (std::int64_t d = 0; d < c.V; d++) {
                            const std::size_t i = static_cast<std::size_t>((s * c.HV + hv) * c.V + d);
                            const bool should = hv >= first_hv && hv <= last_hv && reached(d) && (poison.only_this_token ? s == t : s >= t);
                            ASSERT_TRUE(should ? !std::isfinite(o[i]) : same(o[i], clean_o[i]))
                                << what << (should ? " does not reach" : " changes") << " o at token " << s << ", head " << hv
                                << ", channel " << d;
                        }
                for (std::int64_t hv = 0; hv < c.HV; hv++)
                    for (std::int64_t row = 0; row < c.K; row++)
                        for (std::int64_t d = 0; d < c.V; d++) {
                            const std::size_t i = static_cast<std::size_t>((hv * c.K + row) * c.V + d);
                            if (hv >= first_hv && hv <= last_hv && reached(d) && !poison.only_this_token)
                                continue;  // some rows may stay finite
                            ASSERT_TRUE(same(S[i], clean_S[i])) << what << " changes S of head " << hv << " at " << row << ", " << d;
                        }
            }
    }
    gdn_context_destroy(context);
}

TEST_P(OperatorNan, StaysWithItsHeadAndAfterwards) { expect_contained(GetParam(), ""); }
TEST_P(OperatorNan, InChunksOnly) { expect_contained(GetParam(), "core_chunk.short_steps 1\ncore_chunk.tail_steps 0\n"); }
TEST_P(OperatorNan, InStepsOnly) { expect_contained(GetParam(), "core_chunk.short_steps 64\ncore_chunk.tail_steps 15\n"); }

INSTANTIATE_TEST_SUITE_P(All, OperatorNan, ::testing::ValuesIn(on_targets(kernels())), run_name);

// The initial state of one head likewise.
TEST(OperatorNanState, StaysWithItsHead) {
    for (const std::string &target : targets())
        for (gdn_variant variant : kVariants) {
            Case c;
            c.variant = variant;
            c.HV = 3;
            c.lengths = {20};
            const Context context(target);
            Problem problem(c);
            ASSERT_EQ(problem.run(context), GDN_STATUS_OK) << gdn_last_error();
            const std::vector<float> clean = problem.o.read();
            store_element(GDN_DTYPE_F32, problem.initial_state.at(1 * c.K * c.V + 5 * c.V + 9), std::nanf(""));
            problem.reset();
            ASSERT_EQ(problem.run(context), GDN_STATUS_OK) << gdn_last_error();
            const std::vector<float> o = problem.o.read();
            for (std::size_t i = 0; i < o.size(); i++) {
                const std::size_t hv = i / static_cast<std::size_t>(c.V) % 3, d = i % static_cast<std::size_t>(c.V);
                ASSERT_TRUE(hv == 1 && d == 9 ? std::isnan(o[i]) : float_bits(o[i]) == float_bits(clean[i]))
                    << variant_name(variant) << " " << i;
            }
        }
}

}  // namespace
}  // namespace gdn_test
