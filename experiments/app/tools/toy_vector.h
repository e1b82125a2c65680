#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace periscope::app {

/// One step of the toy example, and what the reviews print for it.
struct ToyStep {
  std::string formula;
  std::vector<double> value;
  double mean;
  double variance;  ///< population
  double standard_deviation;
  std::vector<double> reviewed_value;  ///< empty if the reviews print none
  double reviewed_deviation = 0.0;     ///< 0 if the reviews print none

  /// True if a printed number differs from the computed one by more than its last printed digit allows
  /// (the reviews print two decimals).
  [[nodiscard]] bool review_is_wrong() const;
};

/// x = [2, 0, −2] through one sublayer whose module is the identity (claims F5, F6), ε = 0, gain 1.
struct ToyVector {
  std::vector<ToyStep> peri;     ///< the paper's Peri-LN: x + Norm(f(Norm(x)))
  std::vector<ToyStep> reviews;  ///< what the reviews call Peri-LN: Norm(x + f(Norm(x))), which is A+C
};

/// Computed with the reference backend's ops.
ToyVector toy_vector();

std::string toy_table(const ToyVector& toy);
nlohmann::ordered_json toy_json(const ToyVector& toy);

}  // namespace periscope::app
