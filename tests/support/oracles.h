// The cases of tests/data/oracles as operands of the operator. See the README there.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "case.h"

namespace gdn_test {

struct Oracle {
    std::string name;  // "kda_gva"
    Case what;         // sizes and options
    gdn_reference::Operands operands;
    std::vector<double> o, S;

    friend void PrintTo(const Oracle &oracle, std::ostream *out) { *out << oracle.name; }
};

// gdn, kda and gdn2 from the files; fg2 and fg2_plus derived from kda and gdn2.
const std::vector<Oracle> &oracles();

}  // namespace gdn_test
