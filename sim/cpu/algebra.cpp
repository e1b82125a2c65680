#include <algorithm>

#include "sim/cpu/gemm.h"
#include "sim/cpu/ops.h"

namespace periscope {
using cpu::chunk_of;
using cpu::ConstRow;
using cpu::Row;
using cpu::with_type_of;

/// Number of columns that a thread sums at a time.
constexpr Tensor::Index columns_at_once = 64;

void CpuBackend::run(const op::Linear& o) const {
  with_type_of(o.x, [&]<class T>(T) {
    cpu::gemm<T>(o.x.rows(), o.w.rows(), o.x.cols(), cpu::view_of<T>(o.x), cpu::view_of<T>(o.w).transposed(),
                 elements<T>(o.y), o.w.rows());
  });
}

void CpuBackend::run(const op::LinearBackwardInput& o) const {
  with_type_of(o.dy, [&]<class T>(T) {
    cpu::gemm<T>(o.dy.rows(), o.w.cols(), o.w.rows(), cpu::view_of<T>(o.dy), cpu::view_of<T>(o.w), elements<T>(o.dx),
                 o.w.cols());
  });
}

void CpuBackend::run(const op::LinearBackwardWeight& o) const {
  with_type_of(o.x, [&]<class T>(T) {
    cpu::gemm<T>(o.dy.cols(), o.x.cols(), o.x.rows(), cpu::view_of<T>(o.dy).transposed(), cpu::view_of<T>(o.x),
                 elements<T>(o.dw), o.x.cols());
  });
}

void CpuBackend::run(const op::Axpby& o) const {
  cpu::for_parts(o.x, [&]<class T>(T, Index first, Index count) {
    chunk_of<T>(o.z, first, count) =
        static_cast<T>(o.a) * chunk_of<T>(o.x, first, count) + static_cast<T>(o.b) * chunk_of<T>(o.y, first, count);
  });
}

void CpuBackend::run(const op::Scale& o) const {
  cpu::for_parts(o.x, [&]<class T>(T, Index first, Index count) {
    chunk_of<T>(o.y, first, count) = static_cast<T>(o.a) * chunk_of<T>(o.x, first, count);
  });
}

void CpuBackend::run(const op::Multiply& o) const {
  cpu::for_parts(o.x, [&]<class T>(T, Index first, Index count) {
    chunk_of<T>(o.z, first, count) = chunk_of<T>(o.x, first, count) * chunk_of<T>(o.y, first, count);
  });
}

void CpuBackend::run(const op::AddRow& o) const {
  const Index cols = o.x.cols();
  with_type_of(o.x, [&]<class T>(T) {
    const T* const x = elements<T>(o.x);
    T* const y = elements<T>(o.y);
    const ConstRow<T> row = chunk_of<T>(o.row, 0, cols);
#pragma omp parallel for schedule(static) if (o.x.size() > cpu::min_parallel_size)
    for (Index i = 0; i < o.x.size(); i += cols) Row<T>(y + i, cols) = ConstRow<T>(x + i, cols) + row;
  });
}

void CpuBackend::run(const op::ColumnSums& o) const {
  with_type_of(o.x, [&]<class T>(T) {
    const T* const x = elements<T>(o.x);
    const auto sum = [&](Index first, Index count) {
      Eigen::ArrayXd total = Eigen::ArrayXd::Zero(count);
      for (Index i = 0; i < o.x.size(); i += o.x.cols()) {
        total += ConstRow<T>(x + i + first, count).template cast<double>().transpose();
      }
      chunk_of<T>(o.sums, first, count) = total.transpose().template cast<T>();
    };
    cpu::for_chunks(o.x.cols(), sum, columns_at_once);
  });
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
  const Index cols = o.dy.cols();
  with_type_of(o.dy, [&]<class T>(T) {
    const T* const dy = elements<T>(o.dy);
    T* const sums = elements<T>(o.sums);
    const auto add_rows = [&](Index first, Index count) {
      for (Index i = 0; i < o.sums.size(); i += cols) Row<T>(sums + i + first, count).setZero();
      Index from = first;
      for (const int id : o.ids) {
        Row<T>(sums + id * cols + first, count) += ConstRow<T>(dy + from, count);
        from += cols;
      }
    };
    cpu::for_chunks(cols, add_rows, columns_at_once);
  });
}

}  // namespace periscope
