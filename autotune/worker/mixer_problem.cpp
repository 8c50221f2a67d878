// The kernels beside the operator, called as the mixer calls them: rows in L1 on one side, the caller's tensors on the other.
#include "autotune/worker/failure.h"
#include "autotune/worker/problem.h"
#include "halide_glue.h"
#include "plan.h"
#include "tests/reference/gated_norm.h"
#include "tests/reference/short_conv.h"
#include "tests/support/metric.h"

namespace gdn::tune {

namespace {

Type type_of(gdn_dtype dtype) { return dtype == GDN_DTYPE_BF16 ? Type::kBf16 : dtype == GDN_DTYPE_F16 ? Type::kF16 : Type::kF32; }

class KernelProblem : public Problem {
public:
    KernelProblem(const Job &job, const Shape &shape, bool small)
        : shape_(shape), dtype_(dtype_of(job.param("dtype"))), width_(job.param("width") == "any" ? 3 : 4) {
        if (small) {
            shape_ = Shape();
            shape_.T = 21;
            shape_.H = 3;
            shape_.B = 2;
            shape_.K = shape_.V = 37;
        }
        if (decodes(job.family)) shape_.T = kDecodedTokens;
    }

    std::string key() const override {
        return what() + " 1, dtype " + gdn_test::dtype_name(dtype_) + ", width " + std::to_string(width_) +
               ", B=" + std::to_string(shape_.B) + ",T=" + std::to_string(shape_.T) + ",H=" + std::to_string(shape_.H) +
               ",channels=" + std::to_string(channels());
    }
    void use(const LoadedKernel &kernel) override {
        install_halide_handlers();
        row_ = &kernel.row();
    }

protected:
    virtual std::string what() const = 0;
    virtual int32_t channels() const { return static_cast<int32_t>(shape_.K); }
    /// Of all heads.
    int32_t token() const { return channels() * static_cast<int32_t>(shape_.H); }

    void invoke(void **argv) {
        if (row_->call(argv)) throw Failure(Status::kLaunchFailed, std::string("the kernel failed: ") + context_.error);
    }
    static void place(Buffer &buffer, const void *host, int32_t width, int32_t rows, int32_t stride) {
        buffer.host(host);
        buffer.dim(0, width, 1);
        if (buffer.b.dimensions > 1) buffer.dim(1, rows, stride);
    }

    Shape shape_;
    const gdn_dtype dtype_;
    const int32_t width_;
    const KernelRow *row_ = nullptr;
    KernelContext context_{};
    void *context_pointer_ = &context_;
};

/// A convolution's weights, its input and what came before it; the reference of both ways to call it.
class ConvolutionProblem : public KernelProblem {
public:
    ConvolutionProblem(const Job &job, const Shape &shape, bool small) : KernelProblem(job, shape, small) {
        x_ = Tensor(dtype_, {shape_.B, old() + shape_.T, token()}, small);
        weight_ = Tensor(GDN_DTYPE_F32, {width_, token()}, small);
        bias_ = Tensor(GDN_DTYPE_F32, {token()}, small);
        y_ = Tensor(GDN_DTYPE_F32, {shape_.B, shape_.T, token()}, small);
        scratch_ = Tensor(GDN_DTYPE_F32, {kMaxRows, channels()}, false);
        Random random(kSeed);
        for (Tensor *tensor : {&x_, &weight_, &bias_}) {
            tensor->fill(between(&random, -1, 1));
            tensor->make_read_only();
        }
    }

    std::vector<double> reference() const override {
        std::vector<double> y(static_cast<size_t>(y_.elements()));
        for (int64_t n = 0; n < shape_.B; n++) {
            for (int64_t c = 0; c < token(); c++) {
                std::vector<double> before, tokens, taps;
                for (int64_t i = 0; i < width_; i++) taps.push_back(weight_.element(i * token() + c));
                for (int64_t t = 0; t < old() + shape_.T; t++) {
                    (t < old() ? before : tokens).push_back(x_.element((n * (old() + shape_.T) + t) * token() + c));
                }
                const std::vector<double> row = gdn_reference::short_conv(tokens, before, taps, bias_.element(c), GDN_ACTIVATION_SILU);
                for (int64_t t = 0; t < shape_.T; t++)
                    y[static_cast<size_t>((n * shape_.T + t) * token() + c)] = row[static_cast<size_t>(t)];
            }
        }
        return y;
    }

    std::vector<Output> outputs() const override { return {{"y", "head", &y_, channels(), shape_.H, gdn_test::kBoundF32}}; }

protected:
    int32_t old() const { return width_ - 1; }
    /// Row t of sequence n, the old ones first.
    const unsigned char *input(int64_t n, int64_t t) const {
        return x_.data() + (n * (old() + shape_.T) + t) * token() * x_.element_bytes();
    }

    int32_t activation_ = 1;
    Tensor x_, weight_, bias_, y_, scratch_;
};

class ShortConvProblem : public ConvolutionProblem {
public:
    ShortConvProblem(const Job &job, const Shape &shape, bool small) : ConvolutionProblem(job, shape, small) {
        buffers_[0].init(type_of(dtype_), 2);
        buffers_[1].init(Type::kF32, 2);
        buffers_[2].init(Type::kF32, 1);
        buffers_[3].init(Type::kF32, 2);
    }

    void run() override {
        y_.poison();
        each_chunk(shape_, [this](int64_t n, int32_t head, int64_t t, int32_t count) {
            convolve(n, head, t, count, y_.floats() + (n * shape_.T + t) * token() + head * channels(), token());
        });
    }
    void call() override {
        each_chunk(shape_,
            [this](int64_t n, int32_t head, int64_t t, int32_t count) { convolve(n, head, t, count, scratch_.floats(), channels()); });
    }

private:
    std::string what() const override { return "short_conv"; }

    void convolve(int64_t n, int32_t head, int64_t t, int32_t count, float *y, int32_t y_row) {
        const int32_t c = channels(), at = head * c;
        place(buffers_[0], input(n, t) + at * x_.element_bytes(), c, count + old(), token());
        place(buffers_[1], weight_.floats() + at, c, width_, token());
        place(buffers_[2], bias_.floats() + at, c, 1, 0);
        place(buffers_[3], y, c, count, y_row);
        void *argv[] = {&context_pointer_, &activation_, &buffers_[0].b, &buffers_[1].b, &buffers_[2].b, &buffers_[3].b};
        invoke(argv);
    }

    Buffer buffers_[4];  // x w bias y
};

/// One token of up to kMaxRows neighbouring heads, whose old rows move on in the same sweep.
class ShortConvStepProblem : public ConvolutionProblem {
public:
    ShortConvStepProblem(const Job &job, const Shape &shape, bool small) : ConvolutionProblem(job, shape, small) {
        initial_ = Tensor(dtype_, {shape_.B, old(), token()}, small);
        state_ = Tensor(dtype_, {shape_.B, old(), token()}, small);
        for (int64_t n = 0; n < shape_.B; n++) std::copy_n(input(n, 0), row_bytes() * old(), initial_.data() + n * row_bytes() * old());
        for (int i = 0; i < 6; i++) {
            const bool raw = i == 0 || i == 1 || i == 5, rows = i == 1 || i == 2 || i == 5;
            buffers_[i].init(raw ? type_of(dtype_) : Type::kF32, rows ? 2 : 1);
        }
    }

    /// y, and the last inputs as they are.
    std::vector<double> reference() const override {
        std::vector<double> all = ConvolutionProblem::reference();
        for (int64_t n = 0; n < shape_.B; n++) {
            for (int64_t i = 0; i < old() * token(); i++) {
                all.push_back(x_.element((n * (old() + shape_.T) + shape_.T) * token() + i));
            }
        }
        return all;
    }
    std::vector<Output> outputs() const override {
        std::vector<Output> list = ConvolutionProblem::outputs();
        list.push_back({"the state", "head", &state_, channels(), shape_.H, 0});
        return list;
    }

    void run() override {
        y_.poison();
        state_.poison();
        for (int64_t t = 0; t < shape_.T; t++) {
            const unsigned char *from = t ? state_.data() : initial_.data();
            step(t, from, state_.data(),
                [this, t](int64_t n, int32_t head) { return y_.floats() + (n * shape_.T + t) * token() + head * channels(); });
        }
    }
    void call() override {
        if (!states_.begun()) states_.begin(initial_, shape_.cold);
        unsigned char *const state = static_cast<unsigned char *>(states_.next());
        step(0, state, state, [this](int64_t, int32_t) { return scratch_.floats(); });
    }

private:
    std::string what() const override { return "short_conv_step"; }
    int64_t row_bytes() const { return token() * x_.element_bytes(); }

    template <class Rows> void step(int64_t t, const unsigned char *from, unsigned char *to, Rows y) {
        for (int64_t n = 0; n < shape_.B; n++) {
            for (int32_t head = 0; head < shape_.H; head += kMaxRows) {
                const int32_t heads = std::min(kMaxRows, static_cast<int32_t>(shape_.H) - head), c = heads * channels(),
                              at = head * channels();
                const int64_t state = n * old() * row_bytes() + at * x_.element_bytes();
                place(buffers_[0], input(n, old() + t) + at * x_.element_bytes(), c, 1, 0);
                place(buffers_[1], from + state, c, old(), token());
                place(buffers_[2], weight_.floats() + at, c, width_, token());
                place(buffers_[3], bias_.floats() + at, c, 1, 0);
                place(buffers_[4], y(n, head), c, 1, 0);
                place(buffers_[5], to + state, c, old(), token());
                void *argv[] = {&context_pointer_, &activation_, &buffers_[0].b, &buffers_[1].b, &buffers_[2].b, &buffers_[3].b,
                    &buffers_[4].b, &buffers_[5].b};
                invoke(argv);
            }
        }
    }

    Tensor initial_, state_;
    States states_;
    Buffer buffers_[6];  // x h0 w bias y h1
};

class GatedNormProblem : public KernelProblem {
public:
    GatedNormProblem(const Job &job, const Shape &shape, bool small)
        : KernelProblem(job, shape, small), z_dtype_(dtype_of(job.param("z_dtype"))) {
        const std::vector<int64_t> all = {shape_.B, shape_.T, token()};
        o_ = Tensor(GDN_DTYPE_F32, all, small);
        z_ = Tensor(z_dtype_, all, small);
        weight_ = Tensor(GDN_DTYPE_F32, {channels()}, small);
        y_ = Tensor(dtype_, all, small);
        scratch_ = Tensor(GDN_DTYPE_F32, {kRows, channels()}, false);
        Random random(kSeed);
        o_.fill(between(&random, -2, 2));
        z_.fill(between(&random, -4, 4));
        weight_.fill(between(&random, 0.5, 1.5));
        scratch_.fill(between(&random, -2, 2));
        for (Tensor *tensor : {&o_, &z_, &weight_}) tensor->make_read_only();
        buffers_[0].init(Type::kF32, 2);
        buffers_[1].init(type_of(z_dtype_), 2);
        buffers_[2].init(Type::kF32, 1);
        buffers_[3].init(type_of(dtype_), 2);
    }

    std::vector<double> reference() const override {
        gdn_reference::GatedNorm what;
        what.eps = eps_;
        std::vector<double> y, weight;
        for (int64_t d = 0; d < channels(); d++) weight.push_back(weight_.element(d));
        for (int64_t at = 0; at < o_.elements(); at += channels()) {
            std::vector<double> o, z;
            for (int64_t i = at; i < at + channels(); i++) {
                o.push_back(o_.element(i));
                z.push_back(z_.element(i));
            }
            const std::vector<double> row = gdn_reference::gated_norm(what, o, weight, z);
            y.insert(y.end(), row.begin(), row.end());
        }
        return y;
    }
    std::vector<Output> outputs() const override {
        return {{"y", "head", &y_, channels(), shape_.H, dtype_ == GDN_DTYPE_F32 ? gdn_test::kBoundF32 : gdn_test::kBound16}};
    }

    void run() override {
        y_.poison();
        each_chunk(shape_, [this](int64_t n, int32_t head, int64_t t, int32_t count) {
            norm(n, head, t, count, o_.floats() + (n * shape_.T + t) * token() + head * channels(), token());
        });
    }
    void call() override {
        each_chunk(
            shape_, [this](int64_t n, int32_t head, int64_t t, int32_t count) { norm(n, head, t, count, scratch_.floats(), channels()); });
    }

private:
    std::string what() const override { return std::string("gated_norm of ") + gdn_test::dtype_name(z_dtype_) + " gates"; }
    int32_t channels() const override { return static_cast<int32_t>(shape_.V); }

    void norm(int64_t n, int32_t head, int64_t t, int32_t count, const float *o, int32_t o_row) {
        const int64_t at = (n * shape_.T + t) * token() + head * channels();
        place(buffers_[0], o, channels(), count, o_row);
        place(buffers_[1], z_.data() + at * z_.element_bytes(), channels(), count, token());
        place(buffers_[2], weight_.data(), channels(), 1, 0);
        place(buffers_[3], y_.data() + at * y_.element_bytes(), channels(), count, token());
        void *argv[] = {&context_pointer_, &eps_, &norm_, &gate_, &buffers_[0].b, &buffers_[1].b, &buffers_[2].b, &buffers_[3].b};
        invoke(argv);
    }

    const gdn_dtype z_dtype_;
    float eps_ = 1e-5f;
    int32_t norm_ = 1, gate_ = GDN_ACTIVATION_SILU;
    Tensor o_, z_, weight_, y_, scratch_;
    Buffer buffers_[4];  // o z weight y
};

}  // namespace

std::unique_ptr<Problem> make_mixer_problem(const Job &job, const Shape &shape, bool small) {
    if (job.family == "short_conv") return std::make_unique<ShortConvProblem>(job, shape, small);
    if (job.family == "short_conv_step") return std::make_unique<ShortConvStepProblem>(job, shape, small);
    if (job.family == "gated_norm") return std::make_unique<GatedNormProblem>(job, shape, small);
    throw Failure(Status::kLaunchFailed, "kernels of family " + job.family + " cannot be measured");
}

}  // namespace gdn::tune
