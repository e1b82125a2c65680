#pragma once

#include <cstddef>
#include <vector>

#include "theory/kernels/gaussian.h"

namespace periscope::theory {

/// A matrix for every pair of a stack's streams (sim/spec/block.h) that is bilinear in them, such as E⟨x_i, x_j⟩.
template <class M>
class StreamPairs {
 public:
  StreamPairs(std::size_t streams, const M& each) : of_(streams, std::vector<M>(streams, each)) {}

  [[nodiscard]] std::size_t count() const { return of_.size(); }
  [[nodiscard]] M& operator()(std::size_t i, std::size_t j) { return of_[i][j]; }
  [[nodiscard]] const M& operator()(std::size_t i, std::size_t j) const { return of_[i][j]; }

  /// The matrix of Σ_i a_i x_i with Σ_j b_j x_j.
  [[nodiscard]] M sum(const std::vector<double>& a, const std::vector<double>& b) const {
    M sum = M::Zero(of_[0][0].rows(), of_[0][0].cols());
    for (std::size_t i = 0; i < count(); ++i) {
      for (std::size_t j = 0; j < count(); ++j) {
        const auto weight = static_cast<typename M::Scalar>(a[i] * b[j]);
        if (weight != 0) sum += weight * of_[i][j];
      }
    }
    return sum;
  }
  /// The pairs of the streams Σ_j mixing_ij x_j.
  [[nodiscard]] StreamPairs mixed(const std::vector<std::vector<double>>& mixing) const {
    StreamPairs next = *this;
    for (std::size_t i = 0; i < count(); ++i) {
      for (std::size_t j = 0; j < count(); ++j) next.of_[i][j] = sum(mixing[i], mixing[j]);
    }
    return next;
  }
  /// Adds weights_i y to every stream, for a y that is independent of all of them; `own` is the matrix of y with y.
  void add(const std::vector<double>& weights, const M& own) {
    for (std::size_t i = 0; i < count(); ++i) {
      for (std::size_t j = 0; j < count(); ++j) {
        const auto weight = static_cast<typename M::Scalar>(weights[i] * weights[j]);
        if (weight != 0) of_[i][j] += weight * own;
      }
    }
  }
  /// Multiplies a stream by a factor for every row of its matrices, and for every column where it is the second one.
  template <class Factors>
  void scale(std::size_t stream, const Factors& rows, const Factors& columns) {
    for (std::size_t j = 0; j < count(); ++j) {
      of_[stream][j] = rows.asDiagonal() * of_[stream][j];
      of_[j][stream] = of_[j][stream] * columns.asDiagonal();
    }
  }

 private:
  std::vector<std::vector<M>> of_;
};

}  // namespace periscope::theory
