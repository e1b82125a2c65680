#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "experiments/app/command.h"
#include "experiments/app/standard_streams.h"
#include "experiments/app/terminal_progress.h"
#include "experiments/app/tools/info.h"
#include "experiments/app/tools/tools.h"
#include "experiments/engine/run/memory_estimate.h"
#include "experiments/engine/settings/toml_reader.h"
#include "experiments/engine/study/checkpoint_flags.h"
#include "sim/backends.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"
#include "sim/checkpoint/checkpoint_writer.h"
#include "sim/checkpoint/recipe.h"
#include "sim/checkpoint/weight_check.h"

namespace periscope::app {
namespace {

struct InfoFlags {
  std::string checkpoint;
  std::vector<std::string> ignore_keys, ignore;
  bool check = false;
};

const std::vector<study::Flag<InfoFlags>> info_flags{
    study::checkpoint_flag<InfoFlags>(),
    study::ignore_key_flag<InfoFlags>(),
    {"check", &InfoFlags::check, "Report faults of the weights, with exit code 4 if there are any"},
    {"ignore", &InfoFlags::ignore, fmt::format("Kinds of faults to omit: {}", fmt::join(fault_names, ", "))}};

ExitCode run_check(const InfoFlags& own, const CommonOptions& options) {
  const Checkpoint checkpoint(own.checkpoint, own.ignore_keys, Checkpoint::TiedCopies::may_differ,
                              Checkpoint::Mixtures::read);
  std::optional<TerminalProgress> progress(std::in_place, options.quiet);
  const nlohmann::ordered_json check = check_json(checkpoint, own.ignore, *progress);
  progress.reset();  // clears the progress line
  if (options.json) {
    print_json(check);
  } else if (!options.quiet) {
    print_result(check_text(check));
  }
  return check.at("findings").empty() ? ExitCode::ok : ExitCode::check_failed;
}

ExitCode run_info(const CommonOptions& options) {
  const auto own = study::read_flags(info_flags, options.from_flags.flags);
  if (own.check) return run_check(own, options);
  if (!own.ignore.empty()) throw ConfigError("--ignore has no effect without --check");
  const Checkpoint checkpoint(own.checkpoint, own.ignore_keys, Checkpoint::TiedCopies::must_be_equal,
                              Checkpoint::Mixtures::read);
  if (options.quiet && !options.json) return ExitCode::ok;
  std::optional<TerminalProgress> progress(std::in_place, options.quiet);
  const nlohmann::ordered_json info = info_json(checkpoint, *progress);
  progress.reset();  // clears the progress line
  if (options.json) {
    print_json(info);
  } else {
    print_result(info_text(checkpoint, info));
  }
  return ExitCode::ok;
}

/// Throws ConfigError for an unknown family.
const Family& find_family(const std::string& name) {
  if (const Family* family = family_named(name)) return *family;
  std::vector<std::string> names;
  for (const Family& known : family_table()) names.emplace_back(known.name);
  throw ConfigError(fmt::format("--family {}: expected one of {}{}", shortened(name), fmt::join(names, ", "),
                                suggestion(name, names)));
}

/// Writes the configuration's stack, with the random weights of the first seed, into run.out as a checkpoint of
/// `family`; numbers are f64 for run.dtype = "f64", else f32. Throws ConfigError for more than one stack, a family that
/// cannot express the model, a missing run.out, and existing files unless `overwrite`.
void write_random_checkpoint(const config::Config& config, const Family& family, bool overwrite) {
  if (config.run.out.empty()) throw ConfigError("--out: expected a folder for the checkpoint");
  const std::vector<StackSpec> stacks = config.stacks();
  if (stacks.size() != 1) {
    throw ConfigError(
        fmt::format("model, init, input: expected one stack, found {}; set each key to one value", stacks.size()));
  }
  StackSpec spec = stacks.front();
  const CheckpointLayout layout = layout_for(family, spec.model);
  spec.model = layout.model;
  // The token, position and token-type tables together give the configured second moment.
  spec.input.second_moment = table_second_moment(layout.model, spec.input.second_moment);
  spec.input.kind = InputKind::tokens;
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  const DType dtype = config.run.dtype;
  const GeneratedWeights weights(*backend, spec, dtype, config.run.seed);
  write_checkpoint(config.run.out, layout, *backend, weights, written_type(dtype), overwrite);
}

/// Loads the configuration; model.recipe defaults to the family's recipe.
config::Config load_for_family(study::Request request, const std::string& family) {
  if (config::read_tree(request.file, request.all_settings()).find("model.recipe") == nullptr)
    request.settings.insert(request.settings.begin(), "model.recipe=" + family);
  request.reads_texts = false;  // a checkpoint has no input tokens
  return request.load();
}

const study::FlagNames omitted_by_write{"vary", "seeds", "memory"};

ExitCode run_write_checkpoint(const CommonOptions& options, const std::string& family) {
  std::vector<std::string> effective_keys = study::keys_of_flags(omitted_by_write);
  for (const char* table : {"model.", "init.", "input."}) effective_keys.emplace_back(table);
  const Family& known = find_family(family);
  const config::Config config = load_for_family(options.request("write-checkpoint", effective_keys), family);
  omp_set_num_threads(study::threads_of(config.run));
  const ModelSpec& m = config.base.model;
  stacks::MemoryEstimate memory;  // the largest matrix or table and its copy in the written format
  memory.add(2.0 * 8.0 * m.width * std::max({1.0 * m.mlp_width, 1.0 * m.largest_query_width(), 1.0 * m.vocab}),
             "model.width");
  TerminalProgress progress(options.quiet);
  stacks::within_memory(memory, options.from_flags.force, progress,
                        [&] { write_random_checkpoint(config, known, options.from_flags.force); });
  const Checkpoint checkpoint(config.run.out);
  const nlohmann::ordered_json info = info_json(checkpoint, progress);
  progress.say(fmt::format("{}wrote {}\n", info_text(checkpoint, info), printable(config.run.out)));
  if (options.json) print_json(info);
  return ExitCode::ok;
}

}  // namespace

void add_checkpoint_tools(CLI::App& app, int& code) {
  add_command(app, code, "info",
              "Describe a checkpoint: family, placement, norm names and shapes; or check its weights (--check)", no_run,
              run_info, flag_texts(info_flags));
  const auto family = std::make_shared<std::string>();
  CLI::App* const command = add_command(
      app, code, "write-checkpoint", "Write a random stack as a checkpoint for other programs, into --out",
      omitted_by_write, [=](const CommonOptions& options) { return run_write_checkpoint(options, *family); });
  command
      ->add_option("--family", *family,
                   "llama, gpt2, … (see `list --recipes`); the family's recipe sets all keys not given explicitly")
      ->required();
  command->get_option("--out")->description("Folder for the checkpoint");
}

}  // namespace periscope::app
