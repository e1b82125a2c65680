#pragma once

#include <array>
#include <cstdint>

#include "sim/spec/streams.h"
#include "theory/kernels/gaussian.h"

namespace periscope::theory {

/// Key of a stream of random numbers.
struct StreamKey {
  std::uint64_t seed;
  std::uint64_t replicate;
  std::uint64_t place;  ///< sublayer or purpose, see theory::place
};

/// Independent standard normal numbers from Threefry counters and the Box–Muller transform. Numbers have float
/// resolution and magnitude at most 6.8, which changes the second moment by less than 1e-9.
class NormalStream {
 public:
  explicit NormalStream(StreamKey stream);

  /// Returns normal numbers [rows, cols], drawn in column-major order.
  Matrix normals(Index rows, Index cols) { return filled<double>(rows, cols); }
  Eigen::MatrixXf normals_float(Index rows, Index cols) { return filled<float>(rows, cols); }
  /// Returns independent uniform signs ±1 [rows, cols].
  Eigen::MatrixXf signs_float(Index rows, Index cols);
  /// Returns A with A Aᵀ ~ Wishart(I_size, degrees), the Gram matrix of `size` rows of `degrees` standard normal
  /// numbers: Bartlett's lower-triangular factor [size, size], or the rows [size, degrees] if degrees < size, where the
  /// Wishart matrix is singular.
  Matrix wishart_factor(Index size, Index degrees);

 private:
  template <class Real>
  Eigen::MatrixX<Real> filled(Index rows, Index cols) {
    Eigen::MatrixX<Real> m(rows, cols);
    fill(m.data(), m.size());
    return m;
  }
  /// Writes the next `count` numbers.
  template <class Real>
  void fill(Real* out, Index count);

  std::array<std::uint64_t, 4> key_;
  std::uint64_t counter_ = 0;
};

}  // namespace periscope::theory
