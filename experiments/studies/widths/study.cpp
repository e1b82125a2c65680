#include "experiments/core/study/study.h"

#include "experiments/core/config/told.h"
#include "experiments/studies/widths/converge.h"
#include "experiments/studies/widths/ladder.h"

namespace periscope::widths {
namespace {

using study::Job;
using study::Outcome;
using study::Request;

Job resolve_converge(const Request& request) {
  const auto config = request.load(converge::section, study::Matrices::any);
  converge::require_widths(config);
  return {.file = "converge",
          .run_options = config.run,
          .resolved = config::resolved(config),
          .told = config::told_json(config),
          .need = stacks::widths_need(config, config.widths, "converge.widths", config.width_seeds,
                                      study::threads_of(config.run)),
          .keeps_cells = true,
          .run = [config](stacks::Progress& progress) -> Outcome {
            const converge::ConvergeResult result = converge::run(config, progress);
            if (result.stopped_early) return {.stopped_early = true};
            return {.data = converge::dataset_of(config, result),
                    .table = converge::table(result) + config::told_lines(config),
                    .code = study::code_of(!converge::any_disagrees(result))};
          }};
}

Job resolve_ladder(const Request& request) {
  const auto config = request.load(stacks::ladder_section, study::Matrices::any);
  stacks::require_limit(config);
  return {.file = "ladder",
          .run_options = config.run,
          .resolved = config::resolved(config),
          .told = config::told_json(config),
          .need = stacks::widths_need(config, config.widths, "ladder.widths", config.width_seeds,
                                      study::threads_of(config.run)),
          .keeps_cells = true,
          .run = [config](stacks::Progress& progress) -> Outcome {
            const stacks::LadderResult result = stacks::run_ladder(config, progress);
            if (result.stopped_early) return {.stopped_early = true};
            return {.data = ladder::dataset_of(config, result),
                    .table = ladder::table(result, config) + config::told_lines(config),
                    .code = study::code_of(!stacks::any_disagrees(result))};
          }};
}

}  // namespace

std::vector<study::Study> studies() {
  return {{.name = "converge",
           .question = "Double the width: does theory's error shrink as 1/width, the noise as 1/sqrt(seeds)?",
           .example = "converge --config experiments/configs/converge.toml",
           .sections = {config::any_section(converge::section)},
           .schema = &converge::schema(),
           .compares = true,
           .skips = true,
           .resolve = resolve_converge},
          {.name = "ladder",
           .question = "Follow every number along growing widths: is its limit what theory says?",
           .example = "ladder --config experiments/configs/ladder.toml",
           .sections = {config::any_section(stacks::ladder_section)},
           .schema = &ladder::schema(),
           .compares = true,
           .skips = true,
           .resolve = resolve_ladder}};
}

}  // namespace periscope::widths
