// The one-pass step on CPUs: one loop over the key channels, in which a row of the state is read, brought up to date, written and multiplied.
#include "cpu.h"
#include "lane_sum.h"

namespace gdn {

using Halide::Func;
using Halide::MemoryType;
using Halide::RVar;

Space cpu_core_pending_space(const Machine &m, const Size &size) {
    Space s;
    // Columns of one sweep: two accumulators per vector of them.
    const int widest = m.registers / 4 * m.lanes;
    std::vector<int> panels;
    int panel = 16;
    for (int n : {16, 32, 48, 64, 96, 128, 192}) {
        if (size.v % n != 0 || n > 2 * widest) continue;
        panels.push_back(n);
        if (n <= widest) panel = n;
    }
    s.add("panel", ParamKind::Algorithm, panels, panel);
    s.add("unroll_k", ParamKind::Schedule, {1, 2}, 1);
    return s;
}

void cpu_apply_core_pending(CorePendingStages &st, const Config &k, const Machine &machine) {
    const int vec = machine.lanes, unroll_k = k["unroll_k"];
    const auto stack = MemoryType::Stack;
    RVar ko("ko"), ki("ki");
    for (Func *f : {&st.erase, &st.query}) f->compute_root().store_in(stack).vectorize(st.c, vec);
    place_lane_sum(st.qa, [&](Func &f) -> Func & { return f.compute_root(); });
    st.dots.compute_root().store_in(stack).bound(st.j, 0, st.panel).vectorize(st.j, vec).unroll(st.j);
    st.dots.update().split(st.rk, ko, ki, unroll_k).reorder(st.j, ki, ko, st.p).vectorize(st.j, vec).unroll(st.j).unroll(ki);
    st.settled.compute_at(st.dots, ko).store_in(stack).bound_extent(st.j, st.panel).bound_extent(st.c, unroll_k).bound_extent(st.p, 1)
        .vectorize(st.j, vec).unroll(st.j).unroll(st.c);
    st.s1.bound(st.j, 0, st.panel).bound(st.c, 0, st.size.k);
    st.s1.update().split(st.rk, ko, ki, unroll_k).reorder(st.j, ki, ko, st.p).vectorize(st.j, vec).unroll(st.j).unroll(ki)
        .compute_with(st.dots.update(), ko);
    st.residual.compute_root().store_in(stack).bound(st.j, 0, st.panel).vectorize(st.j, vec).unroll(st.j);
    for (Func *f : {&st.r, &st.o}) f->bound(st.j, 0, st.panel).vectorize(st.j, vec).unroll(st.j);
}

}  // namespace gdn
