// Named Funcs of the chunk core; generators/core_chunk.cpp defines them, schedules/ order them.
#pragma once
#include <Halide.h>

#include <vector>

#include "common/core.h"
#include "stages/lane_sum.h"

namespace gdn {

// Dot products of the token pairs (s, r) whose indices first differ in one bit: `half` tokens s on the left of a block boundary meet
// `half` tokens r on its right. Rows i < half are e rows (they give T), the others q rows (they give A_qk).
struct PairLevel {
    int half = 1;
    int blocks = 1;
    bool diagonal = false;   // s = r: only q rows, no decay
    Halide::Func left;       // (c, s, b)  a, decayed to the boundary
    Halide::Func right;      // (c, i, b)  e or q, decayed from the boundary
    LaneSum products;        // (s, i, b)  sum over c of left right
    Halide::Func dot;        // (s, i, b)  stored
};

struct CoreChunkStages {
    int chunk = 0;  // C
    Size size{"16x16"};
    int panel = 0;  // value channels of one panel
    bool scalar_decay = false;
    bool snapshots = false;  // the state after every token is written, not only the last
    bool low = false;  // state read and state write multiply bfloat16

    // jl: value channel in a panel, p: panel, c: key channel, r, s: tokens, m: row of the stacked [e; q] (2C rows), i: row of a pair level
    Halide::Var jl{"jl"}, p{"p"}, c{"c"}, r{"r"}, s{"s"}, i{"i"}, b{"b"}, m{"m"};

    Halide::Func alpha;    // (c, r), or (r) when scalar
    Halide::Func between;  // (s, r)       scalar only: decay products
    Halide::Func read;     // (c, m)       gamma e, then gamma q
    Halide::Func write;    // (c, s)       a, decayed to the chunk's end
    Halide::Func last;     // (c), or () when scalar: decay of the whole chunk
    std::vector<PairLevel> levels;
    Halide::Func mix;      // (s, m)       T, then A_qk
    Halide::Func line;     // (s, i)       fetches one line of a coming row; value 0. Undefined when nothing is fetched
    Halide::Func prod;     // (jl, m, p)   read S0
    Halide::Func y;        // (jl, m, p)   its stored copy
    Halide::Func solve;    // (jl, r, p)   forward substitution (I + T) R = U - Y
    Halide::Func rows;     // (jl, r, p)   R
    Halide::Func out;      // (jl, r, p)   o before it is stored
    Halide::Func state;    // (jl, c, p)   S1 before it is stored
    Halide::Func read16;   // (c, m)       low only: operands of both state products as packed pairs of bfloat16,
    Halide::Func state16;  // (jl, c, p)   channels c and c + K/2
    Halide::Func write16;  // (c, s)       tokens s and s + C/2
    Halide::Func rows16;   // (jl, r, p)
    Halide::Func o, s1;    // outputs (jl, p, r), (jl, c, p)
    Halide::RDom rk, rsub, ro, rs;
};

}  // namespace gdn
