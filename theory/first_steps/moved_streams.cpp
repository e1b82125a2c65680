#include "theory/first_steps/moved_streams.h"

namespace periscope::theory {

MovedParts MovedParts::zero(Index rows, Index width) {
  const Sampled none = Sampled::Zero(rows, width);
  return {.kept = none, .wanders = none, .follows = none};
}

void MovedParts::add(double weight, const MovedParts& x) {
  if (weight == 0.0) return;
  const auto w = static_cast<float>(weight);
  kept += w * x.kept;
  wanders += w * x.wanders;
  follows += w * x.follows;
}

void MovedParts::scale(const Vector& by) {
  const Eigen::VectorXf rows = by.cast<float>();
  for (Sampled* part : {&kept, &wanders, &follows}) *part = rows.asDiagonal() * *part;
}

MovedSignal MovedStreams::sum(const std::vector<double>& weights) const {
  const Sampled& none = response(0, 0);
  MovedSignal all{.x = MovedParts::zero(none.rows(), x.front().kept.cols()),
                  .correction = correction.sum(weights, weights),
                  .response = Sampled::Zero(none.rows(), none.cols())};
  for (std::size_t i = 0; i < x.size(); ++i) {
    MovedParts part = x[i];
    part.scale(Vector::Constant(none.rows(), weights[i]));
    all.x.add(1.0, part);
    for (std::size_t j = 0; j < x.size(); ++j) {
      all.response += static_cast<float>(weights[i]) * response(i, j) * static_cast<float>(weights[j]);
    }
  }
  return all;
}

MovedStreams added(const Step& step, const MovedStreams& x, const std::vector<MovedSignal>& written) {
  MovedStreams next{.x = {}, .correction = x.correction.mixed(step.mixing), .response = x.response.mixed(step.mixing)};
  for (std::size_t i = 0; i < x.x.size(); ++i) {
    MovedParts& sum = next.x.emplace_back(MovedParts::zero(x.x[i].kept.rows(), x.x[i].kept.cols()));
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
