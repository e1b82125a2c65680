#pragma once

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
  std::string alias = {};  ///< another name
};

/// A flag as a command line needs it, without knowing what holds its value.
struct FlagText {
  std::string name;
  std::string alias;
  std::string meaning;
  std::string standard;  ///< the default, of a number that has one
  bool toggle;           ///< takes no word
  bool list;             ///< takes several words, separated by commas or by repeating the flag
  bool number;
  bool positional;
  bool required;
};

namespace flag_details {
/// Numbers of a word, decimal. Throw ConfigError "--name word: expected a whole number from … to …".
int whole_number(const std::string& flag, const std::string& word, const Range& range);
double number(const std::string& flag, const std::string& word, const Range& range);
std::vector<std::string> split(const std::vector<std::string>& words);
std::string text_of(double value);
}  // namespace flag_details

/// Bytes of "8G", "500M" or "1073741824". Throws ConfigError "FLAG WORD: expected …".
double bytes_of(const std::string& flag, const std::string& word);

template <class F>
std::vector<FlagText> flag_texts(const std::vector<Flag<F>>& flags) {
  std::vector<FlagText> texts;
  const F standard;
  for (const Flag<F>& flag : flags) {
    texts.push_back({.name = flag.name,
                     .alias = flag.alias,
                     .meaning = flag.meaning,
                     .standard = "",
                     .toggle = std::holds_alternative<bool F::*>(flag.field),
                     .list = std::holds_alternative<std::vector<std::string> F::*>(flag.field),
                     .number = false,
                     .positional = flag.positional,
                     .required = flag.required});
    FlagText& text = texts.back();
    std::visit(
        [&](const auto& field) {
          using V = std::remove_cvref_t<decltype(standard.*field)>;
          text.number = !std::is_same_v<V, bool> && !std::is_same_v<V, std::string> &&
                        !std::is_same_v<V, std::vector<std::string>>;
          if constexpr (std::is_same_v<V, int> || std::is_same_v<V, double>) {
            text.standard = flag_details::text_of(standard.*field);
          }
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
    std::visit(
        [&](const auto& field) {
          using V = std::remove_cvref_t<decltype(values.*field)>;
          const std::vector<std::string>& words = it->second;
          if constexpr (std::is_same_v<V, bool>) {
            values.*field = true;
          } else if constexpr (std::is_same_v<V, std::vector<std::string>>) {
            values.*field = flag_details::split(words);
          } else if constexpr (std::is_same_v<V, std::string>) {
            values.*field = words.back();
          } else if constexpr (std::is_same_v<V, int> || std::is_same_v<V, std::optional<int>>) {
            values.*field = flag_details::whole_number(shown, words.back(), flag.range);
          } else {
            values.*field = flag_details::number(shown, words.back(), flag.range);
          }
        },
        flag.field);
  }
  return values;
}

}  // namespace periscope::study
