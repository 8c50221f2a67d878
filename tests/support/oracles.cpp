#include "oracles.h"

#include <cmath>
#include <set>

#include "safetensors.h"

namespace gdn_test {
namespace {

using gdn_reference::Array;

Array array_of(const StoredTensor &tensor) {
    Array array;
    array.T = tensor.shape[1];
    array.heads = tensor.shape[2];
    array.channels = tensor.shape.size() > 3 ? tensor.shape[3] : 1;
    array.data = tensor.floats();
    return array;
}

void read_file(gdn_variant variant, std::vector<Oracle> &out) {
    const StoredTensors tensors =
        read_safetensors(std::string(GDN_TEST_DATA_DIR) + "/oracles/ops_" + variant_name(variant) + ".safetensors");
    std::set<std::string> cases;
    for (const auto &entry : tensors) cases.insert(entry.first.substr(0, entry.first.find('.')));
    for (const std::string &which : cases) {
        const auto get = [&](const char *tensor) { return tensors.at(which + "." + tensor); };
        const auto has = [&](const char *tensor) { return tensors.count(which + "." + tensor) > 0; };
        Oracle oracle;
        oracle.name = std::string(variant_name(variant)) + "_" + which;
        gdn_reference::Operands &x = oracle.operands;
        x.variant = variant;
        x.q = array_of(get("q"));
        x.k = array_of(get("k"));
        x.v = array_of(get("v"));
        x.g = array_of(get("g"));
        if (variant == GDN_VARIANT_GDN2) {
            x.b = array_of(get("b"));
            x.w = array_of(get("w"));
        } else {
            x.beta = array_of(get("beta"));
        }
        x.initial_state = get("S0").floats();
        if (has("scale")) x.scale = get("scale").values[0];
        if (has("cu_seqlens"))
            for (double offset : get("cu_seqlens").values) x.cu_seqlens.push_back(static_cast<std::int64_t>(offset));
        x.l2norm = which == "varlen";
        x.B = 1;
        x.T = x.q.T;
        x.H = x.q.heads;
        x.HV = x.v.heads;
        x.K = x.q.channels;
        x.V = x.v.channels;
        oracle.o = get("o").values;
        oracle.S = get("S").values;

        Case &c = oracle.what;
        c.variant = variant;
        c.l2norm = x.l2norm;
        c.neg_eigval = which == "neg_eig";
        c.K = x.K;
        c.V = x.V;
        c.H = x.H;
        c.HV = x.HV;
        c.packed = !x.cu_seqlens.empty();
        c.lengths.clear();
        for (std::int64_t n = 0; n < x.sequences(); n++) c.lengths.push_back(x.length(n));
        c.scale = x.scale;
        c.gates_per_value_head = x.HV != x.H && x.g.heads == x.HV;
        out.push_back(std::move(oracle));
    }
}

// FG2 with the same beta in every channel is KDA.
Oracle fg2_from_kda(Oracle oracle) {
    oracle.name = "fg2_from_" + oracle.name;
    oracle.what.variant = oracle.operands.variant = GDN_VARIANT_FG2;
    Array &beta = oracle.operands.beta;
    std::vector<float> wide;
    for (float value : beta.data) wide.insert(wide.end(), static_cast<std::size_t>(oracle.operands.K), value);
    beta.channels = oracle.operands.K;
    beta.data = std::move(wide);
    return oracle;
}

// The same for FG2+ with one beta for keys and values; here K and V may differ.
Oracle fg2_plus_from_kda(Oracle oracle) {
    oracle.name = "fg2_plus_from_" + oracle.name;
    gdn_reference::Operands &x = oracle.operands;
    oracle.what.variant = x.variant = GDN_VARIANT_FG2_PLUS;
    x.beta_k = x.beta_v = x.beta;
    x.beta = Array();
    const auto widen = [](Array &array, std::int64_t channels) {
        std::vector<float> wide;
        for (float value : array.data) wide.insert(wide.end(), static_cast<std::size_t>(channels), value);
        array.channels = channels;
        array.data = std::move(wide);
    };
    widen(x.beta_k, x.K);
    widen(x.beta_v, x.V);
    return oracle;
}

std::vector<Oracle> all() {
    std::vector<Oracle> list;
    for (gdn_variant variant : {GDN_VARIANT_GDN, GDN_VARIANT_KDA, GDN_VARIANT_GDN2}) read_file(variant, list);
    const std::size_t files = list.size();
    for (std::size_t i = 0; i < files; i++) {
        const Oracle &oracle = list[i];
        if (oracle.what.variant != GDN_VARIANT_KDA || oracle.what.neg_eigval) continue;  // sqrt of a beta above 1 is not FG2
        Oracle plus = fg2_plus_from_kda(oracle);
        if (oracle.what.K == oracle.what.V) list.push_back(fg2_from_kda(list[i]));
        list.push_back(std::move(plus));
    }
    return list;
}

}  // namespace

const std::vector<Oracle> &oracles() {
    static const std::vector<Oracle> list = all();
    return list;
}

}  // namespace gdn_test
