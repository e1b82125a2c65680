#include "experiments/app/study_flags.h"

namespace periscope::app {
namespace {

std::string shown_name(const study::FlagText& flag) { return flag.positional ? flag.name : "--" + flag.name; }

std::string type_name(const study::FlagText& flag) {
  if (flag.number) return "NUMBER";
  return flag.list ? "TEXT,..." : "TEXT";
}

}  // namespace

void add_flags(CLI::App& command, const std::vector<study::FlagText>& flags, study::FlagValues& values) {
  for (const study::FlagText& flag : flags) {
    if (flag.toggle) {
      command.add_flag_callback(
          shown_name(flag), [&values, name = flag.name] { values[name] = {}; }, flag.meaning);
      continue;
    }
    CLI::Option* option = command.add_option_function<std::vector<std::string>>(
        shown_name(flag), [&values, name = flag.name](const std::vector<std::string>& words) { values[name] = words; },
        flag.meaning);
    option->type_name(type_name(flag))->expected(1);
    if (!flag.positional) option->allow_extra_args(false);
    if (flag.list) {
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    } else if (!flag.positional) {  // one place has one word: a second is refused as what nobody asked for
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
    if (!flag.standard.empty()) option->default_str(flag.standard);
    if (flag.required) option->required();
  }
}

}  // namespace periscope::app
