// Stage: the tokens of one chunk of one head (or one token of several heads) become the float32 rows that the cores read,
//
//   q (times scale), a, alpha, u, e or beta
//
// Everything that depends on the variant, the units of the gates and the dtype happens here and in map, nowhere else (method
// note 1.4-1.6, 6.1).
#include "stage.h"

#include "../schedules/schedules.h"
#include "common/convert.h"
#include "common/core.h"
#include "common/math.h"
#include "variants/variant.h"

using namespace Halide;

namespace gdn {
namespace {

class Stage : public Generator<Stage> {
public:
    GeneratorParam<std::string> variant_name{"variant", "kda"}, form{"form", "log"}, dtype_name{"dtype", "f32"}, size{"size", "any"};
    GeneratorParam<std::string> schedule_name{"schedule", "x86_avx512"}, config_text{"config", ""};

    Input<float> scale{"scale"};                 // of q
    Input<float> gate_scale{"gate_scale"};       // logits: beta or b is gate_scale sigmoid(x)
    Input<float> lower_bound{"lower_bound"};     // not read: map makes the lower-bound decay
    Input<Buffer<void, 2>> q{"q"}, k{"k"};       // (c, t)
    Input<Buffer<void, 2>> v{"v"};               // (d, t)
    Input<Buffer<void, 2>> g{"g"};               // (c, t), or (0, t) for one decay per head
    Input<Buffer<void, 2>> b{"b"};               // (c, t), or (0, t) for one beta per head
    Input<Buffer<void, 2>> w{"w"};               // (d, t)
    Input<Buffer<float, 2>> a_log{"A_log"};      // (0, t)
    Input<Buffer<float, 2>> dt_bias{"dt_bias"};  // like g
    Output<Buffer<float, 2>> q_row{"q_row"}, a_row{"a_row"}, alpha_row{"alpha_row"}, u_row{"u_row"}, e_row{"e_row"};

    void configure() {
        const Type stored = storage_of(dtype_of(dtype_name));
        for (Input<Buffer<void, 2>> *x : {&q, &k, &v, &b, &w}) x->set_type(stored);
        g.set_type(form.value() == "logits" ? stored : Type(Float(32)));
    }

    void generate() {
        const Dtype dtype = dtype_of(dtype_name);
        const Variant variant = variant_of(variant_name);
        const std::string unit = form;
        const bool logits = unit == "logits", norm = logits || unit == "norm", linear = unit == "linear";
        _halide_user_assert(logits || norm || linear || unit == "log") << "unknown form '" << unit << "'\n";
        const bool any = size.value() == "any";
        machine = machine_of(get_target(), schedule_name);
        if (!any) {
            const Size fixed(size);
            st.k = fixed.k;
            st.v = fixed.v;
        }
        st.logits = logits;
        config = stage_space(machine, any, unit).parse(config_text);
        const Expr K = any ? q_row.dim(0).extent() / 16 * 16 : Expr(st.k), V = any ? u_row.dim(0).extent() / 16 * 16 : Expr(st.v);
        const Var c = st.c, t = st.t;

        auto load = [&](auto &x, const Expr &c, const Expr &t) { return widen(x.type() == Float(32) ? Dtype::F32 : dtype, x(c, t)); };
        auto gate = [&](const Expr &x) -> Expr { return logits ? gate_scale * sigmoid(x) : x; };

        // q / |q| * scale, k / |k|.
        if (norm) {
            st.norms.push_back(l2norm(
                "q", [&](Expr c, Expr t) { return load(q, c, t); }, K / machine.lanes, machine.lanes, scale));
            st.norms.push_back(l2norm(
                "k", [&](Expr c, Expr t) { return load(k, c, t); }, K / machine.lanes, machine.lanes, 1.0f));
        }
        q_row(c, t) = load(q, c, t) * (norm ? st.norms[0].inverse(t) : Expr(scale));

        // One beta per token is made once and read back by u.
        if (variant.scalar_b) e_row(c, t) = gate(load(b, c, t));

        VariantInput in;
        in.k = [&](const Expr &c) { return norm ? load(k, c, t) * st.norms[1].inverse(t) : load(k, c, t); };
        in.v = [&](const Expr &d) { return load(v, d, t); };
        in.alpha = [&](const Expr &c) -> Expr {
            Expr x = load(g, c, t);
            if (linear) return x;
            if (!logits) return exp_decay(x);
            Expr rate = exp_full(a_log(0, t));
            if (!variant.scalar_decay) {
                st.rate = Func("rate");
                st.rate(t) = rate;
                rate = st.rate(t);
            }
            return softplus_decay(rate, x + dt_bias(c, t));
        };
        in.b.value = [&](const Expr &c) { return variant.scalar_b ? Expr(e_row(0, t)) : gate(load(b, c, t)); };
        in.b.root = [&](const Expr &c) { return logits ? sqrt_sigmoid(load(b, c, t)) : sqrt(load(b, c, t)); };
        in.w.value = [&](const Expr &d) { return logits ? sigmoid(load(w, d, t)) : load(w, d, t); };
        in.w.root = [&](const Expr &d) { return logits ? sqrt_sigmoid(load(w, d, t)) : sqrt(load(w, d, t)); };

        const VariantRows out = variant.rows(in);
        a_row(c, t) = out.a(c);
        alpha_row(c, t) = out.alpha(c);
        u_row(c, t) = out.u(c);
        if (variant.own_e) {
            e_row(c, t) = out.e(c);
        } else if (!variant.scalar_b) {
            e_row(c, t) = out.beta(c);
        }

        auto add = [&](auto &row, bool heavy) {
            st.rows.push_back(row);
            st.heavy.push_back(heavy);
        };
        if (variant.scalar_decay) {
            st.scalars.push_back(alpha_row);
        } else {
            add(alpha_row, !linear);
        }
        add(q_row, false);
        add(a_row, logits && !variant.own_e && !variant.scalar_b);
        if (variant.own_e) {
            add(e_row, logits);
        } else {
            st.scalars.push_back(e_row);
        }
        add(u_row, logits && variant.has_w);

        // Inputs are the caller's rows, any distance apart; outputs are scratch.
        const Expr tokens = q_row.dim(1).extent();
        auto input = [&](auto &x, const Expr &width) {
            x.dim(0).set_bounds(0, width);
            x.dim(1).set_bounds(0, tokens);
        };
        input(q, K);
        input(k, K);
        input(v, V);
        input(g, variant.scalar_decay ? Expr(1) : K);
        input(b, variant.scalar_b ? Expr(1) : K);
        if (variant.has_w) input(w, V);
        if (logits) {
            input(a_log, 1);
            input(dt_bias, variant.scalar_decay ? Expr(1) : K);
        }
        auto output = [&](auto &x, const Expr &width) {
            x.dim(0).set_bounds(0, width);
            x.dim(1).set_bounds(0, tokens).set_stride(width);
            x.set_host_alignment(64);
        };
        output(q_row, K);
        output(a_row, K);
        output(alpha_row, variant.scalar_decay ? Expr(1) : K);
        output(u_row, V);
        output(e_row, variant.own_e ? K : Expr(1));
    }

    void schedule() {
        apply_stage(st, config, machine);
        require_all_read(config);
    }

private:
    StageStages st;
    Machine machine;
    Config config;
};

}  // namespace
}  // namespace gdn

HALIDE_REGISTER_GENERATOR(gdn::Stage, stage)
