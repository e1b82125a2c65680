#include "sim/measure/gradient_probe.h"

#include <cmath>
#include <limits>

namespace periscope {
namespace {

void set(Curve& curve, int length, int index, double value) {
  curve.value.resize(static_cast<std::size_t>(length), std::numeric_limits<double>::quiet_NaN());
  curve.value[static_cast<std::size_t>(index)] = value;
}

}  // namespace

void GradientProbe::record(int index, Signal site, const Tensor& dx) {
  const bool stream = site == Signal::x_out || site == Signal::r_out;
  const int length = context_.model.sublayers() + (stream ? 1 : 0);
  const double value = sum_of_squares(context_.ops, dx) / static_cast<double>(dx.rows());
  set(profile_.curves[{Statistic::grad_sq, site}], length, index, value);
  set(profile_.curves[{Statistic::log_grad_sq, site}], length, index, std::log(value));
}

void GradientProbe::on_signal(const Emission& at, const Tensor& dx) {
  if (at.pass != Pass::backward) return;
  if (at.signal == Signal::q_in) through_queries_ = dx;
  if (at.signal == Signal::k_in) through_keys_ = dx;
  if (at.signal == Signal::v_in) record_score_share(at.sublayer, dx);
  if (!is_stream_signal(at.signal)) return;
  const bool stream = at.signal == Signal::x_out || at.signal == Signal::r_out;
  record(stream ? at.sublayer + 1 : at.sublayer, at.signal, dx);
  if (at.sublayer < 0 && context_.model.placement.two_streams) record(0, Signal::r_out, dx);
}

void GradientProbe::on_gradient(const ParameterId& parameter, const ParameterGradient& gradient) {
  if (!is_layer_matrix(parameter.weight) || parameter.part != ParameterId::Part::matrix) return;
  const double value = gradient.squares();
  const auto record_weight = [&](Statistic statistic, double number) {
    set(profile_.weight_curves[{statistic, parameter.weight}], context_.model.layers, parameter.layer(), number);
  };
  record_weight(Statistic::grad_sq, value);
  record_weight(Statistic::log_grad_sq, std::log(value));
}

void GradientProbe::record_score_share(int sublayer, const Tensor& through_values) {
  const double scores = sum_of_squares(context_.ops, context_.ops.axpby(1.0, through_queries_, 1.0, through_keys_));
  set(profile_.curves[{Statistic::score_share, Signal::A_out}], context_.model.sublayers(), sublayer,
      scores / (scores + sum_of_squares(context_.ops, through_values)));
}

void GradientProbe::take_into(Profile& profile) {
  profile.curves.merge(profile_.curves);
  profile.weight_curves.merge(profile_.weight_curves);
}

}  // namespace periscope
