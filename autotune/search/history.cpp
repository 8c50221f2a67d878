#include "autotune/search/history.h"

#include <limits>

namespace gdn::tune {

History::Score History::tell(const Point &point, const Outcome &outcome) {
    const Score score = outcome.status == Status::kOk ? outcome.cost : std::numeric_limits<double>::infinity();
    told_.emplace(score, point);
    return score;
}

// Fisher and Yates, with only the exchanged positions in memory.
bool History::draw(Random &random, Point *point) {
    const auto number_at = [&](uint64_t position) {
        const auto it = moved_.find(position);
        return it == moved_.end() ? position : it->second;
    };
    while (left_) {
        const uint64_t position = random.below(left_), number = number_at(position);
        left_--;
        if (position != left_) moved_[position] = number_at(left_);
        moved_.erase(left_);
        *point = space_.nth_valid(number);
        if (!asked(*point)) return true;
    }
    return false;
}

}  // namespace gdn::tune
