#include "sim/measure/growth_probe.h"

#include <cmath>
#include <limits>

namespace periscope {
double growth_rounding(double unit_roundoff, Tensor::Index width) {
  const double stored = roundings(3.0, unit_roundoff);
  return 2.0 * stored + stored * stored + 4.0 * roundings(static_cast<double>(width) + 8.0, fp64.unit_roundoff());
}

void GrowthProbe::on_signal(const Emission& at, const Tensor& x) {
  if (at.pass != Pass::forward) return;
  if (at.signal == Signal::x_in) {
    stream_ = x;
    current_.stream = record_.measure(x, {.squares = true});
  }
  if (at.signal == Signal::B_out) {
    current_.branch = record_.measure(x, {.squares = true});
    current_.product = record_.measure(stream_, {.dots_with = x});
  }
  if (at.signal != Signal::sum || at.part > 0 || !context_.model.step(at.sublayer).is_one_addition()) return;
  const StatisticsRecord::Slot sum = record_.measure(x, {.squares = true});
  sublayers_.push_back(
      {at.sublayer, x.dtype(), x.rows(), x.cols(), current_.stream, current_.branch, current_.product, sum});
}

std::vector<Growth> GrowthProbe::take() {
  record_.fetch();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const Growth unknown{.stream = nan, .branch = nan, .cross = nan, .sum = nan, .residual = nan};
  std::vector<Growth> all(static_cast<std::size_t>(context_.model.sublayers()), unknown);
  for (const Sums& sums : sublayers_) all[static_cast<std::size_t>(sums.sublayer)] = growth(sums);
  return all;
}

Growth GrowthProbe::growth(const Sums& sums) const {
  const SublayerRule rule = context_.model.rule(sums.sublayer);
  const std::vector<double>& xx = record_[sums.stream].squares;
  const std::vector<double>& bb = record_[sums.branch].squares;
  const std::vector<double>& xb = record_[sums.product].dots;
  const std::vector<double>& ss = record_[sums.sum].squares;
  const auto entries = static_cast<double>(sums.width) * static_cast<double>(sums.rows);
  const double rounding = growth_rounding(format_of(sums.dtype).unit_roundoff(), sums.width);
  Growth g{};
  for (std::size_t t = 0; t < ss.size(); ++t) {
    const double stream = rule.alpha * rule.alpha * xx[t];
    const double branch = rule.beta * rule.beta * bb[t];
    const double cross = 2.0 * rule.alpha * rule.beta * xb[t];
    g.stream += stream / entries;
    g.branch += branch / entries;
    g.cross += cross / entries;
    g.sum += ss[t] / entries;
    const double reach = std::sqrt(stream) + std::sqrt(branch);
    const double off = std::abs(ss[t] - (stream + branch + cross));
    const double units = off == 0.0 ? 0.0 : off / (rounding * reach * reach);
    if (std::isnan(units) || units > g.residual) g.residual = units;
    if (std::isnan(g.residual)) break;
  }
  if (!std::isfinite(g.sum)) g.residual = std::numeric_limits<double>::quiet_NaN();
  return g;
}

std::vector<double> branch_size_from_gains(const StackContext& c) {
  const auto mean_square = [&](const Tensor& x) {
    return x.empty() ? 0.0 : c.ops.row_moments(x)[Statistic::second_moment].front();
  };
  std::vector<double> sizes;
  for (int l = 0; l < c.model.sublayers(); ++l) {
    const SublayerRule rule = c.model.rule(l);
    if (!rule.norm_b || is_pointwise(c.model.norm)) {
      sizes.push_back(std::numeric_limits<double>::quiet_NaN());
      continue;
    }
    const NormWeights w = c.weights.fetch(l).norm(Weight::norm_b);
    const double features = c.model.width / formula_of(c.model.norm).count(c.model.width);  // L2: of length 1
    sizes.push_back(rule.beta * rule.beta * (mean_square(w.gain) / features + mean_square(w.bias)));
  }
  return sizes;
}

}  // namespace periscope
