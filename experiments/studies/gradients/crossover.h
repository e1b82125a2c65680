#pragma once

#include <string>
#include <vector>

#include "experiments/engine/run/progress.h"
#include "experiments/engine/study/study.h"
#include "experiments/studies/gradients/outcome.h"

namespace periscope::gradients {

/// The last MLP matrix's gradient of one placement over that of Pre-LN with the same weights, against the size of the
/// MLP's output a, which init.down_factor sweeps (G6, T14).
struct Crossover {
  StackSpec spec;
  std::string refusal;
  judge::SeedRows log_ratio;  ///< log (‖∂W_down‖ / ‖∂W_down‖ of Pre-LN) at every factor, a row per seed
  judge::SeedRows log_rms_a;  ///< log rms of the last MLP's output
  judge::SeedRows
      log_law;  ///< T14's ratio from the measured sizes: what multiplies the output's gradient on its way to a
  Curve ratio_predicted, rms_a_predicted;
  std::vector<judge::Test> ratios;  ///< at every factor
  bool crosses = false;             ///< in the prediction
  judge::Test crossing;             ///< log rms a at which the ratio is 1
};

struct CrossoverResult {
  std::vector<double> factors;
  std::vector<Crossover> placements;  ///< all but Pre-LN
  judge::Claim order;                 ///< G6: Post > Pre > Peri
  std::string condition;              ///< when the order holds
  bool stopped_early = false;         ///< placements are those that were finished, and not judged
};

/// Throws ConfigError without "pre" and another one among the placements, for factors that do not rise, and if
/// --theory-set overrides the factor.
void require_ratios(const GradientConfig& config);

/// Placements share their random weights at equal seeds, so ratios are taken seed by seed. Throws as require_ratios.
CrossoverResult gradient_crossover(const GradientConfig& config, stacks::Progress& progress);

/// Finds where piecewise linear y(x) first changes its sign, x rising; NaN if it does not.
double first_crossing(const std::vector<double>& x, const std::vector<double>& y);

const dataset::Schema& crossover_schema();
study::Outcome crossover_outcome(const CrossoverResult& result);

}  // namespace periscope::gradients
