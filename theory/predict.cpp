#include "theory/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "theory/backward.h"
#include "theory/forward.h"
#include "theory/loss.h"
#include "theory/profile_moments.h"

namespace periscope::theory {
namespace {

constexpr std::size_t most_inputs = 64;
constexpr int fewest_chains = 16;
constexpr int fewest_samples = 2;  // patterns of a chain at every attention: one pair

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

/// The largest ratio in a curve of standard error and wanted one.
double worst_error(const Prediction& prediction, Statistic statistic, const Curve& curve) {
  double worst = 0.0;
  for (std::size_t i = 0; i < curve.value.size(); ++i) {
    const double error = curve.standard_error[i];
    if (error > 0.0) worst = std::max(worst, error / wanted_error(prediction, statistic, curve.value[i]));
  }
  return worst;
}

/// The same over all curves.
double worst_error(const Prediction& prediction) {
  double worst = 0.0;
  for (const auto& [key, curve] : prediction.profile.curves) {
    worst = std::max(worst, worst_error(prediction, key.first, curve));
  }
  for (const auto& [key, curve] : prediction.profile.weight_curves) {
    worst = std::max(worst, worst_error(prediction, key.first, curve));
  }
  return worst;
}

/// The recursion is nonlinear, so a chain with few patterns is not only noisy but biased, in proportion to its
/// variance: for a logarithm and for most other functions by about half of it. Second moments and squared gradients are
/// linear in their own sublayer's patterns and inherit the stream's bias only; these depend on their own patterns
/// otherwise.
bool is_nonlinear(Statistic statistic) {
  return statistic == Statistic::maximum || statistic == Statistic::branch_ratio ||
         statistic == Statistic::token_cosine || statistic == Statistic::variance;
}

/// Half the variance from chain to chain, of a cosine or relative to the value, in units of the curve.
double bias_of(Statistic statistic, const Curve& curve, std::size_t i, double chains) {
  const double error = curve.standard_error[i];
  if (!(error > 0.0)) return 0.0;
  const double scale = statistic == Statistic::token_cosine ? 1.0 : std::abs(curve.value[i]);
  return 0.5 * chains * error * error / scale;
}

/// The largest bias of a chain in units of what it may be: the eighth part of the wanted standard error for what is
/// handed on from sublayer to sublayer, half of it elsewhere.
double worst_bias(const Prediction& prediction, double chains) {
  double worst = 0.0;
  for (const auto& [key, curve] : prediction.profile.curves) {
    const auto& [statistic, site] = key;
    const bool stream =
        site == Site::x_out && (statistic == Statistic::second_moment || statistic == Statistic::token_cosine ||
                                statistic == Statistic::grad_sq);
    if (!stream && !is_nonlinear(statistic)) continue;
    for (std::size_t i = 0; i < curve.value.size(); ++i) {
      const double bias = bias_of(statistic, curve, i, chains);
      if (bias > 0.0) {
        worst = std::max(worst, (stream ? 8.0 : 2.0) * bias / wanted_error(prediction, statistic, curve.value[i]));
      }
    }
  }
  return worst;
}

/// A stated error covers what bias there may be.
void include_bias(Profile& profile, double chains) {
  std::vector<double> stream;  // relative bias of the stream's squared gradient
  if (const Curve* g = profile.find(Statistic::grad_sq, Site::x_out)) {
    for (std::size_t i = 0; i < g->value.size(); ++i) {
      stream.push_back(g->value[i] == 0.0 ? 0.0 : bias_of(Statistic::grad_sq, *g, i, chains) / g->value[i]);
    }
  }
  for (auto& [key, curve] : profile.curves) {
    for (std::size_t i = 0; i < curve.value.size(); ++i) {
      double bias = 0.0;
      if (is_nonlinear(key.first)) bias = bias_of(key.first, curve, i, chains);
      if (key.first == Statistic::grad_sq && key.second == Site::x_out) bias = stream[i] * curve.value[i];
      if (bias > 0.0) curve.standard_error[i] = std::hypot(curve.standard_error[i], bias);
    }
  }
  for (auto& [key, curve] : profile.weight_curves) {
    for (std::size_t i = 0; i < curve.value.size(); ++i) {
      if (curve.standard_error[i] > 0.0) {
        curve.standard_error[i] = std::hypot(curve.standard_error[i], stream[2 * i] * curve.value[i]);
      }
    }
  }
}

}  // namespace

bool is_precise(const Prediction& prediction, Statistic statistic, const Curve& curve, std::size_t i) {
  const double error = curve.standard_error[i];
  return error == 0.0 || error <= wanted_error(prediction, statistic, curve.value[i]);
}

// Values are means over independent chains, and their errors come from the chains' spread. Chains get more patterns
// until their bias is far below the wanted error, and then there are as many of them as the error needs.
Prediction predict(const StackSpec& spec, const std::vector<std::vector<int>>& ids, const PredictionOptions& options) {
  if (const std::string reason = loss_refusal(spec.model); !reason.empty() && !options.labels.empty()) {
    PredictionOptions forward = options;
    forward.labels.clear();
    Prediction prediction = predict(spec, ids, forward);
    prediction.gradient_refusal = reason;
    return prediction;
  }
  const std::vector<std::vector<int>> sequences = ids.empty() ? std::vector<std::vector<int>>(1) : ids;
  const int inputs = static_cast<int>(std::min(sequences.size(), most_inputs));
  Prediction prediction;
  prediction.tolerance = options.tolerance;
  prediction.gradient_tolerance = options.gradient_tolerance;
  int samples = fewest_samples;
  int chains = inputs * std::max(2, (fewest_chains + inputs - 1) / inputs);
  const int first_chains = chains;
  std::vector<ProfileMoments> moments(static_cast<std::size_t>(inputs));
  for (int done = 0;;) {
    std::vector<Profile> profiles(static_cast<std::size_t>(chains - done));
#pragma omp parallel for schedule(dynamic, 1)
    for (int c = done; c < chains; ++c) {
      const ForwardChain chain{.ids = sequences[static_cast<std::size_t>(c % inputs)],
                               .samples = samples,
                               .seed = options.seed,
                               .replicate = static_cast<std::uint64_t>(c),
                               .fault = options.fault};
      profiles[static_cast<std::size_t>(c - done)] = chain_profile(spec, chain, options);
    }
    for (int c = done; c < chains; ++c) {
      moments[static_cast<std::size_t>(c % inputs)].add(profiles[static_cast<std::size_t>(c - done)]);
    }
    done = chains;
    prediction.samples = samples * chains;
    prediction.replicates = chains - inputs + 1;
    prediction.profile = combined(moments);
    if (const int depth = first_overflow(prediction.profile); depth >= 0) {
      prediction.refusal = fmt::format("the predicted second moment overflows at depth {}", depth);
      prediction.profile = {};
      return prediction;
    }
    const double bias = worst_bias(prediction, chains);
    include_bias(prediction.profile, chains);
    add_logarithms(prediction.profile.curves);
    add_logarithms(prediction.profile.weight_curves);
    if (bias > 1.0 && 2 * samples * first_chains <= options.most_samples) {
      const double needed = samples * std::min(bias, 16.0);
      while (samples < needed && 2 * samples * first_chains <= options.most_samples) samples *= 2;
      chains = first_chains;
      done = 0;
      moments.assign(moments.size(), {});
      continue;
    }
    const double error = worst_error(prediction);
    const int most_chains = options.most_samples / (samples * inputs) * inputs;
    if (error <= 1.0 || most_chains <= chains) break;
    // The largest of many estimated errors is likely estimated too large: two steps are cheaper than one too long.
    constexpr double first_step = 0.6;
    const double needed = std::min(first_step * chains * error * error, 1e9);
    chains = std::min(most_chains, std::max(chains + inputs * ((7 + inputs) / inputs),
                                            inputs * static_cast<int>(std::ceil(needed / inputs))));
  }
  prediction.finite_width =
      finite_width_factor(spec, prediction.profile.find(Statistic::second_moment, Site::x_in)->value,
                          prediction.profile.find(Statistic::second_moment, Site::f_out)->value);
  return prediction;
}

}  // namespace periscope::theory
