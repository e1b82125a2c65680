#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "experiments/studies/gradients/common.h"

namespace periscope::gradients {

/// The dependence of the gradient of the last MLP matrix, ‖∂loss/∂W_down‖_F of layer L, on the depth L (G8, T12h).
struct DepthLaw {
  StackSpec spec;  ///< but for its layers
  std::string refusal = {};
  /// log ‖∂loss/∂W_down‖ at every measured depth; predicted at greater ones too, until theory refuses one.
  Compared gradient = {};
  std::vector<bool> precise = {};  ///< whether a prediction is as precise as was wanted; a greater depth's need not be
  judge::Test exponent = {};       ///< of L, over all measured depths
  judge::Test late_exponent = {};  ///< over the last three: nearer to the limit L → ∞
  /// Exponent that theory has between its two greatest depths; NaN if it refuses one of those.
  double limit = std::numeric_limits<double>::quiet_NaN();
  std::optional<judge::Claim> claim = {};
};

/// T22: half of the ½ by which G8's two laws differ, L⁰ of Post-LN and L^(−½) of Pre-LN.
inline constexpr double exponent_power_limit = 0.25;

struct DepthResult : Cases<DepthLaw> {
  std::vector<double> layers;         ///< measured depths
  std::vector<double> theory_layers;  ///< these, and greater ones
};

/// Throws ConfigError for depths that give no law.
void require_depths(const GradientConfig& config);

/// Runs every stack of `config` at every depth of config.layers, with the same seeds at all depths: an
/// exponent is fitted to the logarithms of every seed, and its error is the spread over seeds. Throws as
/// require_depths.
DepthResult gradient_depth(const GradientConfig& config, stacks::Progress& progress);

const dataset::Schema& depth_schema();
study::Outcome depth_outcome(const GradientConfig& config, const DepthResult& result);

/// The change of one gradient's size from the top of a stack to its bottom.
struct Slope {
  Compared logs = {};       ///< log norm at every layer
  judge::Test rate = {};    ///< slope per layer towards the input; below 0: attenuation
  judge::Claim claim = {};  ///< Post-LN: G10, ½ ln(2/3); Pre-LN: G9, and Peri-LN: G7, uniform, 0
};

/// The change of gradients from the top of a stack to its bottom (G7, G9, G10), at one strength of attention.
struct Attenuation {
  StackSpec spec;  ///< with its init.qk_factor
  std::string refusal;
  Slope stream;  ///< ‖∂loss/∂x‖ (root mean square over tokens) after 0 … L layers
  Slope down;    ///< ‖∂loss/∂W_down‖_F of every layer

  [[nodiscard]] bool is_claimed() const { return !stream.claim.id.empty() && refusal.empty(); }
};

/// G10: a factor (2/3)^(1/2) per layer towards the input.
double claimed_attenuation_rate();

/// Throws ConfigError for one layer, which has no rate, and if --theory-set overrides the factor.
void require_rate(const GradientConfig& config);

/// Every stack of `config` at every factor of config.qk_factors; 0 is uniform attention. Throws as require_rate.
Cases<Attenuation> gradient_attenuation(const GradientConfig& config, stacks::Progress& progress);

const dataset::Schema& attenuation_schema();
study::Outcome attenuation_outcome(const GradientConfig& config, const Cases<Attenuation>& result);

/// Wang et al.'s decomposition (G11) of one stack's gradient: how much comes down the skip connections alone.
struct IdentityPath {
  StackSpec spec;
  std::string refusal;
  /// ‖s‖²/(‖s‖² + ‖r‖²) at depths 0 … 2L (decompose.h); predicted ‖s‖²/‖g‖²: branches are orthogonal to the skip path.
  Compared share;
  Compared log_skip;                ///< log (‖s_i‖/‖g_2L‖)
  judge::SeedRows cosine;           ///< of s_i and g_i
  judge::SeedRows branch;           ///< ‖b_i‖/‖g_2L‖, 0 … 2L−1
  judge::SeedRows branch_cosine;    ///< of b_i and g_2L
  std::vector<judge::Test> shares;  ///< share against prediction at every depth below the top
  double error = 0.0;               ///< largest ‖g − s − r‖/‖g‖ of all seeds and depths
  double error_bound = 0.0;         ///< what rounding may make of it
  double skip_change = 0.0;         ///< largest |‖s_i‖/‖g_2L‖ − 1|: 0 if the skip path is the identity
  bool has_gradient = true;  ///< false if g_i is zero or not finite for some seed and depth: nothing to decompose
  judge::Claim claim;        ///< G11: identity path for norms before, none for norms after
};

/// Throws ConfigError for a placement with two streams.
void require_one_stream(const config::Config& config);

/// Decomposes the gradient of every stack of `config` for every seed. Throws as require_one_stream.
Cases<IdentityPath> identity_path(const GradientConfig& config, stacks::Progress& progress);

const dataset::Schema& identity_path_schema();
study::Outcome identity_path_outcome(const GradientConfig& config, const Cases<IdentityPath>& result);

/// The share that attention's score path (queries and keys) has in one stack's gradient, and what a theory that leaves
/// it out gets wrong (T9).
struct ScorePath {
  StackSpec spec;
  std::string refusal;
  Curve share_measured, share_predicted;   ///< S/(S+V) at every layer's attention
  Curve log_measured, log_predicted;       ///< log grad_sq of the stream at depths 0 … 2L
  Curve without_scores;                    ///< the same, predicted with the value path alone
  std::vector<judge::Test> shares;         ///< per layer
  std::vector<judge::Test> with, without;  ///< the stream's logarithm per depth, against either prediction
};

Cases<ScorePath> score_path(const GradientConfig& config, stacks::Progress& progress);

const dataset::Schema& score_path_schema();
/// Returns an outcome whose code is about the whole theory; one without the score path is expected to be wrong.
study::Outcome score_path_outcome(const GradientConfig& config, const Cases<ScorePath>& result);

/// The last MLP matrix's gradient of one placement over that of Pre-LN with the same weights, against the size of the
/// MLP's output a, which init.down_factor sweeps (G6, T14).
struct Crossover {
  StackSpec spec;
  std::string refusal;
  Compared ratio;           ///< log (‖∂W_down‖ / ‖∂W_down‖ of Pre-LN) at every factor
  Compared rms_a;           ///< log rms of the last MLP's output
  judge::SeedRows log_law;  ///< T14's ratio from measured sizes: factors of the output's gradient on its way to a
  std::vector<judge::Test> ratios;  ///< at every factor
  bool crosses = false;             ///< in the prediction
  judge::Test crossing;             ///< log rms a at which the ratio is 1
};

struct CrossoverResult : Cases<Crossover> {
  std::vector<double> factors;
  judge::Claim order = {};     ///< G6: Post > Pre > Peri
  std::string condition = {};  ///< when the order holds
};

/// Throws ConfigError without "pre" and another one among the placements, for factors that do not rise, and if
/// --theory-set overrides the factor.
void require_ratios(const GradientConfig& config);

/// The cases are all placements but Pre-LN. Placements share their random weights at equal seeds, so ratios are taken
/// seed by seed. Throws as require_ratios.
CrossoverResult gradient_crossover(const GradientConfig& config, stacks::Progress& progress);

/// Finds where piecewise linear y(x) first changes its sign, x rising; NaN if it does not.
double first_crossing(const std::vector<double>& x, const std::vector<double>& y);

const dataset::Schema& crossover_schema();
study::Outcome crossover_outcome(const GradientConfig& config, const CrossoverResult& result);

}  // namespace periscope::gradients
