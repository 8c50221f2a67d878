// Stage, map and store on CPUs: one pass over the tokens, whole vectors of channels.
#include "../rows.h"
#include "lane_sum.h"

#include <algorithm>

namespace gdn {
namespace {

using Halide::Func;
using Halide::MemoryType;
using Halide::TailStrategy;
using Halide::Var;

// The sums of a norm where the token is staged.
void place_norm(L2Norm &n, Func &at, const Var &t, bool unroll) {
    n.inverse.bound_extent(n.t, 1).compute_at(at, t).store_in(MemoryType::Stack);
    place_lane_sum(n.squares, [&](Func &f) -> Func & { return f.compute_at(at, t); });
    if (unroll) n.squares.partial.update().unroll(n.squares.block);
}

}  // namespace

Space stage_space(const Machine &machine, bool any_size, const std::string &form) {
    const bool logits = form == "logits";
    Space s;
    if (any_size || machine.schedule == "reference") return s;
    // What the rows share: 1 the loop over tokens, 2 the loop over vectors inside it too, so that exponentials overlap copies.
    s.add("merge", ParamKind::Schedule, {1, 2}, logits && machine.registers < 32 ? 1 : 2);
    // Steps per iteration: of a row that computes exponentials, or of the shared loop.
    s.add("unroll", ParamKind::Schedule, {1, 2, 4}, 1);
    // Machine vectors that go through every operation side by side: a polynomial waits for itself.
    s.add("abreast", ParamKind::Schedule, {1, 2}, logits ? 2 : 1);
    return s;
}

void apply_stage(StageStages &st, const Config &config, const Machine &machine) {
    Var co("co"), ci("ci"), cu("cu");
    const bool any = st.k == 0 || machine.schedule == "reference";
    const int vec = any ? std::min(2 * machine.lanes, 16) : machine.lanes * config["abreast"], token_vec = 8;
    const int merge = any ? 1 : config["merge"], unroll = any ? 16 / vec : config["unroll"];
    Func &first = st.rows[0];
    for (size_t i = 0; i < st.rows.size(); i++) {
        Func &f = st.rows[i];
        f.split(st.c, co, ci, vec, TailStrategy::RoundUp).vectorize(ci);
        if (any) {
            f.split(co, co, cu, unroll, TailStrategy::RoundUp).unroll(cu);
        } else {
            f.unroll(co, merge == 2 || st.heavy[i] ? unroll : (f.name() == st.rows.back().name() ? st.v : st.k) / vec);
        }
        if (i > 0) f.compute_with(first, merge == 2 && st.k == st.v ? co : st.t);
    }
    // One value per token: whole vectors of tokens, then one by one, since nothing lies behind the last.
    for (Func &f : st.scalars) f.vectorize(st.t, token_vec, TailStrategy::GuardWithIf);
    if (st.rate.defined()) st.rate.bound_extent(st.t, 1).compute_at(first, st.t).store_in(MemoryType::Stack);
    for (L2Norm &n : st.norms) place_norm(n, first, st.t, !any);
}

Space map_space(const Machine &) { return {}; }

void apply_map(MapStages &st, const Config &, const Machine &machine) {
    st.out.vectorize(st.c, machine.lanes, TailStrategy::GuardWithIf);
    if (st.rate.defined()) st.rate.bound_extent(st.t, 1).compute_at(st.out, st.t).store_in(MemoryType::Stack);
    for (L2Norm &n : st.norms) place_norm(n, st.out, st.t, false);
}

Space store_space(const Machine &) { return {}; }

void apply_store(StoreStages &st, const Config &, const Machine &machine) {
    st.y.vectorize(st.d, machine.lanes, TailStrategy::GuardWithIf);
}

}  // namespace gdn
