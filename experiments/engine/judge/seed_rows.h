#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "experiments/engine/judge/test.h"

namespace periscope::judge {

Estimate mean_over_seeds(const std::vector<double>& per_seed);

/// Returns entry i of a curve with its standard error.
inline Estimate entry(const Curve& curve, std::size_t i) { return {curve.value[i], curve.standard_error[i]}; }

/// Returns the curve that has these entries.
Curve curve_of(const std::vector<Estimate>& entries);

/// One row of numbers per seed. The standard error of a sum over a row comes from its spread over seeds, so that
/// correlations within a seed count.
class SeedRows {
 public:
  void add(std::vector<double> row) { rows_.push_back(std::move(row)); }
  /// Appends a number to the row of a seed, which may be the next new one.
  void append(std::size_t seed, double value) {
    rows_.resize(std::max(rows_.size(), seed + 1));
    rows_[seed].push_back(value);
  }
  [[nodiscard]] int seeds() const { return static_cast<int>(rows_.size()); }
  [[nodiscard]] const std::vector<std::vector<double>>& rows() const { return rows_; }
  /// Mean and standard error of every number.
  [[nodiscard]] Curve curve() const;
  /// Mean and standard error of Σ_i weights_i row_i.
  [[nodiscard]] Estimate sum(const std::vector<double>& weights) const;

 private:
  std::vector<std::vector<double>> rows_;
};

/// Returns weights a_i such that the slope of the least-squares line through (x_i, y_i) is Σ a_i y_i, zero for the
/// first `from` points, which are left out. Throws std::invalid_argument for fewer than two different x.
std::vector<double> slope_weights(const std::vector<double>& x, std::size_t from = 0);

}  // namespace periscope::judge
