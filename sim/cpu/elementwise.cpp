#include "sim/cpu/chunks.h"
#include "sim/cpu/eigen_maps.h"
#include "sim/cpu/kernels.h"

namespace periscope::cpu {

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

template void axpby<double>(double, const double*, double, const double*, double*, Index);
template void axpby<float>(double, const float*, double, const float*, float*, Index);
template void scale<double>(double, const double*, double*, Index);
template void scale<float>(double, const float*, float*, Index);
template void add_row<double>(const double*, const double*, double*, Index, Index);
template void add_row<float>(const float*, const float*, float*, Index, Index);
template void column_sums<double>(const double*, double*, Index, Index);
template void column_sums<float>(const float*, float*, Index, Index);
template void scatter_add<double>(const double*, std::span<const int>, double*, Index, Index);
template void scatter_add<float>(const float*, std::span<const int>, float*, Index, Index);

}  // namespace periscope::cpu
