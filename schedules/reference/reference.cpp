// Reference schedules: always valid, for baseline machines and as an oracle for the tuned ones. Every stage is stored once and vectorized
// along its rows; nothing is tiled, fused or unrolled.
#include "../cpu/cpu.h"
#include "../cpu/lane_sum.h"

namespace gdn {

using Halide::Func;
using Halide::MemoryType;
using Halide::TailStrategy;

Space reference_core_chunk_space(const Size &size) {
    Space s;
    s.add("chunk", ParamKind::Algorithm, {8}, 8);
    s.add("panel", ParamKind::Algorithm, {size.v_unit}, size.v_unit);
    s.add("fetch_lines", ParamKind::Algorithm, {0}, 0);
    s.add("rows", ParamKind::Algorithm, {1}, 1);
    s.add("cols", ParamKind::Algorithm, {16}, 16);
    s.add("time_block", ParamKind::Runtime, {8, 16, 32, 64, 128}, 32);
    s.add("task_grain", ParamKind::Runtime, {0, 1, 2, 4, 8, 16}, 0);
    s.add("short_steps", ParamKind::Runtime, {1, 2, 3, 4, 5, 6, 7}, 3);
    s.add("tail_steps", ParamKind::Runtime, {0, 1, 2, 3, 4, 5, 6, 7}, 3);
    s.add("v_slice_min", ParamKind::Runtime, {0, 16, 32, 64}, 32);
    return s;
}

void reference_apply_core_chunk(CoreChunkStages &st, const Config &config, const Machine &machine) {
    const int vec = machine.lanes;
    const auto stack = MemoryType::Stack;
    for (const char *facts : {"rows", "cols"}) (void)config[facts];  // columns of the table row only
    st.o.bound(st.jl, 0, st.panel).reorder(st.jl, st.r, st.p).vectorize(st.jl, vec);
    st.s1.bound(st.jl, 0, st.panel).vectorize(st.jl, vec).compute_with(st.o, st.p);
    for (Func *f : {&st.y, &st.rows}) f->compute_at(st.o, st.p).store_in(stack).vectorize(st.jl, vec);
    st.prod.compute_at(st.y, st.m).store_in(stack).vectorize(st.jl, vec);
    st.prod.update().reorder(st.jl, st.rk, st.m).vectorize(st.jl, vec);
    st.solve.compute_at(st.o, st.p).store_in(stack).vectorize(st.jl, vec);
    st.solve.update().reorder(st.jl, st.rsub.x, st.rsub.y).vectorize(st.jl, vec);
    st.out.compute_at(st.o, st.r).store_in(stack).vectorize(st.jl, vec);
    st.out.update().reorder(st.jl, st.ro, st.r).vectorize(st.jl, vec);
    st.state.compute_at(st.s1, st.c).store_in(stack).vectorize(st.jl, vec);
    st.state.update().reorder(st.jl, st.rs, st.c).vectorize(st.jl, vec);

    auto scratch = [&](Func &f) -> Func & { return f.compute_root().store_in(stack); };
    scratch(st.alpha);
    if (st.scalar_decay) scratch(st.between);
    for (Func *f : {&st.read, &st.write, &st.last, &st.mix}) scratch(*f);
    st.read.vectorize(st.c, vec);
    st.write.vectorize(st.c, vec);
    int update = 0;
    for (PairLevel &L : st.levels) {
        st.mix.update(update++).unscheduled();
        scratch(L.dot);
        place_lane_sum(L.products, [&](Func &f) -> Func & { return f.compute_at(L.dot, st.s); });
    }
}

Space reference_core_step_space() {
    Space s;
    s.add("task_grain", ParamKind::Runtime, {0, 1, 2, 4, 8, 16}, 0);
    s.add("v_slice_min", ParamKind::Runtime, {0, 16, 32, 64}, 32);
    return s;
}

void reference_apply_core_step(CoreStepStages &st, const Config &, const Machine &machine) {
    const int vec = machine.lanes;
    const auto stack = MemoryType::Stack;
    for (Func *f : {&st.erase, &st.query}) f->compute_at(st.o, st.h).store_in(stack).vectorize(st.c, vec);
    place_lane_sum(st.qa, [&](Func &f) -> Func & { return f.compute_at(st.o, st.h); });
    for (Func *f : {&st.r, &st.dots}) f->compute_at(st.o, st.h).store_in(stack);
    if (st.v_first) {
        st.s1.vectorize(st.c, vec).compute_with(st.o, st.h);
        place_lane_sum(st.products, [&](Func &f) -> Func & { return f.compute_at(st.dots, st.j); });
    } else {
        st.s1.update().reorder(st.j, st.rw, st.h).vectorize(st.j, vec).compute_with(st.o, st.h);
        st.dots.vectorize(st.j, vec).update().reorder(st.j, st.rk).vectorize(st.j, vec);
    }
}

void reference_apply_short_conv(ShortConvStages &st, const Machine &machine) {
    st.y.vectorize(st.c, machine.lanes, TailStrategy::GuardWithIf);
}

Space reference_gated_norm_space() {
    Space s;
    s.add("sums", ParamKind::Algorithm, {1}, 1);
    return s;
}

void reference_apply_gated_norm(GatedNormStages &st, const Machine &machine) {
    st.y.vectorize(st.d, machine.lanes, TailStrategy::GuardWithIf);
    st.inverse.bound_extent(st.t, 1).compute_at(st.y, st.t).store_in(MemoryType::Stack);
    place_lane_sum(st.squares, [&](Func &f) -> Func & { return f.compute_at(st.y, st.t); });
    // What is not asked for is not read.
    for (const Halide::Expr &gate : {st.silu, st.sigmoid}) st.y.specialize(gate).specialize(st.norm);
    st.y.specialize(st.norm);
}

}  // namespace gdn
