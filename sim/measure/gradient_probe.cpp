#include "sim/measure/gradient_probe.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace periscope {
namespace {

void set(Curve& curve, int length, int index, double value) {
  curve.value.resize(static_cast<std::size_t>(length), std::numeric_limits<double>::quiet_NaN());
  curve.value[static_cast<std::size_t>(index)] = value;
}

}  // namespace

double GradientProbe::squares(Slot slot) const {
  const std::vector<double>& rows = record_[slot].squares;
  return std::accumulate(rows.begin(), rows.end(), 0.0);
}

void GradientProbe::on_signal(const Emission& at, const Tensor& dx) {
  if (at.pass != Pass::backward) return;
  if (at.signal == Signal::q_in) through_queries_ = dx;
  if (at.signal == Signal::k_in) through_keys_ = dx;
  if (at.signal == Signal::v_in) {
    const Slot scores = measure(context_.ops.axpby(1.0, std::move(through_queries_), 1.0, std::move(through_keys_)));
    shares_.push_back({at.sublayer, scores, measure(dx)});
  }
  if (!is_stream_signal(at.signal)) return;
  const Slot slot = measure(dx);
  signals_.push_back({runs_over_depth(at.signal) ? at.sublayer + 1 : at.sublayer, at.signal, dx.rows(), slot});
  if (at.signal == Signal::x_in) {
    for (const int other : context_.model.reading_with(at.sublayer))
      signals_.push_back({other, at.signal, dx.rows(), slot});
  }
  if (at.sublayer < 0 && context_.model.ends().has(Signal::r_out))
    signals_.push_back({0, Signal::r_out, dx.rows(), slot});
}

void GradientProbe::on_gradient(const ParameterId& parameter, const ParameterGradient& gradient) {
  if (!is_layer_matrix(parameter.weight) || parameter.part != ParameterId::Part::matrix) return;
  weights_.push_back({parameter.layer(), parameter.weight, record_.squares(gradient.squares())});
}

void GradientProbe::take_into(Profile& profile) {
  record_.fetch();
  for (const SignalGradient& g : signals_) {
    const ModelSpec& m = context_.model;
    const auto length = static_cast<int>(m.curve_length(g.signal));
    double value = squares(g.slot) / static_cast<double>(g.rows);
    Curve& curve = profile.curves[{Statistic::grad_sq, g.signal}];
    if (g.signal == Signal::x_out && m.ends().parts_of_stream() > 1 && !curve.value.empty()) {
      const double others = curve.value[static_cast<std::size_t>(g.index)];
      if (!std::isnan(others)) value += others;
    }
    set(curve, length, g.index, value);
    set(profile.curves[{Statistic::log_grad_sq, g.signal}], length, g.index, std::log(value));
  }
  for (const WeightGradient& g : weights_) {
    const double value = squares(g.slot);
    set(profile.curves[{Statistic::grad_sq, g.weight}], context_.model.layers, g.layer, value);
    set(profile.curves[{Statistic::log_grad_sq, g.weight}], context_.model.layers, g.layer, std::log(value));
  }
  for (const ScoreShare& s : shares_) {
    const double scores = squares(s.scores);
    set(profile.curves[{Statistic::score_share, Signal::A_out}], context_.model.sublayers(), s.sublayer,
        scores / (scores + squares(s.values)));
  }
}

}  // namespace periscope
