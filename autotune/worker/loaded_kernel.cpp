#include "autotune/worker/loaded_kernel.h"

#include <atomic>
#include <cstdlib>

#include <dlfcn.h>

#include "autotune/worker/failure.h"
#include "context.h"
#include "cpu.h"
#include "row_config.h"

namespace gdn::tune {

namespace {

// What a watched row calls.
int (*watched)(void **) = nullptr;
std::atomic<bool> was_called{false};

int notice(void **argv) {
    was_called = true;
    return watched(argv);
}

Failure cannot_start(const std::string &text) { return {Status::kLaunchFailed, text}; }

}  // namespace

LoadedKernel::LoadedKernel(const Job &job, const std::string &path, const Config &config)
    : rows_(kKernelRows, kKernelRows + kKernelRowCount) {
    const auto compiled_part = [&job](Config of) {
        for (const std::string &name : job.runtime) of.erase(name);
        return of;
    };
    bool found = false;
    for (size_t i = 0; i < rows_.size() && !found; i++) {
        if (rows_[i].name != job.kernel || rows_[i].target_name != job.target) continue;
        if (path.empty() && compiled_part(parse_config(rows_[i].config)) != compiled_part(config)) continue;
        row_ = i;
        found = true;
    }
    if (!found) {
        throw cannot_start("this library has no kernel " + job.kernel + " for " + job.target +
                           (path.empty() ? " with the configuration " + text_of(config) : ""));
    }
    KernelRow &row = rows_[row_];
    if (parse_features(kTargetRows[row.target].features) & ~cpu_features()) {
        throw cannot_start("this machine lacks a feature of " + job.target + ": " + kTargetRows[row.target].features);
    }
    if (!path.empty()) {
        library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!library_) throw cannot_start(std::string("the object cannot be loaded: ") + dlerror());
        void *const symbol = dlsym(library_, "candidate_argv");
        if (!symbol) throw cannot_start("the object has no function candidate_argv");
        row.call = reinterpret_cast<int (*)(void **)>(symbol);
    }
    configure(&row, config);
}

LoadedKernel::~LoadedKernel() {
    if (library_) dlclose(library_);
}

LoadedKernel::Context::Context(const LoadedKernel &kernel, int threads, int32_t k, int32_t v) {
    const KernelRow &own = kernel.row();
    if (!can_run(own, k, v)) {
        throw cannot_start("its panel of " + std::to_string(own.panel) + " columns does not divide V=" + std::to_string(v));
    }
    for (const KernelRow &row : kernel.rows_) {
        const bool stands_in = row.family == own.family && can_run(row, k, v);
        if (&row == &own) own_ = rows_.size();
        if (&row == &own || !stands_in) rows_.push_back(row);
    }
    gdn_context_options options;
    gdn_context_options_init(&options);
    options.num_threads = threads;
    if (gdn_context_create(&options, &context_) != GDN_STATUS_OK) throw cannot_start(gdn_last_error());
    const int32_t count = static_cast<int32_t>(rows_.size());
    memory_ = std::aligned_alloc(64, (Dispatch::bytes(count) + 63) / 64 * 64);
    if (!memory_) throw Failure(Status::kOverLimit, "no memory for the table of kernels");
    before_ = context_->dispatch.load();
    context_->dispatch.store(Dispatch::create(memory_, kTargetRows, kTargetRowCount, rows_.data(), count, cpu_features(), own.target));
}

void LoadedKernel::Context::watch() {
    watched = rows_[own_].call;
    was_called = false;
    rows_[own_].call = notice;
}

bool LoadedKernel::Context::called() {
    rows_[own_].call = watched;
    return was_called;
}

LoadedKernel::Context::~Context() {
    if (before_) context_->dispatch.store(before_);
    gdn_context_destroy(context_);
    std::free(memory_);
}

}  // namespace gdn::tune
