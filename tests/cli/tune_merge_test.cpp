// gdn tune merge: what it merges is autotune's to test, here are its words and exit codes.
#include <filesystem>

#include <gtest/gtest.h>
#include <unistd.h>

#include "program.h"

namespace gdn_test {
namespace {

TEST(TuneMerge, NamesTheJournalThatIsMissing) {
    const std::string out = (std::filesystem::temp_directory_path() / ("gdn_merge_" + std::to_string(getpid()) + ".db")).string();
    const Outcome outcome = gdn("tune merge " + out + " " + out + ".absent");
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.err, "gdn: there is no journal " + out + ".absent: No such file or directory\n");
    EXPECT_FALSE(std::filesystem::exists(out));
    EXPECT_EQ(gdn("tune merge " + out).code, 2);
}

}  // namespace
}  // namespace gdn_test
