#include "experiments/probe/probe.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/spec/weight.h"

namespace periscope {

StackSpec initial_stack(const ModelSpec& model, const Config& config, int tokens) {
  StackSpec spec{.model = model, .init = config.base.init, .input = {}};
  spec.model.gamma = 1.0;
  spec.input.kind = InputKind::tokens;
  spec.input.tokens = tokens;
  const double std = stddev_of(spec, Weight::unembedding);
  spec.input.second_moment = config.was_given("input.second_moment") ? config.base.input.second_moment : std * std;
  return spec;
}

theory::Prediction predict_initial(const StackSpec& spec, const TokenInput& input, const Config& config,
                                   bool backward) {
  theory::PredictionOptions options{.tolerance = config.theory.tolerance, .seed = config.run.seed};
  if (backward && !spec.model.head.transform) options.labels = {input.labels};
  return theory::predict(spec, {input.ids}, options);
}

bool violates_growth_identity(const ModelReading& reading) {
  return std::ranges::any_of(reading.growth, &Growth::is_violated);
}

bool diverged(const ModelReading& reading) { return reading.reading.diverged_at >= 0; }

const std::vector<double>& maxima(const ModelReading& reading, Site site) {
  static const std::vector<double> none;
  const Curve* curve = reading.reading.profile.find(Statistic::maximum, site);
  return curve == nullptr ? none : curve->value;
}

Margin smallest_margin(const ModelReading& reading, double largest) {
  Margin smallest{.value = std::numeric_limits<double>::infinity(), .site = Site::x_out, .index = 0};
  for (std::size_t s = 0; s < site_names.size(); ++s) {
    const std::vector<double>& values = maxima(reading, static_cast<Site>(s));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double margin = std::isnan(values[i]) ? 0.0 : largest / values[i];
      if (margin < smallest.value) smallest = {margin, static_cast<Site>(s), static_cast<int>(i)};
    }
  }
  return smallest;
}

}  // namespace periscope
