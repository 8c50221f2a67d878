// A bandit over the other strategies (upper confidence bounds, Auer, Cesa-Bianchi, Fischer 2002, over the latest outcomes): each time the one proposes
// whose points were the best of late, or that was tried little. All of them learn from every outcome.
#include <cmath>
#include <deque>
#include <map>
#include <numeric>

#include "autotune/search/strategy.h"

namespace gdn::tune {

namespace {

constexpr double kCuriosity = 0.3;
constexpr size_t kWindow = 100;  // outcomes of a strategy that count

class Bandit : public Strategy {
public:
    explicit Bandit(std::vector<std::unique_ptr<Strategy>> strategies) {
        for (auto &s : strategies) arms_.push_back({std::move(s), {}, 0});
    }

    bool propose(History &history, Random &random, Point *point) override {
        double uses = 0;
        for (const Arm &arm : arms_) uses += arm.uses();
        std::multimap<double, Arm *, std::greater<>> order;
        for (Arm &arm : arms_) order.emplace(arm.bound(uses), &arm);
        for (const auto &[bound, arm] : order) {
            if (!arm->strategy->propose(history, random, point)) continue;
            arm->waiting++;
            proposer_[*point] = arm;
            return true;
        }
        return false;
    }

    void learn(const History &history, const Point &point, History::Score score) override {
        if (Arm *const arm = answered(point)) {
            const auto better = std::distance(history.told().begin(), history.told().lower_bound(score));
            const double beaten = 1 - static_cast<double>(better) / static_cast<double>(history.told().size());
            arm->credits.push_back(beaten * beaten);
            if (arm->credits.size() > kWindow) arm->credits.pop_front();
        }
        for (Arm &arm : arms_) arm.strategy->learn(history, point, score);
    }

    void forget(const Point &point) override {
        answered(point);
        for (Arm &arm : arms_) arm.strategy->forget(point);
    }

private:
    struct Arm {
        std::unique_ptr<Strategy> strategy;
        std::deque<double> credits;  // of the points told: the share of all points that is not better, squared
        int waiting;                 // points asked for and not told

        double uses() const { return static_cast<double>(credits.size()) + waiting; }
        double bound(double all_uses) const {
            if (uses() == 0) return HUGE_VAL;
            const double mean =
                credits.empty() ? 1 : std::accumulate(credits.begin(), credits.end(), 0.0) / static_cast<double>(credits.size());
            return mean + kCuriosity * std::sqrt(std::log(all_uses) / uses());
        }
    };

    /// Who proposed the point and waits for it no longer; null: none of the arms.
    Arm *answered(const Point &point) {
        const auto it = proposer_.find(point);
        if (it == proposer_.end()) return nullptr;
        Arm *const arm = it->second;
        arm->waiting--;
        proposer_.erase(it);
        return arm;
    }

    std::vector<Arm> arms_;
    std::map<Point, Arm *> proposer_;
};

}  // namespace

std::unique_ptr<Strategy> make_bandit(std::vector<std::unique_ptr<Strategy>> strategies) {
    return std::make_unique<Bandit>(std::move(strategies));
}

std::unique_ptr<Strategy> make_auto() {
    std::vector<std::unique_ptr<Strategy>> strategies;
    strategies.push_back(make_local());
    strategies.push_back(make_genetic());
    strategies.push_back(make_random());
    return make_bandit(std::move(strategies));
}

}  // namespace gdn::tune
