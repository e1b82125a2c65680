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
const std::vector<study::Flag<FirstStepsFlags>> flags{
    {"corpus", &FirstStepsFlags::corpus, "File or folder whose bytes are the tokens, or synthetic; sets train.corpus"},
    {"dump", &FirstStepsFlags::dump,
     "Folder for the batches, the held-out windows, the weights before and after, and every step's loss, in f64; one "
     "placement and one seed"}};

/// A run: its configuration, inputs and results.
struct Run {
  FirstStepsConfig config;
  FirstStepsFlags own;
  bool force;
  Corpus corpus = training::corpus_of(config);
  config::Resolved resolved = first_steps::resolved(config, corpus);
  std::unique_ptr<Backend> ops = make_backend(config.run.device);
  std::optional<training::Dump> dump = {};
  FirstStepsResult result = {};

  [[nodiscard]] std::string writing() const { return stacks::writing_task(config.run, {own.dump}); }
};

stacks::MemoryEstimate memory_of(const Run& r) {
  const double tasks = static_cast<double>(r.config.stacks().size()) * r.config.run.seeds;
  stacks::MemoryEstimate memory;
  if (!r.config.predict_only) {
    memory =
        training::training_memory(r.config, tasks, r.own.dump.empty() ? 0.0 : 1.0, study::threads_of(r.config.run));
  }
  memory.add_phase(prediction_memory(r.config));
  return memory;
}

study::Outcome outcome_of(Run& r, stacks::Progress& progress) {
  const theory::FirstStepsInput input = prediction_input(r.config, r.corpus);
  require_effective_override(r.config, input);
  // A resumed run may overwrite the files that it was writing when it was interrupted.
  if (!r.own.dump.empty()) r.dump.emplace(r.own.dump, r.force || stacks::find_cached<bool>(progress, r.writing()));
  // States saved without --dump lack the weights, so a run with --dump must not reuse them.
  const training::SavedStates states{
      .folder = progress.task_cache() == nullptr ? "" : progress.task_cache()->folder(),
      .identity = fmt::format("{} first steps{}", training::identity_of_runs(r.config, r.resolved),
                              r.own.dump.empty() ? "" : " with weights")};
  r.result = first_steps::run(r.config, r.corpus, input, *r.ops, states, r.dump.has_value(), progress);
  dataset::Dataset data = dataset_of(r.config, r.result);
  if (r.result.ended_early) data.attributes["stopped_early"] = 1;
  return {
      .data = std::move(data), .table = table(r.config, r.result), .code = study::code_of(!any_disagrees(r.result))};
}

void write_dump(Run& r, stacks::Progress& progress) {
  if (!r.dump) return;
  stacks::store(progress, r.writing(), true);
  r.dump->write(*r.ops, *r.result.dumped, r.corpus);
  progress.say(fmt::format("wrote {}\n", printable(r.own.dump)));
}

study::Job resolve(const study::Request& request) {
  const auto own = study::read_flags(flags, request.flags);
  FirstStepsConfig config = load(request, own.corpus);
  if (!own.dump.empty() && config.predict_only) {
    throw ConfigError("--dump: expected first_steps.predict_only = false, as a dump contains trained weights");
  }
  if (!own.dump.empty()) config.run.dtype = config.run.dtype_choice.value_or(DType::f64);
  training::require_not_in_result("--dump", own.dump, config.run.out, "first_steps");
  if (!own.dump.empty()) training::require_one_run(config, own.dump);
  const auto run = std::shared_ptr<Run>(new Run{std::move(config), own, request.force});
  study::Job job{.file = "first_steps",
                 .run_options = run->config.run,
                 .resolved = run->resolved,
                 .overridden = config::override_json(run->config, fault_of(run->config)),
                 .memory = memory_of(*run),
                 .run = [run](stacks::Progress& progress) {
                   study::Outcome outcome = outcome_of(*run, progress);
                   outcome.write_files = [run](stacks::Progress& to) { write_dump(*run, to); };
                   return outcome;
                 }};
  if (!own.dump.empty()) job.unskippable_reason = "--dump: a result file does not list the dumped files";
  return job;
}

}  // namespace

std::vector<study::Study> studies() {
  return {{.name = "first-steps",
           .question = "Predict a stack's signals over the first optimizer steps, train it, and compare",
           .example = "first-steps --config experiments/configs/first_steps.toml",
           .sections = {config::any_section(train_section), config::any_section(first_steps_section)},
           .flags = flag_texts(flags),
           .schema = &schema(),
           .compares = true,
           .skippable = true,
           .without = {"memory"},
           .shared_keys = {"model.", "init.", "input.", "agreement.familywise_error",
                           "agreement.power_limit.second_moment"},
           .resolve = resolve}};
}

}  // namespace periscope::first_steps
