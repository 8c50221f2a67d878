// Map: one tensor's rows to float32 scratch rows, out = f(in) for the first `valid` channels and `pad` beyond. Together with the stages of
// form linear, these serve every combination of units, dtypes and sizes that no fused stage covers. Reads nothing past `valid`.
#include "map.h"

#include "../schedules/schedules.h"
#include "common/convert.h"
#include "common/math.h"

using namespace Halide;

namespace gdn {
namespace {

class Map : public Generator<Map> {
public:
    GeneratorParam<std::string> kind{"kind", "copy"}, dtype_name{"dtype", "f32"};
    GeneratorParam<std::string> schedule_name{"schedule", "x86_avx512"}, config_text{"config", ""};

    Input<float> gate_scale{"gate_scale"};    // of kind sigmoid
    Input<float> lower_bound{"lower_bound"};  // of kind lower_bound
    Input<float> pad{"pad"};
    Input<int> valid{"valid"};
    Input<Buffer<void, 2>> in{"in"};             // (c, t)
    Input<Buffer<float, 2>> a_log{"A_log"};      // (0, t)
    Input<Buffer<float, 2>> dt_bias{"dt_bias"};  // (c, t)
    Output<Buffer<float, 2>> out{"out"};         // (c, t)

    void configure() { in.set_type(storage_of(dtype_of(dtype_name))); }

    void generate() {
        const Dtype dtype = dtype_of(dtype_name);
        const std::string f = kind;
        const bool logit_decay = f == "softplus" || f == "lower_bound";
        machine = machine_of(get_target(), schedule_name);
        config = map_space(machine).parse(config_text);
        const Var c = st.c, t = st.t;

        // `likely` splits the loop into whole vectors of valid channels and an end that repeats the last one.
        auto last_valid = [&](const Expr &c) { return clamp(likely(c), 0, valid - 1); };
        auto load = [&](const Expr &c, const Expr &t) { return widen(dtype, in(last_valid(c), t)); };
        Expr x = load(c, t), value;
        if (logit_decay) {
            st.rate = Func("rate");
            st.rate(t) = exp_full(a_log(0, t));
            x = x + dt_bias(last_valid(c), t);
        }
        if (f == "copy") {
            value = x;
        } else if (f == "exp") {
            value = exp_decay(x);
        } else if (f == "sigmoid") {
            value = gate_scale * sigmoid(x);
        } else if (f == "softplus") {
            value = softplus_decay(st.rate(t), x);
        } else if (f == "lower_bound") {
            value = exp_decay(lower_bound * sigmoid(st.rate(t) * x));
        } else {
            _halide_user_assert(f == "l2norm") << "unknown kind '" << f << "'\n";
            const int lanes = machine.lanes;
            auto zero_extended = [&](const Expr &c, const Expr &t) { return select(c < valid, load(c, t), 0.0f); };
            st.norms.push_back(l2norm("x", zero_extended, (valid + lanes - 1) / lanes, lanes, 1.0f));
            value = x * st.norms[0].inverse(t);
        }
        out(c, t) = select(likely(c < valid), value, pad);
        st.out = out;

        const Expr tokens = out.dim(1).extent();
        in.dim(0).set_bounds(0, valid);
        in.dim(1).set_bounds(0, tokens);
        if (logit_decay) {
            a_log.dim(0).set_bounds(0, 1);
            a_log.dim(1).set_bounds(0, tokens);
            dt_bias.dim(0).set_bounds(0, valid);
            dt_bias.dim(1).set_bounds(0, tokens);
        }
        out.dim(0).set_min(0);
        out.dim(1).set_min(0);
    }

    void schedule() {
        apply_map(st, config, machine);
        require_all_read(config);
    }

private:
    MapStages st;
    Machine machine;
    Config config;
};

}  // namespace
}  // namespace gdn

HALIDE_REGISTER_GENERATOR(gdn::Map, map)
