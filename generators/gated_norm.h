// Named Funcs of gated_norm; generators/gated_norm.cpp defines them, schedules/ order them.
#pragma once
#include <Halide.h>

#include "stages/lane_sum.h"

namespace gdn {

struct GatedNormStages {
    Halide::Var d{"d"}, t{"t"};  // value channel, row: a token of one head or a head of one token
    LaneSum squares;             // (t)
    Halide::Func inverse;        // (t)  1 / sqrt(mean o^2 + eps)
    Halide::Func y;              // (d, t)
    Halide::Expr channels;
    Halide::Expr norm, silu, sigmoid;  // what the caller asks for; without a gate z is not read, without a norm neither weight nor eps
};

}  // namespace gdn
