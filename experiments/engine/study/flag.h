#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "experiments/engine/result/dataset.h"
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
/// Parse a decimal number. Throw ConfigError "FLAG WORD: expected a whole number from … to …".
int whole_number(const std::string& flag, const std::string& word, const Range& range);
double number(const std::string& flag, const std::string& word, const Range& range);

/// Sets a field to the words that a flag was given, the last of them unless the field is a list.
template <class T>
void set(T& value, const std::string& flag, const std::vector<std::string>& words, const Range& range) {
  if constexpr (std::is_same_v<T, bool>) {
    value = true;
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = words.back();
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    value.clear();
    for (const std::string& word : words) std::ranges::move(dataset::words_of(word, ','), std::back_inserter(value));
  } else if constexpr (std::is_same_v<T, int> || std::is_same_v<T, std::optional<int>>) {
    value = whole_number(flag, words.back(), range);
  } else {
    value = number(flag, words.back(), range);
  }
}
}  // namespace flag_details

/// Parses a number of bytes, "8G", "500M" or "1073741824". Throws ConfigError "FLAG WORD: expected …".
double bytes_of(const std::string& flag, const std::string& word);

template <class F>
std::vector<FlagText> flag_texts(const std::vector<Flag<F>>& flags) {
  std::vector<FlagText> texts;
  const F standard;
  for (const Flag<F>& flag : flags) {
    std::visit(
        [&](auto field) {
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

/// Reads the values. Throws ConfigError for an invalid word, an unknown flag, and a required flag without a value.
template <class F>
F read_flags(const std::vector<Flag<F>>& flags, const FlagValues& given) {
  F values;
  for (const auto& item : given) {
    if (std::ranges::find(flags, item.first, &Flag<F>::name) != flags.end()) continue;
    throw ConfigError("--" + item.first + ": there is no such flag");
  }
  for (const Flag<F>& flag : flags) {
    const auto it = given.find(flag.name);
    if (it == given.end() && !flag.required) continue;
    const std::string shown = flag.positional ? flag.name : "--" + flag.name;
    if (it == given.end() || (it->second.empty() && !std::holds_alternative<bool F::*>(flag.field))) {
      throw ConfigError(shown + ": expected a value, found none");
    }
    std::visit([&](auto field) { flag_details::set(values.*field, shown, it->second, flag.range); }, flag.field);
  }
  return values;
}

}  // namespace periscope::study
