// Ceilings of one core: multiply-adds from registers, and one pass over memory. Built at each vector width whatever the flags of the
// program, and called only where the CPU has it.
#include "machine.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace gdn::cli {
namespace {

// Twelve accumulators that start apart, each a variable of its own so that it stays in a register at any optimisation level: enough for two
// pipes of latency 4 to 6, and no two chains that a compiler could merge. x -> 0.999 x + 0.0001 stays near 0.1, far from denormals. The
// empty asm makes every round's values observable.
constexpr int kChains = 12;

#define GDN_EACH(what) what(0) what(1) what(2) what(3) what(4) what(5) what(6) what(7) what(8) what(9) what(10) what(11)
#define GDN_START(i) Vector x##i = set1(0.1f + 0.001f * i);
#define GDN_FMA(i) x##i = multiply_add(x##i, b, c);
#define GDN_KEEP(i) asm volatile("" : GDN_REGISTER(x##i));
#define GDN_PEAK_LOOP                                                                                                                      \
    GDN_EACH(GDN_START)                                                                                                                    \
    const Vector b = set1(0.999f), c = set1(1e-4f);                                                                                        \
    for (long n = 0; n < rounds; n++) {                                                                                                    \
        GDN_EACH(GDN_FMA)                                                                                                                  \
        GDN_EACH(GDN_KEEP)                                                                                                                 \
    }

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void run16(long rounds) {
    using Vector = __m512;
#define GDN_REGISTER(x) "+v"(x)
#define set1 _mm512_set1_ps
#define multiply_add _mm512_fmadd_ps
    GDN_PEAK_LOOP
#undef GDN_REGISTER
#undef set1
#undef multiply_add
}
__attribute__((target("avx2,fma"))) void run8(long rounds) {
    using Vector = __m256;
#define GDN_REGISTER(x) "+x"(x)
#define set1 _mm256_set1_ps
#define multiply_add _mm256_fmadd_ps
    GDN_PEAK_LOOP
#undef set1
#undef multiply_add
}
// Baseline x86-64 has no fused form: a multiplication and an addition, as its kernels use.
void run4(long rounds) {
    using Vector = __m128;
#define set1 _mm_set1_ps
#define multiply_add(x, b, c) _mm_add_ps(_mm_mul_ps(x, b), c)
    GDN_PEAK_LOOP
}
#elif defined(__aarch64__)
void run4(long rounds) {
    using Vector = float32x4_t;
#define GDN_REGISTER(x) "+w"(x)
#define set1 vdupq_n_f32
#define multiply_add(x, b, c) vfmaq_f32(c, x, b)
    GDN_PEAK_LOOP
}
#endif

void run(int lanes, long rounds) {
#if defined(__x86_64__)
    if (lanes == 16) return run16(rounds);
    if (lanes == 8) return run8(rounds);
#endif
    (void)lanes;
    run4(rounds);
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void sweep16(float *x, size_t n, float factor) {
    const __m512 f = _mm512_set1_ps(factor);
    for (size_t i = 0; i < n; i += 16) _mm512_store_ps(x + i, _mm512_mul_ps(_mm512_load_ps(x + i), f));
}
__attribute__((target("avx"))) void sweep8(float *x, size_t n, float factor) {
    const __m256 f = _mm256_set1_ps(factor);
    for (size_t i = 0; i < n; i += 8) _mm256_store_ps(x + i, _mm256_mul_ps(_mm256_load_ps(x + i), f));
}
#endif

}  // namespace

double fma_rate(int lanes, int milliseconds) {
    const long rounds = 4000000L / lanes * milliseconds;  // 12 chains of `lanes` at 100 GFLOP/s
    const double start = now();
    run(lanes, rounds);
    return 2.0 * kChains * lanes * static_cast<double>(rounds) / (now() - start) * 1e-9;
}

double fma_peak(int lanes) {
    double best = 0;
    for (int repeat = 0; repeat < 3; repeat++) best = std::max(best, fma_rate(lanes, 1));
    return best;
}

void sweep(float *x, size_t n, float factor, int lanes) {
#if defined(__x86_64__)
    if (lanes == 16) return sweep16(x, n, factor);
    if (lanes == 8) return sweep8(x, n, factor);
#endif
    (void)lanes;
    for (size_t i = 0; i < n; i++) x[i] *= factor;
}

}  // namespace gdn::cli
