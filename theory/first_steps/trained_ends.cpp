#include "theory/first_steps/trained_ends.h"

namespace periscope::theory {

TrainedEmbedding::TrainedEmbedding(const ModuleContext& context, const InitialStack& initial)
    : context_(context),
      initial_(initial),
      norm_(context.spec, context.tokens, context.spec.model.embedding_norm),
      input_gradient_(context.tokens.trained(), context.spec.model.width) {}

std::vector<Sampled> TrainedEmbedding::row_gradients(const CurrentTokens& now) const {
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

Sampled TrainedEmbedding::response(const std::vector<Sampled>& sums, const CurrentTokens& now) const {
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

TrainedStreams TrainedEmbedding::forward(const CurrentTokens& now) {
  const ModelSpec& m = context_.spec.model;
  const auto scale = static_cast<float>(m.embedding.scale);
  TrainedSignal x{.x = SignalParts::zero(now.count(), m.width),
                  .correction = Matrix::Zero(now.count(), now.count()),
                  .response = Sampled::Zero(now.count(), now.trained())};
  x.x.initial = scale * static_cast<float>(context_.law.decay_factor(now.done)) * now.rows_of(initial_.embedded);
  if (now.done > 0) {
    const std::vector<Sampled> sums = row_gradients(now);
    x.x.coherent = -scale * context_.law.update_of(sums);
    x.response = response(sums, now);
  }
  norm_.forward(x, now);
  const auto count = static_cast<std::size_t>(m.ends().streams());
  return {
      .x = std::vector<SignalParts>(count, x.x), .correction = {count, x.correction}, .response = {count, x.response}};
}

void TrainedEmbedding::backward(const Sampled& gradients, const CurrentTokens& now, double& square) {
  input_gradient_.middleRows(now.trained(), now.next()) = norm_.backward(gradients, now, square);
  const Sampled& g = input_gradient_;
  const double scale = context_.spec.model.embedding.scale;
  for (Index s = now.trained(); s < now.trained() + now.next(); ++s) {
    for (Index t = now.trained(); t < now.trained() + now.next(); ++t) {
      if (same_id(s, t)) square += scale * scale * g.row(s).dot(g.row(t));
    }
  }
}

namespace {

double mean_loss(Sampled logits, const TrainingTokens& tokens) {
  logits.colwise() -= logits.rowwise().maxCoeff().eval();
  const Eigen::VectorXf all = logits.array().exp().rowwise().sum().log();
  double sum = 0.0;
  for (Index s = 0; s < logits.rows(); ++s) {
    sum += all(s) - logits(s, tokens.labels[static_cast<std::size_t>(tokens.trained() + s)]);
  }
  return sum / static_cast<double>(logits.rows());
}

/// Returns ∂loss/∂logits of a batch's mean loss: (p − y)/tokens, p the probabilities, y the labels. `p` holds
/// the logits on input; `first` is the index of the batch's first token.
Sampled gradient_of(Sampled p, const TrainingTokens& tokens, Index first) {
  p.colwise() -= p.rowwise().maxCoeff().eval();
  p = p.array().exp();
  p.array().colwise() /= p.rowwise().sum().array().eval();
  for (Index t = 0; t < p.rows(); ++t) p(t, tokens.labels[static_cast<std::size_t>(first + t)]) -= 1.0F;
  return p / static_cast<float>(tokens.batch);
}

InputMatrixPlace unembedding_of(const StackSpec& spec) {
  const ModelSpec& m = spec.model;
  return {.sublayer = m.sublayers(),
          .number = 0,
          .rows = m.vocab,
          .drawn = m.vocab,
          .stddev = stddev_of(spec, 0, Weight::unembedding),
          .transposed = true};
}

}  // namespace

TrainedOutput::TrainedOutput(const ModuleContext& context)
    : context_(context),
      ends_(context.spec.model.ends()),
      norm_(context.spec, context.tokens, context.spec.model.final_norm),
      history_(context),
      unembedding_(context, history_, unembedding_of(context.spec)) {}

double TrainedOutput::loss(const TrainedStreams& x, const CurrentTokens& now) {
  TrainedSignal normed = x.sum(ends_.normed);
  const Vector slope = norm_.forward(normed.x, normed.correction.diagonal(), now).slope;
  // The sum Σ_i (plain_i + normed_i·slope) x_i would be wrong: `normed` lacks the channel mean after a LayerNorm.
  TrainedSignal read{.x = std::move(normed.x),
                     .correction = Matrix::Zero(now.count(), now.count()),
                     .response = Sampled::Zero(now.count(), now.trained())};
  const auto weight = [&](std::size_t i) { return Vector(ends_.plain[i] + ends_.normed[i] * slope.array()); };
  for (std::size_t i = 0; i < x.x.size(); ++i) {
    read.x.add(ends_.plain[i], x.x[i]);
    for (std::size_t j = 0; j < x.x.size(); ++j) {
      read.correction += weight(i).asDiagonal() * x.correction(i, j) * weight(j).asDiagonal();
    }
  }
  history_.update(read, now);
  const Sampled logits = unembedding_.forward(now).values;
  logit_gradient_ = gradient_of(logits.topRows(now.next()), context_.tokens, now.trained());
  return mean_loss(logits.bottomRows(context_.tokens.held_out()), context_.tokens);
}

std::vector<Sampled> TrainedOutput::backward(const CurrentTokens& now, double& square) {
  const Sampled out = unembedding_.backward(logit_gradient_, now, square);
  const Sampled normed = norm_.backward(out, now, square);
  std::vector<Sampled> g;
  for (std::size_t i = 0; i < static_cast<std::size_t>(ends_.streams()); ++i) {
    g.emplace_back(static_cast<float>(ends_.plain[i]) * out + static_cast<float>(ends_.normed[i]) * normed);
  }
  return g;
}

}  // namespace periscope::theory
