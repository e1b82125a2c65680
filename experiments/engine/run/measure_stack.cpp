#include <omp.h>

#include <stdexcept>

#include "experiments/engine/run/cost.h"
#include "experiments/engine/run/memory_estimate.h"
#include "experiments/engine/run/over_seeds.h"
#include "experiments/engine/run/pass_progress.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/engine/run/token_ids.h"
#include "experiments/engine/settings/json_text.h"
#include "sim/measure/gradient_probe.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"

namespace periscope::stacks {
namespace {

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

bool one_seed_per_thread(const StackSpec& spec, const config::RunOptions& run, int seeds, int threads) {
  constexpr long largest = 4L << 20U;  // entries of a matrix, or of a signal
  const long hidden = spec.model.mlp_width;
  if (hidden * spec.model.width <= largest) return true;
  return draws_matrix_free(spec, run) && seeds >= threads && hidden * spec.input.tokens <= largest;
}

std::string seeds_task(std::string_view what, const StackSpec& spec, const config::RunOptions& run) {
  if (spec.scales != nullptr) throw std::logic_error("the task of a stack's seeds lacks its scales");
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

}  // namespace periscope::stacks
