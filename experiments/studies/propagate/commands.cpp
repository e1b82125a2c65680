#include "experiments/app/commands.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <memory>

#include "experiments/app/command.h"
#include "experiments/app/standard_streams.h"
#include "experiments/core/config/told.h"
#include "experiments/core/stacks/confront.h"
#include "experiments/core/stacks/fits.h"
#include "experiments/core/stacks/verdict_table.h"
#include "experiments/studies/propagate/propagate.h"
#include "sim/spec/printable.h"

namespace periscope::propagate {
namespace {

ExitCode report(const std::string& name, const CommonOptions& options, const Config& config,
                const std::vector<StackResult>& results, ExitCode code) {
  return publish(name, options, config.run.out, columns(config, results),
                 verdict_table(results, config.agreement, use_colour()) + told_lines(config), code);
}

/// What `propagate` takes besides the common flags.
struct PropagateFlags {
  bool fail_on_divergence = false;
  bool backward = false;
  std::string dump;
};

ExitCode run_propagate(const CommonOptions& options, const PropagateFlags& own) {
  Config config = options.load(Matrices::any);
  config.run.backward = config.run.backward || own.backward;
  if (options.skip_finished && own.fail_on_divergence) {
    throw ConfigError("--skip-finished with --fail-on-divergence: a result file does not keep that flag's exit code");
  }
  if (options.skip_finished && !own.dump.empty()) {
    throw ConfigError("--skip-finished with --dump: a result file does not say what else was written");
  }
  const int threads = omp_get_max_threads();
  if (!own.dump.empty()) {
    require_place_for_results("propagate", config.run.out);
    RunOptions dumped = config.run;
    dumped.dtype = DType::f64;
    const Need need = dump_need(config.base, dumped, threads);
    within_memory(need, options.force, options.quiet, [&] { dump(config, own.dump, options.force); });
    if (!options.quiet) print_message(fmt::format("wrote {}\n", printable(own.dump)));
  }
  const Need need = stacks_need(config, config.theory.finite_width.value_or(true), true, threads);
  return run_cells(
      options, need, "propagate", config.run.out, resolved(config),
      [&](Progress& progress) { return confront(config, progress); },
      [&](const ConfrontedStacks& result) {
        const bool diverged =
            std::ranges::any_of(result.stacks, [](const auto& r) { return r.measurement->diverged_seeds > 0; });
        const ExitCode else_code = diverged && own.fail_on_divergence ? ExitCode::diverged : ExitCode::ok;
        return report("propagate", options, config, result.stacks,
                      any_disagrees(result.stacks) ? ExitCode::check_failed : else_code);
      });
}

ExitCode run_theory(const CommonOptions& options, bool backward) {
  Config config = options.load(Matrices::any);
  config.run.backward = config.run.backward || backward;
  const Need need = stacks_need(config, config.theory.finite_width.value_or(false), false, omp_get_max_threads());
  return within_memory(need, options.force, options.quiet, [&] {
    return run_whole(
        options, "theory", config.run.out, [&](Progress& progress) { return predict_alone(config, progress); },
        [&](const ConfrontedStacks& result) { return report("theory", options, config, result.stacks, ExitCode::ok); });
  });
}

}  // namespace

void add_commands(CLI::App& app, int& code) {
  const auto own = std::make_shared<PropagateFlags>();
  CLI::App* propagate = add_comparing_command(
      app, code, "propagate", "Predict and measure the signals of random stacks; say whether they agree",
      [=](const CommonOptions& options) { return run_propagate(options, *own); });
  propagate->add_flag("--fail-on-divergence", own->fail_on_divergence,
                      "Exit 5 if the mean square of a seed's stream stops being finite");
  propagate->add_flag("--backward", own->backward, "Predict and measure gradients too");
  propagate->add_option("--dump", own->dump,
                        "Folder for weights, activations and, with --backward, gradients of the first seed, in f64");
  const auto backward = std::make_shared<bool>(false);
  add_command(app, code, "theory", "Print the prediction alone", [=](const CommonOptions& options) {
    return run_theory(options, *backward);
  })->add_flag("--backward", *backward, "Predict gradients too");
}

}  // namespace periscope::propagate
