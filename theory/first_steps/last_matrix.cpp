#include "theory/first_steps/last_matrix.h"

#include <cmath>

#include "theory/first_steps/first_matrix.h"

namespace periscope::theory {
namespace {

using Index = Eigen::Index;
using Use = ChainDraws::Use;

}  // namespace

LastMatrix::LastMatrix(const ModuleContext& context, const InitialBranch& branch, int sublayer, Weight weight,
                       int fan_in, Index hidden)
    : context_(context),
      branch_(branch),
      sublayer_(sublayer),
      weight_(weight),
      fan_in_(fan_in),
      sigma_(stddev_of(context.spec, sublayer / 2, weight)),
      gradients_(context.tokens.trained(), context.spec.model.width),
      hidden_(context.tokens.trained(), hidden) {}

MovedModule LastMatrix::output(const Sampled& before, const Sampled& hidden, const Sampled& seen,
                               const Sampled& responds, const TokensNow& now) {
  const Index width = context_.spec.model.width;
  const double left = context_.law.kept(now.done);
  const double gain = sigma_ * sigma_ * fan_in_;
  const Eigen::VectorXf square = before.rowwise().squaredNorm();
  Eigen::VectorXf keep = before.cwiseProduct(hidden).rowwise().sum();
  for (Index s = 0; s < square.size(); ++s) keep(s) = square(s) > 0 ? keep(s) / square(s) : 1.0F;
  const Sampled other = hidden - keep.asDiagonal() * before;
  NormalStream numbers = context_.draws.numbers(sublayer_, Use::other);
  const auto spread = static_cast<float>(left * std::sqrt(gain / static_cast<double>(hidden.cols())));
  const Sampled response = static_cast<float>(gain) * decayed(responds, context_.law, now);
  MovedModule module{
      .output = {.x = {.kept = static_cast<float>(left) * keep.asDiagonal() * now.rows_of(branch_.written),
                       .wanders = spread * (other * numbers.normals_float(hidden.cols(), width)),
                       .follows = response * gradients_.topRows(now.trained())},
                 .correction = Matrix::Zero(now.count(), now.count()),
                 .response = response},
      .update_square = {{weight_, 0.0}}};
  if (now.done > 0) add_update(module, seen, now);
  return module;
}

void LastMatrix::add_update(MovedModule& module, const Sampled& hidden, const TokensNow& now) {
  const double n = fan_in_;
  const auto rows = static_cast<double>(hidden.cols());
  taken_off_ = context_.law.taken_off(entries_);
  const Sampled taken = static_cast<float>(-n / rows) * (hidden * taken_off_);
  const Matrix square = (hidden * hidden.transpose()).cast<double>() / rows;
  const double e2 = taken_off_.squaredNorm() / static_cast<double>(taken_off_.size());
  const Matrix raw = (taken * taken.transpose()).cast<double>() / static_cast<double>(taken.cols());
  // The expectation of raw over `rows` drawn channels is n² (coherent + (e2 square − coherent)/rows).
  const Matrix noise = n * n / std::max(1.0, rows - 1.0) * (e2 * square - raw / (n * n));
  module.output.correction = context_.fault == StepFault::no_noise ? Matrix(-noise) : Matrix((rows / n - 1.0) * noise);
  const Sampled trained = hidden_.topRows(now.trained());
  const Sampled g = gradients_.topRows(now.trained());
  const Sampled gradient_kernel = g * g.transpose() / static_cast<float>(g.cols());
  const Sampled slopes = row_moments(gradient_kernel, trained, now, context_.law).slopes(now);
  module.output.response += static_cast<float>(-n / rows) * (hidden * trained.cwiseProduct(slopes).transpose());
  module.output.x.follows += taken;
  const double decayed = std::pow((1.0 - context_.law.kept(now.done)) * sigma_, 2) * n;
  module.update_square[weight_] =
      (raw + module.output.correction + decayed * square).diagonal().tail(context_.tokens.held_out()).mean();
}

Sampled LastMatrix::back(const Sampled& gradients, const TokensNow& now) const {
  NormalStream numbers = context_.draws.numbers(sublayer_, Use::last);
  const auto spread = static_cast<float>(sigma_ * context_.law.kept(now.done));
  Sampled result = spread * (gradients * numbers.normals_float(gradients.cols(), hidden_.cols()));
  if (now.done > 0) result -= gradients * taken_off_.transpose();
  return result;
}

void LastMatrix::append(const Sampled& hidden, const Sampled& gradients, const TokensNow& now, double& square) {
  Sampled seen = hidden;
  if (context_.fault == StepFault::no_token_mean) seen.rowwise() -= seen.colwise().mean().eval();
  hidden_.middleRows(now.trained(), now.next()) = seen;
  gradients_.middleRows(now.trained(), now.next()) = gradients;
  entries_.emplace_back(seen.transpose() * gradients);
  square += fan_in_ / static_cast<double>(seen.cols()) * entries_.back().cast<double>().squaredNorm();
}

}  // namespace periscope::theory
