#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

namespace periscope {
namespace enumerators_details {

/// Returns text that ends in "periscope::Op::norm]", or in "(periscope::Op)99]" for a value without an enumerator.
/// The return type is const char*, because gcc would append the definition of std::string_view to the text.
template <auto value>
constexpr const char* text_of() {
  return __PRETTY_FUNCTION__;
}

/// Returns the identifier of an enumerator, e.g. "norm", or "" for a value without an enumerator.
template <auto value>
constexpr std::string_view identifier_of() {
  std::string_view text = text_of<value>();
  text.remove_prefix(text.find_last_of(":)") + 1);
  text.remove_suffix(1);
  return text.front() >= '0' && text.front() <= '9' ? std::string_view() : text;
}

enum class Probe { known };

/// Returns the number of enumerators of E; the search starts at value `next`.
template <class E, std::size_t next = 0>
constexpr std::size_t count() {
  if constexpr (identifier_of<static_cast<E>(next)>().empty()) {
    return next;
  } else {
    return count<E, next + 1>();
  }
}

/// Returns true if `name` equals the identifier, treating - as _: "no-noise" and "no_noise" both match no_noise.
constexpr bool is_spelling_of(std::string_view name, std::string_view identifier) {
  if (name.size() != identifier.size()) return false;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] != identifier[i] && (name[i] != '-' || identifier[i] != '_')) return false;
  }
  return true;
}

}  // namespace enumerators_details

/// The identifiers of the enumerators of E, whose values must be 0, 1, 2, … A static_assert compares every table
/// indexed by an enumerator with this list, so a missing row fails to compile.
template <class E>
inline constexpr auto identifiers = []<std::size_t... i>(std::index_sequence<i...>) {
  return std::array{enumerators_details::identifier_of<static_cast<E>(i)>()...};
}
(std::make_index_sequence<enumerators_details::count<E>()>());

/// True if the compiler prints enumerators as `identifiers` expects: gcc and clang do (tested), nvcc does not.
inline constexpr bool enumerators_supported =
    enumerators_details::identifier_of<enumerators_details::Probe::known>() == "known" &&
    enumerators_details::identifier_of<static_cast<enumerators_details::Probe>(1)>().empty();

/// Returns true if `names` has one nonempty name per enumerator of E, and no name belongs to a different enumerator.
template <class E, std::size_t size>
constexpr bool are_names_of(const std::array<std::string_view, size>& names) {
  if constexpr (enumerators_supported) {
    if (size != identifiers<E>.size()) return false;
    for (std::size_t i = 0; i < size; ++i) {
      if (names[i].empty()) return false;
      for (std::size_t j = 0; j < size; ++j) {
        if (j != i && enumerators_details::is_spelling_of(names[i], identifiers<E>[j])) return false;
      }
    }
  }
  return true;
}

/// Returns true if `rows` has one row per enumerator, in order. Field `enumerator` of a row stores its enumerator.
template <class Rows, class Row, class E>
constexpr bool are_rows_of(const Rows& rows, E Row::*enumerator) {
  if constexpr (enumerators_supported) {
    if (rows.size() != identifiers<E>.size()) return false;
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].*enumerator != static_cast<E>(i)) return false;
  }
  return true;
}

}  // namespace periscope
