#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "experiments/engine/result/dataset.h"
#include "sim/base/error.h"
#include "sim/base/key.h"

namespace periscope::study {

/// Arguments of flags, by the flag's name; a boolean flag that is set has no arguments.
using FlagValues = std::map<std::string, std::vector<std::string>>;

/// Description of a flag `--name`, or of a positional argument.
struct FlagText {
  std::string name;  ///< "max-tokens"
  std::string meaning;
  std::string default_text = {};  ///< default of a numeric flag; "" for none
  bool toggle = false;            ///< boolean flag without an argument
  bool list = false;              ///< takes several arguments, separated by commas or by repeating the flag
  bool number = false;
  bool positional = false;
  bool required = false;

  [[nodiscard]] std::string shown() const { return positional ? name : "--" + name; }
};

namespace flag_details {
/// Parse a decimal number. Throw ConfigError "FLAG WORD: expected a whole number from A to B".
std::int64_t integer(const std::string& flag, const std::string& word, const Range& range, std::int64_t most);
double number(const std::string& flag, const std::string& word, const Range& range);

/// Sets a field to a flag's last argument, or to all arguments if the field is a list.
template <class T>
void set(T& value, const std::string& flag, const std::vector<std::string>& words, const Range& range) {
  if constexpr (std::is_same_v<T, bool>) {
    value = true;
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = words.back();
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    value.clear();
    for (const std::string& word : words) std::ranges::move(dataset::split(word, ','), std::back_inserter(value));
  } else if constexpr (requires { value.emplace(); }) {  // an optional
    set(value.emplace(), flag, words, range);
  } else if constexpr (std::is_integral_v<T>) {
    constexpr auto most = std::numeric_limits<std::make_signed_t<T>>::max();
    value = static_cast<T>(integer(flag, words.back(), range, most));
  } else {
    value = number(flag, words.back(), range);
  }
}

}  // namespace flag_details

/// A flag whose value is stored in a field of F.
template <class F>
struct Flag : FlagText {
  /// Sets the value from the arguments, at least one unless the flag is boolean. Throws ConfigError.
  std::function<void(F&, const std::vector<std::string>&)> set;

  Flag(const std::string& word, std::string text, std::function<void(F&, const std::vector<std::string>&)> setter)
      : FlagText{.name = word, .meaning = std::move(text)}, set(std::move(setter)) {}
  /// The default is the field's initial value. `range` applies to numbers; Range::or_zero is ignored.
  template <class T, class Base>
  Flag(const std::string& word, T Base::*field, std::string text, const Range& range = {})
      : FlagText{.name = word, .meaning = std::move(text)}, set([=](F& values, const std::vector<std::string>& words) {
          flag_details::set(values.*field, "--" + word, words, range);
        }) {
    toggle = std::is_same_v<T, bool>;
    list = std::is_same_v<T, std::vector<std::string>>;
    number = !toggle && !list && !std::is_same_v<T, std::string>;
    // clang-tidy overlooks default member initializers of an aggregate base.
    // NOLINTNEXTLINE(clang-analyzer-optin.cplusplus.UninitializedObject)
    if constexpr (std::is_arithmetic_v<T>) {
      if (number) default_text = fmt::format("{:.15g}", static_cast<double>(F().*field));
    }
  }
};

template <class F>
std::vector<FlagText> flag_texts(const std::vector<Flag<F>>& flags) {
  return {flags.begin(), flags.end()};
}

/// Returns `values` with the given flags set. Throws ConfigError for invalid, unknown and missing required flags.
template <class F>
F read_flags(const std::vector<Flag<F>>& flags, const FlagValues& given, F values = F()) {
  for (const auto& item : given) {
    if (std::ranges::find(flags, item.first, &FlagText::name) != flags.end()) continue;
    throw ConfigError("--" + item.first + ": unknown flag");
  }
  for (const Flag<F>& flag : flags) {
    const auto it = given.find(flag.name);
    if (it == given.end() && !flag.required) continue;
    if (it == given.end() || (it->second.empty() && !flag.toggle)) {
      throw ConfigError(flag.shown() + ": expected a value, found none");
    }
    flag.set(values, it->second);
  }
  return values;
}

}  // namespace periscope::study
