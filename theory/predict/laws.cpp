#include "theory/predict/laws.h"

#include <cmath>
#include <numbers>

namespace periscope::theory {

double peri_second_moment(double q0, double gamma, int sublayers) { return q0 + sublayers * gamma * gamma; }

double xiong_pre_increment(int tokens, double token_cosine) {
  return (1.0 + (tokens - 1) * token_cosine) / tokens + 0.5;
}

double xiong_post_sum() { return 1.5; }

double lns_second_moment(double q0, double branch_per_layer, int layers) {
  double harmonic = 0.0;
  for (int l = layers; l >= 1; --l) harmonic += 1.0 / l;
  return q0 + branch_per_layer * harmonic;
}

double pre_branch_ratio(double q0, double branch, int sublayer) { return std::sqrt(branch / (q0 + sublayer * branch)); }

double typical_maximum(double n, double sigma) {
  const double root = std::sqrt(2.0 * std::log(n));
  return sigma * (root - (std::log(std::log(n)) + std::log(4.0 * std::numbers::pi)) / (2.0 * root));
}

}  // namespace periscope::theory
