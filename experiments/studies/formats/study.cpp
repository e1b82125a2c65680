#include "experiments/engine/study/study.h"

#include <fmt/format.h>

#include "experiments/engine/run/override_effect.h"
#include "experiments/engine/settings/stack_rules.h"
#include "experiments/engine/settings/theory_override.h"
#include "experiments/studies/formats/formats.h"
#include "sim/base/printable.h"

namespace periscope::formats {
namespace {

const std::vector<study::Flag<FormatsConfig>>& flags() {
  static const auto all = study::checkpoint_flags<FormatsConfig>(
      {{"labels", &FormatsConfig::labels, "Ids to predict, one per token, -1 for none; default: the next token"},
       {"backward", &FormatsConfig::backward, "Also compute gradients, and predict the noise of the stream"}},
      false);
  return all;
}

stacks::MemoryEstimate memory_of(const FormatsConfig& config) {
  const int threads = study::threads_of(config.run);
  stacks::MemoryEstimate all = stacks::stacks_memory(config.without_gradients(), true, false, threads);
  for (const StackSpec& spec : config.stacks()) {
    all.add_phase(passes_memory(spec, config.run, config.run.seeds, threads));
    all.add_phase(stacks::gram_memory(spec.model));
  }
  return all;
}

/// Throws ConfigError for keys and flags without an effect on a checkpoint, or on random stacks.
void require_meaning(const FormatsConfig& config, const study::Request& request) {
  const bool reads = !config.tokens.empty() || !config.text.empty() || !config.labels.empty() ||
                     !config.tokenizer.empty() || config.max_tokens;
  if (config.checkpoint.empty()) {
    if (reads || !config.ignore_keys.empty()) {
      throw ConfigError(
          "formats: --tokens, --text, --labels, --tokenizer, --max-tokens and --ignore-key apply only to a checkpoint");
    }
    return;
  }
  study::require_keys_of_checkpoint(config, {"run.", "formats."});
  if (!request.theory_settings.empty()) throw ConfigError("--theory-set: does not apply to a checkpoint");
  if (request.run.contains("seeds")) throw ConfigError("--seeds: does not apply to a checkpoint");
  for (const char* key : {"run.seeds", "formats.massive", "formats.massive_features"}) {
    if (config.given.contains(key)) throw ConfigError(fmt::format("{}: does not apply to a checkpoint", key));
  }
}

study::Job resolve_checkpoint(const FormatsConfig& config) {
  if (const std::unique_ptr<Checkpoint> model = config.open(); model->model().ends().parts_of_stream() > 1) {
    throw ConfigError(fmt::format("{}: expected a model with one residual stream, found {}",
                                  printable(config.checkpoint), model->model().ends().parts_of_stream()));
  }
  return {.file = "formats",
          .run_options = config.run,
          .resolved = {},
          .overridden = config::override_json(config),
          .unskippable_reason = "a checkpoint: its settings become known only during the run",
          .run = [config](stacks::Progress& progress) {
            const CheckpointResult result = run_checkpoint(config, progress);
            study::Outcome outcome{.data = dataset_of(result.stacks),
                                   .table = checkpoint_table(result, config),
                                   .code = study::code_of(!check_failed(result.stacks)),
                                   .resolved = result.resolved};
            study::set_checkpoint(*outcome.data, config.checkpoint, result.ignored_keys);
            return outcome;
          }};
}

study::Job resolve(const study::Request& request) {
  auto config = study::checkpoint_config(flags(), request, request.load());
  config::read_section(config::TomlReader(config.tree), section, config);
  config.run.backward = config.run.backward || config.backward;
  require_meaning(config, request);
  (void)checked_formats(config);  // rejects invalid formats before the run
  if (!config.checkpoint.empty()) return resolve_checkpoint(config);
  config::require_dividing_norms(
      config.stacks(), "the variance law at this width and the noise after norms are unknown for pointwise norms");
  config::require_single_additions(config.stacks(),
                                   "rounding noise is propagated only through sublayers with one module (T1)");
  return {.file = "formats",
          .run_options = config.run,
          .resolved = config::resolved(config).add(section, config),
          .overridden = config::override_json(config),
          .memory = memory_of(config),
          .run = [config](stacks::Progress& progress) -> study::Outcome {
            stacks::require_effective_override(config.without_gradients(), "formats", true, stacks::verdict_numbers);
            const std::vector<FormatsStack> stacks = formats::run(config, progress);
            return {.data = dataset_of(stacks),
                    .table = table(stacks, config) + config::override_lines(config),
                    .code = study::code_of(!check_failed(stacks))};
          }};
}

}  // namespace

std::vector<study::Study> studies() {
  return {
      {.name = "formats",
       .question =
           "Run random stacks or a checkpoint in number formats: what drifts, what overflows, how large is the noise?",
       .example = "formats --config experiments/configs/formats.toml",
       .sections = {config::any_section(section)},
       .flags = flag_texts(flags()),
       .schema = &schema(),
       .compares = true,
       .skippable = true,
       .without = {"device", "dtype", "memory"},
       .shared_keys = {"model.", "init.", "input.", "theory.", "agreement.", "run.backward"},
       .resolve = resolve}};
}

}  // namespace periscope::formats
