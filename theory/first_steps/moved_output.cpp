#include "theory/first_steps/moved_output.h"

#include <cmath>

namespace periscope::theory {
namespace {

double mean_loss(Sampled logits, const TrainingTokens& tokens) {
  logits.colwise() -= logits.rowwise().maxCoeff().eval();
  const Eigen::VectorXf all = logits.array().exp().rowwise().sum().log();
  double sum = 0.0;
  for (Eigen::Index s = 0; s < logits.rows(); ++s) {
    sum += all(s) - logits(s, tokens.labels[static_cast<std::size_t>(tokens.trained() + s)]);
  }
  return sum / static_cast<double>(logits.rows());
}

}  // namespace

// The way back through the unembedding before training is exact, through all of its rows: that of its update alone is
// FirstMatrix's.
MovedOutput::MovedOutput(const ModuleContext& context, InitialStack& initial)
    : context_(context),
      initial_(initial),
      norm_use_(norm_use(context.spec.model)),
      ends_(context.spec.model.ends()),
      norm_(context.tokens),
      history_(context.tokens, context.samples.channels),
      update_(context, context.spec.model.sublayers(), 8, context.spec.model.vocab, 0.0) {
  NormalStream numbers = context.samples.numbers(context.spec.model.sublayers(), StepSamples::Purpose::channels);
  channels_ =
      fields_of(1.0, initial.output_factor, numbers.normals_float(context.tokens.all(), context.samples.channels));
  unembedding_.before = std::move(initial.logits);
  unembedding_.gradient = std::move(initial.logit_gradient);
}

MovedInput MovedOutput::read_by_unembedding(const MovedStreams& x, const Vector& slope, const TokensNow& now) const {
  const Vector times = norm_.times(now);
  const auto left = [&](std::size_t i) { return Vector(ends_.plain[i] + ends_.normed[i] * slope.array()); };
  const auto before = [&](std::size_t j) {
    return Eigen::VectorXf((ends_.plain[j] + ends_.normed[j] * initial_.final_slope.array()).cast<float>());
  };
  const auto own_times = [&](std::size_t j) { return Vector(ends_.plain[j] + ends_.normed[j] * times.array()); };
  MovedInput in = nothing_like(x);
  for (std::size_t i = 0; i < x.count(); ++i) {
    in.follows += left(i).cast<float>().asDiagonal() * x.follows[i];
    in.wanders += left(i).cast<float>().asDiagonal() * x.wanders[i];
    for (std::size_t j = 0; j < x.count(); ++j) {
      in.own += left(i).asDiagonal() * x.kernel(i, j) * left(j).asDiagonal();
      in.cross += left(i).cast<float>().asDiagonal() * x.cross[i][j] * before(j).asDiagonal();
      in.response += left(i).cast<float>().asDiagonal() * x.response[i][j] * own_times(j).cast<float>().asDiagonal();
    }
  }
  return in;
}

double MovedOutput::loss(const MovedStreams& x, const TokensNow& now) {
  const ModelSpec& m = context_.spec.model;
  const double variance = std::pow(entry_stddev(context_.spec, 0, Weight::unembedding), 2);
  const MovedInput normed = read_of(x, ends_.normed);
  const Vector slope =
      m.final_norm ? slope_of(normed.own.diagonal(), norm_use_, m.gamma) : Vector(Vector::Ones(now.count()));
  const MovedInput in = read_by_unembedding(x, slope, now);
  const FieldMover mover(initial_.output, in, history_, now, context_.law, m.width, context_.fault);
  NormalStream fresh = context_.samples.fresh_numbers(m.sublayers(), static_cast<int>(now.done));
  const Sampled logits =
      mover.move(unembedding_, variance, context_.samples.row_numbers(m.sublayers(), 0), fresh).values;
  const Eigen::Index next = now.next();
  if (next > 0) {
    history_.append(in, now, mover.keep(), mover.true_cross());
    unembedding_.gradient.middleRows(now.trained(), next) =
        logit_gradient(logits.topRows(next), context_.tokens, now.trained());
    norm_.append(slope, slope.cast<float>().asDiagonal() * normed.follows, now);
    channels_now_ = mover.keep().head(next).asDiagonal() * channels_.middleRows(now.trained(), next) +
                    in.follows.topRows(next) + in.wanders.topRows(next);
  }
  return mean_loss(logits.bottomRows(context_.tokens.held_out()), context_.tokens);
}

std::vector<Sampled> MovedOutput::back(const TokensNow& now) {
  const ModelSpec& m = context_.spec.model;
  const Sampled logits = unembedding_.gradient.middleRows(now.trained(), now.next());
  const Sampled out = static_cast<float>(context_.law.kept(now.done)) * (logits * initial_.unembedding) +
                      update_.back(logits, logits, channels_now_);
  const Sampled normed = m.final_norm ? norm_.back(out, m.gamma, now) : out;
  std::vector<Sampled> g;
  for (std::size_t i = 0; i < static_cast<std::size_t>(ends_.streams()); ++i) {
    g.emplace_back(static_cast<float>(ends_.plain[i]) * out + static_cast<float>(ends_.normed[i]) * normed);
  }
  return g;
}

}  // namespace periscope::theory
