// Points at random, each once.
#include "autotune/search/strategy.h"

namespace gdn::tune {

namespace {

class RandomStrategy : public Strategy {
public:
    bool propose(History &history, Random &random, Point *point) override { return history.draw(random, point); }
};

}  // namespace

std::unique_ptr<Strategy> make_random() { return std::make_unique<RandomStrategy>(); }

}  // namespace gdn::tune
