#include "theory/modules/channel_kernel.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "sim/spec/weight_scales.h"

namespace periscope::theory {
namespace {

std::vector<ChannelTerm> terms_of(const ChannelKernel& x) {
  return x.is_uniform() ? std::vector<ChannelTerm>{{Vector(), x.total}} : x.terms;
}

ChannelKernel sum_of(std::vector<ChannelTerm> terms) {
  const Index tokens = terms.front().kernel.product.rows();
  TokenKernel total{Matrix::Zero(tokens, tokens), Matrix::Zero(tokens, tokens)};
  for (const ChannelTerm& term : terms) {
    total.product += term.mean_power() * term.kernel.product;
    total.mean += term.kernel.mean;
  }
  return {std::move(total), std::move(terms)};
}

/// Normalises a term with per-channel gains; `scale` holds one factor per token.
ChannelTerm normalised_term(ChannelTerm x, NormKind kind, const Gain& gain, const Vector& scale) {
  const auto rescaled = [&](const Matrix& m) { return Matrix(scale.asDiagonal() * m * scale.asDiagonal()); };
  const auto width = static_cast<double>(gain.each.size());
  const Vector before = x.power.size() == 0 ? Vector(Vector::Ones(gain.each.size())) : x.power;
  const double mean_before = before.mean();
  ChannelTerm y;
  y.power = before.cwiseProduct(gain.each.cwiseAbs2());
  if (!subtracts_mean(kind)) {
    y.kernel.product = rescaled(x.kernel.product);
    // Keeps the ratio of mean kernel to mean power: product/D for independent channels, smaller after a LayerNorm.
    y.kernel.mean = rescaled(x.kernel.mean) * (mean_before > 0.0 ? y.power.mean() / mean_before : 0.0);
    return y;
  }
  if (mean_before > 0.0) x.kernel.product -= x.kernel.mean / mean_before;
  y.kernel.product = rescaled(x.kernel.product);
  // mean_k g_k(x_k − x̄) = mean_k (g_k − ḡ) x_k
  const Vector deviation = gain.each.array() - gain.each.mean();
  y.kernel.mean = (before.cwiseProduct(deviation.cwiseAbs2()).mean() / width) * y.kernel.product;
  return y;
}

/// Normalises a term with one gain shared by all channels.
ChannelTerm normalised_term(ChannelTerm x, NormKind kind, double gain, const Vector& scale) {
  const auto rescaled = [&](const Matrix& m) {
    return Matrix((gain * gain) * (scale.asDiagonal() * m * scale.asDiagonal()));
  };
  const double power = x.mean_power();
  if (subtracts_mean(kind)) {
    if (power > 0.0) x.kernel.product -= x.kernel.mean / power;
    x.kernel.mean.setZero();
  }
  return {std::move(x.power), {rescaled(x.kernel.product), rescaled(x.kernel.mean)}};
}

Vector squares(const std::vector<double>& sizes) {
  return Eigen::Map<const Vector>(sizes.data(), static_cast<Index>(sizes.size())).cwiseAbs2();
}

}  // namespace

Gain norm_gain(const StackSpec& spec, int sublayer, Weight norm) {
  const std::vector<double> gains = gain_of(spec, sublayer, norm);
  if (std::ranges::adjacent_find(gains, std::not_equal_to<>()) == gains.end()) return {.all = gains.front()};
  return {.each = Eigen::Map<const Vector>(gains.data(), static_cast<Index>(gains.size()))};
}

Matrix ChannelKernel::second_moments() const {
  if (is_uniform()) return total.product.diagonal();
  const Index tokens = total.product.rows();
  Index width = 1;
  for (const ChannelTerm& term : terms) width = std::max(width, term.power.size());
  const auto count = static_cast<Index>(terms.size());
  Matrix token_moments(tokens, count);
  Matrix channel_powers(width, count);
  for (Index i = 0; i < count; ++i) {
    const ChannelTerm& term = terms[static_cast<std::size_t>(i)];
    token_moments.col(i) = term.kernel.product.diagonal();
    if (term.power.size() == 0) {
      channel_powers.col(i).setOnes();
    } else {
      channel_powers.col(i) = term.power;
    }
  }
  return token_moments * channel_powers.transpose();
}

ChannelKernel normalised(const ChannelKernel& x, const NormUse& norm, const Gain& gain) {
  const NormLaw& law = law_of(norm.kind);
  if (x.is_uniform() && gain.is_uniform()) return {law.kernel(x.total, norm, gain.all), {}};
  const Vector scale = law.slope(law.trace(x.total, norm), norm, 1.0);
  std::vector<ChannelTerm> terms = terms_of(x);
  for (ChannelTerm& term : terms) {
    term = gain.is_uniform() ? normalised_term(std::move(term), norm.kind, gain.all, scale)
                             : normalised_term(std::move(term), norm.kind, gain, scale);
  }
  return sum_of(std::move(terms));
}

// Terms without channel powers are merged into one.
ChannelKernel combined(double a, const ChannelKernel& x, double b, const ChannelKernel& y) {
  if (x.is_uniform() && y.is_uniform()) return {combined(a, x.total, b, y.total), {}};
  std::vector<ChannelTerm> terms;
  const auto add = [&](double factor, const ChannelKernel& from) {
    for (ChannelTerm term : terms_of(from)) {
      term.kernel.product *= factor * factor;
      term.kernel.mean *= factor * factor;
      const auto is_uniform_term = [&](const ChannelTerm& t) { return t.power.size() == 0 && term.power.size() == 0; };
      if (const auto it = std::ranges::find_if(terms, is_uniform_term); it != terms.end()) {
        it->kernel = combined(1.0, it->kernel, 1.0, term.kernel);
      } else {
        terms.push_back(std::move(term));
      }
    }
  };
  if (a != 0.0) add(a, x);
  if (b != 0.0) add(b, y);
  if (terms.empty()) return {combined(a, x.total, b, y.total), {}};
  return sum_of(std::move(terms));
}

ChannelKernel with_bias(ChannelKernel x, double stddev, int width) {
  if (stddev == 0.0) return x;
  const Index tokens = x.total.product.rows();
  const Matrix same = Matrix::Constant(tokens, tokens, stddev * stddev);
  return combined(1.0, x, 1.0, {TokenKernel::of_independent_features(same, width), {}});
}

MatrixLaw matrix_law(const StackSpec& spec, int layer, Weight weight) {
  const double sigma = stddev_of(spec, layer, weight);
  const VarianceProfile profile = profile_of(spec, layer, weight);
  return {.variance = sigma * sigma, .rows = squares(profile.rows), .columns = squares(profile.columns)};
}

double mean_of(const Vector& side) { return side.size() == 0 ? 1.0 : side.mean(); }

double unevenness(const Vector& powers) {
  const double mean = mean_of(powers);
  return powers.size() == 0 || !(mean > 0.0) ? 1.0 : powers.cwiseAbs2().mean() / (mean * mean);
}

Matrix read_kernel(const ChannelKernel& x, const Vector& columns) {
  if (columns.size() == 0) return x.total.product;
  if (x.is_uniform()) return columns.mean() * x.total.product;
  Matrix sum = Matrix::Zero(x.total.product.rows(), x.total.product.cols());
  for (const ChannelTerm& term : x.terms) {
    const double mean_power =
        term.power.size() == 0 ? columns.mean() : columns.dot(term.power) / static_cast<double>(columns.size());
    sum += mean_power * term.kernel.product;
  }
  return sum;
}

ChannelKernel with_row_powers(const Matrix& product, const Vector& rows, int width) {
  if (rows.size() == 0) return {TokenKernel::of_independent_features(product, width), {}};
  const double mean = rows.mean();
  return {TokenKernel::of_independent_features(mean * product, width),
          {{rows, {product, product * (mean / static_cast<double>(width))}}}};
}

}  // namespace periscope::theory
