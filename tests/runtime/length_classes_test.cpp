// Short and long sequences by chunk kernels of different sizes: whatever runs beside a sequence, its bits are those it has alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "call.h"
#include "context.h"
#include "cpu.h"
#include "halide_glue.h"

using namespace gdn;
using namespace gdn_test;

namespace {

int (*the_chunk)(void **);  // a real kernel of 8 tokens
std::atomic<int> eights{0}, sixteens{0};
std::atomic<bool> marking{false};  // kernels of 16 tokens round otherwise

int eight(void **argv) {
    eights++;
    return the_chunk(argv);
}

constexpr std::int32_t kSize = 128;

// A kernel of 16 tokens, made of two calls of one of 8.
int sixteen(void **argv) {
    sixteens++;
    alignas(64) thread_local float middle[kSize * kSize];
    alignas(64) thread_local float gates[8];
    halide_buffer_t buffers[9];
    halide_dimension_t dims[9][3];
    void *inner[10] = {argv[0]};
    for (int i = 0; i < 9; i++) {
        buffers[i] = *static_cast<const halide_buffer_t *>(argv[1 + i]);
        std::copy(buffers[i].dim, buffers[i].dim + buffers[i].dimensions, dims[i]);
        buffers[i].dim = dims[i];
        inner[1 + i] = &buffers[i];
    }
    halide_buffer_t &from = buffers[5], &to = buffers[8];
    const halide_buffer_t last = to;
    const halide_dimension_t last_row = dims[8][1];
    to.host = reinterpret_cast<std::uint8_t *>(middle);
    dims[8][1].stride = kSize;
    for (const int rows : {0, 1, 2, 4}) dims[rows][1].extent = 8;  // q a alpha e
    for (const int rows : {3, 7}) dims[rows][2].extent = 8;        // u o
    if (const int failed = the_chunk(inner)) return failed;
    from.host = to.host;
    dims[5][1].stride = kSize;
    to = last;
    to.dim = dims[8];
    dims[8][1] = last_row;
    for (const int rows : {0, 1, 2, 4}) buffers[rows].host += 8 * 4 * dims[rows][1].stride;
    for (const int rows : {3, 7}) buffers[rows].host += 8 * 4 * dims[rows][2].stride;
    std::memcpy(gates, buffers[4].host, sizeof gates);  // rows of one float: an aligned place for the last eight
    buffers[4].host = reinterpret_cast<std::uint8_t *>(gates);
    const int failed = the_chunk(inner);
    const halide_buffer_t &o = *static_cast<const halide_buffer_t *>(argv[8]);
    for (int token = 0; marking && token < 16; token++) o.host[4 * token * o.dim[2].stride] ^= 1;
    return failed;
}

// The library's kernels, of which one chunk kernel has a second configuration of 16 tokens.
class TwoSizes {
public:
    TwoSizes(int threads, bool long_sixteen) : context_(make_context(threads)), rows_(kKernelRows, kKernelRows + kKernelRowCount) {
        Need need;
        need.family = Family::kCoreChunk;
        need.decay = DecayShape::kChannel;
        need.erase = Erase::kTied;
        before_ = context_->dispatch.load();
        const std::ptrdiff_t at = before_->find(need, kSize, kSize) - kKernelRows;
        // Only the row in use, so that no other configuration stands beside the two.
        const KernelRow row = rows_[static_cast<std::size_t>(at)];
        rows_.erase(
            std::remove_if(rows_.begin(), rows_.end(), [&row](const KernelRow &other) { return same_kernel(row, other); }), rows_.end());
        const std::int32_t first = static_cast<std::int32_t>(rows_.size());
        usable_ = row.chunk == 8 && row.k == kSize && row.v == kSize;
        rows_.insert(rows_.end(), 2, row);
        rows_[first].call = eight;
        rows_[first + 1].call = sixteen;
        rows_[first + 1].chunk = 16;
        // Divisions that the other class does not have.
        rows_[first].run.time_block = 24;
        rows_[first + 1].run.time_block = 48;
        the_chunk = row.call;
        choices_ = {{Level::kDefault, long_sixteen ? LengthClass::kLong : LengthClass::kShort, "", first + 1},
            {Level::kDefault, LengthClass::kAny, "", first}};
        const std::int32_t count = static_cast<std::int32_t>(rows_.size());
        memory_.reset(new std::max_align_t[Dispatch::bytes(count) / sizeof(std::max_align_t) + 1]);
        context_->dispatch.store(Dispatch::create(
            memory_.get(), kTargetRows, kTargetRowCount, rows_.data(), count, cpu_features(), before_->target(), choices_.data(), 2));
    }
    ~TwoSizes() { context_->dispatch.store(before_); }

    bool usable() const { return usable_; }
    gdn_context *get() const { return context_.get(); }

private:
    ContextPtr context_;
    std::vector<KernelRow> rows_;
    std::vector<ChoiceRow> choices_;
    std::unique_ptr<std::max_align_t[]> memory_;
    Dispatch *before_;
    bool usable_;
};

// Sequences of one packed call.
struct Packed {
    explicit Packed(const std::vector<std::int64_t> &lengths, std::int64_t heads) : cu(1, 0) {
        for (const std::int64_t length : lengths) cu.push_back(cu.back() + length);
        CallSize size;
        size.B = 1, size.T = cu.back(), size.H = size.HV = heads, size.K = size.V = kSize;
        call = std::make_unique<SmallCall>(size);
        const std::int64_t n = static_cast<std::int64_t>(lengths.size());
        call->args.initial_state = call->tensor(call->initial_state, {n, heads, kSize, kSize}, -1, 1);
        call->args.final_state = call->tensor(call->final_state, {n, heads, kSize, kSize}, 0, 0);
        call->args.cu_seqlens = SmallCall::indices(cu);
    }
    std::vector<float> run(gdn_context *context, const gdn_args &args) {
        call->poison();
        EXPECT_EQ(gdn_forward(context, &args, nullptr, 0), GDN_STATUS_OK) << gdn_last_error();
        std::vector<float> out = call->o;
        out.insert(out.end(), call->final_state.begin(), call->final_state.end());
        return out;
    }
    // One sequence by itself; what it does not write stays poisoned.
    gdn_args alone(std::size_t s) const {
        gdn_args args = call->args;
        args.cu_seqlens = {};
        for (gdn_tensor *t : {&args.q, &args.k, &args.v, &args.g, &args.beta, &args.o}) {
            t->data = static_cast<float *>(t->data) + cu[s] * t->strides[1];
            t->shape[1] = cu[s + 1] - cu[s];
        }
        for (gdn_tensor *t : {&args.initial_state, &args.final_state}) {
            t->data = static_cast<float *>(t->data) + static_cast<std::int64_t>(s) * t->strides[0];
            t->shape[0] = 1;
        }
        return args;
    }
    std::vector<std::int64_t> cu;
    std::unique_ptr<SmallCall> call;
};

bool same_bits(const float &a, const float &b) { return !std::memcmp(&a, &b, 4); }

class LengthClasses : public ::testing::TestWithParam<bool> {};

TEST_P(LengthClasses, ASequenceHasTheBitsItHasAlone) {
    marking = true;
    for (const std::int64_t heads : {1, 3})
        for (const int threads : {1, 4}) {
            TwoSizes table(threads, GetParam());
            if (!table.usable()) GTEST_SKIP() << "no chunk kernel of 8 tokens for 128 x 128";
            Packed packed({300, 1, 40, 257, 256, 11, 2, 320}, heads);
            const std::vector<float> together = packed.run(table.get(), packed.call->args);
            std::size_t written = 0;
            for (std::size_t s = 0; s + 1 < packed.cu.size(); s++) {
                TwoSizes single(1, GetParam());
                const std::vector<float> alone = packed.run(single.get(), packed.alone(s));
                for (std::size_t i = 0; i < alone.size(); i++) {
                    std::uint32_t bits;
                    std::memcpy(&bits, &alone[i], 4);
                    if (bits == 0xFFFFFFFFu) continue;
                    written++;
                    ASSERT_TRUE(same_bits(alone[i], together[i]))
                        << "sequence " << s << ", " << heads << " heads, " << threads << " threads, at " << i;
                }
            }
            EXPECT_EQ(written, together.size());
        }
}

TEST_P(LengthClasses, EachClassRunsItsKernel) {
    TwoSizes table(1, GetParam());
    if (!table.usable()) GTEST_SKIP() << "no chunk kernel of 8 tokens for 128 x 128";
    const auto calls = [&](std::int64_t length) {
        Packed packed({length}, 1);
        eights = sixteens = 0;
        packed.run(table.get(), packed.call->args);
        return std::pair<int, int>(eights, sixteens);
    };
    const bool long_sixteen = GetParam();
    EXPECT_EQ(calls(256), long_sixteen ? (std::pair<int, int>(32, 0)) : (std::pair<int, int>(0, 16)));
    EXPECT_EQ(calls(320), long_sixteen ? (std::pair<int, int>(0, 20)) : (std::pair<int, int>(40, 0)));
}

// Two chunks of 8 are one of 16 where no tail goes another way: scratch, padding and blocks of the larger chunk are right.
TEST(LengthClassesOfOneLength, TheLargerChunkIsTwoOfTheSmaller) {
    marking = false;
    for (const std::int64_t length : {16, 48, 100, 300, 320, 428}) {
        TwoSizes one(1, true), other(1, false);
        if (!one.usable()) GTEST_SKIP() << "no chunk kernel of 8 tokens for 128 x 128";
        Packed packed({length}, 2);
        const std::vector<float> a = packed.run(one.get(), packed.call->args), b = packed.run(other.get(), packed.call->args);
        EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), same_bits)) << length;
    }
}

INSTANTIATE_TEST_SUITE_P(
    Sixteen, LengthClasses, ::testing::Values(false, true), [](const auto &info) { return info.param ? "Long" : "Short"; });

}  // namespace
