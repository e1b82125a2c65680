#include "sim/measure/extremes_probe.h"

#include <cmath>
#include <limits>

namespace periscope {

bool is_massive(const Entry& entry, double median) {
  return !(std::abs(entry.value) <= 100.0) && !(std::abs(entry.value) < 1000.0 * median);
}

void ExtremesProbe::on_signal(const Emission& at, const Tensor& x) {
  if (at.pass != Pass::forward) return;
  switch (at.signal) {
    case Signal::x_out: return record(at.sublayer + 1, x);
    case Signal::q:
    case Signal::k:
    case Signal::v:
    case Signal::mixed:
    case Signal::gate:
    case Signal::up:
    case Signal::hidden: return record_inside(at.sublayer, at.signal, x);
    default: return;
  }
}

void ExtremesProbe::record_inside(int sublayer, Signal place, const Tensor& x) {
  std::vector<double>& maxima = inside_[place];
  maxima.resize(static_cast<std::size_t>(context_.model.sublayers()), std::numeric_limits<double>::quiet_NaN());
  maxima[static_cast<std::size_t>(sublayer)] = context_.ops.top_magnitudes(x, 1).front();
}

void ExtremesProbe::record(int depth, const Tensor& x) {
  depths_.resize(static_cast<std::size_t>(context_.model.sublayers()) + 1);
  depths_[static_cast<std::size_t>(depth)] = {context_.ops.top_entries(x, count_), context_.ops.median_magnitude(x)};
}

}  // namespace periscope
