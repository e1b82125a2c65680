#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/key.h"

namespace periscope::study {

/// The words that a caller gives for flags, by name; a toggle that is set has none.
using FlagValues = std::map<std::string, std::vector<std::string>>;

/// One flag of a study, whose value is in F: `--name`, or a word without a name. The default is the field's initial
/// value.
template <class F>
struct Flag {
  using Field = std::variant<bool F::*, int F::*, double F::*, std::string F::*, std::vector<std::string> F::*,
                             std::optional<int> F::*, std::optional<double> F::*>;
  std::string name;  ///< "max-tokens"
  Field field;
  std::string meaning;
  Range range = {};  ///< of a number; `or_zero` is not for flags
  bool positional = false;
  bool required = false;
};

/// A flag as a command line needs it, without knowing what holds its value.
struct FlagText {
  std::string name;
  std::string meaning;
  std::string standard;  ///< the default, of a number that has one
  bool toggle;           ///< takes no word
  bool list;             ///< takes several words, separated by commas or by repeating the flag
  bool number;
  bool positional;
  bool required;
};

namespace flag_details {
using Words = std::vector<std::string>;
/// Read a flag's words, numbers in decimal. Throw ConfigError "--name word: expected a whole number from … to …".
void take(const std::string& flag, const Words& words, const Range& range, bool& value);
void take(const std::string& flag, const Words& words, const Range& range, int& value);
void take(const std::string& flag, const Words& words, const Range& range, double& value);
void take(const std::string& flag, const Words& words, const Range& range, std::string& value);
void take(const std::string& flag, const Words& words, const Range& range, Words& value);
template <class T>
void take(const std::string& flag, const Words& words, const Range& range, std::optional<T>& value) {
  take(flag, words, range, value.emplace());
}
}  // namespace flag_details

/// Bytes of "8G", "500M" or "1073741824". Throws ConfigError "FLAG WORD: expected …".
double bytes_of(const std::string& flag, const std::string& word);

template <class F>
std::vector<FlagText> flag_texts(const std::vector<Flag<F>>& flags) {
  std::vector<FlagText> texts;
  const F standard;
  for (const Flag<F>& flag : flags) {
    std::visit(
        [&](const auto& field) {
          using V = std::remove_cvref_t<decltype(standard.*field)>;
          constexpr bool toggle = std::is_same_v<V, bool>;
          constexpr bool list = std::is_same_v<V, std::vector<std::string>>;
          FlagText& text = texts.emplace_back(FlagText{.name = flag.name,
                                                       .meaning = flag.meaning,
                                                       .standard = "",
                                                       .toggle = toggle,
                                                       .list = list,
                                                       .number = !toggle && !list && !std::is_same_v<V, std::string>,
                                                       .positional = flag.positional,
                                                       .required = flag.required});
          if constexpr (std::is_arithmetic_v<V> && !toggle)
            text.standard = fmt::format("{:.15g}", static_cast<double>(standard.*field));
        },
        flag.field);
  }
  return texts;
}

/// Reads the values. Throws ConfigError for a word that a flag does not take, a name that there is not, and a required
/// flag without a word.
template <class F>
F read_flags(const std::vector<Flag<F>>& flags, const FlagValues& given) {
  F values;
  for (const auto& item : given) {
    const auto is_it = [&](const Flag<F>& flag) { return flag.name == item.first; };
    if (std::ranges::none_of(flags, is_it)) throw ConfigError("--" + item.first + ": there is no such flag");
  }
  for (const Flag<F>& flag : flags) {
    const auto it = given.find(flag.name);
    const std::string shown = flag.positional ? flag.name : "--" + flag.name;
    if (it == given.end()) {
      if (flag.required) throw ConfigError(shown + ": expected a value, found none");
      continue;
    }
    if (it->second.empty() && !std::holds_alternative<bool F::*>(flag.field)) {
      throw ConfigError(shown + ": expected a value, found none");
    }
    std::visit([&](const auto& field) { flag_details::take(shown, it->second, flag.range, values.*field); },
               flag.field);
  }
  return values;
}

}  // namespace periscope::study
