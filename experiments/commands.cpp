#include "experiments/commands.h"

#include <fmt/format.h>

#include <functional>
#include <memory>

#include "experiments/common/atomic_file.h"
#include "experiments/common/options.h"
#include "experiments/common/provenance.h"
#include "experiments/common/stack_dataset.h"
#include "experiments/common/verdict_table.h"
#include "experiments/converge.h"
#include "experiments/dump.h"
#include "experiments/export_csv.h"
#include "experiments/gradients/commands.h"
#include "experiments/info.h"
#include "experiments/list.h"
#include "experiments/propagate.h"
#include "experiments/toy_vector.h"
#include "experiments/write_checkpoint.h"
#include "experiments/verify/describe.h"
#include "experiments/verify/report.h"
#include "sim/spec/error.h"

namespace periscope {
namespace {

void print_json(const nlohmann::ordered_json& json) { fmt::print("{}\n", json.dump()); }

/// What `propagate` and `theory` do with their results.
void report(const std::string& name, const CommonOptions& options, const Config& config,
            const std::vector<StackResult>& results) {
  if (!config.run.out.empty()) {
    const std::string path = fmt::format("{}/{}.nc", config.run.out, name);
    write_netcdf(path, stack_dataset(config, results));
    if (!options.quiet) fmt::print(stderr, "wrote {}\n", path);
  }
  if (options.json) print_json({{"cells", cells_json(results)}, {"provenance", provenance(config)}});
  if (!options.quiet) fmt::print(stderr, "{}", verdict_table(results, config.agreement, use_colour()));
}

/// A command with the common flags whose body gets the flags and returns the exit code.
void add(CLI::App& app, int& code, const std::string& name, const std::string& about,
         std::function<ExitCode(const CommonOptions&)> body) {
  CLI::App* command = app.add_subcommand(name, about);
  const auto options = std::make_shared<CommonOptions>();
  options->add_to(*command);
  command->callback([options, body = std::move(body), &code] { code = static_cast<int>(body(*options)); });
}

/// What `propagate` takes besides the common flags.
struct PropagateOptions {
  bool fail_on_divergence = false;
  bool backward = false;
  std::string dump;
};

ExitCode run_propagate(const CommonOptions& options, const PropagateOptions& own) {
  Config config = options.load();
  config.run.backward = config.run.backward || own.backward;
  if (!own.dump.empty()) {
    dump(config, own.dump);
    if (!options.quiet) fmt::print(stderr, "wrote {}\n", own.dump);
  }
  const std::vector<StackResult> results = propagate(config, options.quiet);
  report("propagate", options, config, results);
  const bool diverged = std::ranges::any_of(results, [](const auto& r) { return r.measurement->diverged_seeds > 0; });
  if (any_disagrees(results)) return ExitCode::check_failed;
  return diverged && own.fail_on_divergence ? ExitCode::diverged : ExitCode::ok;
}

ExitCode run_theory(const CommonOptions& options, bool backward) {
  Config config = options.load();
  config.run.backward = config.run.backward || backward;
  report("theory", options, config, predict_stacks(config));
  return ExitCode::ok;
}

ExitCode run_converge(const CommonOptions& options) {
  const Config config = options.load();
  const ConvergeResult result = converge(config, options.quiet);
  if (!config.run.out.empty()) {
    const std::string path = config.run.out + "/converge.nc";
    write_netcdf(path, converge_dataset(config, result));
    if (!options.quiet) fmt::print(stderr, "wrote {}\n", path);
  }
  if (options.json) print_json({{"fits", converge_json(result)}, {"provenance", provenance(config)}});
  if (!options.quiet) fmt::print(stderr, "{}", converge_table(result));
  return any_disagrees(result) ? ExitCode::check_failed : ExitCode::ok;
}

/// What `verify` takes besides the common flags.
struct VerifyFlags {
  std::int64_t cases = 20000;
  double scale = 1.0;
  std::string replay;
};

ExitCode run_replay(const CommonOptions& options, const VerifyFlags& own) {
  const Replay result = replay(own.replay, own.scale);
  if (options.json) print_json(replay_json(result, own.scale));
  if (!options.quiet) fmt::print(stderr, "{}", describe(result, own.scale));
  return result.violations.empty() ? ExitCode::ok : ExitCode::check_failed;
}

ExitCode run_verify(const CommonOptions& options, const VerifyFlags& own) {
  constexpr std::int64_t most_cases = 2'000'000'000;
  if (own.cases < 1 || own.cases > most_cases) {
    throw ConfigError(fmt::format("--cases {}: expected a whole number from 1 to {}", own.cases, most_cases));
  }
  if (!(own.scale > 0.0 && own.scale <= 1.0)) {
    throw ConfigError(fmt::format("--scale {:g}: expected a number above 0 and up to 1", own.scale));
  }
  if (options.device.value_or("reference") != "reference" || options.dtype.value_or("f64") != "f64") {
    throw ConfigError("verify measures on the device \"reference\" in f64 only: its bounds are exact to rounding");
  }
  Config config = options.load();
  config.run.device = "reference";
  config.run.dtype = DType::f64;
  if (!own.replay.empty()) return run_replay(options, own);
  const VerifyResult result = verify({.seed = config.run.seed,
                                      .cases = static_cast<std::uint64_t>(own.cases),
                                      .scale = own.scale,
                                      .starts = 8,
                                      .quiet = options.quiet});
  nlohmann::ordered_json json = verify_json(result);
  json["provenance"] = provenance(config);
  if (!config.run.out.empty()) {
    for (const char* kind : {"nc", "json"}) {
      const std::string path = fmt::format("{}/verify.{}", config.run.out, kind);
      if (kind == std::string_view("nc")) {
        write_netcdf(path, verify_dataset(config, result));
      } else {
        write_text_file(path, json.dump(1) + "\n");
      }
      if (!options.quiet) fmt::print(stderr, "wrote {}\n", path);
    }
  }
  if (options.json) print_json(json);
  if (!options.quiet) fmt::print(stderr, "{}", verify_table(result, use_colour()));
  return result.passed() ? ExitCode::ok : ExitCode::check_failed;
}

ExitCode run_toy(const CommonOptions& options) {
  const ToyVector toy = toy_vector();
  if (options.json) print_json(toy_json(toy));
  if (!options.quiet) fmt::print(stderr, "{}", toy_table(toy));
  return ExitCode::ok;
}

ExitCode run_list(const CommonOptions& options) {
  if (options.json) print_json(list_json());
  if (!options.quiet) fmt::print("{}", options.json ? std::string() : list_text());
  return ExitCode::ok;
}

ExitCode run_info(const CommonOptions& options, const std::string& folder) {
  const Checkpoint checkpoint(folder);
  if (options.json) print_json(info_json(checkpoint));
  if (!options.quiet && !options.json) fmt::print("{}", info_text(checkpoint));
  return ExitCode::ok;
}

ExitCode run_write_checkpoint(const CommonOptions& options, const std::string& family) {
  const Config config = options.load();
  write_random_checkpoint(config, family);
  const Checkpoint checkpoint(config.run.out);
  if (options.json) print_json(info_json(checkpoint));
  if (!options.quiet) fmt::print(stderr, "{}wrote {}\n", info_text(checkpoint), config.run.out);
  return ExitCode::ok;
}

}  // namespace

void add_commands(CLI::App& app, int& code) {
  const auto own = std::make_shared<PropagateOptions>();
  add(app, code, "propagate", "Predict and measure the signals of random stacks; say whether they agree",
      [=](const CommonOptions& options) { return run_propagate(options, *own); });
  CLI::App* propagate = app.get_subcommand("propagate");
  propagate->add_flag("--fail-on-divergence", own->fail_on_divergence, "Exit 5 if a seed's signals stop being finite");
  propagate->add_flag("--backward", own->backward, "Predict and measure gradients too");
  propagate->add_option("--dump", own->dump,
                        "Folder for weights, activations and, with --backward, gradients of the first seed, in f64");
  const auto theory_backward = std::make_shared<bool>(false);
  add(app, code, "theory", "Print the prediction alone",
      [=](const CommonOptions& options) { return run_theory(options, *theory_backward); });
  app.get_subcommand("theory")->add_flag("--backward", *theory_backward, "Predict gradients too");
  add(app, code, "converge", "Double the width: does theory's error shrink as 1/width, the noise as 1/sqrt(seeds)?",
      run_converge);
  const auto verify_flags = std::make_shared<VerifyFlags>();
  add(app, code, "verify", "Attack the bounds on gradients and growth (T14-T16): no input may break them",
      [=](const CommonOptions& options) { return run_verify(options, *verify_flags); });
  CLI::App* verify = app.get_subcommand("verify");
  verify->add_option("--cases", verify_flags->cases, "Number of random cases")->capture_default_str();
  verify
      ->add_option("--scale,--bound-scale", verify_flags->scale,
                   "Multiply every bound that should hold by this; below 1 violations must be found")
      ->capture_default_str();
  verify->add_option("--replay", verify_flags->replay,
                     "One case alone: SEED:ID of a random case, or a JSON file with a case");
  add_gradient_commands(app, code);
  add(app, code, "toy", "The toy vector [2, 0, -2] through Peri-LN and through the reviews' version of it", run_toy);
  add(app, code, "list", "Placements, presets, every configuration key, experiments", run_list);

  const auto checkpoint = std::make_shared<std::string>();
  add(app, code, "info", "What a checkpoint is: family, placement and names of its norms, shapes",
      [=](const CommonOptions& options) { return run_info(options, *checkpoint); });
  app.get_subcommand("info")
      ->add_option("folder", *checkpoint, "Folder with config.json and safetensors files")
      ->required();

  const auto family = std::make_shared<std::string>();
  add(app, code, "write-checkpoint", "Write a random stack as a checkpoint that other programs read, into --out",
      [=](const CommonOptions& options) { return run_write_checkpoint(options, *family); });
  app.get_subcommand("write-checkpoint")->add_option("--family", *family, "llama, gpt2, … (see `info`)")->required();

  CLI::App* command = app.add_subcommand("export", "Write a result file's variables as text");
  const auto file = std::make_shared<std::string>();
  const auto csv = std::make_shared<std::string>();
  command->add_option("file", *file, "A NetCDF result file")->required();
  command->add_option("--csv", *csv, "CSV file to write, - for stdout")->required();
  command->callback([=, &code] { code = static_cast<int>(export_csv(*file, *csv)); });
}

}  // namespace periscope
