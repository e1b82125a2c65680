#include "sim/measure/growth_probe.h"

#include <cmath>
#include <limits>

namespace periscope {
double growth_rounding(DType dtype, Tensor::Index width) {
  const double stored = roundings(3.0, format_of(dtype).unit_roundoff());
  return 2.0 * stored + stored * stored + 4.0 * roundings(static_cast<double>(width) + 8.0, fp64.unit_roundoff());
}

void GrowthProbe::on_signal(const Emission& at, const Tensor& x) {
  if (at.pass != Pass::forward) return;
  if (at.signal == Signal::x_in) stream_ = x;
  if (at.signal == Signal::B_out) branch_ = x;
  if (at.signal != Signal::sum) return;
  sublayers_.resize(static_cast<std::size_t>(context_.model.sublayers()));
  sublayers_[static_cast<std::size_t>(at.sublayer)] = growth(context_.model.rule(at.sublayer), x);
}

Growth GrowthProbe::growth(const SublayerRule& rule, const Tensor& sum) const {
  const std::vector<double> xx = context_.ops.row_dots(stream_, stream_);
  const std::vector<double> bb = context_.ops.row_dots(branch_, branch_);
  const std::vector<double> xb = context_.ops.row_dots(stream_, branch_);
  const std::vector<double> ss = context_.ops.row_dots(sum, sum);
  const auto width = static_cast<double>(sum.cols());
  const auto entries = width * static_cast<double>(sum.rows());
  const double rounding = growth_rounding(sum.dtype(), sum.cols());
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

}  // namespace periscope
