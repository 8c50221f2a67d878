// Named Funcs of store; generators/store.cpp defines them, schedules/ order them.
#pragma once
#include <Halide.h>

namespace gdn {

struct StoreStages {
    Halide::Var d{"d"}, t{"t"};  // value channel, token
    Halide::Func y;              // (d, t)
};

}  // namespace gdn
