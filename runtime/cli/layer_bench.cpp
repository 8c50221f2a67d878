// gdn bench layer: whole layers, and in the same rounds what they are made of: the products alone through the same BLAS, the operator as
// `gdn bench` times it, and the mixer.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>

#include <cblas.h>
#include <dlfcn.h>

#include "bench.h"
#include "command.h"
#include "console.h"
#include "layer_files.h"
#include "machine.h"
#include "mixer_problem.h"
#include "statistics.h"
#include "tests/reference/layer.h"

namespace gdn::cli {
namespace {

using nlohmann::ordered_json;

struct Options {
    BenchOptions bench;
    std::string preset = "seed";
    int size = -1;  // all
};

enum class Way { kChunk, kRecurrent, kDecode };
constexpr const char *kWayNames[] = {"chunk", "fused_recurrent", "decode"};

struct Size {
    layer::Config config;
    int64_t tokens;
    std::vector<Way> ways;
};

layer::Config config_of(layer::Kind kind, int64_t hidden, int64_t heads, int64_t head_dim) {
    layer::Config config = layer::Config::defaults(kind);
    config.hidden_size = hidden;
    config.num_heads = heads;
    config.head_dim = head_dim;
    config.expand_v = 1;
    if (config.output_gate == layer::OutputGate::kUnspecified) config.output_gate = layer::OutputGate::kSilu;
    return config;
}

std::vector<Size> sizes_of(const std::string &preset) {
    if (preset == "seed") {
        const std::vector<Way> both = {Way::kChunk, Way::kRecurrent};
        const auto gdn2 = [](int64_t hidden, int64_t heads, int64_t head_dim) {
            return config_of(layer::Kind::kGdn2, hidden, heads, head_dim);
        };
        return {{gdn2(128, 4, 32), 256, both}, {gdn2(256, 4, 64), 1024, both}, {gdn2(512, 8, 64), 2048, both},
            {gdn2(1024, 8, 128), 4096, both}};
    }
    layer::Config config;
    if (preset == "qwen3-next") {
        config = config_of(layer::Kind::kGdn, 2048, 16, 128);
        config.num_v_heads = 32;
        config.norm_eps = 1e-6;
    } else if (preset == "kimi-linear") {
        config = config_of(layer::Kind::kKda, 2304, 32, 128);
    } else {
        config = config_of(layer::Kind::kGdn2, 2304, 16, 128);
    }
    return {{config, 64, {Way::kChunk}}, {config, 512, {Way::kChunk}}, {config, 1, {Way::kDecode}}};
}

/// What OpenBLAS says of itself; another BLAS has no name for us.
ordered_json blas_facts() {
    const auto text = [](const char *function) {
        const auto get = reinterpret_cast<char *(*)()>(dlsym(RTLD_DEFAULT, function));
        return get ? ordered_json(std::string(get())) : ordered_json(nullptr);
    };
    return {{"name", text("openblas_get_config")}, {"core", text("openblas_get_corename")}, {"threads", layer::blas_threads()}};
}

std::vector<float> noise(int64_t count, uint64_t seed) {
    std::vector<float> x(static_cast<size_t>(count));
    uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
    for (float &value : x) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        value = (static_cast<float>(state >> 40) * 0x1p-24f - 0.5f) * 3.4641016f;  // variance 1
    }
    return x;
}

/// The products of a layer and nothing else: the weights that x meets as one matrix, the second matrices of what is low-rank, the output's;
/// 512 tokens at a time as in the layer, each one call of BLAS.
class Products {
public:
    Products(const layer::Config &config, int64_t tokens)
        : d_(config.hidden_size), values_(config.value_heads() * config.value_dim()), tokens_(tokens) {
        for (const layer::TensorSpec &spec : layer::weights(config)) {
            if (spec.shape.size() != 2) continue;
            const int64_t out = spec.shape[0], in = spec.shape[1];
            macs_ += out * in;
            if (spec.name == "o_proj.weight") {
                out_ = noise(out * in, 2);
            } else if (spec.name == "f_proj.1.weight" || spec.name == "g_proj.1.weight") {
                seconds_.push_back({noise(out * in, 3), in, out, std::vector<float>(static_cast<size_t>(rows() * out))});
            } else {
                columns_ += out;
            }
        }
        stride_ = (columns_ + 15) / 16 * 16;
        in_ = noise(columns_ * d_, 1);
        x_ = noise(tokens * d_, 4), o_ = noise(rows() * values_, 5);
        y_.resize(static_cast<size_t>(tokens * d_)), p_.resize(static_cast<size_t>(rows() * stride_));
    }

    void call() {
        for (int64_t t = 0; t < tokens_; t += rows()) {
            const int64_t n = std::min(rows(), tokens_ - t);
            multiply(n, x_.data() + t * d_, d_, in_.data(), d_, columns_, p_.data(), stride_);
            for (Second &second : seconds_)
                multiply(n, p_.data(), stride_, second.w.data(), second.in, second.out, second.y.data(), second.out);
            multiply(n, o_.data(), values_, out_.data(), values_, d_, y_.data() + t * d_, d_);
        }
    }

    double flop() const { return 2.0 * static_cast<double>(macs_ * tokens_); }
    int64_t macs() const { return macs_; }

private:
    struct Second {
        std::vector<float> w;
        int64_t in, out;
        std::vector<float> y;
    };

    int64_t rows() const { return std::min<int64_t>(tokens_, 512); }

    static void multiply(
        int64_t rows, const float *x, int64_t x_stride, const float *w, int64_t in, int64_t out, float *y, int64_t y_stride) {
        const auto n = [](int64_t extent) { return static_cast<int>(extent); };
        if (rows == 1)
            cblas_sgemv(CblasRowMajor, CblasNoTrans, n(out), n(in), 1, w, n(in), x, 1, 0, y, 1);
        else
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n(rows), n(out), n(in), 1, x, n(x_stride), w, n(in), 0, y, n(y_stride));
    }

    int64_t d_, values_, tokens_, columns_ = 0, stride_ = 0, macs_ = 0;
    std::vector<float> in_, out_, x_, y_, p_, o_;
    std::vector<Second> seconds_;
};

/// The operator in a layer, as `gdn bench chunk` sets it up when only sizes are given, or with what the layer's has: logits and l2 norm.
Setup operator_setup(const layer::Config &config, int64_t tokens, const BenchOptions &options, bool logits) {
    constexpr const char *kVariants[] = {"gdn", "kda", "gdn2", "fg2", "fg2_plus"};
    Setup setup;
    setup.variant = kVariants[static_cast<int>(config.kind)];
    setup.target = options.setup.target;
    setup.tokens = tokens;
    setup.heads = config.value_heads(), setup.key_heads = config.num_heads;
    setup.dk = config.key_dim(), setup.dv = config.value_dim();
    if (logits) setup.decay = "softplus", setup.gate = "logit", setup.l2norm = true;
    return setup;
}

/// Inputs that rotate over four times the last-level cache, as those of `gdn bench`; `steps` tokens of one set one by one instead.
template <class Item> class Rotation {
public:
    Rotation(
        const std::function<std::unique_ptr<Item>(uint64_t seed)> &make, const std::function<int64_t(const Item &)> &bytes, bool steps) {
        const int64_t wanted = steps ? 1 : 4 * last_level_cache_bytes();
        for (int64_t sum = 0; sum < wanted || items_.empty(); sum += bytes(*items_.back())) {
            check_interrupt();
            items_.push_back(make(items_.size() + 1));
        }
    }
    Item &next() { return *items_[next_++ % items_.size()]; }
    Item &front() { return *items_.front(); }
    int64_t size() const { return static_cast<int64_t>(items_.size()); }

private:
    std::vector<std::unique_ptr<Item>> items_;
    size_t next_ = 0;
};

/// One way through the layer of a size, with what is measured beside it.
struct Lane {
    Way way;
    std::unique_ptr<layer::Layer> layer, single;  // with the threads asked for; with one, where those are more
    layer::State state, single_state;             // of decode
    std::unique_ptr<Rotation<Problem>> problems;
    std::unique_ptr<Rotation<MixerProblem>> mixers;
    Buffer operator_memory, mixer_memory;
    size_t mixer_bytes = 0;
    Contender whole, one, op, mixer;
    gdn_test::Error error;
};

class LayerBench {
public:
    LayerBench(const Size &size, const Options &options)
        : size_(size), options_(options.bench), threads_(options.bench.setup.threads),
          context_(open_context(options.bench.setup.target, threads_)), single_context_(open_context(options.bench.setup.target, 1)),
          operator_context_(options.bench.setup.target, 1), products_(size.config, size.tokens),
          x_(noise(size.tokens * size.config.hidden_size, 6)), y_(x_.size()) {
        const layer::StateDict weights = layer::initialise(size.config, 1);
        for (Way way : size.ways) {
            auto lane = std::make_unique<Lane>();
            lane->way = way;
            layer::Config config = size.config;
            if (way == Way::kRecurrent) config.mode = layer::Mode::kFusedRecurrent;
            lane->layer = std::make_unique<layer::Layer>(context_, config, weights);
            if (threads_ > 1) lane->single = std::make_unique<layer::Layer>(single_context_, config, weights);
            lanes_.push_back(std::move(lane));
        }
        verify(weights);
    }

    ordered_json run() {
        std::vector<Contender *> contenders;
        for (const auto &lane : lanes_) {
            Lane &l = *lane;
            contenders.push_back(&(l.whole = contender([this, &l] { forward(*l.layer, l.state, l.way); })));
            if (threads_ > 1)
                contenders.push_back(&(l.one = contender([this, &l] { forward(*l.single, l.single_state, l.way); })));
            else
                add_parts(l, contenders);
        }
        Contender gemm = contender([this] { products_.call(); });
        if (threads_ == 1) contenders.push_back(&gemm);

        const ordered_json explanation = explain(operator_context_, Problem(setup(true), Inputs::kNone, 1).args);
        const int lanes = vector_lanes(explanation["target"]);
        ThreadControl control(lanes, threads_);
        const Rounds rounds = measure(
            contenders, [&] { return threads_ > 1 ? control.sample() : fma_peak(lanes); }, options_.rounds, 5e-3, "measuring");

        const layer::Config &config = size_.config;
        ordered_json json = {{"tokens", size_.tokens}, {"hidden_size", config.hidden_size}, {"variant", setup(false).variant},
            {"heads", config.value_heads()}, {"key_heads", config.num_heads}, {"dk", config.key_dim()}, {"dv", config.value_dim()},
            {"parameters", layer::parameter_count(config)}};
        if (threads_ == 1) {
            json["gemm_ms"] = median(gemm.ns) * 1e-6;
            json["gemm_ms_spread"] = milliseconds(gemm.ns);
            json["gemm_gflops"] = products_.flop() / median(gemm.ns);
        }
        json["peak_gflops"] = median(rounds.peak);
        json["target"] = explanation["target"];
        for (const auto &lane : lanes_) json["ways"].push_back(result(*lane, gemm, rounds, control));
        json["config"] = ordered_json::parse(config.to_json());
        peaks.insert(peaks.end(), rounds.peak.begin(), rounds.peak.end());
        return json;
    }

    std::vector<double> peaks;

private:
    static Contender contender(std::function<void()> call) {
        Contender made;
        made.call = std::move(call);
        return made;
    }
    static ordered_json milliseconds(std::vector<double> ns) {
        for (double &value : ns) value *= 1e-6;
        return spread(ns);
    }

    Setup setup(bool logits) const { return operator_setup(size_.config, size_.tokens, options_, logits); }

    void forward(const layer::Layer &layer, layer::State &state, Way way) {
        if (way == Way::kDecode)
            layer.forward(x_.data(), y_.data(), 1, 1, state);
        else
            layer.forward_train(x_.data(), y_.data(), 1, size_.tokens);
    }

    /// The first tokens against the double layer, and all tokens of one way against those of the other. A decoded token comes after a
    /// prompt that the layer has read.
    void verify(const layer::StateDict &weights) {
        const gdn_reference::Layer reference(size_.config, weights);
        const int64_t d = size_.config.hidden_size, affordable = int64_t{400'000'000} / products_.macs();
        const bool decode = size_.ways.front() == Way::kDecode;
        const int64_t tokens = std::max<int64_t>(4, decode ? std::min<int64_t>(affordable, 12) : std::min(affordable, size_.tokens));
        const std::vector<float> prompt = decode ? noise(tokens * d, 6) : std::vector<float>();
        gdn_reference::Layer::State start = reference.start();
        const std::vector<double> expected = reference.forward(decode ? prompt.data() : x_.data(), tokens, start);

        std::vector<float> first;
        for (const auto &lane : lanes_) {
            check_interrupt();
            std::fill(y_.begin(), y_.end(), std::numeric_limits<float>::quiet_NaN());
            const double *rows = expected.data();
            int64_t count = tokens * d;
            if (decode) {
                for (const auto &[layer, state] : {std::pair{&lane->layer, &lane->state}, std::pair{&lane->single, &lane->single_state}}) {
                    if (!*layer) continue;
                    *state = (*layer)->make_state(1);
                    std::vector<float> y(static_cast<size_t>((tokens - 1) * d));
                    (*layer)->forward(prompt.data(), y.data(), 1, tokens - 1, *state);
                    (*layer)->forward(prompt.data() + (tokens - 1) * d, y_.data(), 1, 1, *state);
                }
                rows += (tokens - 1) * d;
                count = d;
            } else {
                forward(*lane->layer, lane->state, lane->way);
            }
            gdn_test::ErrorSum sum;
            for (int64_t i = 0; i < count; i++) sum.add(y_[static_cast<size_t>(i)], rows[i]);
            lane->error = sum.error();
            if (first.empty()) first = y_;
            gdn_test::ErrorSum between;
            for (size_t i = 0; i < y_.size(); i++) between.add(y_[i], first[i]);
            lane->error.worst(between.error());
            if (!lane->error.within(gdn_test::kBoundF32))
                throw Failure(kExitVerification,
                    format("wrong result, nothing was timed: %s, %lld tokens of %lld, %s: relative error %.3g (bound %.1g)",
                        setup(false).variant.c_str(), static_cast<long long>(size_.tokens), static_cast<long long>(d),
                        kWayNames[static_cast<int>(lane->way)], lane->error.rms, gdn_test::kBoundF32));
        }
        verified_tokens_ = tokens;
    }

    void add_parts(Lane &l, std::vector<Contender *> &contenders) {
        const bool steps = l.way != Way::kChunk;
        Setup plain = setup(false), logits = setup(true);
        if (steps) plain.tokens = logits.tokens = 1;
        l.problems = std::make_unique<Rotation<Problem>>(
            [&](uint64_t seed) {
                auto problem = std::make_unique<Problem>(plain, Inputs::kModerate, seed, options_.huge_pages);
                if (steps) problem->use_one_state();
                return problem;
            },
            [](const Problem &problem) { return problem.bytes(); }, steps);
        l.mixers = std::make_unique<Rotation<MixerProblem>>(
            [&](uint64_t seed) { return std::make_unique<MixerProblem>(logits, seed, steps, options_.huge_pages); },
            [](const MixerProblem &problem) { return problem.bytes(); }, steps);
        l.operator_memory = workspace(operator_context_, l.problems->front().args, options_.huge_pages);
        check(gdn_mixer_workspace_size(operator_context_.get(), &l.mixers->front().args, &l.mixer_bytes), "the mixer");
        l.mixer_memory = Buffer(l.mixer_bytes, options_.huge_pages);

        const int64_t calls = steps ? size_.tokens : 1;
        l.op = contender([this, &l, steps, calls] {
            const auto run = steps ? gdn_step : gdn_forward;
            for (int64_t i = 0; i < calls; i++)
                check(run(operator_context_.get(), &l.problems->next().args, l.operator_memory.data(), l.operator_memory.size()),
                    "the operator");
        });
        l.mixer = contender([this, &l, steps, calls] {
            const auto run = steps ? gdn_mixer_step : gdn_mixer_forward;
            for (int64_t i = 0; i < calls; i++)
                check(run(operator_context_.get(), &l.mixers->next().args, l.mixer_memory.data(), l.mixer_bytes), "the mixer");
        });
        l.op.warm_up = l.problems->size(), l.mixer.warm_up = l.mixers->size();
        contenders.push_back(&l.op);
        contenders.push_back(&l.mixer);
    }

    ordered_json result(const Lane &l, const Contender &gemm, const Rounds &rounds, const ThreadControl &control) const {
        const double flop = products_.flop() + 7.0 * static_cast<double>(size_.tokens * size_.config.value_heads() *
                                                                         size_.config.key_dim() * size_.config.value_dim());
        const double ms = median(l.whole.ns) * 1e-6;
        ordered_json json = {{"way", kWayNames[static_cast<int>(l.way)]}, {"layer_ms", ms}, {"layer_ms_spread", milliseconds(l.whole.ns)},
            {"tokens_per_s", static_cast<double>(size_.tokens) / ms * 1e3}};
        std::vector<double> efficiency;
        for (size_t i = 0; i < l.whole.ns.size(); i++) efficiency.push_back(flop / l.whole.ns[i] / rounds.peak[i]);
        json["efficiency"] = median(efficiency);
        json["cpu_ms"] = median(l.whole.cpu) * 1e-6;
        if (threads_ > 1) {
            const std::vector<double> speedup = ratios(l.one.ns, l.whole.ns);
            json["single_thread_ms"] = median(l.one.ns) * 1e-6;
            json["speedup"] = median(speedup);
            json["speedup_spread"] = spread(speedup);
            json["thread_control"] = control.json();
        } else {
            std::vector<double> ratio, rest;
            for (size_t i = 0; i < l.whole.ns.size(); i++) {
                ratio.push_back(l.whole.ns[i] / (gemm.ns[i] + l.op.ns[i]));
                rest.push_back((l.whole.ns[i] - gemm.ns[i] - l.mixer.ns[i]) * 1e-6);
            }
            json["ratio"] = median(ratio);
            json["ratio_spread"] = spread(ratio);
            json["operator_ms"] = median(l.op.ns) * 1e-6;
            json["operator_ms_spread"] = milliseconds(l.op.ns);
            json["operator_ns_per_token_head"] = median(l.op.ns) / static_cast<double>(size_.tokens * size_.config.value_heads());
            json["mixer_ms"] = median(l.mixer.ns) * 1e-6;
            json["mixer_ms_spread"] = milliseconds(l.mixer.ns);
            json["mixer_parts_ms"] = (median(l.mixer.ns) - median(l.op.ns)) * 1e-6;
            json["rest_ms"] = median(rest);
            json["input_sets"] = {l.problems->size(), l.mixers->size()};
            json["gemm_samples"] = gemm.ns;
            json["operator_samples"] = l.op.ns;
        }
        json["rel_error"] = l.error.rms;
        json["verified_tokens"] = verified_tokens_;
        json["samples"] = l.whole.ns;
        return json;
    }

    const Size size_;
    const BenchOptions options_;
    const int threads_;
    gdn::Context context_, single_context_;
    const Context operator_context_;
    Products products_;
    std::vector<float> x_, y_;
    std::vector<std::unique_ptr<Lane>> lanes_;
    int64_t verified_tokens_ = 0;
};

void print(const ordered_json &json) {
    const Style &s = style();
    const auto number = [](const ordered_json &from, const char *name) { return from[name].get<double>(); };
    std::printf("%s%s, %lld token%s x %lld, %lld heads of %lld x %lld%s, %lld parameters\n", s.bold,
        json["variant"].get<std::string>().c_str(), json["tokens"].get<long long>(), json["tokens"] == 1 ? "" : "s",
        json["hidden_size"].get<long long>(), json["heads"].get<long long>(), json["dk"].get<long long>(), json["dv"].get<long long>(),
        s.off, json["parameters"].get<long long>());
    if (json.contains("gemm_ms"))
        std::printf("  products alone   %.4g ms (%.1f GFLOP/s of %.1f)\n", number(json, "gemm_ms"), number(json, "gemm_gflops"),
            number(json, "peak_gflops"));
    for (const ordered_json &way : json["ways"]) {
        std::printf("  %-15s  %s%.4g ms%s, %.0f tokens/s, %.3f of the peak, error %.2g\n", way["way"].get<std::string>().c_str(), s.bold,
            number(way, "layer_ms"), s.off, number(way, "tokens_per_s"), number(way, "efficiency"), number(way, "rel_error"));
        if (way.contains("ratio"))
            std::printf("                   %s%.3f%s of products + operator (%.3f to %.3f); operator %.4g ms, other mixer parts %.3g ms, "
                        "rest %.3g ms\n",
                s.bold, number(way, "ratio"), s.off, number(way["ratio_spread"], "min"), number(way["ratio_spread"], "max"),
                number(way, "operator_ms"), number(way, "mixer_parts_ms"), number(way, "rest_ms"));
        print_threads(way);
    }
}

void bench_layer(const Options &options) {
    std::vector<Size> sizes = sizes_of(options.preset);
    if (options.size >= static_cast<int>(sizes.size()))
        throw Failure(kExitUsage,
            format("--size %d: preset %s has the sizes 0 to %d", options.size, options.preset.c_str(), static_cast<int>(sizes.size()) - 1));
    if (options.size >= 0) sizes = {sizes[static_cast<size_t>(options.size)]};
    layer::set_blas_threads(1);
    const int cpu = pin_for(options.bench);
    ordered_json json = {
        {"benchmark", "layer"}, {"preset", options.preset}, {"threads", options.bench.setup.threads}, {"blas", blas_facts()}};
    Rounds rounds;
    for (const Size &size : sizes) {
        LayerBench bench(size, options);
        json["results"].push_back(bench.run());
        rounds.peak.insert(rounds.peak.end(), bench.peaks.begin(), bench.peaks.end());
        if (!options.bench.json) print(json["results"].back());
    }
    add_run_facts(json, options.bench, cpu, rounds);
    json["rounds"] = options.bench.rounds;
    if (options.bench.json) {
        std::printf("%s\n", json.dump(2).c_str());
        return;
    }
    const ordered_json &blas = json["blas"];
    std::printf("%s%s, %d thread%s; BLAS %s, %d thread%s; %d rounds%s\n", style().dim, json["cpu"].get<std::string>().c_str(),
        options.bench.setup.threads, options.bench.setup.threads == 1 ? "" : "s",
        blas["name"].is_null() ? "of unknown name" : blas["name"].get<std::string>().c_str(), blas["threads"].get<int>(),
        blas["threads"] == 1 ? "" : "s", options.bench.rounds, style().off);
}

}  // namespace

void add_bench_layer(CLI::App &bench) {
    auto options = std::make_shared<Options>();
    options->bench.rounds = 9;
    CLI::App &app = *bench.add_subcommand("layer", "Whole layers beside their products through the same BLAS and their operator");
    app.add_option("--preset", options->preset,
           "seed: GDN-2 at 256 x 128, 1024 x 256, 2048 x 512, 4096 x 1024 (tokens x width), both modes; the others: one layer at 64 and "
           "512 "
           "tokens and decoding one")
        ->check(CLI::IsMember({"seed", "qwen3-next", "kimi-linear", "gdn2-1.3b"}))
        ->capture_default_str();
    app.add_option("--size", options->size, "Only the size of this index [all]")->check(CLI::NonNegativeNumber);
    app.add_option("--threads", options->bench.setup.threads,
           "Threads of the context; more than one: against one, with the control of pinned FMA loops, and without the parts")
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
    app.add_option("--target", options->bench.setup.target, "Target of `gdn info`, or auto")->capture_default_str();
    add_run_options(app, options->bench);
    app.footer(
        "The products are timed at the layer's shapes, 512 tokens at a time, each one call of a single-threaded BLAS. The operator is "
        "timed\nas `gdn bench chunk` (chunk) and `gdn bench step --sequences 1` (the others) do when only sizes are given; other mixer "
        "parts are\nwhat gdn_mixer_forward or gdn_mixer_step with logits, l2 norm, convolutions, norm and gate takes beyond it. ratio is "
        "the median over\nrounds of layer / (products + operator). The first tokens are checked against a layer in double, all tokens of "
        "one mode against the other.\n\n"
        "Examples:\n"
        "  gdn bench layer --preset seed\n"
        "  gdn bench layer --preset seed --size 3 --threads 2 --json\n"
        "  gdn bench layer --preset qwen3-next --rounds 21");
    app.callback([options] { bench_layer(*options); });
}

}  // namespace gdn::cli
