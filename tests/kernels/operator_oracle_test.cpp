// The operator against numbers that other implementations gave (tests/data/oracles).
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "../support/grid.h"
#include "../support/oracles.h"

namespace gdn_test {
namespace {

struct OracleRun {
    std::string target;
    const Oracle *oracle;

    friend void PrintTo(const OracleRun &run, std::ostream *out) { *out << run.target << " " << run.oracle->name; }
};

std::vector<OracleRun> runs() {
    std::vector<OracleRun> list;
    for (const Oracle &oracle : oracles())
        for (const std::string &target : targets()) list.push_back({target, &oracle});
    return list;
}

class OperatorOracle : public ::testing::TestWithParam<OracleRun> {};

TEST_P(OperatorOracle, Agrees) {
    const Oracle &oracle = *GetParam().oracle;
    Problem problem(oracle.what, oracle.operands);
    ASSERT_EQ(problem.run(Context(GetParam().target)), GDN_STATUS_OK) << gdn_last_error();
    gdn_reference::Result expected;
    expected.o = oracle.o;
    const std::size_t size = oracle.S.size() / static_cast<std::size_t>(oracle.what.sequences());
    for (std::size_t i = 0; i < oracle.S.size(); i += size)
        expected.final_state.emplace_back(
            oracle.S.begin() + static_cast<std::ptrdiff_t>(i), oracle.S.begin() + static_cast<std::ptrdiff_t>(i + size));
    EXPECT_TRUE(problem.check(expected, GetParam().target));
}

INSTANTIATE_TEST_SUITE_P(
    Files, OperatorOracle, ::testing::ValuesIn(runs()), [](const auto &info) { return info.param.target + "_" + info.param.oracle->name; });

}  // namespace
}  // namespace gdn_test
