#include "theory/predict/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "theory/passes/backward.h"
#include "theory/passes/forward.h"
#include "theory/predict/pattern_level.h"

namespace periscope::theory {
namespace {

constexpr std::size_t most_inputs = 64;
constexpr int first_samples = 2;  // patterns of a chain at every attention: one pair
/// Of many tokens, the most patterns of a chain in the backward pass while those in the forward pass are no more:
/// beyond, these are there against the bias of sharp patterns, which squared gradients do not take from the backward
/// pass.
constexpr int usual_back = 16;

/// The first chains of a prediction: `fewest_chains` chains or more of first_samples patterns, and as many chains of
/// `ratio` times as many patterns.
struct Scheme {
  int fewest_chains;
  int ratio;  ///< how many times as many patterns there are in the chains of the next level

  /// Equally many for every input, at least two.
  [[nodiscard]] int chains(int inputs) const { return inputs * std::max(2, (fewest_chains + inputs - 1) / inputs); }
  [[nodiscard]] double patterns(int inputs) const {
    return static_cast<double>(chains(inputs)) * first_samples * (1.0 + ratio);
  }
};

/// From the usual one down. Where patterns are dear, their tokens are many and one pattern says much.
constexpr Scheme schemes[] = {{16, 8}, {16, 4}, {8, 4}, {6, 4}, {4, 4}, {4, 2}};

/// With gradients, a pattern in the backward pass is most of the work, and those of many tokens vary little: half as
/// many chains, with more such patterns in each as the errors ask.
constexpr int many_tokens = 64;
constexpr Scheme scheme_of_many{8, 8};

/// The first scheme that `affordable` patterns pay for, or the last. `back_tokens` is 0 without gradients.
const Scheme& scheme_for(int inputs, double affordable, int back_tokens) {
  if (back_tokens >= many_tokens && scheme_of_many.patterns(inputs) <= affordable) return scheme_of_many;
  const auto found = std::ranges::find_if(schemes, [&](const Scheme& s) { return s.patterns(inputs) <= affordable; });
  return found == std::end(schemes) ? *std::prev(found) : *found;
}

/// Patterns of short sequences are cheap: a pattern's products cost as its tokens squared and more.
int patterns_allowed(const StackSpec& spec, const PredictionOptions& options) {
  constexpr double usual_tokens = 64.0;
  constexpr double most_times = 4.0;
  const double times = std::clamp(std::pow(usual_tokens / spec.input.tokens, 2), 1.0, most_times);
  return static_cast<int>(times * options.most_samples);
}

/// Beside every prediction of grad_sq its logarithm: at infinite width the mean of logs is the log of the mean.
void add_logarithms(Profile& profile) {
  Profile logarithms;
  for (const auto& [key, curve] : profile.curves) {
    if (key.first != Statistic::grad_sq) continue;
    Curve& log = logarithms.curves[{Statistic::log_grad_sq, key.second}];
    for (std::size_t i = 0; i < curve.value.size(); ++i) {
      log.value.push_back(std::log(curve.value[i]));  // −infinity, exactly, of a gradient that is exactly 0
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
  // 0/0 comes of what underflowed before, ∞/∞ and 0·∞ of what overflowed: the smallest and the largest tell.
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
  constexpr double lost = 1e-140;  // half of double's exponents: kernels multiply two of these
  if (largest > 1.0 / lost) return fmt::format("the predicted second moment overflows at depth {}", depth);
  if (smallest < lost) return fmt::format("the predicted second moment underflows before depth {}", depth);
  return fmt::format("the predicted second moment is no number at depth {}: a factor is too small or too large", depth);
}

Prediction unsupported_prediction(std::string reason, const PredictionOptions& options) {
  Prediction prediction;
  prediction.unsupported = std::move(reason);
  prediction.tolerance = options.tolerance;
  prediction.gradient_tolerance = options.gradient_tolerance;
  return prediction;
}

/// Takes every gradient out of the profile.
void reject_gradients(Prediction& prediction, std::string reason) {
  std::erase_if(prediction.profile.curves, [](const auto& entry) {
    const Statistic s = entry.first.first;
    return s == Statistic::grad_sq || s == Statistic::log_grad_sq || s == Statistic::score_share;
  });
  prediction.backward_samples = 0;
  prediction.gradient_unsupported = std::move(reason);
}

/// The score path's share lies in [0, 1]. A sampled correction and the extrapolation in patterns may leave it outside
/// by their noise, which is put right; by more than that the sample is no basis for any gradient of the stack.
void settle_shares(Prediction& prediction) {
  constexpr double deviations = 4.0;
  const auto found = prediction.profile.curves.find({Statistic::score_share, Signal::A_out});
  if (found == prediction.profile.curves.end()) return;
  Curve& share = found->second;
  for (std::size_t i = 0; i < share.value.size(); ++i) {
    if (std::isnan(share.value[i])) continue;
    const double inside = std::clamp(share.value[i], 0.0, 1.0);
    if (!(std::abs(share.value[i] - inside) <= deviations * share.standard_error[i])) {
      return reject_gradients(prediction, fmt::format("the sampled share of the score path in sublayer {} is {:.3g} ± "
                                                      "{:.1g}, outside 0 to 1: attention patterns fluctuate too much",
                                                      i, share.value[i], share.standard_error[i]));
    }
    share.value[i] = inside;
  }
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

/// Returns the largest ratio of a standard error and the wanted one over all curves.
double worst_error(const Prediction& prediction, const Profile& profile) {
  double worst = 0.0;
  for (const auto& [key, curve] : profile.curves) {
    for (std::size_t i = 0; i < curve.value.size(); ++i) {
      const double error = curve.standard_error[i];
      if (error > 0.0) worst = std::max(worst, error / wanted_error(prediction, key.first, curve.value[i]));
    }
  }
  return worst;
}

/// Extrapolates every curve from the level before. Returns the largest ratio of the error that more chains do not
/// lessen and half of the wanted one.
double extrapolate_all(const Prediction& prediction, Profile& profile, const Profile& before, int level_ratio) {
  double worst = 0.0;
  for (auto& [key, curve] : profile.curves) {
    const Statistic statistic = key.first;
    const bool cosine = statistic == Statistic::token_cosine || statistic == Statistic::branch_cosine;
    const std::vector<double> fixed = extrapolate(curve, before.curves.at(key), level_ratio, !cosine);
    for (std::size_t i = 0; i < fixed.size(); ++i) {
      if (fixed[i] > 0.0) worst = std::max(worst, 2.0 * fixed[i] / wanted_error(prediction, statistic, curve.value[i]));
    }
  }
  return worst;
}

/// What interpolation between a grid's tokens leaves, as a share of the standard deviation that a number has from one
/// pattern at every attention: docs/theory/attention_and_mlp.md has the measurements.
constexpr double grid_share = 0.02;

/// What interpolation leaves of every number where patterns are uniform and nothing is sampled: its difference from
/// that on a grid of twice as many nodes. Where patterns hardly vary, this is all of a grid's error.
Profile uniform_grid_error(StackSpec spec, const TokenGrid& grid) {
  spec.init.qk_factor = 0.0;
  const TokenGrid finer(spec.input.tokens, spec.model.causal, 2.0);
  ForwardChain chain;
  chain.grid = &grid;
  Profile error = forward_profile(spec, chain);
  chain.grid = &finer;
  const Profile fine = forward_profile(spec, chain);
  for (auto& [key, curve] : error.curves) {
    const std::vector<double>& other = fine.curves.at(key).value;
    for (std::size_t i = 0; i < other.size(); ++i) curve.value[i] = 4.0 / 3.0 * std::abs(curve.value[i] - other[i]);
  }
  return error;
}

/// Adds the grid's own error to the errors of `profile`; `level` has those that come from its `patterns` patterns at
/// every attention. Returns the largest ratio of a grid's error and the wanted one.
double add_grid_error(const Prediction& prediction, Profile& profile, const Profile& level, double patterns,
                      const Profile& uniform) {
  double worst = 0.0;
  for (auto& [key, curve] : profile.curves) {
    const Curve& sampled = level.curves.at(key);
    const std::vector<double>& interpolated = uniform.curves.at(key).value;
    for (std::size_t i = 0; i < curve.value.size(); ++i) {
      const double own = std::hypot(grid_share * std::sqrt(patterns) * sampled.standard_error[i],
                                    std::isfinite(interpolated[i]) ? interpolated[i] : 0.0);
      curve.standard_error[i] = std::hypot(curve.standard_error[i], own);
      if (own > 0.0) worst = std::max(worst, own / wanted_error(prediction, key.first, curve.value[i]));
    }
  }
  return worst;
}

/// Chains come in levels, each with the scheme's ratio times as many patterns as the one before, until two levels tell
/// what bias is left; then the last level gets as many chains as the wanted errors need.
class InputsPrediction {
 public:
  InputsPrediction(const StackSpec& spec, const ChainInputs& of, const PredictionOptions& options,
                   const TokenGrid* grid = nullptr)
      : spec_(spec), of_(of), options_(options), grid_(grid) {
    prediction_.tolerance = options.tolerance;
    prediction_.gradient_tolerance = options.gradient_tolerance;
  }

  Prediction run() {
    while (grow_level()) ++number_;
    if (prediction_.unsupported.empty()) finish();
    return std::move(prediction_);
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  /// Runs a level. Returns true if another one has to follow.
  bool grow_level() {
    PatternLevel level(spec_, of_, options_, number_, samples_, backward_samples_, grid_);
    level.tell(share_);
    const int first_chains = scheme_.chains(inputs_);
    if (number_ != 1) expect(level, first_chains);
    if (number_ == 0) {  // a second level follows in any case
      const int more = scheme_.ratio * samples_;
      expect(PatternLevel(spec_, of_, options_, 1, more, more), first_chains);
    }
    level.grow(first_chains);
    if (!read(level)) return false;
    while (!has_next()) {
      const int chains = chains_wanted(level);
      if (chains <= level.chains()) {
        // More chains do not lessen what the sequences that were left out may differ by, so this has no part in how
        // many.
        prediction_.profile = level.mean_of_population();
        correct();
        return false;
      }
      expect(level, chains);
      level.grow(chains);
      if (!read(level)) return false;
    }
    before_ = level.mean();
    choose_next(level);
    return true;
  }

  void expect(const PatternLevel& level, int chains) { share_.expect(level.work(chains - level.chains())); }

  /// Reads the means of a level. Returns false, with the reason, if they are not finite.
  bool read(const PatternLevel& level) {
    prediction_.samples = level.samples() * level.chains();
    prediction_.backward_samples = !backward_ ? 0 : level.backward_samples() * level.chains();
    prediction_.replicates = level.chains() - inputs_ + 1;
    prediction_.profile = level.mean();
    if (std::string reason = why_not_finite(prediction_.profile); !reason.empty()) {
      prediction_.unsupported = std::move(reason);
      prediction_.profile = {};
      return false;
    }
    correct();
    return true;
  }

  /// Extrapolates the means from the level before, and adds a grid's own error.
  void correct() {
    const Profile sampled = grid_ != nullptr ? prediction_.profile : Profile();
    if (!before_.curves.empty()) bias_ = extrapolate_all(prediction_, prediction_.profile, before_, scheme_.ratio);
    if (grid_ != nullptr) {
      of_grid_ = add_grid_error(prediction_, prediction_.profile, sampled, prediction_.samples, uniform_);
    }
  }

  /// Returns how many chains of these patterns may be taken, equally many for every input. Of a pattern's operations,
  /// with gradients, a fourth are those of the forward pass, which has more patterns than the backward pass.
  [[nodiscard]] int paid_for(int forward_patterns, int back_patterns) const {
    const double each = backward_ ? std::min(forward_patterns, forward_patterns / 4 + back_patterns) : forward_patterns;
    const double count = options_.reaches_tolerance ? infinite : affordable_ / each;
    return static_cast<int>(std::min<double>(count, allowed_ / forward_patterns) / inputs_) * inputs_;
  }

  [[nodiscard]] bool has_next() const {
    return number_ == 0 || (bias_ > 1.0 && paid_for(scheme_.ratio * samples_, samples_) >= scheme_.chains(inputs_));
  }

  /// Returns how many chains a level is to have next; no more than it has if that is enough, or all that are paid for.
  int chains_wanted(const PatternLevel& level) {
    const double error = worst_error(prediction_, prediction_.profile);
    const int most_chains = paid_for(samples_, backward_samples_);
    if (error > 1.0 && most_chains <= level.chains()) wanted_ = level.chains() * samples_ * error * error;
    if (error <= 1.0 || of_grid_ >= 1.0) return level.chains();
    // The largest of many estimated errors is usually an overestimate, so 60 % of the chains that seem needed are
    // taken first and the errors are estimated again.
    constexpr double first_step = 0.6;
    const double needed = std::min(first_step * level.chains() * error * error, 1e9);
    return std::min(most_chains, std::max(level.chains() + inputs_ * ((3 + inputs_) / inputs_),
                                          inputs_ * static_cast<int>(std::ceil(needed / inputs_))));
  }

  /// Chooses the numbers of patterns of the next level. Those in the backward pass cost four times as much: as many as
  /// the error seems to need, but not so few that the limit of patterns in the forward pass could keep the error from
  /// being reached.
  void choose_next(const PatternLevel& level) {
    samples_ *= scheme_.ratio;
    const double error = worst_error(prediction_, before_);
    const double chains = static_cast<double>(level.chains()) / scheme_.chains(inputs_);
    const double enough = std::min(backward_samples_ * chains * error * error, 1e6);
    const int most_back = spec_.input.tokens < many_tokens
                              ? samples_
                              : std::max(std::min(samples_, usual_back), samples_ / scheme_.ratio);
    backward_samples_ = std::clamp(2 * static_cast<int>(std::ceil(enough / 2)), samples_ / scheme_.ratio, most_back);
  }

  void finish() {
    const double wanted = std::min<double>(wanted_, allowed_);
    if (!options_.reaches_tolerance && wanted > std::floor(affordable_)) {
      prediction_.left_out = fmt::format(
          "theory's precision needs {:.2g} attention patterns, which cost {:.2g} times what they may by default "
          "(the measurement's operations, at least 2e12): {} were taken; theory.tolerance asks for the rest",
          wanted, wanted / affordable_, prediction_.samples);
    }
    settle_shares(prediction_);
    add_logarithms(prediction_.profile);
    prediction_.finite_width =
        finite_width_factor(spec_, prediction_.profile.find(Statistic::second_moment, Signal::x_in)->value,
                            prediction_.profile.find(Statistic::second_moment, Signal::f_out)->value);
  }

  const StackSpec& spec_;
  const ChainInputs& of_;
  const PredictionOptions& options_;
  const TokenGrid* grid_;
  int inputs_ = static_cast<int>(of_.ids.size());
  bool backward_ = !of_.labels.empty() || !options_.labels.empty();
  double affordable_ = options_.operations / pattern_operations(spec_, backward_);  ///< patterns at every attention
  const Scheme& scheme_ = scheme_for(inputs_, affordable_, backward_ ? spec_.input.tokens : 0);
  int allowed_ = patterns_allowed(spec_, options_);  ///< at every attention, whatever is paid for
  Profile uniform_ = grid_ != nullptr ? uniform_grid_error(spec_, *grid_) : Profile();
  PredictionProgress share_{options_.on_progress};
  Prediction prediction_ = {};
  int number_ = 0;  ///< of the level
  int samples_ = first_samples;
  int backward_samples_ = first_samples;
  Profile before_ = {};   ///< the means of the level before
  double bias_ = 0.0;     ///< the largest ratio of the error that more chains do not lessen and half of the wanted one
  double of_grid_ = 0.0;  ///< the largest ratio of the grid's own error and the wanted one
  double wanted_ = 0.0;   ///< patterns, where the tolerance is not reached
};

}  // namespace

double pattern_operations(const StackSpec& spec, bool backward) {
  if (!backward) {
    if (const std::optional<TokenGrid> grid = grid_for(spec)) {
      return spec.model.layers * GridAttention::operations(*grid, spec.model.causal, spec.model.head_dim);
    }
  }
  const double t = spec.input.tokens;
  const double square = t * t;
  // As many as the time that it takes is worth in the measurement's products.
  constexpr double begun = 5e4;             // what a pattern of the fewest tokens costs
  constexpr double usual_patterns = 512.0;  // that share what an exact average costs
  const double each = is_uniform(pattern_law(spec, 0)) ? 2.0 * t * square / usual_patterns
                                                       : 6.0 * square * (t + spec.model.head_dim) + begun;
  return spec.model.layers * each * (backward ? 4.0 : 1.0);
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
  ChainInputs inputs{.ids = ids.empty() ? std::vector<std::vector<int>>(1) : ids};
  inputs.population = inputs.ids.size();
  if (inputs.ids.size() > most_inputs) inputs.ids.resize(most_inputs);
  if (const std::optional<TokenGrid> grid = grid_for(spec); grid && options.labels.empty() && ids.empty()) {
    Prediction prediction = InputsPrediction(spec, inputs, options, &*grid).run();
    // A precision that was asked for and is beyond a grid takes all tokens.
    if (!options.reaches_tolerance || worst_error(prediction, prediction.profile) <= 1.0) return prediction;
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
  const ChainInputs pairs = pairs_of_windows(windows, reason.empty() ? labels : none, most_inputs);
  Prediction prediction = InputsPrediction(spec, pairs, rest).run();
  if (!reason.empty()) prediction.gradient_unsupported = reason;
  std::erase_if(prediction.profile.curves, [](const auto& curve) { return curve.first.first == Statistic::maximum; });
  return prediction;
}

Profile sketch(const StackSpec& spec, const std::vector<std::vector<int>>& ids, const PredictionOptions& options) {
  PredictionOptions own = options;
  if (!gradient_unsupported(spec).empty()) own.labels.clear();
  ChainInputs first{.ids = {ids.empty() ? std::vector<int>() : ids.front()}};
  first.population = 1;
  PatternLevel level(spec, first, own, 0, first_samples, first_samples);
  level.grow(1);
  return level.mean();
}

}  // namespace periscope::theory
