// How the next point is chosen from what is known. Strategies share one history: what one of them asked for, all learn from, and none asks for again.
#pragma once
#include <memory>

#include "autotune/search/history.h"

namespace gdn::tune {

class Strategy {
public:
    virtual ~Strategy() = default;
    /// A valid point that was not asked for; false: it waits for outcomes, or has no more.
    virtual bool propose(History &history, Random &random, Point *point) = 0;
    /// Of every point that the history was told, whoever proposed it.
    virtual void learn(const History &, const Point &, History::Score) {}
    /// Of every point that was skipped: nothing will be told of it.
    virtual void forget(const Point &) {}
};

std::unique_ptr<Strategy> make_exhaustive();
std::unique_ptr<Strategy> make_random();
std::unique_ptr<Strategy> make_local();
std::unique_ptr<Strategy> make_genetic();
/// Lets those propose most whose points are the best of late.
std::unique_ptr<Strategy> make_bandit(std::vector<std::unique_ptr<Strategy>> strategies);
std::unique_ptr<Strategy> make_auto();  // local, genetic and random under a bandit

}  // namespace gdn::tune
