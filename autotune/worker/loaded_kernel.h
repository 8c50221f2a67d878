// A kernel in place of the library's: from a shared object, as a row of a table of its own.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autotune/measure/shapes.h"
#include "dispatch.h"
#include "gdn/gdn.h"
#include "kernel_table.h"

namespace gdn::tune {

/// Which kernel and what it is to be called with.
struct Job {
    std::string kernel, family, target;
    std::map<std::string, std::string> params;
    std::vector<std::string> runtime;  // parameters of a configuration that need no compiler
    std::vector<Shape> shapes;         // resolved
    std::string folder;

    std::string param(const std::string &name) const {
        const auto found = params.find(name);
        return found == params.end() ? "" : found->second;
    }
};

class LoadedKernel {
public:
    /// `path` "": the kernel that the library has for this configuration. Throws Failure(kLaunchFailed).
    LoadedKernel(const Job &job, const std::string &path, const Config &config);
    ~LoadedKernel();
    LoadedKernel(const LoadedKernel &) = delete;
    LoadedKernel &operator=(const LoadedKernel &) = delete;

    const KernelRow &row() const { return rows_[row_]; }

    /// A context for which calls of this (padded) K and V go through the candidate and no other kernel of its family.
    class Context {
    public:
        Context(const LoadedKernel &kernel, int threads, int32_t k, int32_t v);
        ~Context();
        Context(const Context &) = delete;
        Context &operator=(const Context &) = delete;
        gdn_context *get() const { return context_; }

        /// Between the two, calls of the candidate are noticed. `called` says whether there was one, and lets them be direct again.
        void watch();
        bool called();

    private:
        std::vector<KernelRow> rows_;
        size_t own_ = 0;  // the candidate's row
        gdn_context *context_ = nullptr;
        void *memory_ = nullptr;
        gdn::Dispatch *before_ = nullptr;
    };

private:
    std::vector<KernelRow> rows_;
    size_t row_ = 0;
    void *library_ = nullptr;
};

}  // namespace gdn::tune
