#include <algorithm>

#include "sim/cpu/eigen_maps.h"
#include "sim/cpu/kernels.h"

namespace periscope::cpu {
namespace {

/// Calls body(first, count) for pieces of `features` features of a matrix, on all threads: wide enough for
/// Eigen's kernel, and about 8 pieces so that threads share them evenly. A function of the shape alone.
template <class Body>
void for_features(Index features, const Body& body) {
  const Index step = std::clamp<Index>((features / 8 + 31) / 32 * 32, 32, 512);
#pragma omp parallel for schedule(dynamic, 1)
  for (Index first = 0; first < features; first += step) body(first, std::min(step, features - first));
}

template <class T>
ConstStrided<T> columns_of(const T* x, Index rows, Index cols, Index first, Index count) {
  return {x + first, rows, count, Eigen::OuterStride<>(cols)};
}

}  // namespace

// Eigen's own threading is off (EIGEN_DONT_PARALLELIZE): it blocks the inner dimension by the number of
// threads, which would change the rounding.
template <class T>
void linear(const T* x, const T* w, T* y, Index rows, Index in, Index out) {
  const auto input = columns_of(x, rows, in, 0, in);
  for_features(out, [&](Index first, Index count) {
    const auto weight = columns_of(w + first * in, count, in, 0, in);
    Strided<T> output(y + first, rows, count, Eigen::OuterStride<>(out));
    output.noalias() = input * weight.transpose();
  });
}

template <class T>
void linear_backward_input(const T* dy, const T* w, T* dx, Index rows, Index in, Index out) {
  const auto slope = columns_of(dy, rows, out, 0, out);
  for_features(in, [&](Index first, Index count) {
    Strided<T> result(dx + first, rows, count, Eigen::OuterStride<>(in));
    result.noalias() = slope * columns_of(w, out, in, first, count);
  });
}

template <class T>
void linear_backward_weight(const T* dy, const T* x, T* dw, Index rows, Index in, Index out) {
  const auto input = columns_of(x, rows, in, 0, in);
  for_features(out, [&](Index first, Index count) {
    Strided<T> result(dw + first * in, count, in, Eigen::OuterStride<>(in));
    result.noalias() = columns_of(dy, rows, out, first, count).transpose() * input;
  });
}

template void linear<double>(const double*, const double*, double*, Index, Index, Index);
template void linear<float>(const float*, const float*, float*, Index, Index, Index);
template void linear_backward_input<double>(const double*, const double*, double*, Index, Index, Index);
template void linear_backward_input<float>(const float*, const float*, float*, Index, Index, Index);
template void linear_backward_weight<double>(const double*, const double*, double*, Index, Index, Index);
template void linear_backward_weight<float>(const float*, const float*, float*, Index, Index, Index);

}  // namespace periscope::cpu
