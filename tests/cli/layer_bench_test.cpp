// gdn bench layer from outside: fields, refusals, and nothing timed where the result is wrong.
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "program.h"

namespace gdn_test {
namespace {

using nlohmann::json;

const std::string kSmall = "bench layer --preset seed --size 0 --rounds 3";

json object(const std::string &arguments) {
    const Outcome outcome = gdn(arguments);
    EXPECT_EQ(outcome.code, 0) << arguments << "\n" << outcome.err;
    EXPECT_EQ(outcome.err, "");
    json value = json::parse(outcome.out, nullptr, false);
    return value.is_object() ? value : json::object();
}

void expect_fields(const json &value, std::initializer_list<const char *> names) {
    for (const char *name : names) EXPECT_TRUE(value.contains(name)) << name;
}

TEST(BenchLayer, HasItsFields) {
    json value = object(kSmall + " --json");
    expect_fields(value, {"preset", "threads", "blas", "results", "rounds", "pinned_cpu", "cpu", "date", "version", "load_average"});
    expect_fields(value["blas"], {"name", "core", "threads"});
    EXPECT_LE(value["blas"]["threads"].get<int>(), 1);
    ASSERT_EQ(value["results"].size(), 1u);
    json size = value["results"][0];
    expect_fields(size, {"gemm_ms", "gemm_ms_spread", "gemm_gflops", "peak_gflops", "target", "parameters"});
    EXPECT_EQ(size["tokens"], 256);
    EXPECT_EQ(size["config"]["hidden_size"], 128);
    EXPECT_EQ(size["config"]["num_heads"], 4);
    ASSERT_EQ(size["ways"].size(), 2u);
    const char *const names[] = {"chunk", "fused_recurrent"};
    for (int i = 0; i < 2; i++) {
        json way = size["ways"][i];
        EXPECT_EQ(way["way"], names[i]);
        expect_fields(way, {"layer_ms_spread", "operator_ms", "operator_ms_spread", "mixer_ms", "mixer_parts_ms", "rest_ms", "ratio_spread",
                               "tokens_per_s", "efficiency"});
        EXPECT_LT(way["rel_error"].get<double>(), 1e-5);
        EXPECT_EQ(way["verified_tokens"], 256);
        ASSERT_EQ(way["samples"].size(), 3u);
        EXPECT_EQ(way["operator_samples"].size(), 3u);
        EXPECT_EQ(way["gemm_samples"].size(), 3u);
        const double layer = way["samples"][0].get<double>(),
                     parts = way["gemm_samples"][0].get<double>() + way["operator_samples"][0].get<double>();
        EXPECT_GE(layer / parts, way["ratio_spread"]["min"].get<double>() * 0.9999);
        EXPECT_LE(layer / parts, way["ratio_spread"]["max"].get<double>() * 1.0001);
    }
    EXPECT_NE(gdn(kSmall).out.find("of products + operator"), std::string::npos);
}

TEST(BenchLayer, ThreadsComeWithTheirControl) {
    json value = object(kSmall + " --threads 2 --json");
    EXPECT_TRUE(value["pinned_cpu"].is_null());
    for (json way : value["results"][0]["ways"]) {
        expect_fields(way, {"speedup", "speedup_spread", "single_thread_ms", "thread_control"});
        expect_fields(way["thread_control"], {"fma_scaling", "required", "valid"});
    }
}

TEST(BenchLayer, DecodesOneToken) {
    json value = object("bench layer --preset gdn2-1.3b --size 2 --rounds 3 --json");
    json size = value["results"][0];
    EXPECT_EQ(size["parameters"], 29454480);
    EXPECT_EQ(size["tokens"], 1);
    ASSERT_EQ(size["ways"].size(), 1u);
    EXPECT_EQ(size["ways"][0]["way"], "decode");
    EXPECT_LT(size["ways"][0]["rel_error"].get<double>(), 1e-5);
}

TEST(BenchLayer, RefusalsSayWhatIsWrong) {
    const std::pair<const char *, int> refused[] = {{"bench layer --preset llama", 2}, {"bench layer --size 4", 2},
        {"bench layer --size -1", 2}, {"bench layer --rounds 0", 2}, {"bench layer --threads 0", 2},
        {"bench layer --size 0 --target z80", 3}};
    for (const auto &[arguments, code] : refused) {
        const Outcome outcome = gdn(arguments);
        EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.err;
        EXPECT_NE(outcome.err, "") << arguments;
        EXPECT_EQ(outcome.out, "") << arguments;
    }
    EXPECT_NE(gdn("bench layer --help").out.find("Examples:"), std::string::npos);
}

TEST(BenchLayer, WrongResultsAreFour) {
    Invocation what;
    what.arguments = {"bench", "layer", "--size", "0", "--json"};
    what.environment = {{"LD_PRELOAD", GDN_IDLE_OPERATOR}, {"ASAN_OPTIONS", "verify_asan_link_order=0"}};
    const Outcome outcome = run(what);
    EXPECT_EQ(outcome.code, 4) << outcome.err;
    EXPECT_NE(outcome.err.find("nothing was timed"), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out, "");
}

}  // namespace
}  // namespace gdn_test
