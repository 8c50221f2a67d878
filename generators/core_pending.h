// Named Funcs of the one-pass step; generators/core_pending.cpp defines them, schedules/ order them.
#pragma once
#include <Halide.h>

#include "common/core.h"
#include "stages/lane_sum.h"

namespace gdn {

struct CorePendingStages {
    Size size{"16x16"};
    int panel = 16;

    // j: value channel of panel p, c: key channel
    Halide::Var j{"j"}, c{"c"}, p{"p"};

    Halide::Func erase;    // (c)     alpha e
    Halide::Func query;    // (c)     alpha q
    LaneSum qa;            // ()      <q, a>
    Halide::Func settled;  // (j, c, p)  the state after the token before: Diag(alpha_0) S + a_0 r_0^T
    Halide::Func dots;     // (j, p)  Tuple: its products with alpha e and alpha q
    Halide::Func residual; // (j, p)  u - S^T (alpha e)
    Halide::RDom rk;       // key channels, of dots and of S1
    Halide::Func o, r;     // outputs (j, p)
    Halide::Func s1;       // output (j, c, p)
};

}  // namespace gdn
