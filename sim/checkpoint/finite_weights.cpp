#include "sim/checkpoint/finite_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace periscope {

std::optional<std::string> find_non_finite_weight(const Checkpoint& checkpoint, const RowFilter& counts,
                                                  const std::function<void(std::uint64_t)>& after_block) {
  constexpr std::uint64_t block = 1 << 19;
  const TensorFiles& files = checkpoint.files();
  std::vector<double> values;
  for (const auto& [tensor, uses] : checkpoint.uses()) {
    const std::uint64_t count = count_of(files.find(tensor));
    const std::int64_t stride = files.find(tensor).shape.back();
    for (std::uint64_t at = 0; at < count; at += block) {
      values.resize(std::min(block, count - at));
      files.read(tensor, at, std::span(values));
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (std::isfinite(values[i])) continue;
        for (const ParameterMap::Use& use : uses) {
          const std::optional<std::int64_t> entry = entry_at(use, static_cast<std::int64_t>(at + i), stride);
          if (!entry || (counts && !counts(use.parameter, *entry / std::max<std::int64_t>(use.cols, 1)))) continue;
          return fmt::format("{} is {}", checkpoint.entry_name(use.parameter, *entry), values[i]);
        }
      }
      after_block(values.size());
    }
  }
  return std::nullopt;
}

}  // namespace periscope
