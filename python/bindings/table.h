#pragma once

#include <nanobind/nanobind.h>

#include <utility>

namespace periscope::python {

namespace details {
inline void put(nanobind::dict& /*all*/) {}
template <class T, class... Rest>
void put(nanobind::dict& all, const char* key, T&& value, Rest&&... rest) {
  all[key] = std::forward<T>(value);
  put(all, std::forward<Rest>(rest)...);
}
}  // namespace details

/// A dictionary of keys and values by turns: table("name", name, "length", 3).
template <class... KeysAndValues>
nanobind::dict table(KeysAndValues&&... items) {
  nanobind::dict all;
  details::put(all, std::forward<KeysAndValues>(items)...);
  return all;
}

}  // namespace periscope::python
