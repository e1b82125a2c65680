#include "experiments/engine/study/study.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "experiments/engine/run/cached.h"
#include "experiments/engine/training/dump.h"
#include "experiments/studies/train/report.h"
#include "sim/backends.h"
#include "sim/base/printable.h"
#include "sim/files/output_folder.h"

namespace periscope::train {
namespace {

struct TrainFlags {
  std::string corpus;
  std::string dump;
  std::string export_to;
  bool fail_on_divergence = false;
};
const std::vector<study::Flag<TrainFlags>> flags{
    {"corpus", &TrainFlags::corpus, "File or folder whose bytes are the tokens, or synthetic; sets train.corpus"},
    {"dump", &TrainFlags::dump,
     "Folder for the batches, the held-out windows, the weights before and after, and every step's loss, in f64; one "
     "placement and one seed"},
    {"export", &TrainFlags::export_to,
     "Folder for the trained models, one subfolder each, in the layout of a Hugging Face family where one fits"},
    {"fail-on-divergence", &TrainFlags::fail_on_divergence, "Exit with code 5 if a run diverged"}};

/// A run: its configuration, inputs and results.
struct Training {
  training::TrainConfig config;
  TrainFlags own;
  bool force;
  Corpus corpus = training::corpus_of(config);
  config::Resolved resolved = training::resolved(config, corpus, config::resolved(config));
  std::unique_ptr<Backend> ops = make_backend(config.run.device);
  std::optional<training::Dump> dump = {};
  std::optional<FolderLock> models = {};
  bool overwrite = false;  ///< overwrite existing files of --dump and --export
  training::TrainResult result = {};

  [[nodiscard]] std::string writing() const { return stacks::writing_task(config.run, {own.dump, own.export_to}); }
  [[nodiscard]] std::string path_of(const training::TrainingTask& task) const {
    return models->folder() + "/" + task.name;
  }
};

stacks::MemoryEstimate memory_of(const Training& r) {
  const double tasks = static_cast<double>(r.config.stacks_per_input()) * r.config.run.seeds;
  // The weights of finished tasks stay in memory until all files are written.
  stacks::MemoryEstimate memory = training::training_memory(r.config, tasks, tasks, study::threads_of(r.config.run));
  if (!r.own.dump.empty()) {  // all batches are written at once
    const double tokens = static_cast<double>(r.config.train.batch) * (r.config.base.input.tokens + 1);
    memory.add(sizeof(std::int64_t) * tokens * r.config.train.steps, "train.steps");
  }
  return memory;
}

/// Opens the folders of --dump and --export before training. Throws ConfigError if a file or model exists and must not
/// be overwritten. Exceptions of OutputFolder propagate.
void open_folders(Training& r, const std::vector<training::TrainingTask>& tasks) {
  if (!r.own.dump.empty()) r.dump.emplace(r.own.dump, r.overwrite);
  if (r.own.export_to.empty()) return;
  r.models.emplace(r.own.export_to);
  for (const training::TrainingTask& task : tasks) {
    const std::string model = r.path_of(task);
    if (!r.overwrite && std::filesystem::exists(std::filesystem::symlink_status(model))) {
      throw ConfigError(fmt::format("--export: {} exists; --force overwrites its files", printable(model)));
    }
    const OutputFolder trial(model, {"config.json", "model.safetensors"}, true);
  }
}

study::Outcome outcome_of(Training& r, stacks::Progress& progress) {
  const std::vector<training::TrainingTask> tasks = training::tasks_of(r.config);
  // A resumed run may overwrite the files that it was writing when it was interrupted.
  r.overwrite = r.force || stacks::find_cached<bool>(progress, r.writing());
  open_folders(r, tasks);
  const training::SavedStates states{.folder = progress.task_cache() == nullptr ? "" : progress.task_cache()->folder(),
                                     .identity = training::identity_of_runs(r.config, r.resolved)};
  progress.begin("train", static_cast<std::int64_t>(tasks.size()) * r.config.train.steps);
  training::TrainResult& result = r.result;
  result.loss_floor = r.corpus.loss_floor(r.config.base.input.tokens);
  training::train_tasks(*r.ops, tasks, r.corpus, states, progress,
                        [&](training::TrainingResult task) { result.tasks.push_back(std::move(task)); });
  progress.finish("theory");
  for (const StackSpec& spec : r.config.stacks()) {
    result.initial.push_back(training::predict_before_training(r.corpus, spec, r.config, progress));
  }
  dataset::Dataset data = dataset_of(r.config, result);
  bool diverged = false;
  bool ended_early = false;
  for (const training::TrainingResult& task : result.tasks) {
    const training::TrainingHistory& history = task.history;
    diverged = diverged || training::divergence_step(history);
    ended_early = ended_early || (history.is_finite() && static_cast<int>(history.loss.size()) < r.config.train.steps);
  }
  if (ended_early) data.attributes["stopped_early"] = 1;
  return {.data = std::move(data),
          .table = table(result),
          .code = diverged && r.own.fail_on_divergence ? ExitCode::diverged : ExitCode::ok};
}

/// Writes the files of --dump and --export.
void write_files(Training& r, stacks::Progress& progress) {
  if (r.dump || r.models) stacks::store(progress, r.writing(), true);
  if (r.dump) r.dump->write(*r.ops, r.result.tasks.front(), r.corpus);
  if (!r.models) return;
  for (const training::TrainingResult& trained : r.result.tasks) {
    const std::string model = r.path_of(trained.task);
    const std::string layout = export_model(model, *r.ops, trained, r.overwrite);
    progress.say(fmt::format("wrote {} (layout: {})\n", printable(model), layout));
  }
}

study::Job resolve(const study::Request& request) {
  const auto own = study::read_flags(flags, request.flags);
  training::TrainConfig config = training::train_config(request, own.corpus);
  if (!own.dump.empty()) config.run.dtype = config.run.dtype_choice.value_or(DType::f64);
  training::require_not_in_result("--dump", own.dump, config.run.out, "train");
  training::require_not_in_result("--export", own.export_to, config.run.out, "train");
  training::require_not_nested(own.dump, own.export_to);
  if (!own.dump.empty()) training::require_one_run(config, own.dump);
  const auto run = std::shared_ptr<Training>(new Training{std::move(config), own, request.force});
  study::Job job{.file = "train",
                 .run_options = run->config.run,
                 .resolved = run->resolved,
                 .operations = training::training_operations(training::tasks_of(run->config)),
                 .memory = memory_of(*run),
                 .run = [run](stacks::Progress& progress) {
                   study::Outcome outcome = outcome_of(*run, progress);
                   outcome.write_files = [run](stacks::Progress& to) { write_files(*run, to); };
                   return outcome;
                 }};
  if (own.fail_on_divergence || !own.dump.empty() || !own.export_to.empty()) {
    job.unskippable_reason =
        "--fail-on-divergence, --dump or --export: a result file does not record that flag's exit code, and does not "
        "list the other files";
  }
  return job;
}

}  // namespace

std::vector<study::Study> studies() {
  return {{.name = "train",
           .question = "Train twins (stacks that differ only in placement) and record their signals",
           .example = "train --config experiments/configs/twins.toml",
           .sections = {config::any_section(train_section)},
           .flags = flag_texts(flags),
           .schema = &schema(),
           .skippable = true,
           .without = {"memory"},
           .shared_keys = {"model.", "init.", "input."},
           .shown_first = true,
           .resolve = resolve}};
}

}  // namespace periscope::train
