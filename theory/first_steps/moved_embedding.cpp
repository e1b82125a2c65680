#include "theory/first_steps/moved_embedding.h"

namespace periscope::theory {

MovedEmbedding::MovedEmbedding(const ModuleContext& context, const InitialStack& initial)
    : context_(context),
      initial_(initial),
      norm_use_(norm_use(context.spec.model)),
      norm_(context.tokens),
      input_gradient_(context.tokens.trained(), context.samples.channels) {}

std::vector<Sampled> MovedEmbedding::row_gradients(const TokensNow& now) const {
  const auto scale = static_cast<float>(context_.spec.model.embedding.scale);
  const Eigen::Index batch = now.tokens.batch;
  std::vector<Sampled> sums;
  for (Eigen::Index b = 0; b < now.done; ++b) {
    Sampled sum = Sampled::Zero(now.count(), context_.samples.channels);
    for (Eigen::Index s = 0; s < now.count(); ++s) {
      for (Eigen::Index t = b * batch; t < (b + 1) * batch; ++t) {
        if (same_id(now.token(s), t)) sum.row(s) += scale * input_gradient_.row(t);
      }
    }
    sums.push_back(std::move(sum));
  }
  return sums;
}

Sampled MovedEmbedding::response(const std::vector<Sampled>& sums, const Vector& slope, const TokensNow& now) const {
  const ModelSpec& m = context_.spec.model;
  const auto scale = static_cast<float>(m.embedding.scale);
  const Vector times = norm_.times(now);
  Sampled result = Sampled::Zero(now.count(), now.trained());
  for (Eigen::Index s = 0; s < now.count(); ++s) {
    Matrix c(now.done, now.done);
    for (Eigen::Index a = 0; a < now.done; ++a) {
      for (Eigen::Index b = 0; b < now.done; ++b) {
        c(a, b) = sums[static_cast<std::size_t>(a)].row(s).dot(sums[static_cast<std::size_t>(b)].row(s)) /
                  static_cast<float>(context_.samples.channels);
      }
    }
    const Vector slopes = context_.law.moments(c).slope;
    for (Eigen::Index t = 0; t < now.trained(); ++t) {
      if (!same_id(now.token(s), t)) continue;
      const double norms = m.embedding_norm ? slope(s) * times(t) : 1.0;
      result(s, t) = static_cast<float>(-scale * scale * norms * slopes(t / now.tokens.batch));
    }
  }
  return result;
}

MovedStreams MovedEmbedding::now(const TokensNow& now) {
  const ModelSpec& m = context_.spec.model;
  const Sampled none = Sampled::Zero(now.count(), context_.samples.channels);
  Sampled y = none;
  Sampled responds = Sampled::Zero(now.count(), now.trained());
  const Vector slope0 = now.rows_of(initial_.embedding_slope);
  const Sampled before = now.square_of(initial_.stream_input);
  Vector slope = slope0;
  const double left = context_.law.kept(now.done);
  if (now.done > 0) {
    const std::vector<Sampled> sums = row_gradients(now);
    y = -static_cast<float>(m.embedding.scale) * context_.law.taken_off(sums);
    if (m.embedding_norm) {
      const Vector square = left * left * ratio(before.diagonal().cast<double>(), slope0.cwiseAbs2()) + mean_square(y);
      slope = slope_of(square, norm_use_, m.gamma);
      y = slope.cast<float>().asDiagonal() * y;
    }
    responds = response(sums, slope, now);
  }
  if (m.embedding_norm) {
    norm_.append(slope, y, now);
  } else {
    norm_.append(slope, now);
  }
  const Vector keep = left * ratio(slope, slope0);
  const Matrix own = keep.asDiagonal() * before.cast<double>() * keep.asDiagonal();
  const Sampled cross = keep.cast<float>().asDiagonal() * now.rows_of(initial_.stream_input);
  const auto count = static_cast<std::size_t>(m.ends().streams());
  MovedStreams x(count);
  for (std::size_t i = 0; i < count; ++i) {
    x.follows[i] = y;
    x.wanders[i] = none;
    for (std::size_t j = 0; j < count; ++j) {
      x.own[i][j] = own;
      x.cross[i][j] = cross;
      x.response[i][j] = responds;
    }
  }
  return x;
}

void MovedEmbedding::back(const Sampled& gradients, const TokensNow& now) {
  input_gradient_.middleRows(now.trained(), now.next()) = norm_.back(gradients, context_.spec.model.gamma, now);
}

}  // namespace periscope::theory
