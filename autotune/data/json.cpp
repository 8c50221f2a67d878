#include "autotune/data/json.h"

#include <set>
#include <vector>

#include "autotune/status.h"

namespace gdn::tune {

using nlohmann::json;

json parse_json(const std::string &text, const std::string &name) {
    std::vector<std::set<std::string>> keys;
    const auto see = [&](int, json::parse_event_t event, json &value) {
        if (event == json::parse_event_t::object_start) keys.emplace_back();
        if (event == json::parse_event_t::object_end) keys.pop_back();
        if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
            throw Error(name + ": the key " + value.dump() + " stands twice in one object");
        }
        return true;
    };
    try {
        return json::parse(text, see);
    } catch (const json::exception &error) {
        throw Error(name + " is no JSON: " + error.what());
    }
}

std::string quoted(const std::string &text) { return json(text).dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace gdn::tune
