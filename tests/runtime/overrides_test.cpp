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
             {"stage.time_block 64", "names no core kernel"}, {std::string("core_chunk.time_block 6\0004", 25), "time_block"},
             {std::string(70000, '#'), "bytes"}}) {
        EXPECT_EQ(apply_text(context.get(), text), GDN_STATUS_CORRUPT) << text.substr(0, 60);
        EXPECT_THAT(gdn_last_error(), HasSubstr(says));
        EXPECT_EQ(explained(context.get()), before);
    }
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
