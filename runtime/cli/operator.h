// One call of the operator as a command line describes it: names, memory, inputs, and how far its result is from the double reference.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "gdn/gdn.h"
#include "machine.h"
#include "tests/reference/operator.h"
#include "tests/support/metric.h"

namespace gdn::cli {

/// Options that say which call is meant. The strings are those of the command line.
struct Setup {
    std::string variant = "kda";
    std::string dtype = "f32";
    std::string decay = "log";
    std::string gate = "value";
    std::string precision = "f32";
    std::string target = "auto";
    int64_t batch = 1, tokens = 4096;
    int64_t heads = 16, key_heads = 0;  // key_heads 0: as many as heads
    int64_t dk = 128, dv = 128;
    int threads = 1;
    bool l2norm = false;
    bool v_first = false;
    bool pending = false;  // step: the token's write stays pending, so that one pass over the state is enough

    int64_t query_heads() const { return key_heads ? key_heads : heads; }
    /// "kda f32, 16 heads of 128 x 128, .."
    std::string text() const;
    nlohmann::ordered_json json() const;
};

const std::vector<std::string> &variant_names();
const std::vector<std::string> &dtype_names();

/// Adds the options of a Setup to a subcommand, except the ones that the subcommand gives a meaning of its own (--batch, --tokens).
void add_setup_options(CLI::App &app, Setup &setup);
/// `setup` with "variant=gdn2,dtype=bf16" on top; throws Failure(kExitUsage).
Setup changed(const Setup &setup, const std::string &changes);

/// A context with its errors turned into Failure. "auto" leaves the choice to GDN_TARGET and the machine.
class Context {
public:
    Context(const std::string &target, int threads, uint32_t flags = 0);
    gdn_context *get() const { return context_.get(); }

private:
    struct Destroy {
        void operator()(gdn_context *context) const { gdn_context_destroy(context); }
    };
    std::unique_ptr<gdn_context, Destroy> context_;
};

/// gdn_explain() as an object: "target", "kernels": [{"role", "kernel", "target", "config", "why"}] and more.
nlohmann::ordered_json explain(const Context &context, const gdn_args &args);
/// Its kernels for people: role, symbol, reason, and the configuration if asked for.
void print_kernels(const nlohmann::ordered_json &explanation, bool with_config);

/// What the tensors hold: the standard inputs of the tests (tests/support/case.h), drawn fast enough for large tensors.
enum class Inputs {
    kModerate,      // log decay in [-1, -0.1], gates in (0, 1): what a benchmark reads
    kRealistic,     // log decay log-uniform in [-316, -1e-4], v up to 25
    kWeakDecay,     // log decay in [-1e-3, -1e-6]
    kZerosOnes,     // gates and decay exactly zero or one (logits: so large that they are)
    kSaturated,     // decay at its bound, gates close to one
    kParallelKeys,  // keys that are nearly equal, strong erasing, almost no decay
    kNone,          // memory that is reserved but not touched, whatever its size: for questions that no value answers
};
const char *inputs_name(Inputs inputs);
constexpr Inputs kAllInputs[] = {
    Inputs::kModerate, Inputs::kRealistic, Inputs::kWeakDecay, Inputs::kZerosOnes, Inputs::kSaturated, Inputs::kParallelKeys};

struct Tensor {
    Buffer memory;
    gdn_tensor view = {};

    Tensor() = default;
    Tensor(gdn_dtype dtype, const std::vector<int64_t> &shape, bool huge_pages);
    int64_t elements() const;
};

/// Element `index` in memory order.
float element(const Tensor &tensor, int64_t index);

/// Error of a result, apart for the output and the final state.
struct Distance {
    gdn_test::Error o, state;
    void worst(const Distance &other);
    /// The larger of the two RMS errors.
    double rms() const;
};
struct Bounds {
    double o, state;
    bool hold(const Distance &distance) const { return distance.o.within(o) && distance.state.within(state); }
};
Bounds bounds(const Setup &setup);

/// Memory and arguments of one call: contiguous [B, T, heads, channels], 64-byte aligned, seeded.
class Problem {
public:
    Problem(const Setup &setup, Inputs inputs, uint64_t seed, bool huge_pages = false);

    gdn_args args;

    const Setup &setup() const { return setup_; }
    /// Bytes that one call reads and writes.
    int64_t bytes() const;
    /// NaN into o and the final state.
    void poison();
    /// The state of every sequence is read and written in place.
    void use_one_state();

    /// What the reference reads of the first `tokens` tokens of one sequence and value head.
    gdn_reference::Operands operands(int64_t n, int64_t hv, int64_t tokens) const;
    /// Distance of o and final state (left out if `tokens` is not all) from `expected`, which came from operands(n, hv, tokens).
    Distance distance(const gdn_reference::Result &expected, int64_t n, int64_t hv, int64_t tokens) const;

    Tensor q, k, v, g, beta, b, w, beta_k, beta_v, A_log, dt_bias, initial_state, o, final_state, pending;

private:
    void fill(Inputs inputs, uint64_t seed);

    Setup setup_;
};

/// Workspace of a call, in memory of the page kind asked for.
Buffer workspace(const Context &context, const gdn_args &args, bool huge_pages = false);

}  // namespace gdn::cli
