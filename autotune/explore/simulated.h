// Search strategies on recorded measurements: what they would have found, without a machine.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "autotune/explore/experiment.h"
#include "autotune/search/searcher.h"

namespace gdn::tune {

/// Outcomes of the recorded trials of a task.
class Record {
public:
    /// The default's cost is 1 by definition, measured or not.
    Record(const Config &default_config, const std::vector<Trial> &trials);
    /// Null: nobody has measured it.
    const Outcome *find(const Config &config) const;

private:
    std::map<Config, Outcome> outcomes_;
};

struct SimulatedRun {
    std::vector<double> best;  // after 1, 2, .. evaluations; infinite before the first success
    uint64_t unrecorded = 0;   // points asked for that nobody had measured: they count as evaluations and are told as skipped
};
/// A strategy that ends early keeps its best until `evaluations`.
SimulatedRun simulate(Searcher &searcher, const Space &space, const Record &record, uint64_t evaluations, size_t batch);

/// Every searcher and seed of the experiment on every recorded task that it names. Throws Error where it names none, or its space is not
/// within the recorded one.
ReportInput simulate(const Experiment &experiment, const ReportInput &recorded);

}  // namespace gdn::tune
