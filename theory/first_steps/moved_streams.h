#pragma once

#include <vector>

#include "sim/spec/block.h"
#include "theory/first_steps/training_tokens.h"

namespace periscope::theory {

/// The channels of a signal now, in three parts [now, D]: x = kept + wanders + follows.
struct MovedParts {
  Sampled kept;     ///< Σ_b keep_b x_b⁰, along what every branch b wrote to the token before training
  Sampled wanders;  ///< what else has changed, independent of the gradients
  Sampled follows;  ///< y, what follows the gradients

  static MovedParts zero(Eigen::Index rows, Eigen::Index width);
  [[nodiscard]] Sampled total() const { return kept + wanders + follows; }
  void add(double weight, const MovedParts& x);
  /// by ∘ x, row by row.
  void scale(const Vector& by);
};

/// A signal now.
struct MovedSignal {
  MovedParts x;
  /// Of E x(s) x(s') what the channels do not have, because a module's rows were sampled [now, now].
  Matrix correction;
  Sampled response;  ///< E ∂x(s)/∂(∂loss/∂x(t)) [now, trained]
};

/// The streams now; pairs [i][j] as in MovedSignal.
struct MovedStreams {
  explicit MovedStreams(std::size_t streams)
      : x(streams),
        correction(streams, std::vector<Matrix>(streams)),
        response(streams, std::vector<Sampled>(streams)) {}

  std::vector<MovedParts> x;
  std::vector<std::vector<Matrix>> correction;
  std::vector<std::vector<Sampled>> response;  ///< of stream i with respect to the gradient of stream j

  [[nodiscard]] std::size_t count() const { return x.size(); }
  /// Follows a norm of a stream, which multiplies tokens by `now` [now] and whose gradients came back with `times`
  /// [trained], but for the channels and the stream's response to itself.
  void scale(std::size_t stream, const Vector& now, const Vector& times);
  /// Σ_i weights[i](s) x_i(s), of which the gradient comes back with `back`[i](t): both [tokens].
  [[nodiscard]] MovedSignal sum(const std::vector<Vector>& weights, const std::vector<Vector>& back) const;
  [[nodiscard]] MovedSignal sum(const std::vector<double>& weights) const;
};

/// A step's sums before its norms C.
MovedStreams added(const Step& step, const MovedStreams& x, const std::vector<MovedSignal>& written);

}  // namespace periscope::theory
