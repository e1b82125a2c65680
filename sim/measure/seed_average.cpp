#include "sim/measure/seed_average.h"

#include <algorithm>
#include <functional>
#include <iterator>

namespace periscope {
namespace {

void add_each(std::vector<RunningMoments>& totals, const std::vector<double>& values) {
  totals.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) totals[i].add(values[i]);
}

Curve curve_of(const std::vector<RunningMoments>& totals) {
  Curve curve;
  for (const RunningMoments& r : totals) {
    curve.value.push_back(r.mean());
    curve.standard_error.push_back(r.standard_error());
  }
  return curve;
}

std::vector<double> merged(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> all;
  std::ranges::merge(a, b, std::back_inserter(all), std::greater<>());
  all.resize(std::min<std::size_t>(all.size(), top_count));
  return all;
}

}  // namespace

void SeedAverage::add(const Reading& reading) {
  ++seeds_;
  for (const auto& [key, curve] : reading.profile.curves) add_each(curves_[key], curve.value);
  add_each(angular_distance_, reading.profile.angular_distance);
  for (const auto& [signal, rows] : reading.top) {
    auto& largest = top_[signal];
    largest.resize(rows.size());
    for (std::size_t l = 0; l < rows.size(); ++l) largest[l] = merged(largest[l], rows[l]);
  }
  if (reading.diverged_at < 0) return;
  ++diverged_seeds_;
  diverged_at_ = diverged_at_ < 0 ? reading.diverged_at : std::min(diverged_at_, reading.diverged_at);
}

Profile SeedAverage::profile() const {
  Profile profile;
  for (const auto& [key, totals] : curves_) profile.curves[key] = curve_of(totals);
  for (const RunningMoments& r : angular_distance_) profile.angular_distance.push_back(r.mean());
  return profile;
}

}  // namespace periscope
