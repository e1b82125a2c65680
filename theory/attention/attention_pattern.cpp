#include "theory/attention/attention_pattern.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>

#include "theory/attention/flushed_subnormals.h"
#include "theory/attention/pattern_products.h"

namespace periscope::theory {
namespace {

Matrix sandwich(const Matrix& a, const Matrix& k) { return a * k * a.transpose(); }

/// Averages A K Aᵀ over patterns. A·unit·Aᵀ is summed in float; terms with row means of K need only the mean pattern.
class OutputKernelSum {
 public:
  explicit OutputKernelSum(const CentredKernel& values)
      : values_(values), pattern_(Sample::Zero(values.unit.rows(), values.unit.rows())), of_unit_(pattern_) {}
  void add(const SampledPattern& p) {
    pattern_ += p.a;
    of_unit_ += p.output_kernel;
  }
  [[nodiscard]] Matrix mean(int samples) const {
    const float share = 1.0F / static_cast<float>(samples);
    return values_.output_kernel(share * pattern_, share * of_unit_);
  }

 private:
  const CentredKernel& values_;
  Sample pattern_, of_unit_;
};

/// Returns the random numbers for draws other than patterns: a separate stream, so these draws do not change patterns.
NormalStream other_numbers_of(PatternStream stream) {
  stream.sublayer += place::second_set;
  return numbers_of(stream);
}

}  // namespace

bool is_uniform(const PatternLaw& law) {
  return (law.query.variance == 0.0 && law.query.bias == 0.0) || (law.key.variance == 0.0 && law.key.bias == 0.0);
}

Matrix uniform_pattern(Index tokens, const PatternLaw& law) {
  Matrix a = Matrix::Zero(tokens, tokens);
  for (Index t = 0; t < tokens; ++t) {
    const Index first = law.first_seen(t);
    const Index visible = law.end_seen(t, tokens) - first;
    a.row(t).segment(first, visible).setConstant(1.0 / static_cast<double>(visible));
  }
  return a;
}

template <class Visit>
void AttentionAverage::for_heads(const ScaledKernel& of_query, const ScaledKernel& of_key, int samples,
                                 PatternStream stream, const Visit& visit) const {
  NormalStream numbers = numbers_of(stream);
  for (int i = 0; i < samples; i += 2) {
    const int patterns = std::min(2, samples - i);
    {
      const FlushedSubnormals flushed;  // reset before on_work is called
      visit(head_.draw(numbers, of_query, of_key), patterns);
    }
    if (stream.on_work != nullptr) (*stream.on_work)(patterns);
  }
}

std::vector<SampledPattern> AttentionAverage::patterns_of(const HeadSample& head, const CentredKernel& values,
                                                          int count) const {
  std::vector<SampledPattern> patterns(static_cast<std::size_t>(count));
  float sign = 1.0F;
  for (SampledPattern& p : patterns) {
    p.a = head_.pattern(head, sign);
    sign = -sign;
    const FloatFactor a = factor_of(p.a, law_.causal);
    product_into(p.times_k, a, factor_of(values.unit));
    symmetric_product_into(p.output_kernel, factor_of(p.times_k), transposed(a));
  }
  return patterns;
}

// For logits this large a pattern selects one token except for rare ties, and cancellation spoils the closed form.
// Sampled gradients stay accurate, because they square a difference.
bool AttentionAverage::softmax_saturates(const Matrix& k) const {
  constexpr double largest_logit = 1e3;
  const double e = law_.head_dim;
  const double variance = law_.qk_norm == QkNorm::none
                              ? law_.query.variance * law_.key.variance * std::pow(k.diagonal().maxCoeff(), 2)
                              : 1.0;
  return law_.scale() * std::sqrt(e * variance) > largest_logit;
}

Matrix AttentionAverage::head_output_kernel(const Matrix& of_query, const Matrix& of_key, const Matrix& of_value,
                                            int samples, PatternStream stream) const {
  const bool one_kernel = &of_query == &of_key;
  if (grid_ != nullptr) {
    if (!one_kernel) throw std::logic_error("unsupported on a token grid: different kernels for queries and keys");
    return grid_->head_output_kernel(of_query, of_value, samples, stream);
  }
  if (is_uniform(law_)) return sandwich(uniform_pattern(of_value.rows(), law_), of_value);
  const CentredKernel values(of_value, scale_of(of_value));
  const ScaledKernel query(of_query);
  const std::optional<ScaledKernel> key = one_kernel ? std::nullopt : std::optional<ScaledKernel>(of_key);
  OutputKernelSum sum(values);
  for_heads(query, key ? *key : query, samples, stream, [&](const HeadSample& head, int patterns) {
    for (const SampledPattern& p : patterns_of(head, values, patterns)) sum.add(p);
  });
  return sum.mean(samples);
}

HeadGradients AttentionAverage::gradients(const Matrix& k, const Matrix& of_value, const Matrix& g, int samples,
                                          PatternStream stream) const {
  if (grid_gradients_ != nullptr) {
    GridHeadGradients grid = grid_gradients_->gradients(k, of_value, g, samples, stream);
    const PatternStream silent{stream.seed, stream.replicate, stream.sublayer + place::second_set};
    return {.output = grid_->head_output_kernel(k, of_value, samples, silent),
            .value = std::move(grid.value),
            .query = std::move(grid.query),
            .key = std::move(grid.key)};
  }
  const Index tokens = k.rows();
  const Matrix zero = Matrix::Zero(tokens, tokens);
  if (law_.query.variance == 0.0 && law_.key.variance == 0.0) {
    const Matrix a = uniform_pattern(tokens, law_);
    return {.output = sandwich(a, of_value), .value = sandwich(a.transpose(), g), .query = zero, .key = zero};
  }
  if (softmax_saturates(k)) return sampled_gradients(k, of_value, g, samples, stream);
  NormalStream other = other_numbers_of(stream);
  const ScaledKernel input(k);
  const bool one_kernel = &k == &of_value;
  const ScaledKernel scaled_values = one_kernel ? input : ScaledKernel(of_value);
  const CentredKernel values(of_value, scaled_values.scale);
  const ScaledKernel output(g);
  const bool no_scores = values.vanishes();  // all values are equal, so the softmax Jacobian gives 0
  OutputKernelSum output_kernel(values);
  ScorePathSum scores(law_, head_, scaled_values, values, output);
  Sample value = Sample::Zero(tokens, tokens);
  Sample ga;
  Sample aga;
  for_heads(input, input, samples, stream, [&](const HeadSample& head, int patterns) {
    const std::vector<SampledPattern> both = patterns_of(head, values, patterns);
    for (const SampledPattern& p : both) {
      output_kernel.add(p);
      const FloatFactor a = factor_of(p.a, law_.causal);
      product_into(ga, factor_of(output.unit), a);
      product_into(aga, transposed(a), factor_of(ga), true);
      value += aga;
    }
    if (!no_scores) scores.add(head, both, other);
  });
  mirror_lower(value);
  if (!no_scores) scores.finish();
  const double factor = law_.head_dim * scaled_values.scale * output.scale / samples;
  return {.output = output_kernel.mean(samples),
          .value = value.cast<double>() * (output.scale / samples),
          .query = no_scores ? zero : Matrix(scores.query().cast<double>() * factor),
          .key = no_scores ? zero : Matrix(scores.key().cast<double>() * factor)};
}

HeadGradients AttentionAverage::sampled_gradients(const Matrix& k, const Matrix& of_value, const Matrix& g, int samples,
                                                  PatternStream stream) const {
  const Index tokens = k.rows();
  const Matrix zero = Matrix::Zero(tokens, tokens);
  HeadGradients sum{zero, zero, zero, zero};
  NormalStream other = other_numbers_of(stream);
  const ScaledKernel input(k);
  const bool one_kernel = &k == &of_value;
  const ScaledKernel scaled_values = one_kernel ? input : ScaledKernel(of_value);
  const CentredKernel values(of_value, scaled_values.scale);
  const ScaledKernel output(g);
  OutputKernelSum output_kernel(values);
  for_heads(input, input, samples, stream, [&](const HeadSample& head, int patterns) {
    const Sample logit_derivative = head_.logit_derivative(head);
    for (const SampledPattern& p : patterns_of(head, values, patterns)) {
      output_kernel.add(p);
      sum.value += (p.a.transpose() * output.unit * p.a).cast<double>();
      const Sample value = scaled_values.unit_factor * other.normals_float(tokens, law_.head_dim);
      const Sample cotangent = output.unit_factor * other.normals_float(tokens, law_.head_dim);
      const Sample da = cotangent * value.transpose();
      const Eigen::VectorXf mean = p.a.cwiseProduct(da).rowwise().sum();
      const Sample dz = p.a.cwiseProduct(da.colwise() - mean).cwiseProduct(logit_derivative);
      // The second pattern belongs to (−q, k); the sign of q cancels in the outer products below.
      const Sample dq = head_.pull_back(head.query, dz * head.key.rotated, law_.query.heads);
      const Sample dk = head_.pull_back(head.key, dz.transpose() * head.query.rotated, law_.key.heads);
      sum.query += (dq * dq.transpose()).cast<double>();
      sum.key += (dk * dk.transpose()).cast<double>();
    }
  });
  const double factor = scaled_values.scale * output.scale / samples;
  return {.output = output_kernel.mean(samples),
          .value = sum.value * (output.scale / samples),
          .query = sum.query * factor,
          .key = sum.key * factor};
}

}  // namespace periscope::theory
