#include "experiments/engine/run/ladder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/engine/judge/gradient_floor.h"
#include "experiments/engine/judge/stack_tests.h"
#include "experiments/engine/run/cached.h"
#include "experiments/engine/run/override_effect.h"
#include "experiments/engine/run/parts.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/engine/run/token_ids.h"
#include "experiments/engine/settings/stack_rules.h"
#include "experiments/engine/settings/theory_override.h"
#include "experiments/engine/settings/variants.h"
#include "sim/backends.h"
#include "sim/base/error.h"
#include "sim/numerics/allowances.h"
#include "sim/spec/weight.h"
#include "theory/predict/predict.h"

namespace periscope::stacks {
namespace {

constexpr int fewest_widths = 4;
/// Theory's "infinite" width is this many times the largest measured one, or half of that as often as shapes need, but
/// never less than `fewest_times`: what is left of 1/D is then an eighth of what the widest stacks have.
constexpr int infinite = 1 << 10;
constexpr int fewest_times = 8;
constexpr int widest_width = 1 << 20;

StackSpec at_infinite_width(const StackSpec& overridden, int largest) {
  const double hidden = static_cast<double>(overridden.model.mlp_width) / overridden.model.width;
  int times = infinite;
  while (times > 1 && largest * std::max(1.0, hidden) * times > widest_width) times /= 2;
  if (times < fewest_times) {
    throw ConfigError(
        fmt::format("ladder.widths: the limit needs theory at {} times the width {}, where {} would be {}; "
                    "expected at most {}",
                    fewest_times, largest, hidden > 1.0 ? "model.mlp_width" : "model.width",
                    static_cast<long>(largest * std::max(1.0, hidden)) * fewest_times, widest_width));
  }
  return config::at_width(overridden, largest * times, "ladder.widths");
}

// clang-format off
constexpr Key<LadderConfig> keys[] = {
    {.name = "widths", .field = &LadderConfig::widths, .range = from_to(1, widest_width), .meaning = "at least four widths, head_dim fixed, heads and mlp_width in proportion"},
    {.name = "seeds", .field = &LadderConfig::width_seeds, .range = config::seeds_from(8), .meaning = "seeds per width"},
};
// clang-format on

constexpr std::pair<Statistic, Signal> followed[] = {
    {Statistic::second_moment, Signal::x_out}, {Statistic::token_cosine, Signal::x_out},
    {Statistic::second_moment, Signal::f_out}, {Statistic::token_cosine, Signal::f_out},
    {Statistic::second_moment, Signal::r_out}, {Statistic::log_grad_sq, Signal::x_out},
    {Statistic::score_share, Signal::A_out},
};

bool is_moment(Statistic statistic) { return statistic == Statistic::second_moment; }

/// A quantity as Σ weights_i curve_i.
struct Followed {
  LadderQuantity quantity;
  std::vector<double> weights;

  [[nodiscard]] const Curve* curve(const Profile& profile) const {
    const judge::Test& t = quantity.test;
    return t.weight ? profile.find(t.statistic, *t.weight) : profile.find(t.statistic, t.signal);
  }
  /// `model` is the stack that the profile is of: a matrix's squared gradient is a sum over its fan-in (T11), so the
  /// logarithm is taken per input feature.
  [[nodiscard]] double value(const Profile& profile, const ModelSpec& model) const {
    const Curve* found = curve(profile);
    if (found == nullptr) return std::numeric_limits<double>::quiet_NaN();
    const double offset = quantity.test.weight ? std::log(shape_of(model, *quantity.test.weight).fan_in) : 0.0;
    double sum = 0.0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] != 0.0) sum += weights[i] * (found->value[i] - offset);
    }
    return sum;
  }
  /// Standard error of the weighted sum, with the errors of all entries taken as fully correlated.
  [[nodiscard]] double error(const Profile& profile) const {
    double sum = 0.0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] != 0.0) sum += std::abs(weights[i]) * curve(profile)->standard_error[i];
    }
    return sum;
  }
};

/// The entries of a curve, and their mean over `group` (of moments that of m/t, so that no depth outweighs another).
void follow_group(std::vector<Followed>& all, const judge::Test& prototype, const Curve& predicted,
                  const std::vector<std::size_t>& group, const std::string& words) {
  std::vector<std::size_t> entries;
  for (const std::size_t i : group) {
    const double t = predicted.value[i];
    if (std::isfinite(t) && (!is_moment(prototype.statistic) || t > 0.0)) entries.push_back(i);
  }
  Followed mean{.quantity = {.test = prototype}, .weights = std::vector<double>(predicted.value.size(), 0.0)};
  mean.quantity.test.contrast = "mean over " + words;
  for (const std::size_t i : entries) {
    Followed one{.quantity = {.test = prototype}, .weights = std::vector<double>(predicted.value.size(), 0.0)};
    one.quantity.test.index = static_cast<int>(i);
    one.weights[i] = 1.0;
    if (is_moment(prototype.statistic)) one.quantity.test.scale = predicted.value[i];
    mean.weights[i] = 1.0 / (static_cast<double>(entries.size()) * one.quantity.test.scale);
    all.push_back(std::move(one));
  }
  if (entries.size() > 1) all.push_back(std::move(mean));
}

std::vector<std::size_t> every(std::size_t from, std::size_t step, std::size_t end) {
  std::vector<std::size_t> all;
  for (std::size_t i = from; i < end; i += step) all.push_back(i);
  return all;
}

/// Returns the quantities of a stack whose dependence on width is examined: those of `followed` that theory predicts,
/// entry by entry, and their means over sublayers.
std::vector<Followed> follow(const Profile& predicted) {
  std::vector<Followed> all;
  for (const auto& [statistic, signal] : followed) {
    const Curve* curve = predicted.find(statistic, signal);
    if (curve == nullptr) continue;
    const judge::Test prototype{.statistic = statistic, .signal = signal};
    const std::size_t length = curve->value.size();
    if (signal == Signal::f_out) {
      follow_group(all, prototype, *curve, every(0, 2, length), "attention");
      follow_group(all, prototype, *curve, every(1, 2, length), "mlp");
    } else {
      follow_group(all, prototype, *curve, every(0, 1, length), signal == Signal::A_out ? "attention" : "stream");
    }
  }
  for (const auto& [key, curve] : predicted.weight_curves) {
    if (key.first != Statistic::log_grad_sq) continue;
    follow_group(all, {.statistic = key.first, .weight = key.second}, curve, every(0, 1, curve.value.size()), "layers");
  }
  return all;
}

/// Adds the means over depth of LadderStack::stream_means.
void follow_stream_means(std::vector<Followed>& all, const Profile& predicted) {
  for (const Statistic statistic : {Statistic::second_moment, Statistic::token_cosine}) {
    const Curve* curve = predicted.find(statistic, Signal::x_out);
    if (curve == nullptr) continue;
    std::vector<Followed> entries;
    follow_group(entries, {.statistic = statistic}, *curve, every(1, 1, curve->value.size()), "stream");
    if (entries.size() > 1) all.push_back(std::move(entries.back()));
  }
}

/// Fresh random numbers at every width.
config::RunOptions run_at(const LadderConfig& config, int width) {
  config::RunOptions run = config.run;
  run.seed += static_cast<std::uint64_t>(width) * 1'000'003;
  return run;
}

/// The limit, for the token ids and labels of all widths.
theory::Prediction predict_limit(const LadderConfig& config, const StackSpec& measured, const StackSpec& wide,
                                 Progress& progress) {
  theory::PredictionOptions options{.tolerance = config.theory.wanted_tolerance(),
                                    .gradient_tolerance = config.theory.wanted_gradient_tolerance(),
                                    .most_samples = 1 << 14,
                                    .seed = config.run.seed,
                                    .fault = config.theory.fault,
                                    .on_share = progress.on_share()};
  std::vector<std::vector<int>> ids;
  for (const int width : config.widths) {
    const std::uint64_t seed = run_at(config, width).seed;
    for (auto& sequence : distinct_token_ids(measured, seed, config.width_seeds)) ids.push_back(std::move(sequence));
    if (!config.run.backward) continue;
    for (auto& labels : distinct_label_ids(measured, seed, config.width_seeds)) {
      options.labels.push_back(std::move(labels));
    }
  }
  return theory::predict(wide, ids, options);
}

LadderStack measure_stack_ladder(const LadderConfig& config, const Backend& backend, const StackSpec& spec,
                                 const StackSpec& overridden, Progress& progress) {
  LadderStack stack{.spec = spec, .refusal = {}, .quantities = {}};
  const StackSpec wide = at_infinite_width(overridden, config.widths.back());
  const std::string name(config::short_label(spec));
  const auto task = [&] {
    return cache::task_name("ladder", fmt::format("{} {} {}", prediction_task("limit", spec, overridden, config),
                                                  fmt::join(config.widths, " "), config.width_seeds));
  };
  const theory::Prediction prediction =
      cached(progress, name + ": theory", task, [&] { return predict_limit(config, spec, wide, progress); });
  stack.refusal = prediction.refusal.empty() ? prediction.gradient_refusal : prediction.refusal;
  if (stack.refusal.empty()) stack.refusal = judge::out_of_range(wide, prediction.profile, config.run.dtype);
  std::vector<Followed> all = follow(prediction.profile);
  const std::size_t judged = all.size();
  follow_stream_means(all, prediction.profile);
  for (const int width : config.widths) {
    std::vector<RunningMoments> means(all.size());
    const StackSpec here = config::at_width(spec, width, "ladder.widths");
    const std::string label = fmt::format("{} at width {}", name, width);
    const config::RunOptions run = run_at(config, width);
    measure_stack(backend, here, run, config.width_seeds, label, progress, [&](const Reading& reading) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        const double value = all[i].value(reading.profile, here.model);
        means[i].add(value);
        if (i >= judged && width == config.widths.back()) all[i].quantity.per_seed.push_back(value);
      }
    });
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].quantity.measured.push_back({means[i].mean(), means[i].standard_error()});
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    Followed& f = all[i];
    judge::Test& test = f.quantity.test;
    test.predicted = {f.value(prediction.profile, wide.model), f.error(prediction.profile)};
    test.replicates = prediction.replicates;
    test.tolerated_bias = pass_allowance(format_of(config.run.dtype)) * std::max(1.0, test.scale);
    (i < judged ? stack.quantities : stack.stream_means).push_back(std::move(f.quantity));
  }
  return stack;
}

void require_growing(const LadderConfig& config) {
  if (config.widths.size() < fewest_widths) {
    throw ConfigError(
        fmt::format("ladder.widths: {} widths, expected at least {}", config.widths.size(), fewest_widths));
  }
  if (std::ranges::adjacent_find(config.widths, std::greater_equal{}) != config.widths.end()) {
    throw ConfigError("ladder.widths: expected widths that grow from one to the next");
  }
}

}  // namespace

void require_limit(const LadderConfig& config) {
  require_growing(config);
  if (std::ranges::find(config.inputs, InputKind::tokens) != config.inputs.end()) {
    throw ConfigError(
        "input.kind = tokens: theory averages over 64 sequences, a ladder measures one a seed and width, without an "
        "allowance for the difference; expected gaussian or text");
  }
  for (const StackSpec& spec : config.stacks()) {
    if (spec.init.scheme == InitScheme::normal) {
      throw ConfigError(
          "init.scheme = normal: matrices of one standard deviation at every width have no limit; "
          "expected lecun, he, xavier, scaled or mitchell");
    }
    if (config.run.backward && spec.init.head_std) {
      throw ConfigError(fmt::format(
          "init.head_std = {:g}: an unembedding of one standard deviation at every width has no limit; expected none",
          *spec.init.head_std));
    }
    if (config.run.backward && !spec.model.unembedding) {
      throw ConfigError("model.unembedding = false: the number of classes would grow with the width; expected true");
    }
  }
  config::require_fault_acts(config);
  config::require_one_value(config, "model.width", "the stacks run through ladder.widths",
                            [](const StackSpec& spec) { return spec.model.width; });
  for (const auto& all : {config.stacks(), config.predicted_stacks()}) {
    for (const StackSpec& spec : all) {
      for (const int width : config.widths) config::at_width(spec, width, "ladder.widths");
    }
  }
  for (const StackSpec& overridden : config.predicted_stacks())
    static_cast<void>(at_infinite_width(overridden, config.widths.back()));
}

const Section<LadderConfig> ladder_section{"ladder", keys};

LadderResult run_ladder(const LadderConfig& config, Progress& progress) {
  require_limit(config);
  require_override_is_seen(config, "ladder", false, verdict_numbers);
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  const std::vector<StackSpec> stacks = config.stacks();
  const std::vector<StackSpec> overridden = config.predicted_stacks();
  progress.begin("ladder", static_cast<std::int64_t>(stacks.size()) *
                               (1 + static_cast<std::int64_t>(config.widths.size()) * config.width_seeds));
  LadderResult result{.stacks = {}, .widths = config.widths};
  result.stopped_early = until_stopped([&] {
    for (std::size_t i = 0; i < stacks.size(); ++i) {
      progress.throw_if_stop_requested();
      result.stacks.push_back(measure_stack_ladder(config, *backend, stacks[i], overridden[i], progress));
    }
  });
  if (result.stopped_early) return result;
  progress.finish("judging");
  judge_ladder(result, config.width_seeds, config.agreement);
  return result;
}

}  // namespace periscope::stacks
