// schedules/tuned/<target>/default.json: the configurations that a kernel is built with, and which devices use which.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../schedules/space.h"

namespace gdn {

struct Configuration {
    Config config;         // complete
    std::string compiled;  // "cols:16": what of it differs from the space's defaults and needs a compiler
};

struct Use {
    std::string level, key, length_class;  // as in the file: "architecture", "znver4", "long"
    int configuration;
};

struct Selection {
    std::vector<Configuration> configurations;
    std::vector<Use> uses;  // none where there is one configuration
};

class Tuned {
public:
    /// `select`: "" the cover, "all", or a device key that some file of the folder has. An empty folder name: nothing is tuned. Throws with the
    /// file, the place and what was expected.
    Tuned(const std::string &folder, const std::vector<std::string> &targets, const std::string &select);
    /// The default configuration alone for a kernel that no file speaks of.
    Selection selection(const std::string &target, const std::string &kernel, const std::string &family, const Space &space) const;
    /// Throws if a file has a kernel of which selection() has not been asked.
    void require_all_used() const;

private:
    std::string path(const std::string &target) const { return folder_ + "/" + target + "/default.json"; }

    std::string folder_, select_;
    std::map<std::string, nlohmann::json> files_;  // by target
    mutable std::map<std::string, std::vector<std::string>> used_;
};

}  // namespace gdn
