#include "experiments/app/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "experiments/app/stop_signals.h"
#include "experiments/engine/run/progress.h"
#include "experiments/studies/studies.h"
#include "sim/base/mapped.h"
#include "sim/base/printable.h"

namespace periscope::app {
namespace {

/// Adds flags to a command; their values go to `values`, which outlives it.
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
    option->type_name(flag.number ? "NUMBER" : flag.list ? "TEXT,..." : "TEXT")->expected(1);
    if (!flag.positional) option->allow_extra_args(false);
    if (flag.list) {
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    } else if (!flag.positional) {  // a second word without a flag is an error
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
    if (!flag.default_text.empty()) option->default_str(flag.default_text);
    if (flag.required) option->required();
  }
}

/// The commands from `app` on that take the flag: "gradients depth".
void collect_takers(const CLI::App& app, const std::string& flag, const std::string& path,
                    std::vector<std::string>& takers) {
  for (const CLI::App* command : app.get_subcommands({})) {
    const std::string name = path + command->get_name();
    if (command->get_option_no_throw(flag) != nullptr) takers.push_back(name);
    collect_takers(*command, flag, name + " ", takers);
  }
}

/// Returns the flags of a command. Those that are as long as `flag` come first, because `nearest` prefers the first of
/// equally near ones.
std::vector<std::string> flags_of(const CLI::App& command, const std::string& flag) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  std::stable_partition(flags.begin(), flags.end(),
                        [&](const std::string& name) { return name.size() == flag.size(); });
  return flags;
}

}  // namespace

void CommonOptions::add_to(CLI::App& command, const study::FlagNames& without,
                           const std::vector<study::FlagText>& flags) {
  if (!without.contains("config")) {
    command.add_option("--config", asked.file, "TOML file: what to simulate (`periscope list` shows every key)");
    command
        .add_option("--set", asked.settings,
                    "Override one key, as in --set model.width=256; may be repeated, the last of a key wins")
        ->allow_extra_args(false);
  }
  if (!without.contains("vary")) {
    command
        .add_option(
            "--vary", variations,
            "Run a key of model, init or input through a list, as in --vary 'model.qk_norm=[\"none\",\"full\"]'; "
            "may be repeated: every combination is a stack")
        ->allow_extra_args(false);
  }
  add_flags(command, flag_texts(study::run_flags(without)), asked.run);
  add_flags(command, flags, asked.flags);
  command.add_flag("--json", json, "Print the result to stdout as one JSON object");
  command.add_flag("--quiet", quiet, "No progress and no tables");
  if (!without.contains("force")) {
    command.add_flag("--force", asked.force, "Overwrite a model that is there; try what by the estimate does not fit");
  }
}

void CommonOptions::add_to(CLI::App& command, const study::Study& study) {
  add_to(command, study.without, study.flags);
  if (study.schema != nullptr) {
    command.add_option("--csv", csv, "Write the result as CSV too: a file, or - for stdout");
  }
  if (study.skippable) {
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

study::Request CommonOptions::request(std::string command, std::vector<std::string> effective_keys) const {
  config::require_variations(sections(), variations);
  study::Request request = asked;
  request.known = sections();
  request.settings.insert(request.settings.end(), variations.begin(), variations.end());
  request.command = std::move(command);
  request.effective_keys = std::move(effective_keys);
  return request;
}

std::string unknown_word(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  std::string path;
  for (const std::string& word : words) {
    if (word == "--") break;
    const std::vector<const CLI::App*> commands = at->get_subcommands({});
    if (!word.starts_with("-")) {
      if (commands.empty()) continue;  // a value, or a word that the command takes
      const auto names = mapped(commands, [](const CLI::App* command) { return command->get_name(); });
      const auto found = std::ranges::find(names, word);
      if (found == names.end()) {
        return fmt::format("periscope: {}{}: expected one of {}; nearest is {}{}", path, shortened(word),
                           fmt::join(names, ", "), path, nearest(word, names));
      }
      at = commands[static_cast<std::size_t>(found - names.begin())];
      path += word + " ";
      continue;
    }
    const std::string flag = word.substr(0, word.find('='));
    if (!flag.starts_with("--") || at->get_option_no_throw(flag) != nullptr) continue;
    std::vector<std::string> takers;
    collect_takers(app, flag, "", takers);
    if (!takers.empty()) {
      return fmt::format("periscope: {}{} does nothing here; it acts in {}", path, flag, fmt::join(takers, ", "));
    }
    return fmt::format("periscope: {}{}: there is no such flag; nearest is {}", path, shortened(flag),
                       nearest(flag, flags_of(*at, flag)));
  }
  return "";
}

int exit_code_of(const std::function<ExitCode()>& body) {
  if (stop_signal_received()) return static_cast<int>(stop_exit_code());  // before anything has begun
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
