#include "experiments/gradients/outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/common/gradient_allowance.h"
#include "experiments/common/token_ids.h"
#include "sim/numerics/allowances.h"

namespace periscope {

theory::Prediction predict_gradients(const Config& config, const StackSpec& spec, const StackSpec& told,
                                     theory::GradientPaths paths) {
  return theory::predict(told, distinct_token_ids(spec, config.run.seed, config.run.seeds),
                         {.tolerance = config.theory.tolerance,
                          .gradient_tolerance = config.theory.gradient_tolerance,
                          .seed = config.run.seed,
                          .labels = distinct_label_ids(spec, config.run.seed, config.run.seeds),
                          .paths = paths,
                          .fault = config.theory.fault});
}

double log_norm_bias(const Config& config, const StackSpec& spec, const theory::Prediction& prediction,
                     std::size_t depth, double variance, bool of_attention) {
  const double term = gradient_width_term(spec, prediction.finite_width, depth, of_attention);
  return 0.5 * config.agreement.finite_width_gradient * term + variance +
         way_back_allowance(format_of(config.run.dtype));
}

std::string plus_minus(const Estimate& estimate) {
  if (!std::isfinite(estimate.value)) return "-";
  const double error = estimate.error;
  if (!(error > 0.0)) return fmt::format("{:.4g}", estimate.value);
  const int digits = std::clamp(1 + static_cast<int>(std::ceil(-std::log10(error))), 0, 9);
  return fmt::format("{:.{}f} ± {:.{}f}", estimate.value, digits, error, digits);
}

std::string verdict_words(const Finding& finding) {
  if (finding.verdict == Verdict::inconclusive) {
    return fmt::format("inconclusive ({})", finding.reason);
  }
  if (finding.verdict != Verdict::disagrees) return std::string(name_of(finding.verdict));
  return fmt::format("disagrees ({:.1f} / {:.1f})", finding.cell().excess(), finding.critical);
}

NetcdfVariable& Columns::variable(const std::string& name, const std::string& long_name,
                                  const std::vector<std::string>& tail, bool text) {
  for (NetcdfVariable& v : data_.variables) {
    if (v.name == name) return v;
  }
  std::vector<std::string> dimensions = dimensions_;
  dimensions.insert(dimensions.end(), tail.begin(), tail.end());
  NetcdfVariable v{.name = name,
                   .dimensions = std::move(dimensions),
                   .values = {},
                   .units = std::string(text ? "" : "1"),
                   .long_name = long_name};
  if (text) v.values = std::vector<std::string>{};
  return data_.variables.emplace_back(std::move(v));
}

void Columns::add(const std::string& name, std::vector<double> values, const std::string& long_name,
                  const std::vector<std::string>& tail) {
  std::size_t length = 1;
  for (const std::string& dimension : tail) {
    for (const auto& [known, size] : data_.dimensions) length *= known == dimension ? size : 1;
  }
  values.resize(length, std::numeric_limits<double>::quiet_NaN());
  auto& all = std::get<std::vector<double>>(variable(name, long_name, tail, false).values);
  all.insert(all.end(), values.begin(), values.end());
}

void Columns::add(const std::string& name, const std::string& word, const std::string& long_name) {
  std::get<std::vector<std::string>>(variable(name, long_name, {}, true).values).push_back(word);
}

void Columns::add(const std::string& name, const Finding& finding, const std::string& long_name) {
  add(fmt::format("{}_measured", name), std::vector{finding.measured.value},
      fmt::format("{}: mean over seeds", long_name));
  add(fmt::format("{}_stderr", name), std::vector{finding.measured.error},
      fmt::format("{}: standard error over seeds", long_name));
  add(fmt::format("{}_predicted", name), std::vector{finding.predicted.value},
      fmt::format("{}: prediction", long_name));
  add(fmt::format("{}_predicted_stderr", name), std::vector{finding.predicted.error},
      fmt::format("{}: standard error of the prediction", long_name));
  add(fmt::format("{}_power", name), std::vector{finding.power},
      fmt::format("{}: error that would have been rejected with 95 % probability (T22)", long_name));
  add_verdict(fmt::format("{}_verdict", name), &finding, fmt::format("{}: agreement with theory (T19)", long_name));
}

void Columns::add_verdict(const std::string& name, const Finding* finding, const std::string& long_name) {
  add(name, std::string(name_of(finding != nullptr ? finding->verdict : Verdict::not_checked)), long_name);
  add(fmt::format("{}_reason", name), finding != nullptr ? finding->reason : std::string(),
      fmt::format("{}: why it is inconclusive", long_name));
}

void Columns::add(const std::string& name, const Curve& measured, const Curve& predicted, const std::string& long_name,
                  const std::string& along) {
  add(fmt::format("{}_measured", name), measured.value, fmt::format("{}: mean over seeds", long_name), {along});
  add(fmt::format("{}_stderr", name), measured.standard_error, fmt::format("{}: standard error over seeds", long_name),
      {along});
  add(fmt::format("{}_predicted", name), predicted.value, fmt::format("{}: prediction", long_name), {along});
  add(fmt::format("{}_predicted_stderr", name), predicted.standard_error,
      fmt::format("{}: standard error of the prediction", long_name), {along});
}

}  // namespace periscope
