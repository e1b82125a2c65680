#include "sim/measure/extremes_probe.h"

#include <cmath>
#include <limits>

namespace periscope {

bool is_massive(const Entry& entry, double median) {
  return std::abs(entry.value) > 100.0 && std::abs(entry.value) >= 1000.0 * median;
}

void ExtremesProbe::on_signal(const Emission& at, const Tensor& x) {
  if (at.pass != Pass::forward) return;
  switch (at.signal) {
    case Signal::x_out: return note(at, x, {.top_entries = count_, .median_magnitude = true});
    case Signal::q:
    case Signal::k:
    case Signal::v_projected:
    case Signal::v:
    case Signal::mixed:
    case Signal::attention_gate:
    case Signal::gated_mixed:
    case Signal::inner:
    case Signal::gate:
    case Signal::up:
    case Signal::hidden: return note(at, x, {.top_magnitudes = 1});
    default: return;
  }
}

void ExtremesProbe::note(const Emission& at, const Tensor& x, const StatisticsRequest& request) {
  places_.push_back({at.sublayer, at.signal, record_.measure(x, request)});
}

Extremes ExtremesProbe::take() {
  record_.fetch();
  const auto sublayers = static_cast<std::size_t>(context_.model.sublayers());
  Extremes e;
  e.depths.resize(static_cast<std::size_t>(context_.model.steps()) + 1);
  for (const Place& place : places_) {
    const SignalStatistics& s = record_[place.slot];
    if (place.signal == Signal::x_out) {
      e.depths[static_cast<std::size_t>(place.sublayer + 1)] = {s.top_entries, s.median_magnitude};
      continue;
    }
    std::vector<double>& maxima = e.inside[place.signal];
    maxima.resize(sublayers, std::numeric_limits<double>::quiet_NaN());
    maxima[static_cast<std::size_t>(place.sublayer)] = s.top_magnitudes.front();
  }
  return e;
}

}  // namespace periscope
