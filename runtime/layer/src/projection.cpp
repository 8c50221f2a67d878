#include "projection.h"

#include <cblas.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "gdn/layer.hpp"

namespace gdn::layer {
namespace {

// What a task should take, in microseconds, and what work takes by rule of thumb. They only say how finely to cut.
constexpr double kTask = 200, kPerFlop = 1e-5, kPerWeightByte = 1e-4;
constexpr std::int64_t kColumns = 256, kRows = 256;  // a smaller piece would pack its operands for too little arithmetic
constexpr std::int64_t kGrain = 64;                  // columns: whole tiles and whole cache lines

/// One product in pieces of columns and rows.
struct Cut {
    std::int64_t columns, rows;              // of a piece
    std::int64_t column_pieces, row_pieces;  // how many

    std::int64_t pieces() const { return column_pieces * row_pieces; }
};

std::int64_t pieces_of(std::int64_t extent, std::int64_t piece) { return (extent + piece - 1) / piece; }

/// Extent of one of `count` even pieces, a multiple of kGrain.
std::int64_t even_piece(std::int64_t extent, std::int64_t count) { return pieces_of(pieces_of(extent, count), kGrain) * kGrain; }

/// Columns first: all pieces together then pack the weights once. Rows too where there are too few columns.
Cut cut(std::int64_t rows, std::int64_t in, std::int64_t out) {
    const double weights = static_cast<double>(in) * static_cast<double>(out);
    const double time = weights * std::max(2 * static_cast<double>(rows) * kPerFlop, sizeof(float) * kPerWeightByte);
    const std::int64_t wish = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::min(time / kTask, 4096.0)));
    Cut made;
    made.columns = even_piece(out, std::min(wish, std::max<std::int64_t>(1, out / kColumns)));
    made.column_pieces = pieces_of(out, made.columns);
    made.rows = even_piece(rows, std::min(pieces_of(wish, made.column_pieces), std::max<std::int64_t>(1, rows / kRows)));
    made.row_pieces = pieces_of(rows, made.rows);
    return made;
}

void call_blas(const Product &p, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
    const float *x = p.x + row * p.x_stride, *w = p.w + column * p.in;
    float *y = p.y + row * p.y_stride + column;
    const auto n = [](std::int64_t extent) { return static_cast<int>(extent); };
    if (rows == 1) {
        // beta = 1 over zeros: some BLAS multiply what y held by beta = 0, and it may be NaN.
        if (!p.add) {
            std::fill_n(y, columns, 0.0f);
        }
        cblas_sgemv(CblasRowMajor, CblasNoTrans, n(columns), n(p.in), 1, w, n(p.in), x, 1, 1, y, 1);
    } else {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n(rows), n(columns), n(p.in), 1, x, n(p.x_stride), w, n(p.in), p.add ? 1 : 0,
            y, n(p.y_stride));
    }
}

struct Tasks {
    static constexpr int kMost = 4;
    std::int64_t rows;
    const Product *products;
    Cut cuts[kMost];
};

void run_task(void *arg, std::int64_t i) {
    const Tasks &tasks = *static_cast<const Tasks *>(arg);
    int which = 0;
    for (; i >= tasks.cuts[which].pieces(); which++) {
        i -= tasks.cuts[which].pieces();
    }
    const Cut &cut = tasks.cuts[which];
    const Product &product = tasks.products[which];
    const std::int64_t row = i / cut.column_pieces * cut.rows, column = i % cut.column_pieces * cut.columns;
    call_blas(product, row, std::min(cut.rows, tasks.rows - row), column, std::min(cut.columns, product.out - column));
}

/// A function of OpenBLAS, NULL where the process has another BLAS.
template <typename Function> Function openblas(const char *name) { return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name)); }

}  // namespace

int blas_threads() {
    static const auto get = openblas<int (*)()>("openblas_get_num_threads");
    return get ? get() : 0;
}

bool set_blas_threads(int threads) {
    static const auto set = openblas<void (*)(int)>("openblas_set_num_threads");
    if (set) {
        set(threads);
    }
    return set != nullptr;
}

void multiply(gdn_context *context, std::int64_t rows, const Product *products, int count) {
    if (blas_threads() > 1) {
        for (int i = 0; i < count; i++) {
            call_blas(products[i], 0, rows, 0, products[i].out);
        }
        return;
    }
    Tasks tasks = {rows, products, {}};
    std::int64_t pieces = 0;
    for (int i = 0; i < count; i++) {
        tasks.cuts[i] = cut(rows, products[i].in, products[i].out);
        pieces += tasks.cuts[i].pieces();
    }
    gdn_context_run(context, pieces, run_task, &tasks);
}

Floats::Floats(std::int64_t count) { reserve(count); }

void Floats::reserve(std::int64_t count) {
    if (count <= size_) {
        return;
    }
    const std::size_t bytes = (static_cast<std::size_t>(count) * sizeof(float) + 63) / 64 * 64;
    float *memory = static_cast<float *>(std::aligned_alloc(64, bytes));
    if (!memory) {
        throw std::bad_alloc();
    }
    std::memset(memory, 0, bytes);
    data_.reset(memory);
    size_ = count;
}

void Floats::Free::operator()(float *memory) const { std::free(memory); }

}  // namespace gdn::layer
