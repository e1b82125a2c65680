#pragma once

#include <array>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "experiments/studies/formats/product_noise.h"
#include "sim/base/enumerators.h"
#include "sim/core/backend.h"
#include "sim/model/hooks.h"
#include "sim/spec/model_spec.h"

/// Differences between a pass in a number format and the same pass in f64, by signal.
namespace periscope::formats {

/// A measure of a signal x compared with its value r in f64. Sums are over tokens and features, in double.
enum class Measure { sqnr, second_moment, variance, maximum, underflow, overflow, second_moment_drift, variance_drift };
struct MeasureFacts {
  std::string_view name;
  const char *units, *meaning;
};
inline constexpr std::array<MeasureFacts, 8> measure_facts{
    {{"sqnr", "dB", "signal-to-quantisation-noise ratio 10 log10(sum r^2 / sum (x - r)^2), r being the value in f64"},
     {"second_moment", "1", "mean of x^2"},
     {"variance", "1", "population variance over features, mean over tokens"},
     {"maximum", "1", "largest |x|"},
     {"underflow", "1", "share of entries that are 0 in the format and not in f64"},
     {"overflow", "1", "share of entries that are not finite"},
     {"second_moment_drift", "1", "mean of x^2 over its value in f64, minus 1, per seed"},
     {"variance_drift", "1", "variance over its value in f64, minus 1, per seed"}}};
static_assert(!enumerators_supported || measure_facts.size() == identifiers<Measure>.size());

/// A signal, or its gradient (Pass::backward).
struct Site {
  Pass pass = Pass::forward;
  Signal signal = Signal::x_out;

  auto operator<=>(const Site&) const = default;
};
inline constexpr Site stream_site{Pass::forward, Signal::x_out};
inline auto parts(Site& s) { return std::tie(s.pass, s.signal); }

/// Returns the number of places of a site. Place = sublayer + 1, from before the first sublayer to after the last.
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

/// The measurement of one pass.
struct PassReading {
  BySite<double> numbers;         ///< NaN at places without the signal
  std::vector<double> predicted;  ///< SQNR of the stream by depth (T27), in dB; empty without gradients, and for f64
  ByProduct<double> products;     ///< empty for f64
  std::vector<double> layer_gradients;  ///< GradientNoise::of_layers
  FirstOverflow forward, backward;
};

/// Compares a pass with a pass in f64 that has the same model, weights and input.
class DeviationProbe final : public SignalRecorder {
 public:
  /// `exact` has recorded the pass in f64. If it is null, this object records that pass and stores its signals.
  /// Gradients are divided by `loss_scale` first. All arguments must outlive this object.
  DeviationProbe(const Backend& ops, const ModelSpec& model, const DeviationProbe* exact = nullptr,
                 double loss_scale = 1.0)
      : ops_(ops), model_(model), exact_(exact), loss_scale_(loss_scale) {}
  void on_signal(const Emission& at, const Tensor& x) override;
  /// Returns the measurement. Call once, after the pass.
  PassReading take() { return std::move(reading_); }
  /// Returns a signal of the pass in f64; empty if it was not emitted or is not compared.
  [[nodiscard]] const std::vector<double>& at(const Site& site, int sublayer) const;

 private:
  const Backend& ops_;
  const ModelSpec& model_;
  const DeviationProbe* exact_;
  double loss_scale_;
  PassReading reading_;
  std::map<std::pair<Site, int>, std::vector<double>> stored_;
};

/// Returns every measure of x compared with r, both [rows, cols], in the order of Measure.
std::array<double, measure_facts.size()> measures_of(const std::vector<double>& x, const std::vector<double>& r,
                                                     std::size_t cols);

}  // namespace periscope::formats
