#include "strict_json.h"

#include <set>
#include <vector>

#include "fail.h"

namespace gdn::layer {

nlohmann::json parse_json(const char *begin, const char *end, int max_depth, gdn_status status, const std::string &what) {
    using nlohmann::json;
    std::vector<std::set<std::string>> names;  // of the objects that are open
    const auto watch = [&](int depth, json::parse_event_t event, json &parsed) {
        switch (event) {
        case json::parse_event_t::object_start: names.emplace_back(); [[fallthrough]];
        case json::parse_event_t::array_start:
            if (depth >= max_depth) fail(status, what + ": expected JSON at most " + std::to_string(max_depth) + " deep, found more");
            break;
        case json::parse_event_t::object_end: names.pop_back(); break;
        case json::parse_event_t::key:
            if (!names.back().insert(parsed.get<std::string>()).second)
                fail(status, what + ": expected every name once, found '" + parsed.get<std::string>() + "' twice");
            break;
        default: break;
        }
        return true;
    };
    try {
        return json::parse(begin, end, watch);
    } catch (const json::exception &error) {
        fail(status, what + ": expected JSON, found: " + error.what());
    }
}

}  // namespace gdn::layer
