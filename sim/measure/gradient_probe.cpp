#include "sim/measure/gradient_probe.h"

#include <cmath>
#include <numeric>
#include <utility>

namespace periscope {
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
  const ModelSpec& model = context_.model;
  for (const SignalGradient& g : signals_) {
    const std::size_t length = model.curve_length(g.signal);
    double& entry = profile.entry(Statistic::grad_sq, g.signal, length, g.index);
    const bool adds = g.signal == Signal::x_out && model.ends().parts_of_stream() > 1 && !std::isnan(entry);
    entry = squares(g.slot) / static_cast<double>(g.rows) + (adds ? entry : 0.0);
    profile.entry(Statistic::log_grad_sq, g.signal, length, g.index) = std::log(entry);
  }
  const auto layers = static_cast<std::size_t>(model.layers);
  for (const WeightGradient& g : weights_) {
    const double value = squares(g.slot);
    profile.entry(Statistic::grad_sq, g.weight, layers, g.layer) = value;
    profile.entry(Statistic::log_grad_sq, g.weight, layers, g.layer) = std::log(value);
  }
  for (const ScoreShare& s : shares_) {
    const double scores = squares(s.scores);
    profile.entry(Statistic::score_share, Signal::A_out, model.curve_length(Signal::A_out), s.sublayer) =
        scores / (scores + squares(s.values));
  }
}

}  // namespace periscope
