// JSON in and out, strictly.
#pragma once
#include <string>

#include <nlohmann/json.hpp>

namespace gdn::tune {

/// As json::parse, but a key that stands twice in an object is an error too: the second would replace the first unseen. `name` stands for
/// the file in errors. Throws Error.
nlohmann::json parse_json(const std::string &text, const std::string &name);
/// The text as a JSON string. What is no valid UTF-8 becomes U+FFFD.
std::string quoted(const std::string &text);

}  // namespace gdn::tune
