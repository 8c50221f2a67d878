// 1 / sqrt(sum x^2 + 1e-6) of a row (method note 1.4).
#pragma once
#include "lane_sum.h"

namespace gdn {

struct L2Norm {
    Halide::Var t{"t"};
    LaneSum squares;       // (t)
    Halide::Func inverse;  // (t)  factor / sqrt(sum x^2 + 1e-6)
};

// x(c, t) has `blocks` * `lanes` channels.
inline L2Norm l2norm(const std::string &name, const std::function<Halide::Expr(Halide::Expr, Halide::Expr)> &x, const Halide::Expr &blocks,
    int lanes, const Halide::Expr &factor) {
    L2Norm n;
    auto square = [&](const Halide::Expr &c) {
        const Halide::Expr value = x(c, n.t);
        return value * value;
    };
    n.squares = lane_sum(name, square, {n.t}, blocks, lanes);
    n.inverse = Halide::Func(name + "_inverse");
    n.inverse(n.t) = factor / Halide::sqrt(n.squares.total() + 1e-6f);
    return n;
}

}  // namespace gdn
