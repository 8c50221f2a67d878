#include "weights.h"

#include <cmath>

#include "fail.h"

namespace gdn::layer {

std::int64_t decay_heads(const Config &config) {
    return config.kind == Kind::kGdn || config.kind == Kind::kKda ? config.value_heads() : config.num_heads;
}
std::int64_t decay_channels(const Config &config) { return config.kind == Kind::kGdn ? 1 : config.key_dim(); }
std::int64_t decay_rank(const Config &config) { return config.decay_rank ? *config.decay_rank : config.value_dim(); }
std::int64_t gate_rank(const Config &config) { return config.gate_rank ? *config.gate_rank : config.value_dim(); }

bool is_under(const std::string &name, const std::string &prefix) { return name.compare(0, prefix.size(), prefix) == 0; }

std::int64_t elements(const std::vector<std::int64_t> &shape, const std::string &name) {
    std::int64_t count = 1;
    for (std::int64_t extent : shape) {
        if (extent < 0 || __builtin_mul_overflow(count, extent, &count))
            fail(GDN_STATUS_INVALID_ARGUMENT, "tensor '" + name + "': expected a shape that fits memory, found " + text_of(shape));
    }
    return count;
}

std::vector<TensorSpec> weights(const Config &config) {
    config.validate();
    const std::int64_t d = config.hidden_size, K = config.key_dim(), V = config.value_dim();
    const std::int64_t keys = config.num_heads * K, HV = config.value_heads(), values = HV * V;
    const std::int64_t decays = decay_heads(config) * decay_channels(config);

    std::vector<TensorSpec> list = {{"q_proj.weight", {keys, d}}, {"k_proj.weight", {keys, d}}, {"v_proj.weight", {values, d}}};
    if (config.use_short_conv) {
        for (const auto &[part, channels] : {std::pair{"q", keys}, {"k", keys}, {"v", values}}) {
            list.push_back({std::string(part) + "_conv1d.weight", {channels, 1, config.conv_size}});
            if (config.conv_bias) list.push_back({std::string(part) + "_conv1d.bias", {channels}});
        }
    }
    if (config.kind == Kind::kGdn) {
        list.push_back({"a_proj.weight", {decays, d}});
    } else {
        list.push_back({"f_proj.0.weight", {decay_rank(config), d}});
        list.push_back({"f_proj.1.weight", {decays, decay_rank(config)}});
    }
    const bool scalar_beta = config.kind == Kind::kGdn || config.kind == Kind::kKda;
    list.push_back({"b_proj.weight", {scalar_beta ? HV : keys, d}});
    if (config.kind == Kind::kGdn2 || config.kind == Kind::kFg2Plus) list.push_back({"w_proj.weight", {values, d}});
    list.push_back({"A_log", {decay_heads(config)}});
    list.push_back({"dt_bias", {decays}});
    if (config.output_gate != OutputGate::kNone) {
        if (config.output_gate_low_rank) {
            list.push_back({"g_proj.0.weight", {gate_rank(config), d}});
            list.push_back({"g_proj.1.weight", {values, gate_rank(config)}});
            if (config.output_gate_bias) list.push_back({"g_proj.1.bias", {values}});
        } else {
            list.push_back({"g_proj.weight", {values, d}});
        }
    }
    list.push_back({"o_norm.weight", {V}});
    list.push_back({"o_proj.weight", {d, values}});
    return list;
}

std::int64_t parameter_count(const Config &config) {
    std::int64_t count = 0;
    for (const TensorSpec &spec : weights(config)) count += elements(spec.shape, spec.name);
    return count;
}

void check_weights(const Config &config, const StateDict &dict) {
    const std::vector<TensorSpec> specs = weights(config);
    for (const TensorSpec &spec : specs) {
        const auto found = dict.find(spec.name);
        if (found == dict.end())
            fail(GDN_STATUS_INVALID_ARGUMENT,
                "tensor '" + spec.name + "': expected shape " + text_of(spec.shape) + ", found no such tensor");
        const Tensor &tensor = found->second;
        if (tensor.shape != spec.shape)
            fail(GDN_STATUS_INVALID_ARGUMENT,
                "tensor '" + spec.name + "': expected shape " + text_of(spec.shape) + ", found " + text_of(tensor.shape));
        const std::int64_t count = elements(spec.shape, spec.name);
        if (static_cast<std::int64_t>(tensor.data.size()) != count)
            fail(GDN_STATUS_INVALID_ARGUMENT,
                "tensor '" + spec.name + "': expected " + std::to_string(count) + " values, found " + std::to_string(tensor.data.size()));
        for (std::size_t i = 0; i < tensor.data.size(); i++) {
            // log U(0, 16) can draw it, and it means something: no decay.
            const bool no_decay = spec.name == "A_log" && tensor.data[i] == -INFINITY;
            if (!std::isfinite(tensor.data[i]) && !no_decay)
                fail(GDN_STATUS_INVALID_VALUE, "tensor '" + spec.name + "': expected finite values, found " +
                                                   std::to_string(tensor.data[i]) + " at " + std::to_string(i));
        }
    }
    if (dict.size() == specs.size()) return;
    for (const auto &[name, tensor] : dict) {
        bool known = false;
        for (const TensorSpec &spec : specs) known = known || spec.name == name;
        if (!known)
            fail(GDN_STATUS_INVALID_ARGUMENT,
                "tensor '" + name + "': expected no such tensor with this configuration, found shape " + text_of(tensor.shape));
    }
}

}  // namespace gdn::layer
