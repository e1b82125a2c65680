#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/common/config.h"
#include "sim/spec/profile.h"
#include "theory/predict.h"

namespace periscope {

enum class Verdict { agrees, disagrees, not_checked };

[[nodiscard]] std::string_view name_of(Verdict verdict);

/// One measured number beside its prediction (T19).
struct Cell {
  Statistic statistic = Statistic::second_moment;
  Site site = Site::x_out;
  std::optional<Weight> weight = {};  ///< of a weight's gradient, instead of a site
  int index = 0;                      ///< as in Curve: depth, sublayer, or layer of a weight
  double measured = 0.0;
  double measured_error = 0.0;
  double predicted = 0.0;
  double predicted_error = 0.0;
  double allowance = 0.0;  ///< finite-width term and rounding: what |measured − predicted| may be for free

  /// (measured − predicted) in combined standard errors; 0 when both are exact and equal.
  [[nodiscard]] double z() const;
  /// "second_moment x_out[3]" or "log_grad_sq q[3]".
  [[nodiscard]] std::string name() const;
  /// How far |measured − predicted| goes beyond the allowance, in combined standard errors.
  [[nodiscard]] double excess() const;
};

/// Welch–Satterthwaite: of a mean of `seeds` numbers against a prediction from `replicates`.
double degrees_of_freedom(const Cell& cell, int seeds, int replicates);
/// Two-sided p-value of the cell's excess under Student's t, and the excess at which it is `level`.
double p_value(const Cell& cell, double degrees);
double critical_excess(double degrees, double level);
/// Šidák: the level of each of `tests` tests that together err with probability `familywise_error`.
double sidak_level(double familywise_error, std::size_t tests);

/// The judgement of one stack.
struct Agreement {
  Verdict verdict = Verdict::not_checked;
  std::string reason;  ///< why it was not checked
  std::vector<Cell> cells;
  double critical = 0.0;  ///< excess at which the worst cell is rejected (Student's t, Šidák)
  int rejected = 0;
  int worst = -1;  ///< cell with the smallest p-value
};

/// A stack's two profiles.
struct Comparison {
  const StackSpec& spec;
  const Profile& measured;
  int seeds;
  int diverged_seeds;
  DType dtype;
  const theory::Prediction& prediction;
};

/// What verdicts compare: second moment, variance and token cosine of the stream (x_out), second moment and
/// token cosine of every module's output (f_out), and the second moment of ResiDual's second stream; with gradients,
/// the mean over seeds of the logarithm of grad_sq of the stream at every depth and of every matrix, and of the score
/// path's share in every attention.
/// Needs 4 seeds. A cell is rejected when its two-sided p-value under Student's t (Welch's degrees of
/// freedom), for the part of the difference beyond the finite-width term c·w·scale (T19), falls below
/// 1 − (1 − familywise_error)^(1/n), n being the number of cells of all comparisons together. `scale` is the
/// prediction for moments and 1 for cosines and logarithms, each with its own c (attention's output has that of the
/// cosines); w is
/// theory::Prediction::finite_width, of a gradient that of the way to the top and back. Logarithms may also differ by
/// half their variance over seeds: what a log-normal spread of width-limited gradients takes off the mean of logs. A
/// share p may differ by what these allowances of log(p/(1−p)) come to, p(1−p) times as much.
std::vector<Agreement> judge(const std::vector<Comparison>& comparisons, const AgreementOptions& options);

}  // namespace periscope
