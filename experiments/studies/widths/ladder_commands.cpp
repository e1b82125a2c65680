#include "experiments/app/commands.h"

#include <omp.h>

#include "experiments/app/command.h"
#include "experiments/core/config/told.h"
#include "experiments/core/stacks/fits.h"
#include "experiments/studies/widths/ladder_report.h"

namespace periscope::ladder {
namespace {

ExitCode run_ladder(const CommonOptions& options) {
  const LadderConfig config = options.load(section, Matrices::any);
  const Need need = widths_need(config, config.widths, "ladder.widths", config.width_seeds, omp_get_max_threads());
  return run_cells(
      options, need, "ladder", config.run.out, resolved(config),
      [&](Progress& progress) { return run(config, progress); },
      [&](const LadderResult& result) {
        return publish("ladder", options, config.run.out, columns(config, result),
                       table(result, config) + told_lines(config),
                       any_disagrees(result) ? ExitCode::check_failed : ExitCode::ok);
      });
}

}  // namespace

void add_commands(CLI::App& app, int& code) {
  add_comparing_command(app, code, "ladder", "Follow every number along growing widths: is its limit what theory says?",
                        run_ladder);
}

}  // namespace periscope::ladder
