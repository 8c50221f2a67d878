// The part of gdn demo that needs the tuner.
#pragma once
#include <string>
#include <vector>

namespace gdn::cli {

/// Tunes `kernels` of `target` for about `seconds` and shows what that gains. Says so where there is no compiler of candidates.
void demo_tuning(const std::vector<std::string> &kernels, const std::string &target, double seconds);

}  // namespace gdn::cli
