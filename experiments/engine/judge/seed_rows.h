#pragma once

#include <utility>
#include <vector>

#include "experiments/engine/judge/test.h"

namespace periscope::judge {

Estimate mean_over_seeds(const std::vector<double>& per_seed);

/// Returns entry i of a curve with its standard error.
inline Estimate entry(const Curve& curve, std::size_t i) { return {curve.value[i], curve.standard_error[i]}; }

/// One row of numbers per seed. Sums of a row's numbers get their standard error from their spread over seeds, so that
/// it does not matter how the numbers of a seed depend on each other.
class SeedRows {
 public:
  void add(std::vector<double> row) { rows_.push_back(std::move(row)); }
  [[nodiscard]] int seeds() const { return static_cast<int>(rows_.size()); }
  [[nodiscard]] const std::vector<std::vector<double>>& rows() const { return rows_; }
  /// Mean and standard error of every number.
  [[nodiscard]] Curve curve() const;
  /// Mean and standard error of Σ_i weights_i row_i.
  [[nodiscard]] Estimate sum(const std::vector<double>& weights) const;

 private:
  std::vector<std::vector<double>> rows_;
};

/// Weights a_i with which the slope of the least-squares line through (x_i, y_i) is Σ a_i y_i. They are zero for the
/// first `from` points, which take no part. Throws std::invalid_argument for fewer than two different x.
std::vector<double> slope_weights(const std::vector<double>& x, std::size_t from = 0);

/// Tests Σ weights_i y_i of rows against the same sum of a predicted curve. The prediction's error is taken as if those
/// of all points were one; the tolerated bias is that of a bias of one sign, |Σ weights_i bias_i|. `precise` says of
/// every point whether its prediction is precise enough; points of weight 0 do not count.
Test sum_test(const SeedRows& measured, const Curve& predicted, const std::vector<bool>& precise, int replicates,
              const std::vector<double>& weights, const std::vector<double>& bias);

}  // namespace periscope::judge
