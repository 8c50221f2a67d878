// Whether the machine is fit for measuring.
#pragma once
#include <string>
#include <vector>

namespace gdn::tune {

struct Finding {
    enum class Grade { kGood, kNote, kUnfit } grade;
    std::string what;    // "clock", "other load", "stolen time", "throttling", "governor", "turbo", "load", "virtual machine", "sibling",
                         // "quota", "huge pages", "memory"
    std::string text;    // what was found, with numbers
    std::string advice;  // what to do about it, "" if nothing
};

/// "good", "note", "unfit".
const char *name_of(Finding::Grade grade);

struct Checkup {
    std::vector<Finding> findings;
    /// Those that make the machine unfit.
    std::vector<Finding> unfit() const;
    bool fit() const { return unfit().empty(); }
    std::string json() const;
};

/// Takes about a second: reads /proc and /sys, and runs a loop of known length again and again to see how steady it is.
Checkup examine();

}  // namespace gdn::tune
