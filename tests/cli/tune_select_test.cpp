// gdn tune select. Which configuration is faster is the machine's to say: the file must say the same as the report.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "program.h"
#include "support/folder.h"

namespace gdn_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(TuneSelect, NothingToChoose) {
    const Outcome outcome = gdn("tune select --kernel no_such_kernel");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("there is nothing to choose"), std::string::npos) << outcome.out;
    const Outcome machine = gdn("tune select --kernel no_such_kernel --json");
    const json value = json::parse(machine.out, nullptr, false);
    ASSERT_TRUE(value.is_object()) << machine.out;
    EXPECT_TRUE(value["tasks"].empty());
    EXPECT_TRUE(value["written"].is_null());
}

TEST(TuneSelect, DryRunMeasuresAndWritesNothing) {
    const Outcome outcome = gdn("tune select --dry-run --json");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const json value = json::parse(outcome.out, nullptr, false);
    ASSERT_TRUE(value.is_object()) << outcome.out;
    EXPECT_TRUE(value["written"].is_null());
    for (const json &task : value["tasks"]) EXPECT_GT(task["configurations"].size(), 1u) << task;
}

/// A measurement replaces what an earlier run wrote of the same kernel; other kernels' lines and the user's own stay.
TEST(TuneSelect, WritesWhatItFoundForTheLibraryToRead) {
    const json plan = json::parse(gdn("tune select --dry-run --json").out);
    if (plan["tasks"].empty()) GTEST_SKIP() << "this library has one configuration of each kernel that runs here";
    const auto scope = [](const json &task) {
        const std::string length = task["class"];
        return task["kernel"].get<std::string>() + "__" + task["target"].get<std::string>() + (length == "any" ? "" : "@" + length);
    };
    const std::string kernel = plan["tasks"][0]["kernel"], block = "# >>> gdn tune select\n", end = "# <<< gdn tune select\n";
    const std::string own = "core_chunk.time_block 64\n";
    std::string former, others;
    for (const json &task : plan["tasks"]) {
        former += scope(task) + ".config 1\n";
        if (task["kernel"] != kernel) others += scope(task) + ".config 1\n";
    }
    const Folder folder;
    write_text(folder.file("gdn.tuned"), block + former + end + own);

    const Outcome outcome = gdn("tune select --kernel " + kernel + " --rounds 7 --json --output " + folder.path());
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json found = json::parse(outcome.out);
    EXPECT_EQ(found["written"], folder.file("gdn.tuned"));
    const std::string text = read_text(folder.file("gdn.tuned"));
    const size_t closed = text.find(end);
    ASSERT_NE(closed, std::string::npos) << text;
    EXPECT_EQ(text.substr(closed + end.size()), own);
    EXPECT_THAT(text, HasSubstr(others));
    ASSERT_FALSE(found["tasks"].empty());
    for (const json &task : found["tasks"]) {
        EXPECT_TRUE(task["wrong"].empty()) << task;
        const std::string line = scope(task) + ".config ";
        if (task["winner"].is_null()) {
            EXPECT_THAT(text, Not(HasSubstr(line)));
            continue;
        }
        EXPECT_LT(task["ratio"]["high"], 1) << task;
        EXPECT_THAT(text, HasSubstr(line + task["configurations"].at(task["winner"].get<size_t>()).get<std::string>()));
    }

    Invocation explain;
    explain.arguments = words("explain --tokens 4096 --json");
    explain.environment = {{"GDN_TUNED_DIR", folder.path()}};
    const Outcome taken = run(explain);
    ASSERT_EQ(taken.code, 0) << taken.err;
    EXPECT_EQ(json::parse(taken.out)["time_block"], 64) << taken.out;
}

/// The user's own lines are never lost: a file whose lines the library refuses is left as it is.
TEST(TuneSelect, KeepsAFileThatItCannotRead) {
    const json plan = json::parse(gdn("tune select --dry-run --json").out);
    if (plan["tasks"].empty()) GTEST_SKIP() << "this library has one configuration of each kernel that runs here";
    const Folder folder;
    write_text(folder.file("gdn.tuned"), "core_chunk.time_blok 64\n");
    const Outcome outcome = gdn("tune select --output " + folder.path());
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("time_blok"));
    EXPECT_EQ(read_text(folder.file("gdn.tuned")), "core_chunk.time_blok 64\n");

    const std::string open = "# >>> gdn tune select\ncore_chunk.time_block 64\n";
    write_text(folder.file("gdn.tuned"), open);
    const Outcome unclosed = gdn("tune select --output " + folder.path());
    EXPECT_EQ(unclosed.code, 1);
    EXPECT_THAT(unclosed.err, HasSubstr("# <<< gdn tune select"));
    EXPECT_EQ(read_text(folder.file("gdn.tuned")), open);

    ::remove(folder.file("gdn.tuned").c_str());
    ASSERT_EQ(::mkdir(folder.file("gdn.tuned").c_str(), 0700), 0);
    const Outcome unreadable = gdn("tune select --output " + folder.path());
    EXPECT_EQ(unreadable.code, 1);
    EXPECT_THAT(unreadable.err, HasSubstr("it is a folder"));
}

TEST(TuneSelect, Usage) {
    for (const char *arguments :
        {"tune select --output /nowhere/at/all", "tune select --rounds 2", "tune select --cpu -1", "tune select extra"}) {
        EXPECT_EQ(gdn(arguments).code, 2) << arguments;
    }
    EXPECT_EQ(gdn("tune select --target z80").code, 3);
    EXPECT_NE(gdn("tune select --help").out.find("Examples:"), std::string::npos);
}

}  // namespace
}  // namespace gdn_test
