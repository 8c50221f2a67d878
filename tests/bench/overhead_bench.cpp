// What a call costs beside its arithmetic: dispatch of a decode step, load and first call, and (in the context lines) sizes of library and
// workspace.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <sys/stat.h>

#include <gdn/gdn.h>

namespace {

/// One KDA step of `heads` heads in place, or a forward over `tokens`; the memory of its tensors.
class Call {
public:
    Call(int64_t heads, int64_t dim, int64_t tokens = 1)
        : values_(static_cast<size_t>(heads * dim * tokens), 0.1f), decay_(values_.size(), -0.1f),
          beta_(static_cast<size_t>(heads * tokens), 0.5f), o_(values_.size()), state_(static_cast<size_t>(heads * dim * dim)) {
        gdn_context_options options;
        gdn_context_options_init(&options);
        options.num_threads = 1;
        gdn_context_create(&options, &context_);
        gdn_args_init(&args_);
        args_.variant = GDN_VARIANT_KDA;
        args_.q = args_.k = args_.v = view(values_, {1, tokens, heads, dim});
        args_.g = view(decay_, {1, tokens, heads, dim});
        args_.beta = view(beta_, {1, tokens, heads});
        args_.o = view(o_, {1, tokens, heads, dim});
        args_.initial_state = args_.final_state = view(state_, {1, heads, dim, dim});
        gdn_workspace_size(context_, &args_, &bytes_);
        workspace_.resize(bytes_ + 64);
    }
    ~Call() { gdn_context_destroy(context_); }
    Call(const Call &) = delete;
    Call &operator=(const Call &) = delete;

    gdn_status step() { return gdn_step(context_, &args_, aligned(), bytes_); }
    gdn_status supports() { return gdn_supports(context_, &args_); }
    size_t workspace_bytes() const { return bytes_; }

    /// CPU seconds of one step, over `calls` of them: what a neighbour takes away does not count.
    double seconds(int calls) {
        const auto cpu = [] {
            timespec time;
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
            return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
        };
        const double start = cpu();
        for (int i = 0; i < calls; i++) step();
        return (cpu() - start) / calls;
    }

private:
    static gdn_tensor view(std::vector<float> &data, std::initializer_list<int64_t> shape) {
        gdn_tensor tensor = {};
        tensor.data = data.data();
        tensor.dtype = GDN_DTYPE_F32;
        for (int64_t extent : shape) tensor.shape[tensor.ndim++] = extent;
        int64_t stride = 1;
        for (int i = tensor.ndim; i-- > 0; stride *= tensor.shape[i]) tensor.strides[i] = stride;
        return tensor;
    }
    void *aligned() { return reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(workspace_.data()) + 63) / 64 * 64); }

    std::vector<float> values_, decay_, beta_, o_, state_;
    std::vector<char> workspace_;
    size_t bytes_ = 0;
    gdn_args args_;
    gdn_context *context_ = nullptr;
};

/// The part of a step's time that does not grow with the heads: time(1 head) = dispatch + x, time(2 heads) = dispatch + 2 x. A difference
/// of two noisy numbers, so the median of many.
void dispatch(benchmark::State &state) {
    Call one(1, 64), two(2, 64);
    if (one.step() != GDN_STATUS_OK || two.step() != GDN_STATUS_OK) return state.SkipWithError(gdn_last_error());
    for (auto _ : state) {
        (void)_;
        std::vector<double> samples;
        for (int i = 0; i < 501; i++) samples.push_back(2 * one.seconds(50) - two.seconds(50));
        std::nth_element(samples.begin(), samples.begin() + 250, samples.end());
        state.SetIterationTime(std::max(samples[250], 1e-9));
    }
}
BENCHMARK(dispatch)->UseManualTime()->Unit(benchmark::kNanosecond)->Iterations(5);

void step(benchmark::State &state) {
    Call call(state.range(0), state.range(1));
    if (call.step() != GDN_STATUS_OK) return state.SkipWithError(gdn_last_error());
    for (auto _ : state) {
        (void)_;
        benchmark::DoNotOptimize(call.step());
    }
}
BENCHMARK(step)->ArgNames({"heads", "dim"})->Args({1, 16})->Args({1, 128})->Args({16, 128})->Unit(benchmark::kNanosecond);

/// Argument checks and choice of kernels alone.
void supports(benchmark::State &state) {
    Call call(16, 128);
    for (auto _ : state) {
        (void)_;
        benchmark::DoNotOptimize(call.supports());
    }
}
BENCHMARK(supports)->Unit(benchmark::kNanosecond);

/// dlopen, context and a first call of 8 tokens, each time in a fresh process.
void load_and_first_call(benchmark::State &state) {
    double load_sum = 0, call_sum = 0;
    for (auto _ : state) {
        (void)_;
        double load = 0, call = 0;
        FILE *child = popen(GDN_FIRST_CALL, "r");
        const bool read = child && std::fscanf(child, "%lf %lf", &load, &call) == 2;
        if (!child || pclose(child) != 0 || !read) return state.SkipWithError(GDN_FIRST_CALL " failed");
        state.SetIterationTime(load + call);
        load_sum += load;
        call_sum += call;
    }
    state.counters["load_ms"] = benchmark::Counter(1e3 * load_sum, benchmark::Counter::kAvgIterations);
    state.counters["first_call_ms"] = benchmark::Counter(1e3 * call_sum, benchmark::Counter::kAvgIterations);
}
BENCHMARK(load_and_first_call)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(20);

}  // namespace

int main(int argc, char **argv) {
    struct stat file;
    if (stat(GDN_LIBRARY, &file) == 0) benchmark::AddCustomContext("libgdn.so bytes", std::to_string(file.st_size));
    for (int64_t tokens : {1, 64, 4096}) {
        benchmark::AddCustomContext("workspace bytes, 16 heads of 128 x 128, T = " + std::to_string(tokens),
            std::to_string(Call(16, 128, tokens).workspace_bytes()));
    }
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::RunSpecifiedBenchmarks();
}
