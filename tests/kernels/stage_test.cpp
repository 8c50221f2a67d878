// stage: every variant, form, dtype and size against the variants' formulas in double (method note 6.1), and the manners of its rows.
#include <gtest/gtest.h>

#include <memory>

#include "../reference/units.h"
#include "../support/random.h"
#include "kernel_call.h"

namespace gdn_test {
namespace {

using gdn::Form;
using gdn::StageVariant;

// Inputs and outputs of one call: n tokens of one head with K key and V value channels.
struct Tokens {
    const gdn::KernelRow &row;
    int K, V, n;
    float scale = 0.125f, gate_scale = 2, lower_bound = -5;
    Rows q, k, v, g, b, w, a_log, dt_bias;
    Rows q_row, a_row, alpha_row, u_row, e_row;

    static bool per_head_decay(const gdn::KernelRow &row) { return row.variant == StageVariant::kGdn; }
    static bool per_head_b(const gdn::KernelRow &row) { return row.variant == StageVariant::kGdn || row.variant == StageVariant::kKda; }
    static bool own_e(const gdn::KernelRow &row) { return row.variant == StageVariant::kGdn2; }
    bool has_w() const { return row.variant == StageVariant::kGdn2 || row.variant == StageVariant::kFg2Plus; }
    bool logits() const { return row.form == Form::kLogits; }
    bool l2norm() const { return row.form == Form::kLogits || row.form == Form::kNorm; }
    gdn_dtype g_dtype() const { return logits() ? dtype_of(row.dtype) : GDN_DTYPE_F32; }

    Tokens(const gdn::KernelRow &row, int K, int V, int n, Guard guard = Guard::kEnd, int gap = 0)
        : row(row), K(K), V(V), n(n), q(dtype_of(row.dtype), K, n, K + gap, guard), k(dtype_of(row.dtype), K, n, K + gap, guard),
          v(dtype_of(row.dtype), V, n, V + gap, guard), g(row.form == Form::kLogits ? dtype_of(row.dtype) : GDN_DTYPE_F32,
                                                            per_head_decay(row) ? 1 : K, n, (per_head_decay(row) ? 1 : K) + gap, guard),
          b(dtype_of(row.dtype), per_head_b(row) ? 1 : K, n, (per_head_b(row) ? 1 : K) + gap, guard),
          w(dtype_of(row.dtype), V, n, V + gap, guard), a_log(GDN_DTYPE_F32, 1, n, gap ? 1 : 0, guard),
          dt_bias(GDN_DTYPE_F32, per_head_decay(row) ? 1 : K, n, 0, guard), q_row(GDN_DTYPE_F32, K, n, K, guard, 64),
          a_row(GDN_DTYPE_F32, K, n, K, guard, 64),
          alpha_row(GDN_DTYPE_F32, per_head_decay(row) ? 1 : K, n, per_head_decay(row) ? 1 : K, guard, 64),
          u_row(GDN_DTYPE_F32, V, n, V, guard, 64), e_row(GDN_DTYPE_F32, own_e(row) ? K : 1, n, own_e(row) ? K : 1, guard, 64) {}

    std::vector<Rows *> outputs() { return {&q_row, &a_row, &alpha_row, &u_row, &e_row}; }

    void fill(std::uint64_t seed) {
        Random random(seed);
        for (Rows *x : {&q, &k, &v}) x->fill([&](int, int) { return random.normal(); });
        for (Rows *x : {&b, &w}) x->fill([&](int, int) { return logits() ? 3 * random.normal() : random.uniform(); });
        g.fill([&](int, int) {
            if (row.form == Form::kLogits) return 2 * random.normal();
            return row.form == Form::kLinear ? random.uniform() : -random.log_uniform(1e-3, 20);
        });
        a_log.fill([&](int, int) { return random.uniform(0, 2.7); });
        dt_bias.fill([&](int, int) { return random.uniform(-6, -2); });
    }

    // The same tokens, one in `count` of another call from token `first`.
    void take(Tokens &all, int first) {
        for (auto [to, from] : {std::pair{&q, &all.q}, {&k, &all.k}, {&v, &all.v}, {&g, &all.g}, {&b, &all.b}, {&w, &all.w},
                 {&a_log, &all.a_log}, {&dt_bias, &all.dt_bias}})
            to->fill([&, from = from](int c, int t) { return (*from)(c, first + t); });
    }

    void run() {
        for (Rows *x : outputs()) x->memory().poison();
        KernelCall call(row);
        call.scalar(scale).scalar(gate_scale).scalar(lower_bound).rows(&q).rows(&k).rows(&v).rows(&g).rows(&b).rows(&w, has_w());
        call.rows(&a_log, logits()).rows(&dt_bias, logits());
        ASSERT_EQ(call.rows(&q_row).rows(&a_row).rows(&alpha_row).rows(&u_row).rows(&e_row).run(), 0);
        for (Rows *x : outputs()) ASSERT_TRUE(x->memory().slack_untouched());
    }

    double length(const Rows &x, int t) const {
        double sum = 1e-6;
        for (int c = 0; c < K; c++) sum += static_cast<double>(x(c, t)) * x(c, t);
        return l2norm() ? std::sqrt(sum) : 1;
    }
    double gate(const Rows &x, int c, int t, double factor) const { return logits() ? factor * gdn_reference::sigmoid(x(c, t)) : x(c, t); }
    double b_gate(int c, int t) const {
        return gate(b, per_head_b(row) ? 0 : c, t, row.variant == StageVariant::kFg2Plus ? 1 : gate_scale);
    }

    double expected_q(int c, int t) const { return q(c, t) / length(q, t) * scale; }
    double expected_a(int c, int t) const {
        return k(c, t) / length(k, t) * (row.variant == StageVariant::kFg2Plus ? std::sqrt(b_gate(c, t)) : 1);
    }
    double expected_u(int d, int t) const {
        if (row.variant == StageVariant::kFg2Plus) return v(d, t) * std::sqrt(gate(w, d, t, 1));
        return v(d, t) * (has_w() ? gate(w, d, t, 1) : b_gate(0, t));
    }
    double expected_e(int c, int t) const {
        if (row.variant == StageVariant::kFg2Plus) return 1;
        return own_e(row) ? b_gate(c, t) * k(c, t) / length(k, t) : b_gate(0, t);
    }
    double expected_log_alpha(int c, int t) const {
        switch (row.form) {
        case Form::kLinear:
            return std::log(static_cast<double>(g(c, t)));
        case Form::kLogits:
            return -std::exp(static_cast<double>(a_log(0, t))) * gdn_reference::softplus(static_cast<double>(g(c, t)) + dt_bias(c, t));
        default:
            return g(c, t);
        }
    }
};

class Stage : public ::testing::TestWithParam<const gdn::KernelRow *> {
protected:
    const gdn::KernelRow &row = *GetParam();

    std::vector<std::pair<int, int>> sizes() const {
        if (row.k) return {{row.k, row.v}};
        return {{16, 16}, {64, 64}, {48, 80}, {112, 16}, {128, 128}, {256, 256}};
    }
};

TEST_P(Stage, AgainstFormulas) {
    for (auto [K, V] : sizes())
        for (Guard guard : {Guard::kEnd, Guard::kBegin})
            for (int n : {1, 2, 3, 7, 8, 9, 16, 40}) {
                SCOPED_TRACE(std::string(row.symbol) + " K " + std::to_string(K) + " V " + std::to_string(V) + " n " + std::to_string(n));
                Tokens x(row, K, V, n, guard, n % 3);
                x.fill(static_cast<std::uint64_t>(K + n));
                for (Rows *in : {&x.q, &x.k, &x.v, &x.g, &x.b}) in->memory().make_read_only();
                x.run();
                const double gate_eps = x.logits() ? 5 : 2, norm_eps = x.l2norm() ? 6 : 1;
                for (int t = 0; t < n; t++) {
                    for (int c = 0; c < K; c++) {
                        ASSERT_LE(error_in_eps(x.q_row(c, t), x.expected_q(c, t)), norm_eps) << "q " << c << " " << t;
                        ASSERT_LE(error_in_eps(x.a_row(c, t), x.expected_a(c, t)), norm_eps + gate_eps) << "a " << c << " " << t;
                        if (Tokens::own_e(row)) {
                            ASSERT_LE(error_in_eps(x.e_row(c, t), x.expected_e(c, t)), norm_eps + gate_eps) << "e " << c << " " << t;
                        }
                        if (Tokens::per_head_decay(row) && c > 0) continue;
                        const double log_alpha = x.expected_log_alpha(c, t), error = error_in_eps(x.alpha_row(c, t), std::exp(log_alpha));
                        ASSERT_LE(error, row.form == Form::kLinear ? 0.01
                                         : x.logits()              ? 2 + 8 * std::fabs(log_alpha)
                                                                   : 2)
                            << "alpha " << c << " " << t;
                    }
                    for (int d = 0; d < V; d++)
                        ASSERT_LE(error_in_eps(x.u_row(d, t), x.expected_u(d, t)), gate_eps) << "u " << d << " " << t;
                    if (!Tokens::own_e(row)) {
                        ASSERT_LE(error_in_eps(x.e_row(0, t), x.expected_e(0, t)), gate_eps) << "beta " << t;
                    }
                }
            }
}

// A token's rows are the same bits whatever tokens (or heads) it is staged with.
TEST_P(Stage, TokensDoNotMeet) {
    for (auto [K, V] : sizes()) {
        Tokens all(row, K, V, 19, Guard::kEnd, 2);
        all.fill(3);
        all.run();
        for (int n : {1, 2, 5, 8})
            for (int first = 0; first + n <= 19; first += 3) {
                Tokens some(row, K, V, n, Guard::kEnd, 1);
                some.take(all, first);
                some.run();
                for (std::size_t i = 0; i < all.outputs().size(); i++)
                    for (int t = 0; t < n; t++)
                        for (int c = 0; c < some.outputs()[i]->width(); c++)
                            ASSERT_EQ(some.outputs()[i]->bits(c, t), all.outputs()[i]->bits(c, first + t))
                                << row.symbol << " output " << i << " " << c << " " << t;
            }
    }
}

// R17, G5: exact resets, exact identities, saturated gates; NaN in gives NaN out for that token only.
TEST_P(Stage, EdgesAreExact) {
    const float inf = INFINITY;
    for (auto [K, V] : sizes()) {
        Tokens x(row, K, V, 8);
        x.fill(4);
        const bool logits = x.logits(), linear = row.form == Form::kLinear;
        const float reset = logits   ? 1e4f
                            : linear ? 0
                                     : -inf,
                    keep = logits   ? -1e4f
                           : linear ? 1
                                    : 0,
                    off = logits ? -1e4f : 0, on = logits ? 1e4f : 1;
        x.g.fill([&](int, int t) { return t == 0 ? reset : t == 1 ? keep : t == 2 && logits ? inf : t == 3 && logits ? -inf : keep; });
        x.dt_bias.fill([](int, int) { return 0; });
        for (Rows *gate : {&x.b, &x.w})
            gate->fill([&](int, int t) {
                return t % 4 == 0 ? off : t % 4 == 1 ? on : t % 4 == 2 ? (logits ? -inf : off) : (logits ? inf : on);
            });
        x.gate_scale = 1;
        x.run();
        for (int t = 0; t < 8; t++) {
            for (int c = 0; c < x.alpha_row.width(); c++)
                EXPECT_EQ(x.alpha_row(c, t), t == 0 || (t == 2 && logits) ? 0.0f : 1.0f) << row.symbol << " " << t;
            const bool open = t % 2 == 1;
            for (int d = 0; d < V; d++) EXPECT_EQ(x.u_row(d, t), open ? x.v(d, t) : 0.0f) << row.symbol << " " << t;
            for (int c = 0; c < x.e_row.width(); c++) {
                const float one = Tokens::own_e(row) ? x.a_row(c, t) : 1.0f;
                EXPECT_EQ(x.e_row(c, t), open || row.variant == StageVariant::kFg2Plus ? one : 0.0f) << row.symbol << " " << t;
            }
        }
    }
}

TEST_P(Stage, NanStaysInItsToken) {
    for (auto [K, V] : sizes()) {
        Tokens clean(row, K, V, 8);
        clean.fill(5);
        clean.run();
        for (int which = 0; which < 6; which++) {
            Tokens x(row, K, V, 8);
            x.take(clean, 0);
            Rows *input = std::vector<Rows *>{&x.q, &x.k, &x.v, &x.g, &x.b, &x.w}[static_cast<std::size_t>(which)];
            if (input == &x.w && !x.has_w()) continue;
            const int at = std::min(13, input->width() - 1);
            input->set(at, 3, which % 2 ? NAN : bits_float(0xFFC00000));
            x.run();
            for (std::size_t i = 0; i < x.outputs().size(); i++)
                for (int t = 0; t < 8; t++)
                    for (int c = 0; c < x.outputs()[i]->width(); c++) {
                        if (t != 3) {
                            ASSERT_EQ(x.outputs()[i]->bits(c, t), clean.outputs()[i]->bits(c, t))
                                << row.symbol << " input " << which << " output " << i;
                        }
                    }
            const bool tied = !Tokens::own_e(row), fg2 = row.variant == StageVariant::kFg2Plus;
            std::vector<Rows *> reached;
            if (which == 0) reached = {&x.q_row};
            if (which == 1) reached = {&x.a_row};
            if (which == 2 || which == 5) reached = {&x.u_row};
            if (which == 3) reached = {&x.alpha_row};
            if (which == 4) reached = {fg2 ? &x.a_row : &x.e_row};
            if (which == 4 && tied && !fg2) reached.push_back(&x.u_row);
            for (Rows *out : reached)
                EXPECT_TRUE(std::isnan((*out)(std::min(at, out->width() - 1), 3))) << row.symbol << " input " << which;
        }
    }
}

// sqrt(sigmoid(x)), the gate of FG2, as u with v = 1.
TEST_P(Stage, SqrtSigmoidSweep) {
    if (row.variant != StageVariant::kFg2Plus || row.form != Form::kLogits || row.dtype != gdn::Type::kF32) return;
    const int V = row.v ? row.v : 256, K = row.k ? row.k : 16, n = 512;
    for (double low : {-87.0, -20.0, -2.0, 0.0, 10.0}) {
        Tokens x(row, K, V, n);
        x.fill(6);
        x.v.fill([](int, int) { return 1; });
        const double step = low < -20 ? 67.0 / (V * n) : low == -2 ? 2.0 / (V * n) : 18.0 / (V * n);
        x.w.fill([&](int c, int t) { return low + step * (t * V + c); });
        x.run();
        for (int t = 0; t < n; t++)
            for (int d = 0; d < V; d++) ASSERT_LE(error_in_eps(x.u_row(d, t), x.expected_u(d, t)), 2) << row.symbol << " at " << x.w(d, t);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, Stage, ::testing::ValuesIn(rows_of(gdn::Family::kStage)), [](const auto &info) { return info.param->symbol; });

}  // namespace
}  // namespace gdn_test
