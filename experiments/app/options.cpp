#include "experiments/app/options.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "experiments/studies/studies.h"
#include "sim/base/error.h"
#include "sim/base/printable.h"
#include "sim/base/whole_number.h"

namespace periscope::app {
namespace {

/// For flags that take a whole number; CLI11's own check writes its limits with 300 digits, and takes -1 for 2^64 - 1.
CLI::Validator whole_number(std::int64_t least, std::int64_t most = std::numeric_limits<int>::max()) {
  return {[least, most](const std::string& word) {
            return parse_whole_number(word, least, most)
                       ? ""
                       : fmt::format("{}: expected {}", shortened(word), whole_number_words(least, most));
          },
          fmt::format("{} to {}", least, most)};
}

}  // namespace

void CommonOptions::add_to(CLI::App& command, const study::CommonFlags& taken) {
  if (taken.config) {
    command.add_option("--config", asked.file, "TOML file: what to simulate (`periscope list` shows every key)");
    command
        .add_option("--set", asked.settings,
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
    command.add_option("--seed", asked.seed, "First random seed, run.seed")
        ->check(whole_number(0, std::numeric_limits<std::int64_t>::max()));
  }
  if (taken.seeds) command.add_option("--seeds", asked.seeds, "Number of seeds")->check(whole_number(1));
  if (taken.threads) {
    command
        .add_option("--threads", asked.threads,
                    "Threads; 0: OMP_NUM_THREADS, else all cores; results do not depend on it")
        ->check(whole_number(0));
  }
  if (taken.device) command.add_option("--device", asked.device, "cpu, reference, cuda or cuda-tf32");
  if (taken.dtype) command.add_option("--dtype", asked.dtype, "f64, f32, bf16 or f16");
  if (taken.memory) {
    command.add_option_function<std::string>(
        "--memory", [this](const std::string& word) { asked.memory = study::bytes_of("--memory", word); },
        "Memory for signals that gradients need, or for converted weights, as in 8G (K, M, G: powers of 1024): what it "
        "holds need not be computed again; results do not depend on it. Default: at most half of what there is, and "
        "for gradients with dense weights at most 2.8 GB");
  }
  if (taken.out)
    command.add_option("--out", asked.out,
                       "Folder for result files; FOLDER/cache has finished tasks until they are written");
  command.add_flag("--json", json, "Print the result to stdout as one JSON object");
  command.add_flag("--quiet", quiet, "No progress and no tables");
  if (taken.force) {
    command.add_flag("--force", asked.force, "Overwrite a model that is there; try what by the estimate does not fit");
  }
}

void CommonOptions::add_to(CLI::App& command, const study::Study& study) {
  add_to(command, study.common);
  if (study.schema != nullptr) {
    command.add_option("--csv", csv, "Write the result as CSV too: a file, or - for stdout");
  }
  if (study.skips) {
    command.add_flag("--skip-finished", skip_finished,
                     "Compute nothing if --out has this program's result of the same configuration: print its table, "
                     "return its exit code");
  }
  if (!study.compares) return;
  command
      .add_option("--theory-set", asked.theory_settings,
                  "Tell theory something else than is measured, as in --theory-set model.rope=false; may be repeated")
      ->allow_extra_args(false);
}

void add_flags(CLI::App& command, const std::vector<study::FlagText>& flags, study::FlagValues& values) {
  for (const study::FlagText& flag : flags) {
    const std::string shown = flag.positional ? flag.name : "--" + flag.name;
    if (flag.toggle) {
      command.add_flag_callback(
          shown, [&values, name = flag.name] { values[name] = {}; }, flag.meaning);
      continue;
    }
    CLI::Option* option = command.add_option_function<std::vector<std::string>>(
        shown, [&values, name = flag.name](const std::vector<std::string>& words) { values[name] = words; },
        flag.meaning);
    option->type_name(flag.number ? "NUMBER" : flag.list ? "TEXT,..." : "TEXT")->expected(1);
    if (!flag.positional) option->allow_extra_args(false);
    if (flag.list) {
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    } else if (!flag.positional) {  // a second word without a flag is an error
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
    if (!flag.standard.empty()) option->default_str(flag.standard);
    if (flag.required) option->required();
  }
}

study::Request CommonOptions::request(std::string command, std::vector<std::string> acting,
                                      study::FlagValues flags) const {
  config::require_variations(sections(), variations);
  study::Request request = asked;
  request.known = sections();
  request.settings.insert(request.settings.end(), variations.begin(), variations.end());
  request.flags = std::move(flags);
  request.command = std::move(command);
  request.acting = std::move(acting);
  return request;
}

}  // namespace periscope::app
