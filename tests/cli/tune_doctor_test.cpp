// gdn doctor on whatever machine this is.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "program.h"

namespace gdn_test {
namespace {

TEST(Doctor, VerdictAndExitCodeAgree) {
    const Outcome outcome = gdn("doctor --json");
    const nlohmann::json json = nlohmann::json::parse(outcome.out, nullptr, false);
    ASSERT_TRUE(json.is_object()) << outcome.out << outcome.err;
    std::string unfit;
    for (const nlohmann::json &finding : json.at("findings")) {
        for (const char *field : {"what", "grade", "text", "advice"}) EXPECT_TRUE(finding.at(field).is_string());
        if (finding.at("grade") == "unfit") unfit += (unfit.empty() ? "" : ", ") + finding.at("what").get<std::string>();
    }
    EXPECT_GT(json.at("findings").size(), 8u);
    EXPECT_EQ(json.at("fit"), unfit.empty());
    EXPECT_EQ(outcome.code, unfit.empty() ? 0 : 1);
    EXPECT_EQ(outcome.err, unfit.empty() ? "" : "gdn: this machine is not fit for measuring: " + unfit + "\n");
}

TEST(Doctor, TableHasALineForEachFinding) {
    const Outcome outcome = gdn("doctor");
    EXPECT_TRUE(outcome.code == 0 || outcome.code == 1) << outcome.err;
    for (const char *what : {"clock", "other load", "throttling", "governor", "turbo", "virtual machine", "memory"}) {
        EXPECT_NE(outcome.out.find(what), std::string::npos) << what << outcome.out;
    }
    EXPECT_NE(gdn("doctor --help").out.find("Examples:"), std::string::npos);
    EXPECT_EQ(gdn("doctor now").code, 2);
}

}  // namespace
}  // namespace gdn_test
