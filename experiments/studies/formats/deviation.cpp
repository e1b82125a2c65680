#include "experiments/studies/formats/deviation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/numerics/larger.h"

namespace periscope::formats {
namespace {

/// Sums and means over the features of one token, for the signal x and its value r in f64.
struct TokenSums {
  double xx = 0.0, rr = 0.0, noise = 0.0, mean = 0.0, exact_mean = 0.0, variance = 0.0, exact_variance = 0.0;
};

TokenSums sums_of(const double* x, const double* r, std::size_t cols) {
  TokenSums s;
  for (std::size_t i = 0; i < cols; ++i) {
    s.xx += x[i] * x[i];
    s.rr += r[i] * r[i];
    s.noise += (x[i] - r[i]) * (x[i] - r[i]);
    s.mean += x[i];
    s.exact_mean += r[i];
  }
  s.mean /= static_cast<double>(cols);
  s.exact_mean /= static_cast<double>(cols);
  for (std::size_t i = 0; i < cols; ++i) {
    s.variance += (x[i] - s.mean) * (x[i] - s.mean);
    s.exact_variance += (r[i] - s.exact_mean) * (r[i] - s.exact_mean);
  }
  s.variance /= static_cast<double>(cols);
  s.exact_variance /= static_cast<double>(cols);
  return s;
}

/// Returns whether a signal is compared. Excludes scores, incomplete tensors and tensors shared with another signal.
bool is_compared(const ModelSpec& m, Signal signal) {
  using enum Signal;
  if (signal == B_out) return m.rule(0).norm_b || m.rule(m.sublayers() - 1).norm_b;
  constexpr std::array all{A_out, q,      k,     v,     mixed, attention_gate, gated_mixed, gate,
                           up,    hidden, inner, f_out, x_out, r_out,          output,      logits};
  return std::ranges::find(all, signal) != all.end();
}

}  // namespace

std::array<double, measure_facts.size()> measures_of(const std::vector<double>& x, const std::vector<double>& r,
                                                     std::size_t cols) {
  const auto entries = static_cast<double>(x.size());
  const double tokens = entries / static_cast<double>(cols);
  TokenSums all;
  for (std::size_t row = 0; row < x.size(); row += cols) {
    const TokenSums s = sums_of(x.data() + row, r.data() + row, cols);
    all.xx += s.xx;
    all.rr += s.rr;
    all.noise += s.noise;
    all.variance += s.variance;
    all.exact_variance += s.exact_variance;
  }
  double maximum = 0.0;
  std::size_t lost = 0;
  std::size_t bad = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    maximum = larger(maximum, std::abs(x[i]));
    lost += r[i] != 0.0 && x[i] == 0.0 ? 1 : 0;
    bad += std::isfinite(x[i]) ? 0 : 1;
  }
  return {decibels(all.rr, all.noise),
          all.xx / entries,
          all.variance / tokens,
          maximum,
          static_cast<double>(lost) / entries,
          static_cast<double>(bad) / entries,
          (all.xx / entries) / (all.rr / entries) - 1.0,
          (all.variance / tokens) / (all.exact_variance / tokens) - 1.0};
}

const std::vector<double>& DeviationProbe::at(const Site& site, int sublayer) const {
  static const std::vector<double> none;
  const auto it = stored_.find({site, sublayer});
  return it == stored_.end() ? none : it->second;
}

void DeviationProbe::on_signal(const Emission& at, const Tensor& x) {
  std::vector<double> values = ops_.to_host(x);
  FirstOverflow& first = at.pass == Pass::backward ? reading_.backward : reading_.forward;
  if (!first.found && !std::ranges::all_of(values, [](double v) { return std::isfinite(v); })) {
    first = {true, at.sublayer, at.signal};
  }
  const bool compared = is_compared(model_, at.signal);
  if (!compared && at.signal != Signal::input && at.signal != Signal::embedding) return;
  if (at.pass == Pass::backward && loss_scale_ != 1.0) {
    for (double& v : values) v /= loss_scale_;
  }
  const Site site{at.pass, at.signal};
  if (exact_ == nullptr) stored_[{site, at.sublayer}] = values;
  if (!compared) return;  // stored only for the prediction of noise
  const std::vector<double>& exact = (exact_ == nullptr ? *this : *exact_).at(site, at.sublayer);
  const auto measured = measures_of(values, exact, static_cast<std::size_t>(x.cols()));
  for (std::size_t m = 0; m < measured.size(); ++m) {
    std::vector<double>& places = reading_.numbers[{site, static_cast<Measure>(m)}];
    places.resize(places_of(model_), std::numeric_limits<double>::quiet_NaN());
    places[static_cast<std::size_t>(at.sublayer + 1)] = measured[m];
  }
}

}  // namespace periscope::formats
