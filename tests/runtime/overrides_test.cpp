// The text of run-time parameters: all or none, bounded, and its faults named by line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include <unistd.h>

#include "call.h"
#include "overrides.h"

using namespace gdn_test;
using ::testing::HasSubstr;

namespace {

std::string explained(gdn_context *context) {
    CallSize size;
    size.T = 100;
    SmallCall call(size);
    char text[8192];
    EXPECT_EQ(gdn_explain(context, &call.args, text, sizeof text, nullptr), GDN_STATUS_OK);
    return text;
}

gdn_status apply_text(gdn_context *context, const std::string &text) { return gdn_apply_overrides(context, text.data(), text.size()); }

TEST(Overrides, FamilyThenKernel) {
    ContextPtr context = make_context();
    ASSERT_EQ(apply_text(context.get(), "# comment\n\n  core_chunk.time_block\t64 # tail\r\ncore_chunk.tail_steps 0"), GDN_STATUS_OK)
        << gdn_last_error();
    EXPECT_THAT(explained(context.get()), HasSubstr("\"time_block\": 64"));
    EXPECT_THAT(explained(context.get()), HasSubstr("\"tail_steps\": 0"));
    std::string json = explained(context.get());
    json = json.substr(json.find("gdnk_core_chunk"));
    const std::string symbol = json.substr(0, json.find('"'));
    ASSERT_EQ(apply_text(context.get(), symbol + ".time_block 16"), GDN_STATUS_OK) << gdn_last_error();
    EXPECT_THAT(explained(context.get()), HasSubstr("\"time_block\": 16"));
    EXPECT_THAT(explained(context.get()), HasSubstr("\"tail_steps\": 0"));
    EXPECT_EQ(apply_text(context.get(), ""), GDN_STATUS_OK);
}

TEST(Overrides, AllOrNone) {
    ContextPtr context = make_context();
    const std::string before = explained(context.get());
    for (const auto &[text, says] : std::vector<std::pair<std::string, std::string>>{
             {"core_chunk.time_block 64\ncore_chunk.time_blick 3", "line 2: \"core_chunk.time_blick\""},
             {"core_chunk.time_block 64\nchore.time_block 32", "line 2: \"chore.time_block\""},
             {"core_chunk.time_block", "line 1: expected"}, {"core_chunk.time_block 64 32", "line 1: expected"},
             {"time_block 64", "line 1: expected"}, {"core_chunk.time_block 63", "multiple of 8"}, {"core_chunk.time_block -8", "\"-8\""},
             {"core_chunk.time_block 99999999999999999999", "time_block"}, {"core_chunk.time_block 0x40", "time_block"},
             {"core_chunk.fetch_ahead 9", "fetch_ahead is \"9\", expected a multiple of 1 from 0 to 8"},
             {"stage.time_block 64", "names no core kernel"}, {std::string("core_chunk.time_block 6\0004", 25), "time_block"},
             {std::string(70000, '#'), "bytes"}}) {
        EXPECT_EQ(apply_text(context.get(), text), GDN_STATUS_CORRUPT) << text.substr(0, 60);
        EXPECT_THAT(gdn_last_error(), HasSubstr(says));
        EXPECT_EQ(explained(context.get()), before);
    }
}

// Configurations of two kernels, one of them for two targets.
std::vector<gdn::KernelRow> configured_rows() {
    std::vector<gdn::KernelRow> rows;
    const auto add = [&rows](const char *name, gdn::Family family, int target, const char *config) {
        gdn::KernelRow row = {};
        row.name = name;
        row.symbol = "gdnk_x";
        row.family_name = family == gdn::Family::kCoreChunk ? "core_chunk" : "core_step";
        row.target_name = target ? "narrow" : "wide";
        row.target = target;
        row.family = family;
        row.config = config;
        rows.push_back(row);
    };
    add("chunk_a", gdn::Family::kCoreChunk, 0, "cols:32,rows:8,tail_steps:3");
    add("chunk_a", gdn::Family::kCoreChunk, 0, "cols:16,rows:8,tail_steps:3");
    add("chunk_a", gdn::Family::kCoreChunk, 0, "cols:16,rows:4,tail_steps:3");
    add("chunk_a", gdn::Family::kCoreChunk, 1, "cols:16,rows:8,tail_steps:3");
    add("step_a", gdn::Family::kCoreStep, 0, "rows:1");
    add("step_a", gdn::Family::kCoreStep, 0, "rows:2");
    return rows;
}

// What a text picks: per row a bit for short and one for long.
std::vector<int> picked(const std::string &text) {
    const std::vector<gdn::KernelRow> rows = configured_rows();
    std::vector<gdn::RunParams> params(rows.size());
    std::vector<std::uint8_t> picks(rows.size());
    const gdn_status status =
        gdn::parse_overrides(text.data(), text.size(), rows.data(), static_cast<std::int32_t>(rows.size()), params.data(), picks.data());
    return status == GDN_STATUS_OK ? std::vector<int>(picks.begin(), picks.end()) : std::vector<int>{-1};
}

TEST(Overrides, PickAConfiguration) {
    using V = std::vector<int>;
    EXPECT_EQ(picked("chunk_a.config 1"), (V{0, 3, 0, 0, 0, 0})) << gdn_last_error();
    EXPECT_EQ(picked("chunk_a@short.config 1\nchunk_a@long.config 2"), (V{0, 1, 2, 0, 0, 0}));
    EXPECT_EQ(picked("chunk_a.config 1\nchunk_a__wide@long.config 0"), (V{2, 1, 0, 0, 0, 0}));
    EXPECT_EQ(picked("chunk_a.config 0"), (V{3, 0, 0, 3, 0, 0}));  // of every target that has it
    EXPECT_EQ(picked("chunk_a__narrow.config 0"), (V{0, 0, 0, 3, 0, 0}));
    EXPECT_EQ(picked("chunk_a__wide@long.config rows:4"), (V{0, 0, 2, 0, 0, 0}));
    EXPECT_EQ(picked("chunk_a__wide.config rows:8,cols:16 # in any order"), (V{0, 3, 0, 0, 0, 0}));
    EXPECT_EQ(picked("chunk_a.config cols:16,rows:8,tail_steps:3"), (V{0, 3, 0, 3, 0, 0}));
    EXPECT_EQ(picked("step_a.config 1\nstep_a.config 0"), (V{0, 0, 0, 0, 3, 0}));
}

TEST(Overrides, ConfigurationsThatAreNotThere) {
    for (const auto &[text, says] : std::vector<std::pair<std::string, std::string>>{
             {"chunk_a__wide.config 3", "line 1: \"3\" is no configuration of \"chunk_a__wide\", expected one of 0 (cols:32,rows:8), 1 "
                                        "(cols:16,rows:8), 2 (cols:16,rows:4)"},
             {"\nchunk_a.config rows:2", "line 2: \"rows:2\" is no configuration"}, {"chunk_a.config cols:16,", "fits more than one"},
             {"chunk_a.config cols", "is no configuration"}, {"chunk_a.config ,cols:16", "is no configuration"},
             {"chunk_a.config -1", "is no configuration"}, {"chunk_a.config 999999999", "is no configuration"},
             {"chunk_a__wide.config tail_steps:3", "fits more than one configuration of \"chunk_a__wide\""},
             {"chunk_b.config 0", "\"chunk_b\" names no kernel of this library"}, {"core_chunk.config 0", "names no kernel"},
             {"chunk_a__wider.config 0", "names no kernel"}, {"chunk_a@.config 0", "\"@\" is no length class"},
             {"chunk_a@medium.config 0", "\"@medium\" is no length class, expected @short or @long"},
             {"step_a@long.config 0", "only kernels of core_chunk have length classes"},
             {"step_a.config", "expected \"scope.parameter value\""}, {"step_a.config 1 2", "expected \"scope.parameter value\""}}) {
        EXPECT_EQ(picked(text), std::vector<int>{-1}) << text;
        EXPECT_THAT(gdn_last_error(), HasSubstr(says));
    }
}

// The same through the library, whatever configurations it was built with.
TEST(Overrides, ConfigurationsOfTheLibrary) {
    ContextPtr context = make_context();
    CallSize size;
    size.T = 100;
    SmallCall call(size);
    const std::string before = explained(context.get());
    std::string symbol = before.substr(before.find("gdnk_core_chunk"));
    symbol = symbol.substr(0, symbol.find('"'));
    int configurations = 0;
    for (std::int64_t i = 0; i < gdn_kernel_count(); i++) {
        gdn_kernel_info info;
        ASSERT_EQ(gdn_kernel_get(i, &info), GDN_STATUS_OK);
        const std::string scope = std::string(info.kernel) + "__" + info.target;
        if (symbol.compare(0, scope.size() + 5, "gdnk_" + scope) != 0) continue;
        EXPECT_EQ(info.configuration, configurations++);
        ASSERT_EQ(apply_text(context.get(), scope + "@short.config " + info.config), GDN_STATUS_OK) << gdn_last_error();
        const std::string now = explained(context.get());
        EXPECT_THAT(now, HasSubstr("\"kernel\": \"" + std::string(info.name) + "\""));
        EXPECT_THAT(now, HasSubstr("\"level\": \"override\""));
        EXPECT_EQ(apply_text(context.get(), scope + ".config 4000"), GDN_STATUS_CORRUPT);
        EXPECT_EQ(explained(context.get()), now);
    }
    EXPECT_GT(configurations, 0);
}

TEST(Overrides, TunedFolder) {
    char folder[] = "/tmp/gdn_tuned_XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    const std::string file = std::string(folder) + "/gdn.tuned";
    gdn_context_options options = options_with_threads(1);
    options.tuned_dir = folder;
    gdn_context *context = nullptr;
    EXPECT_EQ(gdn_context_create(&options, &context), GDN_STATUS_IO);
    EXPECT_THAT(gdn_last_error(), HasSubstr("gdn.tuned"));
    std::ofstream(file) << "core_chunk.time_block 128\n";
    ASSERT_EQ(gdn_context_create(&options, &context), GDN_STATUS_OK) << gdn_last_error();
    EXPECT_THAT(explained(context), HasSubstr("\"time_block\": 128"));
    gdn_context_destroy(context);
    std::ofstream(file) << "\x7f"
                           "ELF";
    EXPECT_EQ(gdn_context_create(&options, &context), GDN_STATUS_CORRUPT);
    std::ofstream(file) << std::string(gdn::kMaxOverrideBytes + 10, '\n');
    EXPECT_EQ(gdn_context_create(&options, &context), GDN_STATUS_CORRUPT);
    std::remove(file.c_str());
    rmdir(folder);
}

}  // namespace
