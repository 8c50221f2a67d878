// Named Funcs of short_conv; generators/short_conv.cpp defines them, schedules/ order them.
#pragma once
#include <Halide.h>

namespace gdn {

struct ShortConvStages {
    Halide::Var c{"c"}, t{"t"};  // channel, token
    Halide::Func y;              // (c, t)
    Halide::Expr silu;           // whether the activation is silu
    Halide::Expr channels, tokens;
};

struct ShortConvStepStages {
    Halide::Var c{"c"}, i{"i"};  // channel, row of the state
    Halide::Func y, h1;          // (c), (c, i)
    int old_rows = 0;            // W - 1
    Halide::Expr silu;
    Halide::Expr channels;
};

}  // namespace gdn
