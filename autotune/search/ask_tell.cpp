#include "autotune/search/ask_tell.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

namespace gdn::tune {

using nlohmann::ordered_json;

namespace {

class Session {
public:
    Session(const Space &space, const Evaluate &evaluate) : space_(space), evaluate_(evaluate) {}

    bool stopped() const { return stopped_; }

    ordered_json answer(const std::string &line) {
        const ordered_json request = ordered_json::parse(line, nullptr, false);
        if (!request.is_object() || request.size() != 1) {
            throw Error("a line is one JSON object with one of the keys \"space\", \"evaluate\", \"best\", \"stop\"; this one is not: " +
                        line.substr(0, 80));
        }
        const std::string key = request.begin().key();
        const ordered_json &value = request.begin().value();
        if (key == "evaluate") return results(value);
        if (key != "space" && key != "best" && key != "stop") {
            throw Error("\"" + key + "\" is no request; there are \"space\", \"evaluate\", \"best\" and \"stop\"");
        }
        if (value != true) throw Error("the value of \"" + key + "\" is true, not " + shown(value));
        if (key == "space") {
            return {{"space", ordered_json::parse(space_.json())}, {"default", space_.config(space_.default_point())},
                {"size", space_.size()}, {"valid", space_.valid_count()}};
        }
        if (key == "best") return {{"best", best_ ? result(*best_) : ordered_json()}, {"evaluations", known_.size()}};
        stopped_ = true;
        return {{"stopped", true}};
    }

private:
    static std::string shown(const ordered_json &value) {
        return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace).substr(0, 80);
    }

    Point point_of(const ordered_json &object) const {
        if (!object.is_object()) throw Error("a configuration is an object of parameters and values, not " + shown(object));
        Config config;
        for (const auto &[name, value] : object.items()) {
            const bool fits = value.is_number_unsigned()
                                  ? value.get<uint64_t>() <= std::numeric_limits<int>::max()
                                  : value.is_number_integer() && value.get<int64_t>() >= std::numeric_limits<int>::min();
            if (!fits) throw Error("the value of " + name + " is a whole number, not " + shown(value));
            config[name] = value.get<int>();
        }
        return space_.point(config);
    }

    ordered_json results(const ordered_json &configs) {
        if (!configs.is_array()) throw Error("the value of \"evaluate\" is a list of configurations, not " + shown(configs));
        std::vector<Point> points, unknown;
        for (const ordered_json &config : configs) {
            points.push_back(point_of(config));
            const bool again = std::find(unknown.begin(), unknown.end(), points.back()) != unknown.end();
            if (!again && !known_.count(points.back())) unknown.push_back(points.back());
        }
        std::map<Point, Evaluation> skipped;  // another time it may be its turn
        if (!unknown.empty()) {
            const std::vector<Evaluation> evaluations = evaluate_(unknown);
            for (size_t i = 0; i < unknown.size(); i++) {
                const Outcome &outcome = evaluations.at(i).outcome;
                if (outcome.status == Status::kSkipped) {
                    skipped[unknown[i]] = evaluations[i];
                    continue;
                }
                known_[unknown[i]] = evaluations[i];
                if (outcome.status == Status::kOk && (!best_ || outcome.cost < known_[*best_].outcome.cost)) best_ = unknown[i];
            }
        }
        ordered_json list = ordered_json::array();
        for (const Point &point : points) list.push_back(skipped.count(point) ? result(point, skipped[point]) : result(point));
        return {{"results", list}};
    }

    ordered_json result(const Point &point) const { return result(point, known_.at(point)); }
    ordered_json result(const Point &point, const Evaluation &evaluation) const {
        ordered_json json{{"config", space_.config(point)}, {"status", name_of(evaluation.outcome.status)}};
        if (evaluation.outcome.status != Status::kOk) {
            json["error"] = evaluation.error;
        } else {
            json["cost"] = evaluation.outcome.cost;
            json["low"] = evaluation.low;
            json["high"] = evaluation.high;
        }
        return json;
    }

    const Space &space_;
    const Evaluate &evaluate_;
    std::map<Point, Evaluation> known_;
    std::optional<Point> best_;
    bool stopped_ = false;
};

}  // namespace

void ask_tell(std::istream &in, std::ostream &out, const Space &space, const Evaluate &evaluate, const std::atomic<bool> *stop) {
    Session session(space, evaluate);
    std::string line;
    while (!session.stopped() && !(stop && *stop) && std::getline(in, line)) {
        if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
        ordered_json answer;
        try {
            answer = session.answer(line);
        } catch (const Error &e) {
            answer = {{"error", e.what()}};
        }
        out << answer.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << std::endl;  // flushed: the other side waits for it
        if (!out) return;
    }
}

}  // namespace gdn::tune
