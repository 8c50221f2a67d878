// A call of the operator as a value: what it is, how its inputs are drawn, how its memory lies; and how it is run and judged.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gdn/gdn.h>
#include <gtest/gtest.h>

#include "../reference/operator.h"
#include "host_tensor.h"
#include "metric.h"

namespace gdn_test {

// Ranges that the inputs are drawn from (field_reports.md R15 and the checks G4 to G7).
enum class Inputs {
    kModerate,      // log decay in [-1.5, -1e-3]
    kRealistic,     // log decay in [-316, -1e-4], v in [-0.3, 25]
    kWeakDecay,     // log decay in [-1e-3, -1e-6]
    kZerosOnes,     // decays and gates exactly 0 or 1 (logits: so large that they are)
    kSaturated,     // decay at its bound everywhere, gates close to 1
    kParallelKeys,  // keys e1 + 0.1 noise, hardly any decay
};

struct Case {
    gdn_variant variant = GDN_VARIANT_KDA;
    gdn_decay decay = GDN_DECAY_LOG;
    gdn_gate gate = GDN_GATE_VALUE;
    bool l2norm = false;
    bool neg_eigval = false;                // gates up to 2
    gdn_dtype dtype = GDN_DTYPE_F32;        // of q, k, v, o
    gdn_dtype gate_dtype = GDN_DTYPE_NONE;  // NONE: as dtype
    std::int64_t K = 64, V = 64, H = 1, HV = 1;
    std::vector<std::int64_t> lengths = {21};
    bool packed = false;
    Inputs inputs = Inputs::kModerate;
    std::uint64_t seed = 1;

    bool absent_g = false;
    bool scalar_decay = false;          // gla: g is [B, T, heads]
    bool gates_per_value_head = false;  // gates that go with keys have HV heads
    gdn_head_map head_map = GDN_HEAD_MAP_DIVIDE;
    double scale = 0, lower_bound = 0;
    gdn_precision precision = GDN_PRECISION_F32;

    bool initial = true, final = true, in_place = false, v_first = false;
    bool slots = false;  // pools of 2 N + 1 states, read and written at different slots
    gdn_dtype index_dtype = GDN_DTYPE_I32;
    std::int64_t n_snapshots = 0;
    gdn_snapshot_kind snapshot_kind = GDN_SNAPSHOT_LAST_TOKENS;
    std::int64_t snapshot_interval = 64;

    bool padded = false;  // gaps between rows, heads and tokens of every tensor
    Guard guard = Guard::kEnd;

    std::int64_t sequences() const { return static_cast<std::int64_t>(lengths.size()); }
    std::int64_t total() const;  // tokens along the T extent: all of them when packed
};

const char *variant_name(gdn_variant variant);
std::string name(const Case &c);  // usable as a GoogleTest name; tells apart all that differs from the defaults
void PrintTo(const Case &c, std::ostream *out);

bool channel_decay(const Case &c);  // g is [.., K]
bool has_gates(gdn_variant variant);

// A context on a forced target.
class Context {
public:
    explicit Context(const std::string &target = "auto", int threads = 1, const gdn_context_options *options = nullptr);
    ~Context() { gdn_context_destroy(context_); }
    Context(const Context &) = delete;
    Context &operator=(const Context &) = delete;
    gdn_context *get() const { return context_; }
    const std::string &target() const { return target_; }
    // Run-time parameters by their text; the call must succeed.
    void apply(const std::string &overrides);

private:
    gdn_context *context_ = nullptr;
    std::string target_;
};

// Targets that this machine can run, best first: those with float32 cores, or those with low precision ones (their other kernels are the
// next target's).
std::vector<std::string> targets(gdn_precision precision = GDN_PRECISION_F32);

// GDN_TEST_BUDGET=small: an emulator runs us.
bool small_budget();
// Every stride-th of the cases when the budget is small.
std::vector<Case> within_budget(std::vector<Case> cases, std::size_t stride);

enum class Call { kForward, kStep };

// The memory of one call: inputs of the reference, the caller's tensors, the descriptor.
class Problem {
public:
    explicit Problem(const Case &c);
    // A call on given operands (already rounded to their dtypes), for oracles and derived cases.
    Problem(const Case &c, const gdn_reference::Operands &operands);

    const Case &what() const { return case_; }
    gdn_reference::Operands &operands() { return operands_; }
    gdn_args &args() { return args_; }
    HostTensor q, k, v, g, beta, b, w, beta_k, beta_v, A_log, dt_bias, initial_state, initial_slots, cu_seqlens, o, final_state,
        final_slots, snapshots;

    // Outputs back to 0xFF, an in-place state back to its initial value.
    void reset();
    // Runs with a guarded workspace of exactly the bytes asked for.
    gdn_status run(const Context &context, Call call = Call::kForward);
    // Outputs within bounds of `expected`, everything else untouched. The errors go into the table of report.h.
    ::testing::AssertionResult check(const gdn_reference::Result &expected, const std::string &target);
    // Inputs, padding and slots that nobody writes are what they were.
    ::testing::AssertionResult untouched();

    // Final state of sequence n, [HV][..][..] in the asked layout.
    std::vector<float> state(std::int64_t n) const;
    std::vector<float> snapshot(std::int64_t n, std::int64_t j) const;
    // The bytes of o and of the final states: for bitwise comparison.
    std::vector<unsigned char> output_bits() const;

    Error o_error, state_error;

private:
    void draw();
    void allocate();
    std::vector<HostTensor *> inputs();

    Case case_;
    gdn_reference::Operands operands_;
    gdn_args args_;
    std::vector<std::uint64_t> input_hashes_;
    std::vector<std::int64_t> final_slot_list_;
};

// The reference's result for what the case draws; the last few are kept, so that targets in a row share one.
std::shared_ptr<const gdn_reference::Result> reference_of(const Case &c, Problem &problem);

// Draw, run, compare: most tests are this line.
::testing::AssertionResult matches_reference(const Case &c, const std::string &target, int threads = 1, Call call = Call::kForward);
::testing::AssertionResult matches_reference(const Case &c, const Context &context, Call call = Call::kForward);

}  // namespace gdn_test
