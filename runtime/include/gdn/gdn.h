/* gdn: Gated Delta Networks, compiled. C interface of the operator.
 *
 * One operator serves the whole family. Per sequence and value head, with state S (K x V), tokens in order:
 *
 *     S_t = (I - a_t e_t^T) Diag(alpha_t) S_{t-1} + a_t u_t^T          o_t = scale * S_t^T q_t
 *
 * A variant is a map from (k, v, gates) to (a, e, u, alpha):
 *
 *     variant     a                  e                  u                  alpha        paper
 *     delta_rule  k                  beta k             beta v             1            DeltaNet, arXiv 2406.06484
 *     gla         k                  0                  v                  exp(g)       gated linear attention, arXiv 2312.06635
 *     gdn         k                  beta k             beta v             exp(g)       Gated DeltaNet, arXiv 2412.06464
 *     kda         k                  beta k             beta v             exp(g_c)     Kimi Linear, arXiv 2510.26692
 *     gdn2        k                  b (.) k            w (.) v            exp(g_c)     Gated DeltaNet-2, arXiv 2605.22791
 *     fg2         sqrt(beta) (.) k   sqrt(beta) (.) k   sqrt(beta) (.) v   exp(g_c)     FG2-GDN, arXiv 2604.19021
 *     fg2_plus    sqrt(beta_k) (.) k sqrt(beta_k) (.) k sqrt(beta_v) (.) v exp(g_c)     FG2-GDN+, arXiv 2604.19021
 *
 * Sizes: N sequences, T tokens, H key heads, HV value heads (a multiple of H), K key channels, V value channels.
 * Arithmetic and state are float32 whatever the tensors' dtype, unless low precision is asked for.
 *
 * Manners: nothing here prints, aborts, throws or exits. A call that fails returns a code, leaves a text for
 * gdn_last_error() that names the argument, what was expected and what was given, and has written nothing.
 */
#ifndef GDN_GDN_H
#define GDN_GDN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define GDN_API
#else
#define GDN_API __attribute__((visibility("default")))
#endif

#define GDN_VERSION_MAJOR 0
#define GDN_VERSION_MINOR 1
#define GDN_VERSION_PATCH 0

/** What a call came to. Every function that can fail returns one. */
typedef enum gdn_status {
    GDN_STATUS_OK = 0,
    GDN_STATUS_INVALID_ARGUMENT = 1,    /**< shape, stride, dtype, null, slot, cu_seqlens, option: see gdn_last_error() */
    GDN_STATUS_UNSUPPORTED = 2,         /**< well-formed, but no kernel of this library and machine does it */
    GDN_STATUS_WORKSPACE_TOO_SMALL = 3, /**< see gdn_workspace_size() */
    GDN_STATUS_OUT_OF_MEMORY = 4,
    GDN_STATUS_INVALID_VALUE = 5,       /**< a tensor's value is outside its unit (only with GDN_CHECK_VALUES) */
    GDN_STATUS_IO = 6,                  /**< a file could not be read */
    GDN_STATUS_CORRUPT = 7,             /**< a file was read and is not what it should be */
    GDN_STATUS_INTERNAL = 8
} gdn_status;

typedef enum gdn_dtype {
    GDN_DTYPE_NONE = 0,
    GDN_DTYPE_F32 = 1,
    GDN_DTYPE_BF16 = 2, /**< stored as the upper half of a float32 */
    GDN_DTYPE_F16 = 3,  /**< IEEE binary16 */
    GDN_DTYPE_I32 = 4,
    GDN_DTYPE_I64 = 5
} gdn_dtype;

#define GDN_MAX_DIMS 6

/** A strided view of the caller's memory. `data == NULL` means the tensor is absent. Strides are in elements, as in DLPack. */
typedef struct gdn_tensor {
    void *data;
    gdn_dtype dtype;
    int32_t ndim;
    int64_t shape[GDN_MAX_DIMS];
    int64_t strides[GDN_MAX_DIMS];
} gdn_tensor;

typedef enum gdn_variant {
    GDN_VARIANT_DELTA_RULE = 0,
    GDN_VARIANT_GLA = 1,
    GDN_VARIANT_GDN = 2,
    GDN_VARIANT_KDA = 3,
    GDN_VARIANT_GDN2 = 4,
    GDN_VARIANT_FG2 = 5,
    GDN_VARIANT_FG2_PLUS = 6
} gdn_variant;

/** The unit of the tensor `g`. */
typedef enum gdn_decay {
    GDN_DECAY_LOG = 0,         /**< g is the natural-log decay, <= 0; alpha = exp(g); -inf is an exact reset */
    GDN_DECAY_LINEAR = 1,      /**< g is alpha itself, in [0, 1]; 0 is an exact reset */
    GDN_DECAY_SOFTPLUS = 2,    /**< g is a logit x: log alpha = -exp(A_log) softplus(x + dt_bias) */
    GDN_DECAY_LOWER_BOUND = 3  /**< g is a logit x: log alpha = lower_bound sigmoid(exp(A_log) (x + dt_bias)) */
} gdn_decay;

/** The unit of beta, b, w, beta_k and beta_v (all of them that the variant has). */
typedef enum gdn_gate {
    GDN_GATE_VALUE = 0, /**< the gate itself, in [0, 1] (or [0, 2], already doubled) */
    GDN_GATE_LOGIT = 1  /**< sigmoid is applied inside; FG2 fuses sqrt(sigmoid(x)) */
} gdn_gate;

/** Which key head a value head uses. */
typedef enum gdn_head_map {
    GDN_HEAD_MAP_DIVIDE = 0, /**< h = hv div (HV/H): each key head repeated consecutively (fla, transformers) */
    GDN_HEAD_MAP_MODULO = 1  /**< h = hv mod H (GGUF-order kernels) */
} gdn_head_map;

typedef enum gdn_state_layout {
    GDN_STATE_K_FIRST = 0, /**< state [.., HV, K, V] */
    GDN_STATE_V_FIRST = 1  /**< state [.., HV, V, K] */
} gdn_state_layout;

typedef enum gdn_precision {
    GDN_PRECISION_F32 = 0, /**< float32 products and sums */
    /** The two products of a chunk with the state multiply bfloat16 and sum float32: about 3e-3 relative error. Only with K, V >= 64 and for whole
     * chunks of eight tokens, the rest is float32; refused where the CPU has no such instruction. */
    GDN_PRECISION_LOW = 1
} gdn_precision;

/** Which states `snapshots` receives. */
typedef enum gdn_snapshot_kind {
    GDN_SNAPSHOT_LAST_TOKENS = 0, /**< snapshot j of n: the state after token L - n + j (from 0) of L; others are left alone */
    GDN_SNAPSHOT_BOUNDARIES = 1   /**< snapshot j is the state after (j + 1) * snapshot_interval tokens; j past the end are left alone */
} gdn_snapshot_kind;

/** Everything of one operator call. Start from gdn_args_init(), fill in what you have, leave the rest.
 *
 * Token tensors are [B, T, heads, channels] (B = N sequences of equal length), or with `cu_seqlens` [1, total, heads, channels].
 * The innermost stride of every token tensor must be 1; other strides are free (non-negative).
 * "H|HV" means that the view's extent decides: H is read through the head map, HV directly.
 *
 *   q, k      [B, T, H, K]      f32, bf16 or f16 (one dtype for q, k, v, o)
 *   v, o      [B, T, HV, V]
 *   g         gdn: [B, T, H|HV]; kda, gdn2, fg2, fg2_plus: [B, T, H|HV, K]; gla: either; delta_rule: absent.    any float dtype
 *             An absent g means alpha = 1.
 *   beta      delta_rule, gdn, kda: [B, T, H|HV]; fg2: [B, T, H|HV, K], with K = V.                            any float dtype
 *   b, w      gdn2: [B, T, H|HV, K] and [B, T, HV, V]                                                          any float dtype
 *   beta_k, beta_v   fg2_plus: [B, T, H|HV, K] and [B, T, HV, V]                                               any float dtype
 *   A_log     [H|HV] f32, dt_bias [H|HV] (scalar decay) or [H|HV, K] f32: for the logit decays. An absent A_log means exp(A_log) = 1,
 *             an absent dt_bias 0.
 *             Their head extent equals g's.
 *   initial_state [N, HV, K, V] f32 (V-first: [N, HV, V, K]); absent = zeros. Innermost stride 1.
 *   final_state   like initial_state; absent = not wanted. May be exactly initial_state (in place), else must not overlap it.
 *   initial_slots, final_slots   [N] i32 or i64: the states are pools [slots, HV, K, V] and sequence n reads
 *             initial_slots[n] (-1 = zeros) and writes final_slots[n]. Two sequences may read one slot; none may write
 *             a slot that another reads or writes.
 *   cu_seqlens    [N + 1] i32 or i64: packed sequences; starts at 0, never descends, ends at total. Empty sequences are allowed.
 *   snapshots     [N, n_snapshots, HV, K, V] f32 (V-first: .., V, K): see gdn_snapshot_kind.
 *
 *   initial_pending, final_pending   [N, HV, 2 K + V] f32 (pools [slots, ..] where the states are): decoding in one pass over the state. A row is
 *             (alpha [K], a [K], r [V]), the last token's write, which is not in the state yet: the state after the token is
 *             Diag(alpha) S + a r^T. With final_pending a call of one token leaves its write there and applies that of initial_pending while it
 *             reads the state: half the memory traffic, the same bits in o. Calls of any other length apply initial_pending first and leave
 *             a row that changes nothing (1, 0, 0), so T = 0 brings a state up to date. Applying it rounds like one more
 *             operation: a state settled so can differ in the last bits from that of a step without pending. An absent initial_pending has
 *             nothing pending; it needs initial_state, and both need final_state. final_pending may be exactly initial_pending, else must
 *             not overlap it.
 *
 * A tensor that the variant or the decay has no place for (w with kda, A_log with log decay) is refused, not ignored.
 * q, k, gates and states are never written unless named as outputs; o, final_state and snapshots must not overlap any input but as said.
 */
typedef struct gdn_args {
    size_t struct_size; /**< sizeof(gdn_args): lets fields be appended */

    gdn_variant variant;
    gdn_decay decay;
    gdn_gate gate;
    gdn_head_map head_map;
    gdn_state_layout state_layout;
    gdn_dtype state_dtype;     /**< only GDN_DTYPE_F32 now */
    gdn_precision precision;
    int32_t allow_neg_eigval;  /**< beta (delta_rule, gdn, kda) or b (gdn2) is 2 sigmoid(x); refused for other variants and gate values */
    int32_t qk_l2norm;         /**< q and k are divided by sqrt(sum x^2 + 1e-6) per token and head, before everything else */
    float scale;               /**< of the read-out; 0 means K^-0.5 */
    float lower_bound;         /**< of GDN_DECAY_LOWER_BOUND, in [-100, 0); 0 means -5 */

    gdn_tensor q, k, v, g, beta, b, w, beta_k, beta_v, A_log, dt_bias;
    gdn_tensor initial_state, initial_slots, cu_seqlens;
    gdn_tensor o, final_state, final_slots;

    gdn_tensor snapshots;
    gdn_snapshot_kind snapshot_kind;
    int64_t snapshot_interval; /**< of GDN_SNAPSHOT_BOUNDARIES: a positive multiple of 64 */

    gdn_tensor initial_pending, final_pending;
} gdn_args;

/** Sets every field to its default: absent tensors, f32 state, variant gdn, natural-log decay, gate values. */
GDN_API void gdn_args_init(gdn_args *args);

/* ---- context ------------------------------------------------------------------------------------------------- */

typedef struct gdn_context gdn_context;

/** Runs body(arg, i) for every i in [0, n), in any order, on any threads, and returns when all are done. */
typedef void (*gdn_parallel_for)(void *user, int64_t n, void (*body)(void *arg, int64_t i), void *arg);
/** Memory of `bytes`, aligned to `alignment` (a power of two), or NULL. */
typedef void *(*gdn_alloc)(void *user, size_t bytes, size_t alignment);
typedef void (*gdn_free)(void *user, void *memory, size_t bytes);

typedef enum gdn_log_level { GDN_LOG_ERROR = 0, GDN_LOG_WARNING = 1, GDN_LOG_INFO = 2 } gdn_log_level;
/** One line, without newline, valid during the call only. May come from any thread that calls the library. */
typedef void (*gdn_log)(void *user, gdn_log_level level, const char *line);

#define GDN_CHECK_VALUES 1u /**< flag: read tensors before the call to check their units (a negative linear decay, a positive log decay) */

typedef struct gdn_context_options {
    size_t struct_size;
    int32_t num_threads;           /**< 0: GDN_NUM_THREADS, else the CPUs of the calling thread's affinity mask */
    uint32_t flags;
    gdn_parallel_for parallel_for; /**< the caller's own pool; NULL: threads of the context, started when first needed */
    void *parallel_for_user;
    gdn_alloc alloc;               /**< NULL: the C library's */
    gdn_free free;
    void *alloc_user;
    gdn_log log;                   /**< NULL: silent */
    void *log_user;
    const char *target;            /**< as gdn_set_target(); NULL: GDN_TARGET, else the best one the machine runs */
    const char *tuned_dir;         /**< folder whose file `gdn.tuned` is applied as gdn_apply_overrides() does; NULL: GDN_TUNED_DIR, else none */
} gdn_context_options;

GDN_API void gdn_context_options_init(gdn_context_options *options);

/** Makes a context. `options` NULL: defaults. Any number of threads may call on one context at once. */
GDN_API gdn_status gdn_context_create(const gdn_context_options *options, gdn_context **context);
/** Ends the context's threads and frees its memory. No call may be running. NULL is allowed. */
GDN_API void gdn_context_destroy(gdn_context *context);

/** Forces a target of gdn_target_get() ("x86_avx2"), or "auto". Unknown names and targets that the machine cannot run are refused. */
GDN_API gdn_status gdn_set_target(gdn_context *context, const char *target);

/** Threads that a call on this context may use, at least 1; 0 without a context. */
GDN_API int32_t gdn_context_threads(const gdn_context *context);

/** Runs body(arg, i) for every i in [0, n), in any order, on the context's threads or through its parallel_for, and returns when all are done:
 * for the caller's work between calls. On the calling thread alone while another call has the threads. body must not throw. */
GDN_API gdn_status gdn_context_run(gdn_context *context, int64_t n, void (*body)(void *arg, int64_t i), void *arg);

/* ---- the operator -------------------------------------------------------------------------------------------- */

/** Bytes of workspace that gdn_forward and gdn_step want for these arguments on this context. Independent of T. */
GDN_API gdn_status gdn_workspace_size(const gdn_context *context, const gdn_args *args, size_t *bytes);

/** GDN_STATUS_OK if the call would run, else the code and the reason it would fail with. Reads no tensor data but cu_seqlens and slots. */
GDN_API gdn_status gdn_supports(const gdn_context *context, const gdn_args *args);

/** The operator over whole sequences. `workspace` (64-byte aligned) of at least gdn_workspace_size() bytes, not shared with a running call;
 * or NULL and 0: memory that the context keeps, allocated at the first call of a shape. */
GDN_API gdn_status gdn_forward(gdn_context *context, const gdn_args *args, void *workspace, size_t workspace_bytes);

/** One token per sequence: as gdn_forward with T = 1, by the shortest way. Allocates nothing when given a workspace. */
GDN_API gdn_status gdn_step(gdn_context *context, const gdn_args *args, void *workspace, size_t workspace_bytes);

/* ---- the mixer: between the projections ------------------------------------------------------------------------ */

typedef enum gdn_activation { GDN_ACTIVATION_NONE = 0, GDN_ACTIVATION_SILU = 1, GDN_ACTIVATION_SIGMOID = 2 } gdn_activation;

/** Everything between a layer's input projections and its output projection, in one call (method: fla's layers, transformers' Qwen3-Next):
 *
 *     x = act(conv(x))   for x in q, k, v     causal depthwise convolution of width W along T, per channel; weight tap W-1 meets the newest token
 *     o = operator(q, k, v, gates)            gdn_args: l2 norm, gate maps, recurrence
 *     y = rms_norm(o) * norm_weight * act(z)  per token and value head over V: o / sqrt(mean o^2 + eps)
 *
 *   op->q, k, v   the projections, before the convolution: [B, T, H|HV, K|V], f32, bf16 or f16; views into one tensor are fine
 *   op->o         receives y [B, T, HV, V]; dtype of q
 *   conv_weight_q, _k [H, K, W], conv_weight_v [HV, V, W] f32, 2 <= W <= 8: all three or none (no convolution, conv_activation still holds).
 *                 Fastest where neighbouring channels are neighbours in memory (strides [K, 1, H K]); a checkpoint's order costs a
 *                 transposition per call.
 *   conv_bias_q, _k [H, K], conv_bias_v [HV, V] f32; absent = 0
 *   conv_initial_q, _k [N, W-1, H, K], conv_initial_v [N, W-1, HV, V]: the last W-1 inputs, oldest first, dtype of q; absent = zeros.
 *   conv_final_q, _k, _v   like them; absent = not wanted. May be exactly the initial ones, else must not overlap. With op->initial_slots
 *                 or final_slots these are pools [slots, W-1, ..], read and written at the same slots as the states (-1 = zeros).
 *   z             [B, T, HV, V] logits of the output gate, any float dtype; absent = no gate
 *   norm_weight   [V] f32, shared by the heads; absent = ones. Without `output_norm` it must be absent.
 *
 * Token tensors' innermost stride must be 1. op->snapshots are refused here: they would be states without their convolution's inputs.
 * Sequences shorter than W - 1 keep what is still inside the window of the old state. */
typedef struct gdn_mixer_args {
    size_t struct_size;
    const gdn_args *op;
    gdn_activation conv_activation; /**< none or silu (default silu) */
    gdn_activation gate_activation; /**< of z: silu or sigmoid; must be given where z is */
    int32_t output_norm;            /**< 1 (default): RMS norm; 0: only the gate, if any */
    float norm_eps;                 /**< default 1e-5 */

    gdn_tensor conv_weight_q, conv_weight_k, conv_weight_v;
    gdn_tensor conv_bias_q, conv_bias_k, conv_bias_v;
    gdn_tensor conv_initial_q, conv_initial_k, conv_initial_v;
    gdn_tensor conv_final_q, conv_final_k, conv_final_v;
    gdn_tensor z, norm_weight;
} gdn_mixer_args;

/** Sets every field to its default. `op` stays NULL. */
GDN_API void gdn_mixer_args_init(gdn_mixer_args *args);

/** Bytes of workspace for these arguments on this context. Independent of T. */
GDN_API gdn_status gdn_mixer_workspace_size(const gdn_context *context, const gdn_mixer_args *args, size_t *bytes);

/** The mixer over whole sequences, states in and out. Workspace as in gdn_forward. */
GDN_API gdn_status gdn_mixer_forward(gdn_context *context, const gdn_mixer_args *args, void *workspace, size_t workspace_bytes);

/** One token per sequence, by the shortest way. Allocates nothing when given a workspace. */
GDN_API gdn_status gdn_mixer_step(gdn_context *context, const gdn_mixer_args *args, void *workspace, size_t workspace_bytes);

/* ---- what runs and why --------------------------------------------------------------------------------------- */

typedef struct gdn_kernel_info {
    const char *name;       /**< symbol: gdnk_<family>_..__<target> */
    /** core_chunk, core_block, core_step, core_pending, stage, map, store, short_conv, short_conv_step or gated_norm */
    const char *family;
    const char *target;     /**< x86_avx512, x86_avx2, x86_reference, arm_neon ... */
    const char *config;     /**< "cols:32,rows:8,..": every parameter of the kernel's space */
    const char *generator;  /**< arguments that make it again: "-g core_chunk target=.. core=channel_tied size=128x128 .." */
    int32_t runs_here;      /**< 1 if this machine can run it */
    /** 0, 1, ..: which of the compiled configurations of this kernel and target, which follow each other in the list. Configurations that
     * differ in run-time parameters only share a symbol. */
    int32_t configuration;
    const char *kernel;     /**< short name: core_chunk_channel_tied_128x128 */
} gdn_kernel_info;

GDN_API int64_t gdn_kernel_count(void);
/** Fills `info`; strings live as long as the library. */
GDN_API gdn_status gdn_kernel_get(int64_t index, gdn_kernel_info *info);

typedef struct gdn_target_info {
    const char *name;
    const char *features;   /**< the CPU features that it needs */
    int32_t runs_here;
} gdn_target_info;

GDN_API int64_t gdn_target_count(void);
GDN_API gdn_status gdn_target_get(int64_t index, gdn_target_info *info);

/** The CPU as tuned configurations know it. Strings live as long as the library. */
typedef struct gdn_device_info {
    const char *vendor;       /**< "AuthenticAMD", "GenuineIntel", or who designed the ARM core ("ARM", "Apple", ..) */
    const char *name;         /**< brand, "AMD EPYC 9B14"; the architecture where the CPU tells no brand */
    const char *architecture; /**< "znver4", "sapphirerapids", "neoverse-v1" ..; of one that is not known "<vendor>-<family>-<model>" */
    /** Vendor and brand in small letters, "authenticamd-amd_epyc_9b14": names the device's file of tuned configurations. A brand without any
     * number is followed by the architecture, "authenticamd-amd_epyc-znver4". */
    const char *key;
} gdn_device_info;

/** Fills `info`. */
GDN_API gdn_status gdn_device_get(gdn_device_info *info);

/** Which kernels, target, configuration, threads, and why, as a JSON object for these arguments. Writes at most `size` bytes with the final
 * zero; `*needed` (may be NULL) receives the bytes wanted, final zero included. */
GDN_API gdn_status gdn_explain(const gdn_context *context, const gdn_args *args, char *text, size_t size, size_t *needed);

/** Applies lines of run-time parameters ("core_chunk.time_block 32") and of choices among compiled configurations
 * ("core_chunk_channel_tied_128x128@long.config 1") to the context: all or none. Format: README, "Tuning". */
GDN_API gdn_status gdn_apply_overrides(gdn_context *context, const char *text, size_t size);

GDN_API const char *gdn_version(void);
GDN_API const char *gdn_status_string(gdn_status status);
/** Text of this thread's last failed call; "" if none failed. Valid until the thread's next failing call. */
GDN_API const char *gdn_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
