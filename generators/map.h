// Named Funcs of map; generators/map.cpp defines them, schedules/ order them.
#pragma once
#include <Halide.h>

#include <vector>

#include "stages/l2norm.h"

namespace gdn {

struct MapStages {
    Halide::Var c{"c"}, t{"t"};  // channel, token
    Halide::Func out;            // (c, t)
    Halide::Func rate;           // (t)  exp(A_log); undefined without a logit decay
    std::vector<L2Norm> norms;   // one, of kind l2norm
};

}  // namespace gdn
