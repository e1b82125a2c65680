#include <fmt/format.h>

#include "experiments/common/kept_reading.h"
#include "experiments/common/over_seeds.h"
#include "experiments/common/stacks.h"
#include "experiments/common/token_ids.h"
#include "experiments/results/json_text.h"
#include "experiments/results/sha256.h"
#include "sim/measure/gradient_probe.h"
#include "sim/model/input.h"
#include "sim/model/loss.h"

namespace periscope {
namespace {

Reading read_seed(const Backend& backend, const StackSpec& spec, const RunOptions& run, std::uint64_t seed) {
  const GeneratedWeights weights(backend, spec, run.dtype, seed);
  const StackContext context{.ops = backend, .model = spec.model, .weights = weights};
  const Tensor input = stack_input(context, spec, run.dtype, seed);
  Probe probe(context);
  if (!run.backward) {
    stack_forward(context, input, {.recorders = {&probe}});
    return probe.take();
  }
  GradientProbe gradients(context);
  backpropagate(context, input, label_ids(spec, seed), {.recorders = {&probe, &gradients}, .gradients = {&gradients}});
  Reading reading = probe.take();
  gradients.take_into(reading.profile);
  return reading;
}

}  // namespace

bool one_seed_per_thread(const StackSpec& spec) {
  constexpr long largest = 4L << 20U;  // entries of a matrix
  return static_cast<long>(spec.model.mlp_width) * spec.model.width <= largest;
}

std::string seeds_key(std::string_view what, const StackSpec& spec, const RunOptions& run) {
  const nlohmann::ordered_json all{resolved_json(spec, true), name_of(run.dtype), run.device, run.backward};
  return fmt::format("{} {}", what, sha256_hex(json_text(all)).substr(0, 16));
}

Tensor stack_input(const StackContext& context, const StackSpec& spec, DType dtype, std::uint64_t seed) {
  const std::vector<int> ids = token_ids(spec, seed);
  return ids.empty() ? gaussian_input(context.ops, spec, dtype, seed) : embedding_forward(context, ids);
}

SeedAverage measure_stack(const Backend& backend, const StackSpec& spec, const RunOptions& run, int seeds,
                          Progress& progress, const std::function<void(const Reading&)>& on_seed) {
  SeedAverage average;
  over_kept_seeds(
      "reading", spec, run, seeds, progress, [&](std::uint64_t seed) { return read_seed(backend, spec, run, seed); },
      kept_json, [&](const JournalPart& cell) { return kept_reading(cell, spec.model, run.backward); },
      [&](const Reading& reading) {
        average.add(reading);
        on_seed(reading);
      });
  return average;
}

}  // namespace periscope
