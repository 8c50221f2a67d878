// 1 / sqrt(sum x^2 + 1e-6) of a row (method note 1.4), summed in one partial sum per lane.
#pragma once
#include <Halide.h>

#include <functional>
#include <string>

namespace gdn {

struct L2Norm {
    Halide::Func partial;  // (l, t)  sum over channel blocks
    Halide::Func square;   // (t)     sum x^2 + 1e-6
    Halide::Func inverse;  // (t)     factor / sqrt(square)
    Halide::RDom block, lane;
    Halide::Var l{"l"}, t{"t"};
};

// x(c, t) has `blocks` * `lanes` channels.
inline L2Norm l2norm(const std::string &name, const std::function<Halide::Expr(Halide::Expr, Halide::Expr)> &x, const Halide::Expr &blocks,
                     int lanes, const Halide::Expr &factor) {
    L2Norm n;
    n.block = Halide::RDom(0, blocks, name + "_block");
    n.lane = Halide::RDom(0, lanes, name + "_lane");
    n.partial = Halide::Func(name + "_partial");
    n.square = Halide::Func(name + "_square");
    n.inverse = Halide::Func(name + "_inverse");
    const Halide::Expr value = x(n.block * lanes + n.l, n.t);
    n.partial(n.l, n.t) = 0.0f;
    n.partial(n.l, n.t) += value * value;
    n.square(n.t) = 1e-6f;
    n.square(n.t) += n.partial(n.lane, n.t);
    n.inverse(n.t) = factor / Halide::sqrt(n.square(n.t));
    return n;
}

}  // namespace gdn
