#include "experiments/studies/gradients/outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/core/judge/compared_cells.h"
#include "experiments/core/judge/gradient_allowance.h"
#include "experiments/core/stacks/token_ids.h"
#include "sim/numerics/allowances.h"

namespace periscope::gradients {

theory::Prediction predict_gradients(const Config& config, const StackSpec& spec, const StackSpec& told,
                                     theory::GradientPaths paths) {
  theory::Prediction prediction =
      theory::predict(told, distinct_token_ids(spec, config.run.seed, config.run.seeds),
                      {.tolerance = config.theory.tolerance,
                       .gradient_tolerance = config.theory.gradient_tolerance,
                       .seed = config.run.seed,
                       .labels = distinct_label_ids(spec, config.run.seed, config.run.seeds),
                       .paths = paths,
                       .fault = config.theory.fault});
  if (prediction.refusal.empty()) prediction.refusal = prediction.gradient_refusal;
  if (prediction.refusal.empty()) prediction.refusal = out_of_range(told, prediction.profile, config.run.dtype);
  return prediction;
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
  if (!(error > 0.0) || std::isinf(error)) return fmt::format("{:.4g}", estimate.value);
  if (error >= 1e6) return fmt::format("{:.4g} ± {:.2g}", estimate.value, error);
  const int digits = std::clamp(1 + static_cast<int>(std::ceil(-std::log10(error))), 0, 9);
  return fmt::format("{:.{}f} ± {:.{}f}", estimate.value, digits, error, digits);
}

std::string shown(double x, const char* format) { return std::isnan(x) ? "-" : fmt::format(fmt::runtime(format), x); }

std::string verdict_words(const Finding& finding) {
  if (finding.verdict != Verdict::disagrees && !finding.reason.empty()) {
    return fmt::format("{} ({})", name_of(finding.verdict), finding.reason);
  }
  if (finding.verdict != Verdict::disagrees) return std::string(name_of(finding.verdict));
  return fmt::format("disagrees ({:.1f} / {:.1f})", finding.cell().excess(), finding.critical);
}

Schema outcome_schema(const std::string& kind, const std::string& row, std::vector<DimensionSpec> dimensions,
                      const std::vector<OutcomeColumn>& columns, std::vector<ColumnSpec> facts) {
  for (DimensionSpec& d : dimensions) d.json = "variables/" + d.name;
  dimensions.insert(dimensions.begin(), {row});
  std::vector<ColumnSpec> all = std::move(facts);
  for (const OutcomeColumn& c : columns) {
    const auto add = [&](const std::string& suffix, const std::string& units, const std::string& words) {
      const std::string name = suffix.empty() ? c.name : fmt::format("{}_{}", c.name, suffix);
      all.push_back({.name = name,
                     .dimensions = row + (c.along.empty() ? "" : " " + c.along),
                     .units = units,
                     .meaning = words.empty() ? c.meaning : fmt::format("{}: {}", c.meaning, words),
                     .json = fmt::format("variables/{}/[{}]", name, row)});
    };
    if (c.kind == Declared::curve || c.kind == Declared::finding) {
      add("measured", c.units, "mean over seeds");
      add("stderr", c.units, "standard error over seeds");
      add("predicted", c.units, "prediction");
      add("predicted_stderr", c.units, "standard error of the prediction");
    }
    if (c.kind == Declared::words || c.kind == Declared::number || c.kind == Declared::series) add("", c.units, "");
    if (c.kind == Declared::finding) {
      add("power", c.units, "error that would have been rejected with 95 % probability (T22)");
      add("verdict", "", "agreement with theory (T19)");
      add("verdict_reason", "", "why it is inconclusive");
    }
    if (c.kind == Declared::verdict) {
      add("", "", "");
      add("reason", "", "why it is inconclusive");
    }
  }
  return {kind, 1, std::move(dimensions), std::move(all)};
}

void put_finding(const Columns::Row& row, const std::string& name, const Finding& finding) {
  row.put(name + "_measured", finding.measured.value);
  row.put(name + "_stderr", finding.measured.error);
  row.put(name + "_predicted", finding.predicted.value);
  row.put(name + "_predicted_stderr", finding.predicted.error);
  row.put(name + "_power", finding.power);
  put_verdict(row, name + "_verdict", &finding);
}

void put_verdict(const Columns::Row& row, const std::string& name, const Finding* finding) {
  row.put(name, name_of(finding != nullptr ? finding->verdict : Verdict::not_checked));
  row.put(name + "_reason", finding != nullptr ? finding->reason : std::string());
}

void put_curve(const Columns::Row& row, const std::string& name, const Curve& measured, const Curve& predicted) {
  row.put(name + "_measured", measured.value);
  row.put(name + "_stderr", measured.standard_error);
  row.put(name + "_predicted", padded(predicted.value, measured.value.size()));
  row.put(name + "_predicted_stderr", padded(predicted.standard_error, measured.value.size()));
}

std::vector<double> padded(std::vector<double> values, std::size_t length) {
  values.resize(length, std::numeric_limits<double>::quiet_NaN());
  return values;
}

}  // namespace periscope::gradients
