#pragma once

#include <string>
#include <vector>

#include "experiments/engine/run/progress.h"
#include "experiments/engine/study/study.h"
#include "experiments/studies/gradients/outcome.h"

namespace periscope::gradients {

/// The change of gradients from the top of a stack to its bottom (G7, G9, G10), at one strength of attention.
struct Attenuation {
  StackSpec spec;  ///< with its init.qk_factor
  std::string refusal;
  judge::SeedRows stream;  ///< log ‖∂loss/∂x‖ (root mean square over tokens) after 0 … L layers, a row per seed
  judge::SeedRows down;    ///< log ‖∂loss/∂W_down‖_F of every layer
  Curve stream_predicted, down_predicted;
  judge::Test stream_rate, down_rate;     ///< slopes per layer towards the input; below 0: attenuation
  judge::Claim stream_claim, down_claim;  ///< Post-LN: G10, ½ ln(2/3); Pre-LN: G9, and Peri-LN: G7, uniform, 0

  [[nodiscard]] bool is_claimed() const { return !stream_claim.id.empty() && refusal.empty(); }
};

/// G10: a factor (2/3)^(1/2) per layer towards the input.
double claimed_attenuation_rate();

struct AttenuationResult {
  std::vector<Attenuation> cases;
  bool stopped_early = false;  ///< cases are those that were finished, and not judged
};

/// Throws ConfigError for one layer, which has no rate, and if --theory-set overrides the factor.
void require_rate(const GradientConfig& config);

/// Every stack of `config` at every factor of config.qk_factors; 0 is uniform attention. Throws as require_rate.
AttenuationResult gradient_attenuation(const GradientConfig& config, stacks::Progress& progress);

const dataset::Schema& attenuation_schema();
study::Outcome attenuation_outcome(const config::Config& config, const std::vector<Attenuation>& results);

}  // namespace periscope::gradients
