// Gated norm: rows of o, RMS norm over the value channels, and the output gate z,
//
//   y(d, t) = o(d, t) / sqrt(mean_d o^2 + eps) * weight(d) * act(z(d, t))
//
// A row whose sum of squares is beyond float32 (|o| = 1.6e18 in 128 channels) becomes 0, as in any float32 evaluation.
#include "gated_norm.h"

#include "../schedules/schedules.h"
#include "common/convert.h"
#include "common/math.h"

using namespace Halide;

namespace gdn {
namespace {

class GatedNorm : public Generator<GatedNorm> {
public:
    GeneratorParam<std::string> dtype_name{"dtype", "f32"}, z_dtype_name{"z_dtype", "f32"};
    GeneratorParam<std::string> schedule_name{"schedule", "x86_avx512"}, config_text{"config", ""};

    Input<float> eps{"eps"};
    Input<int> norm{"norm"};                   // 0 none, 1 RMS norm
    Input<int> gate{"gate"};                   // 0 none, 1 silu, 2 sigmoid
    Input<Buffer<float, 2>> o{"o"};            // (d, t)
    Input<Buffer<void, 2>> z{"z"};             // (d, t)
    Input<Buffer<float, 1>> weight{"weight"};  // (d)
    Output<Buffer<void, 2>> y{"y"};            // (d, t)

    void configure() {
        z.set_type(storage_of(dtype_of(z_dtype_name)));
        y.set_type(storage_of(dtype_of(dtype_name)));
    }

    void generate() {
        machine = machine_of(get_target(), schedule_name);
        config = gated_norm_space(machine).parse(config_text);
        const int lanes = machine.lanes * config["sums"];
        const Expr V = y.dim(0).extent();
        const Var d = st.d, t = st.t;

        // `likely` splits the loop into whole vectors and an end that repeats the last channel times 0.
        auto square = [&](const Expr &d) {
            const Expr value = o(clamp(likely(d), 0, V - 1), t);
            return select(likely(d < V), value * value, 0.0f);
        };
        st.squares = lane_sum("o", square, {t}, (V + lanes - 1) / lanes, lanes);
        st.inverse = Func("inverse");
        st.inverse(t) = 1.0f / sqrt(st.squares.total() * (1.0f / cast<float>(V)) + eps);

        st.norm = norm == 1;
        st.silu = gate == 1;
        st.sigmoid = gate == 2;
        const Expr logit = widen(dtype_of(z_dtype_name), z(d, t));
        const Expr factor = select(st.silu, silu(logit), st.sigmoid, sigmoid(logit), 1.0f);
        // The norm comes first, so that no product on the way is beyond float32 where the result is not.
        const Expr row = select(st.norm, detail::strict_mul(o(d, t), st.inverse(t)) * weight(d), o(d, t));
        y(d, t) = narrow(dtype_of(dtype_name), row * factor);
        st.y = y;

        st.channels = V;
        const Expr rows = y.dim(1).extent();
        y.dim(0).set_min(0);
        y.dim(1).set_min(0);
        o.dim(0).set_bounds(0, V);
        o.dim(1).set_bounds(0, rows);
        z.dim(0).set_bounds(0, V);
        z.dim(1).set_bounds(0, rows);
        weight.dim(0).set_bounds(0, V);
    }

    void schedule() {
        apply_gated_norm(st, config, machine);
        require_all_read(config);
    }

private:
    GatedNormStages st;
    Machine machine;
    Config config;
};

}  // namespace
}  // namespace gdn

HALIDE_REGISTER_GENERATOR(gdn::GatedNorm, gated_norm)
