#include "experiments/app/commands.h"

#include <omp.h>

#include "experiments/app/command.h"
#include "experiments/core/config/told.h"
#include "experiments/core/stacks/fits.h"
#include "experiments/studies/widths/converge.h"

namespace periscope::converge {
namespace {

ExitCode run_converge(const CommonOptions& options) {
  const ConvergeConfig config = options.load(section, Matrices::any);
  const Need need = widths_need(config, config.widths, "converge.widths", config.width_seeds, omp_get_max_threads());
  return run_cells(
      options, need, "converge", config.run.out, resolved(config),
      [&](Progress& progress) { return run(config, progress); },
      [&](const ConvergeResult& result) {
        return publish("converge", options, config.run.out, columns(config, result), table(result) + told_lines(config),
                       any_disagrees(result) ? ExitCode::check_failed : ExitCode::ok);
      });
}

}  // namespace

void add_commands(CLI::App& app, int& code) {
  add_comparing_command(app, code, "converge",
                        "Double the width: does theory's error shrink as 1/width, the noise as 1/sqrt(seeds)?",
                        run_converge);
}

}  // namespace periscope::converge
