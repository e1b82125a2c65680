#include "sim/measure/extremes_probe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace periscope {

bool is_massive(const Entry& entry, double median) {
  return std::abs(entry.value) > 100.0 && std::abs(entry.value) >= 1000.0 * median;
}

void ExtremesProbe::on_signal(const Emission& at, const Tensor& x) {
  constexpr std::array inside{Signal::q,     Signal::k,     Signal::v_projected,    Signal::v,
                              Signal::mixed, Signal::inner, Signal::attention_gate, Signal::gated_mixed,
                              Signal::gate,  Signal::up,    Signal::hidden};
  const bool is_inside = std::ranges::find(inside, at.signal) != inside.end();
  const bool is_score = at.signal == Signal::scores;
  if (at.pass != Pass::forward || (at.signal != Signal::x_out && !is_inside && !is_score)) return;
  const StatisticsRequest request = is_inside  ? StatisticsRequest{.top_magnitudes = 1}
                                    : is_score ? StatisticsRequest{.column_maxima = true}
                                               : StatisticsRequest{.top_entries = count_, .median_magnitude = true};
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
    if (place.signal == Signal::scores) {
      const std::size_t heads = s.column_maxima.size();
      e.scores.resize(sublayers / 2 * heads, std::numeric_limits<double>::quiet_NaN());
      std::ranges::copy(s.column_maxima, e.scores.begin() + place.sublayer / 2 * static_cast<std::ptrdiff_t>(heads));
      continue;
    }
    std::vector<double>& maxima = e.inside[place.signal];
    maxima.resize(sublayers, std::numeric_limits<double>::quiet_NaN());
    maxima[static_cast<std::size_t>(place.sublayer)] = s.top_magnitudes.front();
  }
  return e;
}

}  // namespace periscope
