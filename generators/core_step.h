// Named Funcs of the step core; generators/core_step.cpp defines them, schedules/ order them.
#pragma once
#include <Halide.h>

#include "common/core.h"
#include "stages/lane_sum.h"

namespace gdn {

struct CoreStepStages {
    Size size{"16x16"};
    bool v_first = false;
    bool scalar_decay = false;

    // j: value channel, c: key channel, x: which dot product, h: head
    Halide::Var j{"j"}, c{"c"}, x{"x"}, h{"h"};

    Halide::Func erase;    // (c, h)  alpha e
    Halide::Func query;    // (c, h)  alpha q
    LaneSum qa;            // (h)     <q, a>
    LaneSum products;      // (x, j, h)  v_first only: the dots, summed along the rows of S
    Halide::Func dots;     // (j, h)  Tuple: S^T (alpha e), S^T (alpha q) of the old state
    Halide::RDom rk;       // k_first only: key channels of dots
    Halide::RDom rw;       // k_first only: key channels of the update
    Halide::Func r;        // (j, h)  u - S^T (alpha e)
    Halide::Func o, s1;    // outputs (j, h), and (j, c, h) or (c, j, h)
};

}  // namespace gdn
