// Named Funcs of the stage; generators/stage.cpp defines them, schedules/ order them.
#pragma once
#include <Halide.h>

#include <vector>

#include "stages/l2norm.h"

namespace gdn {

struct StageStages {
    int k = 0, v = 0;            // 0 = run time, a multiple of 16
    bool logits = false;         // gates and decay are functions of logits
    Halide::Var c{"c"}, t{"t"};  // channel (of keys or values), token

    // Outputs with one value per channel: alpha (unless scalar), q, a, e (if own), u. The first is alpha or q.
    std::vector<Halide::Func> rows;  // (c, t)
    std::vector<bool> heavy;         // of each row: computes an exponential
    // Outputs with one value per token: beta, scalar alpha. u reads beta.
    std::vector<Halide::Func> scalars;  // (c, t), c = 0 only
    Halide::Func rate;                  // (t)  exp(A_log); undefined without a logit decay per channel
    std::vector<L2Norm> norms;          // q, k; empty without l2norm
};

}  // namespace gdn
