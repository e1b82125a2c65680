#pragma once

#include <functional>
#include <ranges>
#include <type_traits>
#include <vector>

namespace periscope {

/// Returns a vector with f(element) for every element of a range; f may be a function or a pointer to a member.
template <std::ranges::range R, class F>
auto mapped(R&& all, const F& f) {
  std::vector<std::decay_t<std::invoke_result_t<const F&, std::ranges::range_reference_t<R>>>> values;
  for (auto&& one : all) values.push_back(std::invoke(f, one));
  return values;
}

}  // namespace periscope
