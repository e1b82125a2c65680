#include "experiments/engine/study/study.h"

#include "experiments/engine/settings/theory_override.h"
#include "experiments/studies/widths/ladder.h"

namespace periscope::widths {
namespace {

study::Job resolve(const study::Request& request) {
  const auto config = request.load(stacks::ladder_section, study::Matrices::any);
  stacks::require_limit(config);
  return {.file = "ladder",
          .run_options = config.run,
          .resolved = config::resolved(config).add(stacks::ladder_section, config),
          .overridden = config::override_json(config),
          .memory = stacks::widths_memory(config, config.widths, config.width_seeds, study::threads_of(config.run)),
          .run = [config](stacks::Progress& progress) -> study::Outcome {
            const stacks::LadderResult result = stacks::run_ladder(config, progress);
            const std::vector<ladder::Convergence> convergence =
                ladder::convergence_of(result, config.agreement.familywise_error);
            return {.data = ladder::dataset_of(config, result, convergence),
                    .table = ladder::table(result, config) + "\n" + ladder::table(convergence) +
                             config::override_lines(config),
                    .code = study::code_of(!stacks::any_disagrees(result) && !ladder::any_disagrees(convergence))};
          }};
}

}  // namespace

std::vector<study::Study> studies() {
  return {{.name = "ladder",
           .question = "Measure at increasing widths: does every number converge to the theory's limit, and how fast?",
           .example = "ladder --config experiments/configs/ladder.toml",
           .sections = {config::any_section(stacks::ladder_section)},
           .schema = &ladder::schema(),
           .compares = true,
           .skippable = true,
           .without = {"seeds"},
           .resolve = resolve}};
}

}  // namespace periscope::widths
