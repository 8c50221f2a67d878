// The part of gdn demo that needs gdn::layer.
#pragma once
#include <string>

namespace gdn::cli {

/// A stack of two GDN-2 layers over the text: right, equal both ways, fast. Throws Failure(kExitVerification) if it is wrong.
void demo_layers(const std::string &text, const std::string &target, int threads);

}  // namespace gdn::cli
