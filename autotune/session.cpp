#include "autotune/session.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "autotune/clock.h"
#include "autotune/search/given.h"

namespace gdn::tune {

namespace {

// What a final phase may take.
constexpr double kFinalSeconds = 4;

/// What a session knows of a task before it begins, and how far its search has come since.
struct Search {
    std::vector<Point> start;
    Budget budget;
    uint64_t goal = 0;      // of evaluations; 0: not known
    uint64_t recorded = 0;  // before
    uint64_t tried = 0;     // recorded ones, which take no time, among them
};

}  // namespace

std::vector<Point> points_of(const Space &space, const std::vector<Config> &configs, std::string *why) {
    std::vector<Point> points;
    for (const Config &config : configs) {
        try {
            points.push_back(space.point(config));
        } catch (const Error &error) {
            if (why) *why = error.what();
        }
    }
    return points;
}

double weight_of(const Kernel &kernel) {
    static const std::map<std::string, double> kShares = {{"core_chunk", 1}, {"core_step", 1}, {"core_pending", 1}, {"core_block", 0.3},
        {"stage", 0.1}, {"short_conv", 0.05}, {"short_conv_step", 0.05}, {"gated_norm", 0.03}};
    const auto it = kShares.find(kernel.family);
    return it == kShares.end() ? 0.01 : it->second;
}

int next_task(const std::vector<TaskProgress> &tasks) {
    int best = -1;
    double best_gain = -1;
    for (size_t i = 0; i < tasks.size(); i++) {
        const TaskProgress &t = tasks[i];
        if (t.exhausted) continue;
        double gain = 1e9;  // not begun: before all others
        if (t.last_slice) {
            gain = std::max(std::log(t.before / t.best) / static_cast<double>(t.last_slice), 0.02 / static_cast<double>(t.evaluations));
        }
        gain *= t.weight;
        if (gain > best_gain) {
            best = static_cast<int>(i);
            best_gain = gain;
        }
    }
    return best;
}

std::vector<TuneResult> run_session(const std::vector<SessionTask> &tasks, Builder &builder, Measurer &measurer, Journal &journal,
    const SessionOptions &options, const std::atomic<bool> &stop) {
    std::vector<TuneResult> results(tasks.size());
    std::vector<TaskProgress> state(tasks.size());
    // Puts what `step` returns among the results. False: it ended the task.
    const auto attempt = [&](size_t i, const auto &step) {
        try {
            results[i] = step();
            return true;
        } catch (const TaskError &error) {
            results[i] = {};
            results[i].evaluations = state[i].evaluations;
            results[i].failed = true;
            results[i].why = error.what();
            state[i].exhausted = state[i].finished = true;
            return false;
        }
    };
    std::vector<Search> searches(tasks.size());
    for (size_t i = 0; i < tasks.size(); i++) {
        const Task &task = tasks[i].task;
        const int64_t id = journal.task(task);
        const bool done = journal.finished(id).done;
        std::set<Config> recorded;
        for (const Trial &trial : journal.trials(id, "search")) recorded.insert(trial.config);
        Search &s = searches[i];
        s.start = points_of(task.space, options.start);
        s.budget = options.budget;
        if (task.searcher == "given" && (!s.budget.evaluations || s.budget.evaluations > s.start.size())) {
            s.budget.evaluations = s.start.size();
        }
        s.goal = goal(task, s.budget);
        s.recorded = recorded.size();
        const bool more = (s.budget.evaluations && s.goal > s.recorded) || std::any_of(s.start.begin(), s.start.end(), [&](const Point &p) {
            return !recorded.count(task.space.config(p));
        });
        state[i].weight = tasks[i].weight;
        state[i].exhausted = options.finish || (done && !more);
        state[i].finished = state[i].exhausted && (done || recorded.empty());
        // What it has stands even if its turn does not come.
        if (done) attempt(i, [&] { return finish(task, tasks[i].kernel, builder, measurer, journal, {}, stop); });
    }
    const double start = now();  // reading the journal back takes none of the budget
    // For the search: what has begun needs a final phase, and so will the next to begin.
    const auto left = [&]() -> double {
        if (options.budget.seconds <= 0) return INFINITY;
        const auto begun = std::count_if(state.begin(), state.end(), [](const TaskProgress &s) { return s.last_slice > 0 && !s.finished; });
        const double finals = begun ? kFinalSeconds * static_cast<double>(begun + 1) : std::min(kFinalSeconds, options.budget.seconds / 2);
        return options.budget.seconds - (now() - start) - finals;
    };
    // The budget's, or less where it is known what is to come: as long for each evaluation as those that this call has measured took.
    const auto seconds_left = [&]() -> double {
        const double elapsed = now() - start;
        double seconds = options.budget.seconds > 0 ? std::max(0.0, options.budget.seconds - elapsed) : INFINITY;
        double finals = 0;
        uint64_t measured = 0, ahead = 0;
        bool known = !options.budget.no_gain;
        for (size_t i = 0; i < tasks.size(); i++) {
            const Search &s = searches[i];
            measured += s.tried - std::min(s.tried, s.recorded);
            if (!state[i].finished) finals += kFinalSeconds;
            if (state[i].exhausted) continue;
            known &= s.goal > 0;
            ahead += s.goal - std::min(s.goal, std::max(s.tried, s.recorded));
        }
        if (known && measured) seconds = std::min(seconds, elapsed / static_cast<double>(measured) * static_cast<double>(ahead) + finals);
        return std::isfinite(seconds) ? seconds : -1;
    };
    const bool whole = tasks.size() == 1;  // no need to cut its search
    const auto reporter = [&](size_t i) {
        return [&, i](Progress progress) {
            if (progress.phase == "search") {
                searches[i].tried = std::max(searches[i].tried, progress.evaluations);
                progress.of = searches[i].goal;  // which is not the slice's
            }
            progress.seconds_left = seconds_left();
            if (options.progress) options.progress(i, progress);
        };
    };

    // What a final phase did not take goes to tasks whose turn had not come.
    bool searched = true;
    while (searched && !stop) {
        searched = false;
        for (int next; !stop && (next = next_task(state)) >= 0 && left() > 0; searched = true) {
            const size_t i = static_cast<size_t>(next);
            const SessionTask &t = tasks[i];
            TaskProgress &s = state[i];
            Budget budget = searches[i].budget;
            budget.seconds = std::isfinite(left()) ? std::max(left(), 0.001) : 0;
            if (!whole) {
                const uint64_t slice = s.evaluations + 2 * std::max<size_t>(t.task.batch, 1);
                budget.evaluations = budget.evaluations ? std::min(budget.evaluations, slice) : slice;
            }
            const std::vector<Point> &points = searches[i].start;
            const auto searcher =
                t.task.searcher == "given" ? make_given(points) : make_searcher(t.task.searcher, t.task.space, t.task.seed, points);
            if (!attempt(i, [&] { return search(t.task, t.kernel, *searcher, builder, measurer, journal, budget, reporter(i), stop); }))
                continue;
            const TuneResult &result = results[i];
            s.before = s.best;
            if (result.winner.status == Status::kOk && result.winner.cost.samples) s.best = std::min(s.best, result.winner.cost.value);
            s.last_slice = result.evaluations - s.evaluations;
            s.evaluations = result.evaluations;
            // The search ended by itself before its slice was over, or had no more to ask.
            const uint64_t most = searches[i].budget.evaluations;
            s.exhausted = whole || s.evaluations < budget.evaluations || (most && s.evaluations >= most);
        }
        for (size_t i = 0; i < tasks.size() && !stop; i++) {
            TaskProgress &s = state[i];
            if (s.finished || (!s.exhausted && s.evaluations == 0)) continue;  // or its turn did not come: stays open
            if (!attempt(i, [&] { return finish(tasks[i].task, tasks[i].kernel, builder, measurer, journal, reporter(i), stop); }))
                continue;
            results[i].evaluations = std::max(results[i].evaluations, s.evaluations);
            s.exhausted = s.finished = true;
        }
    }
    if (stop) {
        for (TuneResult &result : results) result.interrupted = true;
    }
    return results;
}

}  // namespace gdn::tune
