#include "autotune/measure/measurer.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <numeric>
#include <set>

#include <nlohmann/json.hpp>

#include "autotune/build/process.h"
#include "autotune/data/files.h"
#include "autotune/machine.h"
#include "autotune/measure/demand.h"
#include "autotune/measure/protocol.h"
#include "autotune/measure/shapes.h"

namespace gdn::tune {

namespace {

using nlohmann::json;

constexpr double kPrepareSeconds = 600;  // references of large shapes take their time, and no candidate is loaded that could hang
constexpr const char *kStopped = "the run was stopped";

/// The last CPUs that this process may use: the first ones serve most interrupts.
std::vector<int> last_cpus(size_t count) {
    const std::vector<int> all = allowed_cpus();
    return {all.end() - static_cast<std::ptrdiff_t>(std::min(count, all.size())), all.end()};
}

json job_of(const Kernel &kernel, const std::vector<Shape> &shapes, const std::string &folder) {
    json runtime = json::array(), texts = json::array();
    for (const Parameter &p : kernel.space.parameters()) {
        if (p.kind == Kind::kRuntime) runtime.push_back(p.name);
    }
    for (const Shape &shape : shapes) texts.push_back(text_of(shape));
    return {{"kernel", kernel.name}, {"family", kernel.family}, {"target", kernel.target}, {"params", kernel.params}, {"runtime", runtime},
        {"shapes", texts}, {"folder", folder}};
}

/// One candidate and its child. After a failure the trial says why, and there is no child any more.
class Contender {
public:
    explicit Contender(size_t shapes) {
        trial.error = kStopped;
        trial.ns.resize(shapes);
        trial.anchor.resize(shapes);
    }

    bool runs() const { return child_ != nullptr; }
    /// By the system, as it does when memory runs out.
    bool killed() const { return killed_; }

    void start(const std::string &worker, const MeasureOptions &options, const std::atomic<bool> *stop) {
        ChildOptions child;
        child.argv = {worker};
#ifndef __SANITIZE_ADDRESS__  // whose shadow takes all addresses that there are
        child.memory_bytes = options.memory_bytes;
#endif
        child.stop = stop;
        child_ = std::make_unique<Child>(child);
        trial.status = Status::kOk;
        trial.error.clear();
    }
    /// False, and the trial has ended, where the answer is not ok.
    bool ask(const json &request, double seconds, json *answer) {
        std::string line;
        if (!child_->write_line(request.dump()) || !child_->read_line(&line, seconds)) {
            ended(request.at("op"));
            return false;
        }
        *answer = json::parse(line, nullptr, false);
        if (!answer->is_object() || !answer->contains("status")) {
            fail(Status::kCrashed, "the worker answered \"" + line.substr(0, 80) + "\"");
        } else if (answer->at("status") != "ok") {
            fail(status_of(answer->at("status")), answer->value("text", ""));
        }
        return runs();
    }
    void fail(Status status, const std::string &text) {
        trial.status = status;
        trial.error = text;
        child_.reset();
    }
    void finish() { child_.reset(); }

    Trial trial;

private:
    void ended(const std::string &op) {
        const char *const doing = op == "load" ? "being loaded" : op == "verify" ? "being verified" : "being timed";
        const Exit exit = child_->exit();
        switch (exit.kind) {
        case Exit::Kind::kNotStarted: return fail(Status::kLaunchFailed, exit.text);
        case Exit::Kind::kStopped: return fail(Status::kSkipped, kStopped);
        case Exit::Kind::kTimeout: return fail(Status::kRunTimeout, exit.text + " while " + doing);
        case Exit::Kind::kSignal:
            killed_ = exit.value == SIGKILL;
            if (killed_)
                return fail(Status::kOverLimit, "killed while " + std::string(doing) + ", as the system does when memory runs out");
            return fail(Status::kCrashed, exit.text + " while " + doing);
        case Exit::Kind::kCode:
            if (exit.value == kOverLimitExit) return fail(Status::kOverLimit, std::string("met its memory limit while ") + doing);
            return fail(Status::kCrashed, "ended with " + exit.text + " while " + doing);
        }
    }

    std::unique_ptr<Child> child_;
    bool killed_ = false;
};

/// Candidates with the same key are the same to measure.
std::string key_of(const Kernel &kernel, const Candidate &candidate) {
    const Built &built = candidate.built;
    return (built.hash.empty() ? built.path.empty() ? text_of(candidate.config) : built.path : built.hash) + " " +
           text_of(part_of(candidate.config, kernel.space, false));
}

/// Geometric mean over the shapes of the time in round `round` over the anchor's.
double cost_of_round(const Trial &trial, size_t round) {
    double sum = 0;
    for (size_t s = 0; s < trial.ns.size(); s++) sum += std::log(trial.ns[s][round] / trial.anchor[s][round]);
    return std::exp(sum / static_cast<double>(trial.ns.size()));
}

Estimate cost_of(const Trial &trial) {
    std::vector<Estimate> factors;
    for (size_t s = 0; s < trial.ns.size(); s++) {
        std::vector<double> ratios;
        for (size_t r = 0; r < trial.ns[s].size(); r++) ratios.push_back(trial.ns[s][r] / trial.anchor[s][r]);
        factors.push_back(estimate(ratios));
    }
    return geometric_mean(factors);
}

class ChildMeasurer : public Measurer {
public:
    ChildMeasurer(const std::string &worker, const std::string &folder) : worker_(worker), folder_(folder) {}

    std::vector<Trial> measure(const Kernel &kernel, const std::vector<Shape> &shapes, const Candidate &anchor,
        const std::vector<Candidate> &candidates, const MeasureOptions &options, const std::atomic<bool> *stop) override {
        if (kernel.space.parameters().empty()) throw Error(kernel.name + " has no parameters: there is nothing to tune");
        if (shapes.empty()) throw Error("no shape is given for " + kernel.name);
        std::vector<Shape> all;
        for (const Shape &shape : shapes) all.push_back(resolved(kernel, shape));
        require_memory(kernel, all, options.memory_bytes);
        const json job = job_of(kernel, all, folder_);
        if (!prepare(job, stop)) {
            std::vector<Trial> skipped(candidates.size());
            for (size_t i = 0; i < skipped.size(); i++) {
                skipped[i].config = candidates[i].config;
                skipped[i].error = kStopped;
            }
            return skipped;
        }

        // Who is measured, and whose trial each candidate gets.
        std::map<std::string, size_t> first;
        std::vector<size_t> source(candidates.size());
        std::vector<size_t> measured;
        const std::string anchor_key = key_of(kernel, anchor);
        for (size_t i = 0; i < candidates.size(); i++) {
            const std::string key = key_of(kernel, candidates[i]);
            const bool usable = candidates[i].built.status == Status::kOk;
            if (!usable || key == anchor_key) continue;
            const auto [at, added] = first.emplace(key, measured.size());
            source[i] = at->second;
            if (added) measured.push_back(i);
        }
        std::vector<Trial> done(measured.size());
        Trial anchor_trial;
        std::vector<size_t> alone;  // to be measured once more
        const auto take = [&](const std::vector<size_t> &members, bool first_try) {
            std::vector<const Candidate *> group;
            for (const size_t member : members) group.push_back(&candidates[measured[member]]);
            std::vector<Measured> came = rounds(kernel, all, job, anchor, group, options, stop, first_try);
            anchor_trial = std::move(came[0].trial);
            for (size_t i = 0; i < members.size(); i++) {
                if (first_try && came[i + 1].killed) alone.push_back(members[i]);
                done[members[i]] = std::move(came[i + 1].trial);
            }
        };
        const size_t together = children_together(child_bytes(kernel, all), available_bytes(""));
        for (size_t from = 0; from == 0 || from < measured.size(); from += together) {
            std::vector<size_t> members(std::min(together, measured.size() - from));
            std::iota(members.begin(), members.end(), from);
            take(members, !members.empty());
        }
        // Where memory runs out the system kills anyone: each of them gets it to itself once.
        for (const size_t member : alone) take({member}, false);

        std::vector<Trial> result;
        for (size_t i = 0; i < candidates.size(); i++) {
            const Candidate &candidate = candidates[i];
            Trial trial;
            if (candidate.built.status != Status::kOk) {
                trial.status = candidate.built.status;
                trial.error = candidate.built.error;
            } else {
                trial = key_of(kernel, candidate) == anchor_key ? anchor_trial : done[source[i]];
            }
            trial.config = candidate.config;
            trial.object_hash = candidate.built.hash;
            trial.build_seconds = candidate.built.seconds;
            result.push_back(std::move(trial));
        }
        return result;
    }

    Work work(const Kernel &kernel, const Shape &shape) override { return work_of(kernel, resolved(kernel, shape)); }

private:
    /// The references, by a child that never loads a candidate. False: stopped.
    bool prepare(json job, const std::atomic<bool> *stop) {
        job["op"] = "prepare";
        const std::string text = job.dump();
        if (prepared_.count(text)) return true;
        std::error_code error;
        std::filesystem::create_directories(folder_, error);
        if (error) throw Error("the folder " + folder_ + " for references cannot be made: " + error.message());
        remove_left_over(folder_, [](const std::string &name) { return name.find(".reference.") != std::string::npos; });
        ChildOptions options;
        options.argv = {worker_};
        options.stop = stop;
        Child child(options);
        std::string line;
        const bool answered = child.write_line(text) && child.read_line(&line, kPrepareSeconds);
        if (stop && *stop) return false;
        const json answer = answered ? json::parse(line, nullptr, false) : json();
        if (!answer.is_object() || answer.value("status", "") != "ok") {
            throw TaskError("the references of " + job.at("kernel").get<std::string>() +
                            " cannot be made: " + (answer.is_object() ? answer.value("text", "") : worker_ + ": " + child.exit().text));
        }
        prepared_.insert(text);
        return true;
    }

    struct Measured {
        Trial trial;
        bool killed;  // it or the anchor
    };

    /// Loads, verifies, then samples in rounds. The anchor's trial, then those of `group` in order. Throws TaskError where the anchor fails;
    /// an anchor that the system has killed ends a `first_try` like a stop.
    std::vector<Measured> rounds(const Kernel &kernel, const std::vector<Shape> &shapes, const json &job, const Candidate &anchor,
        const std::vector<const Candidate *> &group, const MeasureOptions &options, const std::atomic<bool> *stop, bool first_try) {
        const auto stopped = [stop] { return stop && *stop; };
        int threads = 1;
        for (const Shape &shape : shapes) threads = std::max(threads, shape.threads);
        const std::vector<int> cpus = last_cpus(static_cast<size_t>(threads));

        std::vector<std::unique_ptr<Contender>> contenders;
        contenders.push_back(std::make_unique<Contender>(shapes.size()));
        for (size_t i = 0; i < group.size(); i++) contenders.push_back(std::make_unique<Contender>(shapes.size()));
        for (size_t i = 0; i < contenders.size() && !stopped(); i++) {
            Contender &contender = *contenders[i];
            const Candidate &candidate = i ? *group[i - 1] : anchor;
            json load = job, answer;
            load.update({{"op", "load"}, {"path", candidate.built.path}, {"config", candidate.config}, {"cpus", cpus}});
            contender.start(worker_, options, stop);
            if (contender.ask(load, options.call_seconds, &answer) && contender.ask({{"op", "verify"}}, options.call_seconds, &answer)) {
                contender.trial.verify_error = answer.value("error", 0.0);
            }
        }
        const auto goes_on = [&] {
            if (stopped() || (first_try && contenders[0]->killed())) return false;
            require_anchor(kernel, *contenders[0]);
            return true;
        };
        bool complete = goes_on();
        // Each child's first sample finds its length and is thrown away.
        for (int round = -1; round < options.rounds && complete; round++) {
            for (size_t s = 0; s < shapes.size(); s++) {
                for (size_t i = 0; i < contenders.size() && !stopped(); i++) {
                    // Every second round runs backwards: nobody always comes after the same neighbour.
                    Contender &contender = *contenders[round % 2 ? contenders.size() - 1 - i : i];
                    json answer;
                    if (!contender.runs() || !contender.ask({{"op", "sample"}, {"shape", s}, {"seconds", options.sample_seconds}},
                                                 options.call_seconds, &answer)) {
                        continue;
                    }
                    if (round >= 0) contender.trial.ns[s].push_back(answer.value("ns", 0.0));
                }
            }
            complete = goes_on();
            if (complete && round >= 1) abandon(contenders, static_cast<size_t>(round) + 1, options.abandon);
        }

        std::vector<Measured> came;
        for (size_t i = 0; i < contenders.size(); i++) {
            Contender &contender = *contenders[i];
            contender.finish();
            Trial &trial = contender.trial;
            const std::vector<std::vector<double>> &reference = contenders[0]->trial.ns;
            if (trial.status == Status::kOk && !complete) {
                trial.status = Status::kSkipped;
                trial.error = kStopped;
            }
            for (size_t s = 0; s < shapes.size(); s++) {
                // A stop may fall between the samples of a round, which not everybody has then.
                const size_t both = std::min(trial.ns[s].size(), reference[s].size());
                trial.ns[s].resize(both);
                trial.anchor[s].assign(reference[s].begin(), reference[s].begin() + static_cast<std::ptrdiff_t>(both));
            }
            if (trial.status == Status::kOk) trial.cost = cost_of(trial);
            came.push_back({trial, contender.killed() || contenders[0]->killed()});
        }
        return came;
    }

    static void require_anchor(const Kernel &kernel, const Contender &anchor) {
        if (anchor.runs()) return;
        throw TaskError("the default configuration of " + kernel.name + " for " + kernel.target +
                        " cannot be measured, so that nothing can be compared with it: " + name_of(anchor.trial.status) + ", " +
                        anchor.trial.error);
    }

    /// Ends those that were slower in each of the rounds so far than `factor` times the best.
    static void abandon(const std::vector<std::unique_ptr<Contender>> &contenders, size_t rounds, double factor) {
        double best = 1;
        std::vector<double> least(contenders.size(), 0.0);
        for (size_t i = 1; i < contenders.size(); i++) {
            Trial &trial = contenders[i]->trial;
            if (!contenders[i]->runs()) continue;
            trial.anchor = contenders[0]->trial.ns;
            std::vector<double> costs;
            for (size_t r = 0; r < rounds; r++) costs.push_back(cost_of_round(trial, r));
            least[i] = *std::min_element(costs.begin(), costs.end());
            best = std::min(best, estimate(costs).median);
        }
        for (size_t i = 1; i < contenders.size(); i++) {
            if (least[i] <= factor * best) continue;
            contenders[i]->trial.abandoned = true;
            contenders[i]->finish();
        }
    }

    const std::string worker_, folder_;
    std::set<std::string> prepared_;
};

}  // namespace

std::unique_ptr<Measurer> make_measurer(const std::string &worker, const std::string &folder) {
    return std::make_unique<ChildMeasurer>(worker, folder);
}

}  // namespace gdn::tune
