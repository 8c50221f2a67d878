// Measuring with the real worker: the library's own kernels, and candidates that misbehave in every way we can think of.
#include "autotune/measure/measurer.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gdn/gdn.h"

namespace gdn::tune {
namespace {

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

Candidate default_of(const Kernel &kernel) {
    Candidate candidate;
    candidate.built.status = Status::kOk;
    candidate.config = kernel.space.config(kernel.space.default_point());
    return candidate;
}

class Folder {
public:
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "gdn_measure_XXXXXX").string();
        path_ = mkdtemp(name.data());
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    std::string path(const std::string &name) const { return (path_ / name).string(); }

private:
    std::filesystem::path path_;
};

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
        const std::string base = folder_.path("c" + std::to_string(objects_++));
        std::ofstream(base + ".c") << R"(
#include <signal.h>
#include <stdint.h>
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
    std::vector<Trial> measure(const Kernel &kernel, const std::vector<Candidate> &candidates, MeasureOptions options = quick()) {
        return measurer_->measure(kernel, parse_shapes(kernel.family == "core_step" ? "T=1,H=2" : "T=16,H=2"), default_of(kernel), candidates, options);
    }

    Folder folder_;
    std::unique_ptr<Measurer> measurer_ = make_measurer(GDN_MEASURE, folder_.path("data"));
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
        {"writes behind the state", "memset(buffers[9]->host, 0, 4 << 20);", Status::kCrashed, "SIG|signal 11"},
        {"writes an input", "buffers[6]->host[0] = 1; fill(buffers[8], 0); fill(buffers[9], 0);", Status::kCrashed, "signal 11"},
        {"aborts", "abort();", Status::kCrashed, "signal 6"},
        {"raises", "raise(SIGSEGV);", Status::kCrashed, "signal 11"},
        {"stops itself", "_exit(3);", Status::kCrashed, "exit code 3"},
        {"is killed", "kill(getpid(), SIGKILL);", Status::kOverLimit, "memory"},
        {"eats memory", "for (;;) memset(malloc(64 << 20), 1, 64 << 20);", Status::kOverLimit, "memory limit"},
        {"fails", "return -1;", Status::kLaunchFailed, "failed"},
        {"prints", "write(1, \"{}\\n\", 3); write(2, \"x\\n\", 2);", Status::kWrongResult, "not written"},
    };
    std::vector<Candidate> candidates;
    for (const Broken &broken : list) candidates.push_back(in_c(kernel, broken.body));
    candidates.push_back(in_c(kernel, "", "another_name"));
    candidates.push_back(in_c(kernel, "extern int nowhere(void); return nowhere();"));
    candidates.push_back(default_of(kernel));
    candidates.back().built.path = folder_.path("absent.so");
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

}  // namespace
}  // namespace gdn::tune
