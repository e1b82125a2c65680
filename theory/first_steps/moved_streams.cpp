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

void MovedStreams::scale(std::size_t stream, const Vector& now, const Vector& times) {
  for (std::size_t j = 0; j < count(); ++j) {
    correction[stream][j] = now.asDiagonal() * correction[stream][j];
    correction[j][stream] = correction[j][stream] * now.asDiagonal();
    response[stream][j] = now.cast<float>().asDiagonal() * response[stream][j];
    response[j][stream] = response[j][stream] * times.cast<float>().asDiagonal();
  }
}

MovedSignal MovedStreams::sum(const std::vector<Vector>& weights) const {
  const Matrix& square = correction.front().front();
  const Sampled& responds = response.front().front();
  MovedSignal all{.x = MovedParts::zero(square.rows(), x.front().kept.cols()),
                  .correction = Matrix::Zero(square.rows(), square.cols()),
                  .response = Sampled::Zero(responds.rows(), responds.cols())};
  for (std::size_t i = 0; i < count(); ++i) {
    if (weights[i].isZero(0.0)) continue;
    MovedParts part = x[i];
    part.scale(weights[i]);
    all.x.add(1.0, part);
    for (std::size_t j = 0; j < count(); ++j) {
      all.correction += weights[i].asDiagonal() * correction[i][j] * weights[j].asDiagonal();
    }
  }
  return all;
}

MovedSignal MovedStreams::sum(const std::vector<double>& weights) const {
  std::vector<Vector> of_tokens;
  for (const double w : weights) of_tokens.push_back(Vector::Constant(correction.front().front().rows(), w));
  MovedSignal all = sum(of_tokens);
  for (std::size_t i = 0; i < count(); ++i) {
    for (std::size_t j = 0; j < count(); ++j) {
      all.response += static_cast<float>(weights[i]) * response[i][j] * static_cast<float>(weights[j]);
    }
  }
  return all;
}

MovedStreams added(const Step& step, const MovedStreams& x, const std::vector<MovedSignal>& written) {
  MovedStreams next(x.count());
  const auto& correction = x.correction.front().front();
  const auto& response = x.response.front().front();
  for (std::size_t i = 0; i < x.count(); ++i) {
    next.x[i] = MovedParts::zero(correction.rows(), x.x.front().kept.cols());
    for (std::size_t k = 0; k < x.count(); ++k) next.x[i].add(step.mixing[i][k], x.x[k]);
    for (std::size_t n = 0; n < written.size(); ++n) next.x[i].add(step.branches[n].writes[i], written[n].x);
    for (std::size_t j = 0; j < x.count(); ++j) {
      next.correction[i][j] = Matrix::Zero(correction.rows(), correction.cols());
      next.response[i][j] = Sampled::Zero(response.rows(), response.cols());
      const auto add = [&](double both, const Matrix& c, const Sampled& r) {
        if (both == 0.0) return;
        next.correction[i][j] += both * c;
        next.response[i][j] += static_cast<float>(both) * r;
      };
      for (std::size_t k = 0; k < x.count(); ++k) {
        for (std::size_t l = 0; l < x.count(); ++l) {
          add(step.mixing[i][k] * step.mixing[j][l], x.correction[k][l], x.response[k][l]);
        }
      }
      for (std::size_t n = 0; n < written.size(); ++n) {
        add(step.branches[n].writes[i] * step.branches[n].writes[j], written[n].correction, written[n].response);
      }
    }
  }
  return next;
}

}  // namespace periscope::theory
