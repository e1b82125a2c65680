#include "experiments/studies/widths/converge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "experiments/core/config/at_width.h"
#include "experiments/core/config/seed_range.h"
#include "experiments/core/config/told.h"
#include "experiments/core/stacks/progress.h"
#include "experiments/core/stacks/stacks.h"
#include "experiments/core/stacks/token_ids.h"
#include "experiments/core/stacks/told_effect.h"
#include "sim/backends.h"
#include "sim/base/error.h"

namespace periscope::converge {
namespace {

constexpr std::string_view list = "converge.widths";

// clang-format off
constexpr Key<ConvergeConfig> keys[] = {
    {.name = "widths", .field = &ConvergeConfig::widths, .range = from_to(1, 1 << 20), .meaning = "widths, head_dim fixed, heads and mlp_width in proportion"},
    {.name = "seeds", .field = &ConvergeConfig::width_seeds, .range = config::seeds_from(16), .meaning = "seeds per width"},
};
// clang-format on

constexpr std::array statistics{Statistic::second_moment, Statistic::token_cosine};

/// Measured minus predicted, mean over depths 1 … 2L; relative to the prediction unless `absolute`.
double deviation(const std::vector<double>& measured, const std::vector<double>& predicted, bool absolute) {
  double sum = 0.0;
  for (std::size_t i = 1; i < measured.size(); ++i) {
    sum += (measured[i] - predicted[i]) / (absolute ? 1.0 : predicted[i]);
  }
  return sum / static_cast<double>(measured.size() - 1);
}

/// The same mean of the prediction's standard error, as if the errors of all depths were one.
double deviation_error(const Curve& predicted, bool absolute) {
  double sum = 0.0;
  for (std::size_t i = 1; i < predicted.value.size(); ++i) {
    sum += predicted.standard_error[i] / (absolute ? 1.0 : predicted.value[i]);
  }
  return sum / static_cast<double>(predicted.value.size() - 1);
}

/// The spread of means of n seeds for n = 1, 2, 4, …
void fill_noise(Convergence& c, const std::vector<double>& per_seed) {
  for (std::size_t n = 1; per_seed.size() / n >= fewest_groups; n *= 2) {
    RunningMoments means;
    for (std::size_t group = 0; group < per_seed.size() / n; ++group) {
      RunningMoments mean;
      for (std::size_t i = 0; i < n; ++i) mean.add(per_seed[group * n + i]);
      means.add(mean.mean());
    }
    c.seeds.push_back(static_cast<double>(n));
    c.noise.push_back(std::sqrt(means.variance()));
    c.noise_error.push_back(spread_error(c.noise.back(), static_cast<int>(means.count())));
  }
}

/// Runs one stack at one width and appends the bias to every fit of the stack.
void measure_width(const ConvergeConfig& config, const Backend& backend, const StackSpec& spec, const StackSpec& told,
                   std::vector<Convergence>& fits, stacks::Progress& progress) {
  config::RunOptions run = config.run;
  run.seed += static_cast<std::uint64_t>(spec.model.width) * 1'000'003;  // fresh randomness at every width
  const theory::Prediction prediction = theory::predict(
      told, stacks::distinct_token_ids(spec, run.seed, config.width_seeds),
      {.tolerance = config.theory.tolerance, .most_samples = 1 << 15, .seed = run.seed, .fault = config.theory.fault});
  const std::string refusal =
      prediction.refusal.empty() ? judge::out_of_range(told, prediction.profile, run.dtype) : prediction.refusal;
  if (!refusal.empty()) {
    for (Convergence& c : fits) c.bias_reason = refusal;
    return;
  }
  std::array<RunningMoments, statistics.size()> bias;
  std::array<std::vector<double>, statistics.size()> per_seed;
  stacks::measure_stack(backend, spec, run, config.width_seeds, progress, [&](const Reading& reading) {
    for (std::size_t s = 0; s < statistics.size(); ++s) {
      const double d = deviation(reading.profile.find(statistics[s], Signal::x_out)->value,
                                 prediction.profile.find(statistics[s], Signal::x_out)->value,
                                 statistics[s] == Statistic::token_cosine);
      bias[s].add(d);
      per_seed[s].push_back(d);
    }
    progress.step(fmt::format("{} at width {}", spec.model.placement.name, spec.model.width));
  });
  for (std::size_t s = 0; s < statistics.size(); ++s) {
    const double theory_error = deviation_error(*prediction.profile.find(statistics[s], Signal::x_out),
                                                statistics[s] == Statistic::token_cosine);
    fits[s].width.push_back(spec.model.width);
    fits[s].bias.push_back(bias[s].mean());
    fits[s].bias_error.push_back(std::hypot(bias[s].standard_error(), theory_error));
    fits[s].prediction_error.push_back(theory_error);
    if (fits[s].width.size() == config.widths.size()) fill_noise(fits[s], per_seed[s]);
  }
}

/// What is held against measurement: the stream's statistics at every depth.
std::vector<double> stream_numbers(const Profile& predicted) {
  std::vector<double> numbers;
  for (const Statistic s : statistics) {
    const Curve* curve = predicted.find(s, Signal::x_out);
    numbers.insert(numbers.end(), curve->value.begin(), curve->value.end());
  }
  return numbers;
}

}  // namespace

double spread_error(double spread, int groups) { return spread / std::sqrt(2.0 * (groups - 1)); }

const Section<ConvergeConfig> section{"converge", keys};

void ConvergeConfig::add_own_sections(nlohmann::ordered_json& resolved, bool for_hash) const {
  resolved["converge"] = config::section_json(section, *this, for_hash);
}

void require_widths(const ConvergeConfig& config) {
  if (config.widths.size() < 3) throw ConfigError("converge.widths: expected at least 3 widths");
  if (std::ranges::adjacent_find(config.widths, std::greater_equal{}) != config.widths.end()) {
    throw ConfigError("converge.widths: expected widths that grow from one to the next");
  }
  config::require_fault_acts(config);
  for (const auto& all : {config.stacks(), config.told_stacks()}) {
    for (const StackSpec& spec : all) {
      for (const int width : config.widths) config::at_width(spec, width, list);
    }
  }
}

ConvergeResult run(const ConvergeConfig& config, stacks::Progress& progress) {
  require_widths(config);
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  const std::vector<StackSpec> stacks = config.stacks();
  const std::vector<StackSpec> told = config.told_stacks();
  stacks::require_told_is_seen(config, "converge", false, stream_numbers);
  progress.begin("converge", static_cast<int>(stacks.size() * config.widths.size()) * config.width_seeds);
  ConvergeResult result;
  result.stopped_early = stacks::until_stopped([&] {
    for (std::size_t i = 0; i < stacks.size(); ++i) {
      std::vector<Convergence> fits;
      for (const Statistic s : statistics) {
        Convergence& c = fits.emplace_back();
        c.spec = stacks[i];
        c.statistic = s;
      }
      for (const int width : config.widths) {
        progress.throw_if_stop_requested();
        measure_width(config, *backend, config::at_width(stacks[i], width, list),
                      config::at_width(told[i], width, list), fits, progress);
      }
      result.fits.insert(result.fits.end(), fits.begin(), fits.end());
    }
  });
  if (!result.stopped_early) judge_exponents(result, config.width_seeds, config.agreement.familywise_error);
  return result;
}

}  // namespace periscope::converge
