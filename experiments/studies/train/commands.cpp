#include "experiments/app/commands.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "experiments/app/command.h"
#include "experiments/app/standard_streams.h"
#include "experiments/core/stacks/cell_journal.h"
#include "experiments/core/stacks/fits.h"
#include "experiments/core/training/train.h"
#include "experiments/studies/train/dump.h"
#include "experiments/studies/train/export.h"
#include "sim/backends.h"
#include "sim/files/folder_lock.h"
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

/// What a run writes besides its result: --dump and --export. Both places are tried before anything is trained.
class Extras {
 public:
  /// `again`: this very run was writing these files when it ended, so they may be there. Throws ConfigError if a file
  /// or a model is there otherwise, unless --force; and as FolderLock does.
  Extras(const TrainFlags& own, const TrainConfig& config, const CommonOptions& options, bool again)
      : options_(options), overwrite_(options.force || again) {
    if (!own.dump.empty()) dump_.emplace(config, own.dump, overwrite_);
    if (!own.models.empty()) models_.emplace(own.models);
    for (const TrainCell& cell : models_ && !overwrite_ ? cells_of(config) : std::vector<TrainCell>()) {
      const std::string model = path_of(cell);
      if (std::filesystem::exists(std::filesystem::symlink_status(model))) {
        throw ConfigError(fmt::format("--export: {} is there already; --force overwrites its files", printable(model)));
      }
    }
  }
  [[nodiscard]] bool empty() const { return !dump_ && !models_; }

  void write(const Backend& ops, const TrainResult& result, const Corpus& corpus) {
    if (dump_) dump_->write(ops, result.cells.front(), corpus);
    for (std::size_t i = 0; models_ && i < result.cells.size(); ++i) {
      const std::string model = path_of(result.cells[i].cell);
      const std::string layout = export_model(model, ops, result.cells[i], overwrite_);
      if (!options_.quiet) print_message(fmt::format("wrote {} (layout: {})\n", printable(model), layout));
    }
  }

 private:
  [[nodiscard]] std::string path_of(const TrainCell& cell) const { return models_->folder() + "/" + cell.name; }

  const CommonOptions& options_;
  bool overwrite_;
  std::optional<Dump> dump_;
  std::optional<FolderLock> models_;
};

/// Throws ConfigError if the folder that `flag` names is, or is in, what will be the result file.
void check_apart(const char* flag, const std::string& folder, const std::string& out) {
  if (folder.empty() || out.empty()) return;
  const std::filesystem::path result = std::filesystem::weakly_canonical(std::filesystem::path(out) / "train.nc");
  for (std::filesystem::path at = std::filesystem::weakly_canonical(folder); at.has_relative_path();
       at = at.parent_path()) {
    if (at == result) {
      throw ConfigError(
          fmt::format("{} {}: the result file has that name; expected another folder", flag, printable(folder)));
    }
  }
}

/// So that another place is another key of the journal, whatever the working folder.
std::string absolute_or_none(const std::string& path) {
  return path.empty() ? "none" : std::filesystem::absolute(path).lexically_normal().string();
}

/// The states of runs go when all is written; what else is in their folder stays.
void remove_states(const std::string& folder) {
  if (folder.empty()) return;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") std::filesystem::remove(entry.path());
  }
  if (std::filesystem::is_empty(folder)) std::filesystem::remove(folder);
}

ExitCode run_train(const CommonOptions& options, const TrainFlags& own) {
  TrainConfig config =
      train_config(options.load(), options.config, options.settings, options.seeds.has_value(), own.corpus);
  if (options.skip_finished && (own.fail_on_divergence || !own.dump.empty() || !own.models.empty())) {
    throw ConfigError(
        "--skip-finished with --fail-on-divergence, --dump or --export: a result file does not keep that flag's exit "
        "code, and does not say what else was written");
  }
  if (!own.dump.empty()) config.run.dtype = config.run.dtype_choice.value_or(DType::f64);
  check_apart("--dump", own.dump, config.run.out);
  check_apart("--export", own.models, config.run.out);
  const Corpus corpus = corpus_of(config);
  const Resolved all = resolved(config, corpus);
  const std::unique_ptr<Backend> ops = make_backend(config.run.device);
  std::string states;
  std::optional<Resumable> resumable;
  CellJournal* journal = nullptr;
  std::optional<Extras> extras;
  const std::string writing = fmt::format("writing of dump {} and export {} has begun", absolute_or_none(own.dump),
                                          absolute_or_none(own.models));
  const auto run = [&](Progress& progress) {
    TrainResult result{.cells = {}, .loss_floor = corpus.loss_floor(config.base.input.tokens), .stopped_early = false};
    const std::vector<TrainCell> cells = cells_of(config);
    journal = progress.journal();
    if (journal != nullptr) states = std::filesystem::path(journal->path()).replace_extension("states").string();
    extras.emplace(own, config, options, journal != nullptr && journal->find(writing));
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
    const bool diverged =
        std::ranges::any_of(result.cells, [](const TrainedCell& c) { return divergence_step(c.history).has_value(); });
    const auto write_extras = [&] {
      if (journal != nullptr && !extras->empty() && !journal->find(writing)) journal->keep(writing, true);
      extras->write(*ops, result, corpus);
      remove_states(states);
    };
    return publish("train", options, config.run.out, columns(config, result, provenance(config, all)), table(result),
                   diverged && own.fail_on_divergence ? ExitCode::diverged : ExitCode::ok, false, write_extras);
  };
  const double cells = static_cast<double>(config.placements.size()) * config.run.seeds;
  // The weights of finished cells stay until all are written.
  Need need = train_need(config, cells, cells, omp_get_max_threads());
  if (!own.dump.empty()) {  // all batches are written at once
    const double tokens = static_cast<double>(config.train.batch) * (config.base.input.tokens + 1);
    need.add(sizeof(std::int64_t) * tokens * config.train.steps, "train.steps");
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
