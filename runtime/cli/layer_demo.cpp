#include "layer_demo.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "command.h"
#include "console.h"
#include "layer_files.h"
#include "machine.h"
#include "operator.h"
#include "tests/reference/layer.h"
#include "tests/support/metric.h"

namespace gdn::cli {
namespace {

constexpr int64_t kWidth = 256, kHeads = 2, kDim = 128, kLayers = 2;
constexpr int64_t kMost = 49152;                          // bytes of the text that the stack reads
constexpr int64_t kPiece = 2048;                          // tokens of one prefill call; the states carry over
constexpr int64_t kCheckPrefill = 160, kCheckSteps = 32;  // of the check against double precision
constexpr int64_t kDecoded = 512;                         // last bytes of what is read, once by chunks and once one by one

layer::Config config() {
    layer::Config config;  // GDN-2
    config.hidden_size = kWidth;
    config.num_heads = kHeads;
    config.head_dim = kDim;
    config.output_gate = layer::OutputGate::kSilu;
    return config;
}

/// x / rms(x) of each row.
template <class Real> void normalise(const Real *x, Real *y, int64_t rows) {
    for (int64_t r = 0; r < rows; r++, x += kWidth, y += kWidth) {
        Real squares = 0;
        for (int64_t c = 0; c < kWidth; c++) squares += x[c] * x[c];
        const Real scale = 1 / std::sqrt(squares / kWidth + Real(1e-5));
        for (int64_t c = 0; c < kWidth; c++) y[c] = x[c] * scale;
    }
}

/// h = E[byte]; h += layer(h / rms(h)), twice; the next byte's scores are E h / rms(h).
class Stack {
public:
    using States = std::vector<layer::State>;

    Stack(gdn::Context &context, const std::vector<layer::StateDict> &weights) : embedding_(256 * kWidth) {
        std::mt19937_64 engine(2605);
        std::normal_distribution<float> normal;
        for (float &x : embedding_) x = normal(engine);
        for (const layer::StateDict &one : weights) layers_.push_back(std::make_unique<layer::Layer>(context, config(), one));
    }

    States start() const {
        States states;
        for (const auto &layer : layers_) states.push_back(layer->make_state(1));
        return states;
    }

    const float *embedding(char byte) const { return embedding_.data() + static_cast<unsigned char>(byte) * kWidth; }

    /// Rows of bytes [from, to) after both layers; `states` move on.
    void read(const std::string &text, int64_t from, int64_t to, States &states, float *h) {
        const int64_t rows = to - from;
        const auto size = static_cast<size_t>(rows * kWidth);
        if (normed_.size() < size) normed_.resize(size), mixed_.resize(size);
        for (int64_t t = 0; t < rows; t++) std::copy_n(embedding(text[static_cast<size_t>(from + t)]), kWidth, h + t * kWidth);
        for (size_t l = 0; l < layers_.size(); l++) {
            normalise(h, normed_.data(), rows);
            layers_[l]->forward(normed_.data(), mixed_.data(), 1, rows, states[l]);
            for (size_t i = 0; i < size; i++) h[i] += mixed_[i];
        }
    }

    int64_t next_byte(const float *h) const {
        int64_t best = 0;
        float top = -INFINITY;
        for (int64_t byte = 0; byte < 256; byte++) {
            float score = 0;
            for (int64_t c = 0; c < kWidth; c++) score += h[c] * embedding_[static_cast<size_t>(byte * kWidth + c)];
            if (score > top) top = score, best = byte;
        }
        return best;
    }

private:
    std::vector<float> embedding_, normed_, mixed_;
    std::vector<std::unique_ptr<layer::Layer>> layers_;
};

/// Of what the layers added to the embeddings of the bytes from `at`.
gdn_test::Error distance(
    const Stack &stack, const std::string &text, int64_t at, const float *given, const double *expected, int64_t rows) {
    gdn_test::ErrorSum sum;
    for (int64_t t = 0; t < rows; t++) {
        const float *embedding = stack.embedding(text[static_cast<size_t>(at + t)]);
        for (int64_t c = 0; c < kWidth; c++) {
            const double from = embedding[c];
            sum.add(given[t * kWidth + c] - from, expected[t * kWidth + c] - from);
        }
    }
    return sum.error();
}

/// Four times an untrained layer's matrices, so that gates open and values matter.
layer::StateDict lively_weights(uint64_t seed) {
    layer::StateDict weights = layer::initialise(config(), seed);
    for (auto &[name, tensor] : weights) {
        if (tensor.shape.size() != 2) continue;
        for (float &value : tensor.data) value *= 4;
    }
    return weights;
}

struct Check {
    gdn_test::Error prefill, steps, state;
};

/// The first bytes, by chunks and then one by one from that state, against both layers in double.
Check check_prefix(const std::string &text, Stack &stack, const std::vector<layer::StateDict> &weights) {
    const int64_t T = kCheckPrefill + kCheckSteps;
    std::vector<double> expected(static_cast<size_t>(T * kWidth)), normed(expected.size());
    for (int64_t t = 0; t < T; t++) std::copy_n(stack.embedding(text[static_cast<size_t>(t)]), kWidth, expected.data() + t * kWidth);
    std::vector<gdn_reference::Layer::State> states;
    for (const layer::StateDict &one : weights) {
        const gdn_reference::Layer reference(config(), one);
        states.push_back(reference.start());
        normalise(expected.data(), normed.data(), T);
        const std::vector<float> rounded(normed.begin(), normed.end());
        const std::vector<double> mixed = reference.forward(rounded.data(), T, states.back());
        for (size_t i = 0; i < expected.size(); i++) expected[i] += mixed[i];
    }

    std::vector<float> h(expected.size());
    Stack::States ours = stack.start();
    stack.read(text, 0, kCheckPrefill, ours, h.data());
    for (int64_t t = kCheckPrefill; t < T; t++) stack.read(text, t, t + 1, ours, h.data() + t * kWidth);
    Check check;
    check.prefill = distance(stack, text, 0, h.data(), expected.data(), kCheckPrefill);
    check.steps =
        distance(stack, text, kCheckPrefill, h.data() + kCheckPrefill * kWidth, expected.data() + kCheckPrefill * kWidth, kCheckSteps);
    for (size_t l = 0; l < states.size(); l++) {
        gdn_test::ErrorSum sum;
        for (size_t i = 0; i < states[l].S.size(); i++) sum.add(ours[l].recurrent[i], states[l].S[i]);
        check.state.worst(sum.error());
    }
    return check;
}

/// The operator's call inside a layer, for the question which kernels it takes.
nlohmann::ordered_json kernels(const Context &context, int64_t tokens) {
    Setup setup;
    setup.variant = "gdn2";
    setup.tokens = tokens;
    setup.heads = kHeads;
    setup.dk = setup.dv = kDim;
    setup.decay = "softplus", setup.gate = "logit", setup.l2norm = true;
    return explain(context, Problem(setup, Inputs::kNone, 1).args);
}

}  // namespace

void demo_layers(const std::string &text, const std::string &target, int threads) {
    const Style &s = style();
    const int64_t T = std::min<int64_t>(static_cast<int64_t>(text.size()), kMost), decoded = std::min<int64_t>(kDecoded, T / 2);
    layer::set_blas_threads(1);  // this process is ours: products are cut over the context's threads
    gdn::Context context = open_context(target, threads);
    const Context operator_context(target, threads);
    std::vector<layer::StateDict> weights;
    for (int64_t l = 0; l < kLayers; l++) weights.push_back(lively_weights(static_cast<uint64_t>(l + 1)));
    Stack stack(context, weights);
    const long long parameters = layer::parameter_count(config());
    std::printf("%sTwo GDN-2 layers%s read %s bytes: %lld wide, %lld heads of %lld x %lld, %s seeded weights each, float32, %d thread%s\n",
        s.bold, s.off, grouped(T).c_str(), static_cast<long long>(kWidth), static_cast<long long>(kHeads), static_cast<long long>(kDim),
        static_cast<long long>(kDim), grouped(parameters).c_str(), threads, threads == 1 ? "" : "s");

    const Check check = check_prefix(text, stack, weights);
    const bool right =
        check.prefill.within(gdn_test::kBoundF32) && check.steps.within(gdn_test::kBoundF32) && check.state.within(gdn_test::kBoundF32);
    std::printf("\n%sRight?%s   %lld bytes by chunks, then %lld one by one from that state, against both layers in double precision:\n",
        s.bold, s.off, static_cast<long long>(kCheckPrefill), static_cast<long long>(kCheckSteps));
    std::printf("    relative error %.1e by chunks, %.1e by steps, %.1e of the states: %s%s%s (bound %.0e)\n", check.prefill.rms,
        check.steps.rms, check.state.rms, right ? s.good : s.bad, right ? "ok" : "out of bounds", s.off, gdn_test::kBoundF32);
    if (!right) throw Failure(kExitVerification, "the layers disagree with their double reference");

    // All of it by chunks; then its end once more, one by one from the state before.
    const nlohmann::ordered_json prefill_kernels = kernels(operator_context, kPiece), step_kernels = kernels(operator_context, 1);
    const int lanes = vector_lanes(prefill_kernels["target"]);
    std::vector<float> h(static_cast<size_t>(kPiece * kWidth)), last(static_cast<size_t>(decoded * kWidth)), row(kWidth);
    Stack::States states = stack.start(), before;
    double prefill_seconds = 0, step_seconds = 0, peak = fma_peak(lanes);
    {
        Progress progress("reading");
        for (int64_t from = 0, to; from < T; from = to) {
            progress.update(static_cast<double>(from), static_cast<double>(T));
            if (from == T - decoded) before = states;
            to = std::min(from + kPiece, from < T - decoded ? T - decoded : T);
            const double start = now();
            stack.read(text, from, to, states, h.data());
            prefill_seconds += now() - start;
            if (from / kPiece % 8 == 0) peak = std::max(peak, fma_peak(lanes));
            if (from == T - decoded) std::copy_n(h.data(), decoded * kWidth, last.data());
        }
    }
    const auto flop_of = [&] {  // two a weight and token, 7 K V of the operator
        double macs = 0;
        for (const layer::TensorSpec &spec : layer::weights(config()))
            if (spec.shape.size() == 2) macs += static_cast<double>(spec.shape[0] * spec.shape[1]);
        return static_cast<double>(kLayers) * (2 * macs + 7.0 * kHeads * kDim * kDim);
    };
    const double gflops = flop_of() * static_cast<double>(T) / prefill_seconds * 1e-9;
    std::printf("\n%sPrefill%s  %s bytes/s through the stack, %.0f GFLOP/s", s.bold, s.off,
        grouped(static_cast<long long>(static_cast<double>(T) / prefill_seconds)).c_str(), gflops);
    if (threads == 1) std::printf(", %s%.0f %%%s of this core's peak of %.0f", s.bold, 100 * gflops / peak, s.off, peak);
    std::printf("; in each layer, between the products:\n");
    print_kernels(prefill_kernels, false);

    gdn_test::ErrorSum apart;
    int64_t same = 0;
    for (int64_t t = 0; t < decoded; t++) {
        const double start = now();
        stack.read(text, T - decoded + t, T - decoded + t + 1, before, row.data());
        step_seconds += now() - start;
        const float *by_chunks = last.data() + t * kWidth;
        const float *embedding = stack.embedding(text[static_cast<size_t>(T - decoded + t)]);
        for (int64_t c = 0; c < kWidth; c++) {
            const double from = embedding[c];
            apart.add(row[static_cast<size_t>(c)] - from, by_chunks[c] - from);
        }
        same += stack.next_byte(row.data()) == stack.next_byte(by_chunks);
    }
    check_interrupt();
    const gdn_test::Error between = apart.error();
    const bool agree = between.within(gdn_test::kBoundF32);
    std::printf("\n%sDecode%s   %s bytes/s one by one, %.0f us each: the last %lld bytes again from the states before them.\n", s.bold,
        s.off, grouped(static_cast<long long>(static_cast<double>(decoded) / step_seconds)).c_str(),
        step_seconds * 1e6 / static_cast<double>(decoded), static_cast<long long>(decoded));
    std::printf("    relative distance from prefill %.1e, the same likeliest next byte %lld of %lld times: %s%s%s (bound %.0e)\n",
        between.rms, static_cast<long long>(same), static_cast<long long>(decoded), agree ? s.good : s.bad, agree ? "ok" : "out of bounds",
        s.off, gdn_test::kBoundF32);
    if (!agree) throw Failure(kExitVerification, "prefill and decoding disagree");
    print_kernels(step_kernels, false);
}

}  // namespace gdn::cli
