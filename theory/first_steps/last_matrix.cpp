#include <cmath>

#include "theory/first_steps/moved_modules.h"

namespace periscope::theory {
namespace {

using Index = Eigen::Index;

}  // namespace

LastMatrix::LastMatrix(const ModuleContext& context, const InitialBranch& branch, int layer, Weight weight, int fan_in,
                       Index hidden)
    : context_(context),
      branch_(branch),
      weight_(weight),
      fan_in_(fan_in),
      sublayer_(weight == Weight::o ? 2 * layer : 2 * layer + 1),
      sigma_(entry_stddev(context.spec, layer, weight)),
      gradients_(context.tokens.trained(), context.samples.channels),
      hidden_(context.tokens.trained(), hidden) {}

Sampled LastMatrix::cotangent(const Sampled& before, const Sampled& gradients, const TokensNow& now) const {
  if (now.done == 0) return before;
  const Index channels = gradients.cols();
  const double width = context_.spec.model.width;
  const Sampled change = gradients - branch_.gradients.middleRows(now.trained(), now.next());
  NormalStream numbers = context_.samples.row_numbers(sublayer_, 7);
  const double spread = sigma_ * std::sqrt(width / static_cast<double>(channels));
  Sampled result =
      before + both_signs(static_cast<float>(spread) * (change * numbers.normals_float(channels, before.cols() / 2)));
  result *= static_cast<float>(context_.law.kept(now.done));
  result -= static_cast<float>(width / static_cast<double>(channels)) * (gradients * taken_off_.transpose());
  return result;
}

void LastMatrix::append(const Sampled& hidden, const Sampled& gradients, const TokensNow& now) {
  const Index first = now.trained();
  const Index count = now.next();
  Sampled seen = hidden.topRows(count);
  if (context_.fault == StepFault::no_token_mean) seen.rowwise() -= seen.colwise().mean().eval();
  hidden_.middleRows(first, count) = seen;
  gradients_.middleRows(first, count) = gradients;
  entries_.emplace_back(seen.transpose() * gradients);
}

Sampled FirstMatrix::back(const Sampled& gradients, const Sampled& before, const Sampled& channels) {
  Sampled result = Sampled::Zero(gradients.rows(), channels.cols());
  if (!entries_.empty()) {
    const Sampled u = context_.law.taken_off(entries_);
    const auto left = static_cast<float>(context_.law.kept(static_cast<Index>(entries_.size())));
    result = (-static_cast<float>(rows_) / static_cast<float>(gradients.cols())) * (gradients * u);
    // Rows come in pairs of opposite signs, of which one stands for as many of the matrix as there are.
    const Index half = (gradients.cols() + 1) / 2;
    NormalStream numbers = context_.samples.row_numbers(sublayer_, matrix_);
    result += static_cast<float>(stddev_ * std::sqrt(static_cast<double>(rows_) / static_cast<double>(half))) *
              ((left * gradients - before).leftCols(half) * numbers.normals_float(half, channels.cols()));
  }
  entries_.emplace_back(gradients.transpose() * channels);
  return result;
}

Sampled input_channels(const ModuleContext& context, int sublayer, const InitialBranch& branch) {
  NormalStream numbers = context.samples.numbers(sublayer, StepSamples::Purpose::channels);
  return fields_of(1.0, branch.input_factor, numbers.normals_float(context.tokens.all(), context.samples.channels));
}

void LastMatrix::fill(MovedModule& module, const Sampled& hidden, const TokensNow& now) {
  const Index count = now.count();
  module.taken = Sampled::Zero(count, gradients_.cols());
  module.taken_response = Sampled::Zero(count, now.trained());
  module.correction = Matrix::Zero(count, count);
  module.update_square[weight_] = 0.0;
  if (now.done == 0) return;
  const double n = fan_in_;
  const auto all = static_cast<double>(hidden.cols());
  taken_off_ = context_.law.taken_off(entries_);
  const Sampled& u = taken_off_;
  module.taken = static_cast<float>(-n / all) * (hidden * u);
  // Sampled channels come in pairs that differ in signs: before training they are one, so that half of them count.
  const Index half = hidden.cols() / 2;
  const double pairs = static_cast<double>(half);
  const Sampled mean = 0.5F * (hidden.leftCols(half) + hidden.rightCols(half));
  const Matrix square = (hidden * hidden.transpose()).cast<double>() / all;
  const Matrix mean_square = (mean * mean.transpose()).cast<double>() / pairs;
  const double e2 = u.squaredNorm() / static_cast<double>(u.size());
  const Matrix raw = (module.taken * module.taken.transpose()).cast<double>() / static_cast<double>(u.cols());
  const Matrix coherent = (raw / (n * n) - e2 / pairs * mean_square) / (1.0 - 1.0 / pairs);
  Matrix wanted = n * n * coherent;
  if (context_.fault != StepFault::no_noise) wanted += n * (e2 * square - coherent);
  module.correction = wanted - raw;
  const Sampled trained = hidden_.topRows(now.trained());
  const Sampled g = gradients(now);
  const Sampled gradient_kernel = g * g.transpose() / static_cast<float>(g.cols());
  const Sampled slopes = row_moments(gradient_kernel, trained, now, context_.law).slopes(now);
  module.taken_response = static_cast<float>(-n / all) * (hidden * trained.cwiseProduct(slopes).transpose());
  const double decayed = std::pow((1.0 - context_.law.kept(now.done)) * sigma_, 2) * n;
  module.update_square[weight_] = (wanted + decayed * square).diagonal().tail(context_.tokens.held_out()).mean();
}

void fill_module(MovedModule& module, const Sampled& before, const Sampled& hidden, double gain, double left,
                 Index channels, NormalStream numbers) {
  const Eigen::VectorXf square = before.rowwise().squaredNorm();
  module.keep = before.cwiseProduct(hidden).rowwise().sum();
  for (Index s = 0; s < square.size(); ++s) module.keep(s) = square(s) > 0 ? module.keep(s) / square(s) : 1.0F;
  const Sampled other = hidden - module.keep.asDiagonal() * before;
  const double share = left * left * gain / static_cast<double>(hidden.cols());
  module.fresh = share * (other * other.transpose()).cast<double>();
  module.wanders = static_cast<float>(std::sqrt(share)) * (other * numbers.normals_float(hidden.cols(), channels));
  module.keep *= static_cast<float>(left);
}

}  // namespace periscope::theory
