// gdn bench: how fast the operator is here, always after showing that it is right, always beside the ceilings of the same run.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>

#include "bench.h"
#include "command.h"
#include "console.h"
#include "machine.h"
#include "statistics.h"

namespace gdn::cli {

using nlohmann::ordered_json;

ordered_json spread(const std::vector<double> &x) {
    return {{"min", *std::min_element(x.begin(), x.end())}, {"max", *std::max_element(x.begin(), x.end())}, {"mad", mad(x)}};
}

int pin_for(const BenchOptions &options) {
    if (options.setup.threads > 1) return -1;
    const std::vector<int> cpus = allowed_cpus();
    const int cpu = options.cpu >= 0 ? options.cpu : cpus.empty() ? 0 : cpus.back();
    if (pin(cpu)) return cpu;
    if (options.cpu >= 0) throw Failure(kExitUsage, "--cpu " + std::to_string(cpu) + ": this process may not run there");
    return -1;
}

void add_run_facts(ordered_json &json, const BenchOptions &options, int cpu, const Rounds &rounds) {
    json["rounds"] = rounds.peak.size();
    json["peak_samples"] = rounds.peak;
    json["pinned_cpu"] = cpu < 0 ? ordered_json(nullptr) : ordered_json(cpu);
    json["pages"] = options.huge_pages ? "2MiB" : "4KiB";
    json["huge_page_bytes"] = huge_page_bytes();
    json["last_level_cache_bytes"] = last_level_cache_bytes();
    json["cpu"] = cpu_name();
    json["load_average"] = first_line("/proc/loadavg").substr(0, first_line("/proc/loadavg").find(' '));
    json["date"] = date();
    json["version"] = gdn_version();
}

void add_run_options(CLI::App &app, BenchOptions &options) {
    app.add_flag("--huge-pages", options.huge_pages, "Ask for 2 MiB pages for every array; otherwise they are refused");
    app.add_option("--rounds", options.rounds, "Samples of each contender")->check(CLI::Range(3, 100000))->capture_default_str();
    app.add_option("--cpu", options.cpu, "CPU to pin a single thread to [the last one allowed]")->check(CLI::NonNegativeNumber);
    app.add_flag("--json", options.json, "Print one JSON object");
}

ThreadControl::ThreadControl(int lanes, int threads) : lanes_(lanes), cpus_(allowed_cpus()) {
    cpus_.resize(std::min(cpus_.size(), static_cast<size_t>(threads)));
}

double ThreadControl::sample() {
    scaling_.push_back(fma_sustained(lanes_, cpus_) / fma_sustained(lanes_, {cpus_[0]}));
    return fma_peak(lanes_, cpus_);
}

ordered_json ThreadControl::json() const {
    const double n = static_cast<double>(cpus_.size()), reached = median(scaling_);
    return {{"cpus", cpus_}, {"fma_scaling", reached}, {"required", 0.975 * n}, {"valid", reached >= 0.975 * n && n > 1}};
}

void print_threads(const ordered_json &json) {
    if (!json.contains("speedup")) return;
    const ordered_json &control = json["thread_control"];
    std::printf("  threads    %.2fx one thread; the pinned FMA loops reach %.2fx%s\n", json["speedup"].get<double>(),
        control["fma_scaling"].get<double>(),
        control["valid"].get<bool>() ? "" : " (too little: the cores are not free, this run says nothing about threads)");
}

namespace {

using Options = BenchOptions;

enum class Kind { kChunk, kStep };

/// Memory of the calls of one setup, and a context to run them on.
class Subject {
public:
    Subject(Kind kind, const Setup &setup, const Options &options) : kind_(kind), setup_(setup), context_(setup.target, setup.threads) {
        sets_ = std::make_shared<std::vector<std::unique_ptr<Problem>>>();
        add_set(options);
        // Inputs rotate over at least four times the last-level cache. A step's traffic is its state: its size is chosen through
        // --sequences.
        if (kind == Kind::kChunk && !options.hot) {
            const int64_t wanted = 4 * last_level_cache_bytes(), bytes = sets_->front()->bytes();
            for (int64_t sum = bytes; sum < wanted; sum += bytes) add_set(options);
        }
        if (kind == Kind::kStep) sets_->front()->use_one_state();
        workspace_ = workspace(context_, sets_->front()->args, options.huge_pages);
        check(gdn_supports(context_.get(), &sets_->front()->args), "this call");
    }

    /// The same memory with another number of threads.
    Subject(const Subject &other, int threads, const Options &options)
        : kind_(other.kind_), setup_(other.setup_), context_(other.setup_.target, threads), sets_(other.sets_) {
        setup_.threads = threads;
        workspace_ = workspace(context_, sets_->front()->args, options.huge_pages);
    }

    void call() {
        const Problem &problem = *(*sets_)[next_];
        next_ = (next_ + 1) % sets_->size();
        const auto run = kind_ == Kind::kStep ? gdn_step : gdn_forward;
        check(run(context_.get(), &problem.args, workspace_.data(), workspace_.size()), "the timed call");
    }

    /// Runs the first set once and compares the outer heads of the outer sequences with the double recurrence.
    Distance verify() {
        Problem &problem = *sets_->front();
        // The double recurrence of 4096 tokens at K = V = 128 takes about half a second; of longer sequences the beginning is compared.
        const int64_t limit = std::max<int64_t>(64, (int64_t{1} << 26) / (setup_.dk * setup_.dv));
        const int64_t tokens = std::min(setup_.tokens, limit);
        std::vector<std::pair<int64_t, int64_t>> places = {
            {0, 0}, {0, setup_.heads - 1}, {setup_.batch - 1, 0}, {setup_.batch - 1, setup_.heads - 1}};
        std::sort(places.begin(), places.end());
        places.erase(std::unique(places.begin(), places.end()), places.end());

        Progress progress("verifying");
        std::vector<gdn_reference::Result> expected;
        for (auto [n, hv] : places) {
            progress.update(static_cast<double>(expected.size()), static_cast<double>(places.size()));
            expected.push_back(gdn_reference::run(problem.operands(n, hv, tokens)));
        }
        next_ = 0;
        call();
        next_ = 0;
        Distance worst;
        for (size_t i = 0; i < places.size(); i++) worst.worst(problem.distance(expected[i], places[i].first, places[i].second, tokens));
        return worst;
    }

    Contender contender() {
        Contender contender;
        contender.call = [this] { call(); };
        contender.warm_up = static_cast<int64_t>(sets_->size());
        return contender;
    }

    const Setup &setup() const { return setup_; }
    const Context &context() const { return context_; }
    Problem &first() { return *sets_->front(); }
    int64_t sets() const { return static_cast<int64_t>(sets_->size()); }
    ordered_json explanation() const { return explain(context_, sets_->front()->args); }
    double token_heads() const { return static_cast<double>(setup_.batch * setup_.tokens * setup_.heads); }
    double state_bytes() const { return 4.0 * static_cast<double>(setup_.batch * setup_.heads * setup_.dk * setup_.dv); }

private:
    void add_set(const Options &options) {
        check_interrupt();
        sets_->push_back(std::make_unique<Problem>(setup_, Inputs::kModerate, sets_->size() + 1, options.huge_pages));
    }

    Kind kind_;
    Setup setup_;
    Context context_;
    std::shared_ptr<std::vector<std::unique_ptr<Problem>>> sets_;
    Buffer workspace_;
    size_t next_ = 0;
};

/// The core kernel of an explanation, role "chunk" or "step": {"kernel": symbol, "target": .., "config": ..}.
ordered_json core_of(const ordered_json &explanation, const std::string &role) {
    for (const ordered_json &kernel : explanation["kernels"]) {
        if (kernel["role"] == role) return {{"kernel", kernel["kernel"]}, {"target", kernel["target"]}, {"config", kernel["config"]}};
    }
    return {{"kernel", nullptr}, {"target", explanation["target"]}, {"config", nullptr}};
}

/// What a chunk of C tokens executes per token-head: the two products with the state [2C x K] x [K x V] and [K x C] x [C x V], the decay of
/// the state once a chunk, T and Aqk as dots of K, the substitution and Aqk R over V. The element-wise work of stage and decay products is
/// not counted. `config` is the core's: "chunk:8,cols:32,..".
double executed_chunk_flop(const Setup &setup, const std::string &config) {
    const double K = static_cast<double>(setup.dk), V = static_cast<double>(setup.dv);
    const double C = std::atoi(config.c_str() + config.find("chunk:") + 6);
    return 6 * K * V + K * V / C + 2 * C * (K + V);
}

double counted_flop(const Setup &setup) { return 7.0 * static_cast<double>(setup.dk * setup.dv); }

std::vector<double> efficiencies(const Subject &subject, const Contender &contender, const Rounds &rounds) {
    std::vector<double> result;
    for (size_t i = 0; i < contender.ns.size(); i++) {
        result.push_back(counted_flop(subject.setup()) * subject.token_heads() / contender.ns[i] / rounds.peak[i]);
    }
    return result;
}

/// Fields that chunk and step have in common.
ordered_json result_of(
    const Subject &subject, const std::string &role, const Distance &distance, const Contender &contender, const Rounds &rounds) {
    const double ns = median(contender.ns) / subject.token_heads(), flop = counted_flop(subject.setup());
    const std::vector<double> efficiency = efficiencies(subject, contender, rounds);
    ordered_json json = subject.setup().json();
    json["ns_per_token_head"] = ns;
    json["flop_per_token_head"] = flop;
    const ordered_json core = core_of(subject.explanation(), role);
    const bool chunks = role == "chunk" && core["config"].is_string();
    json["executed_flop_per_token_head"] = chunks ? executed_chunk_flop(subject.setup(), core["config"]) : flop;
    json["gflops"] = flop / ns;
    json["peak_gflops"] = median(rounds.peak);
    json["efficiency"] = median(efficiency);
    json["efficiency_spread"] = spread(efficiency);
    json["rel_error"] = distance.rms();
    json["rel_error_o"] = distance.o.rms;
    json["rel_error_state"] = distance.state.rms;
    json.update(core);
    json["median_ns"] = median(contender.ns);
    json["mad_ns"] = mad(contender.ns);
    json["calls_per_sample"] = contender.calls;
    json["samples"] = contender.ns;
    json["cpu_ns_per_token_head"] = median(contender.cpu) / subject.token_heads();
    return json;
}

/// The two sides of --against, round by round.
ordered_json comparison(const Subject &a, const Contender &x, const Subject &b, const Contender &y) {
    std::vector<double> left, right;
    for (double ns : x.ns) left.push_back(ns / a.token_heads());
    for (double ns : y.ns) right.push_back(ns / b.token_heads());
    const std::vector<double> paired = ratios(left, right);
    return {{"time_ratio", median(paired)}, {"time_ratio_of_medians", median(left) / median(right)}, {"time_ratio_spread", spread(paired)}};
}

void require_verified(const Subject &subject, const Distance &distance) {
    const Bounds bound = bounds(subject.setup());
    if (bound.hold(distance)) return;
    throw Failure(
        kExitVerification, format("wrong result, nothing was timed: %s: relative error o %.3g (bound %.1g), state %.3g (bound %.1g)",
                               subject.setup().text().c_str(), distance.o.rms, bound.o, distance.state.rms, bound.state));
}

std::string ceiling_text(const ordered_json &json) {
    return format("%.1f GFLOP/s of %.1f: efficiency %s%.3f%s (%.3f to %.3f over %d rounds)", json["gflops"].get<double>(),
        json["peak_gflops"].get<double>(), style().bold, json["efficiency"].get<double>(), style().off,
        json["efficiency_spread"]["min"].get<double>(), json["efficiency_spread"]["max"].get<double>(), json["rounds"].get<int>());
}

void print_head(const Subject &subject, const ordered_json &json) {
    const Style &s = style();
    std::printf("%s%s%s\n", s.bold, subject.setup().text().c_str(), s.off);
    std::printf("  %s, %s pages, %s\n", json["cpu"].get<std::string>().c_str(), json["pages"].get<std::string>().c_str(),
        json["pinned_cpu"].is_null() ? "not pinned" : ("pinned to CPU " + json["pinned_cpu"].dump()).c_str());
    std::printf("  kernel     %s\n             %s%s%s\n", json["kernel"].is_null() ? "?" : json["kernel"].get<std::string>().c_str(), s.dim,
        json["config"].is_null() ? "" : json["config"].get<std::string>().c_str(), s.off);
    std::printf("  error      %.2g relative to the double recurrence\n", json["rel_error"].get<double>());
    std::printf("  time       %s%.1f ns%s per token-head (one call %.4g us, MAD %.2f %%)\n", s.bold,
        json["ns_per_token_head"].get<double>(), s.off, json["median_ns"].get<double>() * 1e-3,
        100 * json["mad_ns"].get<double>() / json["median_ns"].get<double>());
    std::printf("  speed      %s\n", ceiling_text(json).c_str());
}

void print_against(const ordered_json &json) {
    if (!json.contains("against")) return;
    const ordered_json &other = json["against"];
    std::printf("  against    %s: %.1f ns; this takes %s%.3f%s of its time (%.3f to %.3f)\n", other["changes"].get<std::string>().c_str(),
        other["ns_per_token_head"].get<double>(), style().bold, json["time_ratio"].get<double>(), style().off,
        json["time_ratio_spread"]["min"].get<double>(), json["time_ratio_spread"]["max"].get<double>());
}

/// One setup, perhaps a second one, perhaps the first one again on one thread; interleaved.
struct Field {
    explicit Field(Kind kind, const Options &options)
        : kind(kind), options(options), cpu(pin_for(options)), main(kind, options.setup, options) {
        if (!options.against.empty()) other = std::make_unique<Subject>(kind, changed(options.setup, options.against), options);
        if (options.setup.threads > 1) single = std::make_unique<Subject>(main, 1, options);
        lanes = vector_lanes(core_of(main.explanation(), role())["target"].get<std::string>());
    }

    std::string role() const { return kind == Kind::kStep ? "step" : "chunk"; }

    /// Verifies, measures with `extra` contenders beside, and returns the object to print.
    ordered_json run(std::vector<Contender *> extra, double sample_seconds) {
        const Distance distance = main.verify(), other_distance = other ? other->verify() : Distance();
        require_verified(main, distance);
        if (other) require_verified(*other, other_distance);

        x = main.contender();
        std::vector<Contender *> contenders = {&x};
        Contender y, z;
        if (other) contenders.push_back(&(y = other->contender()));
        if (single) contenders.push_back(&(z = single->contender()));
        contenders.insert(contenders.end(), extra.begin(), extra.end());

        ThreadControl control(lanes, options.setup.threads);
        const auto peak = [&] { return single ? control.sample() : fma_peak(lanes); };
        rounds = measure(contenders, peak, options.rounds, sample_seconds, "measuring");

        ordered_json json = {{"benchmark", role()}};
        json.update(result_of(main, role(), distance, x, rounds));
        if (single) {
            json["speedup"] = median(ratios(z.ns, x.ns));
            json["single_thread_ns_per_token_head"] = median(z.ns) / main.token_heads();
            json["thread_control"] = control.json();
        }
        if (other) {
            json["against"] = {{"changes", options.against}};
            json["against"].update(result_of(*other, role(), other_distance, y, rounds));
            json.update(comparison(main, x, *other, y));
        }
        add_run_facts(json, options, cpu, rounds);
        return json;
    }

    Kind kind;
    const Options &options;
    int cpu;
    Subject main;
    std::unique_ptr<Subject> other, single;
    int lanes;
    Contender x;
    Rounds rounds;
};

void bench_chunk(const Options &options) {
    Field field(Kind::kChunk, options);
    ordered_json json = field.run({}, 5e-3);
    const Setup &setup = options.setup;
    const double gemm_flop = 6.0 * static_cast<double>(setup.dk * setup.dv);
    json["gemm_floor"] = gemm_flop / json["peak_gflops"].get<double>() / json["ns_per_token_head"].get<double>();
    json["gemm_floor_is"] = "flop of the two products with the state at the FMA peak of this run, over the total time";
    json["input_sets"] = field.main.sets();
    json["input_bytes"] = field.main.sets() * field.main.first().bytes();
    if (options.json) {
        std::printf("%s\n", json.dump(2).c_str());
        return;
    }
    print_head(field.main, json);
    std::printf("  floor      the chunk's two products with the state at that peak would take %.3f of the time\n",
        json["gemm_floor"].get<double>());
    std::printf("  inputs     %lld set%s of %.1f MiB%s\n", static_cast<long long>(field.main.sets()), field.main.sets() == 1 ? "" : "s",
        static_cast<double>(field.main.first().bytes()) / 1048576, options.hot ? " (hot)" : "");
    print_threads(json);
    print_against(json);
}

int64_t cold_sequences(const Setup &setup) {
    const int64_t state = 4 * setup.heads * setup.dk * setup.dv, wanted = 4 * last_level_cache_bytes();
    return (wanted + state - 1) / state;
}

void bench_step(Options options) {
    options.setup.tokens = 1;
    options.setup.batch = options.sequences ? options.sequences : cold_sequences(options.setup);
    Field field(Kind::kStep, options);

    // The plain sweep reads and writes the very state that the step works on; the factor is one, so that nothing changes.
    const Tensor &state = field.main.first().initial_state;
    volatile float one = 1.0f;
    const size_t padded = static_cast<size_t>(state.elements()) / 16 * 16;
    Contender pass;
    pass.call = [&] { sweep(static_cast<float *>(state.memory.data()), padded, one, field.lanes); };
    ordered_json json = field.run({&pass}, 2e-3);

    const Setup &setup = options.setup;
    const double work = 8.0 * static_cast<double>(setup.dk * setup.dv) * field.main.token_heads();
    std::vector<double> floor;
    for (size_t i = 0; i < field.x.ns.size(); i++) floor.push_back(field.x.ns[i] / std::max(pass.ns[i], work / field.rounds.peak[i]));
    const std::vector<double> sweeps = ratios(field.x.ns, pass.ns);
    json["sequences"] = setup.batch;
    json["state_bytes"] = field.main.state_bytes();
    json["gbytes_per_s"] = 2 * field.main.state_bytes() / json["median_ns"].get<double>();
    json["sweep_ns"] = median(pass.ns);
    json["sweep_ratio"] = median(sweeps);
    json["sweep_ratio_spread"] = spread(sweeps);
    json["floor_ratio"] = median(floor);
    json["floor_ratio_spread"] = spread(floor);
    if (options.json) {
        std::printf("%s\n", json.dump(2).c_str());
        return;
    }
    print_head(field.main, json);
    std::printf("  state      %.1f MiB in %lld sequence%s: %.1f GB/s read and written\n", field.main.state_bytes() / 1048576,
        static_cast<long long>(setup.batch), setup.batch == 1 ? "" : "s", json["gbytes_per_s"].get<double>());
    std::printf("  ceilings   %s%.3f%s of a plain sweep over the state, %s%.3f%s of the larger of sweep and 8KV flop at the peak\n",
        style().bold, json["sweep_ratio"].get<double>(), style().off, style().bold, json["floor_ratio"].get<double>(), style().off);
    print_threads(json);
    print_against(json);
}

/// A block of T tokens in one call against T steps. With snapshots both leave the state after every token in the same place.
void bench_block(Options options) {
    Setup &setup = options.setup;
    setup.batch = options.sequences ? options.sequences : cold_sequences(setup);
    const int cpu = pin_for(options);
    const int64_t N = setup.batch, T = setup.tokens;
    Problem block(setup, Inputs::kModerate, 1, options.huge_pages);
    const std::vector<int64_t> one(block.initial_state.view.shape, block.initial_state.view.shape + 4);
    Tensor states, stepped_states, stepped_o(block.o.view.dtype, {N, T, setup.heads, setup.dv}, options.huge_pages);
    Tensor stepped_final(GDN_DTYPE_F32, one, options.huge_pages);
    if (options.snapshots) {
        states = Tensor(GDN_DTYPE_F32, {N, T, one[1], one[2], one[3]}, options.huge_pages);
        stepped_states = Tensor(GDN_DTYPE_F32, {N, T, one[1], one[2], one[3]}, options.huge_pages);
        block.args.snapshots = states.view;
        block.args.final_state = gdn_tensor{};  // the last snapshot is the final state
    }

    // Token t of every sequence, from the state after token t - 1 to the state after token t.
    std::vector<gdn_args> steps(static_cast<size_t>(T), block.args);
    for (int64_t t = 0; t < T; t++) {
        gdn_args &step = steps[static_cast<size_t>(t)];
        step.o = stepped_o.view;
        for (gdn_tensor *x : {&step.q, &step.k, &step.v, &step.g, &step.beta, &step.b, &step.w, &step.beta_k, &step.beta_v, &step.o}) {
            if (!x->data) continue;
            x->data = static_cast<char *>(x->data) + t * x->strides[1] * (x->dtype == GDN_DTYPE_F32 ? 4 : 2);
            x->shape[1] = 1;
        }
        const auto state_after = [&](int64_t token) {
            if (!options.snapshots) return stepped_final.view;
            gdn_tensor view = stepped_final.view;
            view.data = static_cast<float *>(stepped_states.memory.data()) + token * stepped_states.view.strides[1];
            view.strides[0] = stepped_states.view.strides[0];
            return view;
        };
        step.snapshots = gdn_tensor{};
        step.initial_state = t ? state_after(t - 1) : block.initial_state.view;
        step.final_state = state_after(t);
    }

    const Context context(setup.target, setup.threads);
    check(gdn_supports(context.get(), &block.args), "the block");
    Buffer block_memory = workspace(context, block.args, options.huge_pages),
           step_memory = workspace(context, steps[0], options.huge_pages);
    Contender x, y;
    x.call = [&] { check(gdn_forward(context.get(), &block.args, block_memory.data(), block_memory.size()), "the block"); };
    y.call = [&] {
        for (const gdn_args &step : steps) check(gdn_step(context.get(), &step, step_memory.data(), step_memory.size()), "a step");
    };

    // Both against the double recurrence, the states after every token too.
    Distance distance;
    const auto compare = [&](const Tensor &o, const Tensor &kept, const Tensor &final) {
        for (int64_t hv : {int64_t{0}, setup.heads - 1}) {
            gdn_reference::Operands operands = block.operands(0, hv, T);
            operands.n_snapshots = T;
            const gdn_reference::Result expected = gdn_reference::run(operands);
            const int64_t size = setup.dk * setup.dv;
            gdn_test::ErrorSum o_sum;
            for (int64_t t = 0; t < T; t++) {
                for (int64_t d = 0; d < setup.dv; d++) {
                    const int64_t at = (t * setup.heads + hv) * setup.dv + d;
                    o_sum.add(element(o, at), expected.o[static_cast<size_t>(t * setup.dv + d)]);
                }
                if (!options.snapshots && t + 1 < T) continue;
                const auto *state = static_cast<const float *>(options.snapshots ? kept.memory.data() : final.memory.data()) +
                                    (options.snapshots ? t * setup.heads + hv : hv) * size;
                gdn_test::ErrorSum state_sum;
                for (int64_t i = 0; i < size; i++)
                    state_sum.add(state[i], expected.snapshots[static_cast<size_t>(t)][static_cast<size_t>(i)]);
                distance.state.worst(state_sum.error());
            }
            distance.o.worst(o_sum.error());
        }
    };
    x.call();
    y.call();
    compare(block.o, states, block.final_state);
    compare(stepped_o, stepped_states, stepped_final);
    if (!bounds(setup).hold(distance)) {
        throw Failure(kExitVerification,
            format("wrong result, nothing was timed: relative error o %.3g, state %.3g", distance.o.rms, distance.state.rms));
    }

    const ordered_json explanation = explain(context, block.args);
    const int lanes = vector_lanes(explanation["target"]);
    const Rounds rounds = measure(
        {&x, &y}, [&] { return fma_peak(lanes); }, options.rounds, 2e-3, "measuring");
    const double token_heads = static_cast<double>(N * T * setup.heads);
    const std::vector<double> paired = ratios(x.ns, y.ns);
    ordered_json json = {{"benchmark", "block"}};
    json.update(setup.json());
    json["snapshots"] = options.snapshots;
    json["ns_per_token_head"] = median(x.ns) / token_heads;
    json["steps_ns_per_token_head"] = median(y.ns) / token_heads;
    json["time_ratio"] = median(paired);
    json["time_ratio_of_medians"] = median(x.ns) / median(y.ns);
    json["time_ratio_spread"] = spread(paired);
    json["rel_error"] = distance.rms();
    json.update(core_of(explanation, "chunk"));
    json["median_ns"] = median(x.ns);
    json["mad_ns"] = mad(x.ns);
    json["samples"] = x.ns;
    json["steps_samples"] = y.ns;
    add_run_facts(json, options, cpu, rounds);
    if (options.json) {
        std::printf("%s\n", json.dump(2).c_str());
        return;
    }
    std::printf("%s%s%s\n", style().bold, setup.text().c_str(), style().off);
    std::printf("  %lld sequence%s, blocks of %lld tokens%s, relative error %.2g\n", static_cast<long long>(N), N == 1 ? "" : "s",
        static_cast<long long>(T), options.snapshots ? ", the state kept after every token" : "", distance.rms());
    std::printf("  block      %.1f ns per token-head\n  steps      %.1f ns\n", json["ns_per_token_head"].get<double>(),
        json["steps_ns_per_token_head"].get<double>());
    std::printf("  ratio      %s%.3f%s (%.3f to %.3f over %d rounds)\n", style().bold, json["time_ratio"].get<double>(), style().off,
        json["time_ratio_spread"]["min"].get<double>(), json["time_ratio_spread"]["max"].get<double>(), json["rounds"].get<int>());
}

template <class Run> void when_called(CLI::App &app, const std::shared_ptr<Options> &options, Run run) {
    app.callback([options, run] { run(*options); });
}

}  // namespace

void add_bench(CLI::App &app) {
    CLI::App &bench = *app.add_subcommand("bench", "Time the operator against the ceilings of this core");
    bench.require_subcommand(1);
    bench.footer("Every benchmark first compares the call that it will time with the recurrence in double precision, and exits with 4 if "
                 "it is out of bounds.\n"
                 "Rounds interleave the contenders with samples of the FMA peak at the kernel's vector width; efficiency is the median "
                 "over rounds of\n"
                 "7 K V flop / time / peak of that round. Times include argument checks, dispatch, gates and stores.");

    auto chunk = std::make_shared<Options>();
    CLI::App &chunk_app = *bench.add_subcommand("chunk", "Whole sequences through gdn_forward");
    add_setup_options(chunk_app, chunk->setup);
    chunk_app.add_option("--tokens", chunk->setup.tokens, "Tokens of a sequence")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
        ->capture_default_str();
    chunk_app.add_option("--batch", chunk->setup.batch, "Sequences")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
        ->capture_default_str();
    chunk_app.add_flag("--hot", chunk->hot, "One set of inputs, instead of rotating over four times the last-level cache");
    chunk_app.add_option(
        "--against", chunk->against, "A second setup in the same run, as changes to the first: \"variant=kda\", \"dtype=bf16,logits\"");
    add_run_options(chunk_app, *chunk);
    chunk_app.footer("Examples:\n"
                     "  gdn bench chunk --variant gdn2\n"
                     "  gdn bench chunk --variant fg2 --against variant=kda          FG2 over KDA, interleaved\n"
                     "  gdn bench chunk --logits --l2norm --against decay=log,gate=value,l2norm=false\n"
                     "  gdn bench chunk --threads 2 --json                           with the control of two pinned FMA loops");
    when_called(chunk_app, chunk, [](const Options &options) { bench_chunk(options); });

    auto step = std::make_shared<Options>();
    CLI::App &step_app = *bench.add_subcommand("step", "One token per sequence through gdn_step, state in place");
    add_setup_options(step_app, step->setup);
    step_app.add_option("--sequences", step->sequences, "Sequences; 1 is hot, 0 as many as make the state four times the last-level cache")
        ->check(CLI::Range(int64_t{0}, int64_t{1} << 20))
        ->capture_default_str();
    step_app.add_option("--against", step->against, "A second setup in the same run, as changes to the first");
    add_run_options(step_app, *step);
    step_app.footer("sweep_ratio is the time over a plain in-place sweep of the same state in the same round, floor_ratio over the larger "
                    "of that sweep and\n"
                    "8 K V flop at the peak.\n\n"
                    "Examples:\n"
                    "  gdn bench step --variant gdn2 --sequences 1     hot: 16 heads, 1 MiB\n"
                    "  gdn bench step --sequences 0 --huge-pages       cold");
    when_called(step_app, step, [](const Options &options) { bench_step(options); });

    auto mixer = std::make_shared<Options>();
    mixer->setup.l2norm = true;
    CLI::App &mixer_app = *bench.add_subcommand("mixer", "Convolutions, operator and gated norm in one call, beside the operator alone");
    add_setup_options(mixer_app, mixer->setup);
    mixer_app.add_option("--tokens", mixer->setup.tokens, "Tokens of a sequence")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
        ->capture_default_str();
    mixer_app.add_option("--batch", mixer->setup.batch, "Sequences")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
        ->capture_default_str();
    mixer_app.add_flag("--step", mixer->step, "One token per sequence through gdn_mixer_step, states in place");
    mixer_app.add_flag("--hot", mixer->hot, "One set of inputs, instead of rotating over four times the last-level cache");
    add_run_options(mixer_app, *mixer);
    mixer_app.footer(
        "Width 4, SiLU, gate SiLU, l2 norm. convolution_ratio and norm_ratio: the operator with only that part around it, over the "
        "operator.\n\n"
        "Examples:\n"
        "  gdn bench mixer --variant gdn2 --heads 16 --tokens 4096\n"
        "  gdn bench mixer --variant gdn --step --json");
    when_called(mixer_app, mixer, [](const Options &options) { bench_mixer(options); });
#ifdef GDN_HAS_LAYER
    add_bench_layer(bench);
#endif

    auto block = std::make_shared<Options>();
    block->setup.tokens = 8;
    CLI::App &block_app = *bench.add_subcommand("block", "A short block, as in speculative decoding, against as many steps");
    add_setup_options(block_app, block->setup);
    block_app.add_option("--tokens", block->setup.tokens, "Tokens of the block")->check(CLI::Range(1, 64))->capture_default_str();
    block_app.add_option("--sequences", block->sequences, "Sequences; 0: as many as make the state four times the last-level cache")
        ->check(CLI::Range(int64_t{0}, int64_t{1} << 20))
        ->capture_default_str();
    block_app.add_flag("--snapshots", block->snapshots, "Both keep the state after every token");
    add_run_options(block_app, *block);
    block_app.footer("Examples:\n  gdn bench block --tokens 8 --snapshots");
    when_called(block_app, block, [](const Options &options) { bench_block(options); });
}

}  // namespace gdn::cli
