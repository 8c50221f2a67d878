// Whether a problem's outputs are those of the double reference.
#pragma once
#include "autotune/worker/problem.h"

namespace gdn::tune {

/// The problem's reference, from `folder` or made and left there. Throws Failure where it cannot be written.
std::vector<double> reference_of(const Problem &problem, const std::string &folder);
/// Runs the problem and returns the worst relative RMS error. Throws Failure(kWrongResult) that says what is wrong and by how much.
double verify(Problem &problem, const std::string &folder);

}  // namespace gdn::tune
