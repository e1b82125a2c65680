#include "theory/predict/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "theory/passes/forward.h"
#include "theory/predict/pattern_level.h"
#include "theory/predict/prediction_errors.h"

namespace periscope::theory {
namespace {

constexpr std::size_t max_inputs = 64;
constexpr int first_samples = 2;  // patterns per replicate and attention sublayer at level 0
/// For long sequences, a replicate has at most this number of backward patterns or, if larger, 1/ratio of the number of
/// forward patterns. More forward patterns only reduce the bias of sharp patterns; backward patterns do not affect it.
constexpr int long_max_backward = 16;

/// The first two levels of a prediction: at least `min_replicates` replicates of first_samples patterns, then equally
/// many replicates of `ratio` times as many patterns.
struct Scheme {
  int min_replicates;
  int ratio;  ///< ratio of pattern counts between consecutive levels

  /// Returns the number of replicates, equal for every input and at least two per input.
  [[nodiscard]] int replicates(int inputs) const {
    return inputs * std::max(2, (min_replicates + inputs - 1) / inputs);
  }
  [[nodiscard]] double patterns(int inputs) const {
    return static_cast<double>(replicates(inputs)) * first_samples * (1.0 + ratio);
  }
};

/// The default scheme, then cheaper ones. Patterns are expensive for long sequences, but then each has little variance.
constexpr Scheme schemes[] = {{16, 8}, {16, 4}, {8, 4}, {6, 4}, {4, 4}, {4, 2}};

/// Scheme for gradients of long sequences. Backward patterns dominate the cost but vary little. Half as many
/// replicates are therefore used, with as many backward patterns as the errors require.
constexpr int long_sequence = 64;
constexpr Scheme long_sequence_scheme{8, 8};

/// Returns the first scheme of at most `affordable` patterns, or the last. `back_tokens` is 0 without gradients.
const Scheme& scheme_for(int inputs, double affordable, int back_tokens) {
  if (back_tokens >= long_sequence && long_sequence_scheme.patterns(inputs) <= affordable) return long_sequence_scheme;
  const auto found = std::ranges::find_if(schemes, [&](const Scheme& s) { return s.patterns(inputs) <= affordable; });
  return found == std::end(schemes) ? *std::prev(found) : *found;
}

/// Returns the limit on patterns per attention sublayer, larger for short sequences, whose patterns cost less.
int max_patterns(const StackSpec& spec, const PredictionOptions& options) {
  constexpr double reference_tokens = 64.0;
  constexpr double max_factor = 4.0;
  const double factor = std::clamp(std::pow(reference_tokens / spec.input.tokens, 2), 1.0, max_factor);
  return static_cast<int>(factor * options.max_samples);
}

/// Adds log_grad_sq for every grad_sq: at infinite width the mean of logs is the log of the mean.
void add_logarithms(Profile& profile) {
  Profile logarithms;
  for (const auto& [key, curve] : profile.curves) {
    if (key.first != Statistic::grad_sq) continue;
    Curve& log = logarithms.curves[{Statistic::log_grad_sq, key.second}];
    for (std::size_t i = 0; i < curve.value.size(); ++i) {
      log.value.push_back(std::log(curve.value[i]));  // −∞ for a gradient of exactly 0
      log.standard_error.push_back(curve.standard_error[i] == 0.0 ? 0.0 : curve.standard_error[i] / curve.value[i]);
    }
  }
  profile.curves.merge(logarithms.curves);
}

/// Returns why the predicted stream is NaN or infinite from some depth on, or "".
std::string why_not_finite(const Profile& profile) {
  const std::vector<double>& q = profile.find(Statistic::second_moment, Signal::x_out)->value;
  const auto it = std::ranges::find_if(q, [](double v) { return !std::isfinite(v); });
  if (it == q.end()) return {};
  const auto depth = static_cast<std::size_t>(it - q.begin());
  // NaN from 0/0 indicates an earlier underflow; NaN from ∞/∞ or 0·∞ an overflow. The extreme values distinguish them.
  double smallest = 1.0;
  double largest = std::isinf(*it) ? *it : 1.0;
  for (const Signal signal : {Signal::A_out, Signal::f_out, Signal::x_out}) {
    const Curve* curve = profile.find(Statistic::second_moment, signal);
    for (std::size_t i = 0; curve != nullptr && i < std::min(curve->value.size(), depth); ++i) {
      if (std::isnan(curve->value[i])) continue;
      smallest = std::min(smallest, curve->value[i]);
      largest = std::max(largest, curve->value[i]);
    }
  }
  constexpr double tiny = 1e-140;  // about half the exponent range of double: kernels multiply two such values
  if (largest > 1.0 / tiny) return fmt::format("the predicted second moment overflows at depth {}", depth);
  if (smallest < tiny) return fmt::format("the predicted second moment underflows before depth {}", depth);
  return fmt::format("the predicted second moment is NaN at depth {}: a factor is too small or too large", depth);
}

Prediction unsupported_prediction(std::string reason, const PredictionOptions& options) {
  Prediction prediction;
  prediction.unsupported = std::move(reason);
  prediction.tolerance = options.tolerance;
  prediction.gradient_tolerance = options.gradient_tolerance;
  return prediction;
}

/// Removes all gradients from the profile.
void reject_gradients(Prediction& prediction, std::string reason) {
  std::erase_if(prediction.profile.curves, [](const auto& entry) {
    const Statistic s = entry.first.first;
    return s == Statistic::grad_sq || s == Statistic::log_grad_sq || s == Statistic::score_share;
  });
  prediction.backward_samples = 0;
  prediction.gradient_unsupported = std::move(reason);
}

/// Clamps score_share to [0, 1]. Noise of the sampled correction and of the extrapolation can move it out of the range.
/// If a share is outside by more than its noise, the sample is unreliable and all gradients are removed.
void clamp_score_shares(Prediction& prediction) {
  constexpr double deviations = 4.0;
  const auto found = prediction.profile.curves.find({Statistic::score_share, Signal::A_out});
  if (found == prediction.profile.curves.end()) return;
  Curve& share = found->second;
  for (std::size_t i = 0; i < share.value.size(); ++i) {
    if (std::isnan(share.value[i])) continue;
    const double inside = std::clamp(share.value[i], 0.0, 1.0);
    if (!(std::abs(share.value[i] - inside) <= deviations * share.standard_error[i])) {
      return reject_gradients(prediction,
                              fmt::format("score_share = {1:.3g} ± {2:.1g} in sublayer {0}: expected 0 to 1; "
                                          "attention patterns fluctuate too much",
                                          i, share.value[i], share.standard_error[i]));
    }
    share.value[i] = inside;
  }
}

/// Budget of predictions with gradients on a token grid, in operations: a few minutes.
constexpr double grid_gradient_operations = 1.5e13;

/// Runs levels of replicates, each with `ratio` times as many patterns as the previous one, until two levels bound the
/// remaining bias. The last level then gets as many replicates as the requested errors need.
class InputsPrediction {
 public:
  InputsPrediction(const StackSpec& spec, const ReplicateInputs& inputs, const PredictionOptions& options,
                   const TokenGrid* grid = nullptr)
      : spec_(spec), inputs_(inputs), options_(options), grid_(grid) {
    prediction_.tolerance = options.tolerance;
    prediction_.gradient_tolerance = options.gradient_tolerance;
  }

  Prediction run() {
    while (run_level()) ++number_;
    if (prediction_.unsupported.empty()) finish();
    return std::move(prediction_);
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  /// Runs a level. Returns true if another level must follow.
  bool run_level() {
    PatternLevel level(spec_, inputs_, options_, number_, samples_, backward_samples_, grid_);
    level.report_to(progress_);
    const int first_replicates = scheme_.replicates(input_count_);
    if (number_ != 1) expect(level, first_replicates);
    if (number_ == 0) {  // a second level always follows
      const int more = scheme_.ratio * samples_;
      expect(PatternLevel(spec_, inputs_, options_, 1, more, more), first_replicates);
    }
    level.grow(first_replicates);
    if (!read(level)) return false;
    while (!has_next()) {
      const int replicates = replicates_needed(level);
      if (replicates <= level.replicates()) {
        // The error from omitted sequences does not depend on the number of replicates, so it is added only here.
        prediction_.profile = level.mean_of_population();
        correct();
        return false;
      }
      expect(level, replicates);
      level.grow(replicates);
      if (!read(level)) return false;
    }
    previous_ = level.mean();
    choose_next(level);
    return true;
  }

  void expect(const PatternLevel& level, int count) { progress_.expect(level.work(count - level.replicates()), true); }

  /// Reads the means of a level. Returns false and sets `unsupported` if they are not finite.
  bool read(const PatternLevel& level) {
    prediction_.samples = level.samples() * level.replicates();
    prediction_.backward_samples = !backward_ ? 0 : level.backward_samples() * level.replicates();
    prediction_.replicates = level.replicates() - input_count_ + 1;
    prediction_.profile = level.mean();
    if (std::string reason = why_not_finite(prediction_.profile); !reason.empty()) {
      prediction_.unsupported = std::move(reason);
      prediction_.profile = {};
      return false;
    }
    correct();
    return true;
  }

  /// Extrapolates the means from the previous level and adds the grid error.
  void correct() {
    const Profile sampled = grid_ != nullptr ? prediction_.profile : Profile();
    if (!previous_.curves.empty())
      bias_ratio_ = extrapolate_all(prediction_, prediction_.profile, previous_, scheme_.ratio);
    if (grid_ != nullptr) {
      grid_ratio_ = add_grid_error(prediction_, prediction_.profile, sampled, uniform_);
    }
  }

  /// Returns the affordable number of replicates, equal for every input. The forward pass may have more patterns than
  /// the backward pass.
  [[nodiscard]] int affordable_replicates(int forward_patterns, int backward_patterns) const {
    const double each = backward_
                            ? std::min<double>(forward_patterns, forward_share_ * forward_patterns + backward_patterns)
                            : forward_patterns;
    const double count = options_.reaches_tolerance ? infinite : affordable_ / each;
    return static_cast<int>(std::min(count, max_patterns_ / forward_patterns) / input_count_) * input_count_;
  }

  [[nodiscard]] bool has_next() const {
    return number_ == 0 ||
           (bias_ratio_ > 1.0 &&
            affordable_replicates(scheme_.ratio * samples_, grid_gradients_ ? backward_samples_ : samples_) >=
                scheme_.replicates(input_count_));
  }

  /// Returns the next number of replicates of a level: the current one if it suffices or no more are affordable.
  int replicates_needed(const PatternLevel& level) {
    const double error = worst_error(prediction_, prediction_.profile);
    const int max_replicates = affordable_replicates(samples_, backward_samples_);
    if (error > 1.0 && max_replicates <= level.replicates()) {
      const int patterns = grid_gradients_ ? backward_samples_ : samples_;
      needed_ = level.replicates() * patterns * error * error;
    }
    if (error <= 1.0 || grid_ratio_ >= 1.0) return level.replicates();
    // The largest of many estimated errors is usually an overestimate, so 60 % of the estimated number is run first and
    // the errors are estimated again.
    constexpr double first_step = 0.6;
    const double needed = std::min(first_step * level.replicates() * error * error, 1e9);
    return std::min(max_replicates, std::max(level.replicates() + input_count_ * ((3 + input_count_) / input_count_),
                                             input_count_ * static_cast<int>(std::ceil(needed / input_count_))));
  }

  /// Chooses the numbers of patterns of the next level. Backward patterns cost four times as much as forward patterns,
  /// so their number follows the error, but is at least 1/ratio of the number of forward patterns.
  void choose_next(const PatternLevel& level) {
    samples_ *= scheme_.ratio;
    if (grid_ != nullptr) return;  // the number of replicates then follows the errors
    const double error = worst_error(prediction_, previous_);
    const double replicates = static_cast<double>(level.replicates()) / scheme_.replicates(input_count_);
    const double enough = std::min(backward_samples_ * replicates * error * error, 1e6);
    const int max_backward = spec_.input.tokens < long_sequence
                                 ? samples_
                                 : std::max(std::min(samples_, long_max_backward), samples_ / scheme_.ratio);
    backward_samples_ = std::clamp(2 * static_cast<int>(std::ceil(enough / 2)), samples_ / scheme_.ratio, max_backward);
  }

  void finish() {
    const double wanted = std::min(needed_, max_patterns_);
    if (!options_.reaches_tolerance && wanted > std::floor(affordable_)) {
      prediction_.left_out = fmt::format(
          "the theory's tolerance needs {:.2g} attention patterns, {:.2g} times the default budget ({}): {} were run; "
          "set theory.tolerance to run more",
          wanted, wanted / affordable_,
          on_grid_budget_ ? "1.5e13 operations" : "the cost of the measurement, at least 2e12 operations",
          grid_gradients_ ? prediction_.backward_samples : prediction_.samples);
    }
    progress_.finish();
    clamp_score_shares(prediction_);
    add_logarithms(prediction_.profile);
    prediction_.finite_width =
        finite_width_factor(spec_, prediction_.profile.find(Statistic::second_moment, Signal::x_in)->value,
                            prediction_.profile.find(Statistic::second_moment, Signal::f_out)->value);
  }

  const StackSpec& spec_;
  const ReplicateInputs& inputs_;
  const PredictionOptions& options_;
  const TokenGrid* grid_;
  int input_count_ = static_cast<int>(inputs_.ids.size());
  bool backward_ = !inputs_.labels.empty() || !options_.labels.empty();
  bool grid_gradients_ = grid_ != nullptr && backward_;
  bool on_grid_budget_ = grid_gradients_ && options_.operations > grid_gradient_operations;
  double affordable_ = (on_grid_budget_ ? grid_gradient_operations : options_.operations) /
                       pattern_operations(spec_, backward_);  ///< patterns per attention sublayer
  double forward_share_ =  ///< share of the operations of a pattern that belongs to the forward pass
      backward_ ? pattern_operations(spec_, false) / pattern_operations(spec_, true) : 1.0;
  /// On a grid, the number of backward patterns does not grow from level to level.
  const Scheme& scheme_ = grid_gradients_ ? long_sequence_scheme
                                          : scheme_for(input_count_, affordable_, backward_ ? spec_.input.tokens : 0);
  double max_patterns_ = max_patterns(spec_, options_);  ///< limit per attention sublayer, independent of the budget
  Profile uniform_ = grid_ != nullptr ? uniform_grid_error(spec_, *grid_, options_.labels) : Profile();
  PredictionProgress progress_{options_.on_progress};
  Prediction prediction_ = {};
  int number_ = 0;  ///< number of the current level
  int samples_ = first_samples;
  int backward_samples_ = first_samples;
  Profile previous_ = {};    ///< means of the previous level
  double bias_ratio_ = 0.0;  ///< largest error that more replicates cannot reduce, over half the requested error
  double grid_ratio_ = 0.0;  ///< largest grid error divided by the requested error
  double needed_ = 0.0;      ///< number of patterns needed to reach the tolerance; 0 if reached
};

}  // namespace

double pattern_operations(const StackSpec& spec, bool backward) {
  if (const std::optional<TokenGrid> grid = grid_for(spec)) {
    const int e = spec.model.head_dim_at(0);  // a stack with a grid has equal layers
    const double forward = GridAttention::operations(*grid, spec.model.causal, e);
    const double each = backward ? 2.0 * forward + GridGradients::operations(*grid, spec.model.causal, e) : forward;
    return spec.model.layers * each;
  }
  const double t = spec.input.tokens;
  const double square = t * t;
  // Costs are run times, in units of one operation of the measurement.
  constexpr double fixed_cost = 5e4;          // cost of a pattern, independent of the number of tokens
  constexpr double default_patterns = 512.0;  // number of patterns over which the cost of an exact average is spread
  const bool uniform = is_uniform(pattern_law(spec, 0));
  double all = 0.0;
  for (int layer = 0; layer < spec.model.layers; ++layer) {
    all +=
        uniform ? 2.0 * t * square / default_patterns : 6.0 * square * (t + spec.model.head_dim_at(layer)) + fixed_cost;
  }
  return all * (backward ? 4.0 : 1.0);
}

bool is_precise(const Prediction& prediction, Statistic statistic, const Curve& curve, std::size_t i) {
  const double error = curve.standard_error[i];
  return error == 0.0 || error <= wanted_error(prediction, statistic, curve.value[i]);
}

Prediction predict(const StackSpec& spec, const std::vector<std::vector<int>>& ids, const PredictionOptions& options) {
  if (std::string reason = prediction_unsupported(spec); !reason.empty())
    return unsupported_prediction(std::move(reason), options);
  if (std::string reason = gradient_unsupported(spec); !reason.empty() && !options.labels.empty()) {
    PredictionOptions forward = options;
    forward.labels.clear();
    Prediction prediction = predict(spec, ids, forward);
    prediction.gradient_unsupported = std::move(reason);
    return prediction;
  }
  ReplicateInputs inputs{.ids = ids.empty() ? std::vector<std::vector<int>>(1) : ids};
  inputs.population = inputs.ids.size();
  if (inputs.ids.size() > max_inputs) inputs.ids.resize(max_inputs);
  if (const std::optional<TokenGrid> grid = grid_for(spec); grid && ids.empty()) {
    Prediction prediction = InputsPrediction(spec, inputs, options, &*grid).run();
    // If a requested tolerance is below the grid's error, all tokens are used.
    const bool on_grid_only = !options.labels.empty() && spec.input.tokens > max_gradient_tokens;
    if (on_grid_only || !options.reaches_tolerance || worst_error(prediction, prediction.profile) <= 1.0) {
      return prediction;
    }
  }
  return InputsPrediction(spec, inputs, options).run();
}

Prediction predict_batch(const StackSpec& spec, const std::vector<std::vector<int>>& windows,
                         const std::vector<std::vector<int>>& labels, const PredictionOptions& options) {
  if (std::string given = prediction_unsupported(spec); !given.empty())
    return unsupported_prediction(std::move(given), options);
  const std::string reason = labels.empty() ? "" : gradient_unsupported(spec);
  PredictionOptions rest = options;
  rest.labels.clear();
  const std::vector<std::vector<int>> none;
  const ReplicateInputs pairs = pairs_of_windows(windows, reason.empty() ? labels : none, max_inputs);
  Prediction prediction = InputsPrediction(spec, pairs, rest).run();
  if (!reason.empty()) prediction.gradient_unsupported = reason;
  std::erase_if(prediction.profile.curves, [](const auto& curve) { return curve.first.first == Statistic::maximum; });
  return prediction;
}

Profile quick_profile(const StackSpec& spec, const std::vector<std::vector<int>>& ids,
                      const PredictionOptions& options) {
  PredictionOptions quick_options = options;
  if (!gradient_unsupported(spec).empty()) quick_options.labels.clear();
  ReplicateInputs first{.ids = {ids.empty() ? std::vector<int>() : ids.front()}};
  first.population = 1;
  const std::optional<TokenGrid> grid = grid_for(spec);
  PatternLevel level(spec, first, quick_options, 0, first_samples, first_samples,
                     grid && ids.empty() ? &*grid : nullptr);
  level.grow(1);
  return level.mean();
}

}  // namespace periscope::theory
