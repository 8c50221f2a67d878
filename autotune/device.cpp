#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>
#include <sched.h>

#include "autotune/db/journal.h"
#include "autotune/machine.h"
#include "gdn/gdn.h"

namespace gdn::tune {
namespace {

using nlohmann::json;

std::string slug(const std::string &text) {
    std::string result;
    for (unsigned char c : text) {
        if (c < 128 && std::isalnum(c))
            result += static_cast<char>(std::tolower(c));
        else if (!result.empty() && result.back() != '_')
            result += '_';
    }
    while (!result.empty() && result.back() == '_') result.pop_back();
    return result;
}

/// visit(name, member) for every field of a device: JSON and comparison know them by this list alone.
template <class D, class Visit> void each_field(D &device, Visit visit) {
    visit("vendor", device.vendor);
    visit("name", device.name);
    visit("architecture", device.architecture);
    visit("features", device.features);
    visit("cores", device.cores);
    visit("threads", device.threads);
    visit("l1_bytes", device.l1_bytes);
    visit("l2_bytes", device.l2_bytes);
    visit("l3_bytes", device.l3_bytes);
}

void read(const json &value, const char *name, std::string &field) {
    if (!value.is_string()) throw Error(std::string("the device's ") + name + " must be text, and is " + value.dump());
    field = value;
}

template <class Integer> void read(const json &value, const char *name, Integer &field) {
    const int64_t most = std::numeric_limits<Integer>::max();
    if (!value.is_number_integer() || value < 0 || value > most) {
        throw Error(
            std::string("the device's ") + name + " must be a number from 0 to " + std::to_string(most) + ", and is " + value.dump());
    }
    field = value;
}

int64_t bytes_of(const std::string &size) {
    const int64_t number = std::atoll(size.c_str());
    if (size.empty()) return 0;
    return size.back() == 'K' ? number << 10 : size.back() == 'M' ? number << 20 : number;
}

}  // namespace

std::string first_line(const std::string &path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

std::string whole_file(const std::string &path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<int> parse_cpu_list(const std::string &text) {
    constexpr int kMost = 1 << 16;
    std::vector<int> cpus;
    std::istringstream ranges(text);
    for (std::string range; std::getline(ranges, range, ',');) {
        char *end = nullptr;
        const long first = std::strtol(range.c_str(), &end, 10);
        if (end == range.c_str() || first < 0 || first > kMost) return {};
        long last = first;
        if (*end == '-') {
            const char *begin = end + 1;
            last = std::strtol(begin, &end, 10);
            if (end == begin || last < first || last > kMost) return {};
        }
        if (*end && !std::isspace(static_cast<unsigned char>(*end))) return {};
        for (long cpu = first; cpu <= last; cpu++) cpus.push_back(static_cast<int>(cpu));
    }
    return cpus;
}

std::vector<int> allowed_cpus() {
    cpu_set_t set;
    std::vector<int> cpus;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            if (CPU_ISSET(static_cast<size_t>(cpu), &set)) cpus.push_back(cpu);
        }
    }
    return cpus;
}

std::string value_of(const std::string &text, const std::string &key) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const size_t colon = line.find(':');
        if (colon == std::string::npos) continue;
        const size_t end = line.find_last_not_of(" \t", colon ? colon - 1 : 0);
        if (line.substr(0, end + 1) != key) continue;
        const size_t begin = line.find_first_not_of(" \t", colon + 1);
        return begin == std::string::npos ? "" : line.substr(begin);
    }
    return "";
}

double available_bytes(const std::string &root) {
    return 1024 * std::atof(value_of(whole_file(root + "/proc/meminfo"), "MemAvailable").c_str());
}

std::string features_of(const std::string &cpuinfo) {
    const std::string arm = value_of(cpuinfo, "Features");
    std::istringstream flags(arm.empty() ? value_of(cpuinfo, "flags") : arm);
    std::set<std::string> kept;
    for (std::string flag; flags >> flag;) {
        bool keep = !arm.empty();
        for (const char *prefix : {"sse", "ssse", "avx", "amx", "fma", "bmi", "f16c", "abm", "gfni", "movbe", "popcnt"}) {
            keep |= flag.compare(0, std::string(prefix).size(), prefix) == 0;
        }
        if (keep) kept.insert(flag);
    }
    std::string text;
    for (const std::string &flag : kept) text += (text.empty() ? "" : " ") + flag;
    return text;
}

Topology topology(const std::string &root) {
    Topology t;
    t.features = features_of(whole_file(root + "/proc/cpuinfo"));
    const std::string cpus = root + "/sys/devices/system/cpu/";
    std::set<std::string> cores;
    for (int cpu : parse_cpu_list(first_line(cpus + "online"))) {
        const std::string folder = cpus + "cpu" + std::to_string(cpu) + "/topology/";
        cores.insert(first_line(folder + "physical_package_id") + "/" + first_line(folder + "core_id"));
        t.threads++;
    }
    t.cores = static_cast<int>(cores.size());
    int64_t *const levels[] = {nullptr, &t.l1_bytes, &t.l2_bytes, &t.l3_bytes};
    for (int index = 0; index < 8; index++) {
        const std::string folder = cpus + "cpu0/cache/index" + std::to_string(index) + "/";
        const int level = std::atoi(first_line(folder + "level").c_str());
        if (level < 1 || level > 3 || first_line(folder + "type") == "Instruction") continue;
        *levels[level] = bytes_of(first_line(folder + "size"));
    }
    return t;
}

Device this_device() {
    gdn_device_info info;
    if (gdn_device_get(&info) != GDN_STATUS_OK) throw Error(std::string("this machine's CPU is not known: ") + gdn_last_error());
    Device device;
    device.vendor = info.vendor;
    device.name = info.name;
    device.architecture = info.architecture;
    const Topology t = topology("");
    device.features = t.features;
    device.cores = t.cores;
    device.threads = t.threads;
    device.l1_bytes = t.l1_bytes;
    device.l2_bytes = t.l2_bytes;
    device.l3_bytes = t.l3_bytes;
    return device;
}

std::string Device::key() const {
    std::string key = slug(vendor) + "-" + slug(name);
    // A brand without a number, as hypervisors like to say, stands for several processors.
    if (name.find_first_of("0123456789") == std::string::npos && name != architecture) key += "-" + slug(architecture);
    return key;
}

std::string Device::json() const {
    nlohmann::ordered_json fields;
    each_field(*this, [&](const char *name, const auto &value) { fields[name] = value; });
    return fields.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Device Device::parse(const std::string &text) {
    nlohmann::json fields = nlohmann::json::parse(text, nullptr, false);
    if (!fields.is_object()) throw Error("a device must be a JSON object, and is " + (text.size() > 80 ? text.substr(0, 80) + ".." : text));
    Device device;
    each_field(device, [&](const char *name, auto &value) {
        const auto field = fields.find(name);
        if (field == fields.end()) throw Error(std::string("the device has no ") + name);
        read(*field, name, value);
        fields.erase(field);
    });
    if (!fields.empty()) throw Error("the device has a field that nobody knows: " + fields.begin().key());
    if (device.vendor.empty() || device.name.empty()) throw Error("the device has an empty vendor or name");
    return device;
}

std::string Device::difference(const Device &other) const {
    const nlohmann::json here = nlohmann::json::parse(json()), there = nlohmann::json::parse(other.json());
    std::string text;
    each_field(*this, [&](const char *name, const auto &) {
        const auto words = [&](const nlohmann::json &value) { return value.is_string() ? value.get<std::string>() : value.dump(); };
        if (here[name] != there[name])
            text += (text.empty() ? "" : "; ") + std::string(name) + ": " + words(here[name]) + " here, " + words(there[name]) + " there";
    });
    return text;
}

}  // namespace gdn::tune
