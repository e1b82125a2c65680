#include "experiments/engine/study/study.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>

#include "experiments/engine/run/cached.h"
#include "experiments/engine/run/memory_estimate.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/engine/settings/theory_override.h"
#include "experiments/studies/propagate/propagate.h"
#include "experiments/studies/propagate/summary.h"
#include "sim/base/printable.h"

namespace periscope::propagate {

using study::Job;
using study::Outcome;
using study::Request;

namespace {

struct Flags {
  bool fail_on_divergence = false;
  bool backward = false;
  std::string dump;
  bool measure = false;
  std::vector<config::Candidate> stacks;
};

const std::vector<study::Flag<Flags>> propagate_flags{
    {"fail-on-divergence", &Flags::fail_on_divergence,
     "Exit with code 5 if the mean square of a seed's stream is not finite"},
    {"backward", &Flags::backward, "Predict and measure gradients too"},
    {"dump", &Flags::dump,
     "Folder for weights, activations and, with --backward, gradients of the first seed, in f64"}};

const std::vector<study::Flag<Flags>> theory_flags{{"backward", &Flags::backward, "Predict gradients too"}};

/// Splits at commas outside of quotes and brackets: "llama,{A = true, C = true}" has two parts.
std::vector<std::string> split_stacks(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') quoted = !quoted;
    if (!quoted) depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    if (c == ',' && depth == 0 && !quoted) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

study::Flag<Flags> stacks_flag() {
  study::Flag<Flags> flag{"stacks",
                          "Stacks to compare, at least two: recipes (llama), placements (keel), placements as tables "
                          "({A = true, C = true}), or tables of keys of model, init and input "
                          "({model.recipe = \"llama\", init.std = 0.01})",
                          [](Flags& flags, const std::vector<std::string>& words) {
                            for (const std::string& word : words) {
                              for (const std::string& part : split_stacks(word)) {
                                flags.stacks.push_back(config::parse_candidate(part));
                              }
                            }
                          }};
  flag.list = flag.positional = flag.required = true;
  return flag;
}

const std::vector<study::Flag<Flags>> compare_flags{
    stacks_flag(),
    {"backward", &Flags::backward, "Predict gradients too, and with --measure measure them"},
    {"measure", &Flags::measure, "Also measure the stacks, and compare measurement and prediction"}};

Outcome outcome_of(const config::Config& config, const std::vector<stacks::StackResult>& results) {
  return {.data = dataset_of(config, results),
          .table = stacks::verdict_table(results, config.agreement.familywise_error) + config::override_lines(config)};
}

/// Writes weights and activations of the first seed in f64 after a memory check. A resumed run overwrites its files.
void write_dump(const config::Config& config, const std::string& folder, bool force, stacks::Progress& progress) {
  const std::string writing = stacks::writing_task(config.run, {folder});
  const bool is_own = stacks::find_cached<bool>(progress, writing).has_value();
  const auto begins = [&] { stacks::store(progress, writing, true); };
  config::RunOptions dumped = config.run;
  dumped.dtype = DType::f64;
  constexpr double copies = 2.0;  // per signal: forward and backward, or recorded products of matrix-free weights
  const stacks::MemoryEstimate memory = stacks::reading_memory(config.base, dumped, 1, omp_get_max_threads(), copies);
  stacks::within_memory(memory, force, progress, [&] { dump(config, folder, force || is_own, begins); });
  progress.say(fmt::format("wrote {}\n", printable(folder)));
}

/// Returns a job without its `run`. `measures`: whether stacks are measured, not only predicted.
Job job_of(const config::Config& config, const std::string& file, bool measures) {
  config::require_effective_fault(config);
  return {.file = file,
          .run_options = config.run,
          .resolved = config::resolved(config),
          .overridden = config::override_json(config),
          .memory = stacks::stacks_memory(config, config.theory.finite_width.value_or(measures), measures,
                                          study::threads_of(config.run)),
          .run = {}};
}

Job resolve_propagate(const Request& request) {
  const auto own = study::read_flags(propagate_flags, request.flags);
  config::Config config = request.load(study::Matrices::any);
  config.run.backward = config.run.backward || own.backward;
  if (const std::size_t stacks = config.stacks().size(); !own.dump.empty() && stacks != 1) {
    throw ConfigError(
        fmt::format("--dump {}: expected one placement and one kind of input, not {} stacks", own.dump, stacks));
  }
  Job job = job_of(config, "propagate", true);
  if (own.fail_on_divergence) {
    job.unskippable_reason = "--fail-on-divergence: a result file does not record that flag's exit code";
  }
  if (!own.dump.empty()) job.unskippable_reason = "--dump: a result file does not list the dumped files";
  job.run = [config, own, force = request.force](stacks::Progress& progress) {
    if (!own.dump.empty()) write_dump(config, own.dump, force, progress);
    const std::vector<stacks::StackResult> results = stacks::compare(config, "propagate", progress);
    Outcome outcome = outcome_of(config, results);
    const bool diverged = std::ranges::any_of(results, [](const auto& r) { return r.measurement->diverged_seeds > 0; });
    if (diverged && own.fail_on_divergence) outcome.code = ExitCode::diverged;
    if (stacks::any_disagrees(results)) outcome.code = ExitCode::check_failed;
    return outcome;
  };
  return job;
}

Job resolve_compare(const Request& request) {
  const auto own = study::read_flags(compare_flags, request.flags);
  if (own.stacks.size() < 2) {
    throw ConfigError("compare: expected at least two stacks");
  }
  Request with_stacks = request;
  with_stacks.candidates = own.stacks;
  config::Config config = with_stacks.load(study::Matrices::any);
  config.run.backward = config.run.backward || own.backward;
  Job job = job_of(config, "compare", own.measure);
  job.run = [config, measures = own.measure](stacks::Progress& progress) {
    const std::vector<stacks::StackResult> results = stacks::compare(config, "compare", progress, measures);
    Outcome outcome = outcome_of(config, results);
    outcome.table = comparison(results) + (measures ? "\n" + outcome.table : "");
    outcome.code = study::code_of(!stacks::any_disagrees(results));
    return outcome;
  };
  return job;
}

Job resolve_theory(const Request& request) {
  config::Config config = request.load(study::Matrices::any);
  config.run.backward = config.run.backward || study::read_flags(theory_flags, request.flags).backward;
  Job job = job_of(config, "theory", false);
  job.run = [config](stacks::Progress& progress) {
    return outcome_of(config, stacks::compare(config, "theory", progress, false));
  };
  return job;
}

}  // namespace

std::vector<study::Study> studies() {
  return {{.name = "propagate",
           .question = "Predict and measure the signals of random stacks, and compare them",
           .example = "propagate --config experiments/configs/headline.toml",
           .flags = flag_texts(propagate_flags),
           .schema = &schema(),
           .compares = true,
           .skippable = true,
           .shared_keys = {"model.", "init.", "input.", "theory.", "agreement.", "run.backward", "run.weights",
                           "run.paired"},
           .shown_first = true,
           .resolve = resolve_propagate},
          {.name = "theory",
           .question = "Predict without measuring",
           .example = "theory --set model.preset=3.2B",
           .flags = flag_texts(theory_flags),
           .schema = &schema(),
           .without = {"device", "dtype", "memory"},
           .shared_keys = {"model.", "init.", "input.", "theory.", "run.backward", "run.paired"},
           .resolve = resolve_theory},
          {.name = "compare",
           .question = "Which of these stacks? Variance, gradients, largest entries and precision side by side",
           .example = "compare llama olmo2 gemma2 keel --backward --set model.layers=36",
           .flags = flag_texts(compare_flags),
           .schema = &schema(),
           .skippable = true,
           .without = {"vary"},
           .shared_keys = {"model.", "init.", "input.", "theory.", "agreement.", "run.backward", "run.weights",
                           "run.paired"},
           .shown_first = true,
           .resolve = resolve_compare}};
}

}  // namespace periscope::propagate
