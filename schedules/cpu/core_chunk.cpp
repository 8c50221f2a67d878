// The chunk core on CPUs: the chunk's algebra once, then one pass over the state in register tiles.
#include <algorithm>

#include "../cpu/cpu.h"
#include "../schedules.h"
#include "lane_sum.h"

namespace gdn {
namespace {

using Halide::Func;
using Halide::MemoryType;
using Halide::RVar;
using Halide::Var;

std::vector<int> divisors(int n, std::vector<int> wanted) {
    wanted.erase(std::remove_if(wanted.begin(), wanted.end(), [&](int w) { return n % w != 0; }), wanted.end());
    return wanted;
}

}  // namespace

Space cpu_core_chunk_space(const Machine &m, const Size &size, bool low, bool snapshots) {
    const bool narrow = m.lanes < 16;  // 4 x 16 tiles: 8 accumulators of AVX2, 16 of NEON
    Space s;
    // Low precision goes without 4: its short and tail steps are for whole chunks of eight tokens.
    s.add("chunk", ParamKind::Algorithm, snapshots ? std::vector<int>{8} : low ? std::vector<int>{8, 16} : std::vector<int>{4, 8, 16}, 8);
    s.add("panel", ParamKind::Algorithm, size.v ? divisors(size.v, {size.v / 4, size.v / 2, size.v}) : std::vector<int>{size.v_unit},
          size.v ? size.v : size.v_unit);
    // Lines per address of `next`: as long as one row of K floats where that divides the lines of a tile (K / 2).
    const int row_lines = size.k ? size.k / 16 : 8;
    const int fetch = row_lines > 8 ? (row_lines % 8 ? 6 : 8) : row_lines;
    s.add("fetch_lines", ParamKind::Algorithm, snapshots ? std::vector<int>{0} : std::vector<int>{0, 4, 6, 8}, snapshots ? 0 : fetch);
    s.require("fetch_lines divides K / 2", [size](const Config &c) {
        const int unit = size.k ? size.k / 2 : 8;
        return c["fetch_lines"] == 0 || unit % c["fetch_lines"] == 0;
    });
    s.add("rows", ParamKind::Schedule, {2, 4, 8}, narrow ? 4 : 8);
    s.add("state_rows", ParamKind::Schedule, {2, 4, 8, 16}, narrow ? 4 : 8);
    s.add("cols", ParamKind::Schedule, {16, 32, 48, 64}, narrow || size.v_unit < 32 ? 16 : 32);
    s.require("cols divides panel", [](const Config &c) { return c["panel"] % c["cols"] == 0; });
    s.require("cols is a multiple of the vector", [m](const Config &c) { return c["cols"] % m.lanes == 0; });
    s.require("a tile leaves registers for its operands", [m](const Config &c) {
        return std::max(c["rows"], c["state_rows"]) * c["cols"] / m.lanes <= m.registers - m.registers / 8;
    });
    s.add("unroll_k", ParamKind::Schedule, {2, 4, 8}, 2);
    s.add("stage_from", ParamKind::Schedule, {1, 2, 4, 8}, 4);
    s.add("dot_s", ParamKind::Schedule, {1, 2, 4}, narrow ? 2 : 4);
    s.add("dot_registers", ParamKind::Schedule, {4, 8, 16}, narrow ? 8 : 16);
    if (snapshots) return s;  // a call's run-time parameters are those of its core_chunk
    s.add("time_block", ParamKind::Runtime, {8, 16, 32, 64, 128}, 32);
    s.require("chunk divides time_block", [](const Config &c) { return c["time_block"] % c["chunk"] == 0; });
    s.add("task_grain", ParamKind::Runtime, {0, 1, 2, 4, 8, 16}, 0);
    // Low precision is for whole chunks: what is shorter goes token by token in float32, which is as fast and more exact.
    s.add("short_steps", ParamKind::Runtime, {1, 2, 3, 4, 5, 6, 7, 9, 11}, low ? 7 : 3);
    s.add("tail_steps", ParamKind::Runtime, {0, 1, 2, 3, 4, 5, 6, 7, 9, 11}, low ? 7 : 3);
    s.require("steps are fewer than a chunk's tokens", [](const Config &c) { return std::max(c["short_steps"], c["tail_steps"]) < c["chunk"]; });
    s.add("v_slice_min", ParamKind::Runtime, {0, 16, 32, 64}, 32);
    s.add("fetch_ahead", ParamKind::Runtime, {0, 1, 2}, 1);
    s.require("fetch_ahead has fetch_lines", [](const Config &c) { return c["fetch_lines"] > 0 || c["fetch_ahead"] == 1; });
    return s;
}

void cpu_apply_core_chunk(CoreChunkStages &st, const Config &k, const Machine &machine) {
    Var jo("jo"), ji("ji"), ro("ro"), ri("ri"), co("co"), ci("ci"), so("so"), si("si"), io("io"), ii("ii"), bo("bo"), bi("bi");
    const int vec = machine.lanes, C = st.chunk, panel = st.panel, cols = k["cols"];
    const int token_vec = std::min(vec, C);
    const auto stack = MemoryType::Stack;

    // Outputs: both walk the panels in one loop, so that y, R and the state tiles of a panel are made once.
    st.o.bound(st.jl, 0, panel).split(st.jl, jo, ji, vec).reorder(ji, st.r, jo, st.p).vectorize(ji).unroll(st.r);
    const int state_rows = k["state_rows"];
    if (st.snapshots) {
        // Token by token within a tile, each reading what the one before has just stored.
        st.s1.bound(st.jl, 0, panel).update().split(st.c, co, ci, state_rows).split(st.jl, jo, ji, cols)
            .reorder(ji, ci, st.rs, jo, co, st.p).vectorize(ji, vec).unroll(ji).unroll(ci);
    } else {
        // A register tile of state_rows x cols, C rank-one updates.
        st.s1.split(st.c, co, ci, state_rows).split(st.jl, jo, ji, cols).reorder(ji, ci, co, jo, st.p)
            .vectorize(ji, vec).unroll(ji).unroll(ci).compute_with(st.o, st.p);
        st.state.compute_at(st.s1, co).vectorize(st.jl, vec).unroll(st.jl).unroll(st.c);
        st.state.update().reorder(st.jl, st.c, st.rs).vectorize(st.jl, vec).unroll(st.jl).unroll(st.c).unroll(st.rs, 2);
    }

    // State read: [2C x K] * [K x panel] in register tiles of rows x cols.
    auto per_panel = [&](Func &f) -> Func & { return (st.snapshots ? f.compute_root() : f.compute_at(st.o, st.p)).store_in(stack); };
    per_panel(st.y)
        .split(st.m, ro, ri, k["rows"]).split(st.jl, jo, ji, cols).reorder(ji, ri, ro, jo).vectorize(ji, vec).unroll(ji).unroll(ri);
    st.prod.compute_at(st.y, ro).vectorize(st.jl, vec).unroll(st.jl).unroll(st.m);
    RVar ko("ko"), ki("ki");
    st.prod.update().split(st.rk, ko, ki, k["unroll_k"]).reorder(st.jl, st.m, ki, ko)
        .vectorize(st.jl, vec).unroll(st.jl).unroll(st.m).unroll(ki);
    if (st.low) {
        st.state16.compute_at(st.y, jo).store_in(stack).vectorize(st.jl, vec).unroll(st.jl);
        per_panel(st.rows16).vectorize(st.jl, vec).unroll(st.r);
    }
    if (st.line.defined()) st.line.compute_at(st.prod, ko).store_in(stack).unroll(st.s);

    // Substitution and output: one vector of columns at a time, all rows of the chunk in registers.
    per_panel(st.rows).split(st.jl, jo, ji, vec).reorder(ji, st.r, jo).vectorize(ji).unroll(st.r);
    st.solve.compute_at(st.rows, jo).vectorize(st.jl, vec).unroll(st.r);
    st.solve.update().reorder(st.jl, st.rsub.x, st.rsub.y).vectorize(st.jl, vec).unroll(st.rsub.x).unroll(st.rsub.y);
    st.out.compute_at(st.o, jo).vectorize(st.jl, vec).unroll(st.r);
    st.out.update().reorder(st.jl, st.ro, st.r).vectorize(st.jl, vec).unroll(st.ro).unroll(st.r);

    // The chunk's algebra, once per call.
    auto scratch = [&](Func &f) -> Func & { return f.compute_root().store_in(stack); };
    auto by_block = [&](Func &f, Var row, int lanes) {
        scratch(f).split(st.c, co, ci, lanes).reorder(ci, row, co).vectorize(ci).unroll(row);
    };
    if (st.scalar_decay) {
        scratch(st.alpha).vectorize(st.r, token_vec);
        scratch(st.between).bound_extent(st.s, C).vectorize(st.s, token_vec);
        st.between.update().vectorize(st.s, token_vec);
        scratch(st.last);
    } else {
        scratch(st.last).vectorize(st.c, vec);
    }
    if (st.low) {
        // Pairs of channels: K / 2 of them, which is a multiple of eight only.
        by_block(st.read16, st.m, std::min(vec, 8));
        by_block(st.write16, st.s, vec);
    } else {
        by_block(st.read, st.m, vec);
        by_block(st.write, st.s, vec);
    }

    scratch(st.mix).bound_extent(st.s, C).vectorize(st.s, token_vec).unroll(st.m);
    const int stage_from = k["stage_from"], dot_s = k["dot_s"], dot_registers = k["dot_registers"];
    int update = 0;
    for (PairLevel &L : st.levels) {
        st.mix.update(update++).unscheduled();
        // Levels of at least stage_from tokens reuse their decayed operands often enough to store them.
        if (!L.diagonal && !st.scalar_decay && L.half >= stage_from) {
            for (Func *f : {&L.left, &L.right}) {
                Var row = f == &L.left ? st.s : st.i;
                scratch(*f).split(st.c, co, ci, vec).reorder(ci, row, st.b, co).vectorize(ci).unroll(row).unroll(st.b);
            }
        }
        const int ts = std::min(L.half, dot_s), ti = L.diagonal ? 1 : std::min(2 * L.half, 4);
        const int tb = std::min(L.blocks, std::max(1, dot_registers / (ts * ti)));
        scratch(L.dot);
        L.dot.split(st.s, so, si, ts).split(st.i, io, ii, ti).split(st.b, bo, bi, tb).reorder(si, ii, bi, so, io, bo).unroll(si).unroll(ii).unroll(bi);
        place_lane_sum(L.products, [&](Func &f) -> Func & { return f.compute_at(L.dot, so); });
    }
}

}  // namespace gdn
