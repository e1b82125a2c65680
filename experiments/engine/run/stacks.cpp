#include "experiments/engine/run/stacks.h"

#include <fmt/format.h>
#include <omp.h>

#include <limits>
#include <stdexcept>

#include "experiments/engine/run/cost.h"
#include "experiments/engine/run/memory_estimate.h"
#include "experiments/engine/run/over_seeds.h"
#include "experiments/engine/run/override_effect.h"
#include "experiments/engine/run/pass_progress.h"
#include "experiments/engine/run/token_ids.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/settings/sha256.h"
#include "experiments/engine/settings/theory_override.h"
#include "sim/backends.h"
#include "sim/base/mapped.h"
#include "sim/measure/gradient_probe.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"
#include "theory/predict/finite_width_chain.h"

namespace periscope::stacks {
namespace {

std::string label_of(const StackSpec& spec) {
  return fmt::format("{}, {} input", config::short_label(spec), name_of(spec.input.kind));
}

Reading read_seed(const Backend& backend, const StackSpec& spec, const config::RunOptions& run, std::uint64_t seed,
                  std::size_t budget, Progress& progress) {
  const std::unique_ptr<WeightSource> weights = random_weights(backend, spec, run, seed);
  const StackContext context{.ops = backend, .model = spec.model, .weights = *weights};
  const Tensor input = stack_input(context, spec, run.dtype, seed);
  Probe probe(context);
  PassProgress passes(progress, spec.model.sublayers(), run.backward, omp_in_parallel() == 0);
  if (!run.backward) {
    stack_forward(context, input, {.recorders = {&probe, &passes}});
    return probe.take();
  }
  GradientProbe gradients(context);
  backpropagate(context, input, label_ids(spec, seed),
                {.recorders = {&probe, &gradients, &passes}, .gradients = {&gradients}}, budget);
  Reading reading = probe.take();
  gradients.take_into(reading.profile);
  return reading;
}

}  // namespace

config::RunOptions run_of(const config::Config& config, const StackSpec& spec) {
  config::RunOptions run = config.run;
  if (run.paired) return run;
  const std::string name = fmt::format("{} {}", config::placement_label(spec), name_of(spec.input.kind));
  constexpr std::size_t digits = 15;  // hexadecimal digits, 60 bits
  run.seed += std::stoull(config::sha256_hex(name).substr(0, digits), nullptr, 16);
  return run;
}

std::string prediction_task(std::string_view what, const StackSpec& measured, const StackSpec& overridden,
                            const config::Config& config) {
  const nlohmann::ordered_json all{config::resolved_json(measured, true),
                                   config::resolved_json(overridden, true),
                                   config::section_json(config::theory_section, config.theory),
                                   run_of(config, measured).seed,
                                   config.run.seeds,
                                   config.run.backward,
                                   weights_used(measured, config.run)};
  return cache::task_name(what, config::json_text(all));
}

std::int64_t tasks_of_stacks(const config::Config& config, bool at_width, bool measures) {
  const auto stacks = static_cast<std::int64_t>(config.stacks().size());
  return stacks * (1 + (at_width ? 1 : 0) + (measures ? config.run.seeds : 0));
}

theory::PredictionOptions prediction_options(const config::Config& config) {
  return {.tolerance = config.theory.wanted_tolerance(),
          .gradient_tolerance = config.theory.wanted_gradient_tolerance(),
          .seed = config.run.seed,
          .fault = config.theory.fault};
}

std::vector<StackResult> predict_stacks(const config::Config& config, bool at_width, Progress& progress) {
  config::require_effective_fault(config);
  const std::vector<StackSpec> stacks = config.stacks();
  const std::vector<StackSpec> overridden = config.predicted_stacks();
  std::vector<StackResult> results;
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    progress.throw_if_stop_requested();
    const StackSpec& spec = stacks[i];
    const std::uint64_t seed = run_of(config, spec).seed;
    StackResult result{.spec = spec, .prediction = {}, .measurement = {}, .judged = {}};
    theory::PredictionOptions options = prediction_options(config);
    options.operations = affordable_operations(spec, config, config.run.seeds);
    options.reaches_tolerance = config.theory.precision_was_given();
    options.seed = seed;
    options.on_progress = progress.on_progress();
    if (config.run.backward) options.labels = distinct_label_ids(spec, seed, config.run.seeds);
    // Token ids and labels always come from the measured stack, as overrides do not apply to them.
    const std::vector<std::vector<int>> ids = distinct_token_ids(spec, seed, config.run.seeds);
    const auto task = [&](std::string_view what) {
      return [&, what] { return prediction_task(what, spec, overridden[i], config); };
    };
    result.prediction = cached(progress, label_of(spec) + ": theory", task("limit"),
                               [&] { return theory::predict(overridden[i], ids, options); });
    if (at_width) {
      result.prediction = cached(progress, label_of(spec) + ": theory at this width", task("at-width"), [&] {
        theory::Prediction prediction = std::move(result.prediction);
        theory::predict_at_width(
            overridden[i], ids,
            {.seeds = config.run.seeds,
             .replicates = config.theory.replicates,
             .operations = config.theory.finite_width ? std::numeric_limits<double>::infinity()
                                                      : config.run.seeds * reading_operations(spec, config.run),
             .seed = seed,
             .fault = config.theory.fault,
             .on_progress = progress.on_progress()},
            prediction);
        return prediction;
      });
    }
    results.push_back(std::move(result));
  }
  return results;
}

bool one_seed_per_thread(const StackSpec& spec, const config::RunOptions& run, int seeds, int threads) {
  constexpr long largest = 4L << 20U;  // number of entries of a matrix or a signal
  const long hidden = spec.model.mlp_width;
  if (hidden * spec.model.width <= largest) return true;
  return draws_matrix_free(spec, run) && seeds >= threads && hidden * spec.input.tokens <= largest;
}

std::string seeds_task(std::string_view what, const StackSpec& spec, const config::RunOptions& run) {
  if (spec.scales != nullptr) throw std::logic_error("seeds_task does not support stacks with scales");
  const nlohmann::ordered_json all{config::resolved_json(spec, true), name_of(run.dtype), run.device, run.backward,
                                   weights_used(spec, run)};
  return cache::task_name(what, config::json_text(all));
}

Tensor stack_input(const StackContext& context, const StackSpec& spec, DType dtype, std::uint64_t seed) {
  const std::vector<int> ids = token_ids(spec, seed);
  return ids.empty() ? gaussian_input(context.ops, spec, dtype, seed) : embedding_forward(context, ids);
}

SeedAverage measure_stack(const Backend& backend, const StackSpec& spec, const config::RunOptions& run, int seeds,
                          const std::string& label, Progress& progress,
                          const std::function<void(const Reading&)>& on_seed) {
  SeedAverage average;
  const int threads = omp_get_max_threads();
  const std::size_t budget = tape_budget(spec, run, seeds, threads, available_bytes(threads));
  over_cached_seeds(
      "reading", spec, run, seeds, label, progress,
      [&](std::uint64_t seed) { return read_seed(backend, spec, run, seed, budget, progress); },
      [&](const Reading& reading) {
        average.add(reading);
        on_seed(reading);
      });
  return average;
}

void measure_stacks(const config::Config& config, std::vector<StackResult>& stacks, Progress& progress) {
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  for (StackResult& stack : stacks) {
    std::vector<Profile> per_seed;
    const SeedAverage average = measure_stack(
        *backend, stack.spec, run_of(config, stack.spec), config.run.seeds, label_of(stack.spec), progress,
        [&](const Reading& reading) { per_seed.push_back(judge::compared_part(reading.profile)); });
    stack.measurement = {average.profile(),     average.seeds(), average.diverged_seeds(),
                         average.diverged_at(), average.top(),   std::move(per_seed)};
  }
}

std::vector<judge::StackVerdict> judge_stacks(const config::Config& config, const std::vector<StackResult>& stacks) {
  const auto comparison = [&](const StackResult& stack) {
    return judge::Comparison{stack.spec, stack.measurement.value(), config.run.dtype, stack.prediction};
  };
  return judge::verdicts_of(mapped(stacks, comparison), config.agreement);
}

std::vector<StackResult> compare(const config::Config& config, const std::string& what, Progress& progress,
                                 bool measures) {
  const bool at_width = config.theory.finite_width.value_or(measures);
  if (measures) require_effective_override(config, what, at_width, verdict_numbers);
  progress.begin(what, tasks_of_stacks(config, at_width, measures));
  std::vector<StackResult> result = predict_stacks(config, at_width, progress);
  if (!measures) return result;
  measure_stacks(config, result, progress);
  progress.finish("judging");
  const std::vector<judge::StackVerdict> verdicts = judge_stacks(config, result);
  for (std::size_t i = 0; i < result.size(); ++i) result[i].judged = verdicts[i];
  return result;
}

}  // namespace periscope::stacks
