#include "report.h"

#include <cstdio>
#include <map>
#include <tuple>

#include <gtest/gtest.h>

namespace gdn_test {
namespace {

struct Row {
    Error o, state;
    int calls = 0;
};

std::map<std::tuple<std::string, std::string, std::string>, Row> &rows() {
    static std::map<std::tuple<std::string, std::string, std::string>, Row> table;
    return table;
}

class Printer : public ::testing::Environment {
public:
    void TearDown() override {
        if (rows().empty()) return;
        std::printf("%-14s %-10s %-5s %6s  %-10s %-10s %-10s %-10s\n", "target", "variant", "dtype", "calls", "o rms", "o max/rms",
            "state rms", "max/rms");
        for (const auto &[key, row] : rows())
            std::printf("%-14s %-10s %-5s %6d  %-10.2e %-10.2e %-10.2e %-10.2e\n", std::get<0>(key).c_str(), std::get<1>(key).c_str(),
                std::get<2>(key).c_str(), row.calls, row.o.rms, row.o.max, row.state.rms, row.state.max);
    }
};

const ::testing::Environment *const printer = ::testing::AddGlobalTestEnvironment(new Printer);

}  // namespace

void record_error(const std::string &variant, const std::string &dtype, const std::string &target, const Error &o, const Error &state) {
    Row &row = rows()[{target, variant, dtype}];
    row.o.worst(o);
    row.state.worst(state);
    row.calls++;
}

}  // namespace gdn_test
