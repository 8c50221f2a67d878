// A layer in double, token by token, one sequence at a time: projections, convolution, gates, recurrence, gated norm, output projection.
//
//     x = silu(conv(W_x h)), q and k to length 1, the variant's map, the recurrence, o / rms(o) * weight * act(z), W_o
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "gdn/layer.hpp"
#include "operator.h"
#include "raw.h"
#include "recurrence.h"
#include "units.h"

namespace gdn_reference {

class Layer {
public:
    using Row = std::vector<double>;

    /// What a sequence leaves behind.
    struct State {
        std::vector<double> S;    // [HV, K, V]
        std::deque<Row> past[3];  // of q, k, v: the last W - 1 projections, oldest first; fewer at the beginning
    };
    /// Rows between the parts of one token.
    struct Stages {
        Row q, k, v, g, beta, b, w, o;
    };

    Layer(gdn::layer::Config config, gdn::layer::StateDict weights) : config_(std::move(config)), weights_(std::move(weights)) {}

    State start() const {
        State state;
        state.S.assign(static_cast<std::size_t>(HV() * K() * V()), 0.0);
        return state;
    }

    /// h [T, d] -> y [T, d]. `stages` receives one entry a token.
    std::vector<double> forward(const float *h, std::int64_t T, State &state, std::vector<Stages> *stages = nullptr) const {
        std::vector<double> y;
        for (std::int64_t t = 0; t < T; t++) {
            Stages between;
            const Row row = token(Row(h + t * config_.hidden_size, h + (t + 1) * config_.hidden_size), state, between);
            y.insert(y.end(), row.begin(), row.end());
            if (stages) stages->push_back(std::move(between));
        }
        return y;
    }

private:
    std::int64_t H() const { return config_.num_heads; }
    std::int64_t HV() const { return config_.num_v_heads.value_or(config_.num_heads); }
    std::int64_t K() const { return config_.head_dim; }
    std::int64_t V() const { return std::llround(static_cast<double>(config_.head_dim) * config_.expand_v); }

    bool has(const std::string &name) const { return weights_.count(name) > 0; }
    const std::vector<float> &at(const std::string &name) const { return weights_.at(name).data; }

    Row linear(const std::string &name, const Row &x) const {
        const std::vector<float> &w = at(name);
        Row y(w.size() / x.size(), 0.0);
        for (std::size_t o = 0; o < y.size(); o++)
            for (std::size_t i = 0; i < x.size(); i++) y[o] += static_cast<double>(w[o * x.size() + i]) * x[i];
        return y;
    }

    Row conv_silu(const char *part, Row x, std::deque<Row> &past) const {
        Row y = x;
        if (config_.use_short_conv) {
            const auto W = static_cast<std::size_t>(config_.conv_size);
            const std::vector<float> &taps = at(std::string(part) + "_conv1d.weight");
            past.push_back(std::move(x));
            for (std::size_t c = 0; c < y.size(); c++) {
                y[c] = config_.conv_bias ? at(std::string(part) + "_conv1d.bias")[c] : 0.0;
                for (std::size_t i = 0; i < past.size(); i++) y[c] += static_cast<double>(taps[c * W + W - past.size() + i]) * past[i][c];
            }
            if (past.size() == W) past.pop_front();
        }
        for (double &value : y) value *= sigmoid(value);
        return y;
    }

    static Row part(const Row &row, std::int64_t index, std::int64_t size) {
        return Row(row.begin() + index * size, row.begin() + (index + 1) * size);
    }

    static Row gates(Row row, bool twice = false) {
        for (double &value : row) value = (twice ? 2 : 1) * sigmoid(value);
        return row;
    }

    double log_decay(double logit, std::size_t head, std::size_t channel) const {
        const double A = std::exp(static_cast<double>(at("A_log")[head])), x = logit + at("dt_bias")[channel];
        return config_.decay == gdn::layer::DecayGate::kSoftplus ? -A * softplus(x) : config_.lower_bound * sigmoid(A * x);
    }

    Row token(const Row &h, State &state, Stages &x) const {
        using gdn::layer::Kind;
        const Kind kind = config_.kind;
        x.q = conv_silu("q", linear("q_proj.weight", h), state.past[0]);
        x.k = conv_silu("k", linear("k_proj.weight", h), state.past[1]);
        x.v = conv_silu("v", linear("v_proj.weight", h), state.past[2]);

        x.g = kind == Kind::kGdn ? linear("a_proj.weight", h) : linear("f_proj.1.weight", linear("f_proj.0.weight", h));
        const std::size_t decay_channels = x.g.size() / at("A_log").size();
        for (std::size_t c = 0; c < x.g.size(); c++) x.g[c] = log_decay(x.g[c], c / decay_channels, c);

        const Row first = gates(linear("b_proj.weight", h), config_.allow_neg_eigval);
        if (kind == Kind::kGdn || kind == Kind::kKda || kind == Kind::kFg2) {
            x.beta = first;
        } else {
            x.b = first;
            x.w = gates(linear("w_proj.weight", h));
        }
        Row z;
        if (has("g_proj.weight")) z = linear("g_proj.weight", h);
        if (has("g_proj.1.weight")) z = linear("g_proj.1.weight", linear("g_proj.0.weight", h));
        if (has("g_proj.1.bias"))
            for (std::size_t c = 0; c < z.size(); c++) z[c] += at("g_proj.1.bias")[c];

        Row normed;
        for (std::int64_t hv = 0; hv < HV(); hv++) {
            const std::int64_t key = hv / (HV() / H());
            Raw raw;
            raw.q = part(x.q, key, K()), raw.k = part(x.k, key, K()), raw.v = part(x.v, hv, V());
            l2norm(raw.q);
            l2norm(raw.k);
            gdn_variant variant = GDN_VARIANT_GDN;
            switch (kind) {
            case Kind::kGdn:
                raw.alpha.assign(static_cast<std::size_t>(K()), x.g[static_cast<std::size_t>(hv)]);
                raw.beta = part(x.beta, hv, 1);
                break;
            case Kind::kKda:
                variant = GDN_VARIANT_KDA;
                raw.alpha = part(x.g, hv, K());
                raw.beta = part(x.beta, hv, 1);
                break;
            case Kind::kGdn2:
                variant = GDN_VARIANT_GDN2;
                raw.alpha = part(x.g, key, K());
                raw.b = part(x.b, key, K()), raw.w = part(x.w, hv, V());
                break;
            case Kind::kFg2:
                variant = GDN_VARIANT_FG2;
                raw.alpha = part(x.g, key, K());
                raw.beta = part(x.beta, key, K());
                break;
            case Kind::kFg2Plus:
                variant = GDN_VARIANT_FG2_PLUS;
                raw.alpha = part(x.g, key, K());
                raw.beta_k = part(x.b, key, K()), raw.beta_v = part(x.w, hv, V());
                break;
            }
            for (double &value : raw.alpha) value = std::exp(value);
            Token token(static_cast<std::size_t>(K()), static_cast<std::size_t>(V()));
            apply_variant(variant, raw, token);
            Row o(static_cast<std::size_t>(V()));
            recur(token, 1 / std::sqrt(static_cast<double>(K())), state.S.data() + hv * K() * V(), o.data());
            x.o.insert(x.o.end(), o.begin(), o.end());

            double squares = 0;
            for (double value : o) squares += value * value;
            const double scale = 1 / std::sqrt(squares / static_cast<double>(V()) + config_.norm_eps);
            for (std::size_t d = 0; d < o.size(); d++) {
                const double logit = z.empty() ? 0 : z[static_cast<std::size_t>(hv * V()) + d];
                const double gate = z.empty() ? 1 : sigmoid(logit) * (config_.output_gate == gdn::layer::OutputGate::kSilu ? logit : 1);
                normed.push_back(o[d] * scale * at("o_norm.weight")[d] * gate);
            }
        }
        return linear("o_proj.weight", normed);
    }

    gdn::layer::Config config_;
    gdn::layer::StateDict weights_;
};

}  // namespace gdn_reference
