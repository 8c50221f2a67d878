// gdn tune export, import, cover, refresh, best, top, why and diff, on a journal that no machine measured.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "autotune/data/files.h"
#include "autotune/data/tuned.h"
#include "program.h"
#include "support/folder.h"

namespace gdn_test {
namespace {

using namespace gdn::tune;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
namespace fs = std::filesystem;

constexpr char kKernel[] = "core_chunk_channel_tied_128x128", kTarget[] = "x86_avx512";

const Kernel &kernel() {
    static const Kernel found =
        select_kernels(list_kernels(GDN_GENERATOR, GDN_SOURCE_DIR "/generators/kernels.json"), kKernel, kTarget).at(0);
    return found;
}

/// The default, and configurations that differ from it, in the order in which the space walks.
std::vector<Config> configs(size_t n) {
    std::vector<Config> all = {kernel().space.config(kernel().space.point({}))};
    kernel().space.each_valid([&](const Point &point) {
        const Config config = kernel().space.config(point);
        if (config != all[0]) all.push_back(config);
        return all.size() < n;
    });
    return all;
}

/// As files, commands and messages spell it: what is not as in the default.
std::string spelled(size_t i) { return text_of(changed(configs(i + 1)[i], configs(1)[0])); }

Trial trial(const Config &config, double cost) {
    Trial t;
    t.config = config;
    t.status = Status::kOk;
    t.cost.value = t.cost.median = cost;
    t.cost.low = cost - 0.01;
    t.cost.high = cost + 0.01;
    t.cost.samples = 7;
    t.ns = {{1e6 * cost, 1e6 * cost}};
    t.anchor = {{1e6, 1e6}};
    return t;
}

class TuneData : public ::testing::Test {
protected:
    void SetUp() override { write_journal("tune.db", {1, 0.9, 0.8, 0.95}); }

    std::string file(const std::string &name) const { return folder_.file(name); }
    std::string tree() const { return file("tree"); }

    /// Costs of the default and the next configurations; the best of them wins.
    void write_journal(const std::string &name, const std::vector<double> &costs, bool finished = true,
        const std::string &generator = "00000000000000aa") const {
        RunInfo info;
        info.device.vendor = "GenuineTest";
        info.device.name = "Core 9";
        info.device.architecture = "testlake";
        info.generator_hash = generator;
        info.halide_version = "21.0.0";
        info.gdn_version = "0.5.0";
        info.date = "2026-01-31T12:00:00Z";
        info.doctor = "{}";
        Journal journal = Journal::create(file(name), info);
        Task task;
        task.kernel = kKernel;
        task.target = kTarget;
        task.length_class = LengthClass::kLong;
        task.shapes = parse_shapes("B=1,T=1024,H=16");
        task.space = kernel().space;
        task.default_config = configs(1)[0];
        task.searcher = "exhaustive";
        task.batch = 8;
        const int64_t id = journal.task(task);
        std::vector<Trial> trials;
        for (size_t i = 0; i < costs.size(); i++) trials.push_back(trial(configs(costs.size())[i], costs[i]));
        journal.add(id, "search", trials);
        if (!finished) return;
        journal.add(id, "final", trials);
        const auto best = std::min_element(costs.begin(), costs.end()) - costs.begin();
        journal.finish(id, trials[static_cast<size_t>(best)].config, "it is the fastest");
    }

    static Outcome tune(const std::string &arguments) { return gdn("tune " + arguments); }
    /// Commands that need the list of kernels.
    Outcome on_tree(const std::string &command, const std::string &arguments) const {
        return tune(command + " --generator " + GDN_GENERATOR + " --tuned " + tree() + " " + arguments);
    }
    static json object(const Outcome &outcome) {
        EXPECT_EQ(outcome.code, 0) << outcome.err;
        const json value = json::parse(outcome.out, nullptr, false);
        EXPECT_TRUE(value.is_object()) << outcome.out;
        return value.is_object() ? value : json::object();
    }

    std::map<std::string, std::string> bytes() const {
        std::map<std::string, std::string> all;
        if (!fs::exists(tree())) return all;
        for (const fs::directory_entry &entry : fs::recursive_directory_iterator(tree())) {
            if (entry.is_regular_file()) all[fs::relative(entry.path(), tree()).string()] = file_text(entry.path().string());
        }
        return all;
    }
    std::string device_path() const {
        for (const auto &[path, text] : bytes()) {
            if (path.find("default.json") == std::string::npos) return tree() + "/" + path;
        }
        return "";
    }
    void write(const std::string &name, const std::string &text) const { std::ofstream(file(name), std::ios::binary) << text; }

    const Folder folder_;
};

TEST_F(TuneData, EveryCommandHasHelpAndRefusesNonsense) {
    for (const char *command : {"export", "import", "cover", "refresh", "best", "top", "why", "diff"}) {
        const Outcome help = tune(std::string(command) + " --help");
        EXPECT_EQ(help.code, 0) << command;
        EXPECT_THAT(help.out, HasSubstr("Examples:")) << command;
        EXPECT_EQ(tune(std::string(command) + " --nonsense").code, 2) << command;
    }
    const std::string journal = file("tune.db");
    for (const std::string &arguments : {std::string("export"), std::string("import --merge"), std::string("best /nowhere/at/all.db"),
             "top 0 " + journal, "top many " + journal, "why " + journal, "diff " + journal, "best --class medium " + journal,
             "best --kernel nothing " + journal, "why " + journal + " nothing"}) {
        const Outcome outcome = tune(arguments);
        EXPECT_EQ(outcome.code, 2) << arguments;
        EXPECT_EQ(outcome.out, "") << arguments;
        EXPECT_NE(outcome.err, "") << arguments;
    }
    EXPECT_EQ(on_tree("cover", "--target z80").code, 3);
}

TEST_F(TuneData, ExportWritesTheDeviceAndItsCover) {
    json plan = object(on_tree("export", "--dry-run --json " + file("tune.db")));
    EXPECT_EQ(plan["written"], false);
    EXPECT_EQ(plan["files"].size(), 2u);
    EXPECT_THAT(bytes(), SizeIs(0)) << "a dry run writes nothing";

    const Outcome outcome = on_tree("export", file("tune.db"));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr(std::string(kKernel) + " long: new, " + spelled(2)));
    EXPECT_THAT(outcome.out, HasSubstr("20.0 % less time"));
    ASSERT_THAT(bytes(), SizeIs(2));
    const DeviceFile device = read_device_file(device_path());
    EXPECT_EQ(device.kernels.at(kKernel).at(LengthClass::kLong).config, configs(3)[2]);
    json cover = json::parse(bytes().at(std::string(kTarget) + "/default.json"))["kernels"][kKernel];
    EXPECT_EQ(cover["configs"].size(), 2u) << "the winner, and the default for the class that was not tuned";

    EXPECT_THAT(on_tree("export", file("tune.db")).out, HasSubstr("nothing to change"));
    write_journal("same.db", {1, 0.9, 0.795, 0.95});
    EXPECT_THAT(on_tree("export", file("same.db")).out, HasSubstr("nothing to change")) << "the intervals overlap";
    write_journal("better.db", {1, 0.7, 0.8, 0.95});
    EXPECT_THAT(on_tree("export", file("better.db")).out, HasSubstr("in place of " + spelled(2)));
}

TEST_F(TuneData, ExportChoosesAndRefuses) {
    EXPECT_EQ(on_tree("export", "--kernel core_step_* " + file("tune.db")).code, 1);
    write_journal("open.db", {1, 0.9}, false);
    const Outcome open = on_tree("export", file("open.db"));
    EXPECT_EQ(open.code, 1);
    EXPECT_THAT(open.err, HasSubstr("finished"));
    write("junk.db", "SQLite format 3 and then nothing of the kind");
    for (const char *name : {"junk.db", "empty.db"}) {
        write(name, std::string(name) == "empty.db" ? "" : file_text(file(name)));
        const Outcome outcome = on_tree("export", file("tune.db") + " " + file(name));
        EXPECT_EQ(outcome.code, 1) << name;
        EXPECT_THAT(outcome.err, HasSubstr(name));
    }
    EXPECT_THAT(bytes(), SizeIs(0)) << "good journals among the bad ones are not exported either";
    write("tree", "a file where the folder should be");
    EXPECT_EQ(on_tree("export", file("tune.db")).code, 1);
}

TEST_F(TuneData, WhatIsPrintedForOthersIsImportedToTheSameBytes) {
    const Outcome printed = tune("export --stdout " + file("tune.db"));
    ASSERT_EQ(printed.code, 0) << printed.err;
    write("mine.json", printed.out);
    EXPECT_EQ(on_tree("export", file("tune.db")).code, 0);
    const auto exported = bytes();
    fs::remove_all(tree());
    EXPECT_EQ(on_tree("import", file("mine.json")).code, 0);
    EXPECT_EQ(bytes(), exported);
    EXPECT_EQ(on_tree("import", file("mine.json")).code, 2) << "the device is known: --merge says what to do";
    EXPECT_THAT(on_tree("import", "--merge " + file("mine.json")).out, HasSubstr("nothing to change"));
    EXPECT_EQ(bytes(), exported);
}

TEST_F(TuneData, WhatIsPrintedIsOfOneGenerator) {
    write_journal("old.db", {1, 0.7, 0.8}, true, "00000000000000bb");
    for (const char *order : {"tune.db old.db", "old.db tune.db"}) {
        const std::string first(order, 0, std::string(order).find(' ')), second = order + first.size() + 1;
        const Outcome both = tune("export --stdout " + file(first) + " " + file(second));
        EXPECT_EQ(both.code, 2) << order;
        EXPECT_EQ(both.out, "") << order;
        EXPECT_THAT(both.err, HasSubstr("00000000000000bb")) << order;
    }
}

TEST_F(TuneData, ImportIsAllOrNothing) {
    ASSERT_EQ(on_tree("export", file("tune.db")).code, 0);
    const auto before = bytes();
    write_journal("better.db", {1, 0.7, 0.8, 0.95});
    const std::string better = tune("export --stdout " + file("better.db")).out;
    write("better.json", better);

    const std::string winner = spelled(1);
    const auto replaced = [&](const std::string &what, const std::string &with) {
        std::string text = better;
        for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) text.replace(at, what.size(), with);
        EXPECT_NE(text, better) << what;
        return text;
    };
    const std::vector<std::pair<std::string, std::string>> bad = {
        {better.substr(0, better.size() / 2), "no JSON"},
        {"", "no JSON"},
        {replaced("\"schema\": 1", "\"schema\": 7"), "newer"},
        {replaced("\"samples\"", "\"colour\""), "colour"},
        {replaced("\"samples\": 7", "\"samples\": \"7\""), "integer"},
        {replaced(kKernel, "core_chunk_of_somebody_else"), "core_chunk_of_somebody_else"},
        {replaced(kTarget, "z80_simd"), "z80_simd"},
        {replaced("\"long\"", "\"decode\""), "decode"},
        {replaced(winner, winner + ",wheels:4"), "wheels"},
        {file_text(GDN_SOURCE_DIR "/generators/kernels.json"), "unknown field"},
        {file_text(file("tune.db")), "no JSON"},
    };
    for (const auto &[text, expected] : bad) {
        write("bad.json", text);
        const Outcome outcome = on_tree("import", "--merge " + file("better.json") + " " + file("bad.json"));
        EXPECT_EQ(outcome.code, 1) << expected << outcome.out;
        EXPECT_THAT(outcome.err, HasSubstr(expected));
        EXPECT_EQ(bytes(), before) << expected;
    }
    EXPECT_EQ(on_tree("import", "--merge --dry-run " + file("better.json")).code, 0);
    EXPECT_EQ(bytes(), before);
    EXPECT_EQ(on_tree("import", "--merge " + file("better.json")).code, 0);
    EXPECT_NE(bytes(), before) << "the good file alone is taken";
}

TEST_F(TuneData, CoverIsChecked) {
    ASSERT_EQ(on_tree("export", file("tune.db")).code, 0);
    EXPECT_EQ(on_tree("cover", "--check").code, 0);
    const auto before = bytes();
    std::ofstream(tree() + "/" + kTarget + "/default.json", std::ios::app) << "\n";
    const auto edited = bytes();
    const Outcome check = on_tree("cover", "--check");
    EXPECT_EQ(check.code, 1);
    EXPECT_THAT(check.err, HasSubstr("default.json is not what follows"));
    EXPECT_EQ(bytes(), edited) << "--check writes nothing";
    EXPECT_EQ(on_tree("cover", "").code, 0);
    EXPECT_EQ(bytes(), before);
}

TEST_F(TuneData, RefreshNamesStaleEntriesAndHowToTimeThemAgain) {
    ASSERT_EQ(on_tree("export", file("tune.db")).code, 0);
    json stale = object(on_tree("refresh", "--json"))["stale"];  // the journal's generator is none that exists
    ASSERT_EQ(stale.size(), 1u);
    EXPECT_EQ(stale[0]["kernel"], kKernel);
    EXPECT_EQ(stale[0]["lost"], false);
    EXPECT_EQ(stale[0]["configs"][0], spelled(2)) << "the winner comes first";
    EXPECT_THAT(stale[0]["command"],
        HasSubstr("gdn tune run " + std::string(kKernel) + " --target " + kTarget + " --class long --config " + spelled(2)));
    const std::string device = fs::path(device_path()).stem().string();
    EXPECT_THAT(stale[0]["command"], HasSubstr(" --shape B=1,T=1024,H=16 --journal " + device + ".db"));
    const std::string command = stale[0]["command"].get<std::string>().substr(4);
    const Outcome plan = gdn(command + " --dry-run --generator " + GDN_GENERATOR);
    if (plan.code != 3) {  // a machine without AVX-512
        EXPECT_THAT(plan.out, HasSubstr("B=1,T=1024,H=16")) << plan.err;
    }
    const Outcome words = on_tree("refresh", "--device " + device);
    EXPECT_THAT(words.out, HasSubstr("1 stale entries"));
    EXPECT_THAT(words.out, HasSubstr("gdn tune export " + device + ".db"));
    for (const char *command : {"", "--drop "}) {
        const Outcome nobody = on_tree("refresh", std::string(command) + "--device somebody-else");
        EXPECT_EQ(nobody.code, 2);
        EXPECT_THAT(nobody.err, HasSubstr("somebody-else"));
        EXPECT_THAT(nobody.err, HasSubstr(device));
    }

    std::string text = file_text(device_path());
    text.replace(text.find(kKernel), sizeof kKernel - 1, "core_chunk_that_was");
    std::ofstream(device_path()) << text;
    EXPECT_EQ(on_tree("cover", "").code, 1);
    EXPECT_EQ(object(on_tree("refresh", "--json"))["stale"].at(0)["lost"], true);
    const auto before = bytes();
    for (const char *others : {"--device somebody-else", "--kernel core_step_*", "--target x86_avx2"}) {
        on_tree("refresh", std::string("--drop ") + others);
        EXPECT_EQ(bytes(), before) << others;
    }
    EXPECT_EQ(on_tree("refresh", "--drop --kernel core_chunk_that_*").code, 0);
    EXPECT_EQ(on_tree("cover", "--check").code, 0);
}

TEST_F(TuneData, BestTopAndWhyReadAJournal) {
    const std::string journal = file("tune.db");
    json best = object(tune("best --json " + journal))["tasks"].at(0);
    EXPECT_EQ(best["kernel"], kKernel);
    EXPECT_EQ(best["class"], "long");
    EXPECT_EQ(best["finished"], true);
    EXPECT_EQ(best["evaluations"], 4);
    EXPECT_EQ(best["why"], "it is the fastest");
    EXPECT_EQ(best["best"]["config"], text_of(configs(3)[2]));
    EXPECT_EQ(best["best"]["cost"], 0.8);
    EXPECT_THAT(tune("best " + journal).out, HasSubstr(spelled(2)));

    json top = object(tune("top 3 --json " + journal))["tasks"].at(0)["top"];
    ASSERT_EQ(top.size(), 3u);
    EXPECT_EQ(top[0]["cost"], 0.8);
    EXPECT_EQ(top[1]["cost"], 0.9);
    EXPECT_EQ(top[2]["cost"], 0.95);
    EXPECT_EQ(object(tune("top 99 --json " + journal))["tasks"].at(0)["top"].size(), 4u);

    json why = object(tune("why --json " + journal + " " + kKernel))["tasks"].at(0)["parameters"];
    EXPECT_GT(why.size(), 0u);
    for (json &parameter : why) {
        EXPECT_GE(parameter["share"], 0);
        EXPECT_LE(parameter["share"], 1);
        EXPECT_GT(parameter["values"].size(), 0u);
    }
    EXPECT_THAT(tune("why " + journal + " core_chunk_*").out, HasSubstr(" %  best cost with"));

    write_journal("open.db", {1, 0.9}, false);
    json open = object(tune("best --json " + file("open.db")))["tasks"].at(0);
    EXPECT_EQ(open["finished"], false);
    EXPECT_EQ(open["best"]["cost"], 0.9);
    write("junk.db", "no journal");
    EXPECT_EQ(tune("best " + file("junk.db")).code, 1);
}

TEST_F(TuneData, DiffShowsWhatDiffers) {
    write("a.json", tune("export --stdout " + file("tune.db")).out);
    json none = object(tune("diff --json " + file("a.json") + " " + file("tune.db")));
    EXPECT_EQ(none["differences"].size(), 0u);
    EXPECT_EQ(none["equal"], 1);
    write_journal("better.db", {1, 0.64, 0.8});
    json difference = object(tune("diff --json " + file("a.json") + " " + file("better.db")))["differences"].at(0);
    EXPECT_EQ(difference["a"]["config"], text_of(configs(3)[2]));
    EXPECT_EQ(difference["b"]["config"], text_of(configs(3)[1]));
    EXPECT_NEAR(difference["gain"], 0.25, 1e-9);
    EXPECT_EQ(difference["separate"], true);
    EXPECT_THAT(tune("diff " + file("a.json") + " " + file("better.db")).out, HasSubstr("+25.0 %"));
    write("junk.json", "{}");
    EXPECT_EQ(tune("diff " + file("a.json") + " " + file("junk.json")).code, 1);
}

TEST_F(TuneData, T4IsPrintedOrWritten) {
    json t4 = object(tune("export --t4 " + file("tune.db")));
    EXPECT_EQ(t4["schema_version"], "1.0.0");
    EXPECT_EQ(t4["results"].size(), 8u) << "four of the search, four of the final phase";
    ASSERT_EQ(tune("export --t4 --output " + file("t4") + " " + file("tune.db")).code, 0);
    const std::string name = file("t4/") + kKernel + "-" + kTarget + "-long.t4.json";
    EXPECT_EQ(json::parse(file_text(name)), t4);
    EXPECT_EQ(tune("export --t4 --kernel nothing " + file("tune.db")).code, 2);
    write_journal("again.db", {1, 0.9});
    const Outcome twice = tune("export --t4 --output " + file("twice") + " " + file("tune.db") + " " + file("again.db"));
    EXPECT_EQ(twice.code, 1);
    EXPECT_THAT(twice.err, HasSubstr("would be written twice"));
    EXPECT_FALSE(fs::exists(file("twice")));
}

}  // namespace
}  // namespace gdn_test
