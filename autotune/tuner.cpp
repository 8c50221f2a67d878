#include "autotune/tuner.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <set>

#include "autotune/build/fnv.h"
#include "autotune/clock.h"

namespace gdn::tune {

namespace {

constexpr size_t kFinalists = 5;

/// Candidates are dealt to shards by their text, so that a share does not depend on how the searcher came there.
bool mine(const Task &task, const Config &config) {
    if (task.shards <= 1) return true;
    Random random(static_cast<uint64_t>(fnv1a(text_of(config))));
    return random.below(static_cast<uint64_t>(task.shards)) == static_cast<uint64_t>(task.shard);
}

/// Equal keys run the same instructions with the same run-time parameters.
std::string object_key(const Kernel &kernel, const std::string &object_hash, const Config &config) {
    return object_hash + " " + text_of(part_of(config, kernel.space, false));
}

/// Parameters that differ from the default, then the text: of two configurations that are as fast, the smaller is taken.
std::pair<size_t, std::string> simplicity(const Config &config, const Config &default_config) {
    return {changed(config, default_config).size(), text_of(config)};
}

bool comparable(const Trial &trial) { return trial.status == Status::kOk && trial.cost.samples && !trial.abandoned; }

/// "takes 3.1 % less time than the default (2.6 to 3.5 %)"
std::string gain(const Estimate &cost) {
    char text[128];
    std::snprintf(text, sizeof text, "takes %.1f %% less time than the default (%.1f to %.1f %%)", 100 * (1 - cost.value),
        100 * (1 - cost.high), 100 * (1 - cost.low));
    return text;
}

/// The default, which every cost is taken against.
Trial reference(const Config &config) {
    Trial trial;
    trial.config = config;
    trial.status = Status::kOk;
    trial.cost.value = trial.cost.low = trial.cost.high = trial.cost.median = 1;
    return trial;
}

/// What is known of a task.
class Known {
public:
    explicit Known(const Kernel &kernel) : kernel_(kernel) {}

    void add(const Trial &trial) {
        const auto [it, fresh] = trials_.insert({text_of(trial.config), trial});
        if (fresh && !trial.object_hash.empty()) objects_.insert({object_key(kernel_, trial.object_hash, trial.config), it->first});
    }
    const Trial *of(const Config &config) const { return find(text_of(config)); }
    const Trial *twin(const std::string &key) const {
        const auto it = objects_.find(key);
        return it == objects_.end() ? nullptr : find(it->second);
    }

private:
    const Trial *find(const std::string &text) const {
        const auto it = trials_.find(text);
        return it == trials_.end() ? nullptr : &it->second;
    }

    const Kernel &kernel_;
    std::map<std::string, Trial> trials_;
    std::map<std::string, std::string> objects_;  // key -> configuration
};

/// Builds, then measures: no compiler runs beside a clock.
class Bench {
public:
    Bench(const Task &task, const Kernel &kernel, Builder &builder, Measurer &measurer, const MeasureOptions &options,
        const std::atomic<bool> &stop)
        : task_(task), kernel_(kernel), builder_(builder), measurer_(measurer), options_(options), stop_(stop) {}

    /// The default, built once. Null: interrupted.
    const Candidate *anchor() {
        if (anchor_.built.status == Status::kOk) return &anchor_;
        anchor_ = {build({task_.default_config}, {}).at(0), task_.default_config};
        if (anchor_.built.status == Status::kOk) return &anchor_;
        if (stop_) return nullptr;
        throw TaskError("the default configuration of " + task_.name() + " cannot be built, so nothing can be compared with it: " +
                        (anchor_.built.error.empty() ? name_of(anchor_.built.status) : anchor_.built.error));
    }

    std::vector<Built> build(const std::vector<Config> &configs, const std::function<void(size_t)> &done) {
        std::vector<Request> requests;
        for (const Config &config : configs) requests.push_back({&kernel_, config});
        std::vector<Built> built = builder_.build(requests, done, &stop_);
        if (built.size() != configs.size()) throw Error("the builder lost a candidate of " + task_.name());
        return built;
    }

    /// What was interrupted is kSkipped.
    std::vector<Trial> measure(const std::vector<Candidate> &candidates) {
        if (candidates.empty()) return {};
        std::vector<Trial> trials = measurer_.measure(kernel_, task_.shapes, *anchor(), candidates, options_, &stop_);
        if (trials.size() != candidates.size()) throw Error("the measurer lost a candidate of " + task_.name());
        for (size_t i = 0; i < trials.size(); i++) {
            trials[i].config = candidates[i].config;
            trials[i].object_hash = candidates[i].built.hash;
            trials[i].build_seconds = candidates[i].built.seconds;
        }
        return trials;
    }

private:
    const Task &task_;
    const Kernel &kernel_;
    Builder &builder_;
    Measurer &measurer_;
    const MeasureOptions options_;
    const std::atomic<bool> &stop_;
    Candidate anchor_;
};

Trial failed(const Built &built, const Config &config) {
    Trial trial;
    trial.config = config;
    trial.status = built.status;
    trial.error = built.error;
    trial.build_seconds = built.seconds;
    trial.object_hash = built.hash;
    return trial;
}

/// Builds and measures what is not known. Each result is in the journal as soon as it is final: before the clock starts failures of the
/// compiler and what runs the instructions of a known one (two of one batch are the measurer's to see), all others together after it.
void evaluate(const std::vector<Config> &configs, const Kernel &kernel, Bench &bench, Journal &journal, int64_t id, Known &known,
    const std::function<void(size_t)> &done) {
    if (configs.empty() || !bench.anchor()) return;
    const std::vector<Built> built = bench.build(configs, done);
    std::vector<Trial> settled;
    std::vector<Candidate> candidates;
    for (size_t i = 0; i < configs.size(); i++) {
        if (built[i].status == Status::kSkipped) continue;
        if (built[i].status != Status::kOk) {
            settled.push_back(failed(built[i], configs[i]));
        } else if (const Trial *twin = known.twin(object_key(kernel, built[i].hash, configs[i]))) {
            settled.push_back(*twin);
            settled.back().config = configs[i];
            settled.back().build_seconds = built[i].seconds;
        } else {
            candidates.push_back({built[i], configs[i]});
        }
    }
    journal.add(id, "search", settled);
    for (const Trial &trial : settled) known.add(trial);

    std::vector<Trial> measured = bench.measure(candidates);
    measured.erase(
        std::remove_if(measured.begin(), measured.end(), [](const Trial &t) { return t.status == Status::kSkipped; }), measured.end());
    for (const Trial &trial : measured) known.add(trial);
    journal.add(id, "search", measured);
}

/// Up to five that were fastest in the search, no two of which run the same instructions, none of which runs the default's.
std::vector<Config> finalists(std::vector<Trial> trials, const Task &task, const Kernel &kernel, const Candidate &anchor) {
    trials.erase(std::remove_if(trials.begin(), trials.end(), [](const Trial &t) { return !comparable(t); }), trials.end());
    std::sort(trials.begin(), trials.end(), [&](const Trial &a, const Trial &b) {
        if (a.cost.value != b.cost.value) return a.cost.value < b.cost.value;
        return simplicity(a.config, task.default_config) < simplicity(b.config, task.default_config);
    });
    std::set<std::string> seen{object_key(kernel, anchor.built.hash, anchor.config)};
    std::vector<Config> best;
    for (const Trial &trial : trials) {
        if (best.size() < kFinalists && trial.config != task.default_config &&
            seen.insert(object_key(kernel, trial.object_hash, trial.config)).second) {
            best.push_back(trial.config);
        }
    }
    return best;
}

const Trial *find(const std::vector<Trial> &trials, const Config &config) {
    const auto it = std::find_if(trials.begin(), trials.end(), [&](const Trial &t) { return t.config == config; });
    return it == trials.end() ? nullptr : &*it;
}

/// A candidate wins if its interval lies below the default's. Among those, whatever overlaps the fastest is as fast: the simplest is taken.
TuneResult decide(const std::vector<Trial> &finals, const Task &task) {
    const Trial *standard = find(finals, task.default_config);
    if (!standard || !comparable(*standard)) {
        throw TaskError("the default configuration of " + task.name() + " failed in the final phase, so nothing can be compared with it: " +
                        (!standard                    ? "it is missing"
                            : standard->error.empty() ? name_of(standard->status)
                                                      : standard->error));
    }
    const auto order = [&](const Trial *t) { return simplicity(t->config, task.default_config); };
    const Trial *fastest = nullptr, *rival = nullptr;
    for (const Trial &trial : finals) {
        if (&trial == standard || !comparable(trial)) continue;
        const auto faster = [&](const Trial *than) { return !than || trial.cost.value < than->cost.value; };
        if (faster(rival)) rival = &trial;
        if (trial.cost.below(standard->cost) && faster(fastest)) fastest = &trial;
    }
    TuneResult result;
    if (!fastest) {
        result.winner = *standard;
        result.why =
            !rival ? "no other candidate could be measured"
                   : "no candidate is faster beyond doubt: " + short_text(rival->config, task.default_config) + " " + gain(rival->cost);
        return result;
    }
    const Trial *winner = fastest;
    for (const Trial &trial : finals) {
        const bool as_fast = comparable(trial) && trial.cost.below(standard->cost) && !fastest->cost.below(trial.cost);
        if (as_fast && order(&trial) < order(winner)) winner = &trial;
    }
    result.winner = *winner;
    result.improved = true;
    result.why = short_text(winner->config, task.default_config) + " " + gain(winner->cost);
    if (winner != fastest) result.why += "; simpler than " + short_text(fastest->config, task.default_config) + ", which is as fast";
    return result;
}

}  // namespace

MeasureOptions thorough(int rounds) {
    MeasureOptions options;
    options.rounds = 3 * rounds;
    options.abandon = std::numeric_limits<double>::max();
    return options;
}

uint64_t goal(const Task &task, const Budget &budget) {
    const uint64_t share = task.space.valid_count() / static_cast<uint64_t>(std::max(task.shards, 1));
    if (budget.evaluations) return std::min(budget.evaluations, share);
    return budget.seconds > 0 || budget.no_gain ? 0 : share;
}

TuneResult search(const Task &task, const Kernel &kernel, Searcher &searcher, Builder &builder, Measurer &measurer, Journal &journal,
    const Budget &budget, const std::function<void(const Progress &)> &progress, const std::atomic<bool> &stop) {
    const double start = now();
    const int64_t id = journal.task(task);
    Known known(kernel);
    for (const Trial &trial : journal.trials(id, "search")) known.add(trial);
    MeasureOptions options;
    options.rounds = task.rounds;
    Bench bench(task, kernel, builder, measurer, options, stop);

    TuneResult result;
    result.winner = reference(task.default_config);
    uint64_t since_gain = 0;
    const auto report = [&](size_t) {
        if (!progress) return;
        Progress p;
        p.phase = "search";
        p.evaluations = result.evaluations;
        p.of = goal(task, budget);
        p.best = result.winner.cost.value;
        p.best_config = result.winner.config;
        progress(p);
    };
    const auto spent = [&] {
        return (budget.seconds > 0 && now() - start >= budget.seconds) ||
               (budget.evaluations && result.evaluations >= budget.evaluations) || (budget.no_gain && since_gain >= budget.no_gain);
    };

    while (!spent() && !stop) {
        const std::vector<Point> points = searcher.ask(std::max<size_t>(task.batch, 1) * static_cast<size_t>(std::max(task.shards, 1)));
        if (points.empty()) break;
        std::vector<Config> unknown;
        for (const Point &point : points) {
            Config config = task.space.config(point);
            if (mine(task, config) && !known.of(config)) unknown.push_back(std::move(config));
        }
        evaluate(unknown, kernel, bench, journal, id, known, report);
        if (stop) break;
        for (const Point &point : points) {
            Outcome outcome;
            const Config config = task.space.config(point);
            if (const Trial *trial = mine(task, config) ? known.of(config) : nullptr) {
                outcome = {trial->status, trial->status == Status::kOk ? trial->cost.value : 0};
                result.evaluations++;
                since_gain++;
                if (comparable(*trial) && trial->cost.value < result.winner.cost.value) {
                    result.winner = *trial;
                    since_gain = 0;
                }
            }
            searcher.tell(point, outcome);
        }
        report(0);
    }
    result.interrupted = stop;
    result.improved = result.winner.cost.high < 1;
    result.why = result.winner.config == task.default_config
                     ? "nothing was faster than the default"
                     : short_text(result.winner.config, task.default_config) + " " + gain(result.winner.cost);
    return result;
}

TuneResult finish(const Task &task, const Kernel &kernel, Builder &builder, Measurer &measurer, Journal &journal,
    const std::function<void(const Progress &)> &progress, const std::atomic<bool> &stop) {
    const int64_t id = journal.task(task);
    const std::vector<Trial> searched = journal.trials(id, "search");
    std::vector<Trial> finals = journal.trials(id, "final");
    const auto report = [&](const TuneResult &result) {
        if (!progress) return;
        Progress p;
        p.phase = "final";
        p.evaluations = p.of = searched.size();
        p.best = result.winner.cost.value;
        p.best_config = result.winner.config;
        progress(p);
    };
    TuneResult interrupted;
    interrupted.interrupted = true;
    interrupted.evaluations = searched.size();
    interrupted.winner = reference(task.default_config);
    for (const Trial &trial : searched) {
        if (comparable(trial) && trial.cost.value < interrupted.winner.cost.value) interrupted.winner = trial;
    }

    const bool recorded = !finals.empty();
    if (!recorded) {
        report(interrupted);
        Bench bench(task, kernel, builder, measurer, thorough(task.rounds), stop);
        const Candidate *anchor = bench.anchor();
        if (!anchor) return interrupted;
        const std::vector<Config> configs = finalists(searched, task, kernel, *anchor);
        const std::vector<Built> built = bench.build(configs, {});
        std::vector<Candidate> candidates{*anchor};
        for (size_t i = 0; i < configs.size(); i++) {
            if (built[i].status == Status::kOk) {
                candidates.push_back({built[i], configs[i]});
            } else {
                finals.push_back(failed(built[i], configs[i]));
            }
        }
        if (stop) return interrupted;
        for (Trial &trial : bench.measure(candidates)) finals.push_back(std::move(trial));
        if (stop) return interrupted;
    }
    TuneResult result = decide(finals, task);
    if (!recorded) journal.add(id, "final", finals);  // of a default that failed nothing is kept: another time it may run
    result.evaluations = searched.size();
    result.before = journal.finished(id).done;
    if (!result.before) journal.finish(id, result.winner.config, result.why);
    report(result);
    return result;
}

}  // namespace gdn::tune
