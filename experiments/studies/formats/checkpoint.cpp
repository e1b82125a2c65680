#include <omp.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "experiments/engine/run/memory_estimate.h"
#include "experiments/engine/run/size_nulls.h"
#include "experiments/studies/formats/formats.h"
#include "sim/backends.h"
#include "sim/base/error.h"
#include "sim/checkpoint/checkpoint_weights.h"

namespace periscope::formats {
namespace {

stacks::MemoryEstimate memory_of(const FormatsConfig& config, const StackSpec& spec) {
  stacks::MemoryEstimate memory = passes_memory(spec, config.run, 1, omp_get_max_threads());
  memory.add_phase(stacks::gram_memory(spec.model));
  memory.key = "--max-tokens";
  return memory;
}

}  // namespace

CheckpointResult run_checkpoint(const FormatsConfig& config, stacks::Progress& progress) {
  const std::vector<TensorFormat> formats = checked_formats(config);
  const std::unique_ptr<Checkpoint> checkpoint = config.open();
  const nlohmann::ordered_json files = study::hashes_of(*checkpoint);  // hash first: files may change during the run
  const std::unique_ptr<Backend> ops = make_backend(config.run.device);
  const CheckpointWeights given(*ops, *checkpoint, DType::f64);
  stacks::TokenInput input = stacks::read_token_input(config, checkpoint->model(), config.checkpoint);
  if (config.run.backward && !input.has_labels()) {
    throw ConfigError("--backward: expected a loss; " + input.notes.back());
  }
  const Tokens tokens{.ids = input.ids, .labels = config.run.backward ? input.labels : std::vector<int>{}};
  StackSpec spec;
  spec.model = checkpoint->model();
  spec.input.kind = InputKind::tokens;
  spec.input.tokens = static_cast<int>(input.ids.size());
  CheckpointResult result{
      .stacks = {}, .notes = std::move(input.notes), .ignored_keys = checkpoint->ignored_keys(), .resolved = {}};
  for (const std::string& warning : checkpoint->warnings()) result.notes.push_back(warning);
  stacks::within_memory(memory_of(config, spec), config.force, progress, [&] {
    spec = stacks::with_scales_of(*ops, spec, given, tokens.ids, stacks::PreservedSizes::matrices);
    StackSpec null = spec;
    spec.label = config.model_name();
    null.label = "random";
    const GeneratedWeights random(*ops, null, DType::f64, config.run.seed);
    const auto names = [&](const ParameterId& id, std::int64_t entry) { return checkpoint->entry_name(id, entry); };
    const bool has_sizes =
        std::ranges::all_of(spec.scales->stddev, [](const auto& size) { return std::isfinite(size.second); });
    if (!has_sizes) result.notes.emplace_back("no random weights: the mean square of a given matrix is not finite");
    progress.begin("formats", has_sizes ? 2 : 1);
    for (const auto& [of, weights] :
         {std::pair<const StackSpec*, const WeightSource*>(&spec, &given), {&null, &random}}) {
      if (of == &null && !has_sizes) break;
      progress.throw_if_stop_requested();
      progress.next(of->label);
      FormatsStack stack = empty_stack(config, formats, *of);
      add(stack, read_passes(config, formats, *ops, *of, *weights, tokens, config.run.seed));
      if (config.certificates) {
        certify_formats(config, formats, *ops, *weights, of == &spec ? config::EntryNames(names) : nullptr, stack,
                        progress);
      }
      result.stacks.push_back(std::move(stack));
      progress.step(of->label);
    }
  });
  std::vector<StackSpec> specs;
  for (const FormatsStack& stack : result.stacks) specs.push_back(stack.spec);
  result.resolved = config::resolved(config, specs);
  result.resolved.add(section, config);
  for (auto* json : {&result.resolved.printed, &result.resolved.hashed}) (*json)["checkpoint"] = files;
  result.resolved.hashed["ids"] = tokens.ids;
  result.resolved.hashed["labels"] = tokens.labels;
  return result;
}

}  // namespace periscope::formats
