#pragma once

#include <functional>
#include <ranges>
#include <type_traits>
#include <vector>

namespace periscope {

/// f of every element of a range, in its order; f is a function or a member. Unlike a view, it outlives the range.
template <std::ranges::range R, class F>
auto mapped(R&& all, const F& f) {
  std::vector<std::decay_t<std::invoke_result_t<const F&, std::ranges::range_reference_t<R>>>> values;
  for (auto&& one : all) values.push_back(std::invoke(f, one));
  return values;
}

}  // namespace periscope
