#include "theory/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "theory/backward.h"
#include "theory/forward.h"
#include "theory/loss.h"

namespace periscope::theory {
namespace {

constexpr int fewest_replicates = 8;
constexpr int most_replicates = 64;

/// Enough chains for a standard error, and a whole number of chains per token sequence.
int replicates_for(std::size_t sequences) {
  const int n = std::max(1, static_cast<int>(sequences));
  return std::min(most_replicates, (fewest_replicates + n - 1) / n * n);
}

template <class At>
double mean_of(const std::vector<Profile>& chains, const At& at) {
  double sum = 0.0;
  for (const Profile& p : chains) sum += at(p);
  return sum / static_cast<double>(chains.size());
}

template <class At>
double standard_error_of(const std::vector<Profile>& chains, const At& at) {
  const double mean = mean_of(chains, at);
  const auto n = static_cast<double>(chains.size());
  return std::sqrt(mean_of(chains, [&](const Profile& p) { return (at(p) - mean) * (at(p) - mean); }) / (n - 1.0));
}

/// Means of the full chains' curves; standard errors from the spread of the replicates, which share the patterns
/// of a full chain between them, over √replicates.
template <class Curves>
Curves combined(const std::vector<Profile>& full, const std::vector<Profile>& replicates, Curves Profile::*curves) {
  Curves mean;
  for (const auto& entry : full.front().*curves) {
    Curve& curve = mean[entry.first];
    for (std::size_t i = 0; i < entry.second.value.size(); ++i) {
      const auto at = [&](const Profile& p) { return (p.*curves).at(entry.first).value[i]; };
      curve.value.push_back(mean_of(full, at));
      curve.standard_error.push_back(standard_error_of(replicates, at));
    }
  }
  return mean;
}

/// Beside every prediction of grad_sq its logarithm: at infinite width the mean of logs is the log of the mean.
template <class Curves>
void add_logarithms(Curves& curves) {
  Curves logarithms;
  for (const auto& [key, curve] : curves) {
    if (key.first != Statistic::grad_sq) continue;
    Curve& log = logarithms[{Statistic::log_grad_sq, key.second}];
    for (std::size_t i = 0; i < curve.value.size(); ++i) {
      log.value.push_back(std::log(curve.value[i]));  // −infinity, exactly, of a gradient that is exactly 0
      log.standard_error.push_back(curve.standard_error[i] == 0.0 ? 0.0 : curve.standard_error[i] / curve.value[i]);
    }
  }
  curves.merge(logarithms);
}

Profile combined(const std::vector<Profile>& full, const std::vector<Profile>& replicates) {
  Profile mean;
  mean.curves = combined(full, replicates, &Profile::curves);
  mean.weight_curves = combined(full, replicates, &Profile::weight_curves);
  add_logarithms(mean.curves);
  add_logarithms(mean.weight_curves);
  mean.angular_distance.assign(full.front().angular_distance.size(), 0.0);
  for (const Profile& p : full) {
    for (std::size_t i = 0; i < mean.angular_distance.size(); ++i) {
      mean.angular_distance[i] += p.angular_distance[i] / static_cast<double>(full.size());
    }
  }
  return mean;
}

/// The largest standard error of the stream's curves, in units of its tolerance.
double worst_error(const Profile& profile, const PredictionOptions& options) {
  double worst = 0.0;
  const Curve& q = *profile.find(Statistic::second_moment, Site::x_out);
  const Curve& cosine = *profile.find(Statistic::token_cosine, Site::x_out);
  for (std::size_t i = 0; i < q.value.size(); ++i) {
    worst = std::max(worst, q.standard_error[i] / q.value[i]);
    if (!std::isnan(cosine.value[i])) worst = std::max(worst, cosine.standard_error[i]);
  }
  worst /= options.tolerance;
  if (const Curve* gradient = profile.find(Statistic::log_grad_sq, Site::x_out)) {
    for (const double error : gradient->standard_error) worst = std::max(worst, error / options.gradient_tolerance);
  }
  return worst;
}

/// The first depth at which the prediction is no number, or −1.
int first_overflow(const Profile& profile) {
  const std::vector<double>& q = profile.find(Statistic::second_moment, Site::x_out)->value;
  const auto it = std::ranges::find_if(q, [](double v) { return !std::isfinite(v); });
  return it == q.end() ? -1 : static_cast<int>(it - q.begin());
}

Profile chain_profile(const StackSpec& spec, const ForwardChain& chain, const PredictionOptions& options) {
  if (options.labels.empty()) return forward_profile(spec, chain);
  ForwardTrace trace;
  Profile profile = forward_profile(spec, chain, &trace);
  backward_profile(spec, chain, trace, options.labels, profile, options.paths);
  return profile;
}

/// Wanted standard error of a value of this statistic.
double wanted_error(const Prediction& prediction, Statistic statistic, double value) {
  switch (statistic) {
    case Statistic::log_grad_sq: return prediction.gradient_tolerance;
    case Statistic::grad_sq:
    case Statistic::score_share: return prediction.gradient_tolerance * std::abs(value);
    case Statistic::token_cosine:
    case Statistic::branch_cosine: return prediction.tolerance;
    default: return prediction.tolerance * std::abs(value);
  }
}

}  // namespace

bool is_precise(const Prediction& prediction, Statistic statistic, const Curve& curve, std::size_t i) {
  const double error = curve.standard_error[i];
  return error == 0.0 || error <= wanted_error(prediction, statistic, curve.value[i]);
}

// The recursion is nonlinear: a chain with few patterns per sublayer is not only noisy but biased, by about its
// variance. So values come from full chains, which average all patterns at every sublayer, and only the
// standard errors from the replicates.
Prediction predict(const StackSpec& spec, const std::vector<std::vector<int>>& ids, const PredictionOptions& options) {
  if (const std::string reason = loss_refusal(spec.model); !reason.empty() && !options.labels.empty()) {
    PredictionOptions forward = options;
    forward.labels.clear();
    Prediction prediction = predict(spec, ids, forward);
    prediction.gradient_refusal = reason;
    return prediction;
  }
  const std::vector<std::vector<int>> sequences = ids.empty() ? std::vector<std::vector<int>>(1) : ids;
  Prediction prediction;
  prediction.tolerance = options.tolerance;
  prediction.gradient_tolerance = options.gradient_tolerance;
  prediction.replicates = replicates_for(sequences.size());
  const int full_count = std::min<int>(static_cast<int>(sequences.size()), prediction.replicates);
  std::vector<Profile> full(static_cast<std::size_t>(full_count));
  std::vector<Profile> replicates(static_cast<std::size_t>(prediction.replicates));
  for (int samples = 1;; samples *= 2) {
    prediction.samples = samples * (prediction.replicates / full_count);
#pragma omp parallel for schedule(dynamic, 1)
    for (int c = 0; c < full_count + prediction.replicates; ++c) {
      const bool is_full = c < full_count;
      const auto i = static_cast<std::size_t>(is_full ? c : c - full_count);
      const ForwardChain chain{.ids = sequences[i % static_cast<std::size_t>(full_count)],
                               .samples = is_full ? prediction.samples : samples,
                               .seed = options.seed,
                               .replicate = static_cast<std::uint64_t>(c),
                               .fault = options.fault};
      (is_full ? full : replicates)[i] = chain_profile(spec, chain, options);
    }
    prediction.profile = combined(full, replicates);
    if (const int depth = first_overflow(prediction.profile); depth >= 0) {
      prediction.refusal = fmt::format("the predicted second moment overflows at depth {}", depth);
      prediction.profile = {};
      return prediction;
    }
    if (worst_error(prediction.profile, options) <= 1.0 || prediction.samples >= options.most_samples) break;
  }
  prediction.finite_width =
      finite_width_factor(spec, prediction.profile.find(Statistic::second_moment, Site::x_in)->value,
                          prediction.profile.find(Statistic::second_moment, Site::f_out)->value);
  return prediction;
}

}  // namespace periscope::theory
