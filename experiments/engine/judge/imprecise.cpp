#include "experiments/engine/judge/imprecise.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "experiments/engine/judge/test.h"

namespace periscope::judge {
namespace {

/// "0-2, 7": neighbours by their ends.
std::string index_list(const std::vector<std::size_t>& entries) {
  std::string words;
  for (std::size_t i = 0; i < entries.size();) {
    std::size_t end = i;
    while (end + 1 < entries.size() && entries[end + 1] == entries[end] + 1) ++end;
    if (!words.empty()) words += ", ";
    words += end == i ? fmt::format("{}", entries[i]) : fmt::format("{}-{}", entries[i], entries[end]);
    i = end + 1;
  }
  return words;
}

template <class Curves, class Names>
void add_names(const theory::Prediction& prediction, const Curves& curves, const Names& places,
               std::vector<std::string>& names) {
  for (const auto& [key, curve] : curves) {
    const auto& [statistic, place] = key;
    if (statistic == Statistic::grad_sq) continue;
    const std::vector<std::size_t> entries = imprecise_entries(prediction, statistic, &curve);
    if (entries.empty()) continue;
    names.push_back(fmt::format("{} {}[{}]", statistic_names[static_cast<std::size_t>(statistic)],
                                places[static_cast<std::size_t>(place)], index_list(entries)));
  }
}

}  // namespace

std::vector<std::size_t> imprecise_entries(const theory::Prediction& prediction, Statistic statistic,
                                           const Curve* curve) {
  std::vector<std::size_t> entries;
  if (!is_gradient(statistic) || curve == nullptr) return entries;
  for (std::size_t i = 0; i < curve->value.size(); ++i) {
    if (std::isnan(curve->value[i]) || theory::is_precise(prediction, statistic, *curve, i)) continue;
    entries.push_back(i);
  }
  return entries;
}

std::vector<std::string> imprecise_names(const theory::Prediction& prediction) {
  std::vector<std::string> names;
  add_names(prediction, prediction.profile.curves, signal_names, names);
  add_names(prediction, prediction.profile.weight_curves, weight_names, names);
  return names;
}

}  // namespace periscope::judge
