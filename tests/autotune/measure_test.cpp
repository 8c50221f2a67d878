// Measuring with the real worker: the library's own kernels, and candidates that misbehave in every way we can think of.
#include "autotune/measure/measurer.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autotune/build/builder.h"
#include "autotune/measure/demand.h"
#include "autotune/measure/shapes.h"
#include "gdn/gdn.h"
#include "support/folder.h"

namespace gdn::tune {
namespace {

using namespace gdn_test;

using testing::HasSubstr;

// Kernels of the best target that runs here and has a space to tune.
const std::vector<Kernel> &kernels() {
    static const std::vector<Kernel> list = [] {
        const std::vector<Kernel> all = list_kernels(GDN_GENERATOR, GDN_SOURCE_DIR "/generators/kernels.json");
        std::vector<std::string> targets;
        for (int64_t i = 0; i < gdn_target_count(); i++) {
            gdn_target_info target;
            if (gdn_target_get(i, &target) == GDN_STATUS_OK && target.runs_here) targets.push_back(target.name);
        }
        std::vector<Kernel> here;
        for (const std::string &target : targets)
            for (const Kernel &kernel : all)
                if (kernel.target == target) here.push_back(kernel);
        return here;
    }();
    return list;
}

// The first target's kernel of that name; one without a family if there is none.
Kernel kernel_named(const std::string &name) {
    for (const Kernel &kernel : kernels())
        if (kernel.name == name) return kernel;
    return {};
}

// The first of the kernel's configurations that the worker has compiled in: tuned data may have left the space's default out.
Candidate default_of(const Kernel &kernel) {
    Candidate candidate;
    candidate.built.status = Status::kOk;
    for (int64_t i = 0; i < gdn_kernel_count() && candidate.config.empty(); i++) {
        gdn_kernel_info info;
        if (gdn_kernel_get(i, &info) == GDN_STATUS_OK && kernel.name == info.kernel && kernel.target == info.target)
            candidate.config = parse_config(info.config);
    }
    return candidate;
}

MeasureOptions quick() {
    MeasureOptions options;
    options.rounds = 2;
    options.sample_seconds = 1e-4;
    options.call_seconds = 60;
    return options;
}

class Measure : public testing::Test {
protected:
    // A candidate in C. `body` sees argv, and halide_buffer_t as `buffer`.
    Candidate in_c(const Kernel &kernel, const std::string &body, const std::string &function = "candidate_argv") {
        const std::string base = folder_.file("c" + std::to_string(objects_++));
        std::ofstream(base + ".c") << R"(
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
struct dim { int32_t min, extent, stride; uint32_t flags; };
struct buffer { uint64_t device; const void *interface; float *host; uint64_t flags; uint8_t code, bits; uint16_t lanes;
                int32_t dimensions; struct dim *dim; void *padding; };
static void fill(struct buffer *b, float x) {
    for (int k = 0; k < (b->dimensions > 2 ? b->dim[2].extent : 1); k++)
        for (int j = 0; j < b->dim[1].extent; j++)
            for (int i = 0; i < b->dim[0].extent; i++)
                b->host[i * b->dim[0].stride + j * b->dim[1].stride + (b->dimensions > 2 ? k * b->dim[2].stride : 0)] = x;
}
int )" << function << R"((void **argv) {
    struct buffer *const *buffers = (struct buffer **)argv;
    (void)buffers;
)" << body << "\n    return 0;\n}\n";
        Candidate candidate = default_of(kernel);
        candidate.built.path = base + ".so";
        candidate.built.hash = base;
        if (std::system(("cc -w -shared -fPIC -O1 -o '" + base + ".so' '" + base + ".c'").c_str()) != 0) ADD_FAILURE() << "cc failed";
        return candidate;
    }
    // The kernel itself, built.
    Candidate compiled(const Kernel &kernel, const Config &config) {
        BuilderOptions builder;
        builder.generator = GDN_GENERATOR;
        builder.cache = folder_.file("cache");
        builder.jobs = 1;
        Candidate candidate = {make_builder(builder)->build({{&kernel, config}})[0], config};
        EXPECT_EQ(candidate.built.status, Status::kOk) << candidate.built.error;
        return candidate;
    }
    // What was compiled, with something before and after each call.
    Candidate around(const Kernel &kernel, const Candidate &made, const std::string &before, const std::string &after = "") {
        Candidate candidate = in_c(kernel, "static int (*made)(void **);\n"
                                           "if (!made) made = (int (*)(void **))dlsym(dlopen(\"" +
                                               made.built.path + "\", RTLD_NOW), \"candidate_argv\");\n" + before +
                                               "\nconst int result = made(argv);\n" + after + "\nif (result) return result;");
        candidate.config = made.config;
        return candidate;
    }
    // What is killed the first time that it runs, and only then.
    std::string killed_once() {
        const std::string marker = folder_.file("killed" + std::to_string(objects_));
        return "if (access(\"" + marker + "\", F_OK)) { fclose(fopen(\"" + marker + "\", \"w\")); kill(getpid(), SIGKILL); }";
    }
    std::vector<Trial> measure(const Kernel &kernel, const std::vector<Candidate> &candidates, MeasureOptions options = quick()) {
        return measurer_->measure(
            kernel, parse_shapes(decodes(kernel.family) ? "T=1,H=2" : "T=16,H=2"), default_of(kernel), candidates, options);
    }

    Folder folder_;
    std::unique_ptr<Measurer> measurer_ = make_measurer(GDN_MEASURE, folder_.file("data"));
    int objects_ = 0;
};

TEST_F(Measure, BrokenCandidatesHaveTheirStatus) {
    const Kernel kernel = kernel_named("core_chunk_channel_tied_64x64");
    if (kernel.family.empty()) GTEST_SKIP() << "no tuned kernel runs here";
    // argv of a chunk: context, q, a, alpha, u, e, S0, next, o, S1
    struct Broken {
        const char *what, *body;
        Status status;
        const char *says;
    };
    const Broken list[] = {
        {"does nothing", "", Status::kWrongResult, "were not written"},
        {"writes zeros", "fill(buffers[8], 0); fill(buffers[9], 0);", Status::kWrongResult, "relative RMS error"},
        {"writes behind the state", "memset(buffers[9]->host, 0, 4 << 20);", Status::kCrashed, "signal 11"},
        {"writes an input", "buffers[6]->host[0] = 1; fill(buffers[8], 0); fill(buffers[9], 0);", Status::kCrashed, "signal 11"},
        {"aborts", "abort();", Status::kCrashed, "signal 6"},
        {"raises", "raise(SIGSEGV);", Status::kCrashed, "signal 11"},
        {"stops itself", "_exit(3);", Status::kCrashed, "exit code 3"},
        {"is killed", "kill(getpid(), SIGKILL);", Status::kOverLimit, "memory"},
#ifndef __SANITIZE_ADDRESS__
        {"eats memory", "for (;;) memset(malloc(64 << 20), 1, 64 << 20);", Status::kOverLimit, "memory limit"},
#endif
        {"fails", "return -1;", Status::kLaunchFailed, "failed"},
        {"prints", "write(1, \"{}\\n\", 3); write(2, \"x\\n\", 2);", Status::kWrongResult, "not written"},
    };
    std::vector<Candidate> candidates;
    for (const Broken &broken : list) candidates.push_back(in_c(kernel, broken.body));
    candidates.push_back(in_c(kernel, "", "another_name"));
    candidates.push_back(in_c(kernel, "extern int nowhere(void); return nowhere();"));
    candidates.push_back(default_of(kernel));
    candidates.back().built.path = folder_.file("absent.so");
    candidates.push_back(default_of(kernel));
    candidates.back().built.status = Status::kBuildFailed;
    candidates.back().built.error = "no such thing";
    candidates.push_back(default_of(kernel));
    MeasureOptions options = quick();
    options.memory_bytes = 1u << 30;
    const std::vector<Trial> trials = measure(kernel, candidates, options);
    ASSERT_EQ(trials.size(), candidates.size());
    size_t i = 0;
    for (const Broken &broken : list) {
        SCOPED_TRACE(broken.what);
        EXPECT_STREQ(name_of(trials[i].status), name_of(broken.status)) << trials[i].error;
        EXPECT_THAT(trials[i].error, testing::ContainsRegex(broken.says));
        EXPECT_EQ(trials[i].cost.samples, 0);
        i++;
    }
    EXPECT_EQ(trials[i].status, Status::kLaunchFailed);
    EXPECT_THAT(trials[i++].error, HasSubstr("candidate_argv"));
    EXPECT_EQ(trials[i].status, Status::kLaunchFailed);
    EXPECT_THAT(trials[i++].error, HasSubstr("nowhere"));
    EXPECT_EQ(trials[i++].status, Status::kLaunchFailed);
    EXPECT_EQ(trials[i].status, Status::kBuildFailed);
    EXPECT_EQ(trials[i++].error, "no such thing");
    EXPECT_EQ(trials[i].status, Status::kOk) << trials[i].error;
}

TEST_F(Measure, EndlessCandidatesAreEnded) {
    const Kernel kernel = kernel_named("core_chunk_channel_tied_64x64");
    if (kernel.family.empty()) GTEST_SKIP() << "no tuned kernel runs here";
    MeasureOptions options = quick();
    options.call_seconds = 2;
    const std::vector<Trial> trials = measure(kernel, {in_c(kernel, "for (;;) pause();"), default_of(kernel)}, options);
    EXPECT_STREQ(name_of(trials[0].status), "run_timeout") << trials[0].error;
    EXPECT_EQ(trials[1].status, Status::kOk) << trials[1].error;
}

// A kernel of every family: the library's own is right, one that does nothing is seen.
TEST_F(Measure, EveryFamilyIsVerified) {
    std::map<std::string, const Kernel *> families;
    for (const Kernel &kernel : kernels())
        if (!kernel.space.parameters().empty()) families.emplace(kernel.family, &kernel);
    if (families.empty()) GTEST_SKIP() << "no tuned kernel runs here";
    EXPECT_GE(families.size(), 6u);
    for (const auto &[family, kernel] : families) {
        SCOPED_TRACE(kernel->name);
        const Candidate own = default_of(*kernel), nothing = in_c(*kernel, "");
        Candidate apart = own;  // measured beside the anchor, not as it
        apart.built.hash = "another";
        const std::string tokens = classes_of(family)[0] == LengthClass::kDecode ? "T=1" : family == "core_block" ? "T=8" : "T=21";
        const std::vector<Shape> shapes = parse_shapes(tokens + ",B=2,H=2");
        const std::vector<Trial> trials = measurer_->measure(*kernel, shapes, own, {own, nothing, apart}, quick());
        EXPECT_EQ(trials[0].status, Status::kOk) << trials[0].error;
        EXPECT_EQ(trials[0].cost.value, 1);
        EXPECT_STREQ(name_of(trials[1].status), "wrong_result") << trials[1].error;
        EXPECT_EQ(trials[2].status, Status::kOk) << trials[2].error;
        ASSERT_EQ(trials[2].ns.size(), 1u);
        EXPECT_EQ(trials[2].ns[0].size(), 2u);
        EXPECT_EQ(trials[2].anchor[0], trials[0].ns[0]);
        EXPECT_GT(trials[2].ns[0][0], 0);
        EXPECT_GT(trials[2].cost.value, 0);
        EXPECT_LT(trials[2].verify_error, 5e-3);
        const Measurer::Work work = measurer_->work(*kernel, shapes[0]);
        EXPECT_GT(work.flops, 0);
        EXPECT_GT(work.bytes, 0);
    }
}

TEST_F(Measure, WorkOfTheCores) {
    const Kernel kernel = kernel_named("core_step_channel_tied_64x64_kfirst");
    if (kernel.family.empty()) GTEST_SKIP() << "no tuned kernel runs here";
    const Measurer::Work work = measurer_->work(kernel, parse_shapes("B=3,T=1,H=2")[0]);
    EXPECT_EQ(work.flops, 6 * 7 * 64 * 64);
    EXPECT_GT(work.bytes, 6 * 2 * 4 * 64 * 64);
    EXPECT_LT(work.bytes, 6 * 2 * 4 * 64 * 64 * 1.1);
}

// Compiled candidates: verified and timed, the same object once, another run-time parameter by itself, the slow one left early.
TEST_F(Measure, CompiledCandidates) {
    const Kernel kernel = kernel_named("core_chunk_channel_tied_64x64");
    if (kernel.family.empty()) GTEST_SKIP() << "no tuned kernel runs here";
    Config config = default_of(kernel).config;
    config["panel"] = 32;
    config["cols"] = 16;
    const Candidate made = compiled(kernel, config), sleeper = around(kernel, made, "usleep(20000);");
    Candidate again = made, other = made;
    other.config["time_block"] = 64;
    MeasureOptions options = quick();
    options.rounds = 4;
    const std::vector<Trial> trials = measure(kernel, {made, again, other, sleeper}, options);
    for (const Trial &trial : trials) EXPECT_EQ(trial.status, Status::kOk) << trial.error;
    EXPECT_EQ(trials[0].ns, trials[1].ns);
    EXPECT_NE(trials[0].ns, trials[2].ns);
    EXPECT_EQ(trials[2].config, other.config);
    EXPECT_EQ(trials[0].ns[0].size(), 4u);
    EXPECT_GE(trials[0].cost.samples, 2);
    EXPECT_FALSE(trials[0].abandoned);
    EXPECT_TRUE(trials[3].abandoned);
    EXPECT_EQ(trials[3].ns[0].size(), 2u);
    EXPECT_EQ(trials[3].anchor[0].size(), 2u);
    EXPECT_GT(trials[3].cost.value, 1.25);
    EXPECT_EQ(trials[0].object_hash, made.built.hash);
    EXPECT_EQ(trials[0].build_seconds, made.built.seconds);
}

// Right results, and a byte of what lies between a buffer and the page that cannot be touched.
TEST_F(Measure, WritesBesideABufferAreSeen) {
    struct Beside {
        const char *kernel;
        int argument;  // of the kernel: a pointer into the buffer
        const char *says;
    };
    // argv of a pending step: context, q, a, alpha, u, e, alpha_0, a_0, r_0, S0, o, r, S1
    const Beside list[] = {
        {"core_chunk_channel_tied_64x64", 8, "memory beside o "},
        {"core_chunk_channel_tied_64x64", 9, "memory beside the final state "},
        {"core_chunk_channel_tied_64x64", 1, "memory beside the workspace "},
        {"core_pending_channel_tied_128x128", 11, "memory beside the pending write "},
    };
    for (const Beside &beside : list) {
        SCOPED_TRACE(beside.says);
        const Kernel kernel = kernel_named(beside.kernel);
        if (kernel.family.empty()) GTEST_SKIP() << "no tuned kernel runs here";
        const Candidate made = compiled(kernel, default_of(kernel).config);
        const Candidate writes =
            around(kernel, made, "", "const unsigned long at = (unsigned long)buffers[" + std::to_string(beside.argument) + R"(]->host;
            unsigned long from, to;
            FILE *maps = fopen("/proc/self/maps", "r");
            while (fscanf(maps, "%lx-%lx%*[^\n]", &from, &to) == 2)
                if (at >= from && at < to) *(char *)from = 0;
            fclose(maps);)");
        const std::vector<Trial> trials = measure(kernel, {made, writes});
        EXPECT_EQ(trials[0].status, Status::kOk) << trials[0].error;
        EXPECT_STREQ(name_of(trials[1].status), "wrong_result") << trials[1].error;
        EXPECT_THAT(trials[1].error, HasSubstr(beside.says));
    }
}

// Where memory runs out the system kills whom it likes: once is no outcome, neither of a candidate nor of the default.
TEST_F(Measure, KilledCandidatesAreTriedOnceMore) {
    const Kernel kernel = kernel_named("core_chunk_channel_tied_64x64");
    if (kernel.family.empty()) GTEST_SKIP() << "no tuned kernel runs here";
    const Candidate made = compiled(kernel, default_of(kernel).config), once = around(kernel, made, killed_once()),
                    always = in_c(kernel, "kill(getpid(), SIGKILL);");
    const std::vector<Trial> trials = measure(kernel, {once, always, made});
    EXPECT_EQ(trials[0].status, Status::kOk) << trials[0].error;
    EXPECT_EQ(trials[0].ns[0].size(), 2u);
    EXPECT_EQ(trials[1].status, Status::kOverLimit);
    EXPECT_EQ(trials[2].status, Status::kOk) << trials[2].error;
    const Candidate anchor = around(kernel, made, killed_once());
    const std::vector<Trial> others = measurer_->measure(kernel, parse_shapes("T=16,H=2"), anchor, {made, anchor}, quick());
    for (const Trial &trial : others) EXPECT_EQ(trial.status, Status::kOk) << trial.error;
}

// What the tuner counts for a child is what the child takes, but for little; and where that is too much nothing is begun.
TEST_F(Measure, ShapesHaveTheMemoryThatTheyNeed) {
    const Kernel kernel = kernel_named("core_step_channel_tied_64x64_kfirst");
    if (kernel.family.empty()) GTEST_SKIP() << "no tuned kernel runs here";
    const std::vector<Shape> shapes = parse_shapes("B=16,T=1,H=256");
    MeasureOptions options = quick();
    options.memory_bytes = static_cast<uint64_t>(child_bytes(kernel, {resolved(kernel, shapes[0])})) - 1;
    EXPECT_THAT(error_of([&] { measurer_->measure(kernel, shapes, default_of(kernel), {}, options); }), HasSubstr("a candidate may have"));
    EXPECT_FALSE(std::filesystem::exists(folder_.file("data")));
    options.memory_bytes++;
    const Candidate own = default_of(kernel);
    EXPECT_EQ(measurer_->measure(kernel, shapes, own, {own}, options)[0].status, Status::kOk);
}

// The library's own kernel with another run-time parameter is measured, with another compiled one it is not there.
TEST_F(Measure, TheLibrarysKernelsTakeOtherRunTimeParameters) {
    const Kernel kernel = kernel_named("core_step_channel_tied_64x64_kfirst");
    if (kernel.family.empty()) GTEST_SKIP() << "no tuned kernel runs here";
    Candidate run_time = default_of(kernel), compiled = run_time;
    run_time.config.at("task_grain")++;
    compiled.config.at("unroll_k")++;
    const std::vector<Trial> trials = measure(kernel, {run_time, compiled});
    EXPECT_EQ(trials[0].status, Status::kOk) << trials[0].error;
    EXPECT_EQ(trials[0].config, run_time.config);
    EXPECT_NE(trials[0].ns, trials[0].anchor);
    EXPECT_EQ(trials[1].status, Status::kLaunchFailed);
    EXPECT_THAT(trials[1].error, HasSubstr("has no kernel"));
}

TEST_F(Measure, SeveralShapesAndThreads) {
    const Kernel kernel = kernel_named("core_step_channel_tied_64x64_kfirst");
    if (kernel.family.empty()) GTEST_SKIP() << "no tuned kernel runs here";
    Candidate apart = default_of(kernel);
    apart.built.hash = "another";
    std::vector<Shape> shapes = parse_shapes("T=1,H=40,threads=1,2");
    shapes.push_back(parse_shapes("T=1,H=2,cold=1")[0]);
    const std::vector<Trial> trials = measurer_->measure(kernel, shapes, default_of(kernel), {apart}, quick());
    EXPECT_EQ(trials[0].status, Status::kOk) << trials[0].error;
    EXPECT_EQ(trials[0].ns.size(), 3u);
    for (const auto &ns : trials[0].ns) EXPECT_EQ(ns.size(), 2u);
}

TEST_F(Measure, StopSkipsTheRest) {
    const Kernel kernel = kernel_named("core_step_channel_tied_64x64_kfirst");
    if (kernel.family.empty()) GTEST_SKIP() << "no tuned kernel runs here";
    const std::vector<Shape> shapes = parse_shapes("T=1,H=2");
    std::atomic<bool> stop{true};
    for (int prepared = 0; prepared < 2; prepared++) {
        Candidate apart = default_of(kernel);
        apart.built.hash = "another";
        const std::vector<Trial> trials = measurer_->measure(kernel, shapes, default_of(kernel), {apart}, quick(), &stop);
        ASSERT_EQ(trials.size(), 1u);
        EXPECT_EQ(trials[0].status, Status::kSkipped);
        EXPECT_EQ(trials[0].config, apart.config);
        EXPECT_THAT(trials[0].error, HasSubstr("stopped"));
        measure(kernel, {});  // now the references are there
    }
}

// A stop falls between any two samples, in rounds that run forwards and backwards.
TEST_F(Measure, StopsWithinARound) {
    const Kernel kernel = kernel_named("core_step_channel_tied_64x64_kfirst");
    if (kernel.family.empty()) GTEST_SKIP() << "no tuned kernel runs here";
    std::vector<Candidate> candidates(4, default_of(kernel));
    for (size_t i = 1; i < candidates.size(); i++) candidates[i].built.hash = std::to_string(i);
    MeasureOptions options = quick();
    options.rounds = 1 << 30;
    options.sample_seconds = 1e-6;
    options.abandon = 1e9;
    measure(kernel, {});  // now the references are there
    for (int i = 0; i < 20; i++) {
        std::atomic<bool> stop{false};
        std::thread later([&stop, i] {
            std::this_thread::sleep_for(std::chrono::milliseconds(60 + 10 * i));
            stop = true;
        });
        const std::vector<Trial> trials = measurer_->measure(kernel, parse_shapes("T=1,H=2"), candidates[0], candidates, options, &stop);
        later.join();
        const std::vector<double> &anchor = trials[0].ns[0];
        for (const Trial &trial : trials) {
            EXPECT_EQ(trial.status, Status::kSkipped);
            ASSERT_EQ(trial.ns[0].size(), trial.anchor[0].size());
            ASSERT_LE(trial.anchor[0].size(), anchor.size());
            EXPECT_TRUE(std::equal(trial.anchor[0].begin(), trial.anchor[0].end(), anchor.begin()));
        }
    }
}

// A worker that is killed while it writes a reference leaves what may be gigabytes: it goes after an hour.
TEST_F(Measure, HalfReferencesGo) {
    const Kernel kernel = kernel_named("core_step_channel_tied_64x64_kfirst");
    if (kernel.family.empty()) GTEST_SKIP() << "no tuned kernel runs here";
    const auto plant = [&](const std::string &name, int hours) {
        const std::string path = folder_.file("data/" + name);
        std::filesystem::create_directories(folder_.file("data"));
        write_text(path, "x");
        std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(hours));
        return path;
    };
    const std::string half = plant("a.reference.123", 2), under_way = plant("b.reference.124", 0), whole = plant("c.reference", 2);
    measure(kernel, {});
    EXPECT_FALSE(std::filesystem::exists(half));
    EXPECT_TRUE(std::filesystem::exists(under_way));
    EXPECT_TRUE(std::filesystem::exists(whole));
}

// References are made once; a file that was damaged is made again, whatever was done to it.
TEST_F(Measure, DamagedReferencesAreMadeAgain) {
    const Kernel kernel = kernel_named("core_step_channel_tied_64x64_kfirst");
    if (kernel.family.empty()) GTEST_SKIP() << "no tuned kernel runs here";
    measure(kernel, {});
    std::vector<std::string> files;
    for (const auto &entry : std::filesystem::directory_iterator(folder_.file("data"))) files.push_back(entry.path().string());
    ASSERT_EQ(files.size(), 2u);
    const auto read = [](const std::string &path) {
        std::ifstream in(path, std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(in), {});
    };
    for (const std::string &file : files) {
        const std::string whole = read(file);
        std::string flipped = whole;
        flipped[flipped.size() / 2] ^= 0x40;
        for (const std::string &damaged : {flipped, whole.substr(0, whole.size() - 8), std::string(), whole.substr(1)}) {
            std::ofstream(file, std::ios::binary) << damaged;
            measurer_ = make_measurer(GDN_MEASURE, folder_.file("data"));
            Candidate apart = default_of(kernel);
            apart.built.hash = "another";
            const std::vector<Trial> trials = measure(kernel, {apart});
            EXPECT_EQ(trials[0].status, Status::kOk) << trials[0].error;
            EXPECT_EQ(read(file), whole);
        }
    }
}

TEST_F(Measure, WhatCannotBeMeasuredIsSaid) {
    const Kernel kernel = kernel_named("core_step_channel_tied_64x64_kfirst");
    if (kernel.family.empty()) GTEST_SKIP() << "no tuned kernel runs here";
    const std::vector<Shape> shapes = parse_shapes("T=1,H=2");
    const Candidate own = default_of(kernel);
    const Kernel store = kernel_named("store_f32");
    EXPECT_THAT(error_of([&] { measurer_->measure(store, shapes, default_of(store), {}, quick()); }), HasSubstr("nothing to tune"));
    EXPECT_THAT(error_of([&] { measurer_->measure(kernel, {}, own, {}, quick()); }), HasSubstr("no shape"));
    EXPECT_THAT(error_of([&] { measurer_->measure(kernel, parse_shapes("T=5"), own, {}, quick()); }), HasSubstr("takes no shape"));
    const Candidate broken = in_c(kernel, "abort();");
    EXPECT_THAT(error_of([&] { measurer_->measure(kernel, shapes, broken, {own}, quick()); }),
        testing::AllOf(HasSubstr("default configuration"), HasSubstr("signal 6")));
    // Another layout than the kernel's own: the calls would go elsewhere.
    Kernel elsewhere = kernel_named("core_step_channel_tied_128x128_vfirst");
    elsewhere.params["layout"] = "kfirst";
    EXPECT_THAT(
        error_of([&] { measurer_->measure(elsewhere, shapes, default_of(elsewhere), {}, quick()); }), HasSubstr("do not go through"));
    Candidate unknown = own;
    unknown.config["panel"] = 3;
    EXPECT_THAT(error_of([&] { measurer_->measure(kernel, shapes, unknown, {}, quick()); }), HasSubstr("with the configuration"));
    std::ofstream(folder_.file("file")) << "x";
    for (const std::string &data : {folder_.file("file"), folder_.file("file/below")})
        EXPECT_NE(error_of([&] { make_measurer(GDN_MEASURE, data)->measure(kernel, shapes, own, {}, quick()); }), "no error");
    EXPECT_THAT(error_of([&] { make_measurer(folder_.file("absent"), folder_.file("data"))->measure(kernel, shapes, own, {}, quick()); }),
        HasSubstr("absent"));
    EXPECT_THAT(error_of([&] { make_measurer("/bin/cat", folder_.file("data"))->measure(kernel, shapes, own, {}, quick()); }),
        HasSubstr("cannot be made"));
}

}  // namespace
}  // namespace gdn::tune
