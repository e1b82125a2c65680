#pragma once

#include <cstddef>
#include <vector>

#include "theory/kernels/gaussian.h"

namespace periscope::theory {

/// One matrix per pair of streams (sim/spec/block.h), bilinear in the two streams, for example E⟨x_i, x_j⟩.
template <class M>
class StreamPairs {
 public:
  StreamPairs(std::size_t streams, const M& each) : matrices_(streams, std::vector<M>(streams, each)) {}

  [[nodiscard]] std::size_t count() const { return matrices_.size(); }
  [[nodiscard]] M& operator()(std::size_t i, std::size_t j) { return matrices_[i][j]; }
  [[nodiscard]] const M& operator()(std::size_t i, std::size_t j) const { return matrices_[i][j]; }

  /// Returns the matrix of the pair (Σ_i a_i x_i, Σ_j b_j x_j).
  [[nodiscard]] M sum(const std::vector<double>& a, const std::vector<double>& b) const {
    M sum = M::Zero(matrices_[0][0].rows(), matrices_[0][0].cols());
    for (std::size_t i = 0; i < count(); ++i) {
      for (std::size_t j = 0; j < count(); ++j) {
        const auto weight = static_cast<typename M::Scalar>(a[i] * b[j]);
        if (weight != 0) sum += weight * matrices_[i][j];
      }
    }
    return sum;
  }
  /// Returns the matrices of the mixed streams Σ_j mixing_ij x_j.
  [[nodiscard]] StreamPairs mixed(const std::vector<std::vector<double>>& mixing) const {
    StreamPairs next = *this;
    for (std::size_t i = 0; i < count(); ++i) {
      for (std::size_t j = 0; j < count(); ++j) next.matrices_[i][j] = sum(mixing[i], mixing[j]);
    }
    return next;
  }
  /// Adds weights_i y to every stream i, for y independent of all streams; `own` is the matrix of the pair (y, y).
  void add(const std::vector<double>& weights, const M& own) {
    for (std::size_t i = 0; i < count(); ++i) {
      for (std::size_t j = 0; j < count(); ++j) {
        const auto weight = static_cast<typename M::Scalar>(weights[i] * weights[j]);
        if (weight != 0) matrices_[i][j] += weight * own;
      }
    }
  }
  /// Scales a stream: matrix rows by `rows` where it is first in a pair, columns by `columns` where it is second.
  template <class Factors>
  void scale(std::size_t stream, const Factors& rows, const Factors& columns) {
    for (std::size_t j = 0; j < count(); ++j) {
      matrices_[stream][j] = rows.asDiagonal() * matrices_[stream][j];
      matrices_[j][stream] = matrices_[j][stream] * columns.asDiagonal();
    }
  }

 private:
  std::vector<std::vector<M>> matrices_;
};

}  // namespace periscope::theory
