#include "experiments/engine/judge/compared_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "experiments/engine/judge/agreement.h"
#include "experiments/engine/judge/gradient_allowance.h"
#include "experiments/engine/judge/gradient_floor.h"
#include "sim/numerics/allowances.h"

namespace periscope::judge {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Below this the squared deviations over seeds of a squared gradient underflow, and its standard error with them.
constexpr double unresolved_square = 1e-140;

/// An imprecise prediction of a forward statistic counts in the cell's error, as it does of a square that stands in for
/// its logarithm; other gradients promise more.
bool promises_precision(Statistic statistic) { return is_gradient(statistic) && statistic != Statistic::grad_sq; }

/// Collects the cells of one comparison.
class Collector {
 public:
  Collector(const Comparison& comparison, const config::AgreementOptions& options)
      : c_(comparison), options_(options), prediction_(comparison.prediction) {}

  std::vector<Cell> take() {
    for (const auto& [statistic, signal] : compared_curves) {
      if (statistic == Statistic::log_grad_sq) {
        stream_gradient();
      } else if (statistic == Statistic::score_share) {
        score_share();
      } else {
        add_signal(statistic, signal);
      }
    }
    for (const auto& entry : c_.measured.weight_curves) {
      if (entry.first.first == Statistic::log_grad_sq) weight_gradient(entry.first.second);
    }
    withdraw_allowances();
    return std::move(cells_);
  }

 private:
  /// The numbers of entry i of a curve, or nothing where there is nothing to compare: neither side has a number, as of
  /// the token cosine of one token or an MLP's score path. A measured number that theory has none for is a cell, whose
  /// prediction is NaN: no verdict may pass over it (verdict_power.h).
  template <class Place>
  [[nodiscard]] std::optional<Cell> entry(Statistic statistic, Place place, std::size_t i) const {
    const Curve* measured = c_.measured.find(statistic, place);
    if (measured == nullptr || i >= measured->value.size()) return {};
    const Curve* predicted = prediction_.profile.find(statistic, place);
    const bool known = predicted != nullptr && i < predicted->value.size();
    Cell cell{.statistic = statistic,
              .index = static_cast<int>(i),
              .measured = measured->value[i],
              .measured_error = measured->standard_error[i],
              .predicted = known ? predicted->value[i] : nan,
              .predicted_error = known ? predicted->standard_error[i] : nan,
              .seeds = c_.seeds,
              .replicates = prediction_.replicates,
              .precise = known &&
                         (!promises_precision(statistic) || theory::is_precise(prediction_, statistic, *predicted, i))};
    if (std::isnan(cell.predicted)) {
      if (std::isnan(cell.measured)) return {};
      cell.scale = nan;  // without a scale a cell has no power
    }
    if constexpr (std::is_same_v<Place, Weight>) {
      cell.weight = place;
    } else {
      cell.signal = place;
    }
    return cell;
  }
  template <class Place>
  [[nodiscard]] std::size_t length(Statistic statistic, Place place) const {
    const Curve* measured = c_.measured.find(statistic, place);
    return measured == nullptr ? 0 : measured->value.size();
  }

  void add_signal(Statistic statistic, Signal signal) {
    const bool cosine = statistic == Statistic::token_cosine;
    const bool module = signal == Signal::f_out;
    for (std::size_t i = 0; i < length(statistic, signal); ++i) {
      std::optional<Cell> cell = entry(statistic, signal, i);
      if (!cell) continue;
      if (std::isnan(cell->predicted)) {
        cells_.push_back(*cell);
        continue;
      }
      cell->scale = cosine ? 1.0 : std::abs(cell->predicted);
      if (prediction_.exact_at_width_for(statistic, signal)) {
        cell->allowance = (pass_allowance(format_of(c_.dtype)) + c_.rounding) * cell->scale;
        cell->replicates = prediction_.finite_width_replicates;
        cell->replicates_given = prediction_.replicates_given;
        cell->spread = prediction_.spread.find(statistic, signal)->value.at(i);
        cell->spread_degrees = std::isfinite(cell->spread) ? prediction_.finite_width_degrees : 0;
        cells_.push_back(*cell);
        continue;
      }
      // What attention puts out is an average of values: its size is their overlap, a cosine.
      const bool of_attention = module && ModelSpec::is_attention(static_cast<int>(i));
      const double constant = cosine || of_attention ? options_.finite_width_cosine : options_.finite_width;
      // The input has met no attention yet. That cosines are ratios biases them by first order in 1/D already there.
      const std::size_t behind = module ? before(i) + 1 : i;
      const double overlaps = behind > 0 ? signal_overlap_term(c_.spec, behind, of_attention) : 0.0;
      const double least = cosine ? 1.0 / c_.spec.model.width : 0.0;
      const double by_width = std::max(prediction_.finite_width.at(behind), least);
      const double term = constant * (by_width + overlaps);
      cell->allowance =
          ((cosine ? term : compounded(c_.spec, term)) + pass_allowance(format_of(c_.dtype)) + c_.rounding) *
          cell->scale;
      cells_.push_back(*cell);
    }
  }

  [[nodiscard]] double finite_width(std::size_t depth, bool of_attention) const {
    return options_.finite_width_gradient * gradient_width_term(c_.spec, prediction_.finite_width, depth, of_attention);
  }
  /// The depth at which a sublayer reads the stream.
  [[nodiscard]] std::size_t before(std::size_t sublayer) const {
    return static_cast<std::size_t>(c_.spec.model.step_with(static_cast<int>(sublayer)));
  }
  /// That of a layer's first sublayer.
  [[nodiscard]] std::size_t before_layer(std::size_t layer) const { return before(2 * layer); }
  [[nodiscard]] double variance(const Cell& cell) const { return c_.seeds * cell.measured_error * cell.measured_error; }

  /// One gradient: by its logarithm, or as it is where that is not known to a tenth for rounding.
  template <class Place>
  void gradient(Place place, std::size_t i, double width_term, const GradientFloor& floor) {
    std::optional<Cell> plain = entry(Statistic::grad_sq, place, i);
    std::optional<Cell> log = entry(Statistic::log_grad_sq, place, i);
    if (plain && std::isnan(plain->predicted)) cells_.push_back(*plain);
    if (!plain || !log || std::isnan(plain->predicted)) return;
    const double t = std::max(0.0, plain->predicted);
    // |g + e|² with |e|² ≤ floor.measured, and e in any direction.
    const double rounded = floor.measured + 2.0 * std::sqrt(floor.measured * t) + floor.predicted;
    const bool resolved = t > 0.0 && rounded < 0.1 * t;
    if (resolved && std::isfinite(log->measured) && std::isfinite(log->predicted)) {
      log->allowance = width_term + variance(*log) / 2.0 + rounded / t + pass_allowance(format_of(c_.dtype));
      cells_.push_back(*log);
      return;
    }
    plain->scale = std::max(t, floor.size);
    // What the logarithm may differ by, as a factor on the square.
    const double half_variance = std::isfinite(variance(*log)) ? variance(*log) / 2.0 : 0.0;
    const double by_width = t == 0.0 ? 0.0 : t * std::expm1(width_term + half_variance);
    plain->allowance = t == 0.0 && plain->measured == 0.0 ? 0.0 : rounded + unresolved_square + by_width;
    if (std::isnan(plain->predicted_error)) plain->predicted_error = 0.0;
    cells_.push_back(*plain);
  }

  void stream_gradient() {
    const GradientFloor floor = stream_floor(c_.spec, c_.dtype);
    for (std::size_t i = 0; i < length(Statistic::log_grad_sq, Signal::x_out); ++i) {
      gradient(Signal::x_out, i, finite_width(i, false), floor);
    }
  }

  void weight_gradient(Weight weight) {
    for (std::size_t i = 0; i < length(Statistic::log_grad_sq, weight); ++i) {
      const auto layer = static_cast<int>(i);
      gradient(weight, i, finite_width(before_layer(i), is_of_attention(weight)),
               gradient_floor(c_.spec, c_.measured, c_.dtype, weight, layer));
    }
  }

  /// A share p = S/(S+V): the logarithm of S/V has a gradient's allowances, and dp = p(1−p) d log(S/V).
  void score_share() {
    for (std::size_t l = 0; l < length(Statistic::score_share, Signal::A_out); ++l) {
      std::optional<Cell> cell = entry(Statistic::score_share, Signal::A_out, l);
      // If no gradient reaches the module's output, the share is 0/0 and there is no cell.
      const Curve* arrives = c_.measured.find(Statistic::grad_sq, Signal::f_out);
      if (!cell || (arrives != nullptr && arrives->value.at(l) == 0.0)) continue;
      if (std::isnan(cell->predicted)) {
        cells_.push_back(*cell);
        continue;
      }
      const double derivative = cell->predicted * (1.0 - cell->predicted);
      const double curvature = derivative > 0.0 ? variance(*cell) / (2.0 * derivative) : 0.0;
      cell->allowance = derivative * finite_width(before(l), true) + std::min(curvature, 1.0) + share_floor +
                        pass_allowance(format_of(c_.dtype));
      cells_.push_back(*cell);
    }
  }

  /// Sets every allowance of a gradient of the stack to infinity if the logarithm of any of them fluctuates by
  /// largest_fluctuation or more, because then no gradient below or above it is known. The fluctuation is the larger of
  /// the variance over seeds and the variance of a mean of H patterns, which follows from the prediction's error and
  /// its number of patterns. (A mean that rests on rare patterns is seen by few seeds.)
  void withdraw_allowances() {
    const double patterns = static_cast<double>(prediction_.backward_samples) / c_.spec.model.heads;
    double largest = 0.0;
    for (const Cell& cell : cells_) {
      if (cell.statistic != Statistic::log_grad_sq) continue;
      const double over_heads = patterns * cell.predicted_error * cell.predicted_error;
      const double fluctuation = std::max(variance(cell), over_heads);
      largest = std::max(largest, std::isnan(fluctuation) ? std::numeric_limits<double>::infinity() : fluctuation);
    }
    if (largest < largest_fluctuation) return;
    for (Cell& cell : cells_) {
      if (!is_gradient(cell.statistic) || !(cell.allowance > 0.0)) continue;
      cell.allowance = std::numeric_limits<double>::infinity();
      cell.fluctuation = largest;
    }
  }

  const Comparison& c_;
  const config::AgreementOptions& options_;
  const theory::Prediction& prediction_;
  std::vector<Cell> cells_;
};

/// Theory multiplies squares of these: one that underflows makes an exact zero of what is small, silently.
std::string unusable_scale(const StackSpec& spec) {
  const auto unusable = [](double scale) { return scale != 0.0 && !std::isnormal(scale * scale); };
  const auto reason = [](const std::string& name, double scale) {
    return fmt::format("{} is {:.2g}: its square is too {} for f64", name, scale,
                       std::abs(scale) < 1.0 ? "small" : "large");
  };
  const ModelSpec& m = spec.model;
  if (unusable(m.gamma)) return reason("model.gamma", m.gamma);
  for (int s = 0; s < m.steps(); ++s) {
    const Step step = m.step(s);
    for (const Branch& branch : step.branches) {
      for (std::size_t i = 0; i < step.mixing.size(); ++i) {
        const double alpha = step.mixing[i][i];
        if (unusable(alpha)) return reason(fmt::format("alpha of sublayer {}", branch.sublayer), alpha);
        const double beta = branch.writes[i];
        if (unusable(beta)) return reason(fmt::format("beta of sublayer {}", branch.sublayer), beta);
      }
    }
  }
  for (int layer = 0; layer < m.layers; ++layer) {
    for (const Weight weight : layer_matrices) {
      if (weight == Weight::attention_gate && m.gates_at(layer) == 0) continue;
      const double std = stddev_of(spec, layer, weight);
      if (unusable(std)) return reason(fmt::format("the standard deviation of {}", name_of(weight)), std);
    }
  }
  return {};
}

}  // namespace

std::vector<Cell> compared_cells(const Comparison& comparison, const config::AgreementOptions& options) {
  return Collector(comparison, options).take();
}

std::string out_of_range(const StackSpec& spec, const Profile& predicted, DType dtype) {
  if (std::string reason = unusable_scale(spec); !reason.empty()) return reason;
  // Beyond these second moments entries underflow or overflow (f16 holds numbers from 6e-8 to 65504), or squares do: in
  // f32 and bf16 those of entries, in f64 those of its deviations over seeds.
  const double largest = dtype == DType::f64 ? 1e140 : dtype == DType::f16 ? 1e7 : 1e70;
  for (const Signal signal : {Signal::A_out, Signal::f_out, Signal::x_out}) {
    const Curve* curve = predicted.find(Statistic::second_moment, signal);
    if (curve == nullptr) continue;
    for (std::size_t i = 0; i < curve->value.size(); ++i) {
      const double value = curve->value[i];
      const bool small = value > 0.0 && value < 1.0 / largest;
      if (!small && !(value > largest)) continue;
      return fmt::format("second_moment {}[{}] is predicted to be {:.2g}: too {} for {}", name_of(signal), i, value,
                         small ? "small" : "large", name_of(dtype));
    }
  }
  return {};
}

void SeedCurves::add(const Profile& profile) {
  for (const auto& [statistic, signal] : compared_curves) {
    if (const Curve* curve = profile.find(statistic, signal)) curves_[{statistic, signal}].push_back(curve->value);
  }
  for (const auto& [key, curve] : profile.weight_curves) {
    if (key.first == Statistic::log_grad_sq) weight_curves_[key].push_back(curve.value);
  }
}

const SeedCurves::Rows* SeedCurves::find(Statistic statistic, Signal signal) const {
  const auto it = curves_.find({statistic, signal});
  return it == curves_.end() ? nullptr : &it->second;
}

const SeedCurves::Rows* SeedCurves::find(Statistic statistic, Weight weight) const {
  const auto it = weight_curves_.find({statistic, weight});
  return it == weight_curves_.end() ? nullptr : &it->second;
}

}  // namespace periscope::judge
