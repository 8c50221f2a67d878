// Which kernel serves a call: on machines that are played by feature words, and over tables that exist only here.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "call.h"
#include "cpu.h"
#include "dispatch.h"
#include "plan.h"

using namespace gdn;
using namespace gdn_test;

namespace {

constexpr std::uint32_t bit(int i) { return 1u << i; }

// Zen 4 as cpuid shows it: AVX-512 with BF16, no AMX. xcr0: x87, xmm, ymm, masks, zmm.
CpuidWords zen4() {
    CpuidWords words = {};
    words.max_leaf = 16;
    words.leaf1_ecx = bit(0) | bit(9) | bit(12) | bit(19) | bit(20) | bit(22) | bit(23) | bit(27) | bit(28) | bit(29);
    words.leaf7_ebx = bit(3) | bit(5) | bit(8) | bit(16) | bit(17) | bit(21) | bit(28) | bit(30) | bit(31);
    words.leaf7_ecx = bit(1) | bit(6) | bit(8) | bit(11) | bit(12) | bit(14);
    words.leaf7_1_eax = bit(5);
    words.extended_ecx = bit(5);
    words.xcr0 = 0xe7;
    return words;
}

struct FakeCpu {
    explicit FakeCpu(std::uint64_t features) { fake_cpu_features(features); }
    ~FakeCpu() { fake_cpu_features(0); }
};

TEST(CpuFeatures, Zen4) {
    const std::uint64_t features = features_of(zen4());
    EXPECT_EQ(parse_features("sse4_1 avx avx2 f16c fma avx512f avx512cd avx512vl avx512dq avx512bw avx512_bf16") & ~features, 0u);
}

// R122: a hypervisor that shows AVX-512 in cpuid while the system does not save its registers.
TEST(CpuFeatures, RegistersNotSaved) {
    CpuidWords words = zen4();
    words.xcr0 = 0x07;  // ymm only
    EXPECT_FALSE(features_of(words) & (kAvx512F | kAvx512Bw | kAvx512Bf16 | kAvx512Vnni));
    EXPECT_TRUE(features_of(words) & kAvx2);
    words.xcr0 = 0x67;  // zmm16-31 missing
    EXPECT_FALSE(features_of(words) & kAvx512F);
    words.xcr0 = 0x03;
    EXPECT_FALSE(features_of(words) & (kAvx | kAvx2 | kFma | kF16c));
    EXPECT_TRUE(features_of(words) & kSse41);
    words = zen4();
    words.leaf1_ecx &= ~bit(27);  // no OSXSAVE: xcr0 could not have been read
    EXPECT_FALSE(features_of(words) & (kAvx | kAvx2 | kAvx512F));
}

TEST(CpuFeatures, OldCpuWithoutLeaf7) {
    CpuidWords words = zen4();
    words.max_leaf = 5;
    EXPECT_FALSE(features_of(words) & (kAvx2 | kBmi | kAvx512F));
    EXPECT_TRUE(features_of(words) & kAvx);
}

TEST(CpuFeatures, Names) {
    EXPECT_EQ(parse_features(""), 0u);
    EXPECT_EQ(parse_features("avx2  fma "), std::uint64_t{kAvx2 | kFma});
    EXPECT_TRUE(parse_features("avx2 amx_tile") & kUnknownFeature);
    EXPECT_TRUE(parse_features("avx") == kAvx);
}

// A table of cores that never run.
const TargetRow kTargets[] = {{"wide", "avx512f", 0}, {"narrow", "avx2", 0}, {"plain", "sse4_1", 1}};

KernelRow core(const char *name, std::int32_t target, std::int32_t k, std::int32_t v, std::int32_t panel) {
    KernelRow row = {};
    row.name = row.symbol = name;
    row.family_name = "core_chunk";
    row.target_name = kTargets[target].name;
    row.target = target;
    row.family = Family::kCoreChunk;
    row.decay = DecayShape::kChannel;
    row.erase = Erase::kTied;
    row.k = k;
    row.v = v;
    row.panel = panel;
    row.chunk = 8;
    return row;
}

struct Table {
    explicit Table(std::vector<KernelRow> rows, std::uint64_t features, std::int32_t first = 0, std::vector<ChoiceRow> choices = {},
        const Device &device = this_device())
        : rows(std::move(rows)), choices(std::move(choices)),
          memory(new std::max_align_t[Dispatch::bytes(100) / sizeof(std::max_align_t) + 1]) {
        dispatch = Dispatch::create(memory.get(), kTargets, 3, this->rows.data(), static_cast<std::int32_t>(this->rows.size()), features,
            first, this->choices.data(), static_cast<std::int32_t>(this->choices.size()), device);
    }
    const KernelRow *find(std::int32_t k, std::int32_t v, std::int32_t length_class = 0) const {
        Need need;
        need.family = Family::kCoreChunk;
        need.decay = DecayShape::kChannel;
        need.erase = Erase::kTied;
        need.length_class = length_class;
        return dispatch->find(need, k, v);
    }
    std::string pick(std::int32_t k, std::int32_t v) const {
        const KernelRow *row = find(k, v);
        return row ? row->name : "";
    }
    std::vector<std::string> lines() const {
        std::vector<std::string> lines;
        dispatch->describe_levels([](void *to, const char *text) { static_cast<std::vector<std::string> *>(to)->push_back(text); }, &lines);
        return lines;
    }
    std::vector<KernelRow> rows;
    std::vector<ChoiceRow> choices;
    std::unique_ptr<std::max_align_t[]> memory;
    Dispatch *dispatch;
};

std::vector<KernelRow> full_table() {
    return {core("plain_any16", 2, 0, 0, 16), core("wide_any16", 0, 0, 0, 16), core("narrow_any16", 1, 0, 0, 16),
        core("wide_any32", 0, 0, 0, 32), core("wide_128x128", 0, 128, 128, 128), core("narrow_64x64", 1, 64, 64, 64)};
}

TEST(Dispatch, FallbackChain) {
    const Table table(full_table(), kAvx512F | kAvx2 | kSse41);
    EXPECT_EQ(table.pick(128, 128), "wide_128x128");
    EXPECT_EQ(table.pick(128, 96), "wide_any32");
    EXPECT_EQ(table.pick(128, 48), "wide_any16");
    EXPECT_EQ(table.pick(64, 64), "wide_any32");  // a better target's run-time kernel before another target's dedicated one
    EXPECT_EQ(table.dispatch->target(), 0);
}

TEST(Dispatch, TargetsThatTheMachineRuns) {
    EXPECT_EQ(Table(full_table(), kAvx2 | kSse41).pick(64, 64), "narrow_64x64");
    EXPECT_EQ(Table(full_table(), kAvx2 | kSse41).pick(128, 128), "narrow_any16");
    EXPECT_EQ(Table(full_table(), kSse41).pick(128, 128), "plain_any16");
    EXPECT_EQ(Table(full_table(), 0).pick(128, 128), "");
    EXPECT_EQ(Table(full_table(), 0).dispatch->target(), -1);
}

TEST(Dispatch, ForcedTargetLeavesOutBetterOnes) {
    const Table table(full_table(), kAvx512F | kAvx2 | kSse41, 1);
    EXPECT_EQ(table.pick(128, 128), "narrow_any16");
    EXPECT_EQ(table.dispatch->target(), 1);
}

TEST(Dispatch, GapsFallToTheReference) {
    const Table table({core("plain_any16", 2, 0, 0, 16), core("wide_any32", 0, 0, 0, 32)}, kAvx512F | kAvx2 | kSse41);
    EXPECT_EQ(table.pick(128, 128), "wide_any32");
    EXPECT_EQ(table.pick(128, 48), "plain_any16");
}

// Rows 1 to 3 are configurations of one kernel.
std::vector<KernelRow> configured_table() {
    std::vector<KernelRow> rows = {core("plain_any16", 2, 0, 0, 16), core("wide_128x128", 0, 128, 128, 128),
        core("wide_128x128", 0, 128, 128, 64), core("wide_128x128", 0, 128, 128, 32), core("wide_64x64", 0, 64, 64, 64),
        core("narrow_128x128", 1, 128, 128, 128)};
    rows[1].config = "cols:32,panel:128,rows:8";
    rows[2].config = "cols:32,panel:64,rows:8";
    rows[3].config = "cols:16,panel:32,rows:8";
    for (std::size_t i = 0; i < rows.size(); i++) rows[i].run.time_block = static_cast<std::int32_t>(8 * i);
    return rows;
}

std::vector<ChoiceRow> all_choices() {
    return {{Level::kDefault, LengthClass::kAny, "", 1}, {Level::kVendor, LengthClass::kShort, "Acme", 2},
        {Level::kVendor, LengthClass::kLong, "Acme", 3}, {Level::kArchitecture, LengthClass::kShort, "rocket", 3},
        {Level::kDevice, LengthClass::kAny, "acme-rocket_9", 1}, {Level::kDevice, LengthClass::kLong, "acme-rocket_9", 2}};
}

constexpr Device kRocket9 = {"Acme", "Rocket 9", "rocket", "acme-rocket_9"};
constexpr std::uint64_t kWide = kAvx512F | kAvx2 | kSse41;

TEST(Choices, BestLevelOfEachLengthClass) {
    const struct {
        Device device;
        int short_row, long_row;
        Level short_level, long_level;
    } expected[] = {
        {kRocket9, 1, 2, Level::kDevice, Level::kDevice},  // an entry for the class before one for any
        {{"Acme", "Rocket 8", "rocket", "acme-rocket_8"}, 3, 3, Level::kArchitecture, Level::kVendor},
        {{"Acme", "Bomb", "bomb", "acme-bomb"}, 2, 3, Level::kVendor, Level::kVendor},
        {{"Other", "rocket", "other", "rocket"}, 1, 1, Level::kDefault, Level::kDefault},  // a key counts at its own level only
    };
    for (const auto &e : expected) {
        for (const bool reversed : {false, true}) {
            std::vector<ChoiceRow> choices = all_choices();
            if (reversed) std::reverse(choices.begin(), choices.end());
            const Table table(configured_table(), kWide, 0, choices, e.device);
            const KernelRow *s = table.find(128, 128, 0), *l = table.find(128, 128, 1);
            EXPECT_EQ(s - table.rows.data(), e.short_row) << e.device.key;
            EXPECT_EQ(l - table.rows.data(), e.long_row) << e.device.key;
            EXPECT_EQ(table.dispatch->level(*s, 0), e.short_level) << e.device.key;
            EXPECT_EQ(table.dispatch->level(*l, 1), e.long_level) << e.device.key;
            EXPECT_EQ(table.dispatch->params(*l).time_block, 8 * e.long_row);
        }
    }
}

TEST(Choices, OneConfigurationNeedsNone) {
    const Table table(configured_table(), kWide, 0, {{Level::kDefault, LengthClass::kAny, "", 2}}, kRocket9);
    EXPECT_EQ(table.dispatch->level(*table.find(64, 64), 0), Level::kOnly);
    EXPECT_EQ(table.dispatch->level(*table.find(48, 48), 1), Level::kReference);
    EXPECT_EQ(table.find(128, 128) - table.rows.data(), 2);
    const Table none(configured_table(), kWide);
    EXPECT_EQ(none.find(128, 128, 1) - none.rows.data(), 1);
    EXPECT_EQ(none.dispatch->level(*none.find(128, 128, 1), 1), Level::kDefault);
}

TEST(Choices, StepsDownAreTold) {
    const auto lines = [](const Device &device, std::uint64_t features = kWide) {
        return Table(configured_table(), features, 0, all_choices(), device).lines();
    };
    EXPECT_EQ(lines(kRocket9), std::vector<std::string>{});
    EXPECT_EQ(lines({"Acme", "Rocket 8", "rocket", "acme-rocket_8"}),
        (std::vector<std::string>{"kernels of wide: 1 of 2 have no entries for device acme-rocket_8, using those of architecture rocket",
            "kernels of wide: 1 of 2 have no entries for device acme-rocket_8, using those of vendor Acme"}));
    EXPECT_EQ(lines({"Other", "x", "y", "z"}), std::vector<std::string>{"kernels of wide: no entries for device z, using the defaults"});
    EXPECT_EQ(lines({"Other", "x", "y", "z"}, kAvx2 | kSse41), std::vector<std::string>{});  // no choice among kernels that run here
}

TEST(Choices, CallsLeftToTheReferenceAreTold) {
    std::vector<KernelRow> rows = {core("plain_any16", 2, 0, 0, 16), core("wide_any16", 0, 0, 0, 16)};
    EXPECT_EQ(Table(rows, kWide).lines(), std::vector<std::string>{});
    rows[0].erase = Erase::kOwn;  // which the better target has not
    EXPECT_EQ(Table(rows, kWide).lines(), std::vector<std::string>{"kinds of calls that only kernels of plain serve: 2"});  // short and long
    EXPECT_EQ(Table(rows, kSse41).lines(), std::vector<std::string>{}) << "on a machine without better ones nothing was stepped down from";
}

TEST(Choices, PicksComeFirstAndOutliveTheTable) {
    Table table(configured_table(), kWide, 0, all_choices(), kRocket9);
    table.dispatch->mutable_picks()[3] = 2;  // long
    table.dispatch->mutable_params()[3].time_block = 72;
    table.dispatch->arrange();
    EXPECT_EQ(table.find(128, 128, 0) - table.rows.data(), 1);
    EXPECT_EQ(table.find(128, 128, 1) - table.rows.data(), 3);
    EXPECT_EQ(table.dispatch->level(*table.find(128, 128, 1), 1), Level::kOverride);
    const Table next(configured_table(), kWide, 0, all_choices(), kRocket9);
    next.dispatch->inherit(*table.dispatch);
    EXPECT_EQ(next.find(128, 128, 1) - next.rows.data(), 3);
    EXPECT_EQ(next.dispatch->params(next.rows[3]).time_block, 72);
    EXPECT_EQ(next.find(128, 128, 0) - next.rows.data(), 1);
}

// R78: whatever a specialised kernel's predicate says, some row of the real table answers every need for every size.
TEST(Dispatch, EveryNeedOfEverySizeIsServed) {
    for (const std::uint64_t features : {cpu_features(), parse_features(kTargetRows[kTargetRowCount - 1].features)}) {
        std::unique_ptr<std::max_align_t[]> memory(new std::max_align_t[Dispatch::bytes(kKernelRowCount) / sizeof(std::max_align_t) + 1]);
        const Dispatch *dispatch = Dispatch::create(memory.get(), kTargetRows, kTargetRowCount, kKernelRows, kKernelRowCount, features, 0);
        for (std::int32_t k = 16; k <= 256; k += 16)
            for (std::int32_t v = 16; v <= 256; v += 16)
                for (int core = 0; core < 3; core++)
                    for (const Family family : {Family::kCoreChunk, Family::kCoreStep}) {
                        Need need;
                        need.family = family;
                        need.decay = core ? DecayShape::kChannel : DecayShape::kScalar;
                        need.erase = core == 2 ? Erase::kOwn : Erase::kTied;
                        const KernelRow *row = dispatch->find(need, k, v);
                        ASSERT_NE(row, nullptr) << k << "x" << v;
                        EXPECT_TRUE(can_run(*row, k, v)) << row->name;
                    }
    }
}

struct RealTable {
    std::unique_ptr<std::max_align_t[]> memory{new std::max_align_t[Dispatch::bytes(kKernelRowCount) / sizeof(std::max_align_t) + 1]};
    const Dispatch &dispatch =
        *Dispatch::create(memory.get(), kTargetRows, kTargetRowCount, kKernelRows, kKernelRowCount, cpu_features(), 0);
};

bool same_route(const Route &a, const Route &b) {
    for (int i = 0; i < kSources; i++) {
        if (a.map[i] != b.map[i] || (a.map[i] && a.map_pad[i] != b.map_pad[i])) return false;
    }
    return a.stage == b.stage && a.store == b.store && a.gla_copy == b.gla_copy && a.form == b.form &&
           std::equal(a.chunk, a.chunk + kLengthClasses, b.chunk) && a.step == b.step && a.block == b.block &&
           a.v_first_step == b.v_first_step && !std::memcmp(&a.run, &b.run, sizeof a.run) &&
           !std::memcmp(&a.scratch, &b.scratch, sizeof a.scratch);
}

// A call after another that differs from it in one thing only gets what it would have got first.
TEST(Routes, WhatIsRememberedIsWhatWouldBeFound) {
    std::mt19937 random(20261130);
    const auto below = [&random](unsigned n) { return static_cast<int>(random() % n); };
    constexpr std::int64_t kSizes[] = {20, 48, 64, 128};
    constexpr int kThings = 12, kMost[kThings] = {7, 4, 4, 2, 2, 3, 4, 2, 2, 2, 2, 2};
    int answered = 0, differ = 0;
    for (int round = 0; round < 600; round++) {
        int things[kThings];
        for (int i = 0; i < kThings; i++) things[i] = below(static_cast<unsigned>(kMost[i]));
        int changed[kThings];
        std::copy(things, things + kThings, changed);
        const int which = round % kThings;
        changed[which] = (things[which] + 1) % kMost[which];
        const auto plan_of = [&](const int *t, const Dispatch &dispatch, Plan *plan) {
            CallSize size;
            size.B = 1;
            size.T = 1;
            size.K = kSizes[t[1]];
            size.V = kSizes[t[2]];
            SmallCall call(size, static_cast<gdn_variant>(t[0]));
            gdn_args &args = call.args;
            for (gdn_tensor *tensor : {&args.q, &args.k, &args.v, &args.o}) tensor->dtype = t[3] ? GDN_DTYPE_BF16 : GDN_DTYPE_F32;
            args.g.dtype = t[4] ? GDN_DTYPE_F16 : GDN_DTYPE_F32;
            args.decay = static_cast<gdn_decay>(t[5]);
            for (gdn_tensor *tensor : {&args.beta, &args.b, &args.beta_k}) tensor->dtype = t[6] % 2 ? GDN_DTYPE_BF16 : GDN_DTYPE_F32;
            for (gdn_tensor *tensor : {&args.w, &args.beta_v}) tensor->dtype = t[6] / 2 ? GDN_DTYPE_BF16 : GDN_DTYPE_F32;
            args.gate = static_cast<gdn_gate>(t[7]);
            args.qk_l2norm = t[8];
            args.precision = static_cast<gdn_precision>(t[9]);
            if (t[10]) {
                args.state_layout = GDN_STATE_V_FIRST;
                for (gdn_tensor *state : {&args.initial_state, &args.final_state}) {
                    std::swap(state->shape[2], state->shape[3]);
                    state->strides[2] = state->shape[3];
                }
            }
            if (t[11] && !t[10]) args.snapshots = call.tensor(call.snapshots, {1, 1, size.HV, size.K, size.V}, 0, 0);
            return make_plan(dispatch, &args, Entry::kForward, plan);
        };
        RealTable warm, cold;
        Plan before, after, fresh;
        const gdn_status first = plan_of(things, warm.dispatch, &before);
        ASSERT_EQ(plan_of(changed, warm.dispatch, &after), plan_of(changed, cold.dispatch, &fresh));
        if (plan_of(changed, cold.dispatch, &after) != GDN_STATUS_OK) continue;
        ASSERT_TRUE(same_route(after, fresh)) << "remembered, thing " << which;
        plan_of(changed, warm.dispatch, &after);
        ASSERT_TRUE(same_route(after, fresh)) << "thing " << which;
        answered++;
        differ += first == GDN_STATUS_OK && !same_route(before, fresh);
    }
    EXPECT_GT(answered, 200);
    EXPECT_GT(differ, 100);
}

TEST(Routes, FullCacheAndManyThreads) {
    const auto cache = std::make_unique<RouteCache>();
    std::atomic<int> found{0}, wrong{0};
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; thread++)
        threads.emplace_back([&] {
            for (int i = 0; i < 2000; i++) {
                const int number = i % 200;
                const std::uint64_t key = static_cast<std::uint64_t>(number) * 2 + 1;
                if (const Route *route = cache->find(key)) {
                    found++;
                    wrong += route->run[0].time_block != number;
                } else {
                    Route made = {};
                    made.run[0].time_block = number;
                    cache->add(key, made);
                }
            }
        });
    for (std::thread &thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_GT(found, 100);
}

#if defined(__x86_64__)
std::string target_of(gdn_context *context) {
    SmallCall call;
    char text[8192];
    if (gdn_explain(context, &call.args, text, sizeof text, nullptr) != GDN_STATUS_OK) return gdn_last_error();
    const std::string json = text;
    const std::size_t from = json.find("\"target\": \"") + 11;
    return json.substr(from, json.find('"', from) - from);
}

// R83: AVX-512-BF16 without AMX is a full AVX-512 machine.
TEST(DispatchOfTheLibrary, PlayedMachines) {
    CpuidWords words = zen4();
    {
        const FakeCpu cpu(features_of(words));
        EXPECT_EQ(target_of(make_context().get()).substr(0, 10), "x86_avx512");
    }
    words.xcr0 = 0x07;
    {
        const FakeCpu cpu(features_of(words));
        ContextPtr context = make_context();
        EXPECT_EQ(target_of(context.get()), "x86_avx2");
        EXPECT_EQ(gdn_set_target(context.get(), "x86_avx512"), GDN_STATUS_UNSUPPORTED);
        EXPECT_NE(std::string(gdn_last_error()).find("avx512f"), std::string::npos);
        EXPECT_EQ(target_of(context.get()), "x86_avx2");
        EXPECT_EQ(gdn_set_target(context.get(), "x86_reference"), GDN_STATUS_OK);
        EXPECT_EQ(target_of(context.get()), "x86_reference");
        EXPECT_EQ(gdn_set_target(context.get(), "auto"), GDN_STATUS_OK);
        EXPECT_EQ(target_of(context.get()), "x86_avx2");
    }
    words.xcr0 = 0x03;
    {
        const FakeCpu cpu(features_of(words));
        EXPECT_EQ(target_of(make_context().get()), "x86_reference");
    }
    {
        const FakeCpu cpu(kSse3);  // nothing runs here
        SmallCall call;
        ContextPtr context = make_context();
        ASSERT_NE(context, nullptr);
        EXPECT_EQ(gdn_forward(context.get(), &call.args, nullptr, 0), GDN_STATUS_UNSUPPORTED);
        EXPECT_TRUE(call.poisoned());
    }
}
#endif

TEST(DispatchOfTheLibrary, ListsAgreeWithTheMachine) {
    for (std::int64_t i = 0; i < gdn_target_count(); i++) {
        gdn_target_info target;
        ASSERT_EQ(gdn_target_get(i, &target), GDN_STATUS_OK);
        EXPECT_EQ(target.runs_here, !(parse_features(target.features) & ~cpu_features())) << target.name;
        EXPECT_FALSE(parse_features(target.features) & kUnknownFeature) << target.features;
        gdn_context *context = nullptr;
        gdn_context_options options = options_with_threads(1);
        options.target = target.name;
        EXPECT_EQ(gdn_context_create(&options, &context), target.runs_here ? GDN_STATUS_OK : GDN_STATUS_UNSUPPORTED);
        gdn_context_destroy(context);
    }
    EXPECT_GT(gdn_kernel_count(), 0);
    gdn_kernel_info kernel;
    for (std::int64_t i = 0; i < gdn_kernel_count(); i++) {
        ASSERT_EQ(gdn_kernel_get(i, &kernel), GDN_STATUS_OK);
        EXPECT_EQ(std::string(kernel.name).substr(0, 5), "gdnk_");
        EXPECT_NE(std::string(kernel.name).find(kernel.target), std::string::npos);
    }
    EXPECT_EQ(gdn_kernel_get(gdn_kernel_count(), &kernel), GDN_STATUS_INVALID_ARGUMENT);
    EXPECT_EQ(gdn_kernel_get(-1, &kernel), GDN_STATUS_INVALID_ARGUMENT);
}

// Overrides outlive a change of target, and the other way round.
TEST(DispatchOfTheLibrary, OverridesAndTargetsAreIndependent) {
    ContextPtr context = make_context();
    const std::string text = "core_chunk.time_block 64\n";
    ASSERT_EQ(gdn_apply_overrides(context.get(), text.data(), text.size()), GDN_STATUS_OK);
    gdn_target_info last;
    gdn_target_get(gdn_target_count() - 1, &last);
    ASSERT_EQ(gdn_set_target(context.get(), last.name), GDN_STATUS_OK);
    SmallCall call;
    char json[8192];
    ASSERT_EQ(gdn_explain(context.get(), &call.args, json, sizeof json, nullptr), GDN_STATUS_OK);
    EXPECT_NE(std::string(json).find("\"time_block\": 64"), std::string::npos) << json;
    EXPECT_NE(std::string(json).find(last.name), std::string::npos);
}

}  // namespace
