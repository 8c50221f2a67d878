// gdn.measure: one candidate in a process of its own. What it is asked and answers: autotune/measure/protocol.h.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>

#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "autotune/clock.h"
#include "autotune/measure/protocol.h"
#include "autotune/worker/failure.h"
#include "autotune/worker/verify.h"

namespace gdn::tune {
namespace {

using nlohmann::json;

/// A candidate that runs into the memory limit crashes on the NULL that it got. That is told apart from other crashes by how much is left.
void on_crash(int signal) {
    rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        mmap(nullptr, limit.rlim_cur / 8, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED) {
        _exit(kOverLimitExit);
    }
    std::signal(signal, SIG_DFL);
    raise(signal);
}

void watch_crashes() {
    alignas(16) static char stack[64 << 10];
    stack_t alternate = {};
    alternate.ss_sp = stack;
    alternate.ss_size = sizeof stack;
    sigaltstack(&alternate, nullptr);
    struct sigaction action = {};
    action.sa_handler = on_crash;
    action.sa_flags = SA_ONSTACK | SA_NODEFER;
    for (const int signal : {SIGSEGV, SIGBUS, SIGABRT}) sigaction(signal, &action, nullptr);
}

class Session {
public:
    json answer(const json &request) {
        const std::string op = request.at("op");
        if (op == "prepare" || op == "load") return op == "load" ? load(request) : prepare(request);
        if (op == "verify") return verify_all();
        if (op == "sample") return sample(request.at("shape").get<size_t>(), request.at("seconds").get<double>());
        throw Failure(Status::kLaunchFailed, "unknown request " + op);
    }

private:
    struct Timed {
        std::unique_ptr<Problem> problem;
        int64_t calls = 0;  // of a sample; 0: none yet
        double seconds = 0;
    };

    void read_job(const json &request) {
        job_.kernel = request.at("kernel");
        job_.family = request.at("family");
        job_.target = request.at("target");
        job_.folder = request.at("folder");
        job_.params = request.at("params").get<std::map<std::string, std::string>>();
        job_.runtime = request.at("runtime").get<std::vector<std::string>>();
        for (const json &text : request.at("shapes")) job_.shapes.push_back(parse_shapes(text.get<std::string>())[0]);
        small_ = make_problem(job_, job_.shapes.at(0), true);
        for (const Shape &shape : job_.shapes) timed_.push_back({make_problem(job_, shape, false)});
    }

    json prepare(const json &request) {
        read_job(request);
        reference_of(*small_, job_.folder);
        for (const Timed &t : timed_) reference_of(*t.problem, job_.folder);
        return {{"status", "ok"}};
    }

    json load(const json &request) {
        cpu_set_t cpus;
        CPU_ZERO(&cpus);
        for (const int cpu : request.at("cpus")) CPU_SET(cpu, &cpus);
        if (CPU_COUNT(&cpus)) sched_setaffinity(0, sizeof cpus, &cpus);
        read_job(request);
        kernel_ = std::make_unique<LoadedKernel>(job_, request.at("path").get<std::string>(), request.at("config").get<Config>());
        small_->use(*kernel_);
        for (const Timed &t : timed_) t.problem->use(*kernel_);
        return {{"status", "ok"}};
    }

    json verify_all() {
        double error = verify(*small_, job_.folder);
        for (const Timed &t : timed_) error = std::max(error, verify(*t.problem, job_.folder));
        return {{"status", "ok"}, {"error", error}};
    }

    static double run(Problem &problem, int64_t calls) {
        const double start = now();
        for (int64_t i = 0; i < calls; i++) problem.call();
        return now() - start;
    }

    /// The first sample of a shape finds out how many calls it takes; all that goes before a sample warms up.
    json sample(size_t shape, double seconds) {
        Timed &t = timed_.at(shape);
        if (t.calls && t.seconds < seconds) t.problem->call();
        double took = 0;
        for (t.calls = std::max<int64_t>(t.calls, 1);;
             t.calls = static_cast<int64_t>(
                 std::ceil(static_cast<double>(t.calls) * std::clamp(1.2 * seconds / std::max(took, 1e-9), 2.0, 100.0)))) {
            took = run(*t.problem, t.calls);
            if (took >= seconds) break;
        }
        t.seconds = took / static_cast<double>(t.calls);
        return {{"status", "ok"}, {"ns", 1e9 * t.seconds}, {"calls", t.calls}};
    }

    Job job_;
    std::unique_ptr<Problem> small_;
    std::vector<Timed> timed_;
    std::unique_ptr<LoadedKernel> kernel_;  // goes before the problems, which no longer call it then
};

int serve() {
    // A candidate may print what it likes: answers have a descriptor of their own.
    FILE *const answers = fdopen(dup(STDOUT_FILENO), "w");
    if (!answers || !std::freopen("/dev/null", "w", stdout) || !std::freopen("/dev/null", "w", stderr)) return 1;
    for (const char *name : {"GDN_TARGET", "GDN_TUNED_DIR", "GDN_NUM_THREADS", "GDN_LOG"}) unsetenv(name);
    watch_crashes();
    Session session;
    for (std::string line; std::getline(std::cin, line);) {
        json reply;
        try {
            reply = session.answer(json::parse(line));
        } catch (const Failure &failure) {
            reply = {{"status", name_of(failure.status)}, {"text", failure.what()}};
        } catch (const std::bad_alloc &) {
            reply = {{"status", name_of(Status::kOverLimit)}, {"text", "no memory is left"}};
        } catch (const std::exception &error) {
            reply = {{"status", name_of(Status::kLaunchFailed)}, {"text", error.what()}};
        }
        std::fprintf(answers, "%s\n", reply.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
        std::fflush(answers);
    }
    std::fflush(nullptr);
    _exit(0);  // nothing of the candidate runs once more
}

}  // namespace
}  // namespace gdn::tune

int main() { return gdn::tune::serve(); }
