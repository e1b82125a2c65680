#include <algorithm>

#include "sim/cpu/gemm.h"
#include "sim/cpu/ops.h"

namespace periscope {
namespace cpu {
namespace {

template <class T>
void linear(const T* x, const T* w, T* y, Index rows, Index in, Index out) {
  gemm<T>(rows, out, in, {x, in}, MatrixView<T>{w, in}.transposed(), y, out);
}

template <class T>
void linear_backward_input(const T* dy, const T* w, T* dx, Index rows, Index in, Index out) {
  gemm<T>(rows, in, out, {dy, out}, MatrixView<T>{w, in}, dx, in);
}

template <class T>
void linear_backward_weight(const T* dy, const T* x, T* dw, Index rows, Index in, Index out) {
  gemm<T>(out, in, rows, MatrixView<T>{dy, out}.transposed(), MatrixView<T>{x, in}, dw, in);
}

template <class T>
void axpby(double a, const T* x, double b, const T* y, T* z, Index size) {
  for_chunks(size, [&](Index first, Index count) {
    Row<T>(z + first, count) =
        static_cast<T>(a) * ConstRow<T>(x + first, count) + static_cast<T>(b) * ConstRow<T>(y + first, count);
  });
}

template <class T>
void scale(double a, const T* x, T* y, Index size) {
  for_chunks(size, [&](Index first, Index count) {
    Row<T>(y + first, count) = static_cast<T>(a) * ConstRow<T>(x + first, count);
  });
}

template <class T>
void multiply(const T* x, const T* y, T* z, Index size) {
  for_chunks(size, [&](Index first, Index count) {
    Row<T>(z + first, count) = ConstRow<T>(x + first, count) * ConstRow<T>(y + first, count);
  });
}

template <class T>
void add_row(const T* x, const T* row, T* y, Index rows, Index cols) {
#pragma omp parallel for schedule(static) if (rows * cols > worth_threads)
  for (Index i = 0; i < rows; ++i) {
    Row<T>(y + i * cols, cols) = ConstRow<T>(x + i * cols, cols) + ConstRow<T>(row, cols);
  }
}

template <class T>
void column_sums(const T* x, T* sums, Index rows, Index cols) {
  constexpr Index columns = 64;
  const auto sum = [&](Index first, Index count) {
    Eigen::ArrayXd total = Eigen::ArrayXd::Zero(count);
    for (Index i = 0; i < rows; ++i) {
      total += ConstRow<T>(x + i * cols + first, count).template cast<double>().transpose();
    }
    Row<T>(sums + first, count) = total.transpose().template cast<T>();
  };
  for_chunks(cols, sum, columns);
}

template <class T>
void scatter_add(const T* dy, std::span<const int> ids, T* sums, Index rows, Index cols) {
  constexpr Index columns = 64;
  const auto add_rows = [&](Index first, Index count) {
    for (Index row = 0; row < rows; ++row) Row<T>(sums + row * cols + first, count).setZero();
    const T* from = dy + first;
    for (const int id : ids) {
      Row<T>(sums + id * cols + first, count) += ConstRow<T>(from, count);
      from += cols;
    }
  };
  for_chunks(cols, add_rows, columns);
}

}  // namespace
}  // namespace cpu

// -------------------------------------------------------------------------------------------------

using cpu::with_type_of;

void CpuBackend::do_linear(const Tensor& x, const Tensor& w, Tensor& y) const {
  with_type_of(x, [&]<class T>(T) {
    cpu::linear(elements<T>(x), elements<T>(w), elements<T>(y), x.rows(), x.cols(), w.rows());
  });
}

void CpuBackend::do_linear_backward_input(const Tensor& dy, const Tensor& w, Tensor& dx) const {
  with_type_of(dy, [&]<class T>(T) {
    cpu::linear_backward_input(elements<T>(dy), elements<T>(w), elements<T>(dx), dy.rows(), w.cols(), w.rows());
  });
}

void CpuBackend::do_linear_backward_weight(const Tensor& dy, const Tensor& x, Tensor& dw) const {
  with_type_of(x, [&]<class T>(T) {
    cpu::linear_backward_weight(elements<T>(dy), elements<T>(x), elements<T>(dw), x.rows(), x.cols(), dy.cols());
  });
}

void CpuBackend::do_axpby(double a, const Tensor& x, double b, const Tensor& y, Tensor& z) const {
  with_type_of(x, [&]<class T>(T) { cpu::axpby(a, elements<T>(x), b, elements<T>(y), elements<T>(z), x.size()); });
}

void CpuBackend::do_scale(double a, const Tensor& x, Tensor& y) const {
  with_type_of(x, [&]<class T>(T) { cpu::scale(a, elements<T>(x), elements<T>(y), x.size()); });
}

void CpuBackend::do_multiply(const Tensor& x, const Tensor& y, Tensor& z) const {
  with_type_of(x, [&]<class T>(T) { cpu::multiply(elements<T>(x), elements<T>(y), elements<T>(z), x.size()); });
}

void CpuBackend::do_add_row(const Tensor& x, const Tensor& row, Tensor& y) const {
  with_type_of(x,
               [&]<class T>(T) { cpu::add_row(elements<T>(x), elements<T>(row), elements<T>(y), x.rows(), x.cols()); });
}

void CpuBackend::do_column_sums(const Tensor& x, Tensor& sums) const {
  with_type_of(x, [&]<class T>(T) { cpu::column_sums(elements<T>(x), elements<T>(sums), x.rows(), x.cols()); });
}

void CpuBackend::do_gather(const Tensor& table, std::span<const int> ids, Tensor& y) const {
  with_type_of(table, [&]<class T>(T) {
    T* out = elements<T>(y);
    for (const int id : ids) out = std::copy_n(elements<T>(table) + id * table.cols(), table.cols(), out);
  });
}

void CpuBackend::do_replace_rows(const Tensor& x, Index first, const Tensor& rows, Tensor& y) const {
  with_type_of(x, [&]<class T>(T) {
    if (!y.same_as(x)) std::copy_n(elements<T>(x), x.size(), elements<T>(y));
    std::copy_n(elements<T>(rows), rows.size(), elements<T>(y) + first * x.cols());
  });
}

void CpuBackend::do_scatter_add(const Tensor& dy, std::span<const int> ids, Tensor& sums) const {
  with_type_of(dy,
               [&]<class T>(T) { cpu::scatter_add(elements<T>(dy), ids, elements<T>(sums), sums.rows(), dy.cols()); });
}

}  // namespace periscope
