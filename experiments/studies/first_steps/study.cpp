#include "experiments/engine/study/study.h"

#include <fmt/format.h>

#include <memory>

#include "experiments/engine/run/cached.h"
#include "experiments/engine/training/dump.h"
#include "experiments/studies/first_steps/first_steps.h"
#include "sim/backends.h"
#include "sim/base/printable.h"

namespace periscope::first_steps {
namespace {

struct FirstStepsFlags {
  std::string corpus;
  std::string dump;
};
const std::vector<study::Flag<FirstStepsFlags>>& flags() {
  static const std::vector<study::Flag<FirstStepsFlags>> all{
      {"corpus", &FirstStepsFlags::corpus, "File or folder whose bytes are the tokens, or synthetic: train.corpus"},
      {"dump", &FirstStepsFlags::dump,
       "Folder for the batches, the held-out windows, the weights before and after, and every step's loss, in f64; one "
       "placement and one seed"}};
  return all;
}

/// A run of `first-steps`, from its request to its files.
class Run {
 public:
  Run(FirstStepsConfig config, FirstStepsFlags own, bool force)
      : config_(std::move(config)),
        own_(std::move(own)),
        force_(force),
        corpus_(training::corpus_of(config_)),
        resolved_(first_steps::resolved(config_, corpus_)),
        ops_(make_backend(config_.run.device)) {}

  [[nodiscard]] const FirstStepsConfig& config() const { return config_; }
  [[nodiscard]] const config::Resolved& resolved() const { return resolved_; }
  [[nodiscard]] stacks::MemoryEstimate memory() const {
    const double cells = static_cast<double>(config_.stacks().size()) * config_.run.seeds;
    stacks::MemoryEstimate memory;
    if (!config_.predict_only) {
      memory = training::training_memory(config_, cells, own_.dump.empty() ? 0.0 : 1.0, study::threads_of(config_.run));
    }
    memory.then(prediction_memory(config_));
    return memory;
  }

  study::Outcome run(stacks::Progress& progress) {
    const theory::FirstStepsInput input = prediction_input(config_, corpus_);
    require_override_is_seen(config_, input);
    // What this very run was writing when it ended may be there.
    if (!own_.dump.empty()) dump_.emplace(own_.dump, force_ || stacks::find_cached<bool>(progress, writing()), true);
    // The states of a run without --dump have no weights, which a dump would miss.
    const training::SavedStates kept{
        .folder = progress.task_cache() == nullptr ? "" : progress.task_cache()->folder(),
        .identity = fmt::format("{} first steps{}", training::identity_of_runs(config_, resolved_),
                                own_.dump.empty() ? "" : " with weights")};
    result_ = first_steps::run(config_, corpus_, input, *ops_, kept, dump_.has_value(), progress);
    if (result_.stopped_early) return {.stopped_early = true};
    dataset::Dataset data = dataset_of(config_, result_);
    if (result_.ended_early) dataset::set(data.facts, "stopped_early", std::int64_t{1});
    return {.data = std::move(data), .table = table(config_, result_), .code = study::code_of(!any_disagrees(result_))};
  }

  void write_files(stacks::Progress& progress) {
    if (!dump_) return;
    stacks::store(progress, writing(), cache::encode(true));
    dump_->write(*ops_, *result_.dumped, corpus_);
    progress.say(fmt::format("wrote {}\n", printable(own_.dump)));
  }

 private:
  [[nodiscard]] std::string writing() const { return stacks::writing_task(config_.run, {own_.dump}); }

  FirstStepsConfig config_;
  FirstStepsFlags own_;
  bool force_;
  Corpus corpus_;
  config::Resolved resolved_;
  std::unique_ptr<Backend> ops_;
  std::optional<training::Dump> dump_;
  FirstStepsResult result_;
};

study::Job resolve(const study::Request& request) {
  const auto own = study::read_flags(flags(), request.flags);
  FirstStepsConfig config = load(request, own.corpus);
  if (!own.dump.empty() && config.predict_only) {
    throw ConfigError("--dump writes what was trained, and first_steps.predict_only trains nothing");
  }
  if (!own.dump.empty()) config.run.dtype = config.run.dtype_choice.value_or(DType::f64);
  training::check_apart("--dump", own.dump, config.run.out, "first_steps");
  if (!own.dump.empty()) training::require_one_run(config, own.dump);
  const auto run = std::make_shared<Run>(std::move(config), own, request.force);
  study::Job job{.file = "first_steps",
                 .run_options = run->config().run,
                 .resolved = run->resolved(),
                 .overridden = config::override_json(run->config(), fault_of(run->config())),
                 .memory = run->memory(),
                 .run = [run](stacks::Progress& progress) {
                   study::Outcome outcome = run->run(progress);
                   outcome.write_files = [run](stacks::Progress& to) { run->write_files(to); };
                   return outcome;
                 }};
  if (!own.dump.empty()) job.unskippable = "--dump: a result file does not say what else was written";
  return job;
}

}  // namespace

std::vector<study::Study> studies() {
  return {
      {.name = "first-steps",
       .question = "Predict what the first optimizer steps do to a stack's signals, train it, say whether they agree",
       .example = "first-steps --config experiments/configs/first_steps.toml",
       .sections = {config::any_section(train_section), config::any_section(first_steps_section)},
       .flags = flag_texts(flags()),
       .schema = &schema(),
       .compares = true,
       .skips = true,
       .common = {.memory = false},
       .shared_keys = {"model.", "init.", "input.", "agreement.familywise_error",
                       "agreement.power_limit.second_moment"},
       .resolve = resolve}};
}

}  // namespace periscope::first_steps
