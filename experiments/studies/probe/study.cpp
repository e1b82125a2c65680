#include "experiments/engine/study/study.h"

#include "experiments/engine/settings/theory_override.h"
#include "experiments/engine/study/checkpoint_flags.h"
#include "experiments/studies/probe/probe.h"

namespace periscope::probe {
namespace {

const std::vector<study::Flag<ProbeConfig>>& flags() {
  static const auto all = study::checkpoint_flags<ProbeConfig>(
      {{"labels", &ProbeConfig::labels, "Ids to predict, one per token, -1 for none; default: the next token"},
       {"backward", &ProbeConfig::backward, "Also compute gradients of the loss"},
       {"dump", &ProbeConfig::dump, "Folder for activations.safetensors: activations and gradients in f64"},
       {"top", &ProbeConfig::top, "Number of largest stream entries to report per depth", at_least(1)},
       {"no-theory", &ProbeConfig::no_theory,
        "Skip the theory at initialisation and at the scales of the weights, and the random models with these scales"},
       {"draws", &ProbeConfig::draws,
        "Number of random models per null (random weights that share some sizes), for null_left_over_error",
        from_to(0, 1 << 20)},
       {"fail-on-divergence", &ProbeConfig::fail_on_divergence,
        "Exit with code 5 if the mean square of a signal or a gradient, or the loss, is not finite"}});
  return all;
}

ProbeConfig config_of(const study::Request& request) {
  ProbeConfig config = study::checkpoint_config(flags(), request, study::load_for_checkpoint(request));
  if (config.no_theory && request.flags.contains("draws")) {
    throw ConfigError("--draws with --no-theory: expected only one; --no-theory skips random models");
  }
  config.run.backward = config.run.backward || config.backward;
  study::require_other_folder("--dump", config.dump, config.checkpoint);
  config.with_theory = !config.no_theory;
  return config;
}

study::Outcome outcome_of(const ProbeConfig& config, const ProbeResult& result) {
  study::Outcome outcome{.data = dataset_of(result), .table = table(result), .resolved = result.resolved};
  study::set_checkpoint(*outcome.data, config.checkpoint, result.ignored_keys);
  if (config.fail_on_divergence && !not_finite(result).empty()) outcome.code = ExitCode::diverged;
  if (violates_growth_identity(result.measured)) outcome.code = ExitCode::check_failed;
  return outcome;
}

/// The memory estimate and the provenance depend on the checkpoint, so the run computes them.
study::Job resolve(const study::Request& request) {
  const ProbeConfig config = config_of(request);
  return {.file = "probe",
          .run_options = config.run,
          .resolved = {},
          .overridden = config::override_json(config),
          .run = [config](stacks::Progress& progress) { return outcome_of(config, run(config, progress)); }};
}

}  // namespace

std::vector<study::Study> studies() {
  return {{.name = "probe",
           .question = "Run a checkpoint on tokens; compare it with theory at initialisation and at its weight scales",
           .example = "probe DIR --text FILE",
           .flags = flag_texts(flags()),
           .schema = &schema(),
           .without = {"vary", "seeds", "memory"},
           .shared_keys = {"model.", "init.", "input.", "theory.", "agreement.", "run.backward"},
           .shown_first = true,
           .resolve = resolve}};
}

}  // namespace periscope::probe
