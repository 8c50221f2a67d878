// The program from outside: words, exit codes, JSON, terminals, Ctrl-C.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "program.h"

namespace gdn_test {
namespace {

using nlohmann::json;

// Callers keep it non-const: there a missing field is null and fails its test, not the process.
json object(const Outcome &outcome) {
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    json value = json::parse(outcome.out, nullptr, false);
    EXPECT_TRUE(value.is_object()) << outcome.out;
    return value.is_object() ? value : json::object();
}

void expect_fields(const json &value, std::initializer_list<const char *> names) {
    for (const char *name : names) EXPECT_TRUE(value.contains(name)) << name;
}

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

Invocation with(const std::string &arguments) {
    Invocation what;
    std::istringstream words(arguments);
    for (std::string word; words >> word;) what.arguments.push_back(word);
    return what;
}

std::string best_target() { return object(gdn("info --json")).value("target", ""); }

TEST(Help, IsThereForEveryCommandWithExamples) {
    for (const char *command : {"", "info ", "kernels ", "explain ", "verify ", "bench chunk ", "bench step ", "bench block ", "demo "}) {
        const Outcome outcome = gdn(std::string(command) + "--help");
        EXPECT_EQ(outcome.code, 0) << command;
        EXPECT_TRUE(contains(outcome.out, "Examples:")) << command;
        EXPECT_EQ(outcome.err, "") << command;
    }
    EXPECT_TRUE(contains(
        gdn("--help").out, "Exit codes: 0 ok, 1 failure, 2 usage, 3 no such target or device, 4 verification failed, 5 interrupted"));
    EXPECT_TRUE(contains(gdn("--version").out, "gdn 0."));
}

TEST(Usage, ErrorsAreTwoAndGoToStderr) {
    for (const char *arguments : {"", "nonsense", "--nonsense", "info extra", "bench", "bench chunk --variant gdn3", "bench chunk --dk 0",
             "bench chunk --dk 257", "bench chunk --rounds x", "bench step --sequences -1", "bench chunk --against color=red",
             "kernels --output x", "demo /nowhere/at/all", "verify --dtype f64"}) {
        const Outcome outcome = gdn(arguments);
        EXPECT_EQ(outcome.code, 2) << arguments;
        EXPECT_NE(outcome.err, "") << arguments;
        EXPECT_EQ(outcome.out, "") << arguments;
    }
}

TEST(Usage, UnknownTargetIsThree) {
    for (const char *arguments : {"explain --target z80", "verify --target z80", "bench chunk --target z80",
             "bench step --target z80 --json", "kernels --target z80"}) {
        const Outcome outcome = gdn(arguments);
        EXPECT_EQ(outcome.code, 3) << arguments << outcome.err;
        EXPECT_TRUE(contains(outcome.err, "z80")) << arguments << ": " << outcome.err;
        EXPECT_EQ(outcome.out, "") << arguments;
    }
    Invocation what = with("explain");
    what.environment["GDN_TARGET"] = "z80";
    EXPECT_EQ(run(what).code, 3);
}

TEST(Usage, TheLibrarysRefusalIsAFailure) {
    const Outcome outcome = gdn("explain --heads 5 --key-heads 2");
    EXPECT_EQ(outcome.code, 1);
    EXPECT_TRUE(contains(outcome.err, "5")) << outcome.err;
}

TEST(Output, AFullDiskIsAFailure) {
    Invocation what = with("kernels");
    what.stdout_file = "/dev/full";
    EXPECT_EQ(run(what).code, 1);
}

TEST(Output, ColourIsForTerminals) {
    EXPECT_FALSE(contains(gdn("info").out, "\033["));
    Invocation what = with("info");
    what.terminal = true;
    EXPECT_TRUE(contains(run(what).out, "\033[1m"));
    what.environment["NO_COLOR"] = "1";
    EXPECT_FALSE(contains(run(what).out, "\033["));
    what.environment = {{"TERM", "dumb"}};
    EXPECT_FALSE(contains(run(what).out, "\033["));
}

TEST(Output, ProgressIsForTerminals) {
    Invocation what = with("bench chunk --tokens 32 --heads 2 --hot --rounds 200");
    EXPECT_EQ(run(what).err, "");
    what.terminal = true;
    what.environment["NO_COLOR"] = "1";
    const std::string text = run(what).out;
    EXPECT_TRUE(contains(text, "s left")) << text;
}

TEST(Interrupt, EndsCleanly) {
    for (const char *arguments : {"bench chunk --tokens 64 --hot --rounds 100000 --json", "bench step --rounds 100000"}) {
        Invocation what = with(arguments);
        what.interrupt_after = 1;
        const Outcome outcome = run(what);
        EXPECT_EQ(outcome.code, 5) << arguments;
        EXPECT_EQ(outcome.out, "");
        EXPECT_EQ(outcome.err, "gdn: interrupted\n");
    }
}

TEST(Info, NamesTheChosenTarget) {
    json info = object(gdn("info --json"));
    expect_fields(info, {"version", "cpu", "cpus", "cache_bytes", "target", "targets", "environment"});
    bool found = false;
    for (const json &target : info["targets"]) {
        if (target["name"] != info["target"]) continue;
        found = true;
        EXPECT_TRUE(target["runs_here"].get<bool>());
        EXPECT_GT(target["peak_gflops"].get<double>(), 1);
        EXPECT_GT(target["kernels"].get<int>(), 0);
    }
    EXPECT_TRUE(found);
    EXPECT_TRUE(contains(gdn("info").out, "chosen"));
}

TEST(Kernels, ListsAndFilters) {
    json all = object(gdn("kernels --json"));
    ASSERT_GT(all["kernels"].size(), 10u);
    expect_fields(all["kernels"][0], {"name", "symbol", "family", "target", "config", "generator", "runs_here"});
    const std::string target = best_target();
    json some = object(gdn("kernels core_chunk_* --family core_chunk --here --json --target " + target));
    ASSERT_GT(some["kernels"].size(), 0u);
    EXPECT_LT(some["kernels"].size(), all["kernels"].size());
    for (const json &kernel : some["kernels"]) {
        EXPECT_EQ(kernel["target"], target);
        EXPECT_EQ(kernel["family"], "core_chunk");
    }
}

TEST(Kernels, EmitShowsWhatRuns) {
    json list = object(gdn("kernels store_* --here --json"));
    ASSERT_GT(list["kernels"].size(), 0u);
    const std::string name = list["kernels"][0]["name"], symbol = list["kernels"][0]["symbol"], target = list["kernels"][0]["target"];

    Invocation what = with("kernels --emit stmt,assembly --target " + target + " " + name);
    what.environment["GDN_GENERATOR"] = GDN_GENERATOR;
    const Outcome outcome = run(what);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_TRUE(contains(outcome.out, symbol + ".stmt"));
    EXPECT_TRUE(contains(outcome.out, "produce ")) << outcome.out.substr(0, 1000);
    EXPECT_TRUE(contains(outcome.out, "ret"));

    what.arguments.push_back("--json");
    json value = object(run(what));
    EXPECT_EQ(value["files"].size(), 2u);

    what.environment["GDN_GENERATOR"] = "/nowhere/generator";
    EXPECT_EQ(run(what).code, 1);
    EXPECT_EQ(gdn("kernels --emit stmt no_such_kernel").code, 2);
    const Outcome many = gdn("kernels --emit stmt *");
    EXPECT_EQ(many.code, 2);
    EXPECT_TRUE(contains(many.err, symbol));
}

TEST(Explain, SaysWhatAndWhy) {
    json value = object(gdn("explain --variant kda --json"));
    EXPECT_EQ(value["target"], best_target());
    ASSERT_TRUE(value["kernels"].is_array());
    bool core = false;
    for (const json &kernel : value["kernels"]) core |= kernel["role"] == "chunk";
    EXPECT_TRUE(core) << value.dump(1);
    EXPECT_TRUE(contains(gdn("explain --variant gdn2 --tokens 1").out, "core_step"));
    EXPECT_TRUE(contains(gdn("explain --variant gdn2 --tokens 1 --pending").out, "core_pending"));
    for (const char *tokens : {"0", "37"}) {  // settles what is pending
        const Outcome outcome = gdn(std::string("explain --pending --tokens ") + tokens);
        EXPECT_EQ(outcome.code, 0) << outcome.err;
        EXPECT_FALSE(contains(outcome.out, "core_pending")) << outcome.out;
    }
    EXPECT_EQ(gdn("explain --tokens 1048576 --batch 4").code, 0);  // no memory of that size is touched
}

TEST(Verify, WithinBounds) {
    const std::string target = best_target();
    json value = object(gdn("verify --variant gdn2 --dtype f32 --json --target " + target));
    EXPECT_TRUE(value["ok"].get<bool>());
    ASSERT_GT(value["results"].size(), 0u);
    for (const json &row : value["results"]) {
        expect_fields(
            row, {"variant", "dtype", "target", "precision", "cases", "error", "bound", "state_error", "state_bound", "worst_case", "ok"});
        EXPECT_EQ(row["target"], target);
        EXPECT_GT(row["cases"].get<int>(), 20);
        EXPECT_LE(row["error"].get<double>(), row["bound"].get<double>());
    }
    EXPECT_TRUE(contains(gdn("verify --variant fg2 --dtype bf16 --target " + target).out, "within bounds"));
}

TEST(Verify, FailureIsFour) {
    for (const char *arguments : {"verify --variant kda --dtype f32 --target auto", "bench chunk --tokens 64 --json", "bench step",
             "bench block", "demo --tune 0 " GDN_TEST_DATA_DIR "/genesis.txt"}) {
        Invocation what = with(arguments);
        what.environment = {{"LD_PRELOAD", GDN_IDLE_OPERATOR}, {"ASAN_OPTIONS", "verify_asan_link_order=0"}};
        const Outcome outcome = run(what);
        EXPECT_EQ(outcome.code, 4) << arguments << "\n" << outcome.err;
        EXPECT_NE(outcome.err, "");
    }
}

TEST(Bench, ChunkHasItsFields) {
    json value = object(gdn("bench chunk --variant gdn2 --tokens 64 --heads 2 --hot --rounds 3 --against variant=kda --json"));
    expect_fields(value, {"ns_per_token_head", "flop_per_token_head", "executed_flop_per_token_head", "gflops", "peak_gflops", "efficiency",
                             "gemm_floor", "rel_error", "kernel", "target", "config", "samples", "median_ns", "mad_ns", "efficiency_spread",
                             "pages", "pinned_cpu", "date", "version", "against", "time_ratio"});
    EXPECT_EQ(value["flop_per_token_head"], 7 * 128 * 128);
    EXPECT_EQ(value["samples"].size(), 3u);
    EXPECT_LT(value["rel_error"].get<double>(), 1e-5);
    EXPECT_GT(value["efficiency"].get<double>(), 0);
    EXPECT_TRUE(contains(value.value("kernel", ""), "core_chunk"));
    EXPECT_EQ(value["against"]["variant"], "kda");
    EXPECT_NEAR(value["gflops"].get<double>() * value["ns_per_token_head"].get<double>(), 7 * 128 * 128, 1);
}

TEST(Bench, InputsRotateOverFourCaches) {
    json value = object(gdn("bench chunk --tokens 64 --heads 2 --rounds 3 --json"));
    EXPECT_GE(value["input_bytes"].get<double>(), 4 * value["last_level_cache_bytes"].get<double>());
    EXPECT_EQ(object(gdn("bench chunk --tokens 64 --heads 2 --rounds 3 --hot --json"))["input_sets"], 1);
}

TEST(Bench, StepHasItsFields) {
    json value = object(gdn("bench step --sequences 2 --heads 2 --rounds 3 --json"));
    expect_fields(value, {"ns_per_token_head", "gbytes_per_s", "sweep_ratio", "floor_ratio", "rel_error", "kernel", "target", "config",
                             "samples", "median_ns", "mad_ns"});
    EXPECT_EQ(value["sequences"], 2);
    EXPECT_EQ(value["state_bytes"], 2 * 2 * 128 * 128 * 4);
    EXPECT_TRUE(contains(value.value("kernel", ""), "core_step"));
    EXPECT_LE(value["floor_ratio"].get<double>(), value["sweep_ratio"].get<double>() * 1.0001);
}

TEST(Bench, BlockComparesWithSteps) {
    for (const char *arguments :
        {"bench block --heads 2 --rounds 3 --json", "bench block --heads 2 --rounds 3 --snapshots --json --sequences 2"}) {
        json value = object(gdn(arguments));
        expect_fields(value, {"ns_per_token_head", "steps_ns_per_token_head", "time_ratio", "rel_error", "snapshots"});
        EXPECT_LT(value["rel_error"].get<double>(), 1e-5);
    }
}

TEST(Bench, ThreadsComeWithTheirControl) {
    json value = object(gdn("bench chunk --tokens 64 --heads 4 --hot --rounds 3 --threads 2 --json"));
    expect_fields(value, {"speedup", "thread_control", "cpu_ns_per_token_head", "single_thread_ns_per_token_head"});
    expect_fields(value["thread_control"], {"fma_scaling", "required", "valid"});
    EXPECT_TRUE(value["pinned_cpu"].is_null());
}

TEST(Demo, ReadsAText) {
    const std::string path = ::testing::TempDir() + "gdn_demo_" + std::to_string(getpid()) + ".txt";
    std::ofstream file(path);
    for (int i = 0; i < 60; i++) file << "And God said, Let there be light: and there was light. ";
    file.close();
    const Outcome outcome = gdn("demo --tune 0 " + path);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    for (const char *part :
        {"ok (bound", "Prefill", "Decode", "of this core's peak", "core_chunk", "core_step", "it guessed", "The operator alone"})
        EXPECT_TRUE(contains(outcome.out, part)) << part << "\n" << outcome.out;
#ifdef GDN_HAS_LAYER
    for (const char *part :
        {"Two GDN-2 layers", "against both layers in double precision", "bytes/s through the stack", "same likeliest next byte 512 of 512"})
        EXPECT_TRUE(contains(outcome.out, part)) << part << "\n" << outcome.out;
#endif
    std::ofstream(path) << "too short";
    EXPECT_EQ(gdn("demo " + path).code, 2);
    std::remove(path.c_str());
}

}  // namespace
}  // namespace gdn_test
