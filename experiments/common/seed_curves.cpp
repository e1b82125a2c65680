#include "experiments/common/seed_curves.h"

#include "experiments/common/compared_cells.h"

namespace periscope {

void SeedCurves::add(const Profile& profile) {
  for (const auto& [statistic, site] : compared_curves) {
    if (const Curve* curve = profile.find(statistic, site)) curves_[{statistic, site}].push_back(curve->value);
  }
  for (const auto& [key, curve] : profile.weight_curves) {
    if (key.first == Statistic::log_grad_sq) weight_curves_[key].push_back(curve.value);
  }
}

const SeedCurves::Rows* SeedCurves::find(Statistic statistic, Signal site) const {
  const auto it = curves_.find({statistic, site});
  return it == curves_.end() ? nullptr : &it->second;
}

const SeedCurves::Rows* SeedCurves::find(Statistic statistic, Weight weight) const {
  const auto it = weight_curves_.find({statistic, weight});
  return it == weight_curves_.end() ? nullptr : &it->second;
}

}  // namespace periscope
