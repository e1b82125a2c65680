#include "experiments/app/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "experiments/app/command.h"
#include "experiments/app/standard_streams.h"
#include "experiments/core/stacks/fits.h"
#include "experiments/studies/checkpoint/info.h"
#include "sim/spec/printable.h"

namespace periscope::checkpoint {
namespace {

ExitCode run_info(const CommonOptions& options, const std::string& folder) {
  static_cast<void>(options.load());  // refuses what no command takes
  const Checkpoint checkpoint(folder);
  if (options.json) print_json(info_json(checkpoint));
  if (!options.quiet && !options.json) print_result(info_text(checkpoint));
  return ExitCode::ok;
}

ExitCode run_write_checkpoint(const CommonOptions& options, const std::string& family) {
  const Config config = options.load();
  const ModelSpec& m = config.base.model;
  Need need;  // a matrix, and what is written of it; tables are matrices here
  need.add(2.0 * 8.0 * m.width * std::max({1.0 * m.mlp_width, 1.0 * m.query_width(), 1.0 * m.vocab}), "model.width");
  within_memory(need, options.force, options.quiet, [&] { write_random_checkpoint(config, family, options.force); });
  const Checkpoint checkpoint(config.run.out);
  if (!options.quiet) print_message(fmt::format("{}wrote {}\n", info_text(checkpoint), printable(config.run.out)));
  if (options.json) print_json(info_json(checkpoint));
  return ExitCode::ok;
}

}  // namespace

void add_commands(CLI::App& app, int& code) {
  const auto checkpoint = std::make_shared<std::string>();
  add_command(app, code, "info", "What a checkpoint is: family, placement and names of its norms, shapes",
              [=](const CommonOptions& options) { return run_info(options, *checkpoint); });
  app.get_subcommand("info")
      ->add_option("folder", *checkpoint, "Folder with config.json and safetensors files")
      ->required();

  const auto family = std::make_shared<std::string>();
  add_command(app, code, "write-checkpoint",
              "Write a random stack as a checkpoint that other programs read, into --out",
              [=](const CommonOptions& options) { return run_write_checkpoint(options, *family); });
  app.get_subcommand("write-checkpoint")->add_option("--family", *family, "llama, gpt2, … (see `info`)")->required();
}

}  // namespace periscope::checkpoint
