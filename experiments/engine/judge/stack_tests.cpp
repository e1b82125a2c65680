#include "experiments/engine/judge/stack_tests.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>

#include "experiments/engine/judge/seed_rows.h"
#include "experiments/engine/judge/tolerated_bias.h"
#include "sim/numerics/tolerances.h"

namespace periscope::judge {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Below this value, squared deviations of a squared gradient over seeds underflow, and so does its standard error.
constexpr double unresolved_square = 1e-140;

/// Returns true for statistics whose predictions have to meet theory.gradient_tolerance. For other statistics the error
/// of the prediction only contributes to the test's error.
bool has_gradient_tolerance(Statistic statistic) { return is_gradient(statistic) && statistic != Statistic::grad_sq; }

/// Creates the tests of one comparison.
class Collector {
 public:
  Collector(const Comparison& comparison, const config::AgreementOptions& options)
      : c_(comparison),
        options_(options),
        measured_(comparison.measured.profile),
        prediction_(comparison.prediction),
        bias_(comparison.spec, comparison.prediction.finite_width, options) {}

  std::vector<Test> take() {
    for (const auto& [statistic, signal] : compared_curves) {
      const std::size_t length = length_of(measured_.find(statistic, signal));
      for (std::size_t i = 0; i < length; ++i) {
        if (statistic == Statistic::log_grad_sq) {
          gradient(signal, i, bias_.of_log_gradient(i, false), stream_rounding(c_.spec, c_.dtype));
        } else if (statistic == Statistic::score_share) {
          score_share(i);
        } else {
          add_signal(statistic, signal, i);
        }
      }
    }
    for (const auto& [key, curve] : measured_.curves) {
      const Weight* const weight = std::get_if<Weight>(&key.second);
      if (weight == nullptr || key.first != Statistic::log_grad_sq) continue;
      for (std::size_t i = 0; i < curve.value.size(); ++i) {
        gradient(*weight, i, bias_.of_log_gradient(before(2 * i), is_of_attention(*weight)),
                 gradient_rounding(c_.spec, measured_, c_.dtype, *weight, static_cast<int>(i)));
      }
    }
    withdraw_bounds();
    return std::move(tests_);
  }

 private:
  static std::size_t length_of(const Curve* curve) { return curve == nullptr ? 0 : curve->value.size(); }

  /// Returns the test of entry i of a curve; nullopt if measured and predicted values are both NaN, such as the token
  /// cosine of a single token or an MLP's score path. For a measured number without prediction, the prediction is NaN.
  [[nodiscard]] std::optional<Test> entry(Statistic statistic, CurvePlace place, std::size_t i) const {
    const Curve* measured = measured_.find(statistic, place);
    if (i >= length_of(measured)) return {};
    const Curve* predicted = prediction_.profile.find(statistic, place);
    const bool known = i < length_of(predicted);
    Test test{.statistic = statistic,
              .index = static_cast<int>(i),
              .measured = judge::entry(*measured, i),
              .predicted = known ? judge::entry(*predicted, i) : Estimate{nan, nan},
              .seeds = c_.measured.seeds,
              .replicates = prediction_.replicates,
              .precise = known && (!has_gradient_tolerance(statistic) ||
                                   theory::is_precise(prediction_, statistic, *predicted, i))};
    if (const Weight* weight = std::get_if<Weight>(&place)) {
      test.weight = *weight;
    } else {
      test.signal = std::get<Signal>(place);
    }
    // The size of a single module's output fluctuates more than the stream, which is a sum over modules.
    const bool module = statistic == Statistic::second_moment && test.signal == Signal::f_out;
    test.limit = (module ? 2.5 : 1.0) * limit_of(options_.power_limits, statistic);
    if (std::isnan(test.predicted.value)) {
      if (std::isnan(test.measured.value)) return {};
      test.scale = nan;  // makes the detectable error infinite
    }
    return test;
  }

  void add_signal(Statistic statistic, Signal signal, std::size_t i) {
    std::optional<Test> test = entry(statistic, signal, i);
    if (!test) return;
    if (!std::isnan(test->predicted.value)) {
      test->scale = statistic == Statistic::token_cosine ? 1.0 : std::abs(test->predicted.value);
      const bool at_width = prediction_.exact_at_width_for(statistic, signal);
      if (at_width) use_chain(*test);
      const double by_width = at_width ? 0.0 : bias_.of_signal(statistic, signal, i);
      test->tolerated_bias = (by_width + forward_tolerance(format_of(c_.dtype)) + c_.rounding) * test->scale;
    }
    tests_.push_back(std::move(*test));
  }

  /// Makes `test` use the finite-width chain (T25), which also predicts the spread over seeds.
  void use_chain(Test& test) const {
    test.replicates = prediction_.finite_width_replicates;
    test.replicates_given = prediction_.replicates_given;
    test.spread = prediction_.spread.find(test.statistic, test.signal)->value.at(static_cast<std::size_t>(test.index));
    test.spread_degrees = std::isfinite(test.spread) ? prediction_.finite_width_degrees : 0;
  }

  /// Returns the depth of the stream that a sublayer reads.
  [[nodiscard]] std::size_t before(std::size_t sublayer) const {
    return static_cast<std::size_t>(c_.spec.model.step_with(static_cast<int>(sublayer)));
  }
  [[nodiscard]] double variance(const Test& test) const { return variance_of(test.measured, c_.measured.seeds); }

  /// Adds the test of one gradient: of its logarithm, or of the square if rounding may change it by 10 % or more.
  void gradient(CurvePlace place, std::size_t i, double width_term, const RoundingError& rounding) {
    std::optional<Test> plain = entry(Statistic::grad_sq, place, i);
    std::optional<Test> log = entry(Statistic::log_grad_sq, place, i);
    if (plain && std::isnan(plain->predicted.value)) tests_.push_back(*plain);
    if (!plain || !log || std::isnan(plain->predicted.value)) return;
    const double t = std::max(0.0, plain->predicted.value);
    // Bound on |g + e|² − |g|² for a rounding error e in any direction with |e|² ≤ rounding.measured.
    const double rounded = rounding.measured + 2.0 * std::sqrt(rounding.measured * t) + rounding.predicted;
    const bool resolved = t > 0.0 && rounded < 0.1 * t;
    if (resolved && std::isfinite(log->measured.value) && std::isfinite(log->predicted.value)) {
      log->tolerated_bias = width_term + variance(*log) / 2.0 + rounded / t + forward_tolerance(format_of(c_.dtype));
      tests_.push_back(std::move(*log));
      return;
    }
    plain->scale = std::max(t, rounding.size);
    // Tolerated bias of the logarithm, converted to the square.
    const double half_variance = std::isfinite(variance(*log)) ? variance(*log) / 2.0 : 0.0;
    const double by_width = t == 0.0 ? 0.0 : t * std::expm1(width_term + half_variance);
    plain->tolerated_bias = t == 0.0 && plain->measured.value == 0.0 ? 0.0 : rounded + unresolved_square + by_width;
    if (std::isnan(plain->predicted.error)) plain->predicted.error = 0.0;
    tests_.push_back(std::move(*plain));
  }

  void score_share(std::size_t l) {
    std::optional<Test> test = entry(Statistic::score_share, Signal::A_out, l);
    // If the gradient at the module's output is 0, the share is 0/0 and there is no test.
    const Curve* output_gradient = measured_.find(Statistic::grad_sq, Signal::f_out);
    if (!test || (output_gradient != nullptr && output_gradient->value.at(l) == 0.0)) return;
    if (!std::isnan(test->predicted.value)) {
      const double of_log = bias_.of_log_gradient(before(l), true);
      test->tolerated_bias = share_bias(test->predicted.value, of_log, variance(*test)) + share_accuracy +
                             forward_tolerance(format_of(c_.dtype));
    }
    tests_.push_back(std::move(*test));
  }

  /// Sets the tolerated bias of all gradients to infinity if the logarithm of any gradient fluctuates by
  /// largest_fluctuation or more, as this affects the gradients before and after it. The fluctuation is the maximum of
  /// the variance over seeds and the variance of a mean over H attention patterns, derived from the prediction's error.
  /// The latter detects means dominated by rare patterns, which few seeds sample.
  void withdraw_bounds() {
    const double patterns = static_cast<double>(prediction_.backward_samples) / c_.spec.model.heads;
    double largest = 0.0;
    for (const Test& test : tests_) {
      if (test.statistic != Statistic::log_grad_sq) continue;
      const double over_heads = patterns * test.predicted.error * test.predicted.error;
      const double fluctuation = std::max(variance(test), over_heads);
      largest = std::max(largest, std::isnan(fluctuation) ? std::numeric_limits<double>::infinity() : fluctuation);
    }
    if (largest < largest_fluctuation) return;
    for (Test& test : tests_) {
      if (!is_gradient(test.statistic) || !(test.tolerated_bias > 0.0)) continue;
      test.tolerated_bias = std::numeric_limits<double>::infinity();
      test.fluctuation = largest;
    }
  }

  const Comparison& c_;
  const config::AgreementOptions& options_;
  const Profile& measured_;
  const theory::Prediction& prediction_;
  WidthBias bias_;
  std::vector<Test> tests_;
};

/// Returns a message for the first scale whose square under- or overflows, which theory would treat as 0 or inf; or "".
std::string unusable_scale(const StackSpec& spec) {
  std::string reason;
  const auto check = [&](double scale, const std::string& name) {
    if (!reason.empty() || scale == 0.0 || std::isnormal(scale * scale)) return;
    reason = fmt::format("{} = {:.2g}: its square is too {} for f64", name, scale,
                         std::abs(scale) < 1.0 ? "small" : "large");
  };
  const ModelSpec& m = spec.model;
  check(m.gamma, "model.gamma");
  for (int s = 0; s < m.steps(); ++s) {
    const Step step = m.step(s);
    for (const Branch& branch : step.branches) {
      for (std::size_t i = 0; i < step.mixing.size(); ++i) {
        check(step.mixing[i][i], fmt::format("alpha of sublayer {}", branch.sublayer));
        check(branch.writes[i], fmt::format("beta of sublayer {}", branch.sublayer));
      }
    }
  }
  for (int layer = 0; layer < m.layers; ++layer) {
    for (const Weight weight : layer_matrices) {
      if (weight == Weight::attention_gate && m.gates_at(layer) == 0) continue;
      check(stddev_of(spec, layer, weight), fmt::format("the standard deviation of {}", name_of(weight)));
    }
  }
  return reason;
}

/// Formats increasing numbers with consecutive ones as ranges: "0-2, 7".
std::string index_list(const std::vector<std::size_t>& entries) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < entries.size();) {
    std::size_t end = i;
    while (end + 1 < entries.size() && entries[end + 1] == entries[end] + 1) ++end;
    words.push_back(end == i ? fmt::format("{}", entries[i]) : fmt::format("{}-{}", entries[i], entries[end]));
    i = end + 1;
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

std::vector<std::string> imprecise_names(const theory::Prediction& prediction) {
  std::vector<std::string> names;
  for (const auto& [key, curve] : prediction.profile.curves) {
    const auto& [statistic, place] = key;
    if (!has_gradient_tolerance(statistic)) continue;
    std::vector<std::size_t> entries;
    for (std::size_t i = 0; i < curve.value.size(); ++i) {
      if (!std::isnan(curve.value[i]) && !theory::is_precise(prediction, statistic, curve, i)) entries.push_back(i);
    }
    if (entries.empty()) continue;
    names.push_back(fmt::format("{} {}[{}]", name_of(statistic), name_of(place), index_list(entries)));
  }
  return names;
}

Profile compared_part(const Profile& profile) {
  Profile part;
  for (const auto& [statistic, signal] : compared_curves) {
    if (const Curve* curve = profile.find(statistic, signal)) part.curves[{statistic, signal}] = *curve;
  }
  std::ranges::copy_if(profile.curves, std::inserter(part.curves, part.curves.end()), [](const auto& entry) {
    return entry.first.first == Statistic::log_grad_sq && std::holds_alternative<Weight>(entry.first.second);
  });
  return part;
}

double limit_of(const config::PowerLimits& limits, Statistic statistic) {
  switch (statistic) {
    case Statistic::variance: return limits.variance;
    case Statistic::token_cosine: return limits.token_cosine;
    case Statistic::grad_sq:
    case Statistic::log_grad_sq: return limits.log_grad_sq;
    case Statistic::score_share: return limits.score_share;
    default: return limits.second_moment;
  }
}

std::vector<Test> stack_tests(const Comparison& comparison, const config::AgreementOptions& options) {
  return Collector(comparison, options).take();
}

std::string out_of_range(const StackSpec& spec, const Profile& predicted, DType dtype) {
  if (std::string reason = unusable_scale(spec); !reason.empty()) return reason;
  // Limits on second moments, with a margin. Entries range from 6e-8 to 65504 in f16, and from 1e-38 to 3e38 in f32 and
  // bf16. Squared deviations of second moments over seeds must fit f64.
  const double largest = dtype == DType::f64 ? 1e140 : dtype == DType::f16 ? 1e7 : 1e70;
  for (const Signal signal : {Signal::A_out, Signal::f_out, Signal::x_out}) {
    const Curve* curve = predicted.find(Statistic::second_moment, signal);
    if (curve == nullptr) continue;
    for (std::size_t i = 0; i < curve->value.size(); ++i) {
      const double value = curve->value[i];
      const bool small = value > 0.0 && value < 1.0 / largest;
      if (!small && !(value > largest)) continue;
      return fmt::format("predicted second_moment {}[{}] = {:.2g}: too {} for {}", name_of(signal), i, value,
                         small ? "small" : "large", name_of(dtype));
    }
  }
  return {};
}

}  // namespace periscope::judge
