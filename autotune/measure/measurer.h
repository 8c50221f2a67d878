// Verified times of candidates. A trial's cost is taken against the default configuration, which is measured in the same rounds.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autotune/build/builder.h"
#include "autotune/measure/statistics.h"
#include "autotune/space/space.h"
#include "autotune/status.h"

namespace gdn::tune {

/// Sequence length classes, which entries of tuned data are kept by: core_chunk has kShort (up to 256 tokens) and kLong; core_step,
/// core_pending and short_conv_step are kDecode; core_block is kBlock; everything else kAny. Batch and heads are no part of it: results stay
/// batch-invariant.
enum class LengthClass { kAny, kDecode, kBlock, kShort, kLong };
const char *name_of(LengthClass c);
LengthClass length_class_of(const std::string &name);
std::vector<LengthClass> classes_of(const std::string &family);

struct Shape {
    int64_t B = 1, T = 0, H = 16;  // sequences, tokens of each, value heads
    int64_t K = 0, V = 0;          // 0: the kernel's own size; kernels of any size need them
    int threads = 1;
    bool cold = false;  // decode: calls go round more states than the last-level cache holds; else the same ones again and again
    bool operator==(const Shape &other) const;
};
std::string text_of(const Shape &shape);  // "B=1,T=1024,H=16", and ",K=..,V=..,threads=..,cold=1" where they are not the defaults
/// text_of()'s form, and "B=1,T=1024:8192:x2,H=4,16": ranges a:b:xN and a:b:+N, lists by commas; the product of all. What is not named: one
/// sequence, one token, 16 heads, one thread. Throws Error.
std::vector<Shape> parse_shapes(const std::string &text);
/// What a kernel is tuned for when nobody says: one or two shapes of that class. Decode is measured twice: cold, and with states in the
/// cache.
std::vector<Shape> default_shapes(const Kernel &kernel, LengthClass c);
LengthClass class_of(const Kernel &kernel, const Shape &shape);

struct Candidate {
    Built built;
    Config config;  // complete, run-time parameters too
};

/// What came of one candidate.
struct Trial {
    Config config;
    Status status = Status::kSkipped;
    std::string error;                        // sentence, of anything but kOk
    std::vector<std::vector<double>> ns;      // per shape: nanoseconds of one call, one per round
    std::vector<std::vector<double>> anchor;  // per shape: the default's, in the same rounds
    Estimate cost;                            // geometric mean over shapes of ns / anchor; of kOk only
    bool abandoned = false;                   // clearly slower: its rounds were cut short
    double verify_error = 0;                  // worst relative RMS against the double reference
    double build_seconds = 0;
    std::string object_hash;
};

struct MeasureOptions {
    int rounds = 7;
    double sample_seconds = 0.002;
    double abandon = 1.25;     // a candidate that was slower than this many times the best in every one of two or more rounds is left
    double call_seconds = 20;  // a verification or sample that takes longer is kRunTimeout
    uint64_t memory_bytes = 4ull << 30;  // address space of a child; shapes that need more are an Error
};

class Measurer {
public:
    virtual ~Measurer() = default;
    /// Verifies, then times the candidates in interleaved rounds with `anchor` (the default) as one more contender. Trials in order;
    /// candidates that run the same instructions with the same run-time parameters are measured once. What the system kills is tried once
    /// more by itself. `stop`: what is under way ends as kSkipped.
    virtual std::vector<Trial> measure(const Kernel &kernel, const std::vector<Shape> &shapes, const Candidate &anchor,
        const std::vector<Candidate> &candidates, const MeasureOptions &options, const std::atomic<bool> *stop = nullptr) = 0;
    /// Useful work of one call: for efficiency and the roofline.
    struct Work {
        double flops = 0, bytes = 0;
    };
    virtual Work work(const Kernel &kernel, const Shape &shape) = 0;
};

/// Candidates in child processes of `worker` (bin/gdn.measure), one each, pinned together to the last CPU that this process may use (with
/// threads, to so many). `folder`: double references of the shapes in use, made once.
std::unique_ptr<Measurer> make_measurer(const std::string &worker, const std::string &folder);

}  // namespace gdn::tune
