#include "experiments/app/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "experiments/app/stop_signals.h"
#include "experiments/engine/run/progress.h"
#include "experiments/studies/studies.h"
#include "sim/base/mapped.h"
#include "sim/base/printable.h"

namespace periscope::app {
namespace {

/// Adds flags to a command. Parsing stores their values in `values`, which must outlive the command.
void add_flags(CLI::App& command, const std::vector<study::FlagText>& flags, study::FlagValues& values) {
  for (const study::FlagText& flag : flags) {
    if (flag.toggle) {
      command.add_flag_callback(
          flag.shown(), [&values, name = flag.name] { values[name] = {}; }, flag.meaning);
      continue;
    }
    CLI::Option* option = command.add_option_function<std::vector<std::string>>(
        flag.shown(), [&values, name = flag.name](const std::vector<std::string>& words) { values[name] = words; },
        flag.meaning);
    option->type_name(flag.number ? "NUMBER"
                      : flag.list ? "TEXT,..."
                                  : "TEXT")
        ->expected(1, flag.positional && flag.list ? CLI::detail::expected_max_vector_size : 1);
    if (!flag.positional) option->allow_extra_args(false);
    if (flag.list) {
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    } else if (!flag.positional) {
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
    if (!flag.default_text.empty()) option->default_str(flag.default_text);
    if (flag.required) option->required();
  }
}

/// Appends to `found` the names of the commands below `app` that have `flag`, such as "gradients depth".
void collect_commands_with(const CLI::App& app, const std::string& flag, const std::string& path,
                           std::vector<std::string>& found) {
  for (const CLI::App* command : app.get_subcommands({})) {
    const std::string name = path + command->get_name();
    if (command->get_option_no_throw(flag) != nullptr) found.push_back(name);
    collect_commands_with(*command, flag, name + " ", found);
  }
}

/// Returns a command's flags without "--". suggestion() prefers earlier words, so flags as long as `flag` come first.
std::vector<std::string> flags_of(const CLI::App& command, const std::string& flag) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options())
    std::ranges::copy(option->get_lnames(), std::back_inserter(flags));
  std::stable_partition(flags.begin(), flags.end(),
                        [&](const std::string& name) { return name.size() == flag.size(); });
  return flags;
}

}  // namespace

void CommonOptions::add_to(CLI::App& command, const study::FlagNames& without,
                           const std::vector<study::FlagText>& flags) {
  if (!without.contains("config")) {
    command.add_option("--config", from_flags.file, "TOML configuration file (`periscope list` shows every key)");
    command
        .add_option("--set", from_flags.settings,
                    "Override one key, as in --set model.width=256; repeatable, the last value of a key wins")
        ->allow_extra_args(false);
  }
  if (!without.contains("vary")) {
    command
        .add_option("--vary", variations,
                    "Sweep a key of model, init or input over a list, as in --vary "
                    "'model.qk_norm=[\"none\",\"full\"]'; repeatable, every combination is a stack")
        ->allow_extra_args(false);
  }
  add_flags(command, flag_texts(study::run_flags(without)), from_flags.run);
  add_flags(command, flags, from_flags.flags);
  command.add_flag("--json", json, "Print the result to stdout as one JSON object");
  command.add_flag("--quiet", quiet, "Print no progress and no tables");
  if (!without.contains("force")) {
    command.add_flag("--force", from_flags.force,
                     "Overwrite an existing model; run even if the memory estimate is too large");
  }
}

void CommonOptions::add_to(CLI::App& command, const study::Study& study) {
  add_to(command, study.without, study.flags);
  if (study.schema != nullptr) {
    command.add_option("--csv", csv, "Also write the result as CSV, to a file or to stdout (-)");
  }
  if (study.skippable) {
    command.add_flag("--skip-finished", skip_finished,
                     "If --out already contains a result of the same configuration and program, only print its table "
                     "and return its exit code");
  }
  if (!study.compares) return;
  command
      .add_option("--theory-set", from_flags.theory_settings,
                  "Override one key for the theory only, as in --theory-set model.rope=false; repeatable")
      ->allow_extra_args(false);
}

study::Request CommonOptions::request(std::string command, std::vector<std::string> effective_keys) const {
  config::require_variations(sections(), variations);
  study::Request request = from_flags;
  request.known = sections();
  request.settings.insert(request.settings.end(), variations.begin(), variations.end());
  request.command = std::move(command);
  request.effective_keys = std::move(effective_keys);
  return request;
}

study::FlagNames no_run_except(const study::FlagNames& supported) {
  study::FlagNames without = no_run;
  for (const std::string& name : supported) without.erase(name);
  return without;
}

std::string unknown_word(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* current = &app;
  std::string path;
  for (const std::string& word : words) {
    if (word == "--") break;
    const std::vector<const CLI::App*> commands = current->get_subcommands({});
    if (!word.starts_with("-")) {
      if (commands.empty()) continue;  // a flag's value or a positional argument
      const auto names = mapped(commands, [](const CLI::App* command) { return command->get_name(); });
      const auto found = std::ranges::find(names, word);
      if (found == names.end()) {
        return fmt::format("periscope: {}{}: expected one of {}{}", path, shortened(word), fmt::join(names, ", "),
                           suggestion(word, names, path));
      }
      current = commands[static_cast<std::size_t>(found - names.begin())];
      path += word + " ";
      continue;
    }
    const std::string flag = word.substr(0, word.find('='));
    if (!flag.starts_with("--") || current->get_option_no_throw(flag) != nullptr) continue;
    std::vector<std::string> others;
    collect_commands_with(app, flag, "", others);
    if (!others.empty()) {
      return fmt::format("periscope: {}{}: not a flag of this command; supported by {}", path, flag,
                         fmt::join(others, ", "));
    }
    const std::string name = flag.substr(2);
    return fmt::format("periscope: {}{}: unknown flag{}", path, shortened(flag),
                       suggestion(name, flags_of(*current, name), "--"));
  }
  return "";
}

int exit_code_of(const std::function<ExitCode()>& body) {
  if (stop_signal_received()) return static_cast<int>(stop_exit_code());
  try {
    return static_cast<int>(body());
  } catch (const stacks::Stopped&) {
    return static_cast<int>(stop_exit_code());
  }
}

CLI::App* add_command(CLI::App& app, int& code, const std::string& name, const std::string& about,
                      const study::FlagNames& without, std::function<ExitCode(const CommonOptions&)> body,
                      const std::vector<study::FlagText>& flags) {
  CLI::App* command = app.add_subcommand(name, about);
  const auto options = std::make_shared<CommonOptions>();
  options->add_to(*command, without, flags);
  command->callback([options, body = std::move(body), &code] { code = exit_code_of([&] { return body(*options); }); });
  return command;
}

}  // namespace periscope::app
