#include "sim/measure/gradient_probe.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <set>
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
  const auto add = [&, slot = measure(dx)](Signal signal, int index) {
    gradients_.push_back({signal, context_.model.curve_length(signal), index, dx.rows(), slot});
  };
  add(at.signal, runs_over_depth(at.signal) ? at.sublayer + 1 : at.sublayer);
  if (at.signal == Signal::x_in) {
    for (const int other : context_.model.sublayers_sharing_input(at.sublayer)) add(at.signal, other);
  }
  if (at.sublayer < 0 && context_.model.ends().has(Signal::r_out)) add(Signal::r_out, 0);
}

void GradientProbe::on_gradient(const ParameterId& parameter, const ParameterGradient& gradient) {
  if (!is_layer_matrix(parameter.weight) || parameter.part != ParameterId::Part::matrix) return;
  const auto layers = static_cast<std::size_t>(context_.model.layers);
  gradients_.push_back({parameter.weight, layers, parameter.layer(), 1, record_.squares(gradient.squares())});
}

void GradientProbe::take_into(Profile& profile) {
  record_.fetch();
  std::set<int> depths;  // depths of x_out to which a part of the stream was already added
  for (const auto& [place, length, index, tokens, slot] : gradients_) {
    double& entry = profile.entry(Statistic::grad_sq, place, length, index);
    const bool adds = place == CurvePlace(Signal::x_out) && !depths.insert(index).second;
    entry = squares(slot) / static_cast<double>(tokens) + (adds ? entry : 0.0);
    profile.entry(Statistic::log_grad_sq, place, length, index) = std::log(entry);
  }
  for (const ScoreShare& s : shares_) {
    const double scores = squares(s.scores);
    profile.entry(Statistic::score_share, Signal::A_out, context_.model.curve_length(Signal::A_out), s.sublayer) =
        scores / (scores + squares(s.values));
  }
}

std::vector<double> GradientProbe::token_squares() const {
  std::vector<double> all;
  std::set<int> depths;  // as in take_into
  for (const auto& [place, length, index, tokens, slot] : gradients_) {
    if (place != CurvePlace(Signal::x_out)) continue;
    const auto n = static_cast<std::size_t>(tokens);
    all.resize(length * n, std::numeric_limits<double>::quiet_NaN());
    const bool adds = !depths.insert(index).second;
    for (std::size_t t = 0; t < n; ++t) {
      double& entry = all[static_cast<std::size_t>(index) * n + t];
      entry = record_[slot].squares[t] + (adds ? entry : 0.0);
    }
  }
  return all;
}

}  // namespace periscope
