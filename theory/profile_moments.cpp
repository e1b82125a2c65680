#include "theory/profile_moments.h"

#include <cmath>

namespace periscope::theory {
namespace {

template <class Curves>
void add_curves(Curves& sums, const Curves& chain, double count) {
  for (const auto& [key, curve] : chain) {
    Curve& sum = sums[key];
    sum.value.resize(curve.value.size(), 0.0);
    sum.standard_error.resize(curve.value.size(), 0.0);
    for (std::size_t i = 0; i < curve.value.size(); ++i) {
      const double before = curve.value[i] - sum.value[i];
      sum.value[i] += before / count;
      sum.standard_error[i] += before * (curve.value[i] - sum.value[i]);
    }
  }
}

template <class Curves>
void add_input(Curves& all, const Curves& input, double inputs, double chains) {
  for (const auto& [key, curve] : input) {
    Curve& sum = all[key];
    sum.value.resize(curve.value.size(), 0.0);
    sum.standard_error.resize(curve.value.size(), 0.0);
    for (std::size_t i = 0; i < curve.value.size(); ++i) {
      const double error_of_mean = std::sqrt(curve.standard_error[i] / (chains * (chains - 1.0))) / inputs;
      sum.value[i] += curve.value[i] / inputs;
      sum.standard_error[i] = std::hypot(sum.standard_error[i], error_of_mean);
    }
  }
}

}  // namespace

void ProfileMoments::add(const Profile& chain) {
  ++count_;
  add_curves(sums_.curves, chain.curves, count_);
  add_curves(sums_.weight_curves, chain.weight_curves, count_);
  sums_.angular_distance.resize(chain.angular_distance.size(), 0.0);
  for (std::size_t i = 0; i < chain.angular_distance.size(); ++i) {
    sums_.angular_distance[i] += (chain.angular_distance[i] - sums_.angular_distance[i]) / count_;
  }
}

Profile combined(const std::vector<ProfileMoments>& inputs) {
  Profile all;
  const auto n = static_cast<double>(inputs.size());
  for (const ProfileMoments& input : inputs) {
    const Profile& sums = input.sums();
    add_input(all.curves, sums.curves, n, input.count());
    add_input(all.weight_curves, sums.weight_curves, n, input.count());
    all.angular_distance.resize(sums.angular_distance.size(), 0.0);
    for (std::size_t i = 0; i < all.angular_distance.size(); ++i) {
      all.angular_distance[i] += sums.angular_distance[i] / n;
    }
  }
  return all;
}

}  // namespace periscope::theory
