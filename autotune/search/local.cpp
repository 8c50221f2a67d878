// Descent: from the best point whose neighbours were not all tried to the first neighbour that is better, nearest first. Where the ten best points
// known have no neighbour left, it starts again from the best of a few random points.
#include <algorithm>
#include <limits>
#include <set>

#include "autotune/search/strategy.h"

namespace gdn::tune {

namespace {

constexpr int kBest = 10, kStarts = 4;
constexpr History::Score kNone = std::numeric_limits<History::Score>::infinity();

class Local : public Strategy {
public:
    bool propose(History &history, Random &random, Point *point) override {
        while (true) {
            while (!neighbours_.empty()) {
                *point = neighbours_.back();
                neighbours_.pop_back();
                if (!history.asked(*point)) return wait_for(*point);
            }
            if (starts_ > 0) {
                starts_--;
                return history.draw(random, point) && wait_for(*point);
            }
            if (!waiting_.empty()) return false;
            if (score_ == kNone || left_.count(centre_)) choose_centre(history);
            if (score_ == kNone) {
                starts_ = kStarts;
                continue;
            }
            left_.insert(centre_);
            neighbours_ = history.space().neighbours(centre_);
            std::reverse(neighbours_.begin(), neighbours_.end());
        }
    }

    void learn(const History &, const Point &point, History::Score score) override {
        if (!waiting_.erase(point) || score >= score_) return;
        centre_ = point;
        score_ = score;
        neighbours_.clear();
    }

    void forget(const Point &point) override { waiting_.erase(point); }

private:
    bool wait_for(const Point &point) {
        waiting_.insert(point);
        return true;
    }

    void choose_centre(const History &history) {
        score_ = kNone;
        int seen = 0;
        for (const auto &[score, point] : history.told()) {
            if (score == kNone || seen++ == kBest) return;
            if (left_.count(point)) continue;
            centre_ = point;
            score_ = score;
            return;
        }
    }

    Point centre_;
    History::Score score_ = kNone;   // the centre's; kNone: there is no centre
    std::vector<Point> neighbours_;  // of the centre, to try, the next last
    std::set<Point> left_;           // points that were a centre
    std::set<Point> waiting_;        // own points, asked for and not told
    int starts_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> make_local() { return std::make_unique<Local>(); }

}  // namespace gdn::tune
