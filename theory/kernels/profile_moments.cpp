#include "theory/kernels/profile_moments.h"

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

/// `all` holds in standard_error the sum of squares of deviations of the inputs' means, as ProfileMoments does, and
/// `within` the squared error of the mean that comes from the chains.
template <class Curves>
void add_within(Curves& within, const Curves& input, double inputs, double chains) {
  for (const auto& [key, curve] : input) {
    std::vector<double>& sum = within[key].value;
    sum.resize(curve.value.size(), 0.0);
    for (std::size_t i = 0; i < curve.value.size(); ++i) {
      sum[i] += curve.standard_error[i] / (chains * (chains - 1.0) * inputs * inputs);
    }
  }
}

template <class Curves>
void set_errors(Curves& all, const Curves& within, double inputs, double population) {
  const double missing = population > inputs ? (1.0 / inputs - 1.0 / population) / (inputs - 1.0) : 0.0;
  for (auto& [key, curve] : all) {
    const std::vector<double>& squares = within.at(key).value;
    for (std::size_t i = 0; i < squares.size(); ++i) {
      curve.standard_error[i] = std::sqrt(squares[i] + (missing > 0.0 ? missing * curve.standard_error[i] : 0.0));
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

Profile combined(const std::vector<ProfileMoments>& inputs, std::size_t population) {
  ProfileMoments means;
  Profile within;
  const auto n = static_cast<double>(inputs.size());
  for (const ProfileMoments& input : inputs) {
    means.add(input.sums());
    add_within(within.curves, input.sums().curves, n, input.count());
    add_within(within.weight_curves, input.sums().weight_curves, n, input.count());
  }
  Profile all = means.sums();
  set_errors(all.curves, within.curves, n, static_cast<double>(population));
  set_errors(all.weight_curves, within.weight_curves, n, static_cast<double>(population));
  return all;
}

}  // namespace periscope::theory
