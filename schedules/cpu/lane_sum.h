// Where the partial sums of a LaneSum live, and their vectors.
#pragma once
#include "../../generators/stages/lane_sum.h"

namespace gdn {

// place(f) says at which loop f is computed; its other arguments are unrolled there.
template <class Place>
void place_lane_sum(LaneSum &n, const Place &place) {
    int lanes = 2 << n.folded.size();
    auto whole = [&](auto stage) {
        stage.vectorize(n.l, lanes);
        for (const Halide::Var &v : n.args) stage.unroll(v);
    };
    n.partial.bound_extent(n.l, lanes);
    whole(place(n.partial).store_in(Halide::MemoryType::Stack));
    std::vector<Halide::VarOrRVar> order{n.l};
    order.insert(order.end(), n.args.begin(), n.args.end());
    order.push_back(n.block);
    whole(n.partial.update().reorder(order));
    for (Halide::Func &f : n.folded) {
        lanes /= 2;
        whole(place(f.bound_extent(n.l, lanes)).store_in(Halide::MemoryType::Stack));
    }
}

}  // namespace gdn
