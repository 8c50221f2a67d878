// Searchers on synthetic cost surfaces: what they find with which share of the space, that they repeat nothing, end, and depend on the seed alone.
#include "autotune/search/searcher.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autotune/search/strategy.h"

namespace gdn::tune {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// A space and the outcome of each of its valid points.
struct Surface {
    std::string name;
    Space space;
    std::map<Point, Outcome> outcomes;
    double best = std::numeric_limits<double>::infinity();
};

Space kernel_like_space() {
    Constraint divides{"cols divides panel", {"panel", "cols"}, {}}, fits{"a tile fits", {"rows", "state_rows", "cols"}, {}};
    for (int panel : {32, 64, 128}) {
        for (int cols : {16, 32, 64}) {
            if (panel % cols == 0) divides.allowed.push_back({panel, cols});
        }
    }
    for (int rows : {2, 4, 8}) {
        for (int state_rows : {2, 4, 8, 16}) {
            for (int cols : {16, 32, 64}) {
                if (std::max(rows, state_rows) * cols <= 448) fits.allowed.push_back({rows, state_rows, cols});
            }
        }
    }
    const auto schedule = [](const char *name, std::vector<int> values, int value) {
        return Parameter{name, Kind::kSchedule, std::move(values), value};
    };
    return Space({schedule("panel", {32, 64, 128}, 128), schedule("rows", {2, 4, 8}, 8), schedule("state_rows", {2, 4, 8, 16}, 8),
                     schedule("cols", {16, 32, 64}, 32), schedule("unroll", {2, 4, 8}, 2), schedule("dot", {1, 2, 4}, 4),
                     schedule("from", {1, 2, 4, 8}, 4)},
        {divides, fits});
}

double noise(Random &random) { return random.unit() + random.unit() + random.unit() - 1.5; }  // standard deviation 1/2

Surface make_surface(const std::string &name, const std::function<double(Config)> &cost, const std::function<bool(Config)> &fails = {}) {
    Surface s{name, kernel_like_space(), {}};
    s.space.each_valid([&](const Point &point) {
        const Config config = s.space.config(point);
        if (fails && fails(config)) {
            s.outcomes[point] = {Status::kCrashed, 0};
        } else {
            s.outcomes[point] = {Status::kOk, cost(config)};
            s.best = std::min(s.best, s.outcomes[point].cost);
        }
        return true;
    });
    return s;
}

double separable_cost(Config c) {
    return std::exp(0.1 * std::abs(std::log2(c["panel"]) - 6) + 0.07 * std::abs(std::log2(c["rows"]) - 2) +
                    0.05 * std::abs(std::log2(c["cols"]) - 5) + 0.08 * std::abs(std::log2(c["unroll"]) - 2) + 0.04 * std::log2(c["dot"]) +
                    0.03 * std::abs(std::log2(c["from"]) - 1));
}

// Tiles that are too small starve, tiles that spill crawl, and three other parameters want what a table drawn at random says of their pairs.
std::function<double(Config)> interacting_cost(uint64_t seed, double ruggedness) {
    const auto random = std::make_shared<Random>(seed);
    const auto table = std::make_shared<std::map<std::pair<int, int>, double>>();
    for (int i = 0; i < 4096; i++) (*table)[{i / 64, i % 64}] = 0.12 * noise(*random);
    return [random, table, ruggedness](Config c) {
        const double registers = c["rows"] * c["cols"] / 16.0 + c["dot"];
        double x = registers > 20 ? 0.5 : 0.02 * (20 - registers);
        x += 0.1 * std::abs(std::log2(c["state_rows"] * c["cols"]) - 7);
        x += (*table)[{c["unroll"], c["dot"]}] + (*table)[{c["from"], 32 + c["rows"]}] + (*table)[{c["state_rows"], 48 + c["unroll"]}];
        x += (*table)[{c["panel"] / 16, c["from"] * 4}];
        return std::exp(x + ruggedness * noise(*random));
    };
}

const std::vector<Surface> &surfaces() {
    static const std::vector<Surface> all = [] {
        std::vector<Surface> s;
        s.push_back(make_surface("separable", separable_cost));
        s.push_back(make_surface("interacting", interacting_cost(1, 0)));
        s.push_back(make_surface("rugged", interacting_cost(2, 0.03)));
        // Half of the parameters change nothing, and the clock sees steps of 2 %.
        s.push_back(make_surface("plateaus", [](Config c) {
            c["dot"] = 1;
            c["from"] = 2;
            c["state_rows"] = 8;
            return std::round(50 * separable_cost(c)) / 50;
        }));
        // More than a third fails, neighbours of the best among them.
        s.push_back(make_surface("failing", interacting_cost(3, 0.02),
            [](const Config &c) { return c.at("unroll") == 8 || (c.at("rows") == 8 && c.at("unroll") == 2); }));
        return s;
    }();
    return all;
}

// Points in the order in which they were asked for, at most `most`.
std::vector<Point> search(Searcher &searcher, const Surface &surface, size_t batch, size_t most = std::numeric_limits<size_t>::max()) {
    std::vector<Point> points;
    while (points.size() < most) {
        const std::vector<Point> asked = searcher.ask(std::min(batch, most - points.size()));
        if (asked.empty()) break;
        for (const Point &p : asked) searcher.tell(p, surface.outcomes.at(p));
        points.insert(points.end(), asked.begin(), asked.end());
    }
    return points;
}

double best_of(const std::vector<Point> &points, const Surface &surface) {
    double best = std::numeric_limits<double>::infinity();
    for (const Point &p : points) {
        const Outcome &o = surface.outcomes.at(p);
        if (o.status == Status::kOk) best = std::min(best, o.cost);
    }
    return best;
}

TEST(Search, SurfacesAreWhatTheyClaim) {
    for (const Surface &s : surfaces()) {
        EXPECT_GE(s.outcomes.size(), 1000u);
        EXPECT_LE(s.outcomes.size(), 5000u);
        size_t good = 0, failed = 0;
        for (const auto &[point, outcome] : s.outcomes) {
            failed += outcome.status != Status::kOk;
            good += outcome.status == Status::kOk && outcome.cost <= 1.02 * s.best;
        }
        EXPECT_LT(good, s.outcomes.size() / (s.name == "plateaus" ? 20 : 100)) << s.name;
        EXPECT_EQ(failed > s.outcomes.size() / 5, s.name == "failing");
    }
}

// Every strategy: the share of the space that brings it within 2 % of the best, for each of ten seeds.
struct Promise {
    const char *searcher;
    double share;
};

class Found : public testing::TestWithParam<Promise> {};

TEST_P(Found, WithinTwoPercentOfTheBest) {
    for (const Surface &surface : surfaces()) {
        for (size_t batch : {1, 8, 16}) {
            for (uint64_t seed = 0; seed < 10; seed++) {
                const auto searcher = make_searcher(GetParam().searcher, surface.space, seed, {surface.space.default_point()});
                const auto most = static_cast<size_t>(GetParam().share * static_cast<double>(surface.outcomes.size()));
                const double best = best_of(search(*searcher, surface, batch, most), surface);
                EXPECT_LE(best, 1.02 * surface.best) << surface.name << " seed " << seed << " batch " << batch;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Searchers, Found,
    testing::Values(
        Promise{"exhaustive", 1}, Promise{"random", 1}, Promise{"local", 0.15}, Promise{"genetic", 0.15}, Promise{"auto", 0.15}),
    [](const auto &info) { return std::string(info.param.searcher); });

// The mean excess over the best of 10 seeds after 5 % of the space: a strategy that learns nothing is far behind.
TEST(Search, LearnersAreAheadOfRandom) {
    for (const Surface &surface : surfaces()) {
        const auto excess = [&](const char *name) {
            double sum = 0;
            for (uint64_t seed = 0; seed < 10; seed++) {
                const auto searcher = make_searcher(name, surface.space, seed);
                sum += best_of(search(*searcher, surface, 8, surface.outcomes.size() / 20), surface) / surface.best - 1;
            }
            return sum / 10;
        };
        const double random = excess("random");
        for (const char *name : {"local", "genetic", "auto"}) EXPECT_LT(excess(name), random / 2) << surface.name << " " << name;
    }
}

class Every : public testing::TestWithParam<std::string> {};

TEST_P(Every, AsksForEveryPointOnceAndEnds) {
    for (const Surface &surface : surfaces()) {
        const auto searcher = make_searcher(GetParam(), surface.space, 5);
        const std::vector<Point> points = search(*searcher, surface, 7);
        const std::set<Point> different(points.begin(), points.end());
        EXPECT_EQ(points.size(), different.size());
        EXPECT_EQ(different.size(), surface.space.valid_count());
        for (const Point &p : different) ASSERT_TRUE(surface.space.valid(p));
        EXPECT_TRUE(searcher->ask(1).empty());
        EXPECT_EQ(searcher->name(), GetParam());
    }
}

TEST_P(Every, EndsWhereEverythingFails) {
    Surface surface = surfaces()[0];
    for (auto &[point, outcome] : surface.outcomes) outcome = {Status::kWrongResult, 0};
    EXPECT_EQ(search(*make_searcher(GetParam(), surface.space, 5), surface, 16).size(), surface.space.valid_count());
}

TEST_P(Every, EndsWhereEverythingIsSkipped) {
    Surface surface = surfaces()[0];
    for (auto &[point, outcome] : surface.outcomes) outcome = {Status::kSkipped, 0};
    EXPECT_EQ(search(*make_searcher(GetParam(), surface.space, 5), surface, 16).size(), surface.space.valid_count());
}

TEST_P(Every, AsksForAllAtOnce) {
    const Surface &surface = surfaces()[0];
    const auto searcher = make_searcher(GetParam(), surface.space, 5);
    EXPECT_EQ(searcher->ask(1000000).size(), surface.space.valid_count());
    EXPECT_TRUE(searcher->ask(1).empty());
}

TEST_P(Every, SameSeedSamePoints) {
    const Surface &surface = surfaces()[2];
    const auto points = [&](uint64_t seed) { return search(*make_searcher(GetParam(), surface.space, seed), surface, 8, 400); };
    const std::vector<Point> first = points(1);
    EXPECT_EQ(first, points(1));
    EXPECT_EQ(first != points(2), GetParam() != "exhaustive");
}

TEST_P(Every, StartsWhereItIsTold) {
    const Surface &surface = surfaces()[1];
    Random random(1);
    const Point a = surface.space.nth_valid(random.below(surface.space.valid_count())), b = surface.space.default_point();
    const auto searcher = make_searcher(GetParam(), surface.space, 3, {b, a, b});
    const std::vector<Point> points = search(*searcher, surface, 5, 50);
    EXPECT_EQ(points[0], b);
    EXPECT_EQ(points[1], a);
    EXPECT_EQ(std::set<Point>(points.begin(), points.end()).size(), 50u);
    EXPECT_THROW(make_searcher(GetParam(), surface.space, 3, {Point(7, 99)}), Error);
}

TEST_P(Every, SmallSpaces) {
    const Space none, one({{"a", Kind::kRuntime, {3}, 3}}, {}), two({{"a", Kind::kRuntime, {3, 4}, 3}}, {});
    for (const Space &space : {none, one, two}) {
        const auto searcher = make_searcher(GetParam(), space, 1, {space.default_point()});
        for (uint64_t i = 0; i < space.valid_count(); i++) {
            const std::vector<Point> points = searcher->ask(1);
            ASSERT_EQ(points.size(), 1u);
            searcher->tell(points[0], {Status::kOk, 1});
        }
        EXPECT_TRUE(searcher->ask(4).empty());
    }
}

// Spaces of real kernels have 10^8 points: nothing may be listed.
TEST_P(Every, LargeSpaces) {
    std::vector<Parameter> parameters;
    for (int i = 0; i < 30; i++) parameters.push_back({"p" + std::to_string(i), Kind::kSchedule, {0, 1, 2, 3}, 0});
    const Space space(parameters, {{"sum", {"p0", "p1"}, {{0, 1}, {1, 0}, {2, 3}}}});
    const auto searcher = make_searcher(GetParam(), space, 1);
    std::set<Point> points;
    for (int batch = 0; batch < 20; batch++) {
        for (const Point &p : searcher->ask(16)) {
            EXPECT_TRUE(space.valid(p) && points.insert(p).second);
            double cost = 1;
            for (int v : p) cost += v;
            searcher->tell(p, {Status::kOk, cost});
        }
    }
    EXPECT_EQ(points.size(), 320u);
}

INSTANTIATE_TEST_SUITE_P(Searchers, Every, testing::ValuesIn(searcher_names()), [](const auto &info) { return info.param; });

TEST(Search, ExhaustiveGoesInIndexOrder) {
    const Surface &surface = surfaces()[0];
    std::vector<Point> expected;
    surface.space.each_valid([&](const Point &p) {
        expected.push_back(p);
        return true;
    });
    EXPECT_EQ(search(*make_searcher("exhaustive", surface.space, 0), surface, 100), expected);
}

TEST(Search, RandomIsUniform) {
    const Space space({{"a", Kind::kSchedule, {0, 1, 2, 3, 4}, 0}, {"b", Kind::kSchedule, {0, 1, 2, 3}, 0}}, {});
    std::map<std::pair<size_t, Point>, int> seen;  // position in the sequence, point
    for (uint64_t seed = 0; seed < 4000; seed++) {
        const auto points = make_searcher("random", space, seed)->ask(20);
        for (size_t i = 0; i < points.size(); i++) seen[{i, points[i]}]++;
    }
    EXPECT_EQ(seen.size(), 400u);
    for (const auto &[where, count] : seen) EXPECT_NEAR(count, 200, 5 * 13.8);  // five standard deviations
}

TEST(Search, LocalTriesTheNeighboursOfTheBest) {
    const Surface &surface = surfaces()[0];
    const Point start = surface.space.default_point();
    const auto searcher = make_searcher("local", surface.space, 0, {start});
    EXPECT_EQ(searcher->ask(1), std::vector<Point>{start});
    searcher->tell(start, {Status::kOk, 1});
    const std::vector<Point> neighbours = surface.space.neighbours(start), asked = searcher->ask(3);
    EXPECT_EQ(asked, std::vector<Point>(neighbours.begin(), neighbours.begin() + 3));
    searcher->tell(asked[0], {Status::kOk, 1.1});
    searcher->tell(asked[1], {Status::kOk, 0.9});
    searcher->tell(asked[2], {Status::kCrashed, 0});
    std::vector<Point> next = surface.space.neighbours(asked[1]);
    next.erase(std::remove(next.begin(), next.end(), start), next.end());
    next.erase(std::remove(next.begin(), next.end(), asked[0]), next.end());
    next.erase(std::remove(next.begin(), next.end(), asked[2]), next.end());
    EXPECT_EQ(searcher->ask(next.size()), next);
}

// Proposes the points of its own part of a line, in order.
class Part : public Strategy {
public:
    Part(int first, int last) : next_(first), last_(last) {}
    bool propose(History &, Random &, Point *point) override {
        *point = {next_};
        return next_++ < last_;
    }
    void learn(const History &, const Point &, History::Score) override { learnt++; }
    void forget(const Point &) override { forgotten++; }
    int next_, last_, learnt = 0, forgotten = 0;
};

// A bandit over the three thirds of a line.
class Thirds {
public:
    Thirds() {
        std::vector<int> values(3000);
        for (int i = 0; i < 3000; i++) values[i] = i;
        history = std::make_unique<History>(Space({{"x", Kind::kSchedule, values, 0}}, {}));
        std::vector<std::unique_ptr<Strategy>> parts;
        for (int i = 0; i < 3; i++) {
            part.push_back(new Part(1000 * i, 1000 * (i + 1)));
            parts.emplace_back(part.back());
        }
        bandit = make_bandit(std::move(parts));
    }
    // The next point, and which third it is of.
    int propose(Point *point) {
        EXPECT_TRUE(bandit->propose(*history, random, point));
        history->ask(*point);
        return (*point)[0] / 1000;
    }
    void learn(const Point &point, const Outcome &outcome) { bandit->learn(*history, point, history->tell(point, outcome)); }

    std::unique_ptr<History> history;
    Random random{1};
    std::vector<Part *> part;
    std::unique_ptr<Strategy> bandit;
};

TEST(Search, TheBanditFollowsWhatIsGood) {
    Thirds thirds;
    Point point;
    // First the last part is the best and one fails; then the first part is, and soon it proposes most.
    std::vector<std::vector<int>> proposals;
    for (int phase = 0; phase < 2; phase++) {
        std::vector<int> count(3);
        for (int i = 0; i < (phase ? 200 : 600); i++) {
            const int from = thirds.propose(&point);
            count[from]++;
            const double cost = from == (phase ? 0 : 2) ? 1 + 0.1 * thirds.random.unit() - phase : 2 + 0.1 * thirds.random.unit();
            thirds.learn(point, from == 1 ? Outcome{Status::kCrashed, 0} : Outcome{Status::kOk, cost});
        }
        proposals.push_back(count);
    }
    EXPECT_GT(proposals[0][2], 360);
    EXPECT_GT(proposals[0][0], 3);
    EXPECT_GT(proposals[0][1], 3);
    EXPECT_GT(proposals[1][0], 100);
    for (const Part *p : thirds.part) EXPECT_EQ(p->learnt, 800);
}

// A share of the candidates: most points are skipped, the very first among them, and say nothing of who proposed them.
TEST(Search, TheBanditLearnsNothingFromSkippedPoints) {
    Thirds thirds;
    Point point;
    std::vector<int> told(3);
    for (int i = 0; i < 800; i++) {
        const int from = thirds.propose(&point);
        if (i % 4 != 3) {
            thirds.bandit->forget(point);
        } else {
            thirds.learn(point, {Status::kOk, (from == 2 ? 1 : 2) + 0.1 * thirds.random.unit()});
            told[from]++;
        }
    }
    EXPECT_GT(told[2], 160) << told[0] << " " << told[1];
    EXPECT_GT(told[0], 1);
    EXPECT_GT(told[1], 1);
    for (const Part *p : thirds.part) {
        EXPECT_EQ(p->learnt, 200);
        EXPECT_EQ(p->forgotten, 600);
    }
}

// The same through a searcher: who proposes goes on, since nothing is known against it.
TEST(Search, SkippedPointsAreNoFailures) {
    const Surface &surface = surfaces()[0];
    const Point start = surface.space.default_point();
    const auto searcher = make_searcher("auto", surface.space, 1, {start});
    EXPECT_EQ(searcher->ask(1), std::vector<Point>{start});
    searcher->tell(start, {Status::kOk, 1});
    for (const Point &neighbour : surface.space.neighbours(start)) {
        EXPECT_EQ(searcher->ask(1), std::vector<Point>{neighbour});
        searcher->tell(neighbour, {Status::kSkipped, 0});
    }
}

TEST(Search, TheBanditPassesOverWhatHasNoMore) {
    const Space line({{"x", Kind::kSchedule, {0, 1, 2, 3, 4, 5}, 0}}, {});
    History history(line);
    Random random(1);
    std::vector<std::unique_ptr<Strategy>> parts;
    parts.push_back(std::make_unique<Part>(0, 1));
    parts.push_back(std::make_unique<Part>(1, 6));
    const auto bandit = make_bandit(std::move(parts));
    std::set<Point> points;
    Point point;
    while (bandit->propose(history, random, &point)) {
        points.insert(point);
        bandit->learn(history, point, history.tell(point, {Status::kOk, 1}));
    }
    EXPECT_EQ(points.size(), 6u);
}

TEST(Search, UnknownNames) {
    EXPECT_THAT([] { make_searcher("annealing", Space(), 0); },
        ThrowsMessage<Error>("no searcher is called annealing; there are auto, exhaustive, genetic, local, random"));
}

}  // namespace
}  // namespace gdn::tune
