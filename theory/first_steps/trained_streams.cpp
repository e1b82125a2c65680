#include "theory/first_steps/trained_streams.h"

namespace periscope::theory {

SignalParts SignalParts::zero(Index rows, Index width) {
  const Sampled none = Sampled::Zero(rows, width);
  return {.initial = none, .independent = none, .coherent = none};
}

void SignalParts::add(double weight, const SignalParts& x) {
  if (weight == 0.0) return;
  const auto w = static_cast<float>(weight);
  initial += w * x.initial;
  independent += w * x.independent;
  coherent += w * x.coherent;
}

void SignalParts::scale(const Vector& by) {
  const Eigen::VectorXf rows = by.cast<float>();
  for (Sampled* part : {&initial, &independent, &coherent}) *part = rows.asDiagonal() * *part;
}

TrainedSignal TrainedStreams::sum(const std::vector<double>& weights) const {
  const Sampled& none = response(0, 0);
  TrainedSignal all{.x = SignalParts::zero(none.rows(), x.front().initial.cols()),
                    .correction = correction.sum(weights, weights),
                    .response = Sampled::Zero(none.rows(), none.cols())};
  for (std::size_t i = 0; i < x.size(); ++i) {
    SignalParts part = x[i];
    part.scale(Vector::Constant(none.rows(), weights[i]));
    all.x.add(1.0, part);
    for (std::size_t j = 0; j < x.size(); ++j) {
      all.response += static_cast<float>(weights[i]) * response(i, j) * static_cast<float>(weights[j]);
    }
  }
  return all;
}

TrainedStreams added(const Step& step, const TrainedStreams& x, const std::vector<TrainedSignal>& written) {
  TrainedStreams next{
      .x = {}, .correction = x.correction.mixed(step.mixing), .response = x.response.mixed(step.mixing)};
  for (std::size_t i = 0; i < x.x.size(); ++i) {
    SignalParts& sum = next.x.emplace_back(SignalParts::zero(x.x[i].initial.rows(), x.x[i].initial.cols()));
    for (std::size_t k = 0; k < x.x.size(); ++k) sum.add(step.mixing[i][k], x.x[k]);
    for (std::size_t n = 0; n < written.size(); ++n) sum.add(step.branches[n].writes[i], written[n].x);
  }
  for (std::size_t n = 0; n < written.size(); ++n) {
    next.correction.add(step.branches[n].writes, written[n].correction);
    next.response.add(step.branches[n].writes, written[n].response);
  }
  return next;
}

}  // namespace periscope::theory
