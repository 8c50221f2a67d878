// A search strategy: it is asked for points and told how they went. It measures nothing, so it is tested on synthetic surfaces and on
// recorded journals, and an optimiser outside can take its place.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "autotune/space/space.h"
#include "autotune/status.h"

namespace gdn::tune {

struct Outcome {
    Status status = Status::kSkipped;
    double cost = 0;  // geometric mean over the shapes of time / default's time; of kOk only. Smaller is better
};

class Searcher {
public:
    virtual ~Searcher() = default;
    virtual std::string name() const = 0;
    /// At most n valid points that were not asked for before; none: the space or the strategy is exhausted. The same seed and the same
    /// outcomes give the same points, whatever the time and the machine; how asks are cut into batches is part of that input.
    virtual std::vector<Point> ask(size_t n) = 0;
    /// Once per point asked for, in the order in which they were asked for. Whatever is not kOk is worse than any cost.
    virtual void tell(const Point &point, const Outcome &outcome) = 0;
};

/// "exhaustive", "random", "local", "genetic", "auto". `start`: points to try first (the default, what other devices found). Throws Error.
std::unique_ptr<Searcher> make_searcher(const std::string &name, const Space &space, uint64_t seed, const std::vector<Point> &start = {});
const std::vector<std::string> &searcher_names();

}  // namespace gdn::tune
