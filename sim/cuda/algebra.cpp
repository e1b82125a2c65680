#include "sim/cuda/columns.h"
#include "sim/cuda/elementwise.h"
#include "sim/cuda/moments.h"
#include "sim/cuda/ops.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {
namespace {

struct AddScaled {
  double a, b;
  template <class C>
  PERISCOPE_HOST_DEVICE C operator()(C x, C y) const {
    return static_cast<C>(a) * x + static_cast<C>(b) * y;
  }
};

struct Scale {
  double a;
  template <class C>
  PERISCOPE_HOST_DEVICE C operator()(C x) const {
    return static_cast<C>(a) * x;
  }
};

struct Multiply {
  template <class C>
  PERISCOPE_HOST_DEVICE C operator()(C x, C y) const {
    return x * y;
  }
};

template <class T>
struct AddRow {
  In<T> x;
  In<T> row;
  Out<T> y;
  Index cols;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const { y[i] = narrow<T>(widen(x[i]) + widen(row[i % cols])); }
};

template <class T>
struct Gather {
  In<T> table;
  In<int> ids;
  Out<T> y;
  Index cols;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const { y[i] = table[ids[i / cols] * cols + i % cols]; }
};

/// Row v of `sums` is the sum of the rows of dy with the indices rows[starts[v]], …, rows[starts[v+1] − 1], in order.
template <class T>
struct ScatterAdd {
  In<T> dy;
  In<int> starts;
  In<int> rows;
  Out<T> sums;
  Index cols;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const {
    const Index id = i / cols;
    Computed<T> sum(0);
    for (int p = starts[id]; p < starts[id + 1]; ++p) sum += widen(dy[rows[p] * cols + i % cols]);
    sums[i] = narrow<T>(sum);
  }
};

struct Factor {
  const Tensor& x;
  bool transposed = false;
};

/// c = op(a)·op(b), where op is the transpose for a `transposed` factor and otherwise the identity.
void matrix_product(const Execution& execution, const Factor& a, const Factor& b, Tensor& c) {
  const auto at = [](const Tensor& x) { return TensorMemory::address(x, x.dtype()); };
  execution.product({.operands = a.x.dtype(),
                     .result = c.dtype(),
                     .transpose_a = a.transposed,
                     .transpose_b = b.transposed,
                     .m = c.rows(),
                     .n = c.cols(),
                     .k = a.transposed ? a.x.rows() : a.x.cols(),
                     .a = {at(a.x), a.x.cols()},
                     .b = {at(b.x), b.x.cols()},
                     .c = {at(c), c.cols()}});
}

}  // namespace

void CudaBackend::run(const op::Linear& o) const {
  matrix_product(execution_, {o.x}, {.x = o.w, .transposed = true}, o.y);
}

void CudaBackend::run(const op::LinearBackwardInput& o) const { matrix_product(execution_, {o.dy}, {o.w}, o.dx); }

void CudaBackend::run(const op::LinearBackwardWeight& o) const {
  matrix_product(execution_, {.x = o.dy, .transposed = true}, {o.x}, o.dw);
}

// The gradient is stored in the compute dtype, since its entries would underflow in f16.
void CudaBackend::run(const op::LinearWeightSquare& o) const {
  const Index rows = o.dy.cols();
  const Index cols = o.x.cols();
  const std::shared_ptr<double> squares = execution_.take_array<double>(rows);
  Tensor gradient = do_allocate(rows, cols, compute_dtype(o.x.dtype()));
  matrix_product(execution_, {.x = o.dy, .transposed = true}, {o.x}, gradient);
  with_type(gradient.dtype(), [&]<class T>(T) {
    measure_rows(execution_, MeasureRows<T>{.x = data<T>(gradient), .rows = rows, .n = cols, .squares = squares.get()});
  });
  for_blocks(execution_, 1, Sum{squares.get(), rows, data<double>(o.square)});
}

void CudaBackend::run(const op::Axpby& o) const { binary(execution_, o.x, o.y, o.z, AddScaled{o.a, o.b}); }

void CudaBackend::run(const op::Scale& o) const { unary(execution_, o.x, o.y, Scale{o.a}); }

void CudaBackend::run(const op::Multiply& o) const { binary(execution_, o.x, o.y, o.z, Multiply{}); }

void CudaBackend::run(const op::AddRow& o) const {
  with_type(o.x.dtype(), [&]<class T>(T) {
    for_each(execution_, o.x.size(), AddRow<T>{data<T>(o.x), data<T>(o.row), data<T>(o.y), o.x.cols()});
  });
}

void CudaBackend::run(const op::ColumnSums& o) const {
  with_type(o.x.dtype(), [&]<class T>(T) {
    sum_columns(execution_, o.x.rows(), o.x.cols(), ElementInDouble<T>{data<T>(o.x), o.x.cols()}, data<T>(o.sums));
  });
}

void CudaBackend::run(const op::Gather& o) const {
  const std::shared_ptr<int> device_ids = execution_.uploaded(o.ids);
  with_type(o.table.dtype(), [&]<class T>(T) {
    for_each(execution_, o.y.size(), Gather<T>{data<T>(o.table), device_ids.get(), data<T>(o.y), o.table.cols()});
  });
}

void CudaBackend::run(const op::ReplaceRows& o) const {
  with_type(o.x.dtype(), [&]<class T>(T) {
    if (!o.y.same_as(o.x)) for_each(execution_, o.x.size(), Convert<T, T>{data<T>(o.x), data<T>(o.y)});
    for_each(execution_, o.rows.size(), Convert<T, T>{data<T>(o.rows), data<T>(o.y) + o.first * o.x.cols()});
  });
}

// Sorts the ids on the host, so that a single thread computes each sum in token order.
void CudaBackend::run(const op::ScatterAdd& o) const {
  std::vector<int> starts(static_cast<std::size_t>(o.sums.rows()) + 1, 0);
  for (const int id : o.ids) ++starts[static_cast<std::size_t>(id) + 1];
  for (std::size_t v = 1; v < starts.size(); ++v) starts[v] += starts[v - 1];
  std::vector<int> next(starts.begin(), starts.end() - 1);
  std::vector<int> rows(o.ids.size());
  for (std::size_t t = 0; t < o.ids.size(); ++t) {
    rows[static_cast<std::size_t>(next[static_cast<std::size_t>(o.ids[t])]++)] = static_cast<int>(t);
  }
  const std::shared_ptr<int> device_starts = execution_.uploaded(std::span<const int>(starts));
  const std::shared_ptr<int> device_rows = execution_.uploaded(std::span<const int>(rows));
  with_type(o.dy.dtype(), [&]<class T>(T) {
    for_each(execution_, o.sums.size(),
             ScatterAdd<T>{data<T>(o.dy), device_starts.get(), device_rows.get(), data<T>(o.sums), o.dy.cols()});
  });
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
