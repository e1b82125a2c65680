#include "sim/cuda/columns.h"
#include "sim/cuda/elementwise.h"
#include "sim/cuda/moments.h"
#include "sim/cuda/ops.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_WAY {
namespace {

template <class C>
struct AddScaled {
  C a, b;
  PERISCOPE_HOST_DEVICE C operator()(C x, C y) const { return a * x + b * y; }
};

template <class C>
struct Scale {
  C a;
  PERISCOPE_HOST_DEVICE C operator()(C x) const { return a * x; }
};

struct Multiply {
  template <class C>
  PERISCOPE_HOST_DEVICE C operator()(C x, C y) const {
    return x * y;
  }
};

template <class T>
struct AddRow {
  const T* x;
  const T* row;
  T* y;
  Index cols;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const { y[i] = narrow<T>(widen(x[i]) + widen(row[i % cols])); }
};

template <class T>
struct ElementInDouble {
  const T* x;
  Index cols;
  PERISCOPE_HOST_DEVICE double operator()(Index row, Index j) const {
    return static_cast<double>(widen(x[row * cols + j]));
  }
};

template <class T>
struct Copy {
  const T* x;
  T* y;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const { y[i] = x[i]; }
};

template <class T>
struct Gather {
  const T* table;
  const int* ids;
  T* y;
  Index cols;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const { y[i] = table[ids[i / cols] * cols + i % cols]; }
};

/// Row v of the sums: the rows places[starts[v]] … places[starts[v+1] − 1] of dy, in this order.
template <class T>
struct ScatterAdd {
  const T* dy;
  const int* starts;
  const int* places;
  T* sums;
  Index cols;
  PERISCOPE_HOST_DEVICE void operator()(Index i) const {
    const Index id = i / cols;
    Computed<T> sum(0);
    for (int p = starts[id]; p < starts[id + 1]; ++p) sum += widen(dy[places[p] * cols + i % cols]);
    sums[i] = narrow<T>(sum);
  }
};

}  // namespace

// -------------------------------------------------------------------------------------------------

void CudaBackend::do_linear(const Tensor& x, const Tensor& w, Tensor& y) const {
  with_type(x.dtype(), [&]<class T>(T) {
    execution_.product({.operands = x.dtype(),
                        .result = x.dtype(),
                        .transpose_a = false,
                        .transpose_b = true,
                        .m = x.rows(),
                        .n = w.rows(),
                        .k = x.cols(),
                        .a = {data<T>(x), x.cols()},
                        .b = {data<T>(w), w.cols()},
                        .c = {data<T>(y), y.cols()}});
  });
}

void CudaBackend::do_linear_backward_input(const Tensor& dy, const Tensor& w, Tensor& dx) const {
  with_type(dy.dtype(), [&]<class T>(T) {
    execution_.product({.operands = dy.dtype(),
                        .result = dy.dtype(),
                        .transpose_a = false,
                        .transpose_b = false,
                        .m = dy.rows(),
                        .n = w.cols(),
                        .k = dy.cols(),
                        .a = {data<T>(dy), dy.cols()},
                        .b = {data<T>(w), w.cols()},
                        .c = {data<T>(dx), dx.cols()}});
  });
}

void CudaBackend::do_linear_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dw) const {
  with_type(x.dtype(), [&]<class T>(T) {
    execution_.product({.operands = x.dtype(),
                        .result = x.dtype(),
                        .transpose_a = true,
                        .transpose_b = false,
                        .m = dy.cols(),
                        .n = x.cols(),
                        .k = x.rows(),
                        .a = {data<T>(dy), dy.cols()},
                        .b = {data<T>(x), x.cols()},
                        .c = {data<T>(dw), dw.cols()}});
  });
}

// The gradient stays in the type in which it is computed: in f16 its entries would underflow.
void CudaBackend::do_linear_weight_square(const Tensor& dy, const Tensor& x, Tensor& square) const {
  const Index rows = dy.cols();
  const Index cols = x.cols();
  const std::shared_ptr<double> squares = execution_.take_array<double>(rows);
  with_type(x.dtype(), [&]<class T>(T) {
    using C = Computed<T>;
    const std::shared_ptr<C> gradient = execution_.take_array<C>(rows * cols);
    execution_.product({.operands = x.dtype(),
                        .result = computed_in(x.dtype()),
                        .transpose_a = true,
                        .transpose_b = false,
                        .m = rows,
                        .n = cols,
                        .k = x.rows(),
                        .a = {data<T>(dy), rows},
                        .b = {data<T>(x), cols},
                        .c = {gradient.get(), cols}});
    for_blocks(execution_, rows, MeasureRow<C>{gradient.get(), nullptr, rows, cols, nullptr, squares.get(), nullptr});
  });
  for_blocks(execution_, 1, SumUp{squares.get(), rows, data<double>(square)});
}

void CudaBackend::do_axpby(double a, const Tensor& x, double b, const Tensor& y, Tensor& z) const {
  with_type(x.dtype(), [&]<class T>(T) {
    using C = Computed<T>;
    binary(execution_, data<T>(x), data<T>(y), data<T>(z), x.size(),
           AddScaled<C>{static_cast<C>(a), static_cast<C>(b)});
  });
}

void CudaBackend::do_scale(double a, const Tensor& x, Tensor& y) const {
  with_type(x.dtype(), [&]<class T>(T) {
    unary(execution_, data<T>(x), data<T>(y), x.size(), Scale<Computed<T>>{static_cast<Computed<T>>(a)});
  });
}

void CudaBackend::do_multiply(const Tensor& x, const Tensor& y, Tensor& z) const {
  with_type(x.dtype(),
            [&]<class T>(T) { binary(execution_, data<T>(x), data<T>(y), data<T>(z), x.size(), Multiply{}); });
}

void CudaBackend::do_add_row(const Tensor& x, const Tensor& row, Tensor& y) const {
  with_type(x.dtype(), [&]<class T>(T) {
    for_each(execution_, x.size(), AddRow<T>{data<T>(x), data<T>(row), data<T>(y), x.cols()});
  });
}

void CudaBackend::do_column_sums(const Tensor& x, Tensor& sums) const {
  with_type(x.dtype(), [&]<class T>(T) {
    reduce_columns(execution_, x.rows(), x.cols(), ElementInDouble<T>{data<T>(x), x.cols()}, AddUp{}, data<T>(sums));
  });
}

void CudaBackend::do_gather(const Tensor& table, std::span<const int> ids, Tensor& y) const {
  const std::shared_ptr<int> there = execution_.uploaded(ids);
  with_type(table.dtype(), [&]<class T>(T) {
    for_each(execution_, y.size(), Gather<T>{data<T>(table), there.get(), data<T>(y), table.cols()});
  });
}

void CudaBackend::do_replace_rows(const Tensor& x, Index first, const Tensor& rows, Tensor& y) const {
  with_type(x.dtype(), [&]<class T>(T) {
    if (!y.same_as(x)) for_each(execution_, x.size(), Copy<T>{data<T>(x), data<T>(y)});
    for_each(execution_, rows.size(), Copy<T>{data<T>(rows), data<T>(y) + first * x.cols()});
  });
}

// The ids are sorted on the host, where they are: each sum is then added up by one thread, in the order of the tokens.
void CudaBackend::do_scatter_add(const Tensor& dy, std::span<const int> ids, Tensor& sums) const {
  std::vector<int> starts(static_cast<std::size_t>(sums.rows()) + 1, 0);
  for (const int id : ids) ++starts[static_cast<std::size_t>(id) + 1];
  for (std::size_t v = 1; v < starts.size(); ++v) starts[v] += starts[v - 1];
  std::vector<int> next(starts.begin(), starts.end() - 1);
  std::vector<int> places(ids.size());
  for (std::size_t t = 0; t < ids.size(); ++t) {
    places[static_cast<std::size_t>(next[static_cast<std::size_t>(ids[t])]++)] = static_cast<int>(t);
  }
  const std::shared_ptr<int> starts_there = execution_.uploaded(std::span<const int>(starts));
  const std::shared_ptr<int> places_there = execution_.uploaded(std::span<const int>(places));
  with_type(dy.dtype(), [&]<class T>(T) {
    for_each(execution_, sums.size(),
             ScatterAdd<T>{data<T>(dy), starts_there.get(), places_there.get(), data<T>(sums), dy.cols()});
  });
}

}  // namespace PERISCOPE_CUDA_WAY
}  // namespace periscope::cuda
