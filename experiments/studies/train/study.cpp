#include "experiments/engine/study/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "experiments/engine/run/cached.h"
#include "experiments/engine/training/dump.h"
#include "experiments/studies/train/report.h"
#include "sim/backends.h"
#include "sim/base/printable.h"
#include "sim/files/folder_lock.h"
#include "sim/files/output_folder.h"

namespace periscope::train {
namespace {

struct TrainFlags {
  std::string corpus;
  std::string dump;
  std::string export_to;
  bool fail_on_divergence = false;
};
const std::vector<study::Flag<TrainFlags>>& flags() {
  static const std::vector<study::Flag<TrainFlags>> all{
      {"corpus", &TrainFlags::corpus, "File or folder whose bytes are the tokens, or synthetic: train.corpus"},
      {"dump", &TrainFlags::dump,
       "Folder for the batches, the weights before and after, and every step's loss, in f64; one placement and one "
       "seed"},
      {"export", &TrainFlags::export_to,
       "Folder for the trained models, each in a folder of its own: Hugging Face's layout where a family computes the "
       "same"},
      {"fail-on-divergence", &TrainFlags::fail_on_divergence, "Exit 5 if a run diverged"}};
  return all;
}

/// A run of `train`, from its request to its files.
class Training {
 public:
  Training(training::TrainConfig config, TrainFlags own, bool force)
      : config_(std::move(config)),
        own_(std::move(own)),
        force_(force),
        corpus_(training::corpus_of(config_)),
        resolved_(training::resolved(config_, corpus_, config::resolved(config_))),
        ops_(make_backend(config_.run.device)) {}

  [[nodiscard]] const training::TrainConfig& config() const { return config_; }
  [[nodiscard]] const config::Resolved& resolved() const { return resolved_; }
  [[nodiscard]] stacks::MemoryEstimate memory() const {
    const double cells = static_cast<double>(config_.stacks_per_input()) * config_.run.seeds;
    // The weights of finished cells stay until all are written.
    stacks::MemoryEstimate memory = training::training_memory(config_, cells, cells, study::threads_of(config_.run));
    if (!own_.dump.empty()) {  // all batches are written at once
      const double tokens = static_cast<double>(config_.train.batch) * (config_.base.input.tokens + 1);
      memory.add(sizeof(std::int64_t) * tokens * config_.train.steps, "train.steps");
    }
    return memory;
  }

  study::Outcome run(stacks::Progress& progress) {
    const std::vector<training::TrainCell> cells = training::cells_of(config_);
    // What this very run was writing when it ended may be there.
    open_folders(force_ || stacks::find_cached<bool>(progress, writing()));
    const training::SavedStates kept{.folder = progress.task_cache() == nullptr ? "" : progress.task_cache()->folder(),
                                     .identity = training::identity_of_runs(config_, resolved_)};
    progress.begin("train", static_cast<std::int64_t>(cells.size()) * config_.train.steps);
    result_.loss_floor = corpus_.loss_floor(config_.base.input.tokens);
    result_.stopped_early = stacks::until_stopped([&] {
      training::train_cells(*ops_, cells, corpus_, kept, progress,
                            [&](training::TrainedCell cell) { result_.cells.push_back(std::move(cell)); });
      progress.finish("theory");
      for (const StackSpec& spec : config_.stacks()) {
        result_.initial.push_back(training::predict_before_training(corpus_, spec, config_, progress));
      }
    });
    if (result_.stopped_early) return {.stopped_early = true};
    const auto ended_before = [&](const training::TrainedCell& c) {
      return c.history.is_finite() && static_cast<int>(c.history.loss.size()) < config_.train.steps;
    };
    dataset::Dataset data = dataset_of(config_, result_);
    if (std::ranges::any_of(result_.cells, ended_before)) dataset::set(data.facts, "stopped_early", std::int64_t{1});
    const bool diverged = std::ranges::any_of(
        result_.cells, [](const training::TrainedCell& c) { return training::divergence_step(c.history).has_value(); });
    return {.data = std::move(data),
            .table = table(result_),
            .code = diverged && own_.fail_on_divergence ? ExitCode::diverged : ExitCode::ok};
  }

  /// Writes --dump and --export.
  void write_files(stacks::Progress& progress) {
    if (dump_ || models_) stacks::store(progress, writing(), cache::encode(true));
    if (dump_) dump_->write(*ops_, result_.cells.front(), corpus_);
    for (std::size_t i = 0; models_ && i < result_.cells.size(); ++i) {
      const std::string model = path_of(result_.cells[i].cell);
      const std::string layout = export_model(model, *ops_, result_.cells[i], overwrite_);
      progress.say(fmt::format("wrote {} (layout: {})\n", printable(model), layout));
    }
  }

 private:
  [[nodiscard]] std::string writing() const { return stacks::writing_task(config_.run, {own_.dump, own_.export_to}); }
  [[nodiscard]] std::string path_of(const training::TrainCell& cell) const {
    return models_->folder() + "/" + cell.name;
  }
  /// Tries the folders of --dump and --export before anything is trained. Throws ConfigError if a file or a model is
  /// there, unless `overwrite`; and as OutputFolder does.
  void open_folders(bool overwrite) {
    overwrite_ = overwrite;
    if (!own_.dump.empty()) dump_.emplace(own_.dump, overwrite);
    if (own_.export_to.empty()) return;
    models_.emplace(own_.export_to);
    for (const training::TrainCell& cell : training::cells_of(config_)) {
      const std::string model = path_of(cell);
      if (!overwrite && std::filesystem::exists(std::filesystem::symlink_status(model))) {
        throw ConfigError(fmt::format("--export: {} is there already; --force overwrites its files", printable(model)));
      }
      const OutputFolder trial(model, {"config.json", "model.safetensors"}, true);
    }
  }

  training::TrainConfig config_;
  TrainFlags own_;
  bool force_;
  Corpus corpus_;
  config::Resolved resolved_;
  std::unique_ptr<Backend> ops_;
  bool overwrite_ = false;
  std::optional<training::Dump> dump_;
  std::optional<FolderLock> models_;
  training::TrainResult result_;
};

study::Job resolve(const study::Request& request) {
  const auto own = study::read_flags(flags(), request.flags);
  training::TrainConfig config = training::train_config(request, own.corpus);
  if (!own.dump.empty()) config.run.dtype = config.run.dtype_choice.value_or(DType::f64);
  training::check_apart("--dump", own.dump, config.run.out, "train");
  training::check_apart("--export", own.export_to, config.run.out, "train");
  training::check_not_nested(own.dump, own.export_to);
  if (!own.dump.empty()) training::require_one_run(config, own.dump);
  const auto training = std::make_shared<Training>(std::move(config), own, request.force);
  study::Job job{.file = "train",
                 .run_options = training->config().run,
                 .resolved = training->resolved(),
                 .memory = training->memory(),
                 .run = [training](stacks::Progress& progress) {
                   study::Outcome outcome = training->run(progress);
                   outcome.write_files = [training](stacks::Progress& to) { training->write_files(to); };
                   return outcome;
                 }};
  if (own.fail_on_divergence || !own.dump.empty() || !own.export_to.empty()) {
    job.unskippable =
        "--fail-on-divergence, --dump or --export: a result file does not keep that flag's exit code, and does not say "
        "what else was written";
  }
  return job;
}

}  // namespace

std::vector<study::Study> studies() {
  return {{.name = "train",
           .question = "Train twins, stacks that differ in their placement alone; record their signals",
           .example = "train --config experiments/configs/twins.toml",
           .sections = {config::any_section(train_section)},
           .flags = flag_texts(flags()),
           .schema = &schema(),
           .skips = true,
           .common = {.memory = false},
           .shared_keys = {"model.", "init.", "input."},
           .shown_first = true,
           .resolve = resolve}};
}

}  // namespace periscope::train
