#include "experiments/engine/run/ladder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "experiments/engine/judge/stack_tests.h"
#include "experiments/engine/run/cached.h"
#include "experiments/engine/run/override_effect.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/engine/run/token_ids.h"
#include "experiments/engine/settings/stack_rules.h"
#include "experiments/engine/settings/sweep.h"
#include "experiments/engine/settings/theory_override.h"
#include "sim/backends.h"
#include "sim/base/error.h"
#include "sim/base/mapped.h"
#include "sim/numerics/tolerances.h"
#include "sim/spec/weight.h"
#include "theory/predict/predict.h"

namespace periscope::stacks {
namespace {

constexpr int min_widths = 4;
/// The limit is predicted at `limit_factor` times the largest measured width. The factor is halved until the shape is
/// valid, but not below `min_limit_factor`. At this minimum the 1/D error is an eighth of the widest measured stack's.
constexpr int limit_factor = 1 << 10;
constexpr int min_limit_factor = 8;
constexpr int max_width = 1 << 20;

StackSpec at_infinite_width(const StackSpec& overridden, int largest) {
  const double hidden = static_cast<double>(overridden.model.mlp_width) / overridden.model.width;
  int factor = limit_factor;
  while (factor > 1 && largest * std::max(1.0, hidden) * factor > max_width) factor /= 2;
  if (factor < min_limit_factor) {
    throw ConfigError(
        fmt::format("ladder.widths: the infinite-width limit is predicted at {} times the largest width {}; expected "
                    "{} of at most {} at that width, found {}",
                    min_limit_factor, largest, hidden > 1.0 ? "model.mlp_width" : "model.width", max_width,
                    static_cast<long>(largest * std::max(1.0, hidden)) * min_limit_factor));
  }
  return config::at_width(overridden, largest * factor);
}

// clang-format off
constexpr Key<LadderConfig> keys[] = {
    {.name = "widths", .field = &LadderConfig::widths, .range = from_to(1, max_width), .meaning = "widths to measure, at least four; head_dim is fixed, heads and mlp_width grow in proportion"},
    {.name = "seeds", .field = &LadderConfig::width_seeds, .range = config::seeds_from(8), .meaning = "number of seeds per width"},
};
// clang-format on

const Curve* curve_of(const judge::Test& t, const Profile& profile) {
  return t.weight ? profile.find(t.statistic, *t.weight) : profile.find(t.statistic, t.signal);
}

/// Returns Σ weights_i curve_i and its standard error, assuming fully correlated entries. `model` is the model of the
/// profile. A matrix's squared gradient is a sum over its fan-in (T11), so its logarithm is taken per input feature.
judge::Estimate value_of(const LadderQuantity& q, const Profile& profile, const ModelSpec& model) {
  const Curve* curve = curve_of(q.test, profile);
  if (curve == nullptr) return {std::numeric_limits<double>::quiet_NaN(), 0.0};
  const double offset = q.test.weight ? std::log(shape_of(model, *q.test.weight).fan_in) : 0.0;
  judge::Estimate sum{0.0, 0.0};
  for (const auto& [i, weight] : q.weights) {
    // Explicit fma, so that the bits do not depend on the compiler.
    sum.value = std::fma(weight, curve->value[i] - offset, sum.value);
    if (!curve->standard_error.empty()) sum.error = std::fma(std::abs(weight), curve->standard_error[i], sum.error);
  }
  return sum;
}

/// Returns quantities for entries `first`, `first + step`, … of a predicted curve, and for their mean if there are
/// several. For moments this mean averages measured/predicted, so that all depths have equal weight.
std::vector<LadderQuantity> entries_of(judge::Test test, const Profile& predicted, std::size_t first, std::size_t step,
                                       const std::string& words) {
  std::vector<LadderQuantity> all;
  LadderQuantity mean{.test = test};
  mean.test.contrast = "mean over " + words;
  const Curve* curve = curve_of(test, predicted);
  for (std::size_t i = first; curve != nullptr && i < curve->value.size(); i += step) {
    const double t = curve->value[i];
    test.index = static_cast<int>(i);
    test.scale = test.statistic == Statistic::second_moment ? t : 1.0;
    if (!std::isfinite(t) || !(test.scale > 0.0)) continue;
    all.push_back({.test = test, .weights = {{i, 1.0}}});
    mean.weights.emplace_back(i, test.scale);
  }
  for (auto& [i, weight] : mean.weights) weight = 1.0 / (static_cast<double>(mean.weights.size()) * weight);
  if (all.size() > 1) all.push_back(std::move(mean));
  return all;
}

/// Returns the quantities to fit: all predicted entries that verdicts compare, except variances, and means over them.
std::vector<LadderQuantity> quantities_of(const Profile& predicted) {
  std::vector<LadderQuantity> all;
  const auto add_along = [&](const judge::Test& test, std::size_t first, std::size_t step, const std::string& words) {
    std::ranges::move(entries_of(test, predicted, first, step, words), std::back_inserter(all));
  };
  for (const auto& [statistic, signal] : judge::compared_curves) {
    const judge::Test test{.statistic = statistic, .signal = signal};
    if (statistic == Statistic::variance) continue;
    if (signal == Signal::f_out) {
      add_along(test, 0, 2, "attention");
      add_along(test, 1, 2, "mlp");
    } else {
      add_along(test, 0, 1, signal == Signal::A_out ? "attention" : "stream");
    }
  }
  for (const auto& [key, curve] : predicted.curves) {
    const Weight* const weight = std::get_if<Weight>(&key.second);
    if (weight != nullptr && key.first == Statistic::log_grad_sq) {
      add_along({.statistic = key.first, .weight = *weight}, 0, 1, "layers");
    }
  }
  return all;
}

/// Returns run options with a different first seed for every width.
config::RunOptions run_at(const LadderConfig& config, int width) {
  config::RunOptions run = config.run;
  run.seed += static_cast<std::uint64_t>(width) * 1'000'003;
  return run;
}

/// Predicts the limit, averaged over the token ids and labels of the runs at all widths.
theory::Prediction predict_limit(const LadderConfig& config, const StackSpec& measured, const StackSpec& wide,
                                 Progress& progress) {
  theory::PredictionOptions options = prediction_options(config);
  options.on_progress = progress.on_progress();
  std::vector<std::vector<int>> ids;
  for (const int width : config.widths) {
    const std::uint64_t seed = run_at(config, width).seed;
    const auto append = [](auto more, auto& all) { std::ranges::move(more, std::back_inserter(all)); };
    append(distinct_token_ids(measured, seed, config.width_seeds), ids);
    if (config.run.backward) append(distinct_label_ids(measured, seed, config.width_seeds), options.labels);
  }
  return theory::predict(wide, ids, options);
}

LadderStack measure_stack_ladder(const LadderConfig& config, const Backend& backend, const StackSpec& spec,
                                 const StackSpec& overridden, Progress& progress) {
  LadderStack stack{.spec = spec};
  const StackSpec wide = at_infinite_width(overridden, config.widths.back());
  const std::string name(config::short_label(spec));
  const auto task = [&] {
    return cache::task_name("ladder", fmt::format("{} {} {}", prediction_task("limit", spec, overridden, config),
                                                  fmt::join(config.widths, " "), config.width_seeds));
  };
  const theory::Prediction prediction =
      cached(progress, name + ": theory", task, [&] { return predict_limit(config, spec, wide, progress); });
  stack.unsupported = prediction.unsupported.empty() ? prediction.gradient_unsupported : prediction.unsupported;
  if (stack.unsupported.empty()) stack.unsupported = judge::out_of_range(wide, prediction.profile, config.run.dtype);
  stack.quantities = quantities_of(prediction.profile);
  for (const Statistic statistic : {Statistic::second_moment, Statistic::token_cosine}) {
    std::vector<LadderQuantity> of_stream = entries_of({.statistic = statistic}, prediction.profile, 1, 1, "stream");
    if (of_stream.size() > 1) stack.stream_means.push_back(std::move(of_stream.back()));
  }
  std::vector<LadderQuantity*> all;
  for (auto* list : {&stack.quantities, &stack.stream_means}) {
    for (LadderQuantity& q : *list) all.push_back(&q);
  }
  for (const int width : config.widths) {
    const StackSpec here = config::at_width(spec, width);
    judge::SeedRows rows;
    measure_stack(backend, here, run_at(config, width), config.width_seeds, fmt::format("{} at width {}", name, width),
                  progress, [&](const Reading& reading) {
                    rows.add(mapped(
                        all, [&](const LadderQuantity* q) { return value_of(*q, reading.profile, here.model).value; }));
                  });
    const Curve means = rows.curve();
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i]->measured.push_back(judge::entry(means, i));
      all[i]->per_seed = mapped(rows.rows(), [i](const std::vector<double>& row) { return row[i]; });
    }
  }
  for (LadderQuantity* q : all) {
    q->test.predicted = value_of(*q, prediction.profile, wide.model);
    q->test.replicates = prediction.replicates;
    q->test.tolerated_bias = forward_tolerance(format_of(config.run.dtype)) * std::max(1.0, q->test.scale);
  }
  return stack;
}

bool is_finite(const LadderQuantity& q) {
  const auto finite = [](const judge::Estimate& e) { return std::isfinite(e.value) && std::isfinite(e.error); };
  return std::ranges::all_of(q.measured, finite) && finite(q.test.predicted);
}

}  // namespace

void require_limit(const LadderConfig& config) {
  if (config.widths.size() < min_widths) {
    throw ConfigError(
        fmt::format("ladder.widths: expected at least {} widths, found {}", min_widths, config.widths.size()));
  }
  if (std::ranges::adjacent_find(config.widths, std::greater_equal{}) != config.widths.end()) {
    throw ConfigError("ladder.widths: expected strictly increasing widths");
  }
  if (std::ranges::find(config.inputs, InputKind::tokens) != config.inputs.end()) {
    throw ConfigError(
        "input.kind = tokens: expected gaussian or text; a seed measures one token sequence, but the prediction is a "
        "mean over 64 sequences; a ladder does not tolerate the resulting bias");
  }
  for (const StackSpec& spec : config.stacks()) {
    if (spec.init.scheme == InitScheme::normal) {
      throw ConfigError(
          "init.scheme = normal: expected lecun, he, xavier, scaled or mitchell; with a standard deviation independent "
          "of the width, there is no infinite-width limit");
    }
    if (config.run.backward && spec.init.head_std) {
      throw ConfigError(
          fmt::format("init.head_std = {:g}: expected this key to be unset; with a standard deviation independent of "
                      "the width, there is no infinite-width limit",
                      *spec.init.head_std));
    }
    if (config.run.backward && !spec.model.unembedding) {
      throw ConfigError(
          "model.unembedding = false: expected true, as otherwise the number of classes would grow with the width");
    }
  }
  config::require_effective_fault(config);
  config::require_one_value(config, "model.width", "ladder.widths sweeps it",
                            [](const StackSpec& spec) { return spec.model.width; });
  for (const auto& all : {config.stacks(), config.predicted_stacks()}) {
    for (const StackSpec& spec : all) {
      for (const int width : config.widths) config::at_width(spec, width);
    }
  }
  for (const StackSpec& overridden : config.predicted_stacks())
    static_cast<void>(at_infinite_width(overridden, config.widths.back()));
}

const Section<LadderConfig> ladder_section{"ladder", keys};

LadderResult run_ladder(const LadderConfig& config, Progress& progress) {
  require_limit(config);
  require_effective_override(config, "ladder", false, verdict_numbers);
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  const std::vector<StackSpec> stacks = config.stacks();
  const std::vector<StackSpec> overridden = config.predicted_stacks();
  progress.begin("ladder", static_cast<std::int64_t>(stacks.size()) *
                               (1 + static_cast<std::int64_t>(config.widths.size()) * config.width_seeds));
  LadderResult result{.stacks = {}, .widths = config.widths};
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    progress.throw_if_stop_requested();
    result.stacks.push_back(measure_stack_ladder(config, *backend, stacks[i], overridden[i], progress));
  }
  progress.finish("judging");
  judge_ladder(result, config.width_seeds, config.agreement);
  return result;
}

void judge_ladder(LadderResult& result, int seeds, const config::AgreementOptions& options) {
  std::vector<judge::Test*> tests;
  for (LadderStack& stack : result.stacks) {
    for (LadderQuantity& q : stack.quantities) {
      judge::Test& t = q.test;
      t.reason = !stack.unsupported.empty() ? stack.unsupported : is_finite(q) ? "" : "not finite";
      t.measured = {std::nan(""), std::nan("")};
      if (!t.reason.empty()) continue;
      q.fit = judge::fit_width(result.widths, q.measured, seeds, t.tolerated_bias / 10.0);
      t.measured = q.fit.limit;
      t.measured_degrees = q.fit.degrees;
      t.seeds = seeds;
      t.limit = judge::limit_of(options.power_limits, t.statistic);
      tests.push_back(&t);
    }
  }
  result.tests = tests.size();
  const double level = judge::judge(tests, {.familywise_error = options.familywise_error, .seeds_key = "ladder.seeds"});
  for (LadderStack& stack : result.stacks) {
    for (LadderQuantity& q : stack.quantities) {
      if (q.fit.lack_of_fit < level) {  // a bad fit says nothing about the limit
        q.test.verdict = judge::Verdict::inconclusive;
        q.test.reason = fmt::format("a parabola in 1/D does not fit the points (p = {:.1g}); add larger ladder.widths",
                                    q.fit.lack_of_fit);
      }
      stack.verdict = std::max(stack.verdict, q.test.verdict);
    }
  }
}

bool any_disagrees(const LadderResult& result) {
  return std::ranges::find(result.stacks, judge::Verdict::disagrees, &LadderStack::verdict) != result.stacks.end();
}

}  // namespace periscope::stacks
