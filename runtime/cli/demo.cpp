// gdn demo: a stack of two GDN-2 layers reads a text (layer_demo.cpp), then the heads of the operator alone remember it.
//
// In the second part nothing is trained. Head h binds the last n(h) bytes into a key (the product of their seeded sign vectors) and writes the embedding of
// the byte that came next under it: k_t is the context before byte t, v_t the embedding of byte t, q_t the context that ends with it. What
// o_t reads back is therefore a guess of byte t + 1, and the delta rule keeps correcting it: an n-gram memory that learns while it reads.
// Gates are logits from seeded projections of the byte, as in a layer; decay, sigmoid and l2 norm run inside the operator.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>

#include "command.h"
#include "console.h"
#include "machine.h"
#ifdef GDN_HAS_LAYER
#include "layer_demo.h"
#endif
#include "operator.h"
#include "tests/support/metric.h"
#ifdef GDN_HAS_TUNE
#include "tune_demo.h"
#endif

namespace gdn::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kHeads = 16, kOrders = 8, kDim = 128, kRow = kHeads * kDim;
constexpr int64_t kPiece = 2048;                          // tokens of one prefill call; the state carries over
constexpr int64_t kCheckPrefill = 480, kCheckSteps = 32;  // of the check against double precision
constexpr int64_t kWritten = 240;                         // bytes that the demo writes itself
constexpr int64_t kTimedSteps = 1000;
constexpr float kClosed = -100.0f;  // logit of a gate that is zero
#ifdef GDN_HAS_LAYER
constexpr bool kExplain = false;  // the layers have named the same kernels
#else
constexpr bool kExplain = true;
#endif

struct Options {
    std::string file, target = "auto";
    int threads = 1;
    double tune_seconds = 60;
};

/// Seeded tables that turn bytes into q, k, v and gate logits.
class Layer {
public:
    Layer() : signs_(kHeads / kOrders * kOrders * 256 * kDim), bytes_(256 * kDim), g_(256 * kRow), b_(256 * kRow), w_(256 * kRow) {
        std::mt19937_64 engine(2605);
        std::normal_distribution<float> normal;
        const float unit = 1 / std::sqrt(static_cast<float>(kDim));
        for (float &x : signs_) x = normal(engine) < 0 ? -1.0f : 1.0f;
        for (float &x : bytes_) x = unit * normal(engine);
        for (float &x : g_) x = 0.5f * normal(engine);
        // sigmoid(-2.2) is about 0.1: small corrections, so that rare contexts do not overwrite common ones.
        for (std::vector<float> *gate : {&b_, &w_}) {
            for (float &x : *gate) x = -2.2f + 0.3f * normal(engine);
        }
    }

    /// The contexts that end with byte `at` of the text, one key of length sqrt(kDim) a head: [kHeads][kDim].
    void context(const std::string &text, int64_t at, float *row) const {
        for (int64_t h = 0; h < kHeads; h++) {
            const int64_t order = h % kOrders, set = h / kOrders;
            const unsigned char byte = at >= order ? static_cast<unsigned char>(text[static_cast<size_t>(at - order)]) : 0;
            const float *sign = signs_.data() + ((set * kOrders + order) * 256 + byte) * kDim;
            for (int64_t c = 0; c < kDim; c++) row[h * kDim + c] = order ? row[(h - 1) * kDim + c] * sign[c] : sign[c];
        }
    }
    const float *embedding(unsigned char byte) const { return bytes_.data() + byte * kDim; }
    const float *g(unsigned char byte) const { return g_.data() + byte * kRow; }
    const float *b(unsigned char byte) const { return b_.data() + byte * kRow; }
    const float *w(unsigned char byte) const { return w_.data() + byte * kRow; }

private:
    std::vector<float> signs_, bytes_, g_, b_, w_;
};

/// Inputs and outputs of up to `capacity` consecutive tokens, [1, T, kHeads, kDim] each.
struct Piece {
    explicit Piece(int64_t capacity)
        : q(make(capacity)), k(make(capacity)), v(make(capacity)), g(make(capacity)), b(make(capacity)), w(make(capacity)),
          o(make(capacity)) {}

    static Tensor make(int64_t tokens) { return Tensor(GDN_DTYPE_F32, {1, tokens, kHeads, kDim}, false); }
    static float *row(const Tensor &tensor, int64_t t) { return static_cast<float *>(tensor.view.data) + t * kRow; }

    /// `open` false: nothing is written or erased, the memory is only read.
    void fill(const Layer &layer, const std::string &text, int64_t from, int64_t to, bool open = true) {
        tokens = to - from;
        for (int64_t t = 0; t < tokens; t++) {
            const auto byte = static_cast<unsigned char>(text[static_cast<size_t>(from + t)]);
            layer.context(text, from + t, row(q, t));
            if (t > 0)
                std::memcpy(row(k, t), row(q, t - 1), kRow * sizeof(float));
            else
                layer.context(text, from - 1, row(k, 0));
            for (int64_t h = 0; h < kHeads; h++) std::memcpy(row(v, t) + h * kDim, layer.embedding(byte), kDim * sizeof(float));
            std::memcpy(row(g, t), layer.g(byte), kRow * sizeof(float));
            std::memcpy(row(b, t), layer.b(byte), kRow * sizeof(float));
            std::memcpy(row(w, t), layer.w(byte), kRow * sizeof(float));
            for (const Tensor *gate : {&b, &w}) {
                if (!open) std::fill_n(row(*gate, t), kRow, kClosed);
            }
        }
        std::memset(o.memory.data(), 0xFF, o.memory.size());
    }

    Tensor q, k, v, g, b, w, o;
    int64_t tokens = 0;
};

/// The heads with their state.
class Memory {
public:
    explicit Memory(const Options &options)
        : context(options.target, options.threads), state(GDN_DTYPE_F32, {1, kHeads, kDim, kDim}, false),
          A_log(GDN_DTYPE_F32, {kHeads}, false), dt_bias(GDN_DTYPE_F32, {kHeads, kDim}, false) {
        // alpha = exp(-softplus(g - 9.2)), about 1 - 1e-4: the memory reaches back ten thousand bytes.
        std::fill_n(static_cast<float *>(dt_bias.view.data), kRow, -9.2f);
    }

    void reset() { std::memset(state.memory.data(), 0, state.memory.size()); }

    gdn_args args(const Piece &piece) const {
        gdn_args args;
        gdn_args_init(&args);
        args.variant = GDN_VARIANT_GDN2;
        args.decay = GDN_DECAY_SOFTPLUS;
        args.gate = GDN_GATE_LOGIT;
        args.qk_l2norm = 1;
        const auto part = [&](const Tensor &tensor) {
            gdn_tensor view = tensor.view;
            view.shape[1] = piece.tokens;
            return view;
        };
        args.q = part(piece.q);
        args.k = part(piece.k);
        args.v = part(piece.v);
        args.g = part(piece.g);
        args.b = part(piece.b);
        args.w = part(piece.w);
        args.o = part(piece.o);
        args.A_log = A_log.view;
        args.dt_bias = dt_bias.view;
        args.initial_state = args.final_state = state.view;
        return args;
    }

    /// Returns the seconds spent in the operator.
    double forward(const Piece &piece) { return timed(gdn_forward, piece); }
    double step(const Piece &piece) { return timed(gdn_step, piece); }

    Context context;
    Tensor state, A_log, dt_bias;

private:
    double timed(gdn_status (*run)(gdn_context *, const gdn_args *, void *, size_t), const Piece &piece) {
        const gdn_args call = args(piece);
        size_t bytes = 0;
        check(gdn_workspace_size(context.get(), &call, &bytes), "workspace size");
        if (workspace_.size() < bytes) workspace_ = Buffer(bytes, false);
        const double start = now();
        check(run(context.get(), &call, workspace_.data(), workspace_.size()), "the operator");
        return now() - start;
    }

    Buffer workspace_;
};

/// Reads a row of o as a guess: one score a byte of the alphabet, the heads' sum against the embeddings.
class Reader {
public:
    Reader(const Layer &layer, const std::string &text) {
        bool seen[256] = {};
        for (unsigned char byte : text) seen[byte] = true;
        for (int byte = 0; byte < 256; byte++) {
            if (!seen[byte]) continue;
            alphabet_.push_back(static_cast<unsigned char>(byte));
            const float *from = layer.embedding(static_cast<unsigned char>(byte));
            embeddings_.insert(embeddings_.end(), from, from + kDim);
        }
        scores_.resize(alphabet_.size());
    }

    const std::vector<float> &scores(const float *o) {
        float sum[kDim] = {};
        for (int64_t h = 0; h < kHeads; h++) {
            for (int64_t d = 0; d < kDim; d++) sum[d] += o[h * kDim + d];
        }
        for (size_t i = 0; i < alphabet_.size(); i++) {
            const float *embedding = embeddings_.data() + i * kDim;
            float lanes[8] = {};  // eight sums side by side: vector instructions without reassociation
            for (int64_t d = 0; d < kDim; d += 8) {
                for (int64_t l = 0; l < 8; l++) lanes[l] += sum[d + l] * embedding[d + l];
            }
            scores_[i] = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
        }
        return scores_;
    }
    unsigned char best(const float *o) {
        const std::vector<float> &s = scores(o);
        return alphabet_[static_cast<size_t>(std::max_element(s.begin(), s.end()) - s.begin())];
    }
    /// Draws among the bytes that come close to the best one.
    unsigned char draw(const float *o, std::mt19937_64 &engine) {
        const double kClose = 0.7, kSharpness = 3;
        const std::vector<float> &s = scores(o);
        const double top = std::max<double>(*std::max_element(s.begin(), s.end()), 1e-6);
        std::vector<double> weight;
        for (float x : s) weight.push_back(x < kClose * top ? 0.0 : std::exp(kSharpness * (x / top - 1)));
        return alphabet_[std::discrete_distribution<size_t>(weight.begin(), weight.end())(engine)];
    }

private:
    std::vector<unsigned char> alphabet_;
    std::vector<float> embeddings_, scores_;
};

fs::path text_file(const Options &options) {
    if (!options.file.empty()) return options.file;
    // Beside an installed program, or in the source tree above a build folder.
    const fs::path folder = program_folder();
    const fs::path installed = folder / "../share/gdn/genesis.txt";
    if (fs::exists(installed)) return installed.lexically_normal();
    for (fs::path above = folder; above.has_relative_path(); above = above.parent_path()) {
        const fs::path text = above / "tests/data/genesis.txt";
        if (fs::exists(text)) return text;
    }
    throw Failure(kExitUsage, "the demo's own text is not near this program: name a text file");
}

std::string read_text(const fs::path &path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream stream;
    if (!file || !(stream << file.rdbuf())) throw Failure(kExitFailure, "cannot read " + path.string());
    const size_t kMost = size_t{16} << 20;
    std::string text = stream.str().substr(0, kMost);
    if (text.size() < static_cast<size_t>(kCheckPrefill + kCheckSteps)) {
        throw Failure(kExitUsage, format("%s is too short: the demo wants at least %lld bytes", path.c_str(),
                                      static_cast<long long>(kCheckPrefill + kCheckSteps)));
    }
    return text;
}

/// Prefill of the first tokens, then steps, against the double recurrence over all of them.
struct Check {
    gdn_test::Error prefill, steps, state;
    double seconds;
};

Check check_prefix(const Layer &layer, const std::string &text, Memory &memory) {
    const int64_t T = kCheckPrefill + kCheckSteps;
    const double start = now();
    Piece all(T);
    all.fill(layer, text, 0, T);
    gdn_reference::Operands x;
    x.variant = GDN_VARIANT_GDN2;
    x.decay = GDN_DECAY_SOFTPLUS;
    x.gate = GDN_GATE_LOGIT;
    x.l2norm = true;
    x.B = 1;
    x.T = T;
    x.H = x.HV = kHeads;
    x.K = x.V = kDim;
    const auto array = [&](const Tensor &tensor) {
        const float *data = Piece::row(tensor, 0);
        return gdn_reference::Array{std::vector<float>(data, data + T * kRow), T, kHeads, kDim};
    };
    x.q = array(all.q);
    x.k = array(all.k);
    x.v = array(all.v);
    x.g = array(all.g);
    x.b = array(all.b);
    x.w = array(all.w);
    x.A_log.assign(kHeads, 0.0f);
    x.dt_bias.assign(kRow, -9.2f);
    const gdn_reference::Result expected = gdn_reference::run(x);

    Check result;
    const auto compare = [&](gdn_test::Error &worst, const Piece &piece, int64_t from) {
        for (int64_t h = 0; h < kHeads; h++) {
            gdn_test::ErrorSum sum;
            for (int64_t t = 0; t < piece.tokens; t++) {
                for (int64_t d = 0; d < kDim; d++)
                    sum.add(Piece::row(piece.o, t)[h * kDim + d], expected.o[static_cast<size_t>(((from + t) * kHeads + h) * kDim + d)]);
            }
            worst.worst(sum.error());
        }
    };
    memory.reset();
    Piece head(kCheckPrefill), token(1);
    head.fill(layer, text, 0, kCheckPrefill);
    memory.forward(head);
    compare(result.prefill, head, 0);
    for (int64_t t = kCheckPrefill; t < T; t++) {
        token.fill(layer, text, t, t + 1);
        memory.step(token);
        compare(result.steps, token, t);
    }
    for (int64_t h = 0; h < kHeads; h++) {
        gdn_test::ErrorSum sum;
        for (int64_t i = h * kDim * kDim; i < (h + 1) * kDim * kDim; i++) {
            sum.add(static_cast<const float *>(memory.state.view.data)[i], expected.final_state[0][static_cast<size_t>(i)]);
        }
        result.state.worst(sum.error());
    }
    result.seconds = now() - start;
    return result;
}

/// Control characters as blanks, broken into lines.
void print_wrapped(const std::string &text, int indent, int width) {
    std::istringstream words(text);
    int column = 0;
    for (std::string word; words >> word;) {
        const int length = static_cast<int>(word.size());
        if (column && column + 1 + length > width) {
            std::printf("\n");
            column = 0;
        }
        if (!column)
            std::printf("%*s", indent, "");
        else
            std::printf(" ");
        std::printf("%s", word.c_str());
        column += length + (column ? 1 : 0);
    }
    std::printf("\n");
}

void run(const Options &options) {
    const Style &s = style();
    const fs::path path = text_file(options);
    const std::string text = read_text(path);
    const int64_t T = static_cast<int64_t>(text.size());
#ifdef GDN_HAS_LAYER
    demo_layers(text, options.target, options.threads);
    std::printf("\n");
#endif
    const Layer layer;
    Memory memory(options);

    std::printf("%sThe operator alone%s reads %s: %s bytes, %lld heads of %lld x %lld, float32, %d thread%s\n", s.bold, s.off,
        path.filename().c_str(), grouped(T).c_str(), static_cast<long long>(kHeads), static_cast<long long>(kDim),
        static_cast<long long>(kDim), options.threads, options.threads == 1 ? "" : "s");

    const Check check = check_prefix(layer, text, memory);
    const bool right =
        check.prefill.within(gdn_test::kBoundF32) && check.steps.within(gdn_test::kBoundF32) && check.state.within(gdn_test::kBoundF32);
    std::printf(
        "\n%sRight?%s   %lld bytes by chunks, then %lld by single steps from that state, against the recurrence in double precision:\n",
        s.bold, s.off, static_cast<long long>(kCheckPrefill), static_cast<long long>(kCheckSteps));
    std::printf("    relative error %.1e by chunks, %.1e by steps, %.1e of the state: %s%s%s (bound %.0e)\n", check.prefill.rms,
        check.steps.rms, check.state.rms, right ? s.good : s.bad, right ? "ok" : "out of bounds", s.off, gdn_test::kBoundF32);
    if (!right) throw Failure(kExitVerification, "the operator disagrees with the recurrence");

    // The whole text, piece by piece; the peak is sampled on the way.
    const int lanes = vector_lanes(explain(memory.context, memory.args(Piece(1)))["target"]);
    Reader reader(layer, text);
    Piece piece(kPiece);
    double seconds = 0, peak = fma_peak(lanes);
    int64_t hits = 0, late_hits = 0, counts[256] = {};
    memory.reset();
    {
        Progress progress("reading");
        for (int64_t from = 0; from < T; from += kPiece) {
            progress.update(static_cast<double>(from), static_cast<double>(T));
            piece.fill(layer, text, from, std::min(T, from + kPiece));
            seconds += memory.forward(piece);
            if (from / kPiece % 8 == 0) peak = std::max(peak, fma_peak(lanes));
            for (int64_t t = from; t < from + piece.tokens; t++) {
                counts[static_cast<unsigned char>(text[static_cast<size_t>(t)])]++;
                if (t + 1 >= T) break;
                const bool hit = reader.best(Piece::row(piece.o, t - from)) == static_cast<unsigned char>(text[static_cast<size_t>(t + 1)]);
                hits += hit;
                late_hits += hit && t >= T / 2;
            }
        }
    }
    const double token_heads = static_cast<double>(T * kHeads), flop = 7.0 * kDim * kDim;
    const double gflops = flop * token_heads / seconds * 1e-9;
    std::printf("\n%sPrefill%s  %s bytes/s: %.0f ns per token and head, %.0f GFLOP/s", s.bold, s.off,
        grouped(static_cast<int64_t>(static_cast<double>(T) / seconds)).c_str(), seconds * 1e9 / token_heads, gflops);
    if (options.threads == 1) std::printf(", %s%.0f %%%s of this core's peak of %.0f", s.bold, 100 * gflops / peak, s.off, peak);
    std::printf("\n");
    if (kExplain) print_kernels(explain(memory.context, memory.args(piece)), false);

    // On from the end of the text: each drawn byte is the next one that is read. The gates are closed, or the memory would learn its own
    // errors.
    std::string story = text;
    std::mt19937_64 engine(7);
    Piece token(1);
    std::vector<float> last(Piece::row(piece.o, piece.tokens - 1), Piece::row(piece.o, piece.tokens - 1) + kRow);
    double step_seconds = 0;
    for (int64_t i = 0; i < kWritten; i++) {
        story.push_back(static_cast<char>(reader.draw(last.data(), engine)));
        token.fill(layer, story, T + i, T + i + 1, false);
        memory.step(token);
        last.assign(Piece::row(token.o, 0), Piece::row(token.o, 0) + kRow);
    }
    for (int64_t i = 0; i < kTimedSteps; i++) step_seconds += memory.step(token);
    check_interrupt();
    std::printf("\n%sDecode%s   %s bytes/s one by one: %.0f ns per token and head, the state of %lld KiB a head in place\n", s.bold, s.off,
        grouped(static_cast<int64_t>(kTimedSteps / step_seconds)).c_str(), step_seconds * 1e9 / static_cast<double>(kTimedSteps * kHeads),
        static_cast<long long>(kDim * kDim * 4 / 1024));
    if (kExplain) print_kernels(explain(memory.context, memory.args(token)), false);

    const auto common = static_cast<unsigned char>(std::max_element(counts, counts + 256) - counts);
    std::printf("\n%sMemory%s   No weight was trained. Each head writes \"what came after the last 1 .. %lld bytes\" into its state, and "
                "reads it back:\n",
        s.bold, s.off, static_cast<long long>(kOrders));
    std::printf("    it guessed %s%.0f %%%s of the next bytes (%.0f %% in the second half; always guessing '%c' gives %.0f %%)\n", s.bold,
        100.0 * static_cast<double>(hits) / static_cast<double>(T - 1), s.off,
        200.0 * static_cast<double>(late_hits) / static_cast<double>(T - 1), common >= 32 && common < 127 ? common : '?',
        100.0 * static_cast<double>(counts[common]) / static_cast<double>(T));
    std::printf("    and goes on with its gates closed, each byte drawn from its own guess:\n%s", s.dim);
    print_wrapped(story.substr(static_cast<size_t>(T - 60)).substr(0, 60) + " ..." + story.substr(static_cast<size_t>(T)), 6, 100);
    std::printf("%s", s.off);

#ifdef GDN_HAS_TUNE
    if (options.tune_seconds > 0) {
        std::vector<std::string> kernels;
        std::string target;
        for (const Piece *call : {&piece, &token}) {
            const nlohmann::ordered_json explanation = explain(memory.context, memory.args(*call));
            target = explanation["target"];
            for (const auto &kernel : explanation["kernels"]) {
                const std::string symbol = kernel["kernel"], name = symbol.substr(5, symbol.find("__") - 5);  // after "gdnk_"
                if (std::find(kernels.begin(), kernels.end(), name) == kernels.end()) kernels.push_back(name);
            }
        }
        demo_tuning(kernels, target, options.tune_seconds);
    }
#endif
}

}  // namespace

void add_demo(CLI::App &app) {
    auto options = std::make_shared<Options>();
    CLI::App &command =
        *app.add_subcommand("demo", "GDN-2 reads a text: a stack of layers, then the operator alone; checked, timed, explained");
    command.add_option("FILE", options->file, "Any text [the Book of Genesis]")->check(CLI::ExistingFile);
    command.add_option("--threads", options->threads, "Threads of the context")->check(CLI::Range(1, 1024))->capture_default_str();
    command.add_option("--target", options->target, "Target of `gdn info`, or auto")->capture_default_str();
#ifdef GDN_HAS_TUNE
    command.add_option("--tune", options->tune_seconds, "Seconds of tuning at the end; 0: none")->check(CLI::NonNegativeNumber)->capture_default_str();
#endif
    command.footer("Examples:\n  gdn demo\n  gdn demo README.md --target x86_avx2");
    command.callback([options] { run(*options); });
}

}  // namespace gdn::cli
