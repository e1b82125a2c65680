#include "experiments/app/options.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>

#include "experiments/app/whole_number.h"
#include "experiments/studies/studies.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"

namespace periscope::app {
namespace {

/// As run.seed: CLI11 would take −1 for 2^64 − 1.
std::uint64_t parse_seed(const std::string& word) {
  std::int64_t seed = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), seed);
  if (error != std::errc() || end != word.data() + word.size() || seed < 0) {
    throw ConfigError(fmt::format("--seed {}: expected a whole number from 0 to 2^63 - 1", shortened(word)));
  }
  return static_cast<std::uint64_t>(seed);
}

/// Bytes of "8G", "500M" or "1073741824".
double parse_memory(const std::string& word) {
  constexpr std::string_view units = "KMG";
  double bytes = 0.0;
  const char* const end = word.data() + word.size();
  auto [rest, error] = std::from_chars(word.data(), end, bytes);
  if (error == std::errc() && rest != end) {
    const std::size_t unit = units.find(*rest);
    if (unit != std::string_view::npos) {
      bytes *= std::pow(1024.0, static_cast<double>(unit) + 1.0);
      ++rest;
    }
  }
  if (error != std::errc() || rest != end || !(bytes > 0.0) || !std::isfinite(bytes)) {
    throw ConfigError(fmt::format("--memory {}: expected a number of bytes above 0, or one with K, M or G, as in 8G",
                                  shortened(word)));
  }
  return bytes;
}

}  // namespace

void CommonOptions::add_to(CLI::App& command, const study::CommonFlags& taken) {
  if (taken.config) {
    command.add_option("--config", config, "TOML file: what to simulate (`periscope list` shows every key)");
    command
        .add_option("--set", settings,
                    "Override one key, as in --set model.width=256; may be repeated, the last of a key wins")
        ->allow_extra_args(false);
  }
  if (taken.vary) {
    command
        .add_option(
            "--vary", variations,
            "Run a key of model, init or input through a list, as in --vary 'model.qk_norm=[\"none\",\"full\"]'; "
            "may be repeated: every combination is a stack")
        ->allow_extra_args(false);
  }
  if (taken.seed) {
    command.add_option_function<std::string>(
        "--seed", [this](const std::string& word) { seed = parse_seed(word); }, "First random seed, run.seed");
  }
  if (taken.seeds) command.add_option("--seeds", seeds, "Number of seeds")->check(positive_up_to());
  if (taken.threads) {
    command
        .add_option("--threads", threads, "Threads; 0: OMP_NUM_THREADS, else all cores; results do not depend on it")
        ->check(whole_number(0, std::numeric_limits<int>::max()));
  }
  if (taken.device) command.add_option("--device", device, "cpu, reference, cuda or cuda-tf32");
  if (taken.dtype) command.add_option("--dtype", dtype, "f64, f32, bf16 or f16");
  if (taken.memory) {
    command.add_option_function<std::string>(
        "--memory", [this](const std::string& word) { memory = parse_memory(word); },
        "Memory for signals that gradients need, or for converted weights, as in 8G (K, M, G: powers of 1024): what it "
        "holds need not be computed again; results do not depend on it. Default: at most half of what there is, and "
        "for gradients with dense weights at most 2.8 GB");
  }
  if (taken.out) command.add_option("--out", out, "Folder for result files");
  command.add_flag("--json", json, "Print the result to stdout as one JSON object");
  command.add_flag("--quiet", quiet, "No progress and no tables");
  if (taken.force) {
    command.add_flag("--force", force, "Overwrite a model that is there; try what by the estimate does not fit");
  }
}

void CommonOptions::add_theory_set_to(CLI::App& command) {
  command
      .add_option("--theory-set", theory_settings,
                  "Tell theory something else than is measured, as in --theory-set model.rope=false; may be repeated")
      ->allow_extra_args(false);
}

void CommonOptions::add_csv_to(CLI::App& command) {
  command.add_option("--csv", csv, "Write the result as CSV too: a file, or - for stdout");
}

void CommonOptions::add_skip_finished_to(CLI::App& command) {
  command.add_flag("--skip-finished", skip_finished,
                   "Compute nothing if --out has this program's result of the same configuration: print its table, "
                   "return its exit code");
}

study::Request CommonOptions::request(std::string command, std::vector<std::string> acting,
                                      study::FlagValues flags) const {
  config::require_variations(sections(), variations);
  std::vector<std::string> all = settings;
  all.insert(all.end(), variations.begin(), variations.end());
  return {.known = sections(),
          .file = config,
          .settings = all,
          .theory_settings = theory_settings,
          .seed = seed,
          .seeds = seeds,
          .threads = threads,
          .device = device,
          .dtype = dtype,
          .out = out,
          .memory = memory,
          .force = force,
          .flags = std::move(flags),
          .command = std::move(command),
          .acting = std::move(acting)};
}

}  // namespace periscope::app
