// The gated norm on CPUs, row by row: the sum of squares, then whole vectors of channels, with a loop of its own for every kind.
#include "cpu.h"
#include "lane_sum.h"

namespace gdn {

using Halide::Expr;
using Halide::Func;
using Halide::MemoryType;
using Halide::Stage;
using Halide::TailStrategy;
using Halide::Var;

Space cpu_gated_norm_space(const Machine &machine) {
    Space s;
    // Machine vectors of partial sums.
    s.add("sums", ParamKind::Algorithm, {1, 2, 4}, 16 / machine.lanes);
    // Machine vectors of channels that go through every operation side by side.
    s.add("abreast", ParamKind::Schedule, {1, 2, 4}, 16 / machine.lanes);
    for (const char *name : {"sums", "abreast"}) {
        s.require(std::string(name) + " hold at most the 16 channels that sizes are multiples of",
            [=](const Config &c) { return c[name] * machine.lanes <= 16; });
    }
    return s;
}

void cpu_apply_gated_norm(GatedNormStages &st, const Config &config, const Machine &machine) {
    Var dout("do"), din("di");
    const int vec = machine.lanes * config["abreast"];
    st.inverse.bound_extent(st.t, 1).compute_at(st.y, st.t).store_in(MemoryType::Stack);
    place_lane_sum(st.squares, [&](Func &f) -> Func & { return f.compute_at(st.y, st.t); });
    // The last vector is moved back to end with the row, and makes some values twice. Rows shorter than a vector are made one by one.
    Stage wide = st.y.specialize(st.channels >= vec);
    wide.split(st.d, dout, din, vec, TailStrategy::ShiftInwards).vectorize(din);
    // What is not asked for is not read.
    for (Stage width : {wide, Stage(st.y)}) {
        for (const Expr &gate : {st.silu, st.sigmoid}) width.specialize(gate).specialize(st.norm);
        width.specialize(st.norm);
    }
}

}  // namespace gdn
