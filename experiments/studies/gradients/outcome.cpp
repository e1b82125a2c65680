#include "experiments/studies/gradients/outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/core/judge/compared_cells.h"
#include "experiments/core/judge/gradient_allowance.h"
#include "experiments/core/stacks/token_ids.h"
#include "sim/numerics/allowances.h"

namespace periscope::gradients {

theory::Prediction predict_gradients(const config::Config& config, const StackSpec& spec, const StackSpec& told,
                                     theory::GradientPaths paths) {
  theory::Prediction prediction =
      theory::predict(told, stacks::distinct_token_ids(spec, config.run.seed, config.run.seeds),
                      {.tolerance = config.theory.tolerance,
                       .gradient_tolerance = config.theory.gradient_tolerance,
                       .seed = config.run.seed,
                       .labels = stacks::distinct_label_ids(spec, config.run.seed, config.run.seeds),
                       .paths = paths,
                       .fault = config.theory.fault});
  if (prediction.refusal.empty()) prediction.refusal = prediction.gradient_refusal;
  if (prediction.refusal.empty()) prediction.refusal = judge::out_of_range(told, prediction.profile, config.run.dtype);
  return prediction;
}

double log_norm_bias(const config::Config& config, const StackSpec& spec, const theory::Prediction& prediction,
                     std::size_t depth, double variance, bool of_attention) {
  const double term = judge::gradient_width_term(spec, prediction.finite_width, depth, of_attention);
  return 0.5 * config.agreement.finite_width_gradient * term + variance +
         way_back_allowance(format_of(config.run.dtype));
}

std::string plus_minus(const judge::Estimate& estimate) {
  if (!std::isfinite(estimate.value)) return "-";
  const double error = estimate.error;
  if (!(error > 0.0) || std::isinf(error)) return fmt::format("{:.4g}", estimate.value);
  if (error >= 1e6) return fmt::format("{:.4g} ± {:.2g}", estimate.value, error);
  const int digits = std::clamp(1 + static_cast<int>(std::ceil(-std::log10(error))), 0, 9);
  return fmt::format("{:.{}f} ± {:.{}f}", estimate.value, digits, error, digits);
}

std::string shown(double x, const char* format) { return std::isnan(x) ? "-" : fmt::format(fmt::runtime(format), x); }

std::string verdict_words(const judge::Finding& finding) {
  if (finding.verdict != judge::Verdict::disagrees && !finding.reason.empty()) {
    return fmt::format("{} ({})", judge::name_of(finding.verdict), finding.reason);
  }
  if (finding.verdict != judge::Verdict::disagrees) return std::string(judge::name_of(finding.verdict));
  return fmt::format("disagrees ({:.1f} / {:.1f})", finding.cell().excess(), finding.critical);
}

}  // namespace periscope::gradients
