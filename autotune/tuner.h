// One tuning task from its first candidate to its winner. Everything it needs comes through the seams, so tests run it on recorded or
// synthetic measurements.
#pragma once
#include <atomic>
#include <functional>
#include <string>

#include "autotune/build/builder.h"
#include "autotune/db/journal.h"
#include "autotune/measure/measurer.h"
#include "autotune/search/searcher.h"

namespace gdn::tune {

/// Looked at between batches: a batch is never cut, so that a search that goes on later asks for the same candidates.
struct Budget {
    double seconds = 0;        // 0: no limit
    uint64_t evaluations = 0;  // 0: no limit
    uint64_t no_gain = 0;      // stop after so many candidates without a better one; 0: never
};

struct Progress {
    uint64_t evaluations = 0, of = 0;  // `of` 0: unknown
    double best = 1;                   // cost of the best so far
    Config best_config;
    double seconds_left = -1;  // of the session; -1: unknown
    std::string phase;         // "search", "final"
};

struct TuneResult {
    Trial winner;           // of the final phase; the default where nothing beat it
    bool improved = false;  // its interval lies below the default's
    uint64_t evaluations = 0;
    std::string why;  // "cols:16 is 3.1 % faster (interval 2.6 to 3.5 %)"
    bool interrupted = false;
    bool before = false;  // the journal had it finished, and nothing was measured
    bool failed = false;  // a TaskError, which `why` holds: there is no winner
};

/// How few candidates are measured that must be known well, as in the final phase: in three times the rounds of the search, and nobody is
/// left early, since the interval decides, however slow the candidate is.
MeasureOptions thorough(int rounds);

/// How many evaluations a search of the task comes to; 0: not known beforehand.
uint64_t goal(const Task &task, const Budget &budget);

/// The search phase. Goes on where the journal's trials of the task end: the searcher (a fresh one) is asked and told again, with the
/// recorded outcomes, and only what is not recorded is measured. The budget counts recorded evaluations too, seconds only of this call. The
/// result's winner is the best of the search, not yet compared in alternation. Calling it again with a larger budget searches on.
///
/// A shard (Task::shard of Task::shards) measures the candidates that a hash of their text deals to it; the searcher is told kSkipped of the
/// others. Exhaustive and random search lose nothing by that; the adaptive ones see only their shard's share of the neighbours.
TuneResult search(const Task &task, const Kernel &kernel, Searcher &searcher, Builder &builder, Measurer &measurer, Journal &journal,
    const Budget &budget, const std::function<void(const Progress &)> &progress, const std::atomic<bool> &stop);

/// The final phase: the default and the best five of the journal in alternation; Journal::finish(). Both throw TaskError where the default
/// fails.
TuneResult finish(const Task &task, const Kernel &kernel, Builder &builder, Measurer &measurer, Journal &journal,
    const std::function<void(const Progress &)> &progress, const std::atomic<bool> &stop);

}  // namespace gdn::tune
