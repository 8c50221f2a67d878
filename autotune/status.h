// How a trial of a candidate ended. A type, never an infinite time.
#pragma once
#include <stdexcept>
#include <string>

namespace gdn::tune {

enum class Status {
    kOk,
    kBuildFailed,  // the generator or the linker said no
    kBuildTimeout,
    kLaunchFailed,  // built, but could not be loaded or called
    kRunTimeout,
    kCrashed,      // a signal, an abort, an exit of its own
    kWrongResult,  // differs from the double reference, left outputs unwritten, or wrote where it must not
    kOverLimit,    // asked for more memory than a candidate may have
    kSkipped,      // not tried: an identical object has been measured, or the run ended before its turn
};

/// "ok", "build_failed", ..: the spelling of the journal and of every JSON.
const char *name_of(Status status);
/// Throws Error on an unknown spelling.
Status status_of(const std::string &name);

/// What the tuner throws: a whole sentence for people.
class Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// What ends one task, and no other of its session: its default cannot be built or measured.
class TaskError : public Error {
public:
    using Error::Error;
};

}  // namespace gdn::tune
