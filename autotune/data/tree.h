// The folder schedules/tuned: <target>/<device key>.json and what is computed from them.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "autotune/data/files.h"
#include "autotune/data/tuned.h"

namespace gdn::tune {

/// The device files of a target, by key; none where the folder is not there. Throws Error where a file is not what its name says.
std::vector<DeviceFile> read_target(const std::string &folder, const std::string &target);

/// What would be written.
struct Update {
    std::vector<std::string> changes;  // a line each
    Files files;                       // only those that differ from what is there
};
/// Device files merged into the folder, and default.json of their targets.
Update merged(
    const std::string &folder, const std::vector<DeviceFile> &files, const std::vector<Kernel> &kernels, const std::string &generator_hash);
/// default.json of all targets that have a folder, or of one.
Update covered(const std::string &folder, const std::string &target, const std::vector<Kernel> &kernels);

/// An entry that was measured with another generator or against another default.
struct Stale {
    std::string target, device, kernel;
    LengthClass length_class = LengthClass::kAny;
    std::string why;
    bool lost = false;  // kernel, class or winner are no longer there: nothing to time again
    std::vector<std::string> shapes;
    std::vector<Config> configs;  // best first, what differs from the default of now: those that the space still has, the default aside
};
std::vector<Stale> stale(const DeviceFile &file, const std::vector<Kernel> &kernels, const std::string &generator_hash);
using Chosen = std::function<bool(const std::string &target, const std::string &device, const std::string &kernel)>;
/// Without those of the chosen entries that require_known() refuses. Where some go, default.json is computed from what fits.
Update dropped(const std::string &folder, const std::vector<Kernel> &kernels, const Chosen &chosen);

}  // namespace gdn::tune
