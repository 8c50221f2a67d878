// Whether the machine is fit for measuring.
#pragma once
#include <string>
#include <vector>

namespace gdn::tune {

struct Finding {
    enum class Grade { kGood, kNote, kUnfit } grade;
    std::string what;    // "clock", "load", "governor", "turbo", "throttling", "virtual machine", "other load", "memory"
    std::string text;    // what was found, with numbers
    std::string advice;  // what to do about it, "" if nothing
};

struct Checkup {
    std::vector<Finding> findings;
    bool fit() const;
    std::string json() const;
};

/// Takes about a second: reads /proc and /sys, and runs a loop of known length again and again to see how steady it is.
Checkup examine();

}  // namespace gdn::tune
