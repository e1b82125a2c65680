#include "theory/first_steps/moved_output.h"

namespace periscope::theory {
namespace {

using Index = Eigen::Index;

double mean_loss(Sampled logits, const TrainingTokens& tokens) {
  logits.colwise() -= logits.rowwise().maxCoeff().eval();
  const Eigen::VectorXf all = logits.array().exp().rowwise().sum().log();
  double sum = 0.0;
  for (Index s = 0; s < logits.rows(); ++s) {
    sum += all(s) - logits(s, tokens.labels[static_cast<std::size_t>(tokens.trained() + s)]);
  }
  return sum / static_cast<double>(logits.rows());
}

/// Returns ∂loss/∂logits of a batch's mean loss: (p − y)/tokens, p the probabilities and y the labels. The batch begins
/// at token `first`.
Sampled gradient_of(Sampled p, const TrainingTokens& tokens, Index first) {
  p.colwise() -= p.rowwise().maxCoeff().eval();
  p = p.array().exp();
  p.array().colwise() /= p.rowwise().sum().array().eval();
  for (Index t = 0; t < p.rows(); ++t) p(t, tokens.labels[static_cast<std::size_t>(first + t)]) -= 1.0F;
  return p / static_cast<float>(tokens.batch);
}

FirstMatrixPlace unembedding_of(const StackSpec& spec) {
  const ModelSpec& m = spec.model;
  return {.sublayer = m.sublayers(),
          .number = 0,
          .rows = m.vocab,
          .drawn = m.vocab,
          .stddev = stddev_of(spec, 0, Weight::unembedding),
          .transposed = true};
}

}  // namespace

MovedOutput::MovedOutput(const ModuleContext& context)
    : context_(context),
      ends_(context.spec.model.ends()),
      norm_(context.spec, context.tokens, context.spec.model.final_norm),
      history_(context),
      unembedding_(context, history_, unembedding_of(context.spec)) {}

double MovedOutput::loss(const MovedStreams& x, const TokensNow& now) {
  MovedSignal normed = x.sum(ends_.normed);
  const Vector slope = norm_.pass(normed.x, normed.correction.diagonal(), now).slope;
  std::vector<Vector> weights;
  for (std::size_t i = 0; i < x.count(); ++i) {
    weights.emplace_back(ends_.plain[i] + ends_.normed[i] * slope.array());
  }
  MovedSignal read = x.sum(weights);
  read.x = std::move(normed.x);  // unlike the sum, with the mean over channels subtracted by LayerNorm
  for (std::size_t i = 0; i < x.count(); ++i) read.x.add(ends_.plain[i], x.x[i]);
  history_.read(read, now);
  const Sampled logits = unembedding_.now(now).values;
  logit_gradient_ = gradient_of(logits.topRows(now.next()), context_.tokens, now.trained());
  return mean_loss(logits.bottomRows(context_.tokens.held_out()), context_.tokens);
}

std::vector<Sampled> MovedOutput::back(const TokensNow& now, double& square) {
  const Sampled out = unembedding_.back(logit_gradient_, now, square);
  const Sampled normed = norm_.back(out, now, square);
  std::vector<Sampled> g;
  for (std::size_t i = 0; i < static_cast<std::size_t>(ends_.streams()); ++i) {
    g.emplace_back(static_cast<float>(ends_.plain[i]) * out + static_cast<float>(ends_.normed[i]) * normed);
  }
  return g;
}

}  // namespace periscope::theory
