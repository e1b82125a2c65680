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

namespace periscope::app {
namespace {

const std::vector<study::Flag<study::CheckpointFlags>> info_flags{study::checkpoint_flag<study::CheckpointFlags>(),
                                                                  study::ignore_key_flag<study::CheckpointFlags>()};

ExitCode run_info(const CommonOptions& options) {
  const auto own = study::read_flags(info_flags, options.from_flags.flags);
  const Checkpoint checkpoint(own.checkpoint, own.ignore_keys);
  if (options.quiet && !options.json) return ExitCode::ok;
  std::optional<TerminalProgress> progress(std::in_place, options.quiet);
  const nlohmann::ordered_json info = info_json(checkpoint, *progress);
  progress.reset();  // clears its line
  if (options.json) {
    print_json(info);
  } else {
    print_result(info_text(checkpoint, info));
  }
  return ExitCode::ok;
}

/// Throws ConfigError for an unknown family.
const Family& required_family(const std::string& name) {
  if (const Family* family = family_named(name)) return *family;
  std::vector<std::string> names;
  for (const Family& known : family_table()) names.emplace_back(known.name);
  throw ConfigError(fmt::format("--family {}: expected one of {}; nearest is {}", shortened(name),
                                fmt::join(names, ", "), nearest(name, names)));
}

/// Writes the configuration's stack, with the random weights of the first seed, into run.out as a checkpoint of
/// `family`: in f32, or in f64 if run.dtype says so. Throws ConfigError for more than one placement, a family that
/// cannot express the model, without run.out, and for existing files unless `overwrite`.
void write_random_checkpoint(const config::Config& config, const Family& family, bool overwrite) {
  if (config.run.out.empty()) throw ConfigError("--out: expected a folder for the checkpoint");
  const std::vector<StackSpec> stacks = config.stacks();
  if (stacks.size() != 1) {
    throw ConfigError(fmt::format("model, init, input: expected one value of every key, for one stack, not {} stacks",
                                  stacks.size()));
  }
  StackSpec spec = stacks.front();
  const CheckpointLayout layout = layout_for(family, spec.model);
  spec.model = layout.model;
  // As large as asked for is what the tables together give.
  spec.input.second_moment = table_second_moment(layout.model, spec.input.second_moment);
  spec.input.kind = InputKind::tokens;
  const std::unique_ptr<Backend> backend = make_backend(config.run.device);
  const DType dtype = config.run.dtype;
  const GeneratedWeights weights(*backend, spec, dtype, config.run.seed);
  write_checkpoint(config.run.out, layout, *backend, weights, written_type(dtype), overwrite);
}

/// Loads the configuration, with the family's recipe unless it names another.
config::Config load_for_family(study::Request request, const std::string& family) {
  if (config::read_tree(request.file, request.all_settings()).find("model.recipe") == nullptr)
    request.settings.insert(request.settings.begin(), "model.recipe=" + family);
  request.reads_texts = false;  // ids are not written
  return request.load();
}

const study::FlagNames written_without{"seeds", "memory"};

ExitCode run_write_checkpoint(const CommonOptions& options, const std::string& family) {
  std::vector<std::string> effective_keys = study::keys_of_flags(written_without);
  for (const char* table : {"model.", "init.", "input."}) effective_keys.emplace_back(table);
  const Family& known = required_family(family);
  const config::Config config = load_for_family(options.request("write-checkpoint", effective_keys), family);
  omp_set_num_threads(study::threads_of(config.run));
  const ModelSpec& m = config.base.model;
  stacks::MemoryEstimate memory;  // a matrix, and what is written of it; tables are matrices here
  memory.add(2.0 * 8.0 * m.width * std::max({1.0 * m.mlp_width, 1.0 * m.query_width(), 1.0 * m.vocab}), "model.width");
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
  add_command(app, code, "info", "What a checkpoint is: family, placement and names of its norms, shapes", no_run,
              run_info, flag_texts(info_flags));
  const auto family = std::make_shared<std::string>();
  add_command(app, code, "write-checkpoint",
              "Write a random stack as a checkpoint that other programs read, into --out", written_without,
              [=](const CommonOptions& options) { return run_write_checkpoint(options, *family); })
      ->add_option("--family", *family,
                   "llama, gpt2, … (`list --recipes`): also sets the keys of its recipe that are not given")
      ->required();
}

}  // namespace periscope::app
