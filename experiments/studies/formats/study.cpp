#include "experiments/engine/study/study.h"

#include "experiments/engine/run/override_effect.h"
#include "experiments/engine/settings/stack_rules.h"
#include "experiments/engine/settings/theory_override.h"
#include "experiments/studies/formats/formats.h"

namespace periscope::formats {
namespace {

const std::vector<study::Flag<config::RunOptions>> flags{
    {"backward", &config::RunOptions::backward, "Also compute gradients, and predict the noise of the stream"}};

/// Returns the memory estimate of the certificates and the passes. One of the passes stores all signals and gradients.
stacks::MemoryEstimate memory_of(const FormatsConfig& config) {
  const int threads = study::threads_of(config.run);
  stacks::MemoryEstimate all = stacks::stacks_memory(config.without_gradients(), true, false, threads);
  config::RunOptions compared = config.run;
  compared.dtype = DType::f64;
  for (const StackSpec& spec : config.stacks()) {
    all.add_phase(stacks::reading_memory(spec, compared, config.run.seeds, threads, config.run.backward ? 2.0 : 1.0));
    all.add_phase(stacks::gram_memory(spec.model));
  }
  return all;
}

study::Job resolve(const study::Request& request) {
  FormatsConfig config = request.load(section);
  config.run = study::read_flags(flags, request.flags, config.run);
  config::require_dividing_norms(
      config.stacks(), "the variance law at this width and the noise after norms are unknown for pointwise norms");
  config::require_single_additions(config.stacks(),
                                   "rounding noise is propagated only through sublayers with one module (T1)");
  (void)checked_formats(config);  // rejects invalid formats before the run
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
  return {{.name = "formats",
           .question = "Run stacks in number formats: does the variance law hold, what drifts, what overflows?",
           .example = "formats --config experiments/configs/formats.toml",
           .sections = {config::any_section(section)},
           .flags = flag_texts(flags),
           .schema = &schema(),
           .compares = true,
           .skippable = true,
           .without = {"device", "dtype", "memory"},
           .shared_keys = {"model.", "init.", "input.", "theory.", "agreement.", "run.backward"},
           .resolve = resolve}};
}

}  // namespace periscope::formats
