// Every point, in index order.
#include "autotune/search/strategy.h"

namespace gdn::tune {

namespace {

class Exhaustive : public Strategy {
public:
    bool propose(History &history, Random &, Point *point) override {
        const auto &parameters = history.space().parameters();
        if (!started_) next_.assign(parameters.size(), 0);
        started_ = true;
        while (!ended_ && history.space().next_valid(&next_)) {
            *point = next_;
            size_t i = 0;
            while (i < next_.size() && ++next_[i] == static_cast<int>(parameters[i].values.size())) next_[i++] = 0;
            ended_ = i == next_.size();
            if (!history.asked(*point)) return true;
        }
        ended_ = true;
        return false;
    }

private:
    Point next_;
    bool started_ = false, ended_ = false;
};

}  // namespace

std::unique_ptr<Strategy> make_exhaustive() { return std::make_unique<Exhaustive>(); }

}  // namespace gdn::tune
