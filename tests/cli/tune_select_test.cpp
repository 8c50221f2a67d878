// gdn tune select where there is nothing to choose, and where it may not write.
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "program.h"

namespace gdn_test {
namespace {

using nlohmann::json;

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

TEST(TuneSelect, Usage) {
    for (const char *arguments : {"tune select --output /nowhere/at/all", "tune select --rounds 2", "tune select --cpu -1", "tune select extra"}) {
        EXPECT_EQ(gdn(arguments).code, 2) << arguments;
    }
    EXPECT_EQ(gdn("tune select --target z80").code, 3);
    EXPECT_NE(gdn("tune select --help").out.find("Examples:"), std::string::npos);
}

}  // namespace
}  // namespace gdn_test
