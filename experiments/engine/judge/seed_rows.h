#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "experiments/engine/judge/test.h"

namespace periscope::judge {

Estimate mean_over_seeds(const std::vector<double>& per_seed);

/// Returns entry i of a curve and its standard error.
inline Estimate entry(const Curve& curve, std::size_t i) { return {curve.value[i], curve.standard_error[i]}; }

Curve curve_of(const std::vector<Estimate>& entries);

/// One row of numbers per seed. Standard errors of sums over a row are computed from the spread of the sum over seeds,
/// so that they include correlations within a seed.
class SeedRows {
 public:
  void add(std::vector<double> row) { rows_.push_back(std::move(row)); }
  /// Appends a number to the row of a seed, and adds rows as needed.
  void append(std::size_t seed, double value) {
    rows_.resize(std::max(rows_.size(), seed + 1));
    rows_[seed].push_back(value);
  }
  [[nodiscard]] int seeds() const { return static_cast<int>(rows_.size()); }
  [[nodiscard]] const std::vector<std::vector<double>>& rows() const { return rows_; }
  /// Returns the mean and standard error of every column.
  [[nodiscard]] Curve curve() const;
  /// Returns the mean and standard error of Σ_i weights_i row_i.
  [[nodiscard]] Estimate sum(const std::vector<double>& weights) const;

 private:
  std::vector<std::vector<double>> rows_;
};

/// Returns weights a_i such that Σ a_i y_i is the slope of the least-squares line through (x_i, y_i). The first `from`
/// points are ignored and have weight 0. Throws std::invalid_argument for fewer than two different x.
std::vector<double> slope_weights(const std::vector<double>& x, std::size_t from = 0);

/// Returns the slope of the least-squares line through (x_i, y_i); NaN for fewer than two points.
double slope_of(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace periscope::judge
