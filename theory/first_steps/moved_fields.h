#pragma once

#include <vector>

#include "theory/first_steps/initial_stack.h"
#include "theory/first_steps/update_law.h"

namespace periscope::theory {

/// What matrices read now, x, beside what they read before training, x⁰. Per channel. Rows are TokensNow.
struct MovedInput {
  Matrix own;       ///< E x(s) x(s') [now, now]
  Sampled cross;    ///< E x(s) x⁰(t) [now, all]
  Sampled follows;  ///< y, the part that follows the gradients, of sampled channels [now, channels]
  Sampled wanders;  ///< e, what else has changed, where it goes on from step to step [now, channels]
  Sampled response;  ///< E ∂x(s)/∂d(t), d what these matrices add to the gradient of x at t's own step [now, trained]
};

/// What matrices read of every batch when its step was taken, as their updates keep it.
class ReadHistory {
 public:
  explicit ReadHistory(const TrainingTokens& tokens, Eigen::Index channels)
      : keep_(tokens.trained()),
        follows_(tokens.trained(), channels),
        wanders_(tokens.trained(), channels),
        seen_(tokens.trained(), tokens.trained()) {}

  /// E x(s) x(t), s now and t when its step was taken [now, trained].
  [[nodiscard]] Sampled cross_with(const MovedInput& input, const TokensNow& now) const;
  /// The same among the batches that are done [trained, trained].
  [[nodiscard]] Sampled seen(const TokensNow& now) const { return seen_.topLeftCorner(now.trained(), now.trained()); }
  /// Keeps the next batch; `keep` as in MovedFields, `cross` from cross_with.
  void append(const MovedInput& input, const TokensNow& now, const Eigen::VectorXf& keep, const Sampled& cross);

 private:
  Eigen::VectorXf keep_;
  Sampled follows_, wanders_;
  Sampled seen_;
};

/// Fields z = W x of sampled rows of one matrix: before training, and the gradients at every step.
struct RowFields {
  Sampled before;    ///< [all, rows]
  Sampled gradient;  ///< ∂loss/∂z [all batches, rows], filled batch by batch
};

/// The moments of what the optimizer took off a matrix's entries, of every row.
struct RowMoments {
  std::vector<UpdateLaw::Moments> of_row;

  /// E ∂U/∂a_b of every row [trained, rows], each token with its batch.
  [[nodiscard]] Sampled slopes(const TokensNow& now) const;
  [[nodiscard]] double mean_square() const;
};
/// For Gaussian inputs of kernel k [trained, trained] and gradients g [trained, rows]: from the covariance over the
/// inputs of an entry's gradients Σ_t g(t) x_j(t), batch by batch.
RowMoments row_moments(const Sampled& k, const Sampled& g, const TokensNow& now, const UpdateLaw& law);

/// Fields now.
struct MovedFields {
  Sampled values;        ///< z [now, rows]
  double update_square;  ///< mean square of an entry of (W − W₀)·x of the held-out tokens
  // E ∂z(s)/∂g(t) = variance·D·response(s,t) − D·cross(s,t)·slope(t,row) + D·v(s,row)·w(t,row), response that of
  // FieldMover.
  Sampled slope;  ///< [trained, rows]
  Sampled v;      ///< [now, rows]
  Sampled w;      ///< [trained, rows]; empty where U is linear
};

/// What moves the fields of the matrices that read one signal.
class FieldMover {
 public:
  /// `initial`: the signal's kernel before training [all, all]. The references outlive this.
  FieldMover(const Sampled& initial, const MovedInput& input, const ReadHistory& history, const TokensNow& now,
             const UpdateLaw& law, int width, StepFault fault);

  /// `variance` of the matrix's entries; `projection` has the numbers of its rows, the same at all times, and `fresh`
  /// others at every time. Rows of the second half are those of the first with the signs of all that is random turned.
  [[nodiscard]] MovedFields move(const RowFields& fields, double variance, NormalStream projection,
                                 NormalStream& fresh) const;
  [[nodiscard]] const Eigen::VectorXf& keep() const { return keep_; }
  /// As the update sees it.
  [[nodiscard]] const Sampled& cross() const { return cross_; }
  [[nodiscard]] const Sampled& true_cross() const { return true_cross_; }
  /// The input's response as these matrices meet it, which have lost to decay, then and now.
  [[nodiscard]] const Sampled& response() const { return response_; }
  [[nodiscard]] double width() const { return width_; }

 private:
  const MovedInput& input_;
  const TokensNow& now_;
  const UpdateLaw& law_;
  double width_;
  StepFault fault_;
  Eigen::VectorXf keep_;
  Sampled fresh_factor_;
  Sampled true_cross_, cross_;
  Sampled seen_;
  Sampled response_;
};

/// What passes through matrices as they were before training, back when a step was taken and forward now, meets them
/// with what decay has left of them: `response` [now, trained] times that.
Sampled decayed(const Sampled& response, const UpdateLaw& law, const TokensNow& now);

/// A kernel as an update under `fault` sees it.
Sampled seen_kernel(const Sampled& k, StepFault fault);

/// (x, −x): columns for the first half of the rows, and the second.
Sampled both_signs(const Sampled& x);

}  // namespace periscope::theory
