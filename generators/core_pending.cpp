// One token of one head in one pass over the state, float32. The rank-one write of the token before is still pending: it is applied while
// the state is read for this token's dot products, and this token's write, S <- Diag(alpha) S + a r^T, is left pending in turn:
//   S1 = Diag(alpha_0) S0 + a_0 r_0^T,   r = u - S1^T (alpha e),   o = S1^T (alpha q) + <q, a> r
// The state after the token is Diag(alpha) S1 + a r^T. Formulas and order of sums are core_step's, so that o has the same bits.
#include "core_pending.h"

#include "../schedules/schedules.h"

using namespace Halide;

namespace gdn {
namespace {

class CorePending : public Generator<CorePending> {
public:
    GeneratorParam<std::string> core{"core", "channel_tied"}, size{"size", "128x128"};
    GeneratorParam<std::string> schedule_name{"schedule", "x86_avx512"}, config_text{"config", ""};

    Input<Buffer<float, 1>> q{"q"}, a{"a"};                   // (c)
    Input<Buffer<float, 1>> alpha{"alpha"};                   // (c), or one number when scalar
    Input<Buffer<float, 2>> u{"u"};                           // (j, p)
    Input<Buffer<float, 1>> e{"e"};                           // (c), or beta as one number when tied
    Input<Buffer<float, 1>> alpha_0{"alpha_0"}, a_0{"a_0"};   // (c) pending
    Input<Buffer<float, 2>> r_0{"r_0"};                       // (j, p) pending
    Input<Buffer<float, 3>> s0{"S0"};                         // (j, c, p)
    Output<Buffer<float, 2>> o{"o"};                          // (j, p)
    Output<Buffer<float, 2>> r{"r"};                          // (j, p) may be r_0: every element is written after its last read
    Output<Buffer<float, 3>> s1{"S1"};                        // (j, c, p) may be S0, likewise

    void generate() {
        const Core kind = core_of(core);
        st.size = Size(size);
        _halide_user_assert(st.size.k && st.size.v) << "core_pending is made for fixed sizes\n";
        machine = machine_of(get_target(), schedule_name);
        config = core_pending_space(machine, st.size).parse(config_text);
        st.panel = config["panel"];
        const int K = st.size.k, panels = st.size.v / st.panel;
        const Var j = st.j, c = st.c, p = st.p;

        const Expr decay = kind == Core::ScalarTied ? alpha(0) : alpha(c);
        st.erase = Func("erase");
        st.erase(c) = strict_float(decay * (kind == Core::ChannelOwn ? e(c) : e(0) * a(c)));
        st.query = Func("query");
        st.query(c) = strict_float(decay * q(c));
        st.qa = lane_sum("qa", [&](const Expr &c) { return q(c) * a(c); }, {}, K / machine.lanes, machine.lanes);

        st.settled = Func("settled");
        st.settled(j, c, p) = strict_float(alpha_0(c) * s0(j, c, p)) + a_0(c) * r_0(j, p);
        st.rk = RDom(0, K, "rk");
        const Expr settled = st.settled(j, st.rk, p);
        st.dots = Func("dots");
        st.dots(j, p) = Tuple(0.0f, 0.0f);
        st.dots(j, p) = Tuple(st.dots(j, p)[0] + st.erase(st.rk) * settled, st.dots(j, p)[1] + st.query(st.rk) * settled);
        // The term with factor 0 vanishes; it makes this loop an ordered one like that of dots, which compute_with demands.
        s1(j, c, p) = undef<float>();
        s1(j, st.rk, p) = settled + 0.0f * s1(j, max(st.rk - 1, 0), p);
        // Not read back from the output r: Halide would take the caller's memory for aligned.
        st.residual = Func("residual");
        st.residual(j, p) = u(j, p) - st.dots(j, p)[0];
        r(j, p) = st.residual(j, p);
        o(j, p) = st.dots(j, p)[1] + st.qa.total() * st.residual(j, p);
        st.o = o;
        st.r = r;
        st.s1 = s1;

        auto row = [](auto &x, int width) { x.dim(0).set_bounds(0, width); };
        for (auto *x : {&q, &a, &alpha_0, &a_0}) row(*x, K);
        row(alpha, kind == Core::ScalarTied ? 1 : K);
        row(e, kind == Core::ChannelOwn ? K : 1);
        auto columns = [&](auto &x) {
            x.dim(0).set_bounds(0, st.panel);
            x.dim(1).set_bounds(0, panels).set_stride(st.panel);
        };
        for (auto *x : {&u, &r_0}) columns(*x);
        for (auto *x : {&o, &r}) columns(*x);
        auto state = [&](auto &x) {
            x.dim(0).set_bounds(0, st.panel);
            x.dim(1).set_bounds(0, K);
            x.dim(2).set_bounds(0, panels).set_stride(st.panel);
        };
        state(s0);
        state(s1);
    }

    void schedule() {
        apply_core_pending(st, config, machine);
        require_all_read(config);
    }

private:
    CorePendingStages st;
    Machine machine;
    Config config;
};

}  // namespace
}  // namespace gdn

HALIDE_REGISTER_GENERATOR(gdn::CorePending, core_pending)
