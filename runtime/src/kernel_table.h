// The table of compiled kernels. kernel_table.cpp is written by `gdn.generator --table`: it defines kTargetRows, kKernelRows and
// kChoiceRows with their counts as plain aggregates whose initialisers follow the order of the fields below.
#pragma once

#include <cstdint>

namespace gdn {

enum class Family : uint8_t { kStage, kMap, kCoreChunk, kCoreStep, kStore, kCoreBlock, kShortConv, kGatedNorm, kCorePending, kShortConvStep };

/// core_chunk, core_step: shape of the alpha rows. kNone elsewhere.
enum class DecayShape : uint8_t { kNone, kScalar, kChannel };

/// core_chunk, core_step: tied is e = beta a (input beta), own is a separate e. kNone elsewhere.
enum class Erase : uint8_t { kNone, kTied, kOwn };

/// core_step: order of the state's axes. kKFirst elsewhere.
enum class Layout : uint8_t { kKFirst, kVFirst };

/// stage: which map of (k, v, gates) to (a, e, u). kNone elsewhere.
enum class StageVariant : uint8_t { kNone, kGdn, kKda, kGdn2, kFg2Plus };

/// stage: units of g and the gates, and whether q and k are l2-normalised inside. kNone elsewhere.
///   kLog: g is log alpha, gates are values, no l2norm;  kNorm: as kLog with l2norm;  kLinear: g is alpha (f32 only), gates are values, no
/// l2norm;
///   kLogits: softplus decay, sigmoid gates, l2norm.
enum class Form : uint8_t { kNone, kLog, kLinear, kNorm, kLogits };

/// map: the function of one value. kNone elsewhere.
///   kCopy: x;  kSigmoid: gate_scale sigmoid(x);  kExp: exp(x), log decay to alpha;
///   kSoftplus: exp(-exp(A_log) softplus(x + dt_bias));  kLowerBound: exp(lower_bound sigmoid(exp(A_log) (x + dt_bias)));
///   kL2Norm: x / sqrt(sum over the valid channels of x^2 + 1e-6).
enum class MapKind : uint8_t { kNone, kCopy, kSigmoid, kExp, kSoftplus, kLowerBound, kL2Norm };

/// dtype of the caller's tensors that the kernel reads or writes; kNone for the cores, which see float32 only.
enum class Type : uint8_t { kNone, kF32, kBf16, kF16 };

enum class Precision : uint8_t { kF32, kLow };

/// One CPU target, in the order of kernels.json: best first within a machine family, its reference last.
struct TargetRow {
    const char *name;  // "x86_avx512"
    const char
        *features;  // names of cpu.h separated by blanks, all of which must be present: "avx512f avx512dq .."; "" = the machine's baseline
    int32_t reference;  // 1 for the reference schedules of the machine family
};

/// Run-time parameters: what the host may choose without compiling anything. gdn_apply_overrides() changes them per context.
struct RunParams {
    int32_t time_block;   // core_chunk: tokens of one head before the next head, a multiple of 8; whole chunks are walked, one at least
    int32_t task_grain;   // core_chunk, core_step: heads of one task; 0 = chosen from heads and threads
    int32_t short_steps;  // core_chunk: sequences of at most this many tokens run as steps
    int32_t tail_steps;   // core_chunk: a ragged tail of at most this many tokens runs as steps
    int32_t v_slice_min;  // core_chunk, core_step: fewest columns of a V slice; 0 = never slice
    int32_t fetch_ahead;  // core_chunk: the rows of which chunk the running one fetches: 1 = the next; 0 = none
};

/// One configuration of a kernel. A kernel's configurations for one target follow each other; those that differ in run-time parameters only
/// share their code.
struct KernelRow {
    const char *name;          // short name: core_chunk_channel_tied_128x128
    const char *family_name;   // "core_chunk"
    const char *target_name;   // kTargetRows[target].name
    const char *symbol;        // gdnk_<name>__<target>, and __<changed parameters> where compiled ones are not the defaults
    const char *config;        // full configuration, "cols:32,rows:8"
    const char *generator;     // arguments that make it again: "-g core_chunk core=channel_tied .."
    int (*call)(void **argv);  // Halide's <symbol>_argv: addresses of user_context, inputs, outputs
    int32_t target;            // index in kTargetRows
    Family family;
    Precision precision;
    DecayShape decay;
    Erase erase;
    Layout layout;
    StageVariant variant;
    Form form;
    MapKind map;
    Type dtype;
    Type z_dtype;         // gated_norm: dtype of the gate's logits, that of the output or float32. kNone elsewhere
    int32_t width;        // short_conv: number of taps; 0 = run time, 1 to 8 (and elsewhere)
    int32_t k;            // 0 = run time (a multiple of 16)
    int32_t v;            // 0 = run time, for cores a multiple of `panel`
    int32_t panel;        // cores of run-time V: V is a multiple of it; core_chunk, core_pending: columns of one panel of u, S and o. 0 elsewhere
    int32_t chunk;        // core_chunk, core_block: tokens of one call. 0 elsewhere
    int32_t rows;         // core_chunk: state rows per step of the read loop. 0 elsewhere
    int32_t cols;         // core_chunk: state columns of one read tile. 0 elsewhere
    int32_t fetch_lines;  // core_chunk: 64-byte lines fetched per address of `next`; 0 = `next` is not read
    int32_t fetch_slots;  // core_chunk with fixed k: addresses in `next`; 0 where k is 0, see fetch_slots() in dispatch.h
    RunParams run;
};

/// Lengths that tuned configurations are kept for: core_chunk is kShort (sequences of up to kShortTokens) and kLong; core_step, core_pending
/// and short_conv_step are kDecode; core_block is kBlock; all else is kAny.
enum class LengthClass : uint8_t { kAny, kDecode, kBlock, kShort, kLong };
constexpr int32_t kShortTokens = 256;

/// Why a row is the one of its kernel that runs; the first four are what tuned data can know a machine by, best first.
enum class Level : uint8_t { kDevice, kArchitecture, kVendor, kDefault, kOverride, kReference, kOnly };

/// Which of a kernel's rows a machine uses. Kernels with one row need no choice.
struct ChoiceRow {
    Level level;
    LengthClass length_class;  // kAny: all that the family has
    const char *key;           // device key, architecture or vendor as in gdn_device_info; "" of kDefault
    int32_t row;               // of kKernelRows
};

extern const TargetRow kTargetRows[];
extern const int32_t kTargetRowCount;
extern const KernelRow kKernelRows[];
extern const int32_t kKernelRowCount;
extern const ChoiceRow kChoiceRows[];
extern const int32_t kChoiceRowCount;

}  // namespace gdn
