// Calls of the operator: cores through gdn_forward and gdn_step, as users meet them; stages by themselves, as the scan calls them.
#include <functional>

#include "autotune/worker/failure.h"
#include "autotune/worker/problem.h"
#include "calls.h"
#include "context.h"
#include "tests/reference/operator.h"
#include "tests/support/metric.h"

namespace gdn::tune {

namespace {

/// What the kernel's parameters mean for the call.
struct Kind {
    gdn_variant variant = GDN_VARIANT_KDA;
    gdn_decay decay = GDN_DECAY_LOG;
    gdn_gate gate = GDN_GATE_VALUE;
    gdn_precision precision = GDN_PRECISION_F32;
    gdn_dtype dtype = GDN_DTYPE_F32;
    bool l2norm = false, v_first = false, steps = false, pending = false, block = false;
};

Kind kind_of(const Job &job) {
    Kind kind;
    const std::string core = job.param("core"), variant = job.param("variant"), form = job.param("form");
    kind.variant = core == "scalar_tied" || variant == "gdn"    ? GDN_VARIANT_GDN
                   : core == "channel_own" || variant == "gdn2" ? GDN_VARIANT_GDN2
                   : variant == "fg2_plus"                      ? GDN_VARIANT_FG2_PLUS
                                                                : GDN_VARIANT_KDA;
    kind.precision = job.param("precision") == "low" ? GDN_PRECISION_LOW : GDN_PRECISION_F32;
    kind.dtype = dtype_of(job.param("dtype"));
    kind.l2norm = form == "norm" || form == "logits";
    if (form == "linear") kind.decay = GDN_DECAY_LINEAR;
    if (form == "logits") {
        kind.decay = GDN_DECAY_SOFTPLUS;
        kind.gate = GDN_GATE_LOGIT;
    }
    kind.v_first = job.param("layout") == "vfirst";
    kind.steps = decodes(job.family);
    kind.pending = job.family == "core_pending";
    kind.block = job.family == "core_block";
    return kind;
}

gdn_reference::Array array_of(const Tensor &tensor) {
    gdn_reference::Array array;
    if (!tensor.present()) return array;
    const gdn_tensor view = tensor.view();
    array.data = tensor.values();
    array.T = view.shape[1];
    array.heads = view.shape[2];
    array.channels = view.ndim > 3 ? view.shape[3] : 1;
    return array;
}

class OperatorProblem : public Problem {
public:
    OperatorProblem(const Job &job, const Shape &shape, bool small) : kind_(kind_of(job)), shape_(shape) {
        if (small) {
            const KernelSize size = size_of(job.params);
            shape_ = Shape();
            shape_.K = size.k ? size.k : 48;
            shape_.V = size.v ? size.v : size.unit > 16 ? 3 * size.unit : 80;
            shape_.T = kind_.block ? 7 : 21;
            shape_.H = 3;
        }
        if (kind_.precision == GDN_PRECISION_LOW) {  // below 64 channels the call is refused the kernel
            shape_.K = std::max<int64_t>(shape_.K, 64);
            shape_.V = std::max<int64_t>(shape_.V, 64);
        }
        if (kind_.steps) shape_.T = kDecodedTokens;
        key_heads_ = small ? 1 : shape_.H;
        snapshots_count_ = kind_.block ? (small ? 5 : shape_.T) : 0;
        allocate(small);
        draw();
    }

    std::string key() const override {
        return "operator 1, variant " + std::to_string(kind_.variant) + ", decay " + std::to_string(kind_.decay) + ", dtype " +
               gdn_test::dtype_name(kind_.dtype) + (kind_.l2norm ? ", l2norm" : "") + (kind_.v_first ? ", v-first" : "") + ", snapshots " +
               std::to_string(snapshots_count_) + ", key heads " + std::to_string(key_heads_) + ", B=" + std::to_string(shape_.B) +
               ",T=" + std::to_string(shape_.T) + ",H=" + std::to_string(shape_.H) + ",K=" + std::to_string(shape_.K) +
               ",V=" + std::to_string(shape_.V);
    }

    std::vector<double> reference() const override {
        gdn_reference::Operands x;
        x.variant = kind_.variant;
        x.decay = kind_.decay;
        x.gate = kind_.gate;
        x.l2norm = kind_.l2norm;
        x.v_first = kind_.v_first;
        x.B = shape_.B;
        x.T = shape_.T;
        x.H = key_heads_;
        x.HV = shape_.H;
        x.K = shape_.K;
        x.V = shape_.V;
        x.n_snapshots = snapshots_count_;
        x.q = array_of(q_);
        x.k = array_of(k_);
        x.v = array_of(v_);
        x.g = array_of(g_);
        x.beta = array_of(beta_);
        x.b = array_of(b_);
        x.w = array_of(w_);
        x.beta_k = array_of(beta_k_);
        x.beta_v = array_of(beta_v_);
        x.A_log = A_log_.values();
        x.dt_bias = dt_bias_.values();
        x.initial_state = initial_.values();
        const gdn_reference::Result y = gdn_reference::run(x);
        std::vector<double> all = y.o;
        for (const auto &state : y.final_state) all.insert(all.end(), state.begin(), state.end());
        for (const auto &state : y.snapshots) all.insert(all.end(), state.begin(), state.end());
        return all;
    }

    void use(const LoadedKernel &kernel) override {
        kernel_ =
            std::make_unique<LoadedKernel::Context>(kernel, shape_.threads, static_cast<int32_t>(shape_.K), static_cast<int32_t>(shape_.V));
        gdn_args &args = args_ = gdn_args();
        gdn_args_init(&args);
        args.variant = kind_.variant;
        args.decay = kind_.decay;
        args.gate = kind_.gate;
        args.precision = kind_.precision;
        args.qk_l2norm = kind_.l2norm;
        args.state_layout = kind_.v_first ? GDN_STATE_V_FIRST : GDN_STATE_K_FIRST;
        args.q = q_.view();
        args.k = k_.view();
        args.v = v_.view();
        args.g = g_.view();
        args.beta = beta_.view();
        args.b = b_.view();
        args.w = w_.view();
        args.beta_k = beta_k_.view();
        args.beta_v = beta_v_.view();
        args.A_log = A_log_.view();
        args.dt_bias = dt_bias_.view();
        args.o = o_.view();
        args.initial_state = initial_.view();
        args.final_state = final_.view();
        args.snapshots = snapshots_.view();
        size_t bytes = 0;
        const gdn_args one = kind_.steps ? token(0) : args;
        if (gdn_workspace_size(kernel_->get(), &one, &bytes) != GDN_STATUS_OK) throw refused();
        workspace_ = gdn_test::GuardedBuffer(bytes, gdn_test::Guard::kEnd, 64);
    }

    void run() override {
        for (Tensor *output : {&o_, &final_, &snapshots_, &pending_}) {
            if (output->present()) output->poison();
        }
        kernel_->watch();
        const gdn_status status = kind_.steps ? steps() : gdn_forward(kernel_->get(), &args_, workspace_.data(), workspace_.bytes());
        const bool called = kernel_->called();
        check(status);
        if (!called) throw Failure(Status::kLaunchFailed, "calls of this kind do not go through this kernel (" + key() + ")");
    }

    std::vector<Output> outputs() const override {
        const bool low = kind_.precision == GDN_PRECISION_LOW;
        const double state = low ? gdn_test::kBound16 : gdn_test::kBoundF32;
        std::vector<Output> list = {
            {"o", "head", &o_, shape_.V, shape_.H, kind_.dtype == GDN_DTYPE_F32 && !low ? gdn_test::kBoundF32 : gdn_test::kBound16},
            {"the final state", "head", &final_, shape_.K * shape_.V, shape_.H, state}};
        if (snapshots_.present()) list.push_back({"the snapshots", "head", &snapshots_, shape_.K * shape_.V, shape_.H, state});
        return list;
    }

    std::string written_beside() const override {
        const std::string output = Problem::written_beside();
        if (!output.empty()) return output;
        return !pending_.slack_untouched() ? "the pending write" : !workspace_.slack_untouched() ? "the workspace" : "";
    }

    void call() override {
        if (!kind_.steps) {
            check(gdn_forward(kernel_->get(), &args_, workspace_.data(), workspace_.bytes()));
            return;
        }
        if (!states_.begun()) begin_decoding();
        step_args_.initial_state.data = step_args_.final_state.data = states_.next();
        check(gdn_step(kernel_->get(), &step_args_, workspace_.data(), workspace_.bytes()));
    }

protected:
    void check(gdn_status status) const {
        if (status != GDN_STATUS_OK) throw refused();
    }
    static Failure refused() { return {Status::kLaunchFailed, std::string("the call failed: ") + gdn_last_error()}; }

    const Kind kind_;
    Shape shape_;
    gdn_args args_;
    std::unique_ptr<LoadedKernel::Context> kernel_;
    gdn_test::GuardedBuffer workspace_;

private:
    void allocate(bool small) {
        const int64_t B = shape_.B, T = shape_.T, HV = shape_.H, H = key_heads_, K = shape_.K, V = shape_.V;
        const bool scalar = kind_.variant == GDN_VARIANT_GDN, logits = kind_.decay == GDN_DECAY_SOFTPLUS;
        const auto tensor = [small](gdn_dtype dtype, std::vector<int64_t> shape) { return Tensor(dtype, std::move(shape), small); };
        const std::vector<int64_t> keys = {B, T, H, K}, values = {B, T, HV, V};
        q_ = tensor(kind_.dtype, keys);
        k_ = tensor(kind_.dtype, keys);
        v_ = tensor(kind_.dtype, values);
        g_ = tensor(logits ? kind_.dtype : GDN_DTYPE_F32, scalar ? std::vector<int64_t>{B, T, H} : keys);
        if (kind_.variant == GDN_VARIANT_GDN2) {
            b_ = tensor(kind_.dtype, keys);
            w_ = tensor(kind_.dtype, values);
        } else if (kind_.variant == GDN_VARIANT_FG2_PLUS) {
            beta_k_ = tensor(kind_.dtype, keys);
            beta_v_ = tensor(kind_.dtype, values);
        } else {
            beta_ = tensor(kind_.dtype, {B, T, H});
        }
        if (logits) {
            A_log_ = tensor(GDN_DTYPE_F32, {H});
            dt_bias_ = tensor(GDN_DTYPE_F32, scalar ? std::vector<int64_t>{H} : std::vector<int64_t>{H, K});
        }
        const int64_t rows = kind_.v_first ? V : K, columns = kind_.v_first ? K : V;
        o_ = tensor(kind_.dtype, values);
        initial_ = tensor(GDN_DTYPE_F32, {B, HV, rows, columns});
        final_ = tensor(GDN_DTYPE_F32, {B, HV, rows, columns});
        if (snapshots_count_) snapshots_ = tensor(GDN_DTYPE_F32, {B, snapshots_count_, HV, rows, columns});
        if (kind_.pending) pending_ = tensor(GDN_DTYPE_F32, {B, HV, 2 * K + V});
    }

    void draw() {
        Random random(kSeed);
        const auto between = [&random](double low, double high) { return tune::between(&random, low, high); };
        const bool logits = kind_.decay == GDN_DECAY_SOFTPLUS;
        for (Tensor *rows : {&q_, &k_})
            rows->fill_rows(
                between(-1, 1), kind_.l2norm ? std::function<double()>(between(0.3, 3)) : [] { return 1.0; });
        v_.fill(between(-1.7, 1.7));
        g_.fill(logits ? between(-4, 4) : kind_.decay == GDN_DECAY_LINEAR ? between(0.3, 0.95) : between(-1, -0.05));
        for (Tensor *gate : {&beta_, &b_, &w_, &beta_k_, &beta_v_}) gate->fill(logits ? between(-4, 4) : between(0, 1));
        A_log_.fill(between(0, 2.7));
        dt_bias_.fill(between(-6, -2));
        initial_.fill(between(-1, 1));
        for (Tensor *input : {&q_, &k_, &v_, &g_, &beta_, &b_, &w_, &beta_k_, &beta_v_, &A_log_, &dt_bias_, &initial_}) {
            if (input->present()) input->make_read_only();
        }
    }

    /// The call of token t alone, `count` tokens from there.
    gdn_args token(int64_t t, int64_t count = 1) const {
        gdn_args args = args_;
        for (gdn_tensor *tensor : {&args.q, &args.k, &args.v, &args.g, &args.beta, &args.b, &args.w, &args.beta_k, &args.beta_v, &args.o}) {
            if (!tensor->data) continue;
            tensor->data =
                static_cast<char *>(tensor->data) + t * tensor->strides[1] * static_cast<int64_t>(gdn_test::dtype_bytes(tensor->dtype));
            tensor->shape[1] = count;
        }
        if (kind_.pending) args.final_pending = pending_.view();
        return args;
    }

    /// The tokens one at a time; in the end no write is pending, since the reference has none.
    gdn_status steps() {
        const auto after = [this](gdn_args args) {
            args.initial_state = args.final_state;
            args.initial_pending = args.final_pending;
            return args;
        };
        for (int64_t t = 0; t < shape_.T; t++) {
            const gdn_args args = t ? after(token(t)) : token(t);
            const gdn_status status = gdn_step(kernel_->get(), &args, workspace_.data(), workspace_.bytes());
            if (status != GDN_STATUS_OK) return status;
        }
        if (!kind_.pending) return GDN_STATUS_OK;
        gdn_args settle = after(token(0, 0));
        settle.final_pending = gdn_tensor();
        return gdn_forward(kernel_->get(), &settle, workspace_.data(), workspace_.bytes());
    }

    void begin_decoding() {
        step_args_ = token(0);
        if (kind_.pending) step_args_.initial_pending = step_args_.final_pending;
        states_.begin(initial_, shape_.cold);
        if (kind_.pending) {  // from the first timed call on there is a write to apply
            gdn_args first = token(0);
            first.final_state.data = states_.first();
            check(gdn_step(kernel_->get(), &first, workspace_.data(), workspace_.bytes()));
        }
    }

    int64_t key_heads_, snapshots_count_;
    Tensor q_, k_, v_, g_, beta_, b_, w_, beta_k_, beta_v_, A_log_, dt_bias_, initial_, o_, final_, snapshots_, pending_;

    States states_;
    gdn_args step_args_;
};

/// Verified in whole calls, timed by itself: chunk by chunk in the scan's order, rows into the same scratch.
class StageProblem : public OperatorProblem {
public:
    using OperatorProblem::OperatorProblem;

    void use(const LoadedKernel &kernel) override {
        OperatorProblem::use(kernel);
        const Dispatch &dispatch = *kernel_->get()->dispatch.load();
        check(make_plan(dispatch, &args_, Entry::kForward, &plan_));
        arena_ = arena_of(plan_);
        division_ = divide(plan_, dispatch, 1);
        calls_ = std::make_unique<Calls>(plan_, division_, arena_, reinterpret_cast<char *>(workspace_.data()));
        for (int s = 0; s < kSources; s++) {
            group_.data[s] = reinterpret_cast<const char *>(workspace_.data());
            group_.stride[s] = plan_.source[s].data ? plan_.source[s].token_elements : 0;
        }
        group_.A_log = group_.dt_bias = group_.data[0];
        group_.A_log_stride = group_.dt_bias_stride = 0;
    }

    void call() override {
        each_chunk(shape_, [this](int64_t n, int32_t hv, int64_t t, int32_t count) { chunk(n, hv, t, count); });
        if (calls_->failed()) throw Failure(Status::kLaunchFailed, std::string("the kernel failed: ") + calls_->failed_text());
    }

private:
    void chunk(int64_t n, int32_t hv, int64_t t, int32_t count) {
        for (int s = 0; s < kSources; s++) {
            const TokenView &source = plan_.source[s];
            if (source.data) {
                group_.data[s] =
                    source.data + n * source.sequence + t * source.token + plan_.head_of(hv, source.per_value_head) * source.head;
            }
        }
        const auto row = [&](const HeadView &view) { return view.data + plan_.head_of(hv, view.per_value_head) * view.head; };
        if (plan_.A_log.data) group_.A_log = row(plan_.A_log);
        if (plan_.dt_bias.data) group_.dt_bias = row(plan_.dt_bias);
        calls_->stage(group_, 0, count);
    }

    Plan plan_;
    Arena arena_;
    Division division_;
    std::unique_ptr<Calls> calls_;
    RowGroup group_;
};

}  // namespace

std::unique_ptr<Problem> make_operator_problem(const Job &job, const Shape &shape, bool small) {
    if (job.family == "stage") return std::make_unique<StageProblem>(job, shape, small);
    return std::make_unique<OperatorProblem>(job, shape, small);
}

}  // namespace gdn::tune
