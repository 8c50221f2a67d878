// JSON from files that nobody vouches for: no repeated names, bounded depth, errors as gdn::layer::Error.
#pragma once
#include <string>

#include <nlohmann/json.hpp>

#include "gdn/layer.hpp"

namespace gdn::layer {

/// `what` begins the error ("configuration"), `status` is its code.
nlohmann::json parse_json(const char *begin, const char *end, int max_depth, gdn_status status, const std::string &what);

}  // namespace gdn::layer
