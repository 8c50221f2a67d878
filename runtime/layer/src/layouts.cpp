// Checkpoints of others: how their tensors are named and packed. A layout is a list of file tensors, each made of row blocks of ours;
// reading walks the list one way, writing the other, so each is the other's inverse.
#include <algorithm>
#include <cstring>
#include <new>

#include "fail.h"
#include "names.h"
#include "weights.h"

namespace gdn::layer {
namespace {

/// Rows [first, first + rows) of one of our tensors.
struct Block {
    std::string own;
    std::int64_t first, rows;
};
struct FileTensor {
    std::string name;
    std::vector<std::int64_t> shape;              // as written
    std::vector<std::vector<std::int64_t>> also;  // read too
    std::vector<Block> blocks;                    // from the first row on
};

class Plan {
public:
    Plan(const Config &config, Layout layout) : config_(config), layout_(layout), specs_(weights(config)) {
        switch (layout) {
        case Layout::kGdn: break;
        case Layout::kFlaGdn2: fla(Kind::kGdn2, OutputGate::kSigmoid); break;
        case Layout::kNvGdn2:
            fla(Kind::kGdn2, OutputGate::kSilu);
            want(config_.decay == DecayGate::kSoftplus, "decay", "softplus", text_of(config_.decay));
            break;
        case Layout::kFlaGdn: fla_gdn(); break;
        case Layout::kFlaKda: fla(Kind::kKda, OutputGate::kSigmoid); break;
        case Layout::kKimiLinear:
        case Layout::kKimiLinearFused: kimi_linear(); break;
        case Layout::kFg2: fg2(); break;
        case Layout::kQwen3Next: qwen3_next(); break;
        default: fail_field("layout", "one of its names", std::to_string(static_cast<int>(layout)));
        }
        // What no layout above has taken keeps its name and shape.
        for (const TensorSpec &spec : specs_) {
            const bool taken = std::any_of(tensors_.begin(), tensors_.end(), [&](const FileTensor &tensor) {
                return std::any_of(tensor.blocks.begin(), tensor.blocks.end(), [&](const Block &block) { return block.own == spec.name; });
            });
            if (!taken) tensors_.push_back({spec.name, spec.shape, {}, {whole(spec.name)}});
        }
        // A_log has been stored per head with and without axes for batch, token and channel.
        const std::int64_t heads = decay_heads(config);
        for (FileTensor &tensor : tensors_) {
            if (tensor.blocks[0].own == "A_log" && config.kind != Kind::kGdn) tensor.also = {{heads}, {1, 1, heads, 1}, {heads, 1}};
        }
    }

    const std::vector<FileTensor> &tensors() const { return tensors_; }

private:
    // What the model code behind a layout cannot be told is refused here: its file would load and compute something else.
    void want(bool good, const std::string &field, const std::string &expected, const std::string &found) const {
        if (!good)
            fail(GDN_STATUS_UNSUPPORTED, "layout '" + name_of(layout_) + "' cannot express this configuration: " + field + ": expected " +
                                             expected + ", found " + found);
    }
    void want_flag(const char *field, bool expected, bool found) const {
        want(expected == found, field, expected ? "true" : "false", found ? "true" : "false");
    }
    void want_size(const char *field, std::int64_t expected, std::int64_t found) const {
        want(expected == found, field, std::to_string(expected), std::to_string(found));
    }
    void want_kind(Kind kind) const { want(config_.kind == kind, "kind", text_of(kind), text_of(config_.kind)); }
    void want_gate(OutputGate gate) const { want(config_.output_gate == gate, "output_gate", text_of(gate), text_of(config_.output_gate)); }

    const TensorSpec &spec(const std::string &own) const {
        return *std::find_if(specs_.begin(), specs_.end(), [&](const TensorSpec &spec) { return spec.name == own; });
    }
    Block whole(const std::string &own) const { return {own, 0, spec(own).shape[0]}; }
    void rename(const std::string &own, const std::string &name) { tensors_.push_back({name, spec(own).shape, {}, {whole(own)}}); }
    /// A tensor with the columns of the first block's.
    void pack(const std::string &name, const std::vector<Block> &blocks) {
        std::vector<std::int64_t> shape = spec(blocks[0].own).shape;
        shape[0] = 0;
        for (const Block &block : blocks) shape[0] += block.rows;
        tensors_.push_back({name, shape, {}, blocks});
    }

    void fla(Kind kind, OutputGate gate) {
        want_kind(kind);
        want_gate(gate);
        want_flag("output_gate_low_rank", true, config_.output_gate_low_rank);
        want_flag("output_gate_bias", true, config_.output_gate_bias);
        want_size("decay_rank", config_.value_dim(), decay_rank(config_));
        want_size("gate_rank", config_.value_dim(), gate_rank(config_));
    }

    void fla_gdn() {
        want_kind(Kind::kGdn);
        want(config_.decay == DecayGate::kSoftplus, "decay", "softplus", text_of(config_.decay));
        if (config_.output_gate == OutputGate::kNone) return;
        want(config_.output_gate == OutputGate::kSilu, "output_gate", "silu or none", text_of(config_.output_gate));
        want_flag("output_gate_low_rank", false, config_.output_gate_low_rank);
    }

    // Kimi-Linear's names, which the FG2 port shares. Everything there is head_dim wide.
    void kimi_names(const std::string &decay) {
        want_gate(OutputGate::kSigmoid);
        want_flag("output_gate_low_rank", true, config_.output_gate_low_rank);
        want_flag("output_gate_bias", false, config_.output_gate_bias);
        want_flag("allow_neg_eigval", false, config_.allow_neg_eigval);
        want_size("num_v_heads", config_.num_heads, config_.value_heads());
        want_size("decay_rank", config_.head_dim, decay_rank(config_));
        want_size("gate_rank", config_.head_dim, gate_rank(config_));
        rename("f_proj.0.weight", decay + "f_a_proj.weight");
        rename("f_proj.1.weight", decay + "f_b_proj.weight");
        rename("dt_bias", decay + "dt_bias");
        tensors_.push_back({decay + "A_log", {1, 1, config_.num_heads, 1}, {}, {whole("A_log")}});
        rename("g_proj.0.weight", "g_a_proj.weight");
        rename("g_proj.1.weight", "g_b_proj.weight");
    }

    void fused_convolution() { pack("conv1d.weight", {whole("q_conv1d.weight"), whole("k_conv1d.weight"), whole("v_conv1d.weight")}); }

    void kimi_linear() {
        want_kind(Kind::kKda);
        want_flag("use_short_conv", true, config_.use_short_conv);
        want_flag("conv_bias", false, config_.conv_bias);
        want(config_.value_dim() == config_.head_dim, "expand_v", "1", text_of(config_.expand_v));
        if (layout_ == Layout::kKimiLinear) {
            kimi_names("");
        } else {
            kimi_names("forget_gate.");
            fused_convolution();
        }
    }

    void fg2() {
        want(config_.kind == Kind::kFg2 || config_.kind == Kind::kFg2Plus, "kind", "fg2 or fg2_plus", text_of(config_.kind));
        want(config_.decay == DecayGate::kSoftplus, "decay", "softplus", text_of(config_.decay));
        kimi_names("");
        if (config_.kind == Kind::kFg2Plus) pack("b_proj.weight", {whole("b_proj.weight"), whole("w_proj.weight")});
    }

    void qwen3_next() {
        want_kind(Kind::kGdn);
        want_gate(OutputGate::kSilu);
        want_flag("output_gate_low_rank", false, config_.output_gate_low_rank);
        want_flag("use_short_conv", true, config_.use_short_conv);
        want_flag("conv_bias", false, config_.conv_bias);
        want_flag("allow_neg_eigval", false, config_.allow_neg_eigval);
        want(config_.decay == DecayGate::kSoftplus, "decay", "softplus", text_of(config_.decay));
        // Per key head: its rows of q and k, then those of its r value heads of v and z; and b and a of its value heads.
        const std::int64_t K = config_.head_dim, r = config_.value_heads() / config_.num_heads, values = r * config_.value_dim();
        std::vector<Block> qkvz, ba;
        for (std::int64_t h = 0; h < config_.num_heads; h++) {
            qkvz.push_back({"q_proj.weight", h * K, K});
            qkvz.push_back({"k_proj.weight", h * K, K});
            qkvz.push_back({"v_proj.weight", h * values, values});
            qkvz.push_back({"g_proj.weight", h * values, values});
            ba.push_back({"b_proj.weight", h * r, r});
            ba.push_back({"a_proj.weight", h * r, r});
        }
        pack("in_proj_qkvz.weight", qkvz);
        pack("in_proj_ba.weight", ba);
        fused_convolution();
        rename("o_norm.weight", "norm.weight");
        rename("o_proj.weight", "out_proj.weight");
    }

    const Config &config_;
    Layout layout_;
    std::vector<TensorSpec> specs_;
    std::vector<FileTensor> tensors_;
};

std::int64_t row_size(const std::vector<std::int64_t> &shape) {
    std::int64_t size = 1;
    for (std::size_t i = 1; i < shape.size(); i++) size *= shape[i];
    return size;
}

/// copy(file tensor's values, own tensor's values, how many) for every block, in the file's order.
template <typename File, typename Own, typename Copy> void walk(const FileTensor &tensor, File *file, const Own &own_tensor, Copy copy) {
    for (const Block &block : tensor.blocks) {
        auto &own = own_tensor(block.own);
        const std::int64_t row = row_size(own.shape);
        copy(file, own.data.data() + block.first * row, static_cast<std::size_t>(block.rows * row));
        file += block.rows * row;
    }
}

[[noreturn]] void out_of_memory() {
    fail(GDN_STATUS_OUT_OF_MEMORY, "weights: expected memory for a second copy of them, found too little");
}

}  // namespace

StateDict import_weights(const Config &config, Layout layout, const StateDict &file, const std::string &prefix) {
    const Plan plan(config, layout);
    const std::string in_layout = " (layout '" + name_of(layout) + "')";
    // The first tensor under the prefix that the layout does not know: often the missing one under another name.
    std::string surplus;
    for (auto at = file.lower_bound(prefix); at != file.end() && is_under(at->first, prefix) && surplus.empty(); ++at) {
        const bool known = std::any_of(plan.tensors().begin(), plan.tensors().end(),
            [&](const FileTensor &tensor) { return at->first.compare(prefix.size(), std::string::npos, tensor.name) == 0; });
        if (!known) surplus = "'" + at->first + "' " + text_of(at->second.shape);
    }
    for (const FileTensor &tensor : plan.tensors()) {
        const std::string name = prefix + tensor.name;
        const auto found = file.find(name);
        if (found == file.end())
            fail(GDN_STATUS_INVALID_ARGUMENT, "tensor '" + name + "': expected shape " + text_of(tensor.shape) + in_layout +
                                                  ", found no such tensor" + (surplus.empty() ? "" : " but an unknown " + surplus));
        const std::vector<std::int64_t> &shape = found->second.shape;
        if (shape != tensor.shape && std::find(tensor.also.begin(), tensor.also.end(), shape) == tensor.also.end())
            fail(GDN_STATUS_INVALID_ARGUMENT,
                "tensor '" + name + "': expected shape " + text_of(tensor.shape) + in_layout + ", found " + text_of(shape));
        if (static_cast<std::int64_t>(found->second.data.size()) != elements(shape, name))
            fail(GDN_STATUS_INVALID_ARGUMENT, "tensor '" + name + "': expected " + std::to_string(elements(shape, name)) +
                                                  " values, found " + std::to_string(found->second.data.size()));
    }
    if (!surplus.empty())
        fail(GDN_STATUS_INVALID_ARGUMENT, "tensor " + surplus + ": expected no such tensor with this configuration" + in_layout);

    StateDict own;
    try {
        for (const TensorSpec &spec : weights(config))
            own[spec.name] = {spec.shape, std::vector<float>(static_cast<std::size_t>(elements(spec.shape, spec.name)))};
        for (const FileTensor &tensor : plan.tensors()) {
            walk(
                tensor, file.at(prefix + tensor.name).data.data(), [&](const std::string &name) -> Tensor & { return own[name]; },
                [](const float *from, float *to, std::size_t count) { std::memcpy(to, from, count * sizeof(float)); });
        }
    } catch (const std::bad_alloc &) {
        out_of_memory();
    }
    check_weights(config, own);
    return own;
}

StateDict export_weights(const Config &config, Layout layout, const StateDict &weights, const std::string &prefix) {
    const Plan plan(config, layout);
    check_weights(config, weights);
    StateDict file;
    try {
        for (const FileTensor &tensor : plan.tensors()) {
            Tensor &to = file[prefix + tensor.name];
            to.shape = tensor.shape;
            to.data.resize(static_cast<std::size_t>(elements(tensor.shape, tensor.name)));
            walk(
                tensor, to.data.data(), [&](const std::string &name) -> const Tensor & { return weights.at(name); },
                [](float *into, const float *from, std::size_t count) { std::memcpy(into, from, count * sizeof(float)); });
        }
    } catch (const std::bad_alloc &) {
        out_of_memory();
    }
    return file;
}

}  // namespace gdn::layer
