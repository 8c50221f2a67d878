// Products of decays between tokens of one chunk, in multiplicative form: every factor is in [0, 1], nothing is divided, alpha = 0 is exact.
#pragma once
#include <Halide.h>

#include <string>
#include <vector>

namespace gdn {

// The tree over the tokens of a chunk. Level `lev` has aligned blocks of 2^lev tokens:
//   pre[lev](c, r)  product of alpha from the first token of r's block up to and including r
//   suf[lev](c, s)  product of alpha after s to the last token of s's block
// Two tokens s < r whose indices first differ in bit `lev` sit in sibling blocks, so that the decay between them is
//   prod_{i = s+1..r} alpha_i = suf[lev](c, s) * pre[lev](c, r)                                   (method note 2.2, without exponents)
// The top level is gamma (pre) and the tail decay (suf) of the whole chunk.
struct DecayTree {
    std::vector<Halide::Func> pre, suf;
    int levels = 0;
};

// alpha is indexed (c, r); `tokens` is a power of two.
inline DecayTree decay_tree(const Halide::Func &alpha, int tokens, const Halide::Var &c, const Halide::Var &r) {
    using namespace Halide;
    DecayTree tree;
    while ((1 << tree.levels) < tokens) tree.levels++;
    Func one("suf0");
    one(c, r) = 1.0f;
    tree.pre.push_back(alpha);
    tree.suf.push_back(one);
    for (int lev = 0; lev < tree.levels; lev++) {
        const int len = 1 << lev;
        const Func &pre = tree.pre[lev], &suf = tree.suf[lev];
        Func pre_up("pre" + std::to_string(lev + 1)), suf_up("suf" + std::to_string(lev + 1));
        Expr second_half = ((r / len) % 2) == 1;
        Expr last_of_left = clamp((r / len) * len - 1, 0, tokens - 1);
        Expr last_of_right = clamp((r / len + 2) * len - 1, 0, tokens - 1);
        pre_up(c, r) = select(second_half, strict_float(pre(c, r) * pre(c, last_of_left)), pre(c, r));
        suf_up(c, r) = select(second_half, suf(c, r), strict_float(suf(c, r) * pre(c, last_of_right)));
        tree.pre.push_back(pre_up);
        tree.suf.push_back(suf_up);
    }
    return tree;
}

// Scalar decay: the whole table between(s, r) = prod_{i = s+1..r} alpha_i for s <= r, 0 above the diagonal.
inline Halide::Func decay_table(const Halide::Func &alpha, int tokens, const Halide::Var &s, const Halide::Var &r) {
    using namespace Halide;
    Func between("between");
    RDom rr(1, tokens - 1, "rr");
    between(s, r) = select(s == r, 1.0f, 0.0f);
    between(s, rr) = select(s < rr, strict_float(between(s, rr - 1) * alpha(rr)), between(s, rr));
    return between;
}

}  // namespace gdn
