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

using cpu::with_type_of;

void CpuBackend::run(const op::Linear& o) const {
  with_type_of(o.x, [&]<class T>(T) {
    cpu::linear(elements<T>(o.x), elements<T>(o.w), elements<T>(o.y), o.x.rows(), o.x.cols(), o.w.rows());
  });
}

void CpuBackend::run(const op::LinearBackwardInput& o) const {
  with_type_of(o.dy, [&]<class T>(T) {
    cpu::linear_backward_input(elements<T>(o.dy), elements<T>(o.w), elements<T>(o.dx), o.dy.rows(), o.w.cols(),
                               o.w.rows());
  });
}

void CpuBackend::run(const op::LinearBackwardWeight& o) const {
  with_type_of(o.x, [&]<class T>(T) {
    cpu::linear_backward_weight(elements<T>(o.dy), elements<T>(o.x), elements<T>(o.dw), o.x.rows(), o.x.cols(),
                                o.dy.cols());
  });
}

void CpuBackend::run(const op::Axpby& o) const {
  with_type_of(
      o.x, [&]<class T>(T) { cpu::axpby(o.a, elements<T>(o.x), o.b, elements<T>(o.y), elements<T>(o.z), o.x.size()); });
}

void CpuBackend::run(const op::Scale& o) const {
  with_type_of(o.x, [&]<class T>(T) { cpu::scale(o.a, elements<T>(o.x), elements<T>(o.y), o.x.size()); });
}

void CpuBackend::run(const op::Multiply& o) const {
  with_type_of(o.x,
               [&]<class T>(T) { cpu::multiply(elements<T>(o.x), elements<T>(o.y), elements<T>(o.z), o.x.size()); });
}

void CpuBackend::run(const op::AddRow& o) const {
  with_type_of(o.x, [&]<class T>(T) {
    cpu::add_row(elements<T>(o.x), elements<T>(o.row), elements<T>(o.y), o.x.rows(), o.x.cols());
  });
}

void CpuBackend::run(const op::ColumnSums& o) const {
  with_type_of(o.x,
               [&]<class T>(T) { cpu::column_sums(elements<T>(o.x), elements<T>(o.sums), o.x.rows(), o.x.cols()); });
}

void CpuBackend::run(const op::Gather& o) const {
  with_type_of(o.table, [&]<class T>(T) {
    T* out = elements<T>(o.y);
    for (const int id : o.ids) out = std::copy_n(elements<T>(o.table) + id * o.table.cols(), o.table.cols(), out);
  });
}

void CpuBackend::run(const op::ReplaceRows& o) const {
  with_type_of(o.x, [&]<class T>(T) {
    if (!o.y.same_as(o.x)) std::copy_n(elements<T>(o.x), o.x.size(), elements<T>(o.y));
    std::copy_n(elements<T>(o.rows), o.rows.size(), elements<T>(o.y) + o.first * o.x.cols());
  });
}

void CpuBackend::run(const op::ScatterAdd& o) const {
  with_type_of(o.dy, [&]<class T>(T) {
    cpu::scatter_add(elements<T>(o.dy), o.ids, elements<T>(o.sums), o.sums.rows(), o.dy.cols());
  });
}

}  // namespace periscope
