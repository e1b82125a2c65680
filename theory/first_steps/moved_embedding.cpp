#include "theory/first_steps/moved_embedding.h"

namespace periscope::theory {
namespace {

using Index = Eigen::Index;

}  // namespace

MovedEmbedding::MovedEmbedding(const ModuleContext& context, const InitialStack& initial)
    : context_(context),
      initial_(initial),
      norm_(context.spec, context.tokens, context.spec.model.embedding_norm),
      input_gradient_(context.tokens.trained(), context.spec.model.width) {}

std::vector<Sampled> MovedEmbedding::row_gradients(const TokensNow& now) const {
  const auto scale = static_cast<float>(context_.spec.model.embedding.scale);
  const Index batch = now.tokens.batch;
  std::vector<Sampled> sums;
  for (Index b = 0; b < now.done; ++b) {
    Sampled sum = Sampled::Zero(now.count(), input_gradient_.cols());
    for (Index s = 0; s < now.count(); ++s) {
      for (Index t = b * batch; t < (b + 1) * batch; ++t) {
        if (same_id(now.token(s), t)) sum.row(s) += scale * input_gradient_.row(t);
      }
    }
    sums.push_back(std::move(sum));
  }
  return sums;
}

Sampled MovedEmbedding::response(const std::vector<Sampled>& sums, const TokensNow& now) const {
  const double scale = context_.spec.model.embedding.scale;
  Sampled result = Sampled::Zero(now.count(), now.trained());
  for (Index s = 0; s < now.count(); ++s) {
    Matrix c(now.done, now.done);
    for (Index a = 0; a < now.done; ++a) {
      for (Index b = 0; b < now.done; ++b) {
        c(a, b) = sums[static_cast<std::size_t>(a)].row(s).dot(sums[static_cast<std::size_t>(b)].row(s)) /
                  static_cast<float>(input_gradient_.cols());
      }
    }
    const Vector slopes = context_.law.moments(c).slope;
    for (Index t = 0; t < now.trained(); ++t) {
      if (same_id(now.token(s), t)) result(s, t) = static_cast<float>(-scale * scale * slopes(t / now.tokens.batch));
    }
  }
  return result;
}

MovedStreams MovedEmbedding::now(const TokensNow& now) {
  const ModelSpec& m = context_.spec.model;
  const auto scale = static_cast<float>(m.embedding.scale);
  MovedSignal x{.x = MovedParts::zero(now.count(), m.width),
                .correction = Matrix::Zero(now.count(), now.count()),
                .response = Sampled::Zero(now.count(), now.trained())};
  x.x.kept = scale * static_cast<float>(context_.law.kept(now.done)) * now.rows_of(initial_.embedded);
  if (now.done > 0) {
    const std::vector<Sampled> sums = row_gradients(now);
    x.x.follows = -scale * context_.law.taken_off(sums);
    x.response = response(sums, now);
  }
  norm_.pass(x, now);
  const auto count = static_cast<std::size_t>(m.ends().streams());
  MovedStreams streams(count);
  for (std::size_t i = 0; i < count; ++i) {
    streams.x[i] = x.x;
    for (std::size_t j = 0; j < count; ++j) {
      streams.correction[i][j] = x.correction;
      streams.response[i][j] = x.response;
    }
  }
  return streams;
}

void MovedEmbedding::back(const Sampled& gradients, const TokensNow& now, double& square) {
  input_gradient_.middleRows(now.trained(), now.next()) = norm_.back(gradients, now, square);
  const Sampled& g = input_gradient_;
  const double scale = context_.spec.model.embedding.scale;
  for (Index s = now.trained(); s < now.trained() + now.next(); ++s) {
    for (Index t = now.trained(); t < now.trained() + now.next(); ++t) {
      if (same_id(s, t)) square += scale * scale * g.row(s).dot(g.row(t));
    }
  }
}

}  // namespace periscope::theory
