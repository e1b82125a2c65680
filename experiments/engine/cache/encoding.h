#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ranges>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "sim/base/error.h"

/// Bit-exact binary serialization: scalars in their memory layout, containers preceded by their size, variants by their
/// index, structs member by member. A struct needs a function `parts` in its namespace: a std::tie of all members.
namespace periscope::cache {

/// Converts to any type. Used to count a struct's members: an aggregate accepts at most one initialiser per member.
struct AnyMember {
  template <class T>
  operator T() const;  // NOLINT(google-explicit-constructor): has to convert implicitly
};

template <class T, class... Members>
constexpr std::size_t count_members() {
  if constexpr (requires { T{Members{}..., AnyMember{}}; }) {
    return count_members<T, Members..., AnyMember>();
  } else {
    return sizeof...(Members);
  }
}

template <class First, class Second>
auto parts(std::pair<First, Second>& pair) {
  return std::tie(pair.first, pair.second);
}

/// Calls f with every member of a struct. Fails to compile if `parts` omits a member.
template <class T, class F>
void for_parts(T& x, const F& f) {
  const auto all = parts(x);
  if constexpr (std::is_aggregate_v<T>) static_assert(std::tuple_size_v<decltype(parts(x))> == count_members<T>());
  std::apply([&](auto&... part) { (f(part), ...); }, all);
}

template <class T>
void put(std::string& bytes, const T& x) {
  if constexpr (std::is_scalar_v<T>) {
    bytes.append(reinterpret_cast<const char*>(&x), sizeof(T));
  } else if constexpr (std::ranges::range<T>) {
    put(bytes, std::uint64_t{x.size()});
    for (const auto& element : x) put(bytes, element);
  } else if constexpr (requires { std::variant_size<T>::value; }) {
    put(bytes, x.index());
    std::visit([&](const auto& alternative) { put(bytes, alternative); }, x);
  } else {
    for_parts(const_cast<T&>(x), [&](const auto& part) { put(bytes, part); });  // does not modify x
  }
}

template <class T>
[[nodiscard]] std::string encode(const T& x) {
  std::string bytes;
  put(bytes, x);
  return bytes;
}

/// Decodes a value written by `put` from the front of `bytes` and removes it. Throws InputError if `bytes` end early.
template <class T>
void take(std::string_view& bytes, T& x) {
  const auto require = [&](std::uint64_t count) {
    if (count > bytes.size()) throw InputError("unexpected end");
  };
  const auto size = [&] {
    std::uint64_t count = 0;
    take(bytes, count);
    require(count);  // every element takes at least one byte
    return count;
  };
  if constexpr (std::is_scalar_v<T>) {
    require(sizeof(T));
    std::memcpy(&x, bytes.data(), sizeof(T));
    bytes.remove_prefix(sizeof(T));
  } else if constexpr (requires { typename T::mapped_type; }) {
    for (std::uint64_t left = size(); left > 0; --left) {
      typename T::key_type key{};
      take(bytes, key);
      take(bytes, x[key]);
    }
  } else if constexpr (std::ranges::range<T>) {
    x.resize(size());
    for (auto& element : x) take(bytes, element);
  } else if constexpr (requires { std::variant_size<T>::value; }) {
    std::size_t index = 0;
    take(bytes, index);
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      ((index == i ? take(bytes, x.template emplace<i>()) : void()), ...);
    }
    (std::make_index_sequence<std::variant_size_v<T>>());
  } else {
    for_parts(x, [&](auto& part) { take(bytes, part); });
  }
}

/// Decodes a value. Throws InputError if the bytes do not have the length of a T.
template <class T>
[[nodiscard]] T decode(std::string_view bytes) {
  T x{};
  take(bytes, x);
  if (!bytes.empty()) throw InputError("unexpected length");
  return x;
}

}  // namespace periscope::cache
