// Points that somebody else chose.
#pragma once
#include "autotune/search/searcher.h"

namespace gdn::tune {

/// Asks for `points` in order, then for nothing. Named "given".
std::unique_ptr<Searcher> make_given(std::vector<Point> points);

}  // namespace gdn::tune
