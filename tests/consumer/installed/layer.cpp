// The installed layer from C++: seeded weights, whole sequences, the same tokens through a state, a refusal that can be caught by its type.
#include <gdn/layer.hpp>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

int main() {
    namespace layer = gdn::layer;
    layer::Config config = layer::Config::defaults(layer::Kind::kGdn2);
    config.hidden_size = 32, config.num_heads = 2, config.head_dim = 16;
    std::string refusal;
    try {
        config.validate();
    } catch (const layer::Error &error) {
        refusal = error.what();
    }
    if (refusal.find("output_gate") == std::string::npos)
        return std::printf("no refusal of an output gate left open: %s\n", refusal.c_str()), 1;

    config.output_gate = layer::OutputGate::kSilu;
    gdn::Context context;
    const layer::Layer built(context, config, layer::initialise(config, 1));
    std::vector<float> x(2 * 9 * 32), whole(x.size()), parts(x.size());
    for (std::size_t i = 0; i < x.size(); i++) x[i] = static_cast<float>(i % 13) - 6;
    built.forward_train(x.data(), whole.data(), 1, 18);
    layer::State state = built.make_state(1);
    built.forward(x.data(), parts.data(), 1, 17, state);
    built.forward(x.data() + 17 * 32, parts.data() + 17 * 32, 1, 1, state);
    double error = 0, size = 0;
    for (std::size_t i = 0; i < x.size(); i++) {
        error += (whole[i] - parts[i]) * (whole[i] - parts[i]);
        size += whole[i] * whole[i];
    }
    std::printf("relative distance %g, %d threads in the BLAS\n", std::sqrt(error / size), layer::blas_threads());
    return size > 0 && error <= 1e-10 * size ? 0 : 1;
}
