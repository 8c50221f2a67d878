// Short convolution: causal, depthwise, of width W along the tokens, with bias and activation,
//
//   y(c, t) = act(bias(c) + sum_{i < W} w(c, i) x(c, t + i))
//
// Row t of x is token t - (W - 1): the caller puts W - 1 old rows before the first token. Tap W - 1 meets the newest token. y goes to the
// stage as float32 rows: rounded to 16 bits, it would put the state off by that.
#include "short_conv.h"

#include "../schedules/schedules.h"
#include "common/convert.h"
#include "common/math.h"

using namespace Halide;

namespace gdn {
namespace {

class ShortConv : public Generator<ShortConv> {
public:
    GeneratorParam<std::string> dtype_name{"dtype", "f32"}, width{"width", "4"};
    GeneratorParam<std::string> schedule_name{"schedule", "x86_avx512"}, config_text{"config", ""};

    Input<int> activation{"activation"};   // 0 none, 1 silu
    Input<Buffer<void, 2>> x{"x"};         // (c, t), W - 1 tokens more than y
    Input<Buffer<float, 2>> w{"w"};        // (c, i)
    Input<Buffer<float, 1>> bias{"bias"};  // (c)
    Output<Buffer<float, 2>> y{"y"};       // (c, t)

    void configure() { x.set_type(storage_of(dtype_of(dtype_name))); }

    void generate() {
        const Dtype dtype = dtype_of(dtype_name);
        const bool any = width.value() == "any";
        machine = machine_of(get_target(), schedule_name);
        config = short_conv_space(machine).parse(config_text);
        const int taps = any ? kMaxWidth : std::stoi(width.value());
        const Expr W = any ? w.dim(1).extent() : Expr(taps);
        const Var c = st.c, t = st.t;

        // Taps past a run-time W read tap W - 1 again and take x for 0. LLVM orders such a sum, and on ARM any, differently from loop to loop;
        // said strictly, a token has the same bits in each.
        const bool strict = any || get_target().arch == Target::ARM;
        Expr sum = bias(c);
        for (int i = 0; i < taps; i++) {
            const Expr tap = any ? min(i, W - 1) : Expr(i);
            const Expr value = widen(dtype, x(c, t + tap));
            const Expr product = w(c, tap) * (any && i > 0 ? select(i < W, value, 0.0f) : value);
            sum = strict ? detail::strict_add(sum, product) : sum + product;
        }
        st.silu = activation == 1;
        st.channels = y.dim(0).extent();
        st.tokens = y.dim(1).extent();
        y(c, t) = select(st.silu, silu(sum), sum);
        st.y = y;

        y.dim(0).set_min(0);
        y.dim(1).set_min(0);
        x.dim(0).set_bounds(0, st.channels);
        x.dim(1).set_bounds(0, st.tokens + W - 1);
        w.dim(0).set_bounds(0, st.channels);
        w.dim(1).set_bounds(0, W);
        bias.dim(0).set_bounds(0, st.channels);
    }

    void schedule() {
        apply_short_conv(st, config, machine);
        require_all_read(config);
    }

private:
    static constexpr int kMaxWidth = 8;
    ShortConvStages st;
    Machine machine;
    Config config;
};

// One token of a row of channels, the state moved on in the same sweep: W - 1 old rows and the new one give y and the next W - 1 old rows.
class ShortConvStep : public Generator<ShortConvStep> {
public:
    GeneratorParam<std::string> dtype_name{"dtype", "f32"}, width{"width", "4"};
    GeneratorParam<std::string> schedule_name{"schedule", "x86_avx512"}, config_text{"config", ""};

    Input<int> activation{"activation"};   // 0 none, 1 silu
    Input<Buffer<void, 1>> x{"x"};         // (c)
    Input<Buffer<void, 2>> h0{"h0"};       // (c, i), oldest first
    Input<Buffer<float, 2>> w{"w"};        // (c, i)
    Input<Buffer<float, 1>> bias{"bias"};  // (c)
    Output<Buffer<float, 1>> y{"y"};       // (c)
    Output<Buffer<void, 2>> h1{"h1"};      // (c, i); may be h0: a channel's rows are written upwards, each after its last read

    void configure() {
        x.set_type(storage_of(dtype_of(dtype_name)));
        h0.set_type(storage_of(dtype_of(dtype_name)));
        h1.set_type(storage_of(dtype_of(dtype_name)));
    }

    void generate() {
        const Dtype dtype = dtype_of(dtype_name);
        const int taps = std::stoi(width.value());
        machine = machine_of(get_target(), schedule_name);
        config = short_conv_step_space(machine).parse(config_text);
        const Var c = st.c, i = st.i;
        Expr total = bias(c);
        for (int tap = 0; tap < taps; tap++) total = total + w(c, tap) * widen(dtype, tap + 1 < taps ? h0(c, tap) : x(c));
        st.silu = activation == 1;
        st.channels = y.dim(0).extent();
        st.old_rows = taps - 1;
        y(c) = select(st.silu, silu(total), total);
        h1(c, i) = select(i < taps - 2, h0(c, min(i + 1, taps - 2)), x(c));
        st.y = y;
        st.h1 = h1;

        y.dim(0).set_min(0);
        x.dim(0).set_bounds(0, st.channels);
        w.dim(0).set_bounds(0, st.channels);
        w.dim(1).set_bounds(0, taps);
        bias.dim(0).set_bounds(0, st.channels);
        auto state = [&](auto &h) {
            h.dim(0).set_bounds(0, st.channels);
            h.dim(1).set_bounds(0, taps - 1);
        };
        state(h0);
        state(h1);
    }

    void schedule() {
        apply_short_conv_step(st, config, machine);
        require_all_read(config);
    }

private:
    ShortConvStepStages st;
    Machine machine;
    Config config;
};

}  // namespace
}  // namespace gdn

HALIDE_REGISTER_GENERATOR(gdn::ShortConv, short_conv)
HALIDE_REGISTER_GENERATOR(gdn::ShortConvStep, short_conv_step)
