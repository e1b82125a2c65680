#include "experiments/studies/probe/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/engine/run/cost.h"
#include "sim/spec/weight.h"

namespace periscope::probe {

StackSpec initial_stack(const ModelSpec& model, const config::Config& config, int tokens) {
  StackSpec spec{.model = model, .init = config.base.init, .input = {}};
  spec.model.gamma = 1.0;
  spec.input.kind = InputKind::tokens;
  spec.input.tokens = tokens;
  const double std = drawn_embedding_stddev(spec);
  spec.input.second_moment = config.was_given("input.second_moment") ? config.base.input.second_moment : std * std;
  return spec;
}

theory::Prediction predict_initial(const StackSpec& spec, const stacks::TokenInput& input, const config::Config& config,
                                   bool backward, stacks::Progress& progress) {
  theory::PredictionOptions options{.tolerance = config.theory.wanted_tolerance(),
                                    .gradient_tolerance = config.theory.wanted_gradient_tolerance(),
                                    .operations = stacks::affordable_operations(spec, config, 1),
                                    .reaches_tolerance = config.theory.precision_was_given(),
                                    .seed = config.run.seed,
                                    .fault = config.theory.fault,
                                    .on_share = [&](double) { progress.throw_if_stop_requested(); }};
  if (backward) options.labels = {input.labels};
  return theory::predict(spec, {input.ids}, options);
}

namespace {

double log_moment(const Profile& profile, std::size_t depth) {
  const Curve* q = profile.find(Statistic::second_moment, Signal::x_out);
  return q == nullptr ? std::nan("") : std::log(q->value.at(depth));
}

}  // namespace

std::vector<LeftOver> left_over(const ProbeResult& result, std::size_t null) {
  const NullReading& reading = result.nulls.at(null);
  std::vector<LeftOver> all;
  for (std::size_t depth = 0; depth <= result.measured.growth.size(); ++depth) {
    const double measured = log_moment(result.measured.reading.profile, depth);
    if (stacks::size_nulls.at(null).kept) {
      const double centre = log_moment(reading.predicted.profile, depth);
      all.push_back({measured - centre, reading.drawn.deviation_from(centre, depth)});
    } else {
      all.push_back({measured - reading.drawn.mean(depth), reading.drawn.deviation_from_mean(depth)});
    }
  }
  return all;
}

std::vector<GrowthSplit> growth_split(const ProbeResult& result) {
  const std::vector<LeftOver> beyond_profiles = left_over(result, stacks::rank_one_null);
  std::vector<GrowthSplit> split;
  for (std::size_t depth = 0; depth < beyond_profiles.size(); ++depth) {
    const double matrices = log_moment(result.nulls[stacks::matrices_null].predicted.profile, depth);
    const double profiles = log_moment(result.nulls[stacks::rank_one_null].predicted.profile, depth);
    split.push_back({.from_scales = matrices - log_moment(result.initial.profile, depth),
                     .from_sizes_inside = profiles - matrices,
                     .from_alignment = beyond_profiles[depth].value,
                     .alignment_error = beyond_profiles[depth].error});
  }
  return split;
}

bool violates_growth_identity(const ModelReading& reading) {
  return std::ranges::any_of(reading.growth, &Growth::is_violated);
}

void FiniteRecorder::on_signal(const Emission& at, const Tensor& x) {
  if (first_ || at.pass == Pass::recomputation) return;
  const std::vector<double> squares = ops_.row_moments(x).second_moment;
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
