#include "experiments/engine/judge/imprecise.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "experiments/engine/judge/test.h"

namespace periscope::judge {
namespace {

/// Returns increasing numbers with runs as ranges: "0-2, 7".
std::string index_list(const std::vector<std::size_t>& entries) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < entries.size();) {
    std::size_t end = i;
    while (end + 1 < entries.size() && entries[end + 1] == entries[end] + 1) ++end;
    words.push_back(end == i ? fmt::format("{}", entries[i]) : fmt::format("{}-{}", entries[i], entries[end]));
    i = end + 1;
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

std::vector<std::string> imprecise_names(const theory::Prediction& prediction) {
  std::vector<std::string> names;
  const auto add = [&](const auto& curves, const auto& places) {
    for (const auto& [key, curve] : curves) {
      const auto& [statistic, place] = key;
      if (!is_gradient(statistic) || statistic == Statistic::grad_sq) continue;
      std::vector<std::size_t> entries;
      for (std::size_t i = 0; i < curve.value.size(); ++i) {
        if (!std::isnan(curve.value[i]) && !theory::is_precise(prediction, statistic, curve, i)) entries.push_back(i);
      }
      if (entries.empty()) continue;
      names.push_back(fmt::format("{} {}[{}]", statistic_names[static_cast<std::size_t>(statistic)],
                                  places[static_cast<std::size_t>(place)], index_list(entries)));
    }
  };
  add(prediction.profile.curves, signal_names);
  add(prediction.profile.weight_curves, weight_names);
  return names;
}

}  // namespace periscope::judge
