#include "theory/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "theory/attention_pattern.h"
#include "theory/forward.h"

namespace periscope::theory {
namespace {

constexpr int fewest_replicates = 8;
constexpr int most_replicates = 64;

/// Enough chains for a standard error, and a whole number of chains per token sequence.
int replicates_for(std::size_t sequences) {
  const int n = std::max(1, static_cast<int>(sequences));
  return std::min(most_replicates, (fewest_replicates + n - 1) / n * n);
}

/// Mean and standard error of the replicates, entry by entry.
Profile averaged(const std::vector<Profile>& chains) {
  Profile mean;
  const auto n = static_cast<double>(chains.size());
  for (const auto& [key, first] : chains.front().curves) {
    Curve& curve = mean.curves[key];
    for (std::size_t i = 0; i < first.value.size(); ++i) {
      double sum = 0.0;
      for (const Profile& p : chains) sum += p.curves.at(key).value[i];
      double squares = 0.0;
      for (const Profile& p : chains) squares += std::pow(p.curves.at(key).value[i] - sum / n, 2);
      curve.value.push_back(sum / n);
      curve.standard_error.push_back(std::sqrt(squares / (n * (n - 1))));
    }
  }
  mean.angular_distance.assign(chains.front().angular_distance.size(), 0.0);
  for (const Profile& p : chains) {
    for (std::size_t i = 0; i < mean.angular_distance.size(); ++i) {
      mean.angular_distance[i] += p.angular_distance[i] / n;
    }
  }
  return mean;
}

/// The largest standard error of the stream's curves, in units of the tolerance's meaning.
double worst_error(const Profile& profile) {
  double worst = 0.0;
  const Curve& q = *profile.find(Statistic::second_moment, Site::x_out);
  const Curve& cosine = *profile.find(Statistic::token_cosine, Site::x_out);
  for (std::size_t i = 0; i < q.value.size(); ++i) {
    worst = std::max(worst, q.standard_error[i] / q.value[i]);
    if (!std::isnan(cosine.value[i])) worst = std::max(worst, cosine.standard_error[i]);
  }
  return worst;
}

/// The first depth at which the prediction is no number, or −1.
int first_overflow(const Profile& profile) {
  const std::vector<double>& q = profile.find(Statistic::second_moment, Site::x_out)->value;
  const auto it = std::ranges::find_if(q, [](double v) { return !std::isfinite(v); });
  return it == q.end() ? -1 : static_cast<int>(it - q.begin());
}

}  // namespace

Prediction predict(const StackSpec& spec, const std::vector<std::vector<int>>& ids, const PredictionOptions& options) {
  Prediction prediction;
  prediction.replicates = replicates_for(ids.size());
  std::vector<Profile> chains(static_cast<std::size_t>(prediction.replicates));
  for (int samples = 2;; samples *= 2) {
#pragma omp parallel for schedule(dynamic, 1)
    for (int r = 0; r < prediction.replicates; ++r) {
      const auto i = static_cast<std::size_t>(r);
      const ForwardChain chain{.ids = ids.empty() ? std::vector<int>{} : ids[i % ids.size()],
                               .samples = samples,
                               .seed = options.seed,
                               .replicate = static_cast<std::uint64_t>(r)};
      chains[i] = forward_profile(spec, chain);
    }
    prediction.profile = averaged(chains);
    prediction.samples = samples;
    if (const int depth = first_overflow(prediction.profile); depth >= 0) {
      prediction.refusal = fmt::format("the predicted second moment overflows at depth {}", depth);
      prediction.profile = {};
      return prediction;
    }
    if (worst_error(prediction.profile) <= options.tolerance || samples >= options.most_samples) break;
  }
  prediction.finite_width =
      finite_width_factor(spec, prediction.profile.find(Statistic::second_moment, Site::x_in)->value,
                          prediction.profile.find(Statistic::second_moment, Site::f_out)->value);
  return prediction;
}

}  // namespace periscope::theory
