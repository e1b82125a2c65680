#include "experiments/studies/gradients/common.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "experiments/engine/judge/stack_tests.h"
#include "experiments/engine/judge/tolerated_bias.h"
#include "experiments/engine/run/cached.h"
#include "experiments/engine/run/token_ids.h"
#include "sim/backends.h"
#include "sim/numerics/tolerances.h"

namespace periscope::gradients {
namespace {

// clang-format off
constexpr Key<GradientConfig> keys[] = {
    {.name = "layers", .field = &GradientConfig::layers, .range = from_to(1, 10'000), .meaning = "depths of `gradients depth`"},
    {.name = "qk_factors", .field = &GradientConfig::qk_factors, .meaning = "values of init.qk_factor in `gradients attenuation`"},
    {.name = "down_factors", .field = &GradientConfig::down_factors, .meaning = "values of init.down_factor in `gradients crossover`"},
};
// clang-format on

void judge_together(const GradientConfig& config, std::vector<Case>& cases) {
  std::vector<judge::Test*> theory, control;
  std::vector<judge::Claim*> claims;
  for (Case& c : cases) {
    if (!c.unsupported.empty()) continue;
    for (auto& [name, tests] : c.tests) {
      for (judge::Test& test : tests) (name == control_tests ? control : theory).push_back(&test);
    }
    for (auto& [name, claim] : c.claims) {
      if (claim.test.seeds > 0) claims.push_back(&claim);
    }
  }
  const judge::Options options{config.agreement.familywise_error, config.base.model.width};
  judge::judge(theory, options);
  judge::judge(control, options);
  judge::judge(claims, config.agreement.familywise_error);
}

}  // namespace

const Section<GradientConfig> gradients_section{"gradients", keys};

SeedAverage Work::measure(const StackSpec& spec, const std::string& factor,
                          const std::function<void(const Reading&)>& on_seed) const {
  std::string label(config::short_label(spec));
  if (!factor.empty()) label += ", " + factor;
  return stacks::measure_stack(backend, spec, config.run, config.run.seeds, label, progress, on_seed);
}

theory::Prediction Work::predict(const StackSpec& spec, const StackSpec& overridden,
                                 theory::GradientPaths paths) const {
  const auto task = [&] {
    const std::string name = fmt::format("gradients{}", static_cast<int>(paths));
    return stacks::prediction_task(name, spec, overridden, config);
  };
  theory::Prediction prediction = stacks::cached(progress, config::short_label(spec) + ": theory", task, [&] {
    theory::PredictionOptions options = stacks::prediction_options(config);
    options.labels = stacks::distinct_label_ids(spec, config.run.seed, config.run.seeds);
    options.paths = paths;
    options.on_progress = progress.on_progress();
    return theory::predict(overridden, stacks::distinct_token_ids(spec, config.run.seed, config.run.seeds), options);
  });
  if (prediction.unsupported.empty()) prediction.unsupported = prediction.gradient_unsupported;
  if (prediction.unsupported.empty())
    prediction.unsupported = judge::out_of_range(overridden, prediction.profile, config.run.dtype);
  return prediction;
}

std::vector<double> last_down(const Profile& predicted) {
  const Curve* down = predicted.find(Statistic::grad_sq, Weight::down);
  return down == nullptr ? std::vector<double>() : std::vector{down->value.back()};
}

judge::Test sum_of_logs(const judge::SeedRows& rows, const std::vector<judge::Test>& points,
                        const std::vector<double>& weights, double limit) {
  const Curve means = rows.curve();
  judge::Test test{
      .measured = rows.sum(weights), .limit = limit, .seeds = rows.seeds(), .replicates = points.front().replicates};
  double drift = 0.0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0.0) continue;
    test.predicted.value += weights[i] * points[i].predicted.value;
    test.predicted.error += std::abs(weights[i]) * points[i].predicted.error;
    test.precise = test.precise && points[i].precise;
    drift += weights[i] * (points[i].tolerated_bias + judge::variance_of(judge::entry(means, i), rows.seeds()));
  }
  test.tolerated_bias = std::abs(drift);
  return test;
}

double log_norm_bias(const config::Config& config, const StackSpec& spec, const theory::Prediction& prediction,
                     std::size_t depth, bool of_attention) {
  const judge::WidthBias bias(spec, prediction.finite_width, config.agreement);
  return 0.5 * bias.of_log_gradient(depth, of_attention) + backward_tolerance(format_of(config.run.dtype));
}

void Case::compare(const std::string& name, std::vector<judge::Test> points) {
  const Curve mean = rows.at(name).curve();
  points.resize(std::max(points.size(), mean.value.size()), {.predicted = nan_estimate});
  for (std::size_t i = 0; i < mean.value.size(); ++i) points[i].measured = judge::entry(mean, i);
  tests[name] = std::move(points);
}

void Case::add_claim(const std::string& name, const std::map<std::string_view, judge::Claim>& of_placements,
                     const judge::Test& test, double correction) {
  const auto found = of_placements.find(spec.model.placement.name);
  if (found == of_placements.end()) return;
  judge::Claim& claim = claims[name] = found->second;
  claim.test = {.measured = test.measured, .predicted = {claim.claimed, 0.0}, .limit = test.limit, .seeds = test.seeds};
  claim.correction = correction;
}

judge::Test Case::test(const std::string& name) const {
  const auto found = tests.find(name);
  const judge::Test* test = found == tests.end() ? nullptr : judge::deciding(found->second);
  return test == nullptr ? judge::Test{.measured = nan_estimate, .predicted = nan_estimate} : *test;
}

Result run(const Experiment& experiment, const GradientConfig& config, stacks::Progress& progress) {
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  const Work work{config, *backend, progress};
  const std::vector<StackSpec> measured = experiment.swept(config, config.stacks());
  const std::vector<StackSpec> predicted = experiment.swept(config, config.predicted_stacks());
  const std::size_t tasks =
      experiment.values(config) * static_cast<std::size_t>(config.run.seeds + experiment.predictions);
  progress.begin(experiment.name, static_cast<std::int64_t>(measured.size() * tasks));
  Result result;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    progress.throw_if_stop_requested();
    result.cases.push_back(experiment.measure(work, measured[i], predicted[i]));
  }
  experiment.combine(config, result);
  judge_together(config, result.cases);
  return result;
}

}  // namespace periscope::gradients
