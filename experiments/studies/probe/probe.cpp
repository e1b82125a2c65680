#include "experiments/studies/probe/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/engine/run/cost.h"
#include "experiments/engine/run/stacks.h"
#include "sim/spec/weight.h"

namespace periscope::probe {

ProbeResult result_of(const Checkpoint& checkpoint, std::string model, const config::Config& config,
                      stacks::TokenInput input, int tokens, const std::string& why_no_theory) {
  ProbeResult result{.model = std::move(model),
                     .family = std::string(checkpoint.family().name),
                     .at_init = initial_stack(checkpoint.model(), config, tokens),
                     .dtype = config.run.dtype,
                     .input = std::move(input),
                     .agreement = config.agreement,
                     .ignored_keys = checkpoint.ignored_keys()};
  result.initial.unsupported = why_no_theory;
  for (NullReading& null : result.nulls) null.predicted.unsupported = why_no_theory;
  return result;
}

StackSpec initial_stack(const ModelSpec& model, const config::Config& config, int tokens) {
  StackSpec spec{.model = model, .init = config.base.init, .input = {}};
  spec.model.gamma = 1.0;
  spec.input.kind = InputKind::tokens;
  spec.input.tokens = tokens;
  const double std = drawn_embedding_stddev(spec);
  spec.input.second_moment = config.is_set("input.second_moment") ? config.base.input.second_moment : std * std;
  return spec;
}

theory::Prediction predict_initial(const StackSpec& spec, const stacks::TokenInput& input, const config::Config& config,
                                   bool backward, stacks::Progress& progress) {
  theory::PredictionOptions options = stacks::prediction_options(config);
  options.operations = stacks::affordable_operations(spec, config, 1);
  options.reaches_tolerance = config.theory.precision_was_given();
  options.on_progress = [&](double) { progress.throw_if_stop_requested(); };
  if (backward) options.labels = {input.labels};
  return theory::predict(spec, {input.ids}, options);
}

namespace {

/// Returns log(q_a / q_b) at depths 0 … 2L, or log q_a if `b` is null; q is the stream's second moment.
std::vector<double> log_ratio(const Profile& a, const Profile* b, std::size_t depths) {
  const auto log_moment = [](const Profile& profile, std::size_t depth) {
    const Curve* q = profile.find(Statistic::second_moment, Signal::x_out);
    return q == nullptr ? std::nan("") : std::log(q->value.at(depth));
  };
  std::vector<double> all;
  for (std::size_t depth = 0; depth < depths; ++depth) {
    all.push_back(log_moment(a, depth) - (b == nullptr ? 0.0 : log_moment(*b, depth)));
  }
  return all;
}

}  // namespace

NullExcess null_excess(const ProbeResult& result, std::size_t null) {
  const auto& [predicted, drawn] = result.nulls.at(null);
  const std::size_t depths = result.at_init.model.depths();
  NullExcess excess{.draws = drawn.log_moment.size(),
                    .value = log_ratio(result.measured.reading.profile, nullptr, depths),
                    .error = {}};
  const std::vector<double> theory = log_ratio(predicted.profile, nullptr, depths);
  for (std::size_t depth = 0; depth < depths; ++depth) {
    const bool is_predicted = stacks::size_nulls.at(null).preserved.has_value();
    excess.value[depth] -= is_predicted ? theory[depth] : drawn.mean(depth);
    excess.error.push_back(is_predicted ? drawn.deviation_from(theory[depth], depth)
                                        : drawn.deviation_from_mean(depth));
  }
  return excess;
}

std::optional<GrowthSplit> growth_split(const ProbeResult& result) {
  const Profile& initial = result.initial.profile;
  const Profile& matrices = result.nulls[stacks::matrices_null].predicted.profile;
  const Profile& profiles = result.nulls[stacks::rank_one_null].predicted.profile;
  if (initial.curves.empty() || matrices.curves.empty() || profiles.curves.empty()) return std::nullopt;
  const std::size_t depths = result.at_init.model.depths();
  return GrowthSplit{.from_scales = log_ratio(matrices, &initial, depths),
                     .from_sizes_inside = log_ratio(profiles, &matrices, depths),
                     .from_alignment = null_excess(result, stacks::rank_one_null)};
}

bool violates_growth_identity(const ModelReading& reading) {
  return std::ranges::any_of(reading.growth, &Growth::is_violated);
}

void FiniteRecorder::on_signal(const Emission& at, const Tensor& x) {
  if (first_ || at.pass == Pass::recomputation) return;
  const std::vector<double> squares = ops_.row_moments(x)[Statistic::second_moment];
  if (!std::ranges::all_of(squares, [](double v) { return std::isfinite(v); })) first_ = at;
}

std::string not_finite(const ProbeResult& result) {
  if (const std::optional<Emission>& at = result.not_finite) {
    const bool inside = at->sublayer >= 0 && at->sublayer < result.at_init.model.sublayers();
    return fmt::format("{}{}{}", at->pass == Pass::backward ? "gradient of " : "", name_of(at->signal),
                       inside ? fmt::format(" of sublayer {}", at->sublayer) : "");
  }
  return result.input.has_labels() && !std::isfinite(result.measured.loss) ? "loss" : "";
}

}  // namespace periscope::probe
