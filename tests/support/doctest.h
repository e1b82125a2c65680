#pragma once

#include <doctest/doctest.h>

#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/core/tensor.h"
#include "sim/spec/signal.h"
#include "sim/spec/weight.h"

/// Includes doctest and prints enumerators by name, and elements of vectors, spans, pairs and optionals.
namespace periscope {

// Overloads of doctest's template that prints the number of an enumerator.
// NOLINTBEGIN(readability-identifier-naming)
inline doctest::String toString(Signal value) { return std::string(name_of(value)).c_str(); }
inline doctest::String toString(Weight value) { return std::string(name_of(value)).c_str(); }
inline doctest::String toString(DType value) { return std::string(name_of(value)).c_str(); }
inline doctest::String toString(NormKind value) {
  return std::string(norm_kind_names.at(static_cast<std::size_t>(value))).c_str();
}
inline doctest::String toString(MlpKind value) {
  return std::string(mlp_kind_names.at(static_cast<std::size_t>(value))).c_str();
}
inline doctest::String toString(Activation value) {
  constexpr std::array<const char*, 5> names{"relu", "gelu", "silu", "gelu_tanh", "sigmoid"};
  return names.at(static_cast<std::size_t>(value));
}
// NOLINTEND(readability-identifier-naming)

/// Approximate equality with a purely relative tolerance; 0 equals only 0. doctest's default also accepts an absolute
/// difference of epsilon, so that any two small numbers are equal.
inline doctest::Approx approx(double expected) { return doctest::Approx(expected).scale(1e-290); }

}  // namespace periscope

namespace doctest {

template <class T>
struct StringMaker<std::span<T>> {
  static String convert(const std::span<T>& values) {
    constexpr std::size_t most = 32;
    String text = "[";
    for (std::size_t i = 0; i < values.size() && i < most; ++i) text += (i > 0 ? ", " : "") + toString(values[i]);
    if (values.size() > most) text += (", …, " + std::to_string(values.size()) + " elements").c_str();
    return text + "]";
  }
};

template <class T>
struct StringMaker<std::vector<T>> {
  static String convert(const std::vector<T>& values) {
    return StringMaker<std::span<const T>>::convert(std::span<const T>(values));
  }
};

template <>
struct StringMaker<std::vector<bool>> {
  static String convert(const std::vector<bool>& values) {
    String text = "[";
    for (const bool value : values) text += value ? "1" : "0";
    return text + "]";
  }
};

template <class A, class B>
struct StringMaker<std::pair<A, B>> {
  static String convert(const std::pair<A, B>& pair) {
    return "(" + toString(pair.first) + ", " + toString(pair.second) + ")";
  }
};

template <class T>
struct StringMaker<std::optional<T>> {
  static String convert(const std::optional<T>& value) { return value ? toString(*value) : String("nullopt"); }
};

}  // namespace doctest
