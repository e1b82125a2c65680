#include "experiments/app/commands.h"

#include <fmt/format.h>
#include <omp.h>

#include <memory>

#include "experiments/app/command.h"
#include "experiments/app/standard_streams.h"
#include "experiments/core/stacks/fits.h"
#include "experiments/studies/reproduce/reproduce.h"
#include "sim/spec/printable.h"

namespace periscope::reproduce {
namespace {

/// What `reproduce` takes besides the common flags.
struct ReproduceFlags {
  std::string corpus;
  std::vector<std::string> figures;
  bool quick = false;
};

ReproduceConfig load(const CommonOptions& options, const ReproduceFlags& own) {
  ReproduceConfig config;
  static_cast<train::TrainConfig&>(config) =
      train::train_config(options.load(), options.config, options.settings, options.seeds.has_value(), own.corpus);
  config.figures = own.figures;
  config.quick = own.quick;
  if (config.was_given("model.placement"))
    throw ConfigError("model.placement is given: expected none, as the figures say which placements they train");
  set_proxy(config, own.quick);
  if (config.train.lr == 0.0) throw ConfigError("train.lr = 0: expected a rate at which the groups train");
  if (!config.was_given("run.seeds") && !options.seeds) config.run.seeds = 3;
  refuse_settings_of_studies(chosen(config.figures, config.quick), config);
  const std::vector<Group> groups = groups_of(config);
  for (const Group& group : groups) {
    periscope::validate(group.spec);
    periscope::validate(group.train);
  }
  refuse_equal_groups(groups);
  return config;
}

Resolved resolved_of(const ReproduceConfig& config, const Corpus& corpus) {
  Resolved all = train::resolved(config, corpus);
  for (auto* json : {&all.printed, &all.hashed}) {
    (*json)["reproduce"] = {{"figures", config.figures}, {"quick", config.quick}};
  }
  return all;
}

ExitCode run_reproduce(const CommonOptions& options, const ReproduceFlags& own) {
  const ReproduceConfig config = load(options, own);
  const Corpus corpus = train::corpus_of(config);
  const Resolved all = resolved_of(config, corpus);
  if (config.run.seeds < 3 && !options.quiet) {
    print_message(fmt::format("run.seeds = {}: {}\n", config.run.seeds,
                              config.run.seeds < 2
                                  ? "figures only; no claim can be tested with fewer than 2 seeds"
                                  : "claims about spreads (R9) cannot be tested with fewer than 3 seeds"));
  }
  const std::string folder = config.run.out.empty() ? "" : config.run.out + "/runs";
  std::optional<Resumable> resumable;
  const train::KeptStates kept{
      .folder = folder, .identity = identity_of_runs(config, all), .on_first = [&] {
        resumable.emplace(
            options.quiet ? "" : fmt::format("stopped; the same command goes on from {}\n", printable(folder)));
      }};
  return run_cells(
      options, reproduce_need(config, omp_get_max_threads()), "reproduce", config.run.out, all,
      [&](Progress& progress) { return run(config, corpus, kept, progress); },
      [&](const ReproduceResult& result) {
        return publish("reproduce", options, config.run.out, columns(config, result, provenance(config, all)),
                       table(config, result), ExitCode::ok);
      });
}

}  // namespace

void add_commands(CLI::App& app, int& code) {
  const auto own = std::make_shared<ReproduceFlags>();
  CLI::App* command = add_skipping_command(app, code, "reproduce",
                                           "Train what the paper's figures show, at proxy scale; test its claims",
                                           [=](const CommonOptions& options) { return run_reproduce(options, *own); });
  std::string names;
  for (const Exhibit& exhibit : exhibits()) names += (names.empty() ? "" : ", ") + std::string(exhibit.name);
  command
      ->add_option("--figure", own->figures, fmt::format("A figure or table: {}; may be repeated; default: all", names))
      ->allow_extra_args(false);
  command->add_option("--corpus", own->corpus, "File or folder whose bytes are the tokens, or synthetic: train.corpus");
  command->add_flag("--quick", own->quick, "Fewer and shorter runs: what is not in it is reported as not run");
}

}  // namespace periscope::reproduce
