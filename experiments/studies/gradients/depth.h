#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "experiments/engine/run/progress.h"
#include "experiments/engine/study/study.h"
#include "experiments/studies/gradients/outcome.h"

namespace periscope::gradients {

/// The dependence of the gradient of the last MLP matrix, ‖∂loss/∂W_down‖_F of layer L, on the depth L (G8, T12h).
struct DepthLaw {
  StackSpec spec;  ///< but for its layers
  std::string refusal;
  judge::SeedRows gradient;   ///< log ‖∂loss/∂W_down‖, a row per seed, at every measured depth
  Curve predicted;            ///< the same, at measured and then at greater depths, until theory refuses one
  std::vector<bool> precise;  ///< whether that is as precise as was wanted; at greater depths it need not be
  judge::Test exponent;       ///< of L, over all measured depths
  judge::Test late_exponent;  ///< over the last three: nearer to the limit L → ∞
  /// Exponent that theory has between its two greatest depths; NaN if it refuses one of those.
  double limit = std::numeric_limits<double>::quiet_NaN();
  std::optional<judge::Claim> claim;
};

/// T22: half of the ½ by which G8's two laws differ, L⁰ of Post-LN and L^(−½) of Pre-LN.
inline constexpr double exponent_power_limit = 0.25;

struct DepthResult {
  std::vector<double> layers;         ///< measured depths
  std::vector<double> theory_layers;  ///< these, and greater ones
  std::vector<DepthLaw> laws;
  bool stopped_early = false;  ///< laws are of the stacks that were finished, and not judged
};

/// Throws ConfigError for depths that give no law.
void require_depths(const GradientConfig& config);

/// Runs every stack of `config` at every depth of config.layers, with the same seeds at all depths: an
/// exponent is fitted to the logarithms of every seed, and its error is the spread over seeds. Throws as
/// require_depths.
DepthResult gradient_depth(const GradientConfig& config, stacks::Progress& progress);

const dataset::Schema& depth_schema();
study::Outcome depth_outcome(const DepthResult& result);

}  // namespace periscope::gradients
