// What the worker throws: how the trial ended, and a sentence.
#pragma once
#include <stdexcept>
#include <string>

#include "autotune/status.h"

namespace gdn::tune {

class Failure : public std::runtime_error {
public:
    Failure(Status status, const std::string &text) : std::runtime_error(text), status(status) {}
    const Status status;
};

}  // namespace gdn::tune
