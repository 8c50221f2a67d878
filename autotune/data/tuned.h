// Tuned data: schedules/tuned/<target>/<device>.json (measured) and <target>/default.json (computed from all device files).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "autotune/db/journal.h"

namespace gdn::tune {

/// What a device's file says of one kernel and length class.
struct Entry {
    Config config;                     // complete
    double cost = 1, low = 1, high = 1;  // time relative to the default configuration, with its 95 % interval
    double default_ns = 0, ns = 0;     // of the first shape
    int samples = 0;
    std::string date, generator_hash, halide_version, gdn_version;
    bool noisy = false;                // doctor found the machine unfit
    std::vector<std::string> shapes;
    /// Other configurations and their cost, best first: what a cover over several devices is computed from. The winner and the default among
    /// them.
    std::vector<std::pair<Config, double>> others;
};

struct DeviceFile {
    std::string target;
    Device device;
    std::map<std::string, std::map<LengthClass, Entry>> kernels;
};

DeviceFile read_device_file(const std::string &path);  // throws Error: not JSON, another schema, unknown field, wrong type
void write_device_file(const std::string &path, const DeviceFile &file);  // sorted keys, one entry a line where that reads well; atomic

/// Best entries of finished tasks of a journal, one file per target.
std::vector<DeviceFile> from_journal(const Journal &journal);
/// All or nothing. An entry that is there is replaced only where the new one's interval lies below it, or it is stale. Throws Error on another
/// device. Returns a line per change.
std::vector<std::string> merge(DeviceFile *into, const DeviceFile &from, const std::string &generator_hash);

/// default.json of a target: at most `most` configurations per kernel, a cover within `within` of every device's best, and which of them each
/// device, architecture, vendor and nobody in particular uses. schedules/tuned/schema.json has the form; CMake and the generator read it.
std::string cover_json(const std::string &target, const std::vector<DeviceFile> &devices, const std::vector<Kernel> &kernels, int most = 3, double within = 1.02);

}  // namespace gdn::tune
