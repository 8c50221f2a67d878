// Facts of a machine from /proc and /sys. `root` is "" in earnest and a folder of recorded files in tests.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace gdn::tune {

/// First line of a file, "" if it cannot be read.
std::string first_line(const std::string &path);
std::string whole_file(const std::string &path);
/// "0-3,8" -> 0, 1, 2, 3, 8; empty where the text is no such list.
std::vector<int> parse_cpu_list(const std::string &text);
/// CPUs that this process may use; empty where the kernel does not say.
std::vector<int> allowed_cpus();
/// Value of the first "key : value" line, "" if there is none.
std::string value_of(const std::string &text, const std::string &key);
/// Memory that processes can get; 0 where the kernel does not say.
double available_bytes(const std::string &root);
/// Instruction sets among the flags of a /proc/cpuinfo, sorted; what else the kernel lists there differs between kernels, not CPUs.
std::string features_of(const std::string &cpuinfo);

struct Topology {
    std::string features;
    int cores = 0, threads = 0;                        // online
    int64_t l1_bytes = 0, l2_bytes = 0, l3_bytes = 0;  // data or unified, that CPU 0 sees; 0: none, or nobody says
};
Topology topology(const std::string &root);

}  // namespace gdn::tune
