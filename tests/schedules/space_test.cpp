// Points of every parameter space, drawn with fixed seeds: compiled by gdn.generator, put into the dispatch table in place of the shipped kernel, and
// run against the double reference. A parameter that a schedule does not read, or a schedule that is bound to fail, ends the generator.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "../../runtime/src/context.h"
#include "../../runtime/src/cpu.h"
#include "../../runtime/src/halide_glue.h"
#include "../../runtime/src/row_config.h"
#include "../kernels/mixer_call.h"
#include "../support/case.h"
#include "../support/folder.h"
#include "../support/mixer_case.h"
#include "../support/pending_writes.h"

namespace gdn_test {
namespace {

using nlohmann::json;

struct Output {
    int status;
    std::string text;  // both streams
};

Output run_command(const std::string &command) {
    Output out{-1, ""};
    FILE *pipe = popen((command + " 2>&1").c_str(), "r");
    if (!pipe) return out;
    std::array<char, 4096> part;
    for (size_t n; (n = fread(part.data(), 1, part.size(), pipe)) > 0;) out.text.append(part.data(), n);
    out.status = pclose(pipe);
    return out;
}

std::string generator(const std::string &arguments) { return run_command("'" GDN_GENERATOR "' " + arguments).text; }

const json &kernel_list() {
    static const json list = json::parse(generator(
        "--list --json --kernels '" GDN_SOURCE_DIR "/generators/kernels.json' --tuned '" GDN_SOURCE_DIR "/schedules/tuned'"))["kernels"];
    return list;
}

// The table row of a kernel of the list, -1 if this library has no such kernel or this machine cannot run it.
int row_of(const json &kernel) {
    for (int i = 0; i < gdn::kKernelRowCount; i++) {
        const gdn::KernelRow &row = gdn::kKernelRows[i];
        const std::uint64_t needed = gdn::parse_features(gdn::kTargetRows[row.target].features);
        if (kernel["name"] == row.name && kernel["target"] == row.target_name) return needed & ~gdn::cpu_features() ? -1 : i;
    }
    return -1;
}

using Config = std::map<std::string, int>;

bool holds(const json &constraint, const Config &config) {
    json row = json::array();
    for (const std::string name : constraint["parameters"]) row.push_back(config.at(name));
    const json &allowed = constraint["allowed"];
    return std::find(allowed.begin(), allowed.end(), row) != allowed.end();
}

// A point that the list calls valid.
Config random_config(const json &space, std::mt19937 &random) {
    Config config;
    const json &constraints = space["constraints"];
    do {
        for (const json &parameter : space["parameters"]) {
            const json &values = parameter["values"];
            config[parameter["name"]] = values[random() % values.size()];
        }
    } while (!std::all_of(constraints.begin(), constraints.end(), [&](const json &constraint) { return holds(constraint, config); }));
    return config;
}

std::string text_of(const Config &config) {
    std::string text;
    for (const auto &[name, value] : config) text += (text.empty() ? "" : ",") + name + ":" + std::to_string(value);
    return text;
}

// A kernel compiled at one point of its space, as a copy of the library's table with one row exchanged.
class Candidate {
public:
    Candidate(const json &kernel, int row, const Config &config) : rows_(gdn::kKernelRows, gdn::kKernelRows + gdn::kKernelRowCount) {
        std::string arguments = kernel["arguments"];
        arguments = arguments.substr(0, arguments.find(" config="));
        const std::string folder = folder_.path();
        const Output made = run_command("'" GDN_GENERATOR "' " + arguments + (config.empty() ? "" : " config=" + text_of(config)) +
                                        " -f candidate -e object -o '" + folder + "'");
        message_ = made.text;
        if (made.status != 0) return;
        const Output linked = run_command("c++ -shared -o '" + folder + "/candidate.so' '" + folder + "/candidate.o'");
        message_ += linked.text;
        library_ = linked.status == 0 ? dlopen((folder + "/candidate.so").c_str(), RTLD_LAZY | RTLD_LOCAL) : nullptr;
        if (!library_) return;
        gdn::KernelRow &r = rows_[row];
        r.call = reinterpret_cast<int (*)(void **)>(dlsym(library_, "candidate_argv"));
        gdn::configure(&r, config);
    }
    ~Candidate() {
        if (library_) dlclose(library_);
    }

    bool compiled() const { return library_ != nullptr; }
    void configure(int row, const Config &config) { gdn::configure(&rows_[row], config); }
    const std::string &message() const { return message_; }
    const gdn::KernelRow *rows() const { return rows_.data(); }

private:
    Folder folder_;
    std::vector<gdn::KernelRow> rows_;
    void *library_ = nullptr;
    std::string message_;
};

// A context whose calls go through the candidate's table while this lives.
class WithTable {
public:
    WithTable(const Context &context, const gdn::KernelRow *rows, int target)
        : context_(context.get()), memory_(std::aligned_alloc(64, (gdn::Dispatch::bytes(gdn::kKernelRowCount) + 63) / 64 * 64)),
          before_(context_->dispatch.load()) {
        context_->dispatch.store(gdn::Dispatch::create(
            memory_, gdn::kTargetRows, gdn::kTargetRowCount, rows, gdn::kKernelRowCount, gdn::cpu_features(), target));
    }
    ~WithTable() {
        context_->dispatch.store(before_);
        std::free(memory_);
    }

private:
    gdn_context *context_;
    void *memory_;
    gdn::Dispatch *before_;
};

// Cases that send calls through exactly this kernel.
std::vector<Case> cases_of(const json &kernel) {
    const json &params = kernel["params"];
    const auto param = [&](const char *name) { return params.value(name, std::string()); };
    Case c;
    c.H = 1;
    c.HV = 2;
    c.initial = c.final = true;
    c.lengths = {37, 8};
    c.packed = true;
    const std::string size = param("size");
    if (size.empty() || size == "any") {
        c.K = c.V = 64;
    } else if (size.compare(0, 4, "anyx") == 0) {
        const int unit = std::atoi(size.c_str() + 4);
        c.K = 48;
        c.V = 3 * unit;
        if (unit == 16) c.V = 80;
    } else {
        c.K = std::atoi(size.c_str());
        c.V = std::atoi(size.c_str() + size.find('x') + 1);
    }
    const std::string core = param("core");
    c.variant = core == "scalar_tied" ? GDN_VARIANT_GDN : core == "channel_own" ? GDN_VARIANT_GDN2 : GDN_VARIANT_KDA;
    c.precision = param("precision") == "low" ? GDN_PRECISION_LOW : GDN_PRECISION_F32;
    if (kernel["family"] == "core_pending") {
        c.lengths = {3, 3};
        c.packed = false;
    }
    if (kernel["family"] == "core_step") {
        c.lengths = {1, 1};
        c.packed = false;
        c.v_first = param("layout") == "vfirst";
    }
    if (kernel["family"] == "stage") {
        const std::string variant = param("variant"), form = param("form");
        c.variant = variant == "gdn"    ? GDN_VARIANT_GDN
                    : variant == "kda"  ? GDN_VARIANT_KDA
                    : variant == "gdn2" ? GDN_VARIANT_GDN2
                                        : GDN_VARIANT_FG2_PLUS;
        c.dtype = param("dtype") == "bf16" ? GDN_DTYPE_BF16 : GDN_DTYPE_F32;
        c.l2norm = form == "norm" || form == "logits";
        if (form == "linear") c.decay = GDN_DECAY_LINEAR;
        if (form == "logits") {
            c.decay = GDN_DECAY_SOFTPLUS;
            c.gate = GDN_GATE_LOGIT;
        }
    }
    return {c};
}

// The kernels beside the operator, called by themselves: whole vectors and tiles, and what is left of them.
::testing::AssertionResult mixer_kernel_matches(const gdn::KernelRow &row) {
    for (int channels : {7, 128, 131})
        for (int n : {1, 3, 13})
            for (gdn_activation f : {GDN_ACTIVATION_NONE, GDN_ACTIVATION_SILU}) {
                if (row.family == gdn::Family::kShortConv) {
                    ShortConvCall call(row, channels, n, row.width ? row.width : 3, f);
                    call.draw(1);
                    if (call.run()) return ::testing::AssertionFailure() << "the kernel failed";
                    if (const auto result = call.check(); !result) return result;
                } else {
                    GatedNormCall call(row, channels, n, true, f != GDN_ACTIVATION_NONE, f);
                    call.draw(1);
                    if (call.run()) return ::testing::AssertionFailure() << "the kernel failed";
                    if (const auto result = call.check(); !result) return result;
                }
            }
    return ::testing::AssertionSuccess();
}

// Token by token, every write pending until the next step.
::testing::AssertionResult pending_steps_match(const Case &c, const Context &context) {
    Problem problem(c);
    const auto expected = reference_of(c, problem);
    PendingWrites writes(problem);
    for (std::int64_t t = 0; t < c.lengths[0]; t++)
        if (writes.step(context, t) != GDN_STATUS_OK) return ::testing::AssertionFailure() << gdn_last_error();
    if (writes.forward(context, 0, 0, false) != GDN_STATUS_OK) return ::testing::AssertionFailure() << gdn_last_error();
    return problem.check(*expected, context.target());
}

// The convolution of one token, which keeps the state too: whole vectors and what is left of them, in place and not.
::testing::AssertionResult step_convolutions_match(gdn_dtype dtype, const Context &context) {
    for (std::int64_t channels : {7, 20, 128})
        for (bool in_place : {false, true}) {
            MixerCase m;
            m.op.K = m.op.V = channels;
            m.op.H = m.op.HV = 2;
            m.op.lengths = {1, 1};
            m.op.dtype = dtype;
            m.conv_in_place = in_place;
            if (const auto result = matches_reference(m, context, Call::kStep); !result) return result;
        }
    return ::testing::AssertionSuccess();
}

gdn_dtype dtype_of(const json &kernel) {
    const std::string dtype = kernel["params"].value("dtype", std::string());
    return dtype == "bf16" ? GDN_DTYPE_BF16 : dtype == "f16" ? GDN_DTYPE_F16 : GDN_DTYPE_F32;
}

// Whether calls that go through this kernel of the context's table are right.
::testing::AssertionResult matches(const json &kernel, const Context &context) {
    if (kernel["family"] == "short_conv_step") return step_convolutions_match(dtype_of(kernel), context);
    for (const Case &c : cases_of(kernel)) {
        const auto result = kernel["family"] == "core_pending"
                                ? pending_steps_match(c, context)
                                : matches_reference(c, context, c.lengths[0] == 1 ? Call::kStep : Call::kForward);
        if (!result) return result;
    }
    return ::testing::AssertionSuccess();
}

bool is_mixer_kernel(const gdn::KernelRow &row) { return row.family == gdn::Family::kShortConv || row.family == gdn::Family::kGatedNorm; }

// Kernels with something to tune, by family and target.
std::map<std::string, std::vector<const json *>> tunable() {
    std::map<std::string, std::vector<const json *>> groups;
    for (const json &kernel : kernel_list()) {
        bool has = false;
        for (const json &p : kernel["space"]["parameters"]) has |= p["kind"] != "runtime" && p["values"].size() > 1;
        if (has && row_of(kernel) >= 0)
            groups[kernel["family"].get<std::string>() + " " + kernel["target"].get<std::string>()].push_back(&kernel);
    }
    return groups;
}

TEST(Space, RandomPointsMatchReference) {
    const auto groups = tunable();
    ASSERT_FALSE(groups.empty());
    for (const auto &[name, kernels] : groups) {
        std::mt19937 random(20261129);
        for (int i = 0; i < 4; i++) {
            const json &kernel = *kernels[random() % kernels.size()];
            const Config config = random_config(kernel["space"], random);
            const int row = row_of(kernel);
            const Candidate candidate(kernel, row, config);
            SCOPED_TRACE(kernel["name"].get<std::string>() + " for " + kernel["target"].get<std::string>() + " at " + text_of(config));
            ASSERT_TRUE(candidate.compiled()) << candidate.message();
            if (is_mixer_kernel(candidate.rows()[row])) {
                EXPECT_TRUE(mixer_kernel_matches(candidate.rows()[row]));
                continue;
            }
            const Context context(kernel["target"].get<std::string>());
            const WithTable table(context, candidate.rows(), gdn::kKernelRows[row].target);
            EXPECT_TRUE(matches(kernel, context));
        }
    }
}

// Rows of an odd number of vectors: what is unrolled must not go over the end of one, nor back.
TEST(Space, UnrolledStepsOfOpenSizesMatchReference) {
    int seen = 0;
    for (const json &kernel : kernel_list()) {
        const int row = row_of(kernel);
        if (row < 0 || kernel["family"] != "core_step" || kernel["params"]["size"] != "anyx16") continue;
        for (const json &p : kernel["space"]["parameters"]) {
            if (p["name"] != "unroll_k") continue;
            for (const int unroll : p["values"]) {
                const Candidate candidate(kernel, row, {{"unroll_k", unroll}});
                SCOPED_TRACE(kernel["name"].get<std::string>() + " for " + kernel["target"].get<std::string>() + ", " + std::to_string(unroll));
                ASSERT_TRUE(candidate.compiled()) << candidate.message();
                const Context context(kernel["target"].get<std::string>());
                const WithTable table(context, candidate.rows(), gdn::kKernelRows[row].target);
                EXPECT_TRUE(matches(kernel, context));
                seen++;
            }
        }
    }
    if (!seen) GTEST_SKIP() << "no tuned kernel runs here";
    EXPECT_GT(seen, 3);
}

// A candidate that returns at once must be seen: this is what the checks above are worth.
TEST(Space, MixerKernelThatDoesNothingIsCaught) {
    for (const gdn::Family family : {gdn::Family::kShortConv, gdn::Family::kGatedNorm}) {
        gdn::KernelRow row = *rows_of(family).at(0);
        EXPECT_TRUE(mixer_kernel_matches(row)) << row.symbol;
        row.call = [](void **) { return 0; };
        EXPECT_FALSE(mixer_kernel_matches(row)) << row.symbol;
    }
}

TEST(Space, KernelThatDoesNothingIsCaught) {
    int seen = 0;
    for (const std::string name : {"core_chunk_channel_tied_64x64", "core_pending_channel_tied_64x64", "short_conv_step_f32_4"})
        for (const json &kernel : kernel_list()) {
            const int row = row_of(kernel);
            if (row < 0 || kernel["name"] != name) continue;
            std::vector<gdn::KernelRow> rows(gdn::kKernelRows, gdn::kKernelRows + gdn::kKernelRowCount);
            rows[row].call = [](void **) { return 0; };
            const Context context(kernel["target"].get<std::string>());
            const WithTable table(context, rows.data(), rows[row].target);
            EXPECT_FALSE(matches(kernel, context)) << name;
            seen++;
            break;
        }
    if (!seen) GTEST_SKIP() << "no tuned kernel runs here";
    EXPECT_EQ(seen, 3);
}

// ---- chunks of other than eight tokens

// Kernels of the list that can run here, of these cores and this size, at the space's defaults but for `changes`.
std::vector<std::pair<const json *, Config>> chunk_kernels(const std::string &size, const std::string &precision, const Config &changes) {
    std::vector<std::pair<const json *, Config>> found;
    for (const json &kernel : kernel_list()) {
        const json &params = kernel["params"];
        if (kernel["family"] != "core_chunk" || params["size"] != size || params.value("precision", "") != precision || row_of(kernel) < 0)
            continue;
        if (kernel["space"]["parameters"][0]["values"].size() == 1) continue;  // the reference's chunk is eight
        Config config = kernel["config"];
        for (const auto &[name, value] : changes) config[name] = value;
        found.emplace_back(&kernel, config);
    }
    return found;
}

// Slices of V, which run on the same kernel, give the bits of the whole.
void expect_slices_keep_bits(Case c, const json &kernel, const gdn::KernelRow *rows, int target) {
    c.HV = 1;
    c.lengths = {75};
    c.packed = false;
    std::vector<unsigned char> whole;
    for (const int threads : {1, 3}) {
        const Context context(kernel["target"].get<std::string>(), threads);
        const WithTable table(context, rows, target);
        Problem problem(c);
        problem.reset();
        ASSERT_EQ(problem.run(context), GDN_STATUS_OK) << gdn_last_error();
        if (threads == 1) whole = problem.output_bits();
        EXPECT_EQ(problem.output_bits(), whole) << threads << " threads";
    }
}

class ChunkOf : public ::testing::TestWithParam<int> {};

// Every length around two chunks, by the kernel's own choice of steps, by chunks alone, and by chunks and as many steps as there may be.
TEST_P(ChunkOf, EveryLengthMatchesReference) {
    const int chunk = GetParam(), most = std::min(chunk - 1, 11);
    for (const auto &[kernel, base] : chunk_kernels("anyx32", "", {{"chunk", chunk}})) {
        const int row = row_of(*kernel);
        Candidate candidate(*kernel, row, base);
        ASSERT_TRUE(candidate.compiled()) << candidate.message();
        for (const Config &steps :
            {Config{}, Config{{"short_steps", 1}, {"tail_steps", 0}}, Config{{"short_steps", most}, {"tail_steps", most}}}) {
            Config config = base;
            for (const auto &[name, value] : steps) config[name] = value;
            candidate.configure(row, config);
            SCOPED_TRACE(
                (*kernel)["name"].get<std::string>() + " for " + (*kernel)["target"].get<std::string>() + " at " + text_of(config));
            const Context context((*kernel)["target"].get<std::string>());
            const WithTable table(context, candidate.rows(), gdn::kKernelRows[row].target);
            Case c = cases_of(*kernel)[0];
            c.lengths.clear();
            for (int n = 1; n <= 40; n++) c.lengths.push_back(n);
            EXPECT_TRUE(matches_reference(c, context));
            c.lengths = {1, chunk - 1, chunk, chunk + 1, 3 * chunk + 1, 41};
            c.slots = true;
            c.v_first = true;
            c.dtype = GDN_DTYPE_BF16;
            EXPECT_TRUE(matches_reference(c, context));
            c.slots = c.v_first = false;
            c.in_place = true;
            c.n_snapshots = 2;
            c.snapshot_kind = GDN_SNAPSHOT_BOUNDARIES;
            c.lengths = {64 + chunk + 3, 131};
            EXPECT_TRUE(matches_reference(c, context));
            for (const bool grouped : {false, true}) {
                MixerCase m;
                m.op = c;
                m.op.in_place = false;
                m.op.H = grouped ? 1 : 2;
                m.op.snapshot_kind = GDN_SNAPSHOT_LAST_TOKENS;
                m.op.n_snapshots = 0;
                m.op.lengths = {1, chunk + 3, 75};
                EXPECT_TRUE(matches_reference(m, context));
            }
        }
        expect_slices_keep_bits(cases_of(*kernel)[0], *kernel, candidate.rows(), gdn::kKernelRows[row].target);
    }
}

// Snapshots of the last tokens come from blocks, whose chunk stays eight: without the block kernel's work they are wrong.
TEST_P(ChunkOf, GoesWithBlocks) {
    for (const auto &[kernel, config] : chunk_kernels("64x64", "", {{"chunk", GetParam()}})) {
        if ((*kernel)["params"]["core"] != "channel_tied") continue;
        const int row = row_of(*kernel);
        const Candidate candidate(*kernel, row, config);
        ASSERT_TRUE(candidate.compiled()) << candidate.message();
        SCOPED_TRACE((*kernel)["name"].get<std::string>() + " for " + (*kernel)["target"].get<std::string>());
        std::vector<gdn::KernelRow> idle(candidate.rows(), candidate.rows() + gdn::kKernelRowCount);
        for (gdn::KernelRow &r : idle)
            if (r.family == gdn::Family::kCoreBlock) r.call = [](void **) { return 0; };
        Case c = cases_of(*kernel)[0];
        c.n_snapshots = 11;
        c.lengths = {64, 45, 11};
        const Context context((*kernel)["target"].get<std::string>());
        {
            const WithTable table(context, candidate.rows(), gdn::kKernelRows[row].target);
            EXPECT_TRUE(matches_reference(c, context));
        }
        const WithTable table(context, idle.data(), gdn::kKernelRows[row].target);
        EXPECT_FALSE(matches_reference(c, context));
    }
}

INSTANTIATE_TEST_SUITE_P(Tokens, ChunkOf, ::testing::Values(4, 16));

TEST(Space, LowPrecisionChunksOfSixteen) {
    for (const auto &[kernel, config] : chunk_kernels("128x128", "low", {{"chunk", 16}})) {
        const int row = row_of(*kernel);
        const Candidate candidate(*kernel, row, config);
        ASSERT_TRUE(candidate.compiled()) << candidate.message();
        SCOPED_TRACE((*kernel)["name"].get<std::string>() + " for " + (*kernel)["target"].get<std::string>());
        const Context context((*kernel)["target"].get<std::string>());
        const WithTable table(context, candidate.rows(), gdn::kKernelRows[row].target);
        Case c = cases_of(*kernel)[0];
        c.lengths = {16, 48, 7, 75};
        EXPECT_TRUE(matches_reference(c, context));
    }
}

// What the running chunk's `next` holds when the walk is head 0, head 1, .. for 32 tokens each, then the next 32 tokens.
TEST(Space, FetchAheadNamesComingChunks) {
    static std::vector<std::vector<std::uint64_t>> listed;
    const auto kernels = chunk_kernels("128x128", "", {});
    if (kernels.empty()) GTEST_SKIP() << "no tuned kernel runs here";
    const json &kernel = *kernels[0].first;
    const int row = row_of(kernel), chunk = gdn::kKernelRows[row].chunk, block = gdn::kKernelRows[row].run.time_block;
    Case c = cases_of(kernel)[0];
    c.packed = false;
    c.H = c.HV = 2;
    c.lengths = {3 * block - chunk};
    Problem problem(c);
    std::vector<std::uint64_t> walk;  // address of q's row at each chunk's first token
    for (std::int64_t t0 = 0; t0 < c.lengths[0]; t0 += block)
        for (std::int64_t h = 0; h < c.HV; h++)
            for (std::int64_t t = t0; t < std::min<std::int64_t>(t0 + block, c.lengths[0]); t += chunk) {
                const gdn_tensor &q = problem.args().q;
                walk.push_back(reinterpret_cast<std::uint64_t>(static_cast<const float *>(q.data) + t * q.strides[1] + h * q.strides[2]));
            }
    for (const int ahead : {0, 1, 2}) {
        std::vector<gdn::KernelRow> rows(gdn::kKernelRows, gdn::kKernelRows + gdn::kKernelRowCount);
        rows[row].run.fetch_ahead = ahead;
        rows[row].call = [](void **argv) {
            const auto *next = static_cast<const halide_buffer_t *>(argv[7]);
            const auto *first = reinterpret_cast<const std::uint64_t *>(next->host);
            listed.emplace_back(first, first + next->dim[0].extent);
            return 0;
        };
        const Context context(kernel["target"].get<std::string>());
        const WithTable table(context, rows.data(), rows[row].target);
        problem.reset();
        listed.clear();
        ASSERT_EQ(problem.run(context), GDN_STATUS_OK) << gdn_last_error();
        ASSERT_EQ(listed.size(), walk.size());
        for (std::size_t i = 0; i < walk.size(); i++) {
            ASSERT_EQ(static_cast<int>(listed[i].size()), rows[row].fetch_slots);
            const std::size_t coming = i + static_cast<std::size_t>(ahead);
            if (ahead > 0 && coming < walk.size()) {
                EXPECT_EQ(listed[i][0], walk[coming]) << "chunk " << i << ", " << ahead << " ahead";
            } else {
                EXPECT_EQ(std::set<std::uint64_t>(listed[i].begin(), listed[i].end()).size(), 1u)
                    << "chunk " << i << ", " << ahead << " ahead";
            }
        }
    }
}

TEST(Space, DefaultsAreValidAndListed) {
    for (const json &kernel : kernel_list()) {
        for (const json &p : kernel["space"]["parameters"]) {
            const json &values = p["values"];
            EXPECT_NE(std::find(values.begin(), values.end(), p["default"]), values.end()) << kernel["name"] << " " << p["name"];
            EXPECT_TRUE(kernel["config"].contains(p["name"])) << kernel["name"] << " " << p["name"];
        }
    }
}

TEST(Space, WrongConfigurationsAreRefused) {
    const json *kernel = nullptr;
    for (const json &k : kernel_list()) {
        if (!kernel && k["name"] == "core_chunk_channel_tied_128x128") kernel = &k;
    }
    ASSERT_NE(kernel, nullptr);
    const Folder folder;
    const auto refused = [&](const std::string &config, const std::string &words) {
        const Output out = run_command("'" GDN_GENERATOR "' " + (*kernel)["arguments"].get<std::string>() + " config=" + config +
                                       " -f x -e object -o '" + folder.path() + "'");
        EXPECT_NE(out.status, 0) << config;
        EXPECT_NE(out.text.find(words), std::string::npos) << config << ": " << out.text;
        EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << config;
    };
    refused("rows:3", "'rows' has no value 3");
    refused("colour:8", "is not name:value of a parameter of this kernel");
    refused("rows:x", "has no whole number");
    refused("rows", "is not name:value");
    refused("rows:8,cols:64", "broken constraint: a tile leaves registers for its operands");
}

}  // namespace
}  // namespace gdn_test
