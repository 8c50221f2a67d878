// One token of a row of heads, float32: P = Diag(alpha) S, r = u - P^T e, S <- P + a r^T, o = S^T q (q comes times scale).
// Both dot products are taken with the old state, so that it is read once for them and once for the update:
//   o = S_old^T (alpha q) + <q, a> r
#include "core_step.h"

#include "../schedules/schedules.h"

using namespace Halide;

namespace gdn {
namespace {

class CoreStep : public Generator<CoreStep> {
public:
    GeneratorParam<std::string> core{"core", "channel_tied"}, size{"size", "128x128"}, layout{"layout", "kfirst"};
    GeneratorParam<std::string> schedule_name{"schedule", "x86_avx512"}, config_text{"config", ""};

    Input<Buffer<float, 2>> q{"q"}, a{"a"};  // (c, h)
    Input<Buffer<float, 2>> alpha{"alpha"};  // (c, h), or (0, h) when scalar
    Input<Buffer<float, 2>> u{"u"};          // (j, h)
    Input<Buffer<float, 2>> e{"e"};          // (c, h), or beta as (0, h) when tied
    Input<Buffer<float, 3>> s0{"S0"};        // (j, c, h); v_first: (c, j, h)
    Output<Buffer<float, 2>> o{"o"};         // (j, h)
    Output<Buffer<float, 3>> s1{"S1"};       // as S0, and may be the same memory: every element is written after its last read

    void generate() {
        const Core kind = core_of(core);
        st.size = Size(size);
        st.v_first = layout.value() == "vfirst";
        st.scalar_decay = kind == Core::ScalarTied;
        machine = machine_of(get_target(), schedule_name);
        config = core_step_space(machine, st.size, st.v_first).parse(config_text);
        const int key_dim = st.v_first ? 0 : 1, value_dim = 1 - key_dim, lanes = machine.lanes;
        const Expr K = key_channels(st.size, s0.dim(key_dim).extent());
        const Expr V = st.size.v ? Expr(st.size.v) : s0.dim(value_dim).extent() / st.size.v_unit * st.size.v_unit;
        const Var j = st.j, c = st.c, x = st.x, h = st.h;

        Expr decay = st.scalar_decay ? alpha(0, h) : alpha(c, h);
        st.erase = Func("erase");
        st.erase(c, h) = strict_float(decay * (kind == Core::ChannelOwn ? e(c, h) : e(0, h) * a(c, h)));
        st.query = Func("query");
        st.query(c, h) = strict_float(decay * q(c, h));
        st.qa = lane_sum("qa", [&](const Expr &c) { return q(c, h) * a(c, h); }, {h}, K / lanes, lanes);

        st.dots = Func("dots");
        if (st.v_first) {
            auto product = [&](const Expr &c) { return select(x == 0, st.erase(c, h), st.query(c, h)) * s0(c, j, h); };
            st.products = lane_sum("dots", product, {x, j, h}, K / lanes, lanes);
            auto total = [&](int which) { return Internal::substitute(x.name(), which, st.products.total()); };
            st.dots(j, h) = Tuple(total(0), total(1));
        } else {
            st.rk = RDom(0, K, "rk");
            st.dots(j, h) = Tuple(0.0f, 0.0f);
            st.dots(j, h) = Tuple(st.dots(j, h)[0] + st.erase(st.rk, h) * s0(j, st.rk, h),
                                  st.dots(j, h)[1] + st.query(st.rk, h) * s0(j, st.rk, h));
        }
        st.r = Func("r");
        st.r(j, h) = u(j, h) - st.dots(j, h)[0];
        o(j, h) = st.dots(j, h)[1] + st.qa.total() * st.r(j, h);
        if (st.v_first) {
            s1(c, j, h) = strict_float(decay * s0(c, j, h)) + a(c, h) * st.r(j, h);
        } else {
            // Downwards: the sweep for the dot products went upwards (as hardware prefetchers like it), so its last rows are still in L1.
            st.rw = RDom(0, K, "rw");
            Expr channel = K - 1 - st.rw;
            s1(j, c, h) = undef<float>();
            Expr decay_of_channel = st.scalar_decay ? alpha(0, h) : alpha(channel, h);
            s1(j, channel, h) = strict_float(decay_of_channel * s0(j, channel, h)) + a(channel, h) * st.r(j, h);
        }
        st.o = o;
        st.s1 = s1;

        const Expr heads = o.dim(1).extent();
        auto head_rows = [&](auto &x, const Expr &width) {
            x.dim(0).set_bounds(0, width);
            x.dim(1).set_bounds(0, heads).set_stride(width);
            x.set_host_alignment(64);
        };
        head_rows(q, K);
        head_rows(a, K);
        head_rows(alpha, st.scalar_decay ? Expr(1) : K);
        head_rows(e, kind == Core::ChannelOwn ? K : Expr(1));
        head_rows(u, V);
        o.dim(0).set_bounds(0, V);
        o.dim(1).set_min(0);
        auto state = [&](auto &x, bool input) {
            if (st.size.k || !input) {
                x.dim(key_dim).set_bounds(0, K);
            } else {
                x.dim(key_dim).set_min(0);
            }
            if (st.size.v || !input) {
                x.dim(value_dim).set_bounds(0, V);
            } else {
                x.dim(value_dim).set_min(0);
            }
            x.dim(2).set_bounds(0, heads);
        };
        state(s0, true);
        state(s1, false);
    }

    void schedule() {
        apply_core_step(st, config, machine);
        require_all_read(config);
    }

private:
    CoreStepStages st;
    Machine machine;
    Config config;
};

}  // namespace
}  // namespace gdn

HALIDE_REGISTER_GENERATOR(gdn::CoreStep, core_step)
