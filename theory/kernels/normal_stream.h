#pragma once

#include <array>
#include <cstdint>

#include "sim/spec/streams.h"
#include "theory/kernels/gaussian.h"

namespace periscope::theory {

/// Names a stream of random numbers: its replicate, and what they are for.
struct ChainStream {
  std::uint64_t seed;
  std::uint64_t replicate;
  std::uint64_t place;  ///< see theory::place
};

/// Independent standard normal numbers: Threefry counters and Box–Muller, many at a time. A number has the resolution
/// of float, and none is beyond ±6.8: what that takes off a second moment is below 1e-9.
class NormalStream {
 public:
  explicit NormalStream(ChainStream stream);

  /// [rows, cols], column by column.
  Matrix normals(Index rows, Index cols) { return filled<double>(rows, cols); }
  Eigen::MatrixXf normals_float(Index rows, Index cols) { return filled<float>(rows, cols); }
  /// Independent signs, ±1 [rows, cols].
  Eigen::MatrixXf signs_float(Index rows, Index cols);
  /// A with A Aᵀ ~ Wishart(I_size, degrees), the Gram matrix of `size` rows of `degrees` standard normal numbers:
  /// Bartlett's lower-triangular factor [size, size], or, where degrees < size makes the matrix singular, those
  /// rows themselves [size, degrees].
  Matrix wishart_factor(Index size, Index degrees);

 private:
  template <class Real>
  Eigen::MatrixX<Real> filled(Index rows, Index cols) {
    Eigen::MatrixX<Real> m(rows, cols);
    fill(m.data(), m.size());
    return m;
  }
  /// The next `count` numbers.
  template <class Real>
  void fill(Real* out, Index count);

  std::array<std::uint64_t, 4> key_;
  std::uint64_t counter_ = 0;
};

}  // namespace periscope::theory
