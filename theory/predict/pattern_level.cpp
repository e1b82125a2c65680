#include "theory/predict/pattern_level.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "sim/base/parallel_for.h"
#include "theory/passes/backward.h"
#include "theory/passes/forward.h"

namespace periscope::theory {
namespace {

using Windows = std::vector<std::vector<int>>;

void check(const Windows& ids, const Windows& labels) {
  if (ids.empty() || ids.front().empty())
    throw std::invalid_argument("batch: expected windows of token ids, found none");
  const std::size_t tokens = ids.front().size();
  const auto other_length = [&](const std::vector<int>& window) { return window.size() != tokens; };
  if (std::ranges::any_of(ids, other_length)) throw std::invalid_argument("batch: expected windows of equal length");
  if (labels.empty()) return;
  if (labels.size() != ids.size() || std::ranges::any_of(labels, other_length)) {
    throw std::invalid_argument("batch: expected as many labels as tokens in every window");
  }
  for (const std::vector<int>& window : labels) {
    if (std::ranges::any_of(window, [](int label) { return label < 0; })) {
      throw std::invalid_argument("batch: expected a label for every token, found a negative label");
    }
  }
}

/// Chooses at most `max_pairs` pairs of B windows. Row d holds the pairs of windows i and (i + d) mod B for every
/// i, so rows 1 … (B − 1)/2, and half of row B/2 if B is even, hold every pair once. If fewer are chosen, the
/// rows are evenly spaced in d and the last one is incomplete. Fewer than B pairs are evenly spaced in the middle row.
std::vector<std::pair<std::size_t, std::size_t>> chosen_pairs(std::size_t windows, std::size_t max_pairs) {
  const std::size_t count = std::min(max_pairs, windows * (windows - 1) / 2);
  const std::size_t whole_rows = (windows - 1) / 2;
  const std::size_t rows = (count + windows - 1) / windows;
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t row = k / windows;
    const std::size_t first = count < windows ? k * windows / count : k % windows;
    const std::size_t distance =
        1 + (rows <= whole_rows && count == max_pairs ? row * whole_rows / rows + whole_rows / (2 * rows) : row);
    pairs.emplace_back(first, (first + distance) % windows);
  }
  return pairs;
}

std::vector<int> joined(const std::vector<int>& first, const std::vector<int>& second) {
  std::vector<int> both = first;
  both.insert(both.end(), second.begin(), second.end());
  return both;
}

}  // namespace

ReplicateInputs pairs_of_windows(const Windows& ids, const Windows& labels, std::size_t max_pairs) {
  check(ids, labels);
  const std::size_t windows = ids.size();
  ReplicateInputs pairs{.ids = ids, .labels = labels};
  if (windows == 1) return pairs;
  pairs = {.ids = {},
           .labels = {},
           .sequences = {.count = 2, .batch = static_cast<int>(windows)},
           .population = windows * (windows - 1) / 2};
  for (const auto& [first, second] : chosen_pairs(windows, max_pairs)) {
    pairs.ids.push_back(joined(ids[first], ids[second]));
    if (!labels.empty()) pairs.labels.push_back(joined(labels[first], labels[second]));
  }
  return pairs;
}

void ProfileMoments::add(const Profile& replicate) {
  ++count_;
  for (const auto& [key, curve] : replicate.curves) {
    Curve& sum = sums_.curves[key];
    sum.value.resize(curve.value.size(), 0.0);
    sum.standard_error.resize(curve.value.size(), 0.0);
    for (std::size_t i = 0; i < curve.value.size(); ++i) {
      const double previous = curve.value[i] - sum.value[i];
      sum.value[i] += previous / count_;
      sum.standard_error[i] += previous * (curve.value[i] - sum.value[i]);
    }
  }
  sums_.angular_distance.resize(replicate.angular_distance.size(), 0.0);
  for (std::size_t i = 0; i < replicate.angular_distance.size(); ++i) {
    sums_.angular_distance[i] += (replicate.angular_distance[i] - sums_.angular_distance[i]) / count_;
  }
}

Profile combined(const std::vector<ProfileMoments>& inputs, std::size_t population) {
  ProfileMoments means;
  for (const ProfileMoments& input : inputs) means.add(input.sums());
  Profile all = means.sums();
  const auto n = static_cast<double>(inputs.size());
  const auto total = static_cast<double>(population);
  const double missing = total > n ? (1.0 / n - 1.0 / total) / (n - 1.0) : 0.0;
  for (auto& [key, curve] : all.curves) {
    for (std::size_t i = 0; i < curve.value.size(); ++i) {
      double within = 0.0;  // squared error from the spread between replicates of an input
      for (const ProfileMoments& input : inputs) {
        const double replicates = input.count();
        within += input.sums().curves.at(key).standard_error[i] / (replicates * (replicates - 1.0) * n * n);
      }
      double& error = curve.standard_error[i];
      error = std::sqrt(within + (missing > 0.0 ? missing * error : 0.0));
    }
  }
  return all;
}

PatternLevel::PatternLevel(const StackSpec& spec, const ReplicateInputs& inputs, const PredictionOptions& options,
                           int number, int samples, int backward_samples, const TokenGrid* grid)
    : spec_(spec),
      inputs_(inputs),
      options_(options),
      number_(number),
      samples_(samples),
      backward_samples_(backward_samples),
      grid_(grid),
      backward_work_(grid != nullptr ? pattern_operations(spec, true) / pattern_operations(spec, false) - 1.0 : 4.0),
      moments_(inputs.ids.size()) {}

double PatternLevel::work(int replicates) const {
  const bool backward = !inputs_.labels.empty() || !options_.labels.empty();
  const bool sampled = !is_uniform(pattern_law(spec_, 0));
  // Work of one layer: two sublayers, and the patterns of its attention.
  const double forward_cost = 2.0 + (sampled ? samples_ : 0.0);
  const double backward_cost = backward ? backward_work_ * (2.0 + (sampled ? backward_samples_ : 0.0)) : 0.0;
  return static_cast<double>(replicates) * spec_.model.layers * (forward_cost + backward_cost);
}

Profile PatternLevel::run_replicate(int index) const {
  ForwardReplicate replicate{.ids = inputs_.ids[input_of(index)],
                             .samples = samples_,
                             .seed = options_.seed,
                             .index = (static_cast<std::uint64_t>(number_) << 32U) + static_cast<std::uint64_t>(index),
                             .fault = options_.fault,
                             .backward_samples = backward_samples_,
                             .sequences = inputs_.sequences,
                             .grid = grid_};
  if (progress_ != nullptr) replicate.on_work = [this](double patterns) { progress_->add(patterns); };
  const std::vector<std::vector<int>> labels =
      inputs_.labels.empty() ? options_.labels : std::vector<std::vector<int>>{inputs_.labels[input_of(index)]};
  if (labels.empty()) return forward_profile(spec_, replicate);
  ForwardTrace trace;
  Profile profile = forward_profile(spec_, replicate, &trace);
  if (progress_ != nullptr) replicate.on_work = [this](double patterns) { progress_->add(backward_work_ * patterns); };
  backward_profile(spec_, replicate, trace, labels, profile, options_.paths);
  return profile;
}

void PatternLevel::grow(int replicates) {
  constexpr int batch = 64;  // limits memory: the profile of a deep stack has megabytes of angular distances
  std::vector<Profile> profiles(static_cast<std::size_t>(batch));
  while (replicates_ < replicates) {
    const int end = std::min(replicates, replicates_ + batch);
    parallel_for(end - replicates_,
                 [&](int c) { profiles[static_cast<std::size_t>(c)] = run_replicate(replicates_ + c); });
    for (int c = replicates_; c < end; ++c)
      moments_[input_of(c)].add(profiles[static_cast<std::size_t>(c - replicates_)]);
    replicates_ = end;
  }
}

std::vector<double> extrapolate(Curve& curve, const Curve& previous, double r, bool relative) {
  std::vector<double> fixed(curve.value.size(), 0.0);
  for (std::size_t i = 0; i < curve.value.size(); ++i) {
    double& value = curve.value[i];
    double& error = curve.standard_error[i];
    const double step = value - previous.value[i];
    if (step == 0.0 || std::isnan(value)) continue;
    if (!std::isfinite(step)) {
      error = fixed[i] = std::numeric_limits<double>::infinity();
      continue;
    }
    value += step / (r - 1.0);
    const double remainder = step * step / (2.0 * (r - 1.0) * (relative ? std::abs(value) : 1.0));
    fixed[i] = std::hypot(previous.standard_error[i] / (r - 1.0), remainder);
    error = std::hypot(r / (r - 1.0) * error, fixed[i]);
  }
  return fixed;
}

}  // namespace periscope::theory
