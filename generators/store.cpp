// Store: float32 rows of o to the caller's dtype and strides, rounding to nearest even.
#include "store.h"

#include "../schedules/schedules.h"
#include "common/convert.h"

using namespace Halide;

namespace gdn {
namespace {

class Store : public Generator<Store> {
public:
    GeneratorParam<std::string> dtype_name{"dtype", "f32"};
    GeneratorParam<std::string> schedule_name{"schedule", "x86_avx512"}, config_text{"config", ""};

    Input<Buffer<float, 2>> o{"o"};  // (d, t)
    Output<Buffer<void, 2>> y{"y"};  // (d, t)

    void configure() { y.set_type(storage_of(dtype_of(dtype_name))); }

    void generate() {
        machine = machine_of(get_target(), schedule_name);
        config = store_space(machine).parse(config_text);
        y(st.d, st.t) = narrow(dtype_of(dtype_name), o(st.d, st.t));
        st.y = y;
        for (int i : {0, 1}) {
            y.dim(i).set_min(0);
            o.dim(i).set_bounds(0, y.dim(i).extent());
        }
    }

    void schedule() {
        apply_store(st, config, machine);
        require_all_read(config);
    }

private:
    StoreStages st;
    Machine machine;
    Config config;
};

}  // namespace
}  // namespace gdn

HALIDE_REGISTER_GENERATOR(gdn::Store, store)
