// Device files, and the folder that they lie in.
#include <algorithm>
#include <cmath>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "autotune/data/t4.h"
#include "autotune/data/tree.h"
#include "support/folder.h"
#include "tuned_files.h"

namespace gdn_test {
namespace {

using namespace gdn::tune;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
namespace fs = std::filesystem;

constexpr char kHash[] = "00000000000000aa";

DeviceFile example() {
    DeviceFile file{"x86_avx512", tuned_device(), {}};
    file.kernels["core_chunk_a"][LengthClass::kLong] = tuned_entry(tuned_config(4), 0.9, {{tuned_config(2), 0.95}});
    file.kernels["core_chunk_a"][LengthClass::kShort] = tuned_entry(tuned_config(), 1);
    file.kernels["core_chunk_b"][LengthClass::kLong] = tuned_entry(tuned_config(8, 16), 0.8);
    return file;
}

std::vector<Kernel> kernels() { return {tuned_kernel(), tuned_kernel("core_chunk_b"), tuned_kernel("core_chunk_a", "x86_avx2")}; }

std::string parse_error(const std::string &text) {
    return error_of([&] { parse_device_file(text, "x.json"); });
}

/// Path and bytes of everything under a folder.
std::map<std::string, std::string> bytes_of(const fs::path &folder) {
    std::map<std::string, std::string> all;
    for (const fs::directory_entry &entry : fs::recursive_directory_iterator(folder)) {
        if (entry.is_regular_file()) all[entry.path().string()] = file_text(entry.path().string());
    }
    return all;
}

TEST(TunedFile, RoundTripsToTheSameBytes) {
    const std::string text = text_of(example());
    const DeviceFile back = parse_device_file(text, "x.json");
    EXPECT_EQ(text_of(back), text);
    EXPECT_EQ(back.device.json(), example().device.json());
    const Entry &entry = back.kernels.at("core_chunk_a").at(LengthClass::kLong),
                wanted = example().kernels["core_chunk_a"][LengthClass::kLong];
    EXPECT_EQ(entry.config, wanted.config);
    EXPECT_EQ(entry.default_config, wanted.default_config);
    EXPECT_EQ(entry.others, wanted.others);
    EXPECT_EQ(entry.shapes, wanted.shapes);
    EXPECT_EQ(entry.cost, wanted.cost);
    EXPECT_EQ(entry.default_ns, wanted.default_ns);
    EXPECT_EQ(entry.samples, wanted.samples);

    Folder folder;
    replace_files({{folder.file("a/b.json"), text_of(example())}});
    EXPECT_EQ(file_text(folder.file("a/b.json")), text);
    EXPECT_EQ(text_of(read_device_file(folder.file("a/b.json"))), text);
}

void expect_sorted(const nlohmann::ordered_json &value) {
    if (!value.is_object()) return;
    std::vector<std::string> keys;
    for (const auto &[key, member] : value.items()) {
        keys.push_back(key);
        expect_sorted(member);
    }
    EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end())) << value.dump();
}

TEST(TunedFile, IsSortedWithShortLinesAndFewDigits) {
    DeviceFile file = example();
    Entry &entry = file.kernels["core_chunk_a"][LengthClass::kLong];
    entry.cost = 0.9000123456;
    entry.ns = 1.0e7 / 3;
    const std::string text = text_of(file);
    expect_sorted(nlohmann::ordered_json::parse(text));
    EXPECT_THAT(text, HasSubstr("\n        \"cost\": 0.9000,\n"));
    EXPECT_THAT(text, HasSubstr("\n        \"ns\": 3333333.3,\n"));
    EXPECT_THAT(text, HasSubstr("\n          \"rows:2\": 0.9500,\n"));
}

TEST(TunedFile, SchemaInGitNamesTheSameFields) {
    const json schema = json::parse(file_text(GDN_SOURCE_DIR "/schedules/tuned/device.schema.json"));
    const json file = json::parse(text_of(example()));
    const auto keys = [](const json &object) {
        std::vector<std::string> names;
        for (const auto &[key, value] : object.items()) names.push_back(key);
        return names;
    };
    const auto expect_same = [&](const json &part, const json &written) {
        EXPECT_EQ(keys(part["properties"]), keys(written));
        std::vector<std::string> required = part["required"];
        std::sort(required.begin(), required.end());
        EXPECT_EQ(required, keys(written));
        EXPECT_EQ(part["additionalProperties"], false);
    };
    expect_same(schema, file);
    expect_same(schema["properties"]["device"], file["device"]);
    expect_same(schema["$defs"]["entry"], file["kernels"]["core_chunk_a"]["long"]);
    EXPECT_EQ(schema["properties"]["schema"]["const"], file["schema"]);
}

TEST(TunedFile, RefusesWhatIsMissingUnknownOrOfAWrongType) {
    const json good = json::parse(text_of(example()));
    const json::json_pointer entry("/kernels/core_chunk_a/long"), device("/device"), root("");
    for (const json::json_pointer &object : {root, device, entry}) {
        for (const auto &[key, value] : good.at(object).items()) {
            json without = good;
            without.at(object).erase(key);
            EXPECT_THAT(parse_error(without.dump()), HasSubstr("\"" + key + "\" is missing")) << object.to_string();
            for (const json &wrong : {json(nullptr), json::array({1}), json("x y"), json(true), json(-1), json({{"x", "y"}})}) {
                if (wrong.type() == value.type() && wrong != -1) continue;
                json with = good;
                with.at(object)[key] = wrong;
                const std::string error = parse_error(with.dump());
                EXPECT_THAT(error, HasSubstr(key)) << object.to_string() << wrong;
                EXPECT_THAT(error, HasSubstr("x.json: ")) << error;
            }
        }
        json more = good;
        more.at(object)["colour"] = 1;
        EXPECT_THAT(parse_error(more.dump()), HasSubstr("unknown field \"colour\""));
    }

    const auto with = [&](const std::string &pointer, const json &value) {
        json changed = good;
        changed[json::json_pointer(pointer)] = value;
        return parse_error(changed.dump());
    };
    const std::string place = "/kernels/core_chunk_a/long";
    EXPECT_THAT(with(place + "/config", "rows=x"), HasSubstr("core_chunk_a: long: config"));
    EXPECT_THAT(with(place + "/config", "ahead:1"), HasSubstr("missing")) << "its cost is not among the others";
    EXPECT_THAT(with(place + "/config", "wheels:4"), HasSubstr("\"wheels\" is no parameter"));
    EXPECT_THAT(with(place + "/low", 0.95), HasSubstr("interval"));
    EXPECT_THAT(with(place + "/cost", 0), HasSubstr("above 0"));
    EXPECT_THAT(with(place + "/samples", 1.5), HasSubstr("integer"));
    EXPECT_THAT(with(place + "/samples", uint64_t(1) << 63), HasSubstr("samples"));
    EXPECT_THAT(with(place + "/others/rows:8,cols:32,ahead:0", 0.5), HasSubstr("two spellings"));
    EXPECT_THAT(with(place + "/others/nonsense", 0.5), HasSubstr("nonsense"));
    for (const char *shape : {"", "T=8; reboot", "T=8 H=2", "$(reboot)"})
        EXPECT_THAT(with(place + "/shapes/0", shape), HasSubstr("long: shapes"));
    EXPECT_THAT(with("/kernels/core_chunk_a/medium", good[json::json_pointer(place)]), HasSubstr("medium"));
    EXPECT_THAT(with("/device/vendor", ""), HasSubstr("empty"));
    EXPECT_THAT(with("/schema", 2), HasSubstr("newer than this program"));
    EXPECT_EQ(with(place + "/cost", 0.9), "") << "the example itself is good";
}

TEST(TunedFile, RefusesCorruptAndForeignFiles) {
    const std::string text = text_of(example());
    for (size_t size = 0; size + 2 < text.size(); size += 7) EXPECT_NE(parse_error(text.substr(0, size)), "") << size;
    std::string twice = text;
    twice.replace(twice.find("\"low\""), 5, "\"high\"");
    EXPECT_THAT(parse_error(twice), HasSubstr("stands twice"));
    EXPECT_THAT(parse_error("SQLite format 3"), HasSubstr("x.json is no JSON"));
    EXPECT_THAT(parse_error("[]"), HasSubstr("object"));
    EXPECT_THAT(parse_error(R"({"schema": 1, "name": "something else"})"), HasSubstr("unknown field \"name\""));
    EXPECT_THAT(parse_error(file_text(GDN_SOURCE_DIR "/generators/kernels.json")), HasSubstr("unknown field \"targets\""));
    std::string huge = text;
    huge.replace(huge.find("0.9000"), 6, "1e9999");
    EXPECT_NE(parse_error(huge), "");
    EXPECT_THAT(error_of([] { read_device_file("/nowhere/at/all.json"); }), HasSubstr("/nowhere/at/all.json: No such file"));
    Folder folder;
    EXPECT_THAT(error_of([&] { read_device_file(folder.path()); }), HasSubstr("it is a folder"));
}

TEST(TunedFile, KnowsKernelsClassesAndSpaces) {
    EXPECT_EQ(error_of([] { require_known(example(), kernels()); }), "");
    const auto refusal = [](const std::function<void(DeviceFile *)> &change) {
        DeviceFile file = example();
        change(&file);
        return error_of([&] { require_known(file, kernels()); });
    };
    EXPECT_THAT(refusal([](DeviceFile *f) { f->target = "../../etc"; }), HasSubstr("no target \"../../etc\""));
    EXPECT_THAT(refusal([](DeviceFile *f) { f->target = "x86_avx2"; }), HasSubstr("no kernel \"core_chunk_b\""));
    EXPECT_THAT(refusal([](DeviceFile *f) { f->kernels["core_chunk_a"][LengthClass::kDecode] = tuned_entry(tuned_config(4), 0.9); }),
        HasSubstr("decode"));
    EXPECT_THAT(refusal([](DeviceFile *f) { f->kernels["core_chunk_a"][LengthClass::kLong] = tuned_entry(tuned_config(5), 0.9); }),
        HasSubstr("rows"));
    EXPECT_THAT(refusal([](DeviceFile *f) { f->kernels["core_chunk_a"][LengthClass::kLong] = tuned_entry(tuned_config(16, 16), 0.9); }),
        HasSubstr("rows times cols is not 256"));
    EXPECT_THAT(refusal([](DeviceFile *f) {
        f->kernels["core_chunk_a"][LengthClass::kLong] = tuned_entry(tuned_config(4), 0.9, {{{{"wheels", 4}}, 0.95}});
    }),
        HasSubstr("wheels"));
}

struct Merged {
    DeviceFile file = example();
    std::vector<std::string> changes;
    Entry &entry() { return file.kernels["core_chunk_a"][LengthClass::kLong]; }  // 0.9, from 0.89 to 0.91
};
Merged merged_with(Entry entry, const std::function<void(Entry *)> &change_old = {}, const std::string &hash = kHash) {
    Merged m;
    if (change_old) change_old(&m.entry());
    DeviceFile from{"x86_avx512", tuned_device(), {}};
    from.kernels["core_chunk_a"][LengthClass::kLong] = std::move(entry);
    m.changes = merge(&m.file, from, hash);
    return m;
}

TEST(TunedMerge, AnEntryIsReplacedWhereIntervalsSeparateOrItIsStale) {
    const Config other = tuned_config(2, 16), old = tuned_config(4);
    EXPECT_EQ(merged_with(tuned_entry(other, 0.885)).entry().config, old) << "the intervals overlap";
    EXPECT_EQ(merged_with(tuned_entry(other, 0.95)).entry().config, old) << "it is worse";
    EXPECT_EQ(merged_with(tuned_entry(other, 0.875)).entry().config, other) << "it is better";

    const auto make_stale = [](Entry *entry) { entry->generator_hash = "00000000000000bb"; };
    EXPECT_EQ(merged_with(tuned_entry(other, 0.95), make_stale).entry().config, other) << "the old one is stale";
    Entry stale = tuned_entry(other, 0.885);
    make_stale(&stale);
    EXPECT_EQ(merged_with(stale).entry().config, old) << "the new one is stale";
    EXPECT_EQ(merged_with(stale, make_stale).entry().config, old) << "both are";
    stale = tuned_entry(other, 0.5);
    make_stale(&stale);
    EXPECT_EQ(merged_with(stale).entry().config, old) << "the new one is stale, however good it was";

    Entry against = tuned_entry(other, 0.5);
    against.default_config = tuned_config(2);
    against.others.emplace_back(tuned_config(2), 1);
    EXPECT_EQ(merged_with(against).entry().config, old) << "against another default, not newer";
    against.date = "2026-02-01T00:00:00Z";
    EXPECT_EQ(merged_with(against).entry().config, other) << "against another default, newer";
}

TEST(TunedMerge, AKeptEntryLearnsCosts) {
    const Merged m = merged_with(tuned_entry(tuned_config(2, 16), 0.95, {{tuned_config(2), 0.99}, {tuned_config(2, 32, 1), 0.97}}));
    const Entry &entry = m.file.kernels.at("core_chunk_a").at(LengthClass::kLong);
    EXPECT_THAT(
        entry.others, ElementsAre(std::pair(tuned_config(4), 0.9), std::pair(tuned_config(2, 16), 0.95), std::pair(tuned_config(2), 0.95),
                          std::pair(tuned_config(2, 32, 1), 0.97), std::pair(tuned_config(), 1.0)));
    EXPECT_THAT(m.changes, ElementsAre(HasSubstr("costs of 2 more")));
    EXPECT_THAT(merged_with(tuned_entry(tuned_config(4), 0.905)).changes, IsEmpty());
}

TEST(TunedMerge, ANoisyMachineReplacesNothingOfAFitOne) {
    Entry noisy = tuned_entry(tuned_config(2, 16), 0.5);
    noisy.noisy = true;
    EXPECT_EQ(merged_with(noisy).entry().config, tuned_config(4));
    const auto was_noisy = [](Entry *entry) { entry->noisy = true; };
    EXPECT_EQ(merged_with(tuned_entry(tuned_config(2, 16), 0.95), was_noisy).entry().config, tuned_config(2, 16));
    EXPECT_EQ(merged_with(noisy, was_noisy).entry().config, tuned_config(2, 16));
    EXPECT_THAT(merged_with(noisy, was_noisy).changes, ElementsAre(HasSubstr("on a noisy machine")));
}

TEST(TunedMerge, TheOrderDoesNotMatter) {
    DeviceFile a = example(), b = example();
    a.kernels["core_chunk_a"][LengthClass::kLong] = tuned_entry(tuned_config(4), 0.9, {{tuned_config(2), 0.95}});
    b.kernels["core_chunk_a"][LengthClass::kLong] = tuned_entry(tuned_config(2, 16), 0.7, {{tuned_config(2, 32, 1), 0.97}});
    DeviceFile ab = a, ba = b;
    merge(&ab, b, kHash);
    merge(&ba, a, kHash);
    EXPECT_EQ(text_of(ab), text_of(ba));
    const Entry &entry = ab.kernels.at("core_chunk_a").at(LengthClass::kLong);
    EXPECT_EQ(entry.config, tuned_config(2, 16));
    EXPECT_THAT(entry.others, SizeIs(5)) << "what either knew";
}

TEST(TunedMerge, OtherDevicesAndTargetsAreRefusedAndChangeNothing) {
    DeviceFile file = example(), from = example();
    from.kernels["core_chunk_a"][LengthClass::kLong] = tuned_entry(tuned_config(2), 0.5);
    const std::string before = text_of(file);
    from.target = "x86_avx2";
    EXPECT_THAT(error_of([&] { merge(&file, from, kHash); }), HasSubstr("x86_avx2"));
    from.target = file.target;
    from.device = tuned_device("Xeon", "sapphirerapids", "GenuineIntel");
    EXPECT_THAT(error_of([&] { merge(&file, from, kHash); }), HasSubstr("Xeon"));
    EXPECT_EQ(text_of(file), before);
}

/// A tree with the example in it, as `gdn tune export` left it.
void plant(const std::string &folder) { replace_files(merged(folder, {example()}, kernels(), kHash).files); }

TEST(TunedTree, MergingWritesTheDeviceAndItsDefault) {
    Folder folder;
    plant(folder.path());
    const std::string key = example().device.key();
    EXPECT_EQ(file_text(folder.file("x86_avx512/" + key + ".json")), text_of(example()));
    EXPECT_EQ(file_text(folder.file("x86_avx512/default.json")), cover_json("x86_avx512", {example()}, kernels()));
    EXPECT_THAT(bytes_of(folder.path()), SizeIs(2));
    EXPECT_THAT(merged(folder.path(), {example()}, kernels(), kHash).files, IsEmpty()) << "again: nothing to do";

    DeviceFile other = example();
    other.device = tuned_device("Xeon", "sapphirerapids", "GenuineIntel");
    replace_files(merged(folder.path(), {other}, kernels(), kHash).files);
    EXPECT_THAT(bytes_of(folder.path()), SizeIs(3));
    EXPECT_THAT(read_target(folder.path(), "x86_avx512"), SizeIs(2));
    EXPECT_THAT(covered(folder.path(), "", kernels()).files, IsEmpty());
    std::ofstream(folder.file("x86_avx512/default.json"), std::ios::app) << " ";
    EXPECT_THAT(covered(folder.path(), "", kernels()).files, SizeIs(1)) << "edited by hand";
}

TEST(TunedTree, WhatIsRefusedChangesNoByte) {
    Folder folder;
    plant(folder.path());
    const auto before = bytes_of(folder.path());
    DeviceFile good = example(), bad = example();
    good.kernels["core_chunk_a"][LengthClass::kLong] = tuned_entry(tuned_config(2), 0.5);
    bad.kernels["core_chunk_c"][LengthClass::kLong] = tuned_entry(tuned_config(2), 0.5);
    EXPECT_THAT(error_of([&] { replace_files(merged(folder.path(), {good, bad}, kernels(), kHash).files); }), HasSubstr("core_chunk_c"));
    EXPECT_EQ(bytes_of(folder.path()), before);

    // The second of two files cannot be written: the first stays as it was too.
    fs::create_directories(folder.file("x86_avx512/full.json"));
    EXPECT_THAT(error_of([&] {
        replace_files({{folder.file("x86_avx512/default.json"), "x"}, {folder.file("x86_avx512/full.json"), "y"}});
    }),
        HasSubstr("full.json"));
    EXPECT_EQ(bytes_of(folder.path()), before);
    EXPECT_THAT(error_of([] { replace_files({{"/proc/nothing/here.json", "x"}}); }), HasSubstr("/proc/nothing"));
}

TEST(TunedTree, AFullDiskLeavesNothing) {
    Folder folder;
    const std::string path = folder.file("x.json");
    fs::create_symlink("/dev/full", path + ".new" + std::to_string(getpid()));
    EXPECT_THAT(error_of([&] { replace_files({{folder.file("a.json"), "y"}, {path, "x"}}); }), HasSubstr("No space left"));
    EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(TunedTree, NoFileIsWrittenTwice) {
    Folder folder;
    const std::string path = folder.file("x.json");
    EXPECT_THAT(error_of([&] {
        replace_files({{path, "x"}, {folder.file("./x.json"), "y"}});
    }),
        HasSubstr("x.json would be written twice"));
    EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(TunedTree, NamesOfFilesAreChecked) {
    Folder folder;
    replace_files({{folder.file("x86_avx512/somebody.json"), text_of(example())}});
    EXPECT_THAT(error_of([&] { read_target(folder.path(), "x86_avx512"); }), HasSubstr("is of the device " + example().device.key()));
    fs::remove(folder.file("x86_avx512/somebody.json"));
    replace_files({{folder.file("x86_avx2/" + example().device.key() + ".json"), text_of(example())}});
    EXPECT_THAT(error_of([&] { read_target(folder.path(), "x86_avx2"); }), HasSubstr("is of the target x86_avx512"));
    EXPECT_THAT(read_target(folder.path(), "arm_neon"), IsEmpty());
    EXPECT_THAT(error_of([&] { covered(folder.path(), "z80", kernels()); }), HasSubstr("z80"));
}

TEST(TunedTree, StaleEntriesAreNamedWithWhatToTimeAgain) {
    EXPECT_THAT(stale(example(), kernels(), kHash), IsEmpty());
    const std::vector<Stale> all = stale(example(), kernels(), "00000000000000bb");
    ASSERT_THAT(all, SizeIs(3));
    EXPECT_EQ(all[0].kernel, "core_chunk_a");
    EXPECT_THAT(all[0].why, HasSubstr(kHash));
    EXPECT_FALSE(all[0].lost);

    // The default of core_chunk_a is another now, 2 rows have gone, and core_chunk_b with them all.
    Kernel changed = tuned_kernel();
    changed.space = Space({{"rows", Kind::kSchedule, {4, 8}, 4}, {"cols", Kind::kSchedule, {16, 32}, 32},
                              {"ahead", Kind::kRuntime, {0, 1}, 0}, {"deep", Kind::kSchedule, {0, 1}, 0}},
        {});
    const std::vector<Stale> now = stale(example(), {changed}, kHash);
    ASSERT_THAT(now, SizeIs(3));
    EXPECT_EQ(now[0].length_class, LengthClass::kShort);
    EXPECT_THAT(now[0].why, HasSubstr("the default was rows:8 and is rows:4"));
    EXPECT_EQ(now[1].length_class, LengthClass::kLong);
    EXPECT_THAT(now[1].why, HasSubstr("rows"));
    EXPECT_FALSE(now[1].lost);
    EXPECT_THAT(now[1].configs, ElementsAre(parse_config("rows:8")));
    EXPECT_TRUE(now[2].lost);

    DeviceFile decoding{"x86_avx512", tuned_device(), {}};
    decoding.kernels["core_chunk_a"][LengthClass::kDecode] = tuned_entry(tuned_config(4), 0.9);
    EXPECT_TRUE(stale(decoding, kernels(), kHash).at(0).lost) << "the family has no such class";

    Folder folder;
    plant(folder.path());
    const auto everything = [](const std::string &, const std::string &, const std::string &) { return true; };
    EXPECT_THAT(dropped(folder.path(), kernels(), everything).files, IsEmpty());
    EXPECT_THAT(error_of([&] { covered(folder.path(), "", {changed}); }), HasSubstr("rows"));
    const Update update = dropped(folder.path(), {changed}, everything);
    EXPECT_THAT(update.changes, SizeIs(3)) << "two entries, default.json";
    replace_files(update.files);
    EXPECT_THAT(covered(folder.path(), "", {changed}).files, IsEmpty());
    EXPECT_THAT(read_target(folder.path(), "x86_avx512").at(0).kernels, SizeIs(1));
}

TEST(TunedTree, OnlyWhatWasChosenIsDropped) {
    Folder folder;
    DeviceFile other = example();
    other.device = tuned_device("Xeon", "sapphirerapids", "GenuineIntel");
    replace_files(merged(folder.path(), {example(), other}, kernels(), kHash).files);
    const std::vector<Kernel> now = {tuned_kernel()};  // core_chunk_b is no more
    const auto before = bytes_of(folder.path());
    EXPECT_THAT(dropped(folder.path(), now, [](auto &, auto &, auto &kernel) { return kernel == "core_chunk_a"; }).files, IsEmpty());

    const std::string mine = folder.file("x86_avx512/" + example().device.key() + ".json"),
                      theirs = folder.file("x86_avx512/" + other.device.key() + ".json");
    replace_files(dropped(folder.path(), now, [&](auto &, auto &device, auto &) { return device == other.device.key(); }).files);
    EXPECT_EQ(file_text(mine), before.at(mine));
    EXPECT_THAT(read_device_file(theirs).kernels, SizeIs(1));
    DeviceFile fits[] = {example(), other};
    for (DeviceFile &file : fits) file.kernels.erase("core_chunk_b");
    EXPECT_EQ(file_text(folder.file("x86_avx512/default.json")), cover_json("x86_avx512", {fits[0], fits[1]}, now));
}

Estimate estimate_of(double value) {
    Estimate e;
    e.value = e.median = value;
    e.low = value - 0.01;
    e.high = value + 0.01;
    e.samples = 7;
    return e;
}

Trial trial(const Config &config, double cost, double ns = 0, Status status = Status::kOk, const std::string &object = "") {
    Trial t;
    t.config = config;
    t.object_hash = object.empty() ? text_of(config) : object;
    t.status = status;
    t.cost = estimate_of(cost);
    t.ns = {{ns * 1.1, ns, ns * 0.9}, {2 * ns}};
    t.anchor = {{1000, 1001, 999}, {2000}};
    if (status != Status::kOk) t.error = "it did not work";
    return t;
}

RunInfo run_info() {
    RunInfo info;
    info.device = tuned_device();
    info.generator_hash = kHash;
    info.halide_version = "21.0.0";
    info.gdn_version = "0.5.0";
    info.date = "2026-01-31T12:00:00Z";
    info.doctor =
        R"({"findings": [{"grade": "good", "what": "clock", "text": "steady"}, {"grade": "note", "what": "load", "text": "2.5"}]})";
    info.noisy = true;
    return info;
}

Task journal_task(const std::string &kernel, LengthClass c) {
    Task task;
    task.kernel = kernel;
    task.target = "x86_avx512";
    task.length_class = c;
    Shape shape;
    shape.T = 1024;
    task.shapes = {shape};
    task.space = tuned_kernel().space;
    task.default_config = tuned_config();
    task.searcher = "exhaustive";
    task.batch = 8;
    return task;
}

TEST(TunedJournal, FinishedTasksBecomeEntries) {
    Folder folder;
    Journal journal = Journal::create(folder.file("tune.db"), run_info());
    const int64_t a = journal.task(journal_task("core_chunk_a", LengthClass::kLong));
    journal.add(a, "search",
        {trial(tuned_config(4), 0.88, 880, Status::kOk, "same"), trial(tuned_config(4, 16), 0.88, 880, Status::kOk, "same"),
            trial(tuned_config(2), 0.89123456, 890), trial(tuned_config(16), 0, 0, Status::kWrongResult),
            trial(tuned_config(), 1.003, 1003)});
    journal.add(a, "final", {trial(tuned_config(), 1.001, 1001), trial(tuned_config(4), 0.9012345, 901, Status::kOk, "same")});
    const int64_t b = journal.task(journal_task("core_chunk_b", LengthClass::kShort));
    journal.add(b, "search", {trial(tuned_config(4), 0.98, 980)});
    journal.add(b, "final", {trial(tuned_config(), 1.002, 1002), trial(tuned_config(4), 0.995, 995)});
    const int64_t open = journal.task(journal_task("core_chunk_b", LengthClass::kLong));
    journal.add(open, "search", {trial(tuned_config(4), 0.5, 500)});
    const int64_t bare = journal.task(journal_task("core_chunk_a", LengthClass::kShort));
    journal.add(bare, "final", {trial(tuned_config(), 1.001, 1001)});
    EXPECT_THAT(from_journal(journal), IsEmpty()) << "nothing is finished";
    journal.finish(bare, tuned_config(), "time was up");
    journal.finish(a, tuned_config(4), "faster");
    journal.finish(b, tuned_config(), "nothing is faster");

    const std::vector<DeviceFile> files = from_journal(journal);
    ASSERT_THAT(files, SizeIs(1));
    EXPECT_EQ(files[0].target, "x86_avx512");
    EXPECT_EQ(files[0].device.key(), tuned_device().key());
    ASSERT_THAT(files[0].kernels, SizeIs(2));
    const Entry &long_a = files[0].kernels.at("core_chunk_a").at(LengthClass::kLong);
    EXPECT_EQ(long_a.config, tuned_config(4));
    EXPECT_EQ(long_a.default_config, tuned_config());
    EXPECT_EQ(long_a.cost, 0.9012);
    EXPECT_EQ(long_a.low, 0.8912);
    EXPECT_EQ(long_a.high, 0.9112);
    EXPECT_EQ(long_a.ns, 901);
    EXPECT_EQ(long_a.default_ns, 1000);
    EXPECT_EQ(long_a.samples, 7);
    EXPECT_TRUE(long_a.noisy);
    EXPECT_EQ(long_a.doctor, "load: 2.5");
    EXPECT_EQ(long_a.date, "2026-01-31T12:00:00Z");
    EXPECT_THAT(long_a.shapes, ElementsAre(text_of(journal_task("", LengthClass::kLong).shapes[0])));
    EXPECT_THAT(long_a.others, ElementsAre(std::pair(tuned_config(4, 16), 0.9012), std::pair(tuned_config(4), 0.9012),
                                   std::pair(tuned_config(2), 0.9127), std::pair(tuned_config(), 1.0)))
        << "the finalist lost 2.4 % when it was measured again: so would what was no finalist; its twin is the same object";
    const Entry &short_b = files[0].kernels.at("core_chunk_b").at(LengthClass::kShort);
    EXPECT_EQ(short_b.config, tuned_config());
    EXPECT_EQ(short_b.cost, 1);
    EXPECT_THAT(files[0].kernels.at("core_chunk_b"), SizeIs(1)) << "the open task has no entry";
    EXPECT_THAT(files[0].kernels.at("core_chunk_a"), SizeIs(1)) << "nor one whose default was measured alone";

    // The file is good, and what is read back is what was exported.
    const std::string text = text_of(files[0]);
    EXPECT_EQ(text_of(parse_device_file(text, "x.json")), text);
    EXPECT_EQ(error_of([&] { require_known(files[0], kernels()); }), "");
    DeviceFile same = files[0];
    EXPECT_THAT(merge(&same, files[0], kHash), IsEmpty());
}

TEST(TunedJournal, WhatIsExportedCanBeReadAgain) {
    Folder folder;
    const auto exported = [&](const std::string &name, const Trial &winner) {
        Journal journal = Journal::create(folder.file(name), run_info());
        const int64_t id = journal.task(journal_task("core_chunk_a", LengthClass::kLong));
        journal.add(id, "final", {trial(tuned_config(), 1, 1000), winner});
        journal.finish(id, winner.config, "faster");
        return text_of(from_journal(journal).at(0));
    };
    Trial wide = trial(tuned_config(4), 0.9, 900);
    wide.cost.low = 0;  // as far as an interval reaches that would go below
    const std::string text = exported("wide.db", wide);
    EXPECT_EQ(parse_error(text), "");

    Trial timeless = trial(tuned_config(4), 0.9, 900);
    timeless.ns.clear();
    EXPECT_THAT(
        error_of([&] { exported("timeless.db", timeless); }), HasSubstr("core_chunk_a x86_avx512 long has no times of the first shape"));
}

TEST(TunedJournal, T4HasEveryTrial) {
    Folder folder;
    Journal journal = Journal::create(folder.file("tune.db"), run_info());
    const Task task = journal_task("core_chunk_a", LengthClass::kLong);
    const int64_t id = journal.task(task);
    const std::vector<std::pair<Status, std::string>> ends = {{Status::kOk, "correct"}, {Status::kBuildFailed, "compile"},
        {Status::kRunTimeout, "timeout"}, {Status::kWrongResult, "correctness"}, {Status::kCrashed, "runtime"}};
    std::vector<Trial> trials;
    const std::vector<Config> configs = {tuned_config(), tuned_config(2), tuned_config(4), tuned_config(16), tuned_config(8, 16)};
    for (size_t i = 0; i < ends.size(); i++) trials.push_back(trial(configs[i], 0.9, 900, ends[i].first));
    journal.add(id, "search", trials);
    const json t4 = json::parse(t4_json(journal, id, task));
    EXPECT_EQ(t4["schema_version"], "1.0.0");
    ASSERT_EQ(t4["results"].size(), ends.size());
    for (size_t i = 0; i < ends.size(); i++) {
        const json &result = t4["results"][i];
        EXPECT_EQ(result["invalidity"], ends[i].second);
        EXPECT_EQ(result["correctness"], i == 0 ? 1 : 0);
        EXPECT_EQ(result["configuration"].get<Config>(), configs[i]);
        EXPECT_EQ(result["objectives"], json::array({"cost"}));
        EXPECT_TRUE(result["times"]["runtimes"].is_array());
    }
    EXPECT_EQ(t4["results"][0]["measurements"][0]["name"], "cost");
    EXPECT_EQ(t4["results"][0]["measurements"][0]["value"], 0.9);
    EXPECT_NEAR(t4["results"][0]["times"]["runtimes"][1].get<double>(), 900e-6, 1e-12) << "milliseconds";
}

TEST(TunedShipped, EveryDefaultFollowsFromTheDeviceFiles) {
    const std::string folder = GDN_SOURCE_DIR "/schedules/tuned";
    const Update update = covered(folder, "", list_kernels(GDN_GENERATOR, GDN_SOURCE_DIR "/generators/kernels.json"));
    for (const auto &[path, text] : update.files) ADD_FAILURE() << path << " is not what `gdn tune cover` computes";
    size_t folders = 0;
    for (const fs::directory_entry &entry : fs::directory_iterator(folder))
        folders += entry.is_directory() && fs::exists(entry.path() / "default.json");
    EXPECT_GE(folders, 4u);
}

TEST(TunedShipped, DeviceFilesAreWrittenAsTheyStand) {
    size_t files = 0;
    for (const fs::directory_entry &target : fs::directory_iterator(GDN_SOURCE_DIR "/schedules/tuned")) {
        if (!target.is_directory()) continue;
        for (const DeviceFile &file : read_target(GDN_SOURCE_DIR "/schedules/tuned", target.path().filename().string())) {
            EXPECT_EQ(text_of(file), file_text((target.path() / (file.device.key() + ".json")).string()));
            files++;
        }
    }
    EXPECT_GT(files, 0u);
}

}  // namespace
}  // namespace gdn_test
