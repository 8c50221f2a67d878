#include "case.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <limits>
#include <numeric>
#include <ostream>

#include "dtype.h"
#include "random.h"
#include "report.h"

namespace gdn_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using gdn_reference::Array;
using gdn_reference::Operands;
using gdn_reference::Result;

bool logit_decay(const Case &c) { return c.decay == GDN_DECAY_SOFTPLUS || c.decay == GDN_DECAY_LOWER_BOUND; }
double bound_of(const Case &c) { return c.lower_bound != 0 ? c.lower_bound : -5.0; }
gdn_dtype gate_dtype(const Case &c) { return c.gate_dtype == GDN_DTYPE_NONE ? c.dtype : c.gate_dtype; }
std::int64_t gate_heads(const Case &c) { return c.gates_per_value_head ? c.HV : c.H; }

Array make_array(const Case &c, gdn_dtype dtype, std::int64_t heads, std::int64_t channels, const std::function<double()> &draw) {
    Array array;
    array.T = c.total();
    array.heads = heads;
    array.channels = channels;
    array.data.resize(static_cast<std::size_t>((c.packed ? 1 : c.sequences()) * array.T * heads * channels));
    for (float &value : array.data) value = rounded(dtype, static_cast<float>(draw()));
    return array;
}

double draw_log_decay(const Case &c, Random &random) {
    switch (c.inputs) {
    case Inputs::kModerate: return -random.log_uniform(1e-3, 1.5);
    case Inputs::kRealistic: return -random.log_uniform(1e-4, 316);
    case Inputs::kWeakDecay: return -random.log_uniform(1e-6, 1e-3);
    case Inputs::kZerosOnes: return random.chance(0.2) ? -kInfinity : 0.0;
    case Inputs::kSaturated: return bound_of(c);
    case Inputs::kParallelKeys: return -random.log_uniform(1e-6, 1e-4);
    }
    return 0;
}

double draw_decay(const Case &c, Random &random) {
    if (c.decay == GDN_DECAY_LOG) return draw_log_decay(c, random);
    if (c.decay == GDN_DECAY_LINEAR) return std::exp(draw_log_decay(c, random));
    if (c.inputs == Inputs::kZerosOnes) return random.chance(0.2) ? 1e4 : -1e4;
    if (c.inputs == Inputs::kSaturated) return 30;
    if (c.inputs == Inputs::kWeakDecay || c.inputs == Inputs::kParallelKeys) return -8 + random.normal();
    return 2 * random.normal();
}

double draw_gate(const Case &c, bool twice, Random &random) {
    if (c.gate == GDN_GATE_LOGIT) {
        if (c.inputs == Inputs::kZerosOnes) return random.chance(0.3) ? -1e4 : random.chance(0.1) ? kInfinity : 1e4;
        if (c.inputs == Inputs::kSaturated || c.inputs == Inputs::kParallelKeys) return random.uniform(2, 9);
        return 2 * random.normal();
    }
    const double factor = twice ? 2 : 1;
    if (c.inputs == Inputs::kZerosOnes) return random.chance(0.3) ? 0 : factor;
    if (c.inputs == Inputs::kSaturated) return factor * (1 - std::ldexp(random.uniform(), -8));
    if (c.inputs == Inputs::kParallelKeys) return factor * random.uniform(0.5, 1);
    return factor * random.uniform();
}

double draw_v(const Case &c, Random &random) {
    return c.inputs == Inputs::kRealistic ? -0.3 + 25.3 * std::pow(random.uniform(), 4) : random.normal();
}

// Rows of unit length, or (l2 norm inside) of any.
Array make_rows(const Case &c, bool key, Random &random) {
    Array array = make_array(c, GDN_DTYPE_F32, c.H, c.K, [] { return 0.0; });
    const std::int64_t rows = static_cast<std::int64_t>(array.data.size()) / c.K;
    std::vector<double> row(static_cast<std::size_t>(c.K));
    for (std::int64_t r = 0; r < rows; r++) {
        double sum = 0;
        const bool parallel = key && c.inputs == Inputs::kParallelKeys;
        for (std::size_t i = 0; i < row.size(); i++) {
            row[i] = parallel ? (i == 0) + 0.1 * random.normal() / std::sqrt(static_cast<double>(c.K)) : random.normal();
            sum += row[i] * row[i];
        }
        const double length = c.l2norm ? random.log_uniform(0.1, 3) : 1;
        for (std::size_t i = 0; i < row.size(); i++)
            array.data[static_cast<std::size_t>(r) * row.size() + i] =
                rounded(c.dtype, static_cast<float>(row[i] * length / std::sqrt(sum)));
    }
    return array;
}

}  // namespace

std::int64_t Case::total() const {
    if (packed) return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    return lengths.empty() ? 0 : lengths[0];
}

const char *variant_name(gdn_variant variant) {
    static const char *const names[] = {"delta_rule", "gla", "gdn", "kda", "gdn2", "fg2", "fg2_plus"};
    return names[variant];
}

bool channel_decay(const Case &c) {
    if (c.variant == GDN_VARIANT_GLA) return !c.scalar_decay;
    return c.variant != GDN_VARIANT_GDN && c.variant != GDN_VARIANT_DELTA_RULE;
}

bool has_gates(gdn_variant variant) { return variant != GDN_VARIANT_GLA; }

std::string name(const Case &c) {
    static const char *const decays[] = {"log", "linear", "softplus", "bound"};
    static const char *const kinds[] = {"", "_realistic", "_weak", "_zerosones", "_saturated", "_parallel"};
    std::string text = variant_name(c.variant);
    if (c.variant != GDN_VARIANT_DELTA_RULE && !c.absent_g) text += std::string("_") + decays[c.decay];
    if (c.absent_g) text += "_nog";
    if (c.scalar_decay) text += "_scalar";
    if (has_gates(c.variant)) text += c.gate == GDN_GATE_LOGIT ? "_logit" : "_value";
    if (c.l2norm) text += "_l2";
    if (c.neg_eigval) text += "_neg";
    text += std::string("_") + dtype_name(c.dtype);
    if (c.gate_dtype != GDN_DTYPE_NONE) text += std::string("g") + dtype_name(c.gate_dtype);
    text += "_K" + std::to_string(c.K) + "V" + std::to_string(c.V) + "_H" + std::to_string(c.H) + "HV" + std::to_string(c.HV);
    if (c.gates_per_value_head) text += "gv";
    if (c.head_map == GDN_HEAD_MAP_MODULO) text += "_modulo";
    text += c.packed ? "_packed" : "_B" + std::to_string(c.sequences());
    if (!c.packed)
        text += "_T" + std::to_string(c.total());
    else
        for (std::int64_t length : c.lengths) text += "_" + std::to_string(length);
    text += kinds[static_cast<int>(c.inputs)];
    if (c.scale != 0) text += "_scale" + std::to_string(static_cast<int>(c.scale * 100));
    if (c.lower_bound != 0) text += "_lb" + std::to_string(static_cast<int>(-100 * c.lower_bound));
    if (!c.initial) text += "_noS0";
    if (!c.final) text += "_noS1";
    if (c.in_place) text += "_inplace";
    if (c.v_first) text += "_vfirst";
    if (c.slots) text += "_slots";
    if (c.index_dtype == GDN_DTYPE_I64) text += "_i64";
    if (c.n_snapshots)
        text += "_snap" + std::to_string(c.n_snapshots) +
                (c.snapshot_kind == GDN_SNAPSHOT_BOUNDARIES ? "b" + std::to_string(c.snapshot_interval) : "");
    if (c.padded) text += "_padded";
    if (c.guard == Guard::kBegin) text += "_front";
    if (c.precision == GDN_PRECISION_LOW) text += "_low";
    if (c.seed != 1) text += "_seed" + std::to_string(c.seed);
    return text;
}

void PrintTo(const Case &c, std::ostream *out) { *out << name(c); }

Context::Context(const std::string &target, int threads, const gdn_context_options *given) : target_(target) {
    gdn_context_options options;
    if (given)
        options = *given;
    else
        gdn_context_options_init(&options);
    options.target = target_.c_str();
    if (threads > 0) options.num_threads = threads;
    options.flags |= GDN_CHECK_VALUES;
    EXPECT_EQ(gdn_context_create(&options, &context_), GDN_STATUS_OK) << gdn_last_error();
}

void Context::apply(const std::string &overrides) {
    EXPECT_EQ(gdn_apply_overrides(context_, overrides.data(), overrides.size()), GDN_STATUS_OK) << gdn_last_error();
}

std::vector<std::string> targets(gdn_precision precision) {
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < gdn_target_count(); i++) {
        gdn_target_info target;
        if (gdn_target_get(i, &target) != GDN_STATUS_OK || !target.runs_here) continue;
        bool has_core = false;
        for (std::int64_t k = 0; k < gdn_kernel_count(); k++) {
            gdn_kernel_info kernel;
            if (gdn_kernel_get(k, &kernel) != GDN_STATUS_OK || std::string(kernel.target) != target.name ||
                std::string(kernel.family) != "core_chunk")
                continue;
            const bool low = std::string(kernel.generator).find("precision=low") != std::string::npos;
            has_core = has_core || low == (precision == GDN_PRECISION_LOW);
        }
        if (has_core) names.push_back(target.name);
    }
    return names;
}

bool small_budget() {
    const char *budget = std::getenv("GDN_TEST_BUDGET");
    return budget && std::string(budget) == "small";
}

std::vector<Case> within_budget(std::vector<Case> cases, std::size_t stride) {
    if (!small_budget()) return cases;
    std::vector<Case> kept;
    for (std::size_t i = 0; i < cases.size(); i += stride) kept.push_back(cases[i]);
    return kept;
}

Problem::Problem(const Case &c) : case_(c) {
    draw();
    allocate();
}

Problem::Problem(const Case &c, const Operands &operands) : case_(c), operands_(operands) { allocate(); }

void Problem::draw() {
    const Case &c = case_;
    Random random(
        c.seed * 1000003 + static_cast<std::uint64_t>(c.variant) * 101 + static_cast<std::uint64_t>(c.total() * 7 + c.K * 3 + c.V));
    Operands &x = operands_;
    x.variant = c.variant;
    x.decay = c.decay;
    x.gate = c.gate;
    x.head_map = c.head_map;
    x.v_first = c.v_first;
    x.neg_eigval = c.neg_eigval;
    x.l2norm = c.l2norm;
    x.scale = static_cast<float>(c.scale);
    x.lower_bound = static_cast<float>(bound_of(c));
    x.B = c.packed ? 1 : c.sequences();
    x.T = c.total();
    x.H = c.H;
    x.HV = c.HV;
    x.K = c.K;
    x.V = c.V;
    x.n_snapshots = c.n_snapshots;
    x.snapshot_kind = c.snapshot_kind;
    x.snapshot_interval = c.snapshot_interval;
    if (c.packed) {
        x.cu_seqlens = {0};
        for (std::int64_t length : c.lengths) x.cu_seqlens.push_back(x.cu_seqlens.back() + length);
    }

    x.q = make_rows(c, false, random);
    x.k = make_rows(c, true, random);
    x.v = make_array(c, c.dtype, c.HV, c.V, [&] { return draw_v(c, random); });
    const auto gate = [&](std::int64_t heads, std::int64_t channels, bool twice) {
        return make_array(c, gate_dtype(c), heads, channels, [&] { return draw_gate(c, twice, random); });
    };
    if (c.variant != GDN_VARIANT_DELTA_RULE && !c.absent_g) {
        const std::int64_t channels = channel_decay(c) ? c.K : 1;
        x.g = make_array(c, gate_dtype(c), gate_heads(c), channels, [&] { return draw_decay(c, random); });
        if (logit_decay(c)) {
            // Mamba's initialisation: A in [1, 16], softplus(dt_bias) in [1e-3, 1e-1]. The bounded form starts at A = 1.
            for (std::int64_t i = 0; i < gate_heads(c); i++)
                x.A_log.push_back(
                    static_cast<float>(c.decay == GDN_DECAY_SOFTPLUS ? std::log(random.uniform(1, 16)) : random.uniform(-0.5, 0.5)));
            for (std::int64_t i = 0; i < gate_heads(c) * channels; i++) {
                const double dt = random.log_uniform(1e-3, 1e-1);
                x.dt_bias.push_back(static_cast<float>(dt + std::log(-std::expm1(-dt))));
            }
        }
    }
    switch (c.variant) {
    case GDN_VARIANT_GLA: break;
    case GDN_VARIANT_DELTA_RULE:
    case GDN_VARIANT_GDN:
    case GDN_VARIANT_KDA: x.beta = gate(gate_heads(c), 1, c.neg_eigval); break;
    case GDN_VARIANT_GDN2:
        x.b = gate(gate_heads(c), c.K, c.neg_eigval);
        x.w = gate(c.HV, c.V, false);
        break;
    case GDN_VARIANT_FG2: x.beta = gate(gate_heads(c), c.K, false); break;
    case GDN_VARIANT_FG2_PLUS:
        x.beta_k = gate(gate_heads(c), c.K, false);
        x.beta_v = gate(c.HV, c.V, false);
        break;
    }
    const std::int64_t N = c.sequences();
    if (c.slots)
        for (std::int64_t n = 0; n < N; n++) x.initial_slots.push_back(n == 1 ? -1 : 2 * ((n * 5 + 3) % N));
    if (c.initial) {
        x.initial_state.resize(static_cast<std::size_t>((c.slots ? 2 * N + 1 : N) * c.HV * c.K * c.V));
        for (float &value : x.initial_state) value = static_cast<float>(0.5 * random.normal());
    }
}

void Problem::allocate() {
    const Case &c = case_;
    const Operands &x = operands_;
    const std::int64_t N = c.sequences();
    const Guard guard = c.guard;
    const auto token = [&](const Array &array, gdn_dtype dtype, bool scalar) {
        if (!array.present()) return HostTensor();
        std::vector<std::int64_t> shape = {x.B, array.T, array.heads}, padding = {5, 3, 4};
        if (!scalar) shape.push_back(array.channels);
        if (scalar) padding = {5, 3};
        HostTensor tensor(dtype, shape, guard, c.padded ? padding : std::vector<std::int64_t>());
        tensor.fill(array.data);
        return tensor;
    };
    q = token(x.q, c.dtype, false);
    k = token(x.k, c.dtype, false);
    v = token(x.v, c.dtype, false);
    g = token(x.g, gate_dtype(c), !channel_decay(c));
    beta = token(x.beta, gate_dtype(c), c.variant != GDN_VARIANT_FG2);
    b = token(x.b, gate_dtype(c), false);
    w = token(x.w, gate_dtype(c), false);
    beta_k = token(x.beta_k, gate_dtype(c), false);
    beta_v = token(x.beta_v, gate_dtype(c), false);
    if (!x.A_log.empty()) {
        A_log = HostTensor(GDN_DTYPE_F32, {x.g.heads}, guard);
        A_log.fill(x.A_log);
    }
    if (!x.dt_bias.empty()) {
        dt_bias = HostTensor(GDN_DTYPE_F32,
            channel_decay(c) ? std::vector<std::int64_t>{x.g.heads, x.g.channels} : std::vector<std::int64_t>{x.g.heads}, guard);
        dt_bias.fill(x.dt_bias);
    }
    if (!x.cu_seqlens.empty()) {
        cu_seqlens = HostTensor(c.index_dtype, {N + 1}, guard);
        cu_seqlens.fill_integers(x.cu_seqlens);
    }

    const std::int64_t rows = c.v_first ? c.V : c.K, columns = c.v_first ? c.K : c.V;
    const std::vector<std::int64_t> state_padding = c.padded ? std::vector<std::int64_t>{11, 9, 7} : std::vector<std::int64_t>();
    const std::int64_t states = c.slots ? 2 * N + 1 : N;
    if (c.initial) {
        initial_state = HostTensor(GDN_DTYPE_F32, {states, c.HV, rows, columns}, guard, state_padding);
        initial_state.fill(x.initial_state);
    }
    if (c.slots) {
        initial_slots = HostTensor(c.index_dtype, {N}, guard);
        initial_slots.fill_integers(x.initial_slots);
        for (std::int64_t n = 0; n < N; n++) final_slot_list_.push_back(2 * ((n * 7 + 1) % N) + 1);
        // In place, a sequence writes the slot that it reads. One that starts from zeros has slot 2 N to itself.
        if (c.in_place)
            for (std::int64_t n = 0; n < N; n++)
                final_slot_list_[static_cast<std::size_t>(n)] =
                    x.initial_slots[static_cast<std::size_t>(n)] < 0 ? 2 * N : x.initial_slots[static_cast<std::size_t>(n)];
        final_slots = HostTensor(c.index_dtype, {N}, guard);
        final_slots.fill_integers(final_slot_list_);
    }
    if (c.final && !c.in_place) final_state = HostTensor(GDN_DTYPE_F32, {states, c.HV, rows, columns}, guard, state_padding);
    if (c.n_snapshots > 0)
        snapshots = HostTensor(GDN_DTYPE_F32, {N, c.n_snapshots, c.HV, rows, columns}, guard,
            c.padded ? std::vector<std::int64_t>{13, 11, 9, 7} : std::vector<std::int64_t>());
    o = HostTensor(c.dtype, {x.B, x.T, c.HV, c.V}, guard, c.padded ? std::vector<std::int64_t>{5, 3, 4} : std::vector<std::int64_t>());

    gdn_args_init(&args_);
    args_.variant = c.variant;
    args_.decay = c.decay;
    args_.gate = c.gate;
    args_.head_map = c.head_map;
    args_.state_layout = c.v_first ? GDN_STATE_V_FIRST : GDN_STATE_K_FIRST;
    args_.precision = c.precision;
    args_.allow_neg_eigval = c.neg_eigval && c.gate == GDN_GATE_LOGIT;
    args_.qk_l2norm = c.l2norm;
    args_.scale = static_cast<float>(x.scale);
    args_.lower_bound = static_cast<float>(c.lower_bound);
    args_.q = q.view();
    args_.k = k.view();
    args_.v = v.view();
    args_.g = g.view();
    args_.beta = beta.view();
    args_.b = b.view();
    args_.w = w.view();
    args_.beta_k = beta_k.view();
    args_.beta_v = beta_v.view();
    args_.A_log = A_log.view();
    args_.dt_bias = dt_bias.view();
    args_.initial_state = initial_state.view();
    args_.initial_slots = initial_slots.view();
    args_.cu_seqlens = cu_seqlens.view();
    args_.o = o.view();
    args_.final_state = c.in_place ? initial_state.view() : final_state.view();
    args_.final_slots = final_slots.view();
    args_.snapshots = snapshots.view();
    args_.snapshot_kind = c.snapshot_kind;
    args_.snapshot_interval = c.n_snapshots > 0 && c.snapshot_kind == GDN_SNAPSHOT_BOUNDARIES ? c.snapshot_interval : 0;
    for (HostTensor *tensor : inputs()) input_hashes_.push_back(tensor->hash());
}

std::vector<HostTensor *> Problem::inputs() {
    std::vector<HostTensor *> all = {
        &q, &k, &v, &g, &beta, &b, &w, &beta_k, &beta_v, &A_log, &dt_bias, &initial_slots, &cu_seqlens, &final_slots};
    if (!case_.in_place) all.push_back(&initial_state);
    return all;
}

void Problem::reset() {
    o.poison();
    if (snapshots.present()) snapshots.poison();
    if (case_.in_place)
        initial_state.fill(operands_.initial_state);
    else if (final_state.present())
        final_state.poison();
}

gdn_status Problem::run(const Context &context, Call call) {
    std::size_t bytes = 0;
    const gdn_status status = gdn_workspace_size(context.get(), &args_, &bytes);
    if (status != GDN_STATUS_OK) return status;
    GuardedBuffer workspace(bytes, Guard::kEnd, 64);
    const gdn_status done = (call == Call::kStep ? gdn_step : gdn_forward)(context.get(), &args_, workspace.data(), bytes);
    EXPECT_TRUE(workspace.slack_untouched()) << "workspace of " << bytes << " bytes overrun";
    return done;
}

std::vector<float> Problem::state(std::int64_t n) const {
    const HostTensor &tensor = case_.in_place ? initial_state : final_state;
    const std::int64_t slot = case_.slots ? final_slot_list_[static_cast<std::size_t>(n)] : n, size = case_.HV * case_.K * case_.V;
    std::vector<float> values(static_cast<std::size_t>(size));
    for (std::int64_t i = 0; i < size; i++) values[static_cast<std::size_t>(i)] = load_element(GDN_DTYPE_F32, tensor.at(slot * size + i));
    return values;
}

std::vector<float> Problem::snapshot(std::int64_t n, std::int64_t j) const {
    const std::int64_t size = case_.HV * case_.K * case_.V, index = n * case_.n_snapshots + j;
    std::vector<float> values(static_cast<std::size_t>(size));
    for (std::int64_t i = 0; i < size; i++)
        values[static_cast<std::size_t>(i)] = load_element(GDN_DTYPE_F32, snapshots.at(index * size + i));
    return values;
}

std::vector<unsigned char> Problem::output_bits() const {
    std::vector<unsigned char> bytes = o.bits();
    if (case_.final) {
        const std::vector<unsigned char> states = (case_.in_place ? initial_state : final_state).bits();
        bytes.insert(bytes.end(), states.begin(), states.end());
    }
    if (snapshots.present()) {
        const std::vector<unsigned char> states = snapshots.bits();
        bytes.insert(bytes.end(), states.begin(), states.end());
    }
    return bytes;
}

::testing::AssertionResult Problem::untouched() {
    static const char *const names[] = {"q", "k", "v", "g", "beta", "b", "w", "beta_k", "beta_v", "A_log", "dt_bias", "initial_slots",
        "cu_seqlens", "final_slots", "initial_state"};
    const std::vector<HostTensor *> all = inputs();
    for (std::size_t i = 0; i < all.size(); i++)
        if (all[i]->hash() != input_hashes_[i]) return ::testing::AssertionFailure() << names[i] << " was written";
    if (!o.padding_untouched()) return ::testing::AssertionFailure() << "memory between or around the rows of o was written";
    if (!final_state.padding_untouched())
        return ::testing::AssertionFailure() << "memory between or around the rows of final_state was written";
    if (!snapshots.padding_untouched())
        return ::testing::AssertionFailure() << "memory between or around the rows of snapshots was written";
    if (case_.in_place && !initial_state.padding_untouched())
        return ::testing::AssertionFailure() << "memory between the rows of the state was written";
    if (case_.slots && case_.final) {
        const HostTensor &pool = case_.in_place ? initial_state : final_state;
        const std::int64_t size = case_.HV * case_.K * case_.V;
        for (std::int64_t slot = 0; slot < pool.shape()[0]; slot++) {
            if (std::find(final_slot_list_.begin(), final_slot_list_.end(), slot) != final_slot_list_.end()) continue;
            for (std::int64_t i = slot * size; i < (slot + 1) * size; i++) {
                const float before = case_.in_place ? operands_.initial_state[static_cast<std::size_t>(i)] : bits_float(0xFFFFFFFF);
                if (float_bits(load_element(GDN_DTYPE_F32, pool.at(i))) != float_bits(before))
                    return ::testing::AssertionFailure() << "slot " << slot << " was written, which no sequence names";
            }
        }
    }
    return ::testing::AssertionSuccess();
}

::testing::AssertionResult Problem::check(const Result &expected, const std::string &target) {
    const Case &c = case_;
    const Operands &x = operands_;
    const double o_bound = c.dtype == GDN_DTYPE_F32 && c.precision == GDN_PRECISION_F32 ? kBoundF32 : kBound16;
    const double state_bound = c.precision == GDN_PRECISION_F32 ? kBoundF32 : kBound16;
    const std::int64_t N = x.sequences(), head_state = c.K * c.V;
    const std::vector<float> given = o.read();
    ::testing::AssertionResult result = ::testing::AssertionSuccess();
    const auto judge = [&](const Error &error, double bound, Error &worst, const char *what, std::int64_t n, std::int64_t hv) {
        worst.worst(error);
        if (result && !error.within(bound))
            result = ::testing::AssertionFailure()
                     << what << " of sequence " << n << ", head " << hv << ": relative RMS " << error.rms << ", max over RMS " << error.max
                     << ", bound " << bound << " (" << name(c) << ", " << target << ")";
    };
    o_error = state_error = Error();
    for (std::int64_t n = 0; n < N; n++) {
        const std::int64_t first = x.cu_seqlens.empty() ? n * x.T : x.cu_seqlens[static_cast<std::size_t>(n)], L = x.length(n);
        for (std::int64_t hv = 0; hv < c.HV; hv++) {
            ErrorSum all, last;
            for (std::int64_t t = 0; t < L; t++)
                for (std::int64_t d = 0; d < c.V; d++) {
                    const auto i = static_cast<std::size_t>(((first + t) * c.HV + hv) * c.V + d);
                    all.add(given[i], expected.o[i]);
                    if (t >= (L - 1) / 8 * 8) last.add(given[i], expected.o[i]);
                }
            judge(all.error(), o_bound, o_error, "o", n, hv);
            judge(last.error(), o_bound, o_error, "o, last chunk,", n, hv);
        }
        const auto judge_state = [&](const std::vector<float> &is, const std::vector<double> &should, const char *what) {
            for (std::int64_t hv = 0; hv < c.HV; hv++) {
                ErrorSum sum;
                for (auto i = static_cast<std::size_t>(hv * head_state); i < static_cast<std::size_t>((hv + 1) * head_state); i++)
                    sum.add(is[i], should[i]);
                judge(sum.error(), state_bound, state_error, what, n, hv);
            }
        };
        if (c.final) judge_state(state(n), expected.final_state[static_cast<std::size_t>(n)], "final_state");
        for (std::int64_t j = 0; j < c.n_snapshots; j++) {
            const std::vector<double> &due = expected.snapshots[static_cast<std::size_t>(n * c.n_snapshots + j)];
            const std::vector<float> is = snapshot(n, j);
            if (!due.empty())
                judge_state(is, due, "snapshot");
            else if (std::any_of(is.begin(), is.end(), [](float value) { return float_bits(value) != 0xFFFFFFFF; }))
                return ::testing::AssertionFailure() << "snapshot " << j << " of sequence " << n << " is not due, but was written";
        }
    }
    record_error(variant_name(c.variant), std::string(dtype_name(c.dtype)) + (c.precision == GDN_PRECISION_LOW ? "/low" : ""), target,
        o_error, state_error);
    return result ? untouched() : result;
}

std::shared_ptr<const Result> reference_of(const Case &c, Problem &problem) {
    static std::deque<std::pair<std::string, std::shared_ptr<const Result>>> kept;
    const std::string key = name(c);
    for (const auto &entry : kept)
        if (entry.first == key) return entry.second;
    kept.emplace_front(key, std::make_shared<const Result>(gdn_reference::run(problem.operands())));
    if (kept.size() > 4) kept.pop_back();
    return kept.front().second;
}

::testing::AssertionResult matches_reference(const Case &c, const Context &context, Call call) {
    Problem problem(c);
    const gdn_status status = problem.run(context, call);
    if (status != GDN_STATUS_OK)
        return ::testing::AssertionFailure() << name(c) << ": " << gdn_status_string(status) << ": " << gdn_last_error();
    return problem.check(*reference_of(c, problem), context.target());
}

::testing::AssertionResult matches_reference(const Case &c, const std::string &target, int threads, Call call) {
    return matches_reference(c, Context(target, threads), call);
}

}  // namespace gdn_test
