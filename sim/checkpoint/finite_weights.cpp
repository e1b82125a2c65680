#include "sim/checkpoint/finite_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "sim/model/parameters.h"

namespace periscope {
namespace {

/// Returns the index of the first number in a tensor that is not finite, and the number.
std::optional<std::pair<std::int64_t, double>> first_non_finite(const TensorFiles& files, const std::string& tensor,
                                                                const std::function<void(std::uint64_t)>& after_block) {
  constexpr std::uint64_t block = 1 << 19;
  const std::uint64_t count = count_of(files.find(tensor));
  std::vector<double> values;
  for (std::uint64_t at = 0; at < count; at += block) {
    values.resize(std::min(block, count - at));
    files.read(tensor, at, std::span(values));
    const auto bad = std::ranges::find_if(values, [](double v) { return !std::isfinite(v); });
    if (bad != values.end()) return std::pair{static_cast<std::int64_t>(at) + (bad - values.begin()), *bad};
    after_block(values.size());
  }
  return std::nullopt;
}

/// Returns the entry of a parameter that is stored at index `place` of its tensor; nullopt if another one's is there.
std::optional<std::int64_t> entry_at(const ParameterMap::Use& use, std::int64_t stride, std::int64_t place) {
  const std::int64_t cols = std::max<std::int64_t>(use.cols, 1);
  const std::int64_t feature = (use.part.transposed ? place % stride : place / cols) - use.part.first;
  if (feature < 0 || feature >= use.rows) return std::nullopt;
  return feature * cols + (use.part.transposed ? place / stride : place % cols);
}

}  // namespace

std::string NonFiniteWeight::words() const {
  return fmt::format("{}: entry {} is {}", name_of(parameter), entry, value);
}

std::optional<NonFiniteWeight> find_non_finite_weight(const Checkpoint& checkpoint,
                                                      const std::function<void(std::uint64_t)>& after_block) {
  for (const auto& [tensor, uses] : checkpoint.uses()) {
    const auto bad = first_non_finite(checkpoint.files(), tensor, after_block);
    if (!bad) continue;
    const std::int64_t stride = checkpoint.files().find(tensor).shape.back();
    for (const ParameterMap::Use& use : uses) {
      if (const auto entry = entry_at(use, stride, bad->first))
        return NonFiniteWeight{use.parameter, *entry, bad->second};
    }
  }
  return std::nullopt;
}

}  // namespace periscope
