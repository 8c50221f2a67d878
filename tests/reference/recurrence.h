// The one recurrence of the family, in double, token by token. No Halide, nothing of the runtime, no tricks.
//
//     P = Diag(alpha) S      r = u - P^T e      S <- P + a r^T      o = scale S^T q
//
// which is S <- (I - a e^T) Diag(alpha) S + a u^T: decay first, then erase and write, then read.
#pragma once

#include <cstddef>
#include <vector>

namespace gdn_reference {

// One token of one value head, everything a variant has to say about it.
struct Token {
    std::vector<double> q, a, e, alpha;  // [K]
    std::vector<double> u;               // [V]

    Token(std::size_t K, std::size_t V) : q(K), a(K), e(K), alpha(K), u(V) {}
};

// S is [K][V] with V innermost; o is [V].
inline void recur(const Token &x, double scale, double *S, double *o) {
    const std::size_t K = x.a.size(), V = x.u.size();
    std::vector<double> r(x.u);
    for (std::size_t c = 0; c < K; c++) {
        double *P = S + c * V;
        const double alpha = x.alpha[c], e = x.e[c];
        for (std::size_t d = 0; d < V; d++) {
            P[d] *= alpha;
            r[d] -= P[d] * e;
        }
    }
    for (std::size_t d = 0; d < V; d++) o[d] = 0;
    for (std::size_t c = 0; c < K; c++) {
        double *row = S + c * V;
        const double a = x.a[c], q = x.q[c];
        for (std::size_t d = 0; d < V; d++) {
            row[d] += a * r[d];
            o[d] += row[d] * q;
        }
    }
    for (std::size_t d = 0; d < V; d++) o[d] *= scale;
}

}  // namespace gdn_reference
