#pragma once

#include "experiments/engine/settings/config.h"

namespace periscope::gradients {

/// [gradients]: what the commands of `periscope gradients` run through.
struct GradientConfig : config::Config {
  std::vector<int> layers{4, 8, 16, 32};             ///< depth: L
  std::vector<double> qk_factors{0.0, 1.0};          ///< attenuation: init.qk_factor
  std::vector<double> down_factors{0.1, 1.0, 10.0};  ///< crossover: init.down_factor
};

extern const Section<GradientConfig> gradients_section;

}  // namespace periscope::gradients
