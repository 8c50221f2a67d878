// Spaces: counts and walks against brute force over the full product, restrictions, text and JSON forms, and the real list of the generator.
#include "autotune/space/space.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autotune/build/process.h"
#include "autotune/status.h"

namespace gdn::tune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

Parameter parameter(const std::string &name, std::vector<int> values, int default_value, Kind kind = Kind::kSchedule) {
    return {name, kind, std::move(values), default_value};
}

// Two tied pairs with a free parameter between them, and one more constraint across a pair's parameter.
Space small_space() {
    return Space({parameter("panel", {32, 64, 128}, 128, Kind::kAlgorithm), parameter("rows", {2, 4, 8}, 8), parameter("free", {0, 1}, 1),
                     parameter("cols", {16, 32, 48, 64}, 32), parameter("grain", {0, 1, 2}, 0, Kind::kRuntime),
                     parameter("slice", {1, 2, 4}, 2, Kind::kRuntime)},
        {{"cols divides panel", {"panel", "cols"}, {{32, 16}, {32, 32}, {64, 16}, {64, 32}, {64, 64}, {128, 16}, {128, 32}, {128, 64}}},
            {"grain at most slice - 1", {"slice", "grain"}, {{1, 0}, {2, 0}, {2, 1}, {4, 0}, {4, 1}, {4, 2}}},
            {"a tile fits", {"rows", "cols"}, {{2, 16}, {2, 32}, {2, 48}, {2, 64}, {4, 16}, {4, 32}, {4, 64}, {8, 16}, {8, 32}}}});
}

// Every point of the product in index order, and whether the constraints' texts' meaning holds there.
std::vector<Point> brute_force(const Space &space, const std::function<bool(Config)> &holds) {
    std::vector<Point> valid;
    for (uint64_t i = 0; i < space.size(); i++) {
        Point point;
        uint64_t rest = i;
        for (const Parameter &p : space.parameters()) {
            point.push_back(static_cast<int>(rest % p.values.size()));
            rest /= p.values.size();
        }
        if (holds(space.config(point))) valid.push_back(point);
    }
    return valid;
}

bool small_holds(Config c) { return c["panel"] % c["cols"] == 0 && c["grain"] <= c["slice"] - 1 && c["rows"] * c["cols"] <= 256; }

std::vector<Point> walk(const Space &space) {
    std::vector<Point> points;
    space.each_valid([&](const Point &p) {
        points.push_back(p);
        return true;
    });
    return points;
}

TEST(Space, WalksAndCountsTheValidPointsOfTheProduct) {
    const Space space = small_space();
    const std::vector<Point> expected = brute_force(space, small_holds);
    ASSERT_EQ(space.size(), 3u * 3 * 2 * 4 * 3 * 3);
    ASSERT_LT(expected.size(), space.size() / 2);
    EXPECT_EQ(space.valid_count(), expected.size());
    EXPECT_EQ(walk(space), expected);
    uint64_t valid = 0;
    for (const Point &p : brute_force(space, [](Config) { return true; })) valid += space.valid(p);
    EXPECT_EQ(valid, expected.size());
    std::set<Point> numbered;
    for (uint64_t i = 0; i < space.valid_count(); i++) numbered.insert(space.nth_valid(i));
    EXPECT_EQ(numbered, std::set<Point>(expected.begin(), expected.end()));
}

TEST(Space, NextValidStartsAnywhere) {
    const Space space = small_space();
    const std::vector<Point> all = brute_force(space, [](Config) { return true; });
    for (size_t i = 0; i < all.size(); i++) {
        size_t expected = i;
        while (expected < all.size() && !space.valid(all[expected])) expected++;
        Point point = all[i];
        ASSERT_EQ(space.next_valid(&point), expected < all.size());
        if (expected < all.size()) {
            ASSERT_EQ(point, all[expected]);
        }
    }
}

TEST(Space, ManyInvalidPointsAreNotWalked) {
    // One valid row in 50^5 of the tied parameters, 40 points around it.
    std::vector<int> values(50);
    std::iota(values.begin(), values.end(), 0);
    std::vector<Parameter> parameters;
    std::vector<Constraint> constraints;
    for (const char *name : {"a", "b", "c", "d", "e"}) {
        parameters.push_back(parameter(name, values, 0));
        constraints.push_back({std::string(name) + " is 31", {name}, {{31}}});
    }
    parameters.insert(parameters.begin() + 2, parameter("f", {0, 1, 2, 3, 4, 5, 6, 7}, 0));
    parameters.insert(parameters.begin(), parameter("g", {0, 1, 2, 3, 4}, 0));
    const Space space(parameters, constraints);
    EXPECT_EQ(space.valid_count(), 40u);
    EXPECT_EQ(walk(space).size(), 40u);
    EXPECT_EQ(space.default_point(), (Point{0, 31, 31, 0, 31, 31, 31}));
}

TEST(Space, CountsSaturate) {
    std::vector<Parameter> parameters;
    for (int i = 0; i < 40; i++) parameters.push_back(parameter("p" + std::to_string(i), {0, 1, 2, 3}, 0));
    const Space space(parameters, {});
    EXPECT_EQ(space.size(), uint64_t{1} << 63);
    EXPECT_EQ(space.valid_count(), uint64_t{1} << 63);
}

TEST(Space, ConstraintsThatTieTooMuchAreRefused) {
    std::vector<int> values(70);
    std::iota(values.begin(), values.end(), 0);
    Constraint ab{"anything", {"a", "b"}, {}}, bc{"anything", {"b", "c"}, {}};
    for (int x : values) {
        for (int y : values) {
            ab.allowed.push_back({x, y});
            bc.allowed.push_back({x, y});
        }
    }
    EXPECT_THAT(
        [&] {
            Space({parameter("a", values, 0), parameter("b", values, 0), parameter("c", values, 0)}, {ab, bc});
        },
        ThrowsMessage<Error>(HasSubstr("tie 3 parameters together")));
}

TEST(Space, NoParametersAreOnePoint) {
    const Space space;
    EXPECT_EQ(space.valid_count(), 1u);
    EXPECT_EQ(walk(space), std::vector<Point>{{}});
    EXPECT_EQ(space.point({}), Point{});
    EXPECT_TRUE(space.neighbours({}).empty());
    const Space never({}, {{"never", {}, {}}});
    EXPECT_EQ(never.valid_count(), 0u);
    EXPECT_TRUE(walk(never).empty());
    EXPECT_EQ(Space({}, {{"always", {}, {{}}}}).valid_count(), 1u);
}

TEST(Space, RandomPointsAreUniformOverTheValidOnes) {
    const Space space = small_space();
    std::map<Point, int> seen;
    Random random(3);
    const int draws = 200 * static_cast<int>(space.valid_count());
    for (int i = 0; i < draws; i++) seen[space.nth_valid(random.below(space.valid_count()))]++;
    EXPECT_EQ(seen.size(), space.valid_count());
    for (const auto &[point, count] : seen) {
        EXPECT_TRUE(space.valid(point));
        EXPECT_NEAR(count, 200, 5 * 14.2);  // five standard deviations
    }
}

TEST(Space, PartsOfAConfiguration) {
    const Space space({{"cols", Kind::kAlgorithm, {1}, 1}, {"grain", Kind::kRuntime, {2}, 2}, {"rows", Kind::kSchedule, {3}, 3},
                          {"steps", Kind::kRuntime, {4}, 4}},
        {});
    const Config config = {{"cols", 1}, {"grain", 2}, {"rows", 3}, {"unknown", 5}};
    EXPECT_EQ(part_of(config, space, true), (Config{{"cols", 1}, {"rows", 3}, {"unknown", 5}}));
    EXPECT_EQ(part_of(config, space, false), (Config{{"grain", 2}}));
}

TEST(Space, NeighboursDifferInOneParameterNearestFirst) {
    const Space space = small_space();
    const Point from = space.point({{"panel", 64}, {"rows", 2}, {"cols", 32}, {"grain", 0}, {"slice", 2}, {"free", 0}});
    std::vector<std::string> texts;
    for (const Point &p : space.neighbours(from)) {
        std::string text;
        for (size_t i = 0; i < p.size(); i++) {
            if (p[i] != from[i]) text += space.parameters()[i].name + std::to_string(space.parameters()[i].values[p[i]]);
        }
        texts.push_back(text);
    }
    // cols:48 does not divide panel:64, and grain:2 does not go with slice:2.
    EXPECT_THAT(texts, ElementsAre("panel32", "panel128", "rows4", "free1", "cols16", "grain1", "slice1", "slice4", "rows8", "cols64"));
}

TEST(Space, NeighboursOfATiedPairDifferInTwo) {
    const Space space({parameter("a", {1, 2, 3}, 1), parameter("b", {1, 2, 3}, 1)}, {{"a is b", {"a", "b"}, {{1, 1}, {2, 2}, {3, 3}}}});
    EXPECT_THAT(space.neighbours({0, 0}), ElementsAre(Point{1, 1}, Point{2, 2}));
}

TEST(Space, NearestValidPoint) {
    const Space space = small_space();
    const std::vector<Point> valid = brute_force(space, small_holds);
    for (const Point &p : brute_force(space, [](Config) { return true; })) {
        const auto distance = [&](const Point &q) {
            int sum = 0;
            for (size_t i = 0; i < p.size(); i++) sum += std::abs(p[i] - q[i]);
            return sum;
        };
        const Point nearest = space.nearest_valid(p);
        ASSERT_TRUE(space.valid(nearest));
        for (const Point &q : valid) ASSERT_GE(distance(q), distance(nearest));
    }
}

TEST(Space, DefaultsAndRestrictions) {
    const Space space = small_space();
    EXPECT_EQ(text_of(space.config(space.default_point())), "cols:32,free:1,grain:0,panel:128,rows:8,slice:2");
    // Without cols:32 the nearest values are one step away, and rows:8 goes only with 16.
    const Space without = space.restricted({{"cols", {16, 48, 64}}});
    EXPECT_EQ(text_of(without.config(without.default_point())), "cols:16,free:1,grain:0,panel:128,rows:8,slice:2");
    const std::vector<Point> expected = brute_force(without, small_holds);
    EXPECT_EQ(without.valid_count(), expected.size());
    EXPECT_EQ(walk(without), expected);
    EXPECT_NE(without.hash(), space.hash());

    EXPECT_THAT(
        [&] {
            space.restricted({{"columns", {16}}});
        },
        ThrowsMessage<Error>("the space has no parameter columns; it has panel, rows, free, cols, grain, slice"));
    EXPECT_THAT(
        [&] {
            space.restricted({{"cols", {16, 24}}});
        },
        ThrowsMessage<Error>("the parameter cols has the values 16, 32, 48, 64; 24 is none of them"));
    EXPECT_THAT([&] { space.restricted({{"cols", {}}}); }, ThrowsMessage<Error>("the restriction leaves no value of the parameter cols"));
    EXPECT_THAT(
        [&] {
            space.restricted({{"cols", {64}}, {"panel", {32}}});
        },
        ThrowsMessage<Error>("no point of the space is valid: cols divides panel; grain at most slice - 1; a tile fits"));
}

TEST(Space, HeldParametersStayInTheConfiguration) {
    const Space space = small_space();
    const Space kept = space.with_parameters({"cols", "grain"});
    EXPECT_EQ(kept.valid_count(), 4u);  // cols 16 or 32 with rows:8, grain 0 or 1 with slice:2
    for (const Point &p : walk(kept)) {
        const Config config = kept.config(p);
        EXPECT_EQ(config.size(), 6u);
        EXPECT_EQ(config.at("panel"), 128);
        EXPECT_TRUE(space.valid(space.point(config)));
    }
    const Space moved = space.restricted({{"rows", {2}}}).with_parameters({"cols"});
    EXPECT_EQ(moved.config(moved.default_point()).at("rows"), 2);
    EXPECT_EQ(moved.valid_count(), 3u);
    EXPECT_THAT([&] { space.with_parameters({"columns"}); }, ThrowsMessage<Error>(HasSubstr("has no parameter columns")));
}

TEST(Space, ConfigsAndPoints) {
    const Space space = small_space();
    for (const Point &p : walk(space)) ASSERT_EQ(space.point(space.config(p)), p);
    EXPECT_EQ(space.point({{"cols", 16}}), space.point(parse_config("panel=128,cols=16")));
    EXPECT_THAT(
        [&] {
            space.point({{"cols", 17}});
        },
        ThrowsMessage<Error>("the parameter cols has the values 16, 32, 48, 64; 17 is none of them"));
    EXPECT_THAT([&] { space.point({{"colz", 16}}); }, ThrowsMessage<Error>(HasSubstr("no parameter colz")));
    EXPECT_THAT(
        [&] {
            space.point({{"cols", 48}});
        },
        ThrowsMessage<Error>(
            "the configuration \"cols:48,free:1,grain:0,panel:128,rows:8,slice:2\" breaks the constraint \"cols divides panel\""));
}

TEST(Space, TextForm) {
    EXPECT_EQ(text_of(parse_config("rows=8,cols:32,grain:-1")), "cols:32,grain:-1,rows:8");
    EXPECT_TRUE(parse_config("").empty());
    for (const char *bad :
        {"cols", "cols:", ":3", "cols:3x", "cols:3,", ",", "cols:3,,rows:2", "cols: 3", "cols:99999999999", "cols:3.5"}) {
        EXPECT_THROW(parse_config(bad), Error) << bad;
    }
    EXPECT_THAT([] { parse_config("cols:3,cols:4"); }, ThrowsMessage<Error>("the configuration \"cols:3,cols:4\" gives cols twice"));
}

TEST(Space, JsonForm) {
    const Space space = small_space(), again = Space::parse(space.json());
    EXPECT_EQ(again.json(), space.json());
    EXPECT_EQ(again.hash(), space.hash());
    EXPECT_EQ(walk(again), walk(space));
    EXPECT_EQ(space.hash(), "ca1b3dc43ca22a96");  // journals keep it
    // Whatever changes the points changes the hash.
    const std::string json = space.json();
    for (const auto &[from, to] : std::vector<std::pair<std::string, std::string>>{
             {"\"panel\"", "\"pane\""}, {"[16,32,48,64]", "[16,32,64]"}, {"\"default\":8", "\"default\":4"}, {"[2,48],", ""}}) {
        std::string changed = json;
        for (size_t at; (at = changed.find(from)) != std::string::npos;) changed.replace(at, from.size(), to);
        ASSERT_NE(changed, json);
        EXPECT_NE(Space::parse(changed).hash(), space.hash()) << from;
    }
    for (const char *bad : {"", "[]", "{}", "{\"parameters\":[]}", "{\"parameters\":[1],\"constraints\":[]}",
             "{\"parameters\":[{\"name\":\"a\",\"kind\":\"odd\",\"values\":[1],\"default\":1}],\"constraints\":[]}",
             "{\"parameters\":[{\"name\":\"a\",\"kind\":\"runtime\",\"values\":[],\"default\":1}],\"constraints\":[]}",
             "{\"parameters\":[{\"name\":\"a\",\"kind\":\"runtime\",\"values\":[1,1],\"default\":1}],\"constraints\":[]}",
             "{\"parameters\":[],\"constraints\":[{\"text\":\"t\",\"parameters\":[\"a\"],\"allowed\":[]}]}",
             "{\"parameters\":[],\"constraints\":[{\"text\":\"t\",\"parameters\":[],\"allowed\":[[1]]}]}"}) {
        EXPECT_THROW(Space::parse(bad), Error) << bad;
    }
}

// The list of the real generator.
const std::vector<Kernel> &kernels() {
    static const std::vector<Kernel> list = list_kernels(GDN_GENERATOR, GDN_SOURCE_DIR "/generators/kernels.json");
    return list;
}

TEST(KernelList, EveryKernelHasADefaultPoint) {
    ASSERT_GT(kernels().size(), 100u);
    for (const Kernel &k : kernels()) {
        SCOPED_TRACE(k.name + " " + k.target);
        Config defaults;
        for (const Parameter &p : k.space.parameters()) defaults[p.name] = p.default_value;
        EXPECT_EQ(k.space.config(k.space.default_point()), defaults);
        EXPECT_EQ(k.arguments.find("config="), std::string::npos);
        EXPECT_EQ(Space::parse(k.space.json()).hash(), k.space.hash());
    }
}

TEST(KernelList, SmallSpacesCountAsBruteForceSays) {
    int counted = 0;
    for (const Kernel &k : kernels()) {
        if (k.space.size() > 20000) continue;
        const auto holds = [&](Config c) {
            for (const Constraint &constraint : k.space.constraints()) {
                std::vector<int> row;
                for (const std::string &name : constraint.parameters) row.push_back(c[name]);
                if (std::find(constraint.allowed.begin(), constraint.allowed.end(), row) == constraint.allowed.end()) return false;
            }
            return true;
        };
        ASSERT_EQ(k.space.valid_count(), brute_force(k.space, holds).size()) << k.name << " " << k.target;
        counted++;
    }
    EXPECT_GT(counted, 100);
}

// The generator evaluates a constraint itself when it is given a configuration: what the list forbids, it refuses, and names the constraint.
TEST(KernelList, TheGeneratorRefusesWhatTheListForbids) {
    const Kernel kernel = select_kernels(kernels(), "core_chunk_channel_tied_128x128", "x86_avx2").at(0);
    ASSERT_GT(kernel.space.size(), 1000000u);
    EXPECT_LT(kernel.space.valid_count(), kernel.space.size() / 4);
    Random random(11);
    int refused = 0;
    while (refused < 6) {
        Point point;
        for (const Parameter &p : kernel.space.parameters()) point.push_back(static_cast<int>(random.below(p.values.size())));
        if (kernel.space.valid(point)) continue;
        const Config config = kernel.space.config(point);
        ChildOptions options;
        options.argv = {GDN_GENERATOR};
        for (size_t at = 0; at < kernel.arguments.size();) {
            const size_t end = std::min(kernel.arguments.find(' ', at), kernel.arguments.size());
            options.argv.push_back(kernel.arguments.substr(at, end - at));
            at = end + 1;
        }
        for (const std::string &more :
            {"config=" + text_of(config), std::string("-f"), std::string("x"), std::string("-o"), std::string("/nowhere")}) {
            options.argv.push_back(more);
        }
        options.merge_stderr = true;
        std::string output;
        EXPECT_FALSE(run(options, 60, &output).ok());
        EXPECT_THAT(output, HasSubstr("broken constraint: ")) << text_of(config);
        refused++;
    }
}

TEST(KernelList, LargeSpacesAreWalkedWithoutTheirInvalidPoints) {
    const Kernel kernel = select_kernels(kernels(), "core_chunk_channel_tied_128x128", "x86_avx2").at(0);
    uint64_t visited = 0;
    kernel.space.each_valid([&](const Point &p) { return kernel.space.valid(p) && ++visited < 20000; });
    EXPECT_EQ(visited, 20000u);
}

TEST(KernelList, SelectsByGlobAndTarget) {
    const auto chosen = select_kernels(kernels(), "core_step_*_kfirst", "x86_avx512");
    ASSERT_GT(chosen.size(), 3u);
    for (const Kernel &k : chosen) {
        EXPECT_EQ(k.family, "core_step");
        EXPECT_EQ(k.target, "x86_avx512");
        EXPECT_EQ(k.params.at("layout"), "kfirst");
    }
    EXPECT_GT(select_kernels(kernels(), "core_step_*_kfirst", "").size(), chosen.size());
    EXPECT_THAT([] { select_kernels(kernels(), "core_chnk_chanel_tied_128x128", "x86_avx512"); },
        ThrowsMessage<Error>(AllOf(
            HasSubstr("no kernel of x86_avx512 matches core_chnk_chanel_tied_128x128; the nearest are core_chunk_channel_tied_128x128,"),
            Not(HasSubstr("stage")))));
    EXPECT_THAT([] { select_kernels(kernels(), "short_cov_*", ""); }, ThrowsMessage<Error>(HasSubstr("the nearest are short_conv_")));
    EXPECT_THAT([] { select_kernels(kernels(), "*", "x86_avx1024"); },
        ThrowsMessage<Error>(AllOf(HasSubstr("no target is called x86_avx1024; there are "), HasSubstr("x86_avx512"))));
}

TEST(KernelList, GeneratorsThatFail) {
    EXPECT_THAT([] { list_kernels(GDN_GENERATOR, "/nowhere.json"); }, ThrowsMessage<Error>(HasSubstr("cannot read /nowhere.json")));
    EXPECT_THAT([] { list_kernels("/nowhere/gdn.generator", "x"); }, ThrowsMessage<Error>(HasSubstr("/nowhere/gdn.generator")));
    EXPECT_THAT([] { list_kernels("/bin/echo", "x"); }, ThrowsMessage<Error>(HasSubstr("is not its kernels as JSON")));
}

}  // namespace
}  // namespace gdn::tune
