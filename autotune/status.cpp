#include "autotune/status.h"

#include <iterator>

namespace gdn::tune {

namespace {
constexpr const char *kNames[] = {
    "ok", "build_failed", "build_timeout", "launch_failed", "run_timeout", "crashed", "wrong_result", "over_limit", "skipped"};
}

const char *name_of(Status status) { return kNames[static_cast<int>(status)]; }

Status status_of(const std::string &name) {
    for (size_t i = 0; i < std::size(kNames); i++) {
        if (name == kNames[i]) return static_cast<Status>(i);
    }
    throw Error("\"" + name + "\" is no status of a trial");
}

}  // namespace gdn::tune
