#include "theory/first_steps/trained_matrices.h"

#include <algorithm>
#include <cmath>

namespace periscope::theory {
namespace {

/// Multiplies a response [now, trained] by the weight-decay factors of W₀ᵀ at each batch's step and of W₀ now.
Sampled decayed(const Sampled& response, const UpdateLaw& law, const CurrentTokens& now) {
  Sampled result = static_cast<float>(law.decay_factor(now.done)) * response;
  const Index batch = now.tokens.batch;
  for (Index b = 0; b < now.done; ++b) result.middleCols(b * batch, batch) *= static_cast<float>(law.decay_factor(b));
  return result;
}

/// Returns kernel k with the fault applied.
Sampled kernel_with_fault(const Sampled& k, StepFault fault) {
  if (fault != StepFault::no_token_mean || k.size() == 0) return k;
  return k.array() - k.mean();
}

/// Moments of U over the entries of each sampled row.
struct RowMoments {
  std::vector<UpdateLaw::Moments> of_row;
  Eigen::VectorXf remainder;  ///< E u² [rows]

  /// Returns c_b for every row and token [trained, rows], b the batch of the token.
  [[nodiscard]] Sampled slopes(const CurrentTokens& now) const {
    Sampled result(now.trained(), static_cast<Index>(of_row.size()));
    const Index batch = now.tokens.batch;
    for (Index b = 0; b < now.done; ++b) {
      Eigen::RowVectorXf row(result.cols());
      for (Index j = 0; j < row.size(); ++j) row(j) = static_cast<float>(of_row[static_cast<std::size_t>(j)].slope(b));
      result.middleRows(b * batch, batch).rowwise() = row;
    }
    return result;
  }
};

/// Returns the moments for Gaussian inputs of kernel k [trained, trained] and output gradients g [trained, rows]. They
/// follow from the covariance over inputs j of an entry's gradients a_b = Σ_{t in b} g(t) x_j(t).
RowMoments row_moments(const Sampled& k, const Sampled& g, const CurrentTokens& now, const UpdateLaw& law) {
  const Index n = now.done;
  const Index batch = now.tokens.batch;
  std::vector<Matrix> covariance(static_cast<std::size_t>(g.cols()), Matrix::Zero(n, n));
  for (Index b = 0; b < n; ++b) {
    const Sampled product = k.middleCols(b * batch, batch) * g.middleRows(b * batch, batch);
    for (Index a = 0; a < n; ++a) {
      const Eigen::RowVectorXf sums =
          product.middleRows(a * batch, batch).cwiseProduct(g.middleRows(a * batch, batch)).colwise().sum();
      for (Index j = 0; j < g.cols(); ++j) covariance[static_cast<std::size_t>(j)](a, b) = sums(j);
    }
  }
  RowMoments rows;
  rows.of_row.reserve(covariance.size());
  rows.remainder.resize(g.cols());
  for (Index j = 0; j < g.cols(); ++j) {
    const Matrix& c = covariance[static_cast<std::size_t>(j)];
    const Matrix symmetric = 0.5 * (c + c.transpose());
    const UpdateLaw::Moments& m = rows.of_row.emplace_back(law.moments(symmetric));
    rows.remainder(j) = static_cast<float>(std::max(0.0, m.square - m.slope.dot(symmetric * m.slope)));
  }
  return rows;
}

}  // namespace

void InputHistory::update(const TrainedSignal& input, const CurrentTokens& now) {
  const Index first = now.trained();
  const Index count = now.next();
  const auto width = static_cast<float>(context_.spec.model.width);
  total_ = input.x.total();
  square_ = total_.rowwise().squaredNorm().cast<double>() / width + input.correction.diagonal();
  cross_ = total_ * read_.topRows(first).transpose() / width;
  past_now_ = past_.topLeftCorner(first, first);
  response_ = decayed(input.response, context_.law, now);
  read_.middleRows(first, count) = total_.topRows(count);
  past_.block(first, 0, count, first) = cross_.topRows(count);
  past_.block(0, first, first, count) = cross_.topRows(count).transpose();
  past_.block(first, first, count, count) = total_.topRows(count) * total_.topRows(count).transpose() / width +
                                            input.correction.topLeftCorner(count, count).cast<float>();
}

Sampled InputMatrix::matrix() const {
  NormalStream numbers = context_.draws.numbers(place_.sublayer, ReplicateDraws::Use::forward, place_.number);
  return static_cast<float>(place_.stddev) * numbers.normals_float(context_.spec.model.width, place_.drawn);
}

InputMatrix::Fields InputMatrix::forward(const CurrentTokens& now) const {
  const double decay = context_.law.decay_factor(now.done);
  const double width = context_.spec.model.width;
  const double variance = place_.stddev * place_.stddev;
  const Index held = now.tokens.held_out();
  Fields fields{.values = static_cast<float>(decay) * (history_.total() * matrix()), .slope = {}, .v = {}, .w = {}};
  if (now.done == 0) return fields;
  const Sampled gradient = gradient_.topRows(now.trained());
  const Sampled past = kernel_with_fault(history_.past(), context_.fault);
  const RowMoments moments = row_moments(past, gradient, now, context_.law);
  fields.slope = moments.slopes(now);
  const Sampled weighted = fields.slope.cwiseProduct(gradient);
  fields.v = kernel_with_fault(history_.cross(), context_.fault) * weighted;
  fields.values -= static_cast<float>(width) * fields.v;
  if (!place_.transposed) {
    fields.values += static_cast<float>(variance * width) * (history_.response() * gradient);
  }
  if (context_.fault != StepFault::no_noise) {
    NormalStream numbers = context_.draws.numbers(place_.sublayer, ReplicateDraws::Use::remainder, place_.number);
    const Sampled u =
        numbers.normals_float(static_cast<Index>(width), place_.drawn) * moments.remainder.cwiseSqrt().asDiagonal();
    fields.values += history_.total() * u;
  }
  const double random = moments.remainder.mean() + std::pow(1.0 - decay, 2) * variance;
  fields.update_square = width *
                         (width * fields.v.bottomRows(held).squaredNorm() / static_cast<double>(place_.drawn) +
                          random * history_.square().tail(held).sum()) /
                         static_cast<double>(held);
  if (!context_.law.is_linear()) {
    // U does not depend on the common scale of its gradients, so its derivative along them is 0.
    fields.w = past * weighted;
    const Eigen::RowVectorXf norm = weighted.cwiseProduct(fields.w).colwise().sum();
    const Eigen::RowVectorXf inverse = norm.unaryExpr([](float q) { return q > 0 ? 1.0F / q : 0.0F; });
    fields.w = fields.w.cwiseProduct(fields.slope) * inverse.asDiagonal();
  }
  return fields;
}

Sampled InputMatrix::response(const Fields& fields, const Sampled& a, const Sampled& b) const {
  const auto rows = static_cast<float>(a.cols());
  const auto d = static_cast<float>(context_.spec.model.width);
  const auto variance = static_cast<float>(place_.stddev * place_.stddev);
  const Sampled cross = kernel_with_fault(history_.cross(), context_.fault);
  Sampled sum = (variance * d / rows) * history_.response().cwiseProduct(a * b.transpose());
  sum -= (d / rows) * cross.cwiseProduct(a * b.cwiseProduct(fields.slope).transpose());
  if (fields.w.size() > 0) sum += (d / rows) * (a.cwiseProduct(fields.v) * b.cwiseProduct(fields.w).transpose());
  return sum;
}

Sampled InputMatrix::backward(const Sampled& gradient, const CurrentTokens& now, double& square) {
  gradient_.middleRows(now.trained(), now.next()) = gradient;
  const auto rows_per_sample = static_cast<float>(place_.rows) / static_cast<float>(place_.drawn);
  const auto decay = static_cast<float>(context_.law.decay_factor(now.done));
  Sampled result;
  if (place_.transposed) {
    result = decay * (gradient * matrix().transpose());
  } else {
    NormalStream numbers = context_.draws.numbers(place_.sublayer, ReplicateDraws::Use::backward, place_.number);
    const float spread = decay * static_cast<float>(place_.stddev) * std::sqrt(rows_per_sample);
    result = spread * (gradient * numbers.normals_float(place_.drawn, context_.spec.model.width));
  }
  if (!entries_.empty()) result -= rows_per_sample * (gradient * context_.law.update_of(entries_));
  entries_.emplace_back(gradient.transpose() * history_.total().topRows(now.next()));
  square += rows_per_sample * entries_.back().cast<double>().squaredNorm();
  return result;
}

OutputMatrix::OutputMatrix(const ModuleContext& context, const InitialBranch& branch, int sublayer, Weight weight,
                           int fan_in, Index hidden)
    : context_(context),
      branch_(branch),
      sublayer_(sublayer),
      weight_(weight),
      fan_in_(fan_in),
      sigma_(stddev_of(context.spec, sublayer / 2, weight)),
      gradients_(context.tokens.trained(), context.spec.model.width),
      hidden_(context.tokens.trained(), hidden) {}

ModuleOutput OutputMatrix::output(const Sampled& before, const Sampled& hidden, const Sampled& update_input,
                                  const Sampled& other_response, const CurrentTokens& now) {
  const Index width = context_.spec.model.width;
  const double decay = context_.law.decay_factor(now.done);
  const double gain = sigma_ * sigma_ * fan_in_;
  const Eigen::VectorXf square = before.rowwise().squaredNorm();
  Eigen::VectorXf keep = before.cwiseProduct(hidden).rowwise().sum();
  for (Index s = 0; s < square.size(); ++s) keep(s) = square(s) > 0 ? keep(s) / square(s) : 1.0F;
  const Sampled other = hidden - keep.asDiagonal() * before;
  NormalStream numbers = context_.draws.numbers(sublayer_, ReplicateDraws::Use::other);
  const auto spread = static_cast<float>(decay * std::sqrt(gain / static_cast<double>(hidden.cols())));
  const Sampled response = static_cast<float>(gain) * decayed(other_response, context_.law, now);
  ModuleOutput module{
      .output = {.x = {.initial = static_cast<float>(decay) * keep.asDiagonal() * now.rows_of(branch_.output),
                       .independent = spread * (other * numbers.normals_float(hidden.cols(), width)),
                       .coherent = response * gradients_.topRows(now.trained())},
                 .correction = Matrix::Zero(now.count(), now.count()),
                 .response = response},
      .update_square = {{weight_, 0.0}}};
  if (now.done > 0) add_update(module, update_input, now);
  return module;
}

void OutputMatrix::add_update(ModuleOutput& module, const Sampled& hidden, const CurrentTokens& now) {
  const double n = fan_in_;
  const auto rows = static_cast<double>(hidden.cols());
  update_ = context_.law.update_of(entries_);
  const Sampled moved = static_cast<float>(-n / rows) * (hidden * update_);
  const Matrix square = (hidden * hidden.transpose()).cast<double>() / rows;
  const double mean_square = update_.squaredNorm() / static_cast<double>(update_.size());
  const Matrix sampled = (moved * moved.transpose()).cast<double>() / static_cast<double>(moved.cols());
  // Averaged over choices of channels, `sampled` is n²·(c + (mean_square·square − c)/rows); c is the coherent part.
  const Matrix noise = n * n / std::max(1.0, rows - 1.0) * (mean_square * square - sampled / (n * n));
  module.output.correction = context_.fault == StepFault::no_noise ? Matrix(-noise) : Matrix((rows / n - 1.0) * noise);
  const Sampled trained = hidden_.topRows(now.trained());
  const Sampled g = gradients_.topRows(now.trained());
  const Sampled gradient_kernel = g * g.transpose() / static_cast<float>(g.cols());
  const Sampled slopes = row_moments(gradient_kernel, trained, now, context_.law).slopes(now);
  module.output.response += static_cast<float>(-n / rows) * (hidden * trained.cwiseProduct(slopes).transpose());
  module.output.x.coherent += moved;
  const double decayed = std::pow((1.0 - context_.law.decay_factor(now.done)) * sigma_, 2) * n;
  module.update_square[weight_] =
      (sampled + module.output.correction + decayed * square).diagonal().tail(context_.tokens.held_out()).mean();
}

Sampled OutputMatrix::backward(const Sampled& gradients, const CurrentTokens& now) const {
  NormalStream numbers = context_.draws.numbers(sublayer_, ReplicateDraws::Use::last);
  const auto spread = static_cast<float>(sigma_ * context_.law.decay_factor(now.done));
  Sampled result = spread * (gradients * numbers.normals_float(gradients.cols(), hidden_.cols()));
  if (now.done > 0) result -= gradients * update_.transpose();
  return result;
}

void OutputMatrix::append(const Sampled& hidden, const Sampled& gradients, const CurrentTokens& now, double& square) {
  Sampled input = hidden;
  if (context_.fault == StepFault::no_token_mean) input.rowwise() -= input.colwise().mean().eval();
  hidden_.middleRows(now.trained(), now.next()) = input;
  gradients_.middleRows(now.trained(), now.next()) = gradients;
  entries_.emplace_back(input.transpose() * gradients);
  square += fan_in_ / static_cast<double>(input.cols()) * entries_.back().cast<double>().squaredNorm();
}

}  // namespace periscope::theory
