#include "experiments/app/commands.h"

#include <omp.h>

#include <memory>

#include "experiments/app/command.h"
#include "experiments/core/config/told.h"
#include "experiments/core/stacks/fits.h"
#include "experiments/core/stacks/told_effect.h"
#include "experiments/studies/formats/formats.h"

namespace periscope::formats {
namespace {

ExitCode run_formats(const CommonOptions& options, bool backward) {
  FormatsConfig config = options.load(section);
  config.run.backward = config.run.backward || backward;
  Config forward = config;  // theory predicts no gradient here: noise is predicted from those that are measured (T27)
  forward.run.backward = false;
  require_told_is_seen(forward, "formats", true, verdict_numbers);
  const std::size_t passes = variants_of(config) * (checked_formats(config).size() + 1);
  const Need need = formats_need(config, static_cast<double>(passes), omp_get_max_threads());
  return run_cells(
      options, need, "formats", config.run.out, resolved(config),
      [&](Progress& progress) { return run(config, progress); },
      [&](const FormatsResult& result) {
        return publish("formats", options, config.run.out, columns(config, result),
                       table(result, config) + told_lines(config),
                       check_failed(result) ? ExitCode::check_failed : ExitCode::ok);
      });
}

}  // namespace

void add_commands(CLI::App& app, int& code) {
  const auto backward = std::make_shared<bool>(false);
  add_comparing_command(app, code, "formats",
                        "Run stacks in number formats: does the variance law survive, what drifts, what overflows?",
                        [=](const CommonOptions& options) { return run_formats(options, *backward); })
      ->add_flag("--backward", *backward, "Gradients too, and the predicted noise of the stream");
}

}  // namespace periscope::formats
