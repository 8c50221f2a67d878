// 1 / sqrt(sum x^2 + 1e-6) of a row (method note 1.4), summed in one partial sum per lane.
#pragma once
#include <Halide.h>

#include <functional>
#include <string>
#include <vector>

namespace gdn {

struct L2Norm {
    Halide::Func partial;              // (l, t)  sum over channel blocks
    std::vector<Halide::Func> folded;  // (l, t)  the same with half the lanes, down to four
    Halide::Func inverse;              // (t)     factor / sqrt(sum x^2 + 1e-6)
    Halide::RDom block;
    Halide::Var l{"l"}, t{"t"};
};

// x(c, t) has `blocks` * `lanes` channels.
inline L2Norm l2norm(const std::string &name, const std::function<Halide::Expr(Halide::Expr, Halide::Expr)> &x, const Halide::Expr &blocks,
    int lanes, const Halide::Expr &factor) {
    L2Norm n;
    n.block = Halide::RDom(0, blocks, name + "_block");
    n.partial = Halide::Func(name + "_partial");
    n.inverse = Halide::Func(name + "_inverse");
    const Halide::Expr value = x(n.block * lanes + n.l, n.t);
    n.partial(n.l, n.t) = 0.0f;
    n.partial(n.l, n.t) += value * value;
    Halide::Func sum = n.partial;
    for (int half = lanes / 2; half >= 4; half /= 2) {
        Halide::Func next(name + "_fold" + std::to_string(half));
        next(n.l, n.t) = sum(n.l, n.t) + sum(n.l + half, n.t);
        n.folded.push_back(next);
        sum = next;
    }
    n.inverse(n.t) = factor / Halide::sqrt((sum(0, n.t) + sum(1, n.t)) + (sum(2, n.t) + sum(3, n.t)) + 1e-6f);
    return n;
}

}  // namespace gdn
