#include "operator.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>

#include "command.h"
#include "console.h"
#include "tests/support/dtype.h"

namespace gdn::cli {
namespace {

const std::vector<std::string> kVariants = {"delta_rule", "gla", "gdn", "kda", "gdn2", "fg2", "fg2_plus"};  // in the order of gdn_variant
const std::vector<std::string> kDtypes = {"f32", "bf16", "f16"};                                            // from GDN_DTYPE_F32
const std::vector<std::string> kDecays = {"log", "linear", "softplus", "lower_bound"};                      // gdn_decay
const std::vector<std::string> kGates = {"value", "logit"};                                                 // gdn_gate
const std::vector<std::string> kPrecisions = {"f32", "low"};                                                // gdn_precision

int index_of(const std::vector<std::string> &names, const std::string &name) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) throw Failure(kExitUsage, "unknown name \"" + name + "\"");
    return static_cast<int>(found - names.begin());
}

/// Cheap seeded numbers: filling 200 MB must not outlast the benchmark that reads them.
class Noise {
public:
    explicit Noise(uint64_t seed) : state_(seed) {}

    uint64_t bits() {  // splitmix64
        uint64_t z = state_ += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }
    float uniform() { return static_cast<float>(bits() >> 40) * 0x1p-24f; }
    float uniform(float low, float high) { return low + (high - low) * uniform(); }
    /// Mean 0, variance 1: four uniform numbers of 16 bits, summed.
    float normal() {
        const uint64_t x = bits();
        const uint64_t sum = (x & 0xFFFF) + (x >> 16 & 0xFFFF) + (x >> 32 & 0xFFFF) + (x >> 48);
        return (static_cast<float>(sum) * 0x1p-16f - 2.0f) * 1.7320508f;
    }
    bool chance(float p) { return uniform() < p; }

private:
    uint64_t state_;
};

/// Calls make(row) for every innermost row; what it leaves in the row is rounded into the tensor.
void fill_rows(Tensor &tensor, const std::function<void(std::vector<float> &row)> &make) {
    if (!tensor.view.data) return;
    const gdn_tensor &view = tensor.view;
    std::vector<float> row(static_cast<size_t>(view.shape[view.ndim - 1]));
    const size_t size = gdn_test::dtype_bytes(view.dtype), rows = static_cast<size_t>(tensor.elements()) / std::max<size_t>(row.size(), 1);
    auto *to = static_cast<unsigned char *>(view.data);
    for (size_t r = 0; r < rows; r++, to += row.size() * size) {
        make(row);
        if (view.dtype == GDN_DTYPE_F32) {
            std::memcpy(to, row.data(), row.size() * size);
        } else {
            for (size_t c = 0; c < row.size(); c++) gdn_test::store_element(view.dtype, to + c * size, row[c]);
        }
    }
}

/// Row `index` (all dimensions but the last, row-major) as floats; empty for an absent tensor.
std::vector<float> read_row(const Tensor &tensor, int64_t index) {
    if (!tensor.view.data) return {};
    const int64_t channels = tensor.view.shape[tensor.view.ndim - 1];
    std::vector<float> row(static_cast<size_t>(channels));
    for (int64_t c = 0; c < channels; c++) row[static_cast<size_t>(c)] = element(tensor, index * channels + c);
    return row;
}

}  // namespace

void check(gdn_status status, const char *what) {
    if (status == GDN_STATUS_OK) return;
    throw Failure(kExitFailure, std::string(what) + ": " + gdn_status_string(status) + ": " + gdn_last_error());
}

const std::vector<std::string> &variant_names() { return kVariants; }

const std::vector<std::string> &dtype_names() { return kDtypes; }

std::string Setup::text() const {
    std::string text = variant + " " + dtype + ", " + std::to_string(heads) + (heads == 1 ? " head of " : " heads of ") +
                       std::to_string(dk) + " x " + std::to_string(dv);
    if (key_heads && key_heads != heads) text += " over " + std::to_string(key_heads) + " key heads";
    if (decay != "log") text += ", " + decay + " decay";
    if (gate != "value") text += ", gate logits";
    if (l2norm) text += ", l2 norm inside";
    if (precision != "f32") text += ", low precision";
    if (v_first) text += ", V-first state";
    if (pending) text += ", writes pending";
    return text;
}

nlohmann::ordered_json Setup::json() const {
    return {{"variant", variant}, {"dtype", dtype}, {"batch", batch}, {"tokens", tokens}, {"heads", heads}, {"key_heads", query_heads()},
        {"dk", dk}, {"dv", dv}, {"decay", decay}, {"gate", gate}, {"l2norm", l2norm}, {"precision", precision},
        {"state_layout", v_first ? "v_first" : "k_first"}, {"pending", pending}, {"threads", threads}};
}

void add_setup_options(CLI::App &app, Setup &setup) {
    const CLI::Range kSize(1, 256);
    const CLI::Range kCount(int64_t{1}, int64_t{1} << 20);
    app.add_option("--variant", setup.variant, "Member of the family")->check(CLI::IsMember(kVariants))->capture_default_str();
    app.add_option("--dtype", setup.dtype, "Type of q, k, v, o and the gates")->check(CLI::IsMember(kDtypes))->capture_default_str();
    app.add_option("--heads", setup.heads, "Value heads")->check(kCount)->capture_default_str();
    app.add_option("--key-heads", setup.key_heads, "Key heads, a divisor of --heads [as many as --heads]")->check(kCount);
    app.add_option("--dk", setup.dk, "Key channels")->check(kSize)->capture_default_str();
    app.add_option("--dv", setup.dv, "Value channels")->check(kSize)->capture_default_str();
    app.add_option("--threads", setup.threads, "Threads of the context")->check(CLI::Range(1, 1024))->capture_default_str();
    app.add_option("--target", setup.target, "Target of `gdn info`, or auto: GDN_TARGET, else the best one of this machine")
        ->capture_default_str();
    app.add_option("--decay", setup.decay, "Unit of g")->check(CLI::IsMember(kDecays))->capture_default_str();
    app.add_option("--gate", setup.gate, "Unit of beta, b, w")->check(CLI::IsMember(kGates))->capture_default_str();
    app.add_flag_callback(
        "--logits",
        [&setup] {
            setup.decay = "softplus";
            setup.gate = "logit";
        },
        "Raw logits in: --decay softplus --gate logit");
    app.add_flag("--l2norm", setup.l2norm, "q and k are l2-normalised inside");
    app.add_option("--precision", setup.precision, "low: bfloat16 products where the CPU has them")
        ->check(CLI::IsMember(kPrecisions))
        ->capture_default_str();
    app.add_flag("--v-first", setup.v_first, "State is [V, K] instead of [K, V]");
    app.add_flag("--pending", setup.pending, "Of a step: its write stays pending until the next one (final_pending), one pass over the state");
}

Setup changed(const Setup &setup, const std::string &changes) {
    Setup result = setup;
    CLI::App parser;
    add_setup_options(parser, result);
    parser.add_option("--tokens", result.tokens)->check(CLI::NonNegativeNumber);
    parser.add_option("--batch", result.batch)->check(CLI::PositiveNumber);
    std::vector<std::string> arguments;
    for (size_t begin = 0; begin <= changes.size();) {
        const size_t end = std::min(changes.find(',', begin), changes.size());
        if (end > begin) arguments.push_back("--" + changes.substr(begin, end - begin));
        begin = end + 1;
    }
    std::reverse(arguments.begin(), arguments.end());  // the order in which CLI11 takes them from a vector
    try {
        parser.parse(arguments);
    } catch (const CLI::ParseError &error) {
        throw Failure(kExitUsage, "--against " + changes + ": " + error.what());
    }
    return result;
}

Context::Context(const std::string &target, int threads, uint32_t flags) {
    gdn_context_options options;
    gdn_context_options_init(&options);
    options.num_threads = threads;
    options.flags = flags;
    const bool forced = target != "auto" || std::getenv("GDN_TARGET");
    if (target != "auto") options.target = target.c_str();
    gdn_context *context = nullptr;
    const gdn_status status = gdn_context_create(&options, &context);
    context_.reset(context);
    if (status == GDN_STATUS_OK) return;
    const bool refused = forced && (status == GDN_STATUS_INVALID_ARGUMENT || status == GDN_STATUS_UNSUPPORTED);
    throw Failure(refused ? kExitNoTarget : kExitFailure, gdn_last_error());
}

nlohmann::ordered_json explain(const Context &context, const gdn_args &args) {
    size_t needed = 0;
    check(gdn_explain(context.get(), &args, nullptr, 0, &needed), "explain");
    std::string text(needed, '\0');
    check(gdn_explain(context.get(), &args, text.data(), text.size(), &needed), "explain");
    text.resize(std::strlen(text.c_str()));
    return nlohmann::ordered_json::parse(text);
}

void print_kernels(const nlohmann::ordered_json &explanation, bool with_config) {
    for (const nlohmann::ordered_json &kernel : explanation["kernels"]) {
        std::string role = kernel["role"];
        if (kernel.contains("class")) role = kernel["class"].get<std::string>() + " " + role;
        if (kernel.contains("tensor")) role += " " + kernel["tensor"].get<std::string>();
        std::printf("    %-7s %s\n            %s%s%s\n", role.c_str(), kernel["kernel"].get<std::string>().c_str(), style().dim,
            kernel["why"].get<std::string>().c_str(), style().off);
        if (with_config) {
            std::printf("            %s%s, %s%s\n", style().dim, kernel["level"].get<std::string>().c_str(),
                kernel["config"].get<std::string>().c_str(), style().off);
        }
    }
}

const char *inputs_name(Inputs inputs) {
    switch (inputs) {
    case Inputs::kModerate:
        return "moderate";
    case Inputs::kRealistic:
        return "realistic";
    case Inputs::kWeakDecay:
        return "weak decay";
    case Inputs::kZerosOnes:
        return "zeros and ones";
    case Inputs::kSaturated:
        return "saturated";
    case Inputs::kParallelKeys:
        return "parallel keys";
    case Inputs::kNone:
        return "none";
    }
    return "";
}

Tensor::Tensor(gdn_dtype dtype, const std::vector<int64_t> &shape, bool huge_pages) {
    int64_t stride = 1;
    view.dtype = dtype;
    view.ndim = static_cast<int32_t>(shape.size());
    for (size_t i = shape.size(); i-- > 0;) {
        view.shape[i] = shape[i];
        view.strides[i] = stride;
        stride *= shape[i];
    }
    memory = Buffer(static_cast<size_t>(stride) * gdn_test::dtype_bytes(dtype), huge_pages);
    view.data = memory.data();
}

int64_t Tensor::elements() const {
    int64_t product = view.data ? 1 : 0;
    for (int i = 0; i < view.ndim; i++) product *= view.shape[i];
    return product;
}

float element(const Tensor &tensor, int64_t index) {
    const size_t size = gdn_test::dtype_bytes(tensor.view.dtype);
    return gdn_test::load_element(
        tensor.view.dtype, static_cast<const unsigned char *>(tensor.view.data) + static_cast<size_t>(index) * size);
}

void Distance::worst(const Distance &other) {
    o.worst(other.o);
    state.worst(other.state);
}

double Distance::rms() const { return std::max(o.rms, state.rms); }

Bounds bounds(const Setup &setup) {
    if (setup.precision == "low") return {gdn_test::kBound16, gdn_test::kBound16};
    return {setup.dtype == "f32" ? gdn_test::kBoundF32 : gdn_test::kBound16, gdn_test::kBoundF32};
}

Problem::Problem(const Setup &setup, Inputs inputs, uint64_t seed, bool huge_pages) : setup_(setup) {
    const int64_t B = setup.batch, T = setup.tokens, H = setup.query_heads(), HV = setup.heads, K = setup.dk, V = setup.dv;
    const auto variant = static_cast<gdn_variant>(index_of(kVariants, setup.variant));
    const auto dtype = static_cast<gdn_dtype>(index_of(kDtypes, setup.dtype) + GDN_DTYPE_F32);
    const auto decay = static_cast<gdn_decay>(index_of(kDecays, setup.decay));
    const auto make = [&](gdn_dtype type, const std::vector<int64_t> &shape) { return Tensor(type, shape, huge_pages); };

    q = make(dtype, {B, T, H, K});
    k = make(dtype, {B, T, H, K});
    v = make(dtype, {B, T, HV, V});
    o = make(dtype, {B, T, HV, V});
    const bool logits = decay == GDN_DECAY_SOFTPLUS || decay == GDN_DECAY_LOWER_BOUND;
    const gdn_dtype g_type = logits ? dtype : GDN_DTYPE_F32;  // a decay that is already computed comes in float32, as engines do it
    if (variant == GDN_VARIANT_GDN) g = make(g_type, {B, T, HV});
    if (variant != GDN_VARIANT_GDN && variant != GDN_VARIANT_DELTA_RULE) g = make(g_type, {B, T, HV, K});
    if (logits && variant != GDN_VARIANT_DELTA_RULE) {
        A_log = make(GDN_DTYPE_F32, {HV});
        dt_bias = variant == GDN_VARIANT_GDN ? make(GDN_DTYPE_F32, {HV}) : make(GDN_DTYPE_F32, {HV, K});
    }
    switch (variant) {
    case GDN_VARIANT_GLA:
        break;
    case GDN_VARIANT_DELTA_RULE:
    case GDN_VARIANT_GDN:
    case GDN_VARIANT_KDA:
        beta = make(dtype, {B, T, HV});
        break;
    case GDN_VARIANT_GDN2:
        b = make(dtype, {B, T, HV, K});
        w = make(dtype, {B, T, HV, V});
        break;
    case GDN_VARIANT_FG2:
        beta = make(dtype, {B, T, HV, K});
        break;
    case GDN_VARIANT_FG2_PLUS:
        beta_k = make(dtype, {B, T, HV, K});
        beta_v = make(dtype, {B, T, HV, V});
        break;
    }
    const std::vector<int64_t> state = setup.v_first ? std::vector<int64_t>{B, HV, V, K} : std::vector<int64_t>{B, HV, K, V};
    initial_state = make(GDN_DTYPE_F32, state);
    final_state = make(GDN_DTYPE_F32, state);
    if (inputs != Inputs::kNone) {
        fill(inputs, seed);
        poison();
    }

    gdn_args_init(&args);
    args.variant = variant;
    args.decay = decay;
    args.gate = static_cast<gdn_gate>(index_of(kGates, setup.gate));
    args.precision = static_cast<gdn_precision>(index_of(kPrecisions, setup.precision));
    args.state_layout = setup.v_first ? GDN_STATE_V_FIRST : GDN_STATE_K_FIRST;
    args.qk_l2norm = setup.l2norm;
    args.q = q.view;
    args.k = k.view;
    args.v = v.view;
    args.g = g.view;
    args.beta = beta.view;
    args.b = b.view;
    args.w = w.view;
    args.beta_k = beta_k.view;
    args.beta_v = beta_v.view;
    args.A_log = A_log.view;
    args.dt_bias = dt_bias.view;
    args.initial_state = initial_state.view;
    args.o = o.view;
    args.final_state = final_state.view;
}

void Problem::fill(Inputs inputs, uint64_t seed) {
    Noise noise(seed * 0x2545F4914F6CDD1Du + static_cast<uint64_t>(inputs));
    const auto unit = [&](std::vector<float> &row, bool parallel) {
        const float spread = 0.1f / std::sqrt(static_cast<float>(row.size()));
        float sum = 0;
        for (size_t c = 0; c < row.size(); c++) {
            row[c] = parallel ? (c == 0 ? 1.0f : 0.0f) + spread * noise.normal() : noise.normal();
            sum += row[c] * row[c];
        }
        const float length = setup_.l2norm ? noise.uniform(0.5f, 2.0f) : 1.0f;
        for (float &x : row) x *= sum > 0 ? length / std::sqrt(sum) : 0.0f;
    };
    fill_rows(q, [&](auto &row) { unit(row, false); });
    fill_rows(k, [&](auto &row) { unit(row, inputs == Inputs::kParallelKeys); });
    fill_rows(v, [&](auto &row) {
        for (float &x : row) x = inputs == Inputs::kRealistic ? -0.3f + 25.3f * std::pow(noise.uniform(), 4.0f) : noise.normal();
    });

    const auto log_uniform = [&](float low, float high) { return std::exp(noise.uniform(std::log(low), std::log(high))); };
    const auto log_decay = [&]() -> float {
        switch (inputs) {
        case Inputs::kModerate:
            return noise.uniform(-1.0f, -0.1f);
        case Inputs::kRealistic:
            return -log_uniform(1e-4f, 316.0f);
        case Inputs::kWeakDecay:
            return -log_uniform(1e-6f, 1e-3f);
        case Inputs::kZerosOnes:
            return noise.chance(0.2f) ? -std::numeric_limits<float>::infinity() : 0.0f;
        case Inputs::kSaturated:
            return -5.0f;
        case Inputs::kParallelKeys:
            return -log_uniform(1e-6f, 1e-4f);
        case Inputs::kNone:
            break;
        }
        return 0;
    };
    const auto decay_logit = [&]() -> float {
        switch (inputs) {
        case Inputs::kZerosOnes:
            return noise.chance(0.2f) ? 1e4f : -1e4f;
        case Inputs::kSaturated:
            return 30.0f;
        case Inputs::kWeakDecay:
        case Inputs::kParallelKeys:
            return -8.0f + noise.normal();
        default:
            return noise.normal();
        }
    };
    fill_rows(g, [&](auto &row) {
        for (float &x : row) x = setup_.decay == "log" ? log_decay() : setup_.decay == "linear" ? std::exp(log_decay()) : decay_logit();
    });
    // As layers start: A in [1, 16], softplus(dt_bias) in [1e-3, 1e-1]; the bounded form starts at A = 1.
    fill_rows(A_log, [&](auto &row) {
        for (float &x : row) x = setup_.decay == "softplus" ? std::log(noise.uniform(1.0f, 16.0f)) : noise.uniform(-0.5f, 0.5f);
    });
    fill_rows(dt_bias, [&](auto &row) {
        for (float &x : row) {
            const float dt = log_uniform(1e-3f, 1e-1f);
            x = dt + std::log(-std::expm1(-dt));
        }
    });

    const auto gate = [&]() -> float {
        const bool logit = setup_.gate == "logit";
        switch (inputs) {
        case Inputs::kZerosOnes:
            return noise.chance(0.3f) ? (logit ? -1e4f : 0.0f) : (logit ? 1e4f : 1.0f);
        case Inputs::kSaturated:
            return logit ? noise.uniform(2.0f, 9.0f) : 1.0f - noise.uniform() * 0x1p-8f;
        case Inputs::kParallelKeys:
            return logit ? noise.uniform(0.0f, 9.0f) : noise.uniform(0.5f, 1.0f);
        default:
            return logit ? noise.normal() : noise.uniform();
        }
    };
    for (Tensor *tensor : {&beta, &b, &w, &beta_k, &beta_v}) {
        fill_rows(*tensor, [&](auto &row) {
            for (float &x : row) x = gate();
        });
    }
    fill_rows(initial_state, [&](auto &row) {
        for (float &x : row) x = 0.3f * noise.normal();
    });
}

int64_t Problem::bytes() const {
    int64_t sum = 0;
    for (const Tensor *tensor : {&q, &k, &v, &g, &beta, &b, &w, &beta_k, &beta_v, &A_log, &dt_bias, &initial_state, &o, &final_state}) {
        sum += tensor->elements() * static_cast<int64_t>(gdn_test::dtype_bytes(tensor->view.dtype));
    }
    return sum;
}

void Problem::poison() {
    std::memset(o.memory.data(), 0xFF, o.memory.size());
    std::memset(final_state.memory.data(), 0xFF, final_state.memory.size());
}

void Problem::use_one_state() {
    final_state = Tensor();
    args.final_state = initial_state.view;
    if (setup_.pending) {
        const int64_t width = 2 * setup_.dk + setup_.dv;
        pending = Tensor(GDN_DTYPE_F32, {setup_.batch, setup_.heads, width}, false);
        auto *row = static_cast<float *>(pending.memory.data());
        for (int64_t i = 0; i < setup_.batch * setup_.heads; i++, row += width) {
            std::fill_n(row, setup_.dk, 1.0f);
            std::fill_n(row + setup_.dk, width - setup_.dk, 0.0f);
        }
        args.initial_pending = args.final_pending = pending.view;
    }
}

gdn_reference::Operands Problem::operands(int64_t n, int64_t hv, int64_t tokens) const {
    gdn_reference::Operands x;
    const int64_t T = setup_.tokens, K = setup_.dk, V = setup_.dv;
    x.variant = args.variant;
    x.decay = args.decay;
    x.gate = args.gate;
    x.v_first = setup_.v_first;
    x.l2norm = setup_.l2norm;
    x.B = x.H = x.HV = 1;
    x.T = tokens;
    x.K = K;
    x.V = V;
    const auto copy = [&](gdn_reference::Array &to, const Tensor &from, int64_t head) {
        if (!from.view.data) return;
        const bool per_head = from.view.ndim == 3;  // [B, T, HV]: its row is all heads
        const int64_t heads = from.view.shape[2];
        to.T = tokens;
        to.heads = 1;
        to.channels = per_head ? 1 : from.view.shape[3];
        for (int64_t t = 0; t < tokens; t++) {
            const std::vector<float> row = read_row(from, per_head ? n * T + t : (n * T + t) * heads + head);
            if (per_head)
                to.data.push_back(row[static_cast<size_t>(head)]);
            else
                to.data.insert(to.data.end(), row.begin(), row.end());
        }
    };
    const int64_t h = hv / (setup_.heads / setup_.query_heads());
    copy(x.q, q, h);
    copy(x.k, k, h);
    copy(x.v, v, hv);
    copy(x.g, g, hv);
    copy(x.beta, beta, hv);
    copy(x.b, b, hv);
    copy(x.w, w, hv);
    copy(x.beta_k, beta_k, hv);
    copy(x.beta_v, beta_v, hv);
    if (A_log.view.data) x.A_log = {read_row(A_log, 0)[static_cast<size_t>(hv)]};
    if (dt_bias.view.data)
        x.dt_bias = dt_bias.view.ndim == 1 ? std::vector<float>{read_row(dt_bias, 0)[static_cast<size_t>(hv)]} : read_row(dt_bias, hv);
    const auto *state = static_cast<const float *>(initial_state.view.data) + (n * setup_.heads + hv) * K * V;
    x.initial_state.assign(state, state + K * V);
    return x;
}

Distance Problem::distance(const gdn_reference::Result &expected, int64_t n, int64_t hv, int64_t tokens) const {
    const int64_t kChunk = 8, V = setup_.dv, states = setup_.dk * V;
    gdn_test::ErrorSum all, last, state;
    for (int64_t t = 0; t < tokens; t++) {
        const std::vector<float> row = read_row(o, (n * setup_.tokens + t) * setup_.heads + hv);
        for (int64_t d = 0; d < V; d++) {
            const double want = expected.o[static_cast<size_t>(t * V + d)];
            all.add(row[static_cast<size_t>(d)], want);
            if (t >= (tokens - 1) / kChunk * kChunk) last.add(row[static_cast<size_t>(d)], want);
        }
    }
    Distance distance;
    distance.o = all.error();
    distance.o.worst(last.error());
    if (tokens == setup_.tokens) {
        const auto *final = static_cast<const float *>(args.final_state.data) + (n * setup_.heads + hv) * states;
        const int64_t row = (n * setup_.heads + hv) * (2 * setup_.dk + V);
        const auto *write = setup_.pending ? static_cast<const float *>(pending.view.data) + row : nullptr;
        for (int64_t i = 0; i < states; i++) {
            const int64_t c = setup_.v_first ? i % setup_.dk : i / V, j = setup_.v_first ? i / setup_.dk : i % V;
            const float settled = write ? write[c] * final[i] + write[setup_.dk + c] * write[2 * setup_.dk + j] : final[i];
            state.add(settled, expected.final_state[0][static_cast<size_t>(i)]);
        }
        distance.state = state.error();
    }
    return distance;
}

Buffer workspace(const Context &context, const gdn_args &args, bool huge_pages) {
    size_t bytes = 0;
    check(gdn_workspace_size(context.get(), &args, &bytes), "workspace size");
    return Buffer(std::max<size_t>(bytes, 64), huge_pages);
}

}  // namespace gdn::cli
