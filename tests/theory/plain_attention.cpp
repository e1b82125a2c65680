#include "tests/theory/plain_attention.h"

#include <boost/random/mersenne_twister.hpp>
#include <boost/random/normal_distribution.hpp>

#include <algorithm>
#include <cmath>
#include <complex>

namespace periscope::testing {
namespace {

using Rows = std::vector<std::vector<double>>;

/// Lower triangular F with F Fᵀ = k; a zero pivot (a token that repeats an earlier one) gives a zero column.
Rows cholesky(const theory::Matrix& k) {
  const auto n = static_cast<std::size_t>(k.rows());
  const auto entry = [&](std::size_t i, std::size_t j) {
    return k(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j));
  };
  Rows f(n, std::vector<double>(n, 0.0));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double rest = entry(i, j);
      for (std::size_t m = 0; m < j; ++m) rest -= f[i][m] * f[j][m];
      if (i == j) f[i][i] = std::sqrt(std::max(rest, 0.0));
      if (i != j && f[j][j] > 1e-7) f[i][j] = rest / f[j][j];
    }
  }
  return f;
}

class PlainAttention {
 public:
  PlainAttention(const theory::PatternLaw& law, const theory::Matrix& k, unsigned seed)
      : law_(law), factor_(cholesky(k)), engine_(seed) {}

  /// Head 0's pattern of one draw of all queries and keys.
  Rows pattern() {
    const Rows q = projection(law_.query_variance, law_.query_heads);
    const Rows k = projection(law_.key_variance, law_.key_heads);
    const std::size_t tokens = q.size();
    Rows a(tokens, std::vector<double>(tokens, 0.0));
    for (std::size_t t = 0; t < tokens; ++t) {
      double total = 0.0;
      for (std::size_t s = 0; s < (law_.causal ? t + 1 : tokens); ++s) {
        if (law_.scores.window > 0 && s + static_cast<std::size_t>(law_.scores.window) <= t) continue;
        double z = 0.0;
        for (std::size_t i = 0; i < head_dim(); ++i) z += q[t][i] * k[s][i];
        z *= law_.scores.scale != 0.0 ? law_.scores.scale : 1.0 / std::sqrt(law_.head_dim);
        if (law_.scores.soft_cap > 0.0) z = law_.scores.soft_cap * std::tanh(z / law_.scores.soft_cap);
        a[t][s] = std::exp(z);
        total += a[t][s];
      }
      for (double& weight : a[t]) weight /= total;
    }
    return a;
  }

 private:
  [[nodiscard]] std::size_t head_dim() const { return static_cast<std::size_t>(law_.head_dim); }

  Rows projection(double variance, int heads) {
    const std::size_t tokens = factor_.size();
    const std::size_t width = head_dim() * static_cast<std::size_t>(heads);
    Rows x(tokens, std::vector<double>(width, 0.0));
    for (std::size_t i = 0; i < width; ++i) {
      std::vector<double> z(tokens);
      for (double& v : z) v = std::sqrt(variance) * unit_(engine_);
      for (std::size_t t = 0; t < tokens; ++t) {
        for (std::size_t s = 0; s <= t; ++s) x[t][i] += factor_[t][s] * z[s];
      }
    }
    for (std::size_t t = 0; t < tokens; ++t) {
      if (law_.qk_norm != QkNorm::none) divide_by_rms(x[t], law_.qk_norm == QkNorm::full ? width : head_dim());
      if (law_.rope) rotate(x[t], static_cast<double>(t));
    }
    return x;
  }

  /// By the rms of the first `count` features: those of head 0, or all. Only head 0 is read afterwards.
  void divide_by_rms(std::vector<double>& x, std::size_t count) const {
    double square = 0.0;
    for (std::size_t i = 0; i < count; ++i) square += x[i] * x[i] / static_cast<double>(count);
    for (double& v : x) v /= std::sqrt(square + law_.norm_eps);
  }

  void rotate(std::vector<double>& x, double position) const {
    const std::size_t half = head_dim() / 2;
    for (std::size_t i = 0; i < half; ++i) {
      const double frequency = law_.rope_frequencies.empty()
                                   ? std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(half))
                                   : law_.rope_frequencies[i];
      const double angle = position * frequency;
      const std::complex<double> turned = std::complex(x[i], x[half + i]) * std::polar(1.0, angle);
      x[i] = turned.real();
      x[half + i] = turned.imag();
    }
  }

  theory::PatternLaw law_;
  Rows factor_;
  boost::random::mt19937 engine_;
  boost::random::normal_distribution<double> unit_;
};

}  // namespace

std::vector<Estimate> plain_head_output_kernel(const theory::PatternLaw& law, const theory::Matrix& k, int samples,
                                               unsigned seed) {
  PlainAttention attention(law, k, seed);
  const auto tokens = static_cast<std::size_t>(k.rows());
  std::vector<std::vector<double>> draws(tokens * tokens);
  for (int n = 0; n < samples; ++n) {
    const Rows a = attention.pattern();
    for (std::size_t t = 0; t < tokens; ++t) {
      for (std::size_t s = 0; s < tokens; ++s) {
        double sum = 0.0;
        for (std::size_t i = 0; i < tokens; ++i) {
          for (std::size_t j = 0; j < tokens; ++j) {
            sum += a[t][i] * k(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j)) * a[s][j];
          }
        }
        draws[t * tokens + s].push_back(sum);
      }
    }
  }
  std::vector<Estimate> estimates;
  for (const std::vector<double>& draw : draws) estimates.push_back(estimate(draw));
  return estimates;
}

}  // namespace periscope::testing
