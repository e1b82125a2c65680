#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "experiments/app/command.h"
#include "experiments/app/publish.h"
#include "experiments/app/standard_streams.h"
#include "experiments/app/study_flags.h"
#include "experiments/app/terminal_progress.h"
#include "experiments/app/tools/info.h"
#include "experiments/app/tools/tools.h"
#include "experiments/engine/run/memory_estimate.h"
#include "experiments/engine/settings/toml_reader.h"
#include "sim/base/printable.h"

namespace periscope::app {
namespace {

ExitCode run_info(const CommonOptions& options, const std::string& folder, const study::FlagValues& words) {
  const Checkpoint checkpoint(folder, study::read_flags(ignore_key_flags(), words).ignore_keys);
  std::optional<TerminalProgress> progress(std::in_place, options.quiet);
  if (options.json) {
    const nlohmann::ordered_json json = info_json(checkpoint, *progress);
    progress.reset();  // clears its line
    print_json(json);
  } else if (!options.quiet) {
    const std::string text = info_text(checkpoint, *progress);
    progress.reset();
    print_result(text);
  }
  return ExitCode::ok;
}

/// The configuration, where it does not say otherwise of the family's kind.
config::Config load_for_family(study::Request request, const std::string& family) {
  require_family(family);
  const auto given = config::read_tree(request.file, request.all_settings());
  if (!given->values.at_path("model.recipe"))
    request.settings.insert(request.settings.begin(), "model.recipe=" + family);
  request.reads_texts = false;  // ids are not written
  return request.load();
}

constexpr study::CommonFlags written_with{.seeds = false, .memory = false};

ExitCode run_write_checkpoint(const CommonOptions& options, const std::string& family) {
  std::vector<std::string> acting = study::keys_of(written_with);
  for (const char* table : {"model.", "init.", "input."}) acting.emplace_back(table);
  const config::Config config = load_for_family(options.request("write-checkpoint", acting), family);
  omp_set_num_threads(study::threads_of(config.run));
  const ModelSpec& m = config.base.model;
  stacks::MemoryEstimate memory;  // a matrix, and what is written of it; tables are matrices here
  memory.add(2.0 * 8.0 * m.width * std::max({1.0 * m.mlp_width, 1.0 * m.query_width(), 1.0 * m.vocab}), "model.width");
  TerminalProgress progress(options.quiet);
  stacks::within_memory(memory, options.asked.force, progress,
                        [&] { write_random_checkpoint(config, family, options.asked.force); });
  const Checkpoint checkpoint(config.run.out);
  const nlohmann::ordered_json json = options.json ? info_json(checkpoint, progress) : nullptr;
  progress.say(fmt::format("{}wrote {}\n", info_text(checkpoint, progress), printable(config.run.out)));
  if (options.json) print_json(json);
  return ExitCode::ok;
}

}  // namespace

void add_checkpoint_tools(CLI::App& app, int& code) {
  const auto folder = std::make_shared<std::string>();
  const auto words = std::make_shared<study::FlagValues>();
  CLI::App* info =
      add_command(app, code, "info", "What a checkpoint is: family, placement and names of its norms, shapes", no_run,
                  [=](const CommonOptions& options) { return run_info(options, *folder, *words); });
  info->add_option("folder", *folder, "Folder with config.json and safetensors files")->required();
  add_flags(*info, study::flag_texts(ignore_key_flags()), *words);
  const auto family = std::make_shared<std::string>();
  add_command(app, code, "write-checkpoint",
              "Write a random stack as a checkpoint that other programs read, into --out", written_with,
              [=](const CommonOptions& options) { return run_write_checkpoint(options, *family); })
      ->add_option("--family", *family,
                   "llama, gpt2, … (`list --recipes`): also sets the keys of its recipe that are not given")
      ->required();
}

}  // namespace periscope::app
