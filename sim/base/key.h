#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace periscope {

struct Placement;
class DepthExpression;

/// The finite numbers accepted as the value of a key, or as the entries of a list.
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool open = false;     ///< excludes `low` and `high` themselves
  bool or_zero = false;  ///< also accepts 0, which means "automatic"

  [[nodiscard]] bool contains(double value) const;
};
constexpr Range at_least(double low) { return {.low = low}; }
constexpr Range above(double low) { return {.low = low, .open = true}; }
constexpr Range from_to(double low, double high) { return {.low = low, .high = high}; }
constexpr Range between(double low, double high) { return {.low = low, .high = high, .open = true}; }

/// Whether a key influences the result.
enum class Effect {
  result,  ///< a different value may change the result
  none,    ///< affects only execution and output, e.g. threads and folders
};

/// A field whose value is a word in configuration files.
template <class Section>
struct WordField {
  std::span<const std::string_view> names = {};  ///< accepted words; if empty, `set` checks the word
  std::string_view (*get)(const Section&) = nullptr;
  void (*set)(Section&, const std::string& word) = nullptr;  ///< throws ConfigError for a wrong word
};

/// Pointer to the member that stores a key's value; std::monostate if no single member stores it.
template <class S>
using Field =
    std::variant<std::monostate, int S::*, std::uint64_t S::*, double S::*, bool S::*, std::optional<bool> S::*,
                 std::optional<double> S::*, std::string S::*, std::vector<int> S::*, std::vector<double> S::*,
                 std::vector<std::string> S::*, Placement S::*, DepthExpression S::*, WordField<S>>;

/// One key of a configuration section. `periscope list`, the parser, the resolved configuration, its hash and the
/// messages all derive from it. The default value is the field's initializer.
template <class S>
struct Key {
  std::string_view name;
  Field<S> field;
  Range range = {};
  std::string_view unit = "1";
  std::string_view meaning = "";
  std::string_view default_text = "";  ///< the default in words, if it depends on other settings
  bool swept = false;                  ///< also accepts a list of values, which makes a sweep
  bool tables = false;                 ///< the value is a list of tables; `field` is std::monostate
  Effect effect = Effect::result;
};

/// A table of a configuration file, e.g. [ladder].
template <class S>
struct Section {
  std::string_view name;
  std::span<const Key<S>> keys;
};

namespace key_details {
template <class S, class E>
S section_of(E S::*);
template <class S, class E>
E type_of(E S::*);
}  // namespace key_details

/// Returns the WordField of an enumeration `field`, e.g. word_field<&ModelSpec::mlp, mlp_kind_names>. Enumerator i is
/// written as names[i].
template <auto field, const auto& names>
constexpr auto word_field() {
  using S = decltype(key_details::section_of(field));
  using E = decltype(key_details::type_of(field));
  return WordField<S>{.names = names,
                      .get = [](const S& s) { return names[static_cast<std::size_t>(s.*field)]; },
                      .set =
                          [](S& s, const std::string& word) {
                            for (std::size_t i = 0; i < names.size(); ++i) {
                              if (names[i] == word) s.*field = static_cast<E>(i);
                            }
                          }};
}

/// Throws ConfigError "section.key = value: expected …" if the value, or an entry of the list, is out of range. Also
/// rejects empty lists and duplicate entries.
void require_in(const Range& range, std::string_view section, std::string_view key, int value);
void require_in(const Range& range, std::string_view section, std::string_view key, double value);
void require_in(const Range& range, std::string_view section, std::string_view key, const std::vector<int>& value);
void require_in(const Range& range, std::string_view section, std::string_view key, const std::vector<double>& value);

/// Calls require_in for every numeric key of a section, in order.
template <class S>
void require_ranges(const Section<S>& section, const S& values) {
  for (const Key<S>& key : section.keys) {
    std::visit(
        [&](const auto& field) {
          using F = std::remove_cvref_t<decltype(field)>;
          if constexpr (std::is_same_v<F, int S::*> || std::is_same_v<F, double S::*> ||
                        std::is_same_v<F, std::vector<int> S::*> || std::is_same_v<F, std::vector<double> S::*>) {
            require_in(key.range, section.name, key.name, values.*field);
          } else if constexpr (std::is_same_v<F, std::optional<double> S::*>) {
            if (values.*field) require_in(key.range, section.name, key.name, *(values.*field));
          }
        },
        key.field);
  }
}

}  // namespace periscope
