#include "autotune/search/searcher.h"

#include <algorithm>

#include "autotune/search/strategy.h"

namespace gdn::tune {

namespace {

struct Entry {
    const char *name;
    std::unique_ptr<Strategy> (*make)();
};
constexpr Entry kStrategies[] = {
    {"auto", make_auto}, {"exhaustive", make_exhaustive}, {"genetic", make_genetic}, {"local", make_local}, {"random", make_random}};

class StrategySearcher : public Searcher {
public:
    StrategySearcher(std::string name, std::unique_ptr<Strategy> strategy, const Space &space, uint64_t seed, std::vector<Point> start)
        : name_(std::move(name)), strategy_(std::move(strategy)), history_(space), random_(seed), start_(std::move(start)) {
        std::reverse(start_.begin(), start_.end());
    }

    std::string name() const override { return name_; }

    std::vector<Point> ask(size_t n) override {
        std::vector<Point> points;
        Point point;
        while (points.size() < n && next(&point)) {
            history_.ask(point);
            points.push_back(point);
        }
        return points;
    }

    void tell(const Point &point, const Outcome &outcome) override {
        if (outcome.status == Status::kSkipped) return strategy_->forget(point);
        const History::Score score = history_.tell(point, outcome);
        strategy_->learn(history_, point, score);
    }

private:
    // A strategy that waits for outcomes would leave the rest of a batch empty.
    bool next(Point *point) {
        while (!start_.empty()) {
            *point = start_.back();
            start_.pop_back();
            if (!history_.asked(*point)) return true;
        }
        return strategy_->propose(history_, random_, point) || history_.draw(random_, point);
    }

    std::string name_;
    std::unique_ptr<Strategy> strategy_;
    History history_;
    Random random_;
    std::vector<Point> start_;  // the next last
};

}  // namespace

const std::vector<std::string> &searcher_names() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> all;
        for (const Entry &e : kStrategies) all.push_back(e.name);
        return all;
    }();
    return names;
}

std::unique_ptr<Searcher> make_searcher(const std::string &name, const Space &space, uint64_t seed, const std::vector<Point> &start) {
    for (const Point &point : start) {
        if (!space.valid(point)) throw Error("a point to start from is not valid in the space");
    }
    for (const Entry &e : kStrategies) {
        if (name == e.name) return std::make_unique<StrategySearcher>(name, e.make(), space, seed, start);
    }
    std::string names;
    for (const std::string &n : searcher_names()) names += (names.empty() ? "" : ", ") + n;
    throw Error("no searcher is called " + name + "; there are " + names);
}

}  // namespace gdn::tune
