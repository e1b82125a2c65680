#include "experiments/app/commands.h"

#include <fmt/format.h>
#include <omp.h>

#include <memory>

#include "experiments/app/command.h"
#include "experiments/app/standard_streams.h"
#include "experiments/app/whole_number.h"
#include "experiments/core/stacks/fits.h"
#include "experiments/studies/power/false_alarms.h"
#include "experiments/studies/power/power.h"

namespace periscope::power {
namespace {

ExitCode run_false_alarms(const PowerRun& run, const CommonOptions& options, int master_seeds) {
  const FalseAlarmResult result = [&] {
    TerminalProgress progress(options.quiet);
    return count_false_alarms(run, master_seeds, progress);
  }();
  if (!options.quiet) print_message(false_alarm_table(result));
  if (result.stopped_early) return stopped();
  if (options.json) print_json(false_alarm_json(result));
  return too_many(result) ? ExitCode::check_failed : ExitCode::ok;
}

Need need_of(const PowerRun& run, int threads) {
  Need all;
  for (const auto* configs : {&run.configs, &run.told}) {
    for (const ladder::LadderConfig& config : *configs) {
      all.then(stacks_need(config, config.theory.finite_width.value_or(true), configs == &run.configs, threads));
    }
  }
  for (std::size_t i = 0; i < run.configs.size(); ++i) {
    if (!run.list.configs[i].ladder) continue;
    const ladder::LadderConfig& config = run.configs[i];
    all.then(widths_need(config, config.widths, "ladder.widths", config.width_seeds, threads));
  }
  return all;
}

ladder::LadderConfig load_listed(const PowerConfig& config, const CommonOptions& options,
                                 const std::vector<std::string>& told) {
  CommonOptions own = options;
  own.config = config.file;
  own.settings = config.settings;
  own.settings.insert(own.settings.end(), options.settings.begin(), options.settings.end());
  own.theory_settings = told;
  return own.load(ladder::section);
}

ExitCode run_power(const CommonOptions& options, std::optional<int> master_seeds) {
  const PowerRun run = load_power(options.config.empty() ? shipped_power_list() : options.config,
                                  [&](const PowerConfig& config, const std::vector<std::string>& told) {
                                    return load_listed(config, options, told);
                                  });
  if (master_seeds) {
    if (options.skip_finished) {
      throw ConfigError("--skip-finished with --master-seeds: its journal keeps what is there");
    }
    Need need = need_of(run, omp_get_max_threads());
    need.operations *= *master_seeds;
    return within_memory(need, options.force, options.quiet,
                         [&] { return run_false_alarms(run, options, *master_seeds); });
  }
  const std::string out = run.configs.front().run.out;
  return run_cells(
      options, need_of(run, omp_get_max_threads()), "power", out, resolved(run),
      [&](Progress& progress) { return power::run(run, progress); },
      [&](const PowerResult& result) {
        return publish("power", options, out, columns(result), table(result),
                       all_as_they_should_be(result) ? ExitCode::ok : ExitCode::check_failed);
      });
}

}  // namespace

void add_commands(CLI::App& app, int& code) {
  const auto master_seeds = std::make_shared<std::optional<int>>();
  CLI::App* power = add_skipping_command(
      app, code, "power", "Wrong theories against measurements: which configuration rejects which?",
      [=](const CommonOptions& options) { return run_power(options, *master_seeds); });
  power
      ->add_option("--master-seeds", *master_seeds,
                   "Instead: how often is the right theory rejected? Runs that many seeds; a journal in --out keeps "
                   "finished ones")
      ->check(positive_up_to(1'000'000));
}

}  // namespace periscope::power
