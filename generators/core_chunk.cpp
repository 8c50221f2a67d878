// One chunk of C tokens of one head, float32: the WY form of method note 2.1 over rows q (times scale), a, e, u, alpha.
//
//   T[r,s]    = <e_r, D_rs a_s>, s < r        A_qk[r,s] = <q_r, D_rs a_s>, s <= r       D_rs = decay between s and r
//   (I + T) R = U - (gamma e) S0              O = (gamma q) S0 + A_qk R                 S1 = gamma_C S0 + (a to the end)^T R
//
// core_block wants the state after every token instead of S1 alone; R gives it without another read of S0:
//   S_t = Diag(alpha_t) S_{t-1} + a_t r_t^T
//
// No variant and no dtype is known here; both were dealt with when the rows were staged.
//
// A product that is rounded before it is used is strict_float: left free, LLVM multiplies or fuses it in another order in a kernel of fixed size than in one
// of any size, and a slice of V, which may run on either, would differ from the whole in the last bit.
#include "core_chunk.h"

#include "../schedules/schedules.h"
#include "stages/decay.h"

using namespace Halide;

namespace gdn {
namespace {

// Two float32 as bfloat16, rounded to nearest even, `low` in the lower half of a 32-bit lane.
Expr pack_bf16(const Expr &low, const Expr &high) {
    auto rounded = [](const Expr &x) -> Expr {
        Expr u = reinterpret<uint32_t>(x);
        return u + 0x7fff + ((u >> 16) & 1);
    };
    return (rounded(low) >> 16) | (rounded(high) & ~cast<uint32_t>(0xffff));
}

// sum + both products of two packed pairs: one vdpbf16ps per vector, by the name under which Halide's x86 backend has it.
Expr dot_bf16(const Expr &sum, const Expr &x, const Expr &y) {
    return Internal::Call::make(Float(32), "dpbf16ps", {sum, x, y}, Internal::Call::PureExtern);
}

template <class Self, bool kSnapshots>
class ChunkGenerator : public Generator<Self> {
    template <class T>
    using Input = typename Generator<Self>::template Input<T>;
    template <class T>
    using Output = typename Generator<Self>::template Output<T>;

public:
    GeneratorParam<std::string> core{"core", "channel_tied"}, size{"size", "128x128"}, precision{"precision", "f32"};
    GeneratorParam<std::string> schedule_name{"schedule", "x86_avx512"}, config_text{"config", ""};

    Input<Buffer<float, 2>> q{"q"}, a{"a"};            // (c, r)
    Input<Buffer<float, 2>> alpha{"alpha"};            // (c, r), or (0, r) when scalar
    Input<Buffer<float, 3>> u{"u"};                    // (jl, p, r)
    Input<Buffer<float, 2>> e{"e"};                    // (c, r), or beta as (0, r) when tied
    Input<Buffer<float, 3>> s0{"S0"};                  // (jl, c, p)
    Input<Buffer<uint64_t, 1>> next{"next"};           // addresses of rows that the caller will want soon
    Output<Buffer<float, 3>> o{"o"};                   // (jl, p, r)
    Output<Buffer<float, kSnapshots ? 4 : 3>> s1{"S1"};  // (jl, c, p); core_block: (jl, c, p, t), as many tokens as its extent says

    void generate() {
        const Core kind = core_of(core);
        st.size = Size(size);
        machine = machine_of(this->get_target(), schedule_name);
        st.low = precision.value() == "low";
        st.snapshots = kSnapshots;
        _halide_user_assert(!st.low || this->get_target().has_feature(Target::AVX512_Zen4)) << "low precision needs a target with vdpbf16ps\n";
        config = core_chunk_space(machine, st.size, st.low, st.snapshots).parse(config_text);
        const int C = st.chunk = config["chunk"];
        const int panel = st.panel = config["panel"];
        st.scalar_decay = kind == Core::ScalarTied;
        const Expr K = key_channels(st.size, s0.dim(1).extent());
        const Expr panels = st.size.v ? Expr(st.size.v / panel) : o.dim(1).extent();
        const Var c = st.c, r = st.r, s = st.s, i = st.i, b = st.b, m = st.m, jl = st.jl, p = st.p;

        auto erase = [&](const Expr &c, const Expr &r) -> Expr { return kind == Core::ChannelOwn ? e(c, r) : strict_float(e(0, r) * a(c, r)); };

        // Decay products.
        DecayTree tree;
        if (st.scalar_decay) {
            st.alpha = Func("alpha_row");
            st.alpha(r) = alpha(0, r);
            st.between = decay_table(st.alpha, C, s, r);
            while ((1 << tree.levels) < C) tree.levels++;
        } else {
            st.alpha = Func("alpha_rows");
            st.alpha(c, r) = alpha(c, r);
            tree = decay_tree(st.alpha, C, c, r);
        }
        auto gamma = [&](const Expr &c, const Expr &r) -> Expr {
            return st.scalar_decay ? strict_float(st.alpha(0) * st.between(0, r)) : tree.pre[tree.levels](c, r);
        };
        auto tail = [&](const Expr &c, const Expr &s) -> Expr {
            return st.scalar_decay ? st.between(s, C - 1) : tree.suf[tree.levels](c, s);
        };

        st.read = Func("read");
        st.read(c, m) = strict_float(gamma(c, m % C) * select(m < C, erase(c, m % C), q(c, m % C)));
        st.write = Func("write");
        st.write(c, s) = strict_float(a(c, s) * tail(c, s));
        st.last = Func("last");
        if (st.scalar_decay) {
            st.last() = gamma(0, C - 1);
        } else {
            st.last(c) = gamma(c, C - 1);
        }

        // T and A_qk, level by level of the decay tree.
        st.mix = Func("mix");
        st.mix(s, m) = 0.0f;
        for (int lev = -1; lev < tree.levels; lev++) {
            PairLevel L;
            L.diagonal = lev < 0;
            L.half = L.diagonal ? 1 : 1 << lev;
            L.blocks = L.diagonal ? C : C / (2 * L.half);
            const std::string id = L.diagonal ? "_diagonal" : std::to_string(lev);
            L.left = Func("left" + id);
            L.right = Func("right" + id);
            L.dot = Func("dot" + id);
            if (L.diagonal) {
                L.left(c, s, b) = a(c, b);
                L.right(c, i, b) = q(c, b);
            } else {
                Expr token_s = 2 * b * L.half + s, token_r = (2 * b + 1) * L.half + i % L.half;
                Expr to_boundary = st.scalar_decay || lev == 0 ? Expr(1.0f) : tree.suf[lev](c, token_s);
                Expr from_boundary = st.scalar_decay ? Expr(1.0f) : tree.pre[lev](c, token_r);
                L.left(c, s, b) = strict_float(a(c, token_s) * to_boundary);
                L.right(c, i, b) = strict_float(from_boundary * select(i < L.half, erase(c, token_r), q(c, token_r)));
            }
            auto product = [&](const Expr &c) { return L.left(c, s, b) * L.right(c, i, b); };
            L.products = lane_sum("dot" + id, product, {s, i, b}, K / machine.lanes, machine.lanes);
            L.dot(s, i, b) = L.products.total();
            if (L.diagonal) {
                RDom d(0, C, "d");
                st.mix(d, C + d) = L.dot(0, 0, d);
            } else {
                RDom d(0, L.half, 0, L.half, 0, 2, 0, L.blocks, "d" + id);
                Expr token_s = 2 * d.w * L.half + d.x, token_r = (2 * d.w + 1) * L.half + d.y;
                Expr value = L.dot(d.x, d.y + d.z * L.half, d.w);
                if (st.scalar_decay) value = strict_float(value * st.between(token_s, token_r));
                st.mix(token_s, d.z * C + token_r) = value;
            }
            st.levels.push_back(L);
        }

        // Lines of coming rows, fetched one by one from inside the loop that reads the state: `per_tile` of them for every tile. The
        // intrinsic's value is 0, so that LLVM drops the addition and keeps the fetch.
        const int lines = config["fetch_lines"], tile_rows = config["rows"], tile_cols = config["cols"];
        auto fetch = [&](const Expr &step, const Expr &tile, const Expr &per_tile) -> Expr {
            if (lines == 0) return 0;
            if (!st.line.defined()) {
                Expr address = next(s / lines + i * (per_tile / lines)) + cast<uint64_t>((s % lines) * 64);
                st.line = Func("line");
                st.line(s, i) = Internal::Call::make(Int(32), Internal::Call::prefetch, {reinterpret(Handle(), address), 0, 1, 1},
                                                     Internal::Call::Intrinsic);
            }
            return st.line(step, tile);
        };

        // State read: Y = (gamma e) S0 and (gamma q) S0 in one product of 2C rows.
        st.rk = RDom(0, K, "rk");
        st.prod = Func("prod");
        st.prod(jl, m, p) = 0.0f;
        Expr tile = m / tile_rows + (jl / tile_cols + p * (panel / tile_cols)) * (2 * C / tile_rows);
        if (st.low) {
            // bfloat16 products, float32 sums. Channel c is paired with channel c + K/2, so that packing needs no shuffle.
            st.rk = RDom(0, K / 2, "rk");
            st.read16 = Func("read16");
            st.read16(c, m) = pack_bf16(st.read(c, m), st.read(c + K / 2, m));
            st.state16 = Func("state16");
            st.state16(jl, c, p) = pack_bf16(s0(jl, c, p), s0(jl, c + K / 2, p));
            Expr fetched = cast<uint32_t>(fetch(st.rk, tile, K / 2));
            st.prod(jl, m, p) = dot_bf16(st.prod(jl, m, p), st.read16(st.rk, m), st.state16(jl, st.rk, p) + fetched);
        } else {
            st.prod(jl, m, p) += st.read(st.rk, m) * s0(jl, st.rk, p) + cast<float>(fetch(st.rk / 2, tile, K / 2));
        }
        st.y = Func("y");
        st.y(jl, m, p) = st.prod(jl, m, p);

        // Forward substitution, row by row (x = earlier token, y = token).
        st.rsub = RDom(0, C, 0, C, "rsub");
        st.rsub.where(st.rsub.x < st.rsub.y);
        st.solve = Func("solve");
        st.solve(jl, r, p) = u(jl, p, r) - st.y(jl, r, p);
        st.solve(jl, st.rsub.y, p) -= st.mix(st.rsub.x, st.rsub.y) * st.solve(jl, st.rsub.x, p);
        st.rows = Func("rows");
        st.rows(jl, r, p) = st.solve(jl, r, p);

        st.ro = RDom(0, C, "ro");
        st.ro.where(st.ro <= r);
        st.out = Func("out");
        st.out(jl, r, p) = st.y(jl, C + r, p);
        st.out(jl, r, p) += st.mix(st.ro, C + r) * st.rows(jl, st.ro, p);
        o(jl, p, r) = st.out(jl, r, p);

        // State write.
        if constexpr (kSnapshots) {
            st.rs = RDom(0, min(s1.dim(3).extent(), C), "rs");
            const Var t = st.s;
            s1(jl, c, p, t) = undef<float>();
            Expr before = select(st.rs == 0, s0(jl, c, p), s1(jl, c, p, max(st.rs - 1, 0)));
            Expr decay = st.scalar_decay ? st.alpha(st.rs) : st.alpha(c, st.rs);
            s1(jl, c, p, st.rs) = strict_float(decay * before) + a(c, st.rs) * st.rows(jl, st.rs, p);
        } else {
            st.rs = RDom(0, C, "rs");
            st.state = Func("state");
            st.state(jl, c, p) = strict_float((st.scalar_decay ? st.last() : st.last(c)) * s0(jl, c, p));
            if (st.low) {
                st.rs = RDom(0, C / 2, "rs");
                st.write16 = Func("write16");
                st.write16(c, s) = pack_bf16(st.write(c, s), st.write(c, s + C / 2));
                st.rows16 = Func("rows16");
                st.rows16(jl, r, p) = pack_bf16(st.rows(jl, r, p), st.rows(jl, r + C / 2, p));
                st.state(jl, c, p) = dot_bf16(st.state(jl, c, p), st.write16(c, st.rs), st.rows16(jl, st.rs, p));
            } else {
                st.state(jl, c, p) += st.write(c, st.rs) * st.rows(jl, st.rs, p);
            }
            s1(jl, c, p) = st.state(jl, c, p);
        }
        st.o = o;
        st.s1 = s1;

        set_shapes(K, panels);
    }

    void schedule() {
        if (this->using_autoscheduler()) {
            set_estimates();
            return;
        }
        apply_core_chunk(st, config, machine);
        require_all_read(config);
    }

private:
    // Rows are scratch of the library; the state and o are the caller's.
    void set_shapes(const Expr &K, const Expr &panels) {
        const int C = st.chunk, panel = st.panel;
        auto token_rows = [&](auto &x, const Expr &width) {
            x.dim(0).set_bounds(0, width);
            x.dim(1).set_bounds(0, C).set_stride(width);
            x.set_host_alignment(64);
        };
        token_rows(q, K);
        token_rows(a, K);
        token_rows(alpha, st.scalar_decay ? Expr(1) : K);
        token_rows(e, core_of(core) == Core::ChannelOwn ? K : Expr(1));
        u.dim(0).set_bounds(0, panel);
        u.dim(1).set_bounds(0, panels).set_stride(panel);
        u.dim(2).set_bounds(0, C).set_stride(panels * panel);
        u.set_host_alignment(64);
        o.dim(0).set_bounds(0, panel);
        if (st.size.v) {
            o.dim(1).set_bounds(0, panels).set_stride(panel);
        } else {
            o.dim(1).set_min(0).set_stride(panel);
        }
        o.dim(2).set_bounds(0, C);
        s0.dim(0).set_bounds(0, panel);
        if (st.size.k) {
            s0.dim(1).set_bounds(0, K);
        } else {
            s0.dim(1).set_min(0);
        }
        s0.dim(2).set_bounds(0, panels).set_stride(panel);
        s1.dim(0).set_bounds(0, panel);
        s1.dim(1).set_bounds(0, K);
        s1.dim(2).set_bounds(0, panels).set_stride(panel);
        next.dim(0).set_min(0);
    }

    // Sizes for Halide's autoschedulers (autotune/experiments/README.md).
    void set_estimates() {
        const int C = st.chunk, K = st.size.k, panel = st.panel, panels = st.size.v / panel;
        _halide_user_assert(K && panels) << "an autoscheduler needs a kernel of fixed size\n";
        q.set_estimates({{0, K}, {0, C}});
        a.set_estimates({{0, K}, {0, C}});
        alpha.set_estimates({{0, st.scalar_decay ? 1 : K}, {0, C}});
        u.set_estimates({{0, panel}, {0, panels}, {0, C}});
        e.set_estimates({{0, core_of(core) == Core::ChannelOwn ? K : 1}, {0, C}});
        s0.set_estimates({{0, panel}, {0, K}, {0, panels}});
        next.set_estimates({{0, 1}});
        o.set_estimates({{0, panel}, {0, panels}, {0, C}});
        if constexpr (kSnapshots) {
            s1.set_estimates({{0, panel}, {0, K}, {0, panels}, {0, C}});
        } else {
            s1.set_estimates({{0, panel}, {0, K}, {0, panels}});
        }
    }

    CoreChunkStages st;
    Machine machine;
    Config config;
};

class CoreChunk : public ChunkGenerator<CoreChunk, false> {};
class CoreBlock : public ChunkGenerator<CoreBlock, true> {};

}  // namespace
}  // namespace gdn

HALIDE_REGISTER_GENERATOR(gdn::CoreChunk, core_chunk)
HALIDE_REGISTER_GENERATOR(gdn::CoreBlock, core_block)
