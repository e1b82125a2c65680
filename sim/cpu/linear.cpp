#include <algorithm>

#include "sim/cpu/eigen_maps.h"
#include "sim/cpu/kernels.h"

namespace periscope::cpu {
namespace {

/// Output features per piece of work: wide enough for Eigen's kernel, and about 8 pieces so that
/// threads share them evenly. A function of the shape alone.
Index features_per_piece(Index out) { return std::clamp<Index>((out / 8 + 31) / 32 * 32, 32, 512); }

}  // namespace

// Eigen's own threading is off (EIGEN_DONT_PARALLELIZE): it blocks the inner dimension by the number of
// threads, which would change the rounding.
template <class T>
void linear(const T* x, const T* w, T* y, Index rows, Index in, Index out) {
  const Index step = features_per_piece(out);
  const Index pieces = (out + step - 1) / step;
  const ConstStrided<T> input(x, rows, in, Eigen::OuterStride<>(in));
#pragma omp parallel for schedule(dynamic, 1)
  for (Index piece = 0; piece < pieces; ++piece) {
    const Index first = piece * step;
    const Index width = std::min(step, out - first);
    const ConstStrided<T> weight(w + first * in, width, in, Eigen::OuterStride<>(in));
    Strided<T> output(y + first, rows, width, Eigen::OuterStride<>(out));
    output.noalias() = input * weight.transpose();
  }
}

template void linear<double>(const double*, const double*, double*, Index, Index, Index);
template void linear<float>(const float*, const float*, float*, Index, Index, Index);

}  // namespace periscope::cpu
