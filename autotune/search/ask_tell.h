// An optimiser outside drives the search, in JSON lines: it sends one object a line and gets one object a line.
//
//   {"space": true}        {"space": {"parameters": [{"name", "kind", "values", "default"}, ..],
//                                     "constraints": [{"text", "parameters", "allowed": [[values of a combination that holds], ..]}, ..]},
//                           "default": {"cols": 32, ..}, "size": points, "valid": points that hold every constraint}
//   {"evaluate": [{"cols": 16, "rows": 8}, ..]}
//                          {"results": [{"config": {"cols": 16, ..}, "status": "ok", "cost": 0.97, "low": 0.96, "high": 0.98}, ..]}
//   {"best": true}         {"best": a result as above, or null, "evaluations": points evaluated}
//   {"stop": true}         {"stopped": true}; the end of the input does the same without an answer
//
// A configuration of "evaluate" may leave parameters out: they take their defaults; the answer's is complete. Cost is time relative to the default's,
// smaller is better, with its 95 % interval; a status other than "ok" (status.h) has no cost but "error", a sentence. A configuration that was
// evaluated before is answered from memory. What cannot be understood or is not valid is answered by {"error": sentence}: nothing of such a line
// has been evaluated, and the session goes on.
#pragma once
#include <atomic>
#include <functional>
#include <istream>
#include <ostream>
#include <string>
#include <vector>

#include "autotune/search/searcher.h"

namespace gdn::tune {

struct Evaluation {
    Outcome outcome;
    double low = 0, high = 0;  // interval of the cost
    std::string error;         // of anything but kOk
};

/// Different valid points that were not evaluated before -> their evaluations, in order. May throw Error: the line is answered by it.
using Evaluate = std::function<std::vector<Evaluation>(const std::vector<Point> &)>;

/// Returns at {"stop": true}, at the end of `in`, when `out` fails, and after the line under way once `stop` is set.
void ask_tell(std::istream &in, std::ostream &out, const Space &space, const Evaluate &evaluate, const std::atomic<bool> *stop = nullptr);

}  // namespace gdn::tune
