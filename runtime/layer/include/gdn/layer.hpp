/// gdn::layer: token mixers as layers. Weights in, tokens in, hidden states out, with a persistent state. C++17, over gdn.h and a CBLAS.
///
///     gdn::Context context;
///     gdn::layer::Config config;                                  // GDN-2: 2048 wide, 16 heads of 128
///     config.output_gate = gdn::layer::OutputGate::kSilu;         // never guessed: checkpoints of one naming differ
///     gdn::layer::Layer layer(context, config, gdn::layer::initialise(config, /*seed=*/1));
///     layer.forward_train(x, y, B, T);                            // whole sequences, zero state
///     gdn::layer::State state = layer.make_state(B);
///     layer.forward(x, y, B, T, state);                           // goes on from the state and updates it
///
/// Everything that fails throws gdn::layer::Error, whose text names the field or tensor, what was expected and what was found; nothing has
/// been written then.
#ifndef GDN_LAYER_HPP
#define GDN_LAYER_HPP

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "gdn/gdn.hpp"

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#define GDN_LAYER_INSIDE __attribute__((visibility("hidden")))
#else
#define GDN_LAYER_INSIDE
#endif

namespace gdn::layer {

class Error : public std::runtime_error {
public:
    Error(gdn_status status, const std::string &text) : std::runtime_error(text), status_(status) {}
    gdn_status status() const noexcept { return status_; }

private:
    gdn_status status_;
};

enum class Kind { kGdn, kKda, kGdn2, kFg2, kFg2Plus };
enum class Mode { kChunk, kFusedRecurrent };
enum class OutputGate { kUnspecified, kNone, kSilu, kSigmoid };
enum class DecayGate { kSoftplus, kLowerBound };

/// The configuration of a layer; names and defaults of fla's layers (fla/layers: gated_deltanet, kda, gdn2). Defaults are GDN-2's.
struct Config {
    Kind kind = Kind::kGdn2;
    std::int64_t hidden_size = 2048;
    std::int64_t num_heads = 16;                ///< key heads
    std::optional<std::int64_t> num_v_heads;    ///< value heads, a multiple of num_heads; none = num_heads
    std::int64_t head_dim = 128;                ///< K
    double expand_v = 1.0;                      ///< V = head_dim * expand_v, must be an integer
    Mode mode = Mode::kChunk;                   ///< how forward_train and long forwards walk
    std::int64_t chunk_size = 64;               ///< 16, 32, 64 or 128: validated, kept and saved; the kernels' own chunk is tuned data
    bool use_short_conv = true;
    std::int64_t conv_size = 4;                 ///< 2 .. 8
    bool conv_bias = false;
    bool allow_neg_eigval = false;              ///< doubles beta (gdn, kda) or b (gdn2); refused for fg2, fg2_plus
    DecayGate decay = DecayGate::kSoftplus;
    double lower_bound = -5.0;                  ///< of kLowerBound, in [-5, 0)
    OutputGate output_gate = OutputGate::kUnspecified;  ///< must be given
    bool output_gate_low_rank = true;           ///< hidden -> rank -> HV V instead of hidden -> HV V
    bool output_gate_bias = true;               ///< on the second matrix of a low-rank output gate
    std::optional<std::int64_t> decay_rank;     ///< bottleneck of the decay projection (channel decay); none = V
    std::optional<std::int64_t> gate_rank;      ///< bottleneck of a low-rank output gate; none = V
    double norm_eps = 1e-5;

    std::int64_t value_heads() const { return num_v_heads.value_or(num_heads); }
    std::int64_t key_dim() const { return head_dim; }
    std::int64_t value_dim() const;             ///< V

    /// Throws Error unless every field is in range and they go together.
    void validate() const;

    /// JSON text with the names above; enums as "gdn2", "chunk", "fused_recurrent", "silu", "softplus" ... `kind` must be there, other absent
    /// fields are those of defaults(kind). Unknown and repeated fields are refused, and what validate() refuses.
    static Config from_json(const std::string &text);
    std::string to_json() const;
    /// What people publish: "gdn", "kda", "gdn2" with the defaults of fla's layer of that name, "fg2", "fg2_plus" with their port's. GDN-2's
    /// output gate stays unspecified (fla has sigmoid, NVIDIA SiLU), and fla's GDN, 256 x 512, must be narrowed: the operator ends at 256.
    static Config defaults(Kind kind);
};

bool operator==(const Config &a, const Config &b);

/// A dense float32 tensor.
struct Tensor {
    std::vector<std::int64_t> shape;
    std::vector<float> data;
};

/// Weights under gdn's own names (see names()), float32, [out, in].
using StateDict = std::map<std::string, Tensor>;

struct TensorSpec {
    std::string name;
    std::vector<std::int64_t> shape;
};
/// Every weight of a layer, with its shape: q_proj.weight [H K, d], k_proj.weight, v_proj.weight [HV V, d], {q,k,v}_conv1d.weight [C, 1, W],
/// {q,k,v}_conv1d.bias [C], f_proj.0.weight, f_proj.1.weight (channel decay) or a_proj.weight (gdn), b_proj.weight, w_proj.weight (gdn2; fg2_plus:
/// beta_v), A_log, dt_bias, g_proj.weight or g_proj.0.weight, g_proj.1.weight, g_proj.1.bias, o_norm.weight [V], o_proj.weight [d, HV V].
std::vector<TensorSpec> weights(const Config &config);
std::int64_t parameter_count(const Config &config);

enum class Init { kFla, kNv };  ///< N(0, 0.02), or Xavier-uniform with gain 2^-2.5; the rest as fla's layers start
StateDict initialise(const Config &config, std::uint64_t seed, Init init = Init::kFla);

// ---- files ----------------------------------------------------------------------------------------------------------

/// Naming and packing of a checkpoint.
enum class Layout { kGdn, kFlaGdn2, kNvGdn2, kFlaGdn, kFlaKda, kKimiLinear, kKimiLinearFused, kFg2, kQwen3Next };
Layout layout_from_name(const std::string &name);  ///< "gdn", "fla-gdn2", "nv-gdn2", "fla-gdn", "fla-kda", "kimi-linear", "kimi-linear-fused", "fg2", "qwen3-next"
std::string name_of(Layout layout);

/// A file as it is: names, shapes, values widened to float32 (F64 is rounded; an integer that float32 does not hold is refused). With a prefix
/// only the tensors under it are read: one layer of a whole model's file.
StateDict read_safetensors(
    const std::string &path, std::map<std::string, std::string> *metadata = nullptr, const std::string &prefix = "");
/// Writes float32 tensors, to a temporary beside `path` that then takes its name.
void write_safetensors(const std::string &path, const StateDict &tensors, const std::map<std::string, std::string> &metadata = {});

/// Renames, unpacks and checks: only tensors under `prefix` count ("model.layers.0.linear_attn."). Missing, surplus and misshapen ones throw.
StateDict import_weights(const Config &config, Layout layout, const StateDict &file, const std::string &prefix = "");
StateDict export_weights(const Config &config, Layout layout, const StateDict &weights, const std::string &prefix = "");

// ---- the layer ------------------------------------------------------------------------------------------------------

/// Recurrent state and convolution inputs of N sequences. Copyable; saved and loaded bit for bit.
class State {
public:
    std::int64_t sequences = 0;
    std::vector<float> recurrent;                     ///< [N, HV, K, V]
    std::vector<float> conv_q, conv_k, conv_v;        ///< [N, W-1, channels]; empty without short convolution
    void save(const std::string &path, const Config &config) const;  ///< one safetensors file; load() wants the same sizes
    static State load(const std::string &path, const Config &config);
    void reset();                                     ///< all zeros: the start of sequences
};

/// How x is cut into sequences. Default: B sequences of T tokens.
struct Batch {
    const std::int64_t *cu_seqlens = nullptr;  ///< [N + 1]: packed, B = 1
    std::int64_t sequences = 0;                ///< N of cu_seqlens
    const std::uint8_t *mask = nullptr;        ///< [B, T], 0 = padding on the left; rows of y under it are zeros, and padding leaves no trace
};

class Layer {
public:
    /// Takes the weights over; packs those that share an input. `context` must outlive the layer.
    Layer(Context &context, const Config &config, StateDict weights);
    ~Layer();
    Layer(Layer &&) noexcept;
    Layer &operator=(Layer &&) noexcept;

    const Config &config() const;
    State make_state(std::int64_t sequences) const;

    /// x [B, T, hidden_size] -> y [B, T, hidden_size], float32, contiguous, must not overlap. From a zero state; config.mode chooses the path.
    ///
    /// Tokens go through in blocks of at most 512, cut at the same tokens of a sequence whatever its batch: beyond x and y, memory does not
    /// grow with T. With blas_threads() <= 1, one call gives the same bits at any number of threads and again. Everything between the
    /// projections is also independent of the batch, to the bit; the products are BLAS's, which may round a row otherwise among other
    /// numbers of rows.
    void forward_train(const float *x, float *y, std::int64_t B, std::int64_t T, const Batch &batch = {}) const;
    /// Goes on from `state` and updates it. Up to 64 tokens may take the step path. Any number of threads may call with states of their own.
    void forward(const float *x, float *y, std::int64_t B, std::int64_t T, State &state, const Batch &batch = {}) const;

    /// Values between the parts, for comparing layer by layer, of B sequences from a zero state: "q", "k", "v" (after convolution and
    /// activation, before the l2 norm), "g" (log decay), the gates ("beta"; gdn2: "b", "w"; fg2_plus: "beta_k", "beta_v"), "o" (of the
    /// operator, before the norm). All [B, T, heads, channels], scalars with one channel. Not for speed, not bounded by a block of tokens.
    std::map<std::string, Tensor> dump(const float *x, std::int64_t B, std::int64_t T) const;

private:
    struct GDN_LAYER_INSIDE Impl;
    std::unique_ptr<Impl> impl_;
};

/// Threads that the BLAS uses inside one product; 0 if it does not say (only OpenBLAS does). It is a setting of the process, which the
/// layer reads and never changes: 1 or 0, and a layer cuts its products itself, over the threads of its context; more, and each product is
/// one call of BLAS.
int blas_threads();
/// Changes it, for the whole process: a program that owns its process wants 1. False if this BLAS has no such setting.
bool set_blas_threads(int threads);

}  // namespace gdn::layer

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#undef GDN_LAYER_INSIDE

#endif
