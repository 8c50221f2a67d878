// The operator of gdn.h in double: sequences, heads, states. Tensors are plain float arrays that hold the already rounded inputs.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "delta_rule.h"
#include "fg2.h"
#include "fg2_plus.h"
#include "gdn.h"
#include "gdn2.h"
#include "gla.h"
#include "kda.h"
#include "raw.h"
#include "recurrence.h"
#include "units.h"

namespace gdn_reference {

// [B, T, heads, channels], contiguous; `heads` 0 means absent.
struct Array {
    std::vector<float> data;
    std::int64_t T = 0, heads = 0, channels = 0;

    bool present() const { return heads > 0; }
    const float *row(std::int64_t b, std::int64_t t, std::int64_t h) const { return data.data() + ((b * T + t) * heads + h) * channels; }
};

struct Operands {
    gdn_variant variant = GDN_VARIANT_GDN;
    gdn_decay decay = GDN_DECAY_LOG;
    gdn_gate gate = GDN_GATE_VALUE;
    gdn_head_map head_map = GDN_HEAD_MAP_DIVIDE;
    bool v_first = false, neg_eigval = false, l2norm = false;
    double scale = 0, lower_bound = -5;

    std::int64_t B = 0, T = 0, H = 0, HV = 0, K = 0, V = 0;
    Array q, k, v, g, beta, b, w, beta_k, beta_v;
    std::vector<float> A_log;                 // [g.heads]; empty: exp(A_log) = 1
    std::vector<float> dt_bias;               // [g.heads][g.channels]; empty: 0
    std::vector<float> initial_state;         // [slots or N][HV][K][V] (v_first: [V][K]); empty: zeros
    std::vector<std::int64_t> initial_slots;  // [N]; empty: sequence n reads n; -1: zeros
    std::vector<std::int64_t> cu_seqlens;     // [N + 1]; empty: B sequences of T tokens

    std::int64_t n_snapshots = 0;
    gdn_snapshot_kind snapshot_kind = GDN_SNAPSHOT_LAST_TOKENS;
    std::int64_t snapshot_interval = 64;

    std::int64_t sequences() const { return cu_seqlens.empty() ? B : static_cast<std::int64_t>(cu_seqlens.size()) - 1; }
    std::int64_t length(std::int64_t n) const { return cu_seqlens.empty() ? T : cu_seqlens[n + 1] - cu_seqlens[n]; }
};

struct Result {
    std::vector<double> o;                         // [B, T, HV, V]
    std::vector<std::vector<double>> final_state;  // [N] of [HV][K][V] (v_first: [HV][V][K])
    std::vector<std::vector<double>> snapshots;    // [N * n_snapshots] of the same; empty where none is due
};

inline void apply_variant(gdn_variant variant, const Raw &x, Token &y) {
    switch (variant) {
    case GDN_VARIANT_DELTA_RULE: return delta_rule(x, y);
    case GDN_VARIANT_GLA: return gla(x, y);
    case GDN_VARIANT_GDN: return gdn(x, y);
    case GDN_VARIANT_KDA: return kda(x, y);
    case GDN_VARIANT_GDN2: return gdn2(x, y);
    case GDN_VARIANT_FG2: return fg2(x, y);
    case GDN_VARIANT_FG2_PLUS: return fg2_plus(x, y);
    }
}

inline std::int64_t key_head(const Operands &x, std::int64_t hv) {
    return x.head_map == GDN_HEAD_MAP_DIVIDE ? hv / (x.HV / x.H) : hv % x.H;
}

// Row of a tensor whose heads may be key heads or value heads.
inline const float *head_row(const Operands &x, const Array &array, std::int64_t b, std::int64_t t, std::int64_t hv) {
    return array.row(b, t, array.heads == x.HV ? hv : key_head(x, hv));
}

inline void read_gate(
    const Operands &x, const Array &array, std::int64_t b, std::int64_t t, std::int64_t hv, bool twice, std::vector<double> &out) {
    if (!array.present()) return;
    const float *row = head_row(x, array, b, t, hv);
    out.resize(array.channels);
    for (std::int64_t c = 0; c < array.channels; c++) out[c] = gate(x.gate, row[c], twice);
}

inline void read_token(const Operands &x, std::int64_t b, std::int64_t t, std::int64_t hv, Raw &raw) {
    const std::int64_t h = key_head(x, hv);
    raw.q.assign(x.q.row(b, t, h), x.q.row(b, t, h) + x.K);
    raw.k.assign(x.k.row(b, t, h), x.k.row(b, t, h) + x.K);
    raw.v.assign(x.v.row(b, t, hv), x.v.row(b, t, hv) + x.V);
    if (x.l2norm) {
        l2norm(raw.q);
        l2norm(raw.k);
    }
    raw.alpha.assign(x.K, 1.0);
    if (x.g.present()) {
        const float *g = head_row(x, x.g, b, t, hv);
        const std::int64_t gh = x.g.heads == x.HV ? hv : h;
        const double A = x.A_log.empty() ? 1.0 : std::exp(static_cast<double>(x.A_log[gh]));
        for (std::int64_t c = 0; c < x.K; c++) {
            const std::int64_t gc = x.g.channels == 1 ? 0 : c;
            const double bias = x.dt_bias.empty() ? 0.0 : x.dt_bias[gh * x.g.channels + gc];
            raw.alpha[c] = gc == 0 && c > 0 ? raw.alpha[0] : decay(x.decay, g[gc], A, bias, x.lower_bound);
        }
    }
    read_gate(x, x.beta, b, t, hv, x.neg_eigval, raw.beta);
    read_gate(x, x.b, b, t, hv, x.neg_eigval, raw.b);
    read_gate(x, x.w, b, t, hv, false, raw.w);
    read_gate(x, x.beta_k, b, t, hv, false, raw.beta_k);
    read_gate(x, x.beta_v, b, t, hv, false, raw.beta_v);
}

// Copies one head's state between the K-first form of the recurrence and the asked layout.
inline void store_state(const Operands &x, const std::vector<double> &S, double *out) {
    for (std::int64_t c = 0; c < x.K; c++)
        for (std::int64_t d = 0; d < x.V; d++) out[x.v_first ? d * x.K + c : c * x.V + d] = S[c * x.V + d];
}

inline Result run(const Operands &x) {
    const std::int64_t N = x.sequences(), head_state = x.K * x.V;
    const double scale = x.scale != 0 ? x.scale : 1 / std::sqrt(static_cast<double>(x.K));
    Result y;
    y.o.assign(static_cast<std::size_t>(x.B * x.T * x.HV * x.V), std::numeric_limits<double>::quiet_NaN());
    y.final_state.assign(N, std::vector<double>(x.HV * head_state));
    y.snapshots.resize(N * x.n_snapshots);

    Raw raw;
    Token token(x.K, x.V);
    std::vector<double> S(head_state);
    for (std::int64_t n = 0; n < N; n++) {
        const std::int64_t b = x.cu_seqlens.empty() ? n : 0, first = x.cu_seqlens.empty() ? 0 : x.cu_seqlens[n], L = x.length(n);
        const std::int64_t slot = x.initial_slots.empty() ? n : x.initial_slots[n];
        for (std::int64_t hv = 0; hv < x.HV; hv++) {
            S.assign(head_state, 0.0);
            if (!x.initial_state.empty() && slot >= 0) {
                const float *from = x.initial_state.data() + (slot * x.HV + hv) * head_state;
                for (std::int64_t c = 0; c < x.K; c++)
                    for (std::int64_t d = 0; d < x.V; d++) S[c * x.V + d] = from[x.v_first ? d * x.K + c : c * x.V + d];
            }
            for (std::int64_t t = 0; t < L; t++) {
                read_token(x, b, first + t, hv, raw);
                apply_variant(x.variant, raw, token);
                recur(token, scale, S.data(), y.o.data() + ((b * x.T + first + t) * x.HV + hv) * x.V);

                for (std::int64_t j = 0; j < x.n_snapshots; j++) {
                    const bool due =
                        x.snapshot_kind == GDN_SNAPSHOT_LAST_TOKENS ? t == L - x.n_snapshots + j : t + 1 == (j + 1) * x.snapshot_interval;
                    if (!due) continue;
                    std::vector<double> &snapshot = y.snapshots[n * x.n_snapshots + j];
                    snapshot.resize(x.HV * head_state);
                    store_state(x, S, snapshot.data() + hv * head_state);
                }
            }
            store_state(x, S, y.final_state[n].data() + hv * head_state);
        }
    }
    return y;
}

}  // namespace gdn_reference
