// Tuned data: schedules/tuned/<target>/<device key>.json (measured; device.schema.json has the form) and <target>/default.json (computed
// from all device files; schema.json).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "autotune/db/journal.h"

namespace gdn::tune {

/// What a device's file says of one kernel and length class.
struct Entry {
    Config config, default_config;       // complete; the default is what costs are relative to
    double cost = 1, low = 1, high = 1;  // time relative to the default configuration, with its 95 % interval
    double default_ns = 0, ns = 0;       // of the first shape
    int samples = 0;
    std::string date, generator_hash, halide_version, gdn_version;
    bool noisy = false;  // doctor found the machine unfit
    std::string doctor;  // what it found that was not good, "" if nothing
    std::vector<std::string> shapes;
    /// Configurations and their costs, best first, winner and default among them: what a cover over several devices is computed from.
    std::vector<std::pair<Config, double>> others;
};

struct DeviceFile {
    std::string target;
    Device device;
    std::map<std::string, std::map<LengthClass, Entry>> kernels;
};

/// `name` stands for the file in errors. Throws Error: not JSON, another schema, a field unknown, missing, twice or of a wrong type.
DeviceFile parse_device_file(const std::string &text, const std::string &name);
DeviceFile read_device_file(const std::string &path);
/// Sorted keys and a line per field, so that differences read well. What is read back is written as the same bytes.
std::string text_of(const DeviceFile &file);

/// Throws Error that names the place: target, kernel or class unknown, a configuration outside the kernel's space.
void require_known(const DeviceFile &file, const std::vector<Kernel> &kernels);

/// Best entries of finished tasks of a journal, one file per target.
std::vector<DeviceFile> from_journal(const Journal &journal);

/// All or nothing. An entry that is there is replaced only where the new one's interval lies below it, or where it is stale (made with
/// another generator than `generator_hash`) and the new one is not; against different defaults nothing compares, and the newer one stays. A
/// kept one learns the costs of configurations that it does not know. Throws Error on another device or target. Returns a line per change.
std::vector<std::string> merge(DeviceFile *into, const DeviceFile &from, const std::string &generator_hash);

/// default.json of a target: at most three configurations per kernel, a cover within 2 % of every device's best (or as near as so many
/// come: "worst" says how near), and which of them each device, architecture, vendor and nobody in particular uses. The form is that of
/// schedules/tuned/schema.json; CMake and the generator read it. Throws Error as require_known().
std::string cover_json(const std::string &target, const std::vector<DeviceFile> &devices, const std::vector<Kernel> &kernels);

}  // namespace gdn::tune
