#include "experiments/studies/formats/deviation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/numerics/larger.h"

namespace periscope::formats {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// One token x next to its value r in f64: Σ over features.
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

}  // namespace

std::vector<Site> compared_sites(const ModelSpec& model, bool backward) {
  const SublayerRule first = model.rule(0);
  const SublayerRule last = model.rule(model.sublayers() - 1);
  bool gates = false;
  bool normed = false;
  for (int l = 0; l < model.sublayers(); ++l) {
    gates = gates || model.gates_at(ModelSpec::layer_of(l)) > 0;
    normed = normed || model.inner_norm_at(l);
  }
  std::vector<Site> sites;
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    if (pass == Pass::backward && !backward) continue;
    const auto add = [&](Signal signal, bool there = true) {
      if (there) sites.push_back({pass, signal});
    };
    for (const Signal s : {Signal::A_out, Signal::q, Signal::k, Signal::v, Signal::mixed}) add(s);
    add(Signal::attention_gate, gates);
    add(Signal::gated_mixed, gates);
    add(Signal::gate, is_gated(model.mlp));
    for (const Signal s : {Signal::up, Signal::hidden}) add(s);
    add(Signal::inner, normed);
    add(Signal::f_out);
    add(Signal::B_out, first.norm_b || last.norm_b);
    add(Signal::x_out);
    add(Signal::r_out, model.ends().has(Signal::r_out));
    for (const Signal s : {Signal::output, Signal::logits}) add(s);
  }
  return sites;
}

std::array<double, measure_names.size()> measures_of(const std::vector<double>& x, const std::vector<double>& r,
                                                     std::size_t cols) {
  const auto entries = static_cast<double>(x.size());
  const auto tokens = static_cast<double>(x.size() / cols);
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
  return {10.0 * std::log10(all.rr / all.noise),
          all.xx / entries,
          all.variance / tokens,
          maximum,
          static_cast<double>(lost) / entries,
          static_cast<double>(bad) / entries,
          (all.xx / entries) / (all.rr / entries) - 1.0,
          (all.variance / tokens) / (all.exact_variance / tokens) - 1.0};
}

TruthKeeper::TruthKeeper(const Backend& ops, const ModelSpec& model, bool backward)
    : ops_(ops), sites_(compared_sites(model, backward)) {}

void TruthKeeper::on_signal(const Emission& at, const Tensor& x) {
  const Site site{at.pass, at.signal};
  if (std::ranges::find(sites_, site) != sites_.end()) kept_[{site, at.sublayer}] = ops_.to_host(x);
}

const std::vector<double>& TruthKeeper::at(const Site& site, int sublayer) const {
  static const std::vector<double> none;
  const auto it = kept_.find({site, sublayer});
  return it == kept_.end() ? none : it->second;
}

DeviationProbe::DeviationProbe(const Backend& ops, const ModelSpec& model, bool backward, const TruthKeeper& truth,
                               double loss_scale)
    : ops_(ops), truth_(truth), loss_scale_(loss_scale) {
  for (const Site& site : compared_sites(model, backward)) {
    for (std::size_t m = 0; m < measure_names.size(); ++m) {
      reading_.numbers[{site, static_cast<Measure>(m)}].assign(places_of(model), nan);
    }
  }
}

void DeviationProbe::on_signal(const Emission& at, const Tensor& x) {
  std::vector<double> values = ops_.to_host(x);
  FirstOverflow& first = at.pass == Pass::backward ? reading_.backward : reading_.forward;
  if (!first.found && !std::ranges::all_of(values, [](double v) { return std::isfinite(v); })) {
    first = {true, at.sublayer, at.signal};
  }
  const Site site{at.pass, at.signal};
  if (!reading_.numbers.contains({site, Measure::sqnr})) return;
  if (at.pass == Pass::backward && loss_scale_ != 1.0) {
    for (double& v : values) v /= loss_scale_;
  }
  const auto measured = measures_of(values, truth_.at(site, at.sublayer), static_cast<std::size_t>(x.cols()));
  for (std::size_t m = 0; m < measured.size(); ++m) {
    reading_.numbers.at({site, static_cast<Measure>(m)})[static_cast<std::size_t>(at.sublayer + 1)] = measured[m];
  }
}

}  // namespace periscope::formats
