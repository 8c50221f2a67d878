// The short convolution on CPUs: a tile of some tokens and one vector of channels, whose taps are loaded once.
#include "cpu.h"

namespace gdn {

using Halide::Expr;
using Halide::Stage;
using Halide::TailStrategy;
using Halide::Var;

Space cpu_short_conv_space(const Machine &machine) {
    Space s;
    // Tokens of a tile: more of them share taps and inputs, and overlap their exponentials.
    s.add("tokens", ParamKind::Schedule, {1, 2, 4}, machine.registers < 32 ? 2 : 4);
    // Machine vectors side by side where there is one token only; together at most the 16 channels that sizes are multiples of.
    s.add("abreast", ParamKind::Schedule, {1, 2, 4}, 16 / machine.lanes);
    s.require("vectors abreast hold at most 16 channels", [=](const Config &c) { return c["abreast"] * machine.lanes <= 16; });
    return s;
}

void cpu_apply_short_conv(ShortConvStages &st, const Config &config, const Machine &machine) {
    Var co("co"), ci("ci"), to("to"), ti("ti");
    for (const Expr &activation : {st.silu, !st.silu}) {
        Stage kind = st.y.specialize(activation);
        kind.specialize(st.one_token).split(st.c, co, ci, machine.lanes * config["abreast"], TailStrategy::GuardWithIf).vectorize(ci);
        kind.split(st.c, co, ci, machine.lanes, TailStrategy::GuardWithIf)
            .vectorize(ci)
            .split(st.t, to, ti, config["tokens"], TailStrategy::GuardWithIf)
            .reorder(ci, ti, co, to)
            .unroll(ti);
    }
}

}  // namespace gdn
