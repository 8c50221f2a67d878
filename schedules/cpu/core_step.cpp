// The step core on CPUs: per head one sweep over the state for both dot products, one for the update.
#include <algorithm>

#include "cpu.h"
#include "lane_sum.h"

namespace gdn {

using Halide::Func;
using Halide::MemoryType;
using Halide::RVar;
using Halide::TailStrategy;
using Halide::Var;

Space cpu_core_step_space(const Machine &m, const Size &size, bool v_first) {
    Space s;
    if (v_first) {
        // Rows of the state that are in flight together; their partial sums fill the registers.
        s.add("rows", ParamKind::Schedule, {1, 2, 4, 8, 16}, m.lanes == 16 ? 8 : 4);
        // Vectors that are unrolled together must fill a row, which is a multiple of 16 at least: the last ones of a row would be moved back
        // over others, and the update of a state in place would meet them twice.
        std::vector<int> unrolls;
        for (int n : {1, 2, 4}) {
            if ((size.k ? size.k : 16) % (n * m.lanes) == 0) unrolls.push_back(n);
        }
        s.add("unroll_k", ParamKind::Schedule, unrolls, 1);
    } else {
        // Columns handled together: two accumulators per vector of them.
        const int widest = m.registers / 4 * m.lanes, unit = size.v ? size.v : size.v_unit;
        std::vector<int> panels;
        int panel = 16;
        for (int n : {16, 32, 48, 64, 96, 128, 192, 256}) {
            if (unit % n != 0 || n > 2 * widest) continue;
            panels.push_back(n);
            if (n <= widest) panel = n;
        }
        s.add("panel", ParamKind::Schedule, panels, panel);
        s.add("unroll_k", ParamKind::Schedule, {1, 2, 4}, 2);
    }
    s.add("task_grain", ParamKind::Runtime, {0, 1, 2, 4, 8, 16}, 0);
    s.add("v_slice_min", ParamKind::Runtime, {0, 16, 32, 64}, 32);
    return s;
}

void cpu_apply_core_step(CoreStepStages &st, const Config &k, const Machine &machine) {
    const int vec = machine.lanes;
    const auto stack = MemoryType::Stack;
    Var p("p"), jl("jl"), co("co"), ci("ci");

    const int unroll_k = k["unroll_k"];
    if (st.v_first) {
        const int rows = k["rows"];
        st.o.split(st.j, p, jl, rows, TailStrategy::RoundUp).reorder(jl, p, st.h).vectorize(jl);
        st.s1.split(st.j, p, jl, rows, TailStrategy::RoundUp).split(st.c, co, ci, vec).reorder(ci, jl, co, p, st.h)
            .vectorize(ci).unroll(jl).unroll(co, unroll_k);
        st.r.compute_at(st.o, p).store_in(stack).vectorize(st.j, rows);
        st.dots.compute_at(st.o, p).store_in(stack).vectorize(st.j, rows);
        place_lane_sum(st.products, [&](Func &f) -> Func & { return f.compute_at(st.o, p); });
        st.products.partial.update().unroll(st.products.block, unroll_k);
    } else {
        const int panel = k["panel"];
        st.o.split(st.j, p, jl, panel, TailStrategy::RoundUp).reorder(jl, p, st.h).vectorize(jl, vec).unroll(jl);
        RVar wo("wo"), wi("wi");
        st.s1.update().split(st.j, p, jl, panel, TailStrategy::RoundUp).split(st.rw, wo, wi, unroll_k).reorder(jl, wi, wo, p, st.h)
            .vectorize(jl, vec).unroll(jl).unroll(wi);
        st.r.compute_at(st.o, p).store_in(stack).bound_extent(st.j, panel).bound_extent(st.h, 1).vectorize(st.j, vec).unroll(st.j);
        st.dots.compute_at(st.o, p).store_in(stack).bound_extent(st.j, panel).bound_extent(st.h, 1).vectorize(st.j, vec).unroll(st.j);
        RVar ko("ko"), ki("ki");
        st.dots.update().split(st.rk, ko, ki, unroll_k).reorder(st.j, ki, ko).vectorize(st.j, vec).unroll(st.j).unroll(ki);
    }
    if (st.v_first) st.s1.compute_with(st.o, p); else st.s1.update().compute_with(st.o, p);

    for (Func *f : {&st.erase, &st.query}) f->compute_at(st.o, st.h).store_in(stack).vectorize(st.c, vec);
    place_lane_sum(st.qa, [&](Func &f) -> Func & { return f.compute_at(st.o, st.h); });
}

}  // namespace gdn
