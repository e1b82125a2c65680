#include "sim/measure/gradient_probe.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace periscope {
namespace {

void set(Curve& curve, int length, int index, double value) {
  curve.value.resize(static_cast<std::size_t>(length), std::numeric_limits<double>::quiet_NaN());
  curve.value[static_cast<std::size_t>(index)] = value;
}

}  // namespace

double GradientProbe::squares(const Tensor& x) const {
  const std::vector<double> rows = context_.ops.row_dots(x, x);
  return std::accumulate(rows.begin(), rows.end(), 0.0);
}

void GradientProbe::record(int index, Signal site, const Tensor& dx) {
  const bool stream = site == Signal::x_out || site == Signal::r_out;
  const int length = context_.model.sublayers() + (stream ? 1 : 0);
  const double value = squares(dx) / static_cast<double>(dx.rows());
  set(profile_.curves[{Statistic::grad_sq, site}], length, index, value);
  set(profile_.curves[{Statistic::log_grad_sq, site}], length, index, std::log(value));
}

void GradientProbe::on_input(const Tensor& dx) {
  record(0, Signal::x_out, dx);
  if (context_.model.placement.two_streams) record(0, Signal::r_out, dx);
}

void GradientProbe::on_site(int sublayer, Signal site, const Tensor& dx) {
  const bool stream = site == Signal::x_out || site == Signal::r_out;
  record(stream ? sublayer + 1 : sublayer, site, dx);
}

void GradientProbe::on_weight(int layer, Weight weight, const Tensor& dw) {
  if (!is_of_layer(weight)) return;
  const double value = squares(dw);
  set(profile_.weight_curves[{Statistic::grad_sq, weight}], context_.model.layers, layer, value);
  set(profile_.weight_curves[{Statistic::log_grad_sq, weight}], context_.model.layers, layer, std::log(value));
}

void GradientProbe::on_weight_input(int layer, Weight weight, const Tensor& dx) {
  if (weight == Weight::q) through_queries_ = dx;
  if (weight == Weight::k) through_keys_ = dx;
  if (weight != Weight::v) return;
  const double scores = squares(context_.ops.axpby(1.0, through_queries_, 1.0, through_keys_));
  set(profile_.curves[{Statistic::score_share, Signal::A_out}], context_.model.sublayers(), 2 * layer,
      scores / (scores + squares(dx)));
}

void GradientProbe::take_into(Profile& profile) {
  profile.curves.merge(profile_.curves);
  profile.weight_curves.merge(profile_.weight_curves);
}

}  // namespace periscope
