#pragma once

#include <vector>

#include "sim/spec/block.h"
#include "theory/first_steps/moved_fields.h"

namespace periscope::theory {

/// The streams now. Per channel k of stream i: x_i = χ_i + y_i, y what follows the gradients.
struct MovedStreams {
  explicit MovedStreams(std::size_t streams)
      : own(streams, std::vector<Matrix>(streams)),
        cross(streams, std::vector<Sampled>(streams)),
        follows(streams),
        wanders(streams),
        response(streams, std::vector<Sampled>(streams)) {}

  std::vector<std::vector<Matrix>> own;        ///< [i][j]: E χ_i(s) χ_j(s') [now, now]
  std::vector<std::vector<Sampled>> cross;     ///< E x_i(s) x⁰_j(t) [now, all]
  std::vector<Sampled> follows;                ///< y_i, of sampled channels [now, channels]
  std::vector<Sampled> wanders;                ///< what of χ_i has changed and goes on, of sampled channels
  std::vector<std::vector<Sampled>> response;  ///< E ∂x_i(s)/∂(∂loss/∂x_j(t)) [now, trained]

  [[nodiscard]] std::size_t count() const { return follows.size(); }
  /// E x_i(s) x_j(s').
  [[nodiscard]] Matrix kernel(std::size_t i, std::size_t j) const;
  /// Multiplies a stream by `now` [now], and what it is held against by what a norm multiplied that by: before training
  /// [all], and when the steps were taken [trained].
  void scale(std::size_t stream, const Vector& now, const Vector& before, const Vector& own_times);
};

/// B_out of a branch now.
struct Written {
  Matrix own;        ///< kernel of what does not follow the gradients [now, now]
  Sampled cross;     ///< with B_out before training [now, all]
  Sampled follows;   ///< what does [now, channels]
  Sampled wanders;   ///< what of the first has changed and goes on [now, channels]
  Sampled response;  ///< with respect to the gradient of B_out [now, trained]
};

/// A MovedInput of zeros, of the sizes of these streams.
[[nodiscard]] MovedInput nothing_like(const MovedStreams& x);
/// Σ_i reads[i] x_i, what a branch reads before its norm A.
[[nodiscard]] MovedInput read_of(const MovedStreams& x, const std::vector<double>& reads);

/// A step's sums in front of its norms C.
MovedStreams added(const Step& step, const MovedStreams& x, const std::vector<Written>& written);

}  // namespace periscope::theory
