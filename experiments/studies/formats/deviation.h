#pragma once

#include <array>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/base/enumerators.h"
#include "sim/core/backend.h"
#include "sim/model/hooks.h"
#include "sim/spec/model_spec.h"

/// The differences of a pass in a format from the same pass in f64, signal by signal.
namespace periscope::formats {

/// A measure of a signal x next to its value r in f64. Sums are over tokens and features, in double.
enum class Measure {
  sqnr,                 ///< 10 log10(Σr²/Σ(x−r)²), in dB; infinite where nothing differs
  second_moment,        ///< of x: mean of x²
  variance,             ///< of x: population variance over features, mean over tokens
  maximum,              ///< of x: largest |x|
  underflow,            ///< share of entries with r ≠ 0 and x = 0
  overflow,             ///< share of entries that are not finite
  second_moment_drift,  ///< that of x over that of r, minus 1
  variance_drift,       ///< likewise
};
inline constexpr std::array<std::string_view, 8> measure_names{
    "sqnr", "second_moment", "variance", "maximum", "underflow", "overflow", "second_moment_drift", "variance_drift"};
static_assert(are_names_of<Measure>(measure_names));

/// A signal, or its gradient (Pass::backward).
struct Site {
  Pass pass = Pass::forward;
  Signal signal = Signal::x_out;

  auto operator<=>(const Site&) const = default;
};
inline constexpr Site stream_site{Pass::forward, Signal::x_out};
inline auto parts(Site& s) { return std::tie(s.pass, s.signal); }

/// What is compared of a stack: signals that are tensors of their own.
std::vector<Site> compared_sites(const ModelSpec& model, bool backward);

/// Places of a site: sublayer + 1, from what is before the first sublayer to what is after the last.
[[nodiscard]] inline std::size_t places_of(const ModelSpec& model) {
  return static_cast<std::size_t>(model.sublayers()) + 2;
}

/// Numbers by site and measure, at every place.
template <class T>
using BySite = std::map<std::pair<Site, Measure>, std::vector<T>>;

/// The first signal that was not finite, in the order of a pass.
struct FirstOverflow {
  bool found = false;
  int sublayer = 0;
  Signal signal = Signal::x_out;
};

/// Keeps the compared signals of a pass in f64, on the host.
class TruthKeeper final : public SignalRecorder {
 public:
  TruthKeeper(const Backend& ops, const ModelSpec& model, bool backward);
  void on_signal(const Emission& at, const Tensor& x) override;
  /// Empty if it did not arise.
  [[nodiscard]] const std::vector<double>& at(const Site& site, int sublayer) const;

 private:
  const Backend& ops_;
  std::vector<Site> sites_;
  std::map<std::pair<Site, int>, std::vector<double>> kept_;
};

/// The measurement of one pass.
struct PassReading {
  BySite<double> numbers;         ///< NaN at places without the signal
  std::vector<double> predicted;  ///< SQNR of the stream by depth (T27), in dB; empty without gradients, and for f64
  FirstOverflow forward, backward;
};

/// Reads a pass beside `truth`, of the same model, weights and input. Gradients are divided by `loss_scale` first.
class DeviationProbe final : public SignalRecorder {
 public:
  /// All outlive this.
  DeviationProbe(const Backend& ops, const ModelSpec& model, bool backward, const TruthKeeper& truth,
                 double loss_scale);
  void on_signal(const Emission& at, const Tensor& x) override;
  /// Returns the measurement. Call once, after the pass.
  PassReading take() { return std::move(reading_); }

 private:
  const Backend& ops_;
  const TruthKeeper& truth_;
  double loss_scale_;
  PassReading reading_;
};

/// Every measure of x beside r, both [rows, cols], in the order of Measure.
std::array<double, measure_names.size()> measures_of(const std::vector<double>& x, const std::vector<double>& r,
                                                     std::size_t cols);

}  // namespace periscope::formats
