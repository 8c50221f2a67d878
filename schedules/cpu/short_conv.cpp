// The short convolution on CPUs: a tile of some tokens and one vector of channels, whose taps are loaded once.
#include "cpu.h"

namespace gdn {

using Halide::Stage;
using Halide::TailStrategy;
using Halide::Var;

Space cpu_short_conv_space(const Machine &machine) {
    Space s;
    // Tokens of a tile: more of them share taps and inputs, and overlap their exponentials.
    s.add("tokens", ParamKind::Schedule, {2, 4}, machine.registers < 32 ? 2 : 4);
    // Machine vectors side by side where the tokens are fewer than a tile; together at most the 16 channels that sizes are multiples of.
    s.add("abreast", ParamKind::Schedule, {1, 2, 4}, 16 / machine.lanes);
    s.require("vectors abreast hold at most 16 channels", [=](const Config &c) { return c["abreast"] * machine.lanes <= 16; });
    return s;
}

void cpu_apply_short_conv(ShortConvStages &st, const Config &config, const Machine &machine) {
    Var co("co"), ci("ci"), to("to"), ti("ti");
    const int vec = machine.lanes * config["abreast"], tile = config["tokens"];
    // The last vector and the last tile are moved back to end with the rows, and make some values twice. Rows shorter than a vector are
    // made one by one.
    Stage wide = st.y.specialize(st.channels >= vec);
    for (Stage kind : {wide.specialize(st.silu), wide}) {
        kind.specialize(st.tokens < tile).split(st.c, co, ci, vec, TailStrategy::ShiftInwards).vectorize(ci);
        kind.split(st.c, co, ci, machine.lanes, TailStrategy::ShiftInwards)
            .vectorize(ci)
            .split(st.t, to, ti, tile, TailStrategy::ShiftInwards)
            .reorder(ci, ti, co, to)
            .unroll(ti);
    }
}

Space cpu_short_conv_step_space(const Machine &machine) {
    Space s;
    // Machine vectors side by side, whose exponentials overlap.
    s.add("abreast", ParamKind::Schedule, {1, 2, 4}, machine.registers < 32 ? 1 : 2);
    return s;
}

void cpu_apply_short_conv_step(ShortConvStepStages &st, const Config &config, const Machine &machine) {
    const int vec = machine.lanes * config["abreast"];
    // In place a channel must not be made twice: no vector moves back. Few channels beyond the last vector are made one by one.
    Var co("co"), ci("ci");
    st.y.split(st.c, co, ci, vec, TailStrategy::GuardWithIf).vectorize(ci);
    st.h1.bound(st.i, 0, st.old_rows).split(st.c, co, ci, vec, TailStrategy::GuardWithIf).reorder(ci, st.i, co).vectorize(ci).unroll(st.i).compute_with(st.y, co);
}

}  // namespace gdn
