// A sum over channels in one partial sum per lane, and the lanes folded by halves: a fixed order, which costs log2(lanes) additions where a sum over
// the lanes in order would be a chain of `lanes` (what LLVM makes of a vector reduction beside strict_float products).
#pragma once
#include <Halide.h>

#include <functional>
#include <string>
#include <vector>

namespace gdn {

struct LaneSum {
    Halide::Func partial;              // (l, args)  sum over channel blocks
    std::vector<Halide::Func> folded;  // (l, args)  the same with half the lanes, down to two
    Halide::RDom block;
    Halide::Var l{"l"};
    std::vector<Halide::Var> args;

    Halide::Expr total() const {
        auto lane = [this](int i) {
            std::vector<Halide::Expr> at{i};
            at.insert(at.end(), args.begin(), args.end());
            return (folded.empty() ? partial : folded.back())(at);
        };
        return lane(0) + lane(1);
    }
};

// The sum of value(channel) over `blocks` * `lanes` channels, for every value of `args`.
inline LaneSum lane_sum(const std::string &name, const std::function<Halide::Expr(Halide::Expr)> &value, const std::vector<Halide::Var> &args,
    const Halide::Expr &blocks, int lanes) {
    using namespace Halide;
    LaneSum n;
    n.args = args;
    n.block = RDom(0, blocks, name + "_block");
    n.partial = Func(name + "_partial");
    std::vector<Var> vars{n.l};
    vars.insert(vars.end(), args.begin(), args.end());
    n.partial(vars) = 0.0f;
    n.partial(vars) += value(n.block * lanes + n.l);
    Func sum = n.partial;
    for (int half = lanes / 2; half >= 2; half /= 2) {
        Func next(name + "_fold" + std::to_string(half));
        std::vector<Expr> low(vars.begin(), vars.end()), high = low;
        high[0] = n.l + half;
        next(vars) = sum(low) + sum(high);
        n.folded.push_back(next);
        sum = next;
    }
    return n;
}

}  // namespace gdn
