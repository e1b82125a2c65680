#include "experiments/commands.h"

#include <fmt/format.h>

#include <memory>

#include "experiments/certify/commands.h"
#include "experiments/checkpoint/commands.h"
#include "experiments/common/command.h"
#include "experiments/common/provenance.h"
#include "experiments/common/publish.h"
#include "experiments/common/stack_columns.h"
#include "experiments/common/told.h"
#include "experiments/common/verdict_table.h"
#include "experiments/confront/commands.h"
#include "experiments/converge.h"
#include "experiments/dump.h"
#include "experiments/export_csv.h"
#include "experiments/gradients/commands.h"
#include "experiments/list.h"
#include "experiments/probe/commands.h"
#include "experiments/propagate.h"
#include "experiments/result_schemas.h"
#include "experiments/soundness/commands.h"
#include "experiments/toy_vector.h"
#include "experiments/verify/commands.h"

namespace periscope {
namespace {

void report(const std::string& name, const CommonOptions& options, const Config& config,
            const std::vector<StackResult>& results) {
  publish(name, options, config.run.out, stack_columns(config, results),
          verdict_table(results, config.agreement, use_colour()) + told_lines(config));
}

/// What `propagate` takes besides the common flags.
struct PropagateOptions {
  bool fail_on_divergence = false;
  bool backward = false;
  std::string dump;
};

ExitCode run_propagate(const CommonOptions& options, const PropagateOptions& own) {
  Config config = options.load();
  config.run.backward = config.run.backward || own.backward;
  if (!own.dump.empty()) {
    dump(config, own.dump);
    if (!options.quiet) fmt::print(stderr, "wrote {}\n", own.dump);
  }
  return run_cells(
      options, "propagate", config.run.out, resolved(config),
      [&](Progress& progress) { return propagate(config, progress); },
      [&](const PropagateResult& result) {
        report("propagate", options, config, result.stacks);
        const bool diverged =
            std::ranges::any_of(result.stacks, [](const auto& r) { return r.measurement->diverged_seeds > 0; });
        if (any_disagrees(result.stacks)) return ExitCode::check_failed;
        return diverged && own.fail_on_divergence ? ExitCode::diverged : ExitCode::ok;
      });
}

ExitCode run_theory(const CommonOptions& options, bool backward) {
  Config config = options.load();
  config.run.backward = config.run.backward || backward;
  return run_whole(
      options, [&](Progress& progress) { return predict(config, progress); },
      [&](const PropagateResult& result) {
        report("theory", options, config, result.stacks);
        return ExitCode::ok;
      });
}

ExitCode run_converge(const CommonOptions& options) {
  const ConvergeConfig config = options.load(converge_section);
  return run_cells(
      options, "converge", config.run.out, resolved(config),
      [&](Progress& progress) { return converge(config, progress); },
      [&](const ConvergeResult& result) {
        publish("converge", options, config.run.out, converge_columns(config, result),
                converge_table(result) + told_lines(config));
        return any_disagrees(result) ? ExitCode::check_failed : ExitCode::ok;
      });
}

ExitCode run_toy(const CommonOptions& options) {
  const ToyVector toy = toy_vector();
  if (options.json) print_json(toy_json(toy));
  if (!options.quiet) fmt::print(stderr, "{}", toy_table(toy));
  return ExitCode::ok;
}

ExitCode run_list(const CommonOptions& options, bool columns) {
  if (options.json) print_json(columns ? columns_json() : list_json());
  if (!options.quiet && !options.json) fmt::print("{}", columns ? columns_text() : list_text());
  return ExitCode::ok;
}

}  // namespace

void add_commands(CLI::App& app, int& code) {
  const auto own = std::make_shared<PropagateOptions>();
  add_comparing_command(app, code, "propagate",
                        "Predict and measure the signals of random stacks; say whether they agree",
                        [=](const CommonOptions& options) { return run_propagate(options, *own); });
  CLI::App* propagate = app.get_subcommand("propagate");
  propagate->add_flag("--fail-on-divergence", own->fail_on_divergence, "Exit 5 if a seed's signals stop being finite");
  propagate->add_flag("--backward", own->backward, "Predict and measure gradients too");
  propagate->add_option("--dump", own->dump,
                        "Folder for weights, activations and, with --backward, gradients of the first seed, in f64");
  const auto theory_backward = std::make_shared<bool>(false);
  add_command(app, code, "theory", "Print the prediction alone",
              [=](const CommonOptions& options) { return run_theory(options, *theory_backward); });
  app.get_subcommand("theory")->add_flag("--backward", *theory_backward, "Predict gradients too");
  add_comparing_command(app, code, "converge",
                        "Double the width: does theory's error shrink as 1/width, the noise as 1/sqrt(seeds)?",
                        run_converge);
  add_command(app, code, "toy", "The toy vector [2, 0, -2] through Peri-LN and through the reviews' version of it",
              run_toy);
  const auto columns = std::make_shared<bool>(false);
  add_command(app, code, "list", "Placements, presets, every configuration key, experiments",
              [=](const CommonOptions& options) { return run_list(options, *columns); })
      ->add_flag("--columns", *columns, "Instead: the columns of every kind of result, their units and meaning");

  add_gradient_commands(app, code);
  add_verify_command(app, code);
  add_checkpoint_commands(app, code);
  add_probe_commands(app, code);
  add_certify_command(app, code);
  add_soundness_command(app, code);
  add_confront_commands(app, code);

  CLI::App* command = app.add_subcommand("export", "Write a result file's variables as text");
  const auto file = std::make_shared<std::string>();
  const auto csv = std::make_shared<std::string>();
  command->add_option("file", *file, "A NetCDF result file")->required();
  command->add_option("--csv", *csv, "CSV file to write, - for stdout")->required();
  command->callback([=, &code] { code = static_cast<int>(export_csv(*file, *csv)); });
}

}  // namespace periscope
