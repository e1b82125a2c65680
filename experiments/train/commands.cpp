#include "experiments/commands.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "experiments/command/command.h"
#include "experiments/estimate/fits.h"
#include "experiments/results/standard_streams.h"
#include "experiments/train/dump.h"
#include "experiments/train/export.h"
#include "experiments/train/train.h"
#include "sim/backends.h"
#include "sim/spec/printable.h"

namespace periscope::train {
namespace {

/// What `train` takes besides the common flags.
struct TrainFlags {
  std::string corpus;
  std::string dump;
  std::string models;  ///< --export
  bool fail_on_divergence = false;
};

void export_all(const std::string& folder, const Backend& ops, const TrainResult& result,
                const CommonOptions& options) {
  for (const TrainedCell& trained : result.cells) {
    const std::string model = folder + "/" + trained.cell.name;
    const std::string layout = export_model(model, ops, trained, options.force);
    if (!options.quiet) print_message(fmt::format("wrote {} (layout: {})\n", printable(model), layout));
  }
}

/// Before anything is trained: models are written last. Throws if the folder of one is there.
void check_export(const std::string& folder, const TrainConfig& config, bool overwrite) {
  if (overwrite) return;
  for (const TrainCell& cell : cells_of(config)) {
    const std::string model = folder + "/" + cell.name;
    if (std::filesystem::exists(std::filesystem::symlink_status(model))) {
      throw ConfigError(fmt::format("--export: {} is there already; --force overwrites its files", printable(model)));
    }
  }
}

ExitCode run_train(const CommonOptions& options, const TrainFlags& own) {
  TrainConfig config = load(options, own.corpus);
  if (options.skip_finished && (own.fail_on_divergence || !own.dump.empty() || !own.models.empty())) {
    throw ConfigError(
        "--skip-finished with --fail-on-divergence, --dump or --export: a result file does not keep that flag's exit "
        "code, and does not say what else was written");
  }
  if (!own.dump.empty()) config.run.dtype = config.run.dtype_choice.value_or(DType::f64);
  std::optional<Dump> dump;
  if (!own.dump.empty()) dump.emplace(config, own.dump, options.force);
  if (!own.models.empty()) check_export(own.models, config, options.force);
  const Corpus corpus = corpus_of(config);
  const Resolved all = resolved(config, corpus);
  const std::unique_ptr<Backend> ops = make_backend(config.run.device);
  std::string states;
  std::optional<Resumable> resumable;
  const auto run = [&](Progress& progress) {
    TrainResult result{.cells = {}, .loss_floor = corpus.loss_floor(config.base.input.tokens), .stopped_early = false};
    const std::vector<TrainCell> cells = cells_of(config);
    if (progress.journal() != nullptr) {
      states = std::filesystem::path(progress.journal()->path()).replace_extension("states").string();
    }
    const KeptStates kept{
        .folder = states, .identity = identity_of_runs(config, all), .on_first = [&] {
          resumable.emplace(
              options.quiet ? "" : fmt::format("stopped; the same command goes on from {}\n", printable(states)));
        }};
    progress.begin("train", static_cast<std::int64_t>(cells.size()) * config.train.steps);
    result.stopped_early = until_stopped([&] {
      train_cells(*ops, cells, corpus, kept, progress,
                  [&](TrainedCell cell) { result.cells.push_back(std::move(cell)); });
    });
    return result;
  };
  const auto publish_result = [&](const TrainResult& result) {
    if (dump) dump->write(*ops, result.cells.front(), corpus);
    if (!own.models.empty()) export_all(own.models, *ops, result, options);
    const bool diverged =
        std::ranges::any_of(result.cells, [](const TrainedCell& c) { return divergence_step(c.history).has_value(); });
    const ExitCode code =
        publish("train", options, config.run.out, columns(config, result, provenance(config, all)), table(result),
                diverged && own.fail_on_divergence ? ExitCode::diverged : ExitCode::ok);
    if (!states.empty()) std::filesystem::remove_all(states);
    return code;
  };
  Need need =
      train_need(config, static_cast<double>(config.placements.size()) * config.run.seeds, omp_get_max_threads());
  if (dump) {  // writes all batches at once
    const double tokens = static_cast<double>(config.train.batch) * (config.base.input.tokens + 1);
    need.add(sizeof(int) * tokens * config.train.steps, "train.steps");
  }
  return run_cells(options, need, "train", config.run.out, all, run, publish_result);
}

}  // namespace

void add_commands(CLI::App& app, int& code) {
  const auto own = std::make_shared<TrainFlags>();
  CLI::App* command = add_skipping_command(
      app, code, "train", "Train twins, stacks that differ in their placement alone; record their signals",
      [=](const CommonOptions& options) { return run_train(options, *own); });
  command->add_option("--corpus", own->corpus, "File or folder whose bytes are the tokens, or synthetic: train.corpus");
  command->add_option("--dump", own->dump,
                      "Folder for the batches, the weights before and after, and every step's loss, in f64; one "
                      "placement and one seed");
  command->add_option(
      "--export", own->models,
      "Folder for the trained models, each in a folder of its own: Hugging Face's layout where a family "
      "computes the same");
  command->add_flag("--fail-on-divergence", own->fail_on_divergence, "Exit 5 if a run diverged");
}

}  // namespace periscope::train
