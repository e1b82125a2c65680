#include <cmath>

#include "sim/cuda/launch.h"
#include "sim/cuda/ops.h"

namespace periscope::cuda {
inline namespace PERISCOPE_CUDA_TARGET {
namespace {

/// Rotates one pair of every head of a row. The angle is computed in double, since positions may be large.
template <class T>
struct Rope {
  In<T> x;
  Out<T> y;
  In<double> frequencies;
  double direction;
  Index offset, tokens, heads, half;
  PERISCOPE_HOST_DEVICE void operator()(Index index) const {
    using C = Computed<T>;
    const Index row = index / half;
    const Index i = index % half;
    const double angle = static_cast<double>(offset + row % tokens) * (direction * frequencies[i]);
    const C c = static_cast<C>(std::cos(angle));
    const C s = static_cast<C>(std::sin(angle));
    for (Index head = 0; head < heads; ++head) {
      const Index first = (row * heads + head) * 2 * half + i;
      const C a = widen(x[first]);
      const C b = widen(x[first + half]);
      y[first] = narrow<T>(a * c - b * s);
      y[first + half] = narrow<T>(b * c + a * s);
    }
  }
};

template <class T>
void rotate(const Execution& execution, const Tensor& x, int heads, int sequences, const double* frequencies,
            Index offset, double direction, Tensor& y) {
  const Index half = x.cols() / heads / 2;
  for_each(execution, x.rows() * half,
           Rope<T>{data<T>(x), data<T>(y), frequencies, direction, offset, x.rows() / sequences, heads, half});
}

}  // namespace

void CudaBackend::run(const op::Rope& o) const {
  const std::shared_ptr<double> frequencies = execution_.uploaded(o.frequencies);
  with_type(o.x.dtype(), [&]<class T>(T) {
    rotate<T>(execution_, o.x, o.heads, o.sequences, frequencies.get(), o.offset, 1.0, o.y);
  });
}

void CudaBackend::run(const op::RopeBackward& o) const {
  const std::shared_ptr<double> frequencies = execution_.uploaded(o.frequencies);
  with_type(o.dy.dtype(),
            [&]<class T>(T) { rotate<T>(execution_, o.dy, o.heads, o.sequences, frequencies.get(), 0, -1.0, o.dx); });
}

}  // namespace PERISCOPE_CUDA_TARGET
}  // namespace periscope::cuda
