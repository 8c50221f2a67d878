// Named Funcs of the step core; generators/core_step.cpp defines them, schedules/ order them.
#pragma once
#include <Halide.h>

#include "common/core.h"

namespace gdn {

struct CoreStepStages {
    Size size{"16x16"};
    bool v_first = false;
    bool scalar_decay = false;

    // j: value channel, c: key channel, l: lane, h: head
    Halide::Var j{"j"}, c{"c"}, l{"l"}, h{"h"};

    Halide::Func erase;     // (c, h)  alpha e
    Halide::Func query;     // (c, h)  alpha q
    Halide::Func qa;        // (h)     <q, a>
    Halide::RDom rc;        // key channels of qa
    Halide::Func partial;   // (l, j, h)  v_first only: both dots, one partial sum per lane
    Halide::Func dots;      // (j, h)  Tuple: S^T (alpha e), S^T (alpha q) of the old state
    Halide::RDom rk;        // key channels of dots (k_first), lanes of dots (v_first)
    Halide::RDom rw;        // key channels of the update (k_first)
    Halide::RDom rb;        // v_first only: blocks of lanes
    Halide::Func r;         // (j, h)  u - S^T (alpha e)
    Halide::Func o, s1;     // outputs (j, h), and (j, c, h) or (c, j, h)
};

}  // namespace gdn
