#include "theory/kernels/kernel.h"

#include <boost/math/quadrature/gauss_kronrod.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "sim/spec/weight.h"

namespace periscope::theory {
namespace {

/// Tokens of similar second moment, represented by their mean.
struct Group {
  double second_moment;
  double tokens;
};

/// Groups tokens by descending second moment into groups of 1, 1, 2, 4, 8 … tokens. Exact for equal tokens, and finest
/// for the largest tokens, which determine the maximum.
std::vector<Group> grouped(const Vector& second_moment) {
  std::vector<double> q(second_moment.begin(), second_moment.end());
  // Only the group of an entry matters, so the vector is partitioned instead of sorted: the entries before position
  // `size` are the largest, for size = 1, 2, 4 …
  for (std::size_t size = q.size() > 1 ? std::bit_floor(q.size() - 1) : 0, end = q.size(); size > 0; size /= 2) {
    std::ranges::nth_element(q.begin(), q.begin() + static_cast<std::ptrdiff_t>(size),
                             q.begin() + static_cast<std::ptrdiff_t>(end), std::greater<>());
    end = size;
  }
  std::vector<Group> groups;
  std::size_t size = 1;
  for (std::size_t first = 0; first < q.size(); first += size, size = first) {
    const std::size_t last = std::min(q.size(), first + size);
    const auto begin = q.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = q.begin() + static_cast<std::ptrdiff_t>(last);
    const auto tokens = static_cast<double>(last - first);
    groups.push_back({std::accumulate(begin, end, 0.0) / tokens, tokens});
  }
  return groups;
}

}  // namespace

TokenKernel combined(double a, const TokenKernel& x, double b, const TokenKernel& y) {
  return {a * a * x.product + b * b * y.product, a * a * x.mean + b * b * y.mean};
}

TokenKernel input_kernel(const StackSpec& spec, const std::vector<int>& ids) {
  const InputSpec& input = spec.input;
  const auto tokens = static_cast<Index>(ids.empty() ? static_cast<std::size_t>(input.tokens) : ids.size());
  const EmbeddingSpec& e = spec.model.embedding;
  // `moment` is in units of `unit`, which is the second moment shared by all tables, or 1 if they differ.
  const bool scaled = (spec.scales != nullptr || spec.init.embedding_std) && !ids.empty();
  const double unit = scaled ? 1.0 : input.second_moment;
  const auto moment = [&](Weight table) { return scaled ? std::pow(stddev_of(spec, 0, table), 2) : 1.0; };
  double looked_up = e.scale * e.scale * moment(Weight::embedding);
  if (spec.model.projects_embedding()) {
    const double std = stddev_of(spec, 0, Weight::project_in);
    looked_up *= std * std * spec.model.embedding_width();
  }
  const double position = e.positions > 0 ? moment(Weight::positions) : 0.0;
  const double token_type = e.token_types > 0 ? moment(Weight::token_types) : 0.0;
  Matrix k(tokens, tokens);
  for (Index t = 0; t < tokens; ++t) {
    for (Index s = 0; s < tokens; ++s) {
      if (ids.empty()) {
        k(t, s) = unit * (t == s ? 1.0 : input.correlation);
        continue;
      }
      const bool same = ids[static_cast<std::size_t>(t)] == ids[static_cast<std::size_t>(s)];
      const bool same_place = (t - s) % input.tokens == 0;
      k(t, s) = unit * (looked_up * (same ? 1.0 : 0.0) + (same_place ? position : 0.0) + token_type);
    }
  }
  return TokenKernel::of_independent_features(k, spec.model.width);
}

double token_cosine(const Matrix& k) {
  const auto tokens = static_cast<double>(k.rows());
  if (k.rows() < 2) return std::numeric_limits<double>::quiet_NaN();
  const Vector inverse = k.diagonal().cwiseSqrt().cwiseInverse();
  return (inverse.dot(k * inverse) - tokens) / (tokens * (tokens - 1));
}

double expected_maximum(const Vector& second_moment, int width) {
  const double largest = std::sqrt(second_moment.maxCoeff());
  if (!(largest > 0.0) || !std::isfinite(largest)) return largest;
  const std::vector<Group> groups = grouped(second_moment);
  const auto above = [&](double m) {
    double log_below = 0.0;
    for (const auto& [q, tokens] : groups) {
      if (q > 0.0) log_below += tokens * width * std::log1p(-std::erfc(m * largest / std::sqrt(2.0 * q)));
      if (log_below < -40.0) return 1.0;
    }
    return -std::expm1(log_below);
  };
  // Beyond 10 standard deviations 1 − erf is under 2e−23: negligible for any size that fits in memory.
  double end = 10.0;
  // The integrand is 1 up to `begin` and negligible beyond `end`. Bisection finds each to within 0.04.
  double begin = 0.0;
  for (double step = end / 2.0; step > end / 512.0; step /= 2.0) {
    if (above(begin + step) == 1.0) begin += step;
  }
  for (double step = (end - begin) / 2.0; step > 0.02; step /= 2.0) {
    if (above(end - step) < 1e-14) end -= step;
  }
  constexpr unsigned halvings = 15;
  // The rule overestimates its error. Most results have an error below 1e-10; the error reaches 1e-7 for one or two
  // entries per token with second moments that differ by many orders of magnitude.
  constexpr double tolerance = 1e-7;
  using Rule = boost::math::quadrature::gauss_kronrod<double, 21>;
  return largest * (begin + Rule::integrate(above, begin, end, halvings, tolerance));
}

double typical_maximum(double n, double sigma) {
  const double root = std::sqrt(2.0 * std::log(n));
  return sigma * (root - (std::log(std::log(n)) + std::log(4.0 * std::numbers::pi)) / (2.0 * root));
}

}  // namespace periscope::theory
