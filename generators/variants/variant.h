// A variant is a map from (k, v, gates) to (a, e, u, alpha) of the operator S = (I - a e^T) Diag(alpha) S + a u^T (method note 6.1),
// nothing else.
#pragma once
#include <Halide.h>

#include <functional>
#include <string>

namespace gdn {

using Row = std::function<Halide::Expr(const Halide::Expr &channel)>;

// A gate in [0, 1]. Its root is asked for apart, so that logits give sqrt(sigmoid(x)) in one function.
struct Gate {
    Row value, root;
};

// One token of one head. Rows that belong to the whole head ignore their channel.
struct VariantInput {
    Row k, v, alpha;
    Gate b, w;
};

struct VariantRows {
    Row a, u, alpha;
    Row e;     // an own e row; undefined when tied
    Row beta;  // tied: e = beta a, one beta per token
};

struct Variant {
    std::string name;
    bool scalar_decay;  // one alpha per token
    bool scalar_b;      // b is one beta per token
    bool has_w;         // w per value channel
    bool own_e;
    VariantRows (*rows)(const VariantInput &);
};

Variant gdn_variant();
Variant kda_variant();
Variant gdn2_variant();
Variant fg2_plus_variant();

Variant variant_of(const std::string &name);

}  // namespace gdn
