#include "experiments/probe/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/spec/weight.h"

namespace periscope::probe {

StackSpec initial_stack(const ModelSpec& model, const Config& config, int tokens) {
  StackSpec spec{.model = model, .init = config.base.init, .input = {}};
  spec.model.gamma = 1.0;
  spec.input.kind = InputKind::tokens;
  spec.input.tokens = tokens;
  const double std = stddev_of(spec, 0, Weight::unembedding);
  spec.input.second_moment = config.was_given("input.second_moment") ? config.base.input.second_moment : std * std;
  return spec;
}

theory::Prediction predict_initial(const StackSpec& spec, const TokenInput& input, const Config& config,
                                   bool backward) {
  theory::PredictionOptions options{.tolerance = config.theory.tolerance,
                                    .gradient_tolerance = config.theory.gradient_tolerance,
                                    .seed = config.run.seed,
                                    .fault = config.theory.fault};
  if (backward) options.labels = {input.labels};
  return theory::predict(spec, {input.ids}, options);
}

std::vector<GrowthSplit> growth_split(const ProbeResult& result) {
  const auto second_moment = [](const Profile& profile, std::size_t depth) {
    const Curve* q = profile.find(Statistic::second_moment, Signal::x_out);
    return q == nullptr ? std::nan("") : q->value.at(depth);
  };
  std::vector<GrowthSplit> split;
  for (std::size_t depth = 0; depth <= result.measured.growth.size(); ++depth) {
    const double scaled = second_moment(result.scaled.profile, depth);
    split.push_back({std::log(scaled / second_moment(result.initial.profile, depth)),
                     std::log(second_moment(result.measured.reading.profile, depth) / scaled)});
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
