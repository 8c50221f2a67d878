// What a search knows of its space: which points were asked for, how they went, and what is left.
#pragma once
#include <map>
#include <set>
#include <unordered_map>

#include "autotune/search/searcher.h"

namespace gdn::tune {

class History {
public:
    /// How a point went: its cost, and more than any cost where it has none.
    using Score = double;

    explicit History(const Space &space) : space_(space), left_(space.valid_count()) {}

    const Space &space() const { return space_; }
    bool asked(const Point &point) const { return asked_.count(point) != 0; }
    size_t asked_count() const { return asked_.size(); }
    void ask(const Point &point) { asked_.insert(point); }
    /// Of anything but kSkipped, which says nothing of the point.
    Score tell(const Point &point, const Outcome &outcome);
    /// Points told, best first; the earlier told first among equals.
    const std::multimap<Score, Point> &told() const { return told_; }

    /// A valid point that was not asked for, each as likely; false when there is none left.
    bool draw(Random &random, Point *point);

private:
    Space space_;
    std::set<Point> asked_;
    std::multimap<Score, Point> told_;
    // The head of a shuffled list of all valid points' numbers: positions below left_ that hold another number than their own.
    std::unordered_map<uint64_t, uint64_t> moved_;
    uint64_t left_;
};

}  // namespace gdn::tune
