// Candidates as shared objects: configuration -> generator -> linker, in worker processes, remembered by content.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autotune/space/space.h"
#include "autotune/status.h"

namespace gdn::tune {

struct Request {
    const Kernel *kernel;
    Config config;  // parameters of kind kRuntime are ignored: they need no compiler
};

struct Built {
    Status status = Status::kSkipped;
    std::string path;  // shared object with the function candidate_argv(void **)
    std::string
        hash;  // of the object file, which holds no name or path of its configuration; 16 hex digits: equal objects are one candidate
    std::string error;   // the last lines of what the generator or linker said
    double seconds = 0;  // that the compiler and linker took, now or when the object came into the cache
    bool cached = false;
};

class Builder {
public:
    virtual ~Builder() = default;
    /// One Built per request, in order. `done(count)` after each; `stop` set: running workers are ended and the rest is kSkipped.
    virtual std::vector<Built> build(
        const std::vector<Request> &requests, const std::function<void(size_t)> &done = {}, const std::atomic<bool> *stop = nullptr) = 0;
};

struct BuilderOptions {
    std::string generator;
    std::string
        cache;     // a folder for nothing else; an entry is a folder in it, made beside and renamed: a killed build leaves nothing half
    int jobs = 0;  // 0: CPUs of the affinity mask
    double seconds = 120;                // per candidate, generator and linker together
    uint64_t memory_bytes = 4ull << 30;  // address space of the generator
    std::string linker = "ld";           // <linker> -shared -o OUT IN; c++ would do, and takes ten times as long
};

/// Cache key: bytes of the generator (another build of the same sources may compile otherwise, so not generator_hash()), kernel arguments
/// (target included), compile-time configuration, Halide's version. What the generator refuses is remembered as well as what it makes.
/// Throws Error if the cache folder cannot be written or the generator does not run.
std::unique_ptr<Builder> make_builder(const BuilderOptions &options);
/// What a kernel was made with: of the generator's sources and Halide's version, as it names them (of its bytes, if it names no sources). 32
/// hex digits. Throws Error.
std::string generator_hash(const std::string &generator);
/// "21.0.0", as the generator says. Throws Error.
std::string halide_version(const std::string &generator);

}  // namespace gdn::tune
