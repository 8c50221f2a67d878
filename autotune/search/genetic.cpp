// The best points known breed: two parents, each the better of two drawn, give every parameter from one or the other, some parameters change, and what is
// not valid moves to the nearest point that is. Whatever is better than the worst parent takes its place, so the best stay.
#include <algorithm>
#include <cmath>

#include "autotune/search/strategy.h"

namespace gdn::tune {

namespace {

constexpr size_t kPopulation = 16;
constexpr double kChanges = 0.5;  // parameters of a child, on average
constexpr int kAttempts = 20;     // at a child that was not asked for

class Genetic : public Strategy {
public:
    bool propose(History &history, Random &random, Point *point) override {
        if (history.asked_count() < kPopulation) return history.draw(random, point);
        std::vector<const Point *> population;  // best first
        for (const auto &[score, member] : history.told()) {
            if (std::isinf(score) || population.size() == kPopulation) break;
            population.push_back(&member);
        }
        if (population.empty()) return history.draw(random, point);
        const auto parent = [&]() -> const Point & {
            const uint64_t a = random.below(population.size()), b = random.below(population.size());
            return *population[std::min(a, b)];
        };
        for (int attempt = 0; attempt < kAttempts; attempt++) {
            const Point &mother = parent(), &father = parent();
            Point child = mother;
            for (size_t i = 0; i < child.size(); i++) {
                if (random.below(2)) child[i] = father[i];
                const size_t values = history.space().parameters()[i].values.size();
                if (random.unit() * static_cast<double>(child.size()) < kChanges) child[i] = static_cast<int>(random.below(values));
            }
            *point = history.space().nearest_valid(child);
            if (!history.asked(*point)) return true;
        }
        return history.draw(random, point);
    }
};

}  // namespace

std::unique_ptr<Strategy> make_genetic() { return std::make_unique<Genetic>(); }

}  // namespace gdn::tune
