#include "tests/theory/dense_stack.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <numbers>

#include "sim/spec/weight.h"

namespace periscope::testing {
namespace {

using Matrix = Eigen::MatrixXd;

class DenseStack {
 public:
  DenseStack(const StackSpec& spec, std::mt19937_64& random, Mistake mistake)
      : spec_(spec), m_(spec.model), random_(random), mistake_(mistake) {}

  Profile run(const std::vector<int>& ids) {
    Matrix x = input(ids);
    if (m_.embedding_norm) x = norm(x);
    Matrix r = x;
    read(Signal::x_out, x);
    if (m_.placement.wiring == Wiring::dual) read(Signal::r_out, r);
    for (int l = 0; l < m_.sublayers(); ++l) {
      layer_ = ModelSpec::layer_of(l);
      const SublayerRule rule = m_.rule(l);
      read(Signal::x_in, x);
      const Matrix a = rule.input_gain * (rule.norm_a ? norm(x) : x);
      read(Signal::A_out, a);
      const Matrix f = ModelSpec::is_attention(l) ? attention(a) : mlp(a);
      read(Signal::f_out, f);
      const Matrix b = rule.norm_b ? norm(f) : f;
      read(Signal::B_out, b);
      const auto tokens = static_cast<double>(x.rows());
      double ratio = 0.0;
      double cosine = 0.0;
      for (int t = 0; t < x.rows(); ++t) {
        ratio += std::abs(rule.beta / rule.alpha) * b.row(t).norm() / x.row(t).norm() / tokens;
        cosine += b.row(t).dot(x.row(t)) / (b.row(t).norm() * x.row(t).norm()) / tokens;
      }
      add(Statistic::branch_ratio, Signal::B_out, ratio);
      add(Statistic::branch_cosine, Signal::B_out, cosine);
      x = rule.alpha * x + rule.beta * b;
      if (rule.norm_c) x = norm(x);
      read(Signal::x_out, x);
      r += rule.beta * b;
      if (m_.placement.wiring == Wiring::dual) read(Signal::r_out, r);
    }
    return profile_;
  }

 private:
  Matrix normal(int rows, int cols, double stddev) {
    std::normal_distribution<double> law;
    Matrix w(rows, cols);
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < cols; ++j) w(i, j) = stddev * law(random_);
    }
    return w;
  }

  Matrix linear(const Matrix& x, Weight weight) {
    const auto [fan_out, fan_in] = shape_of(m_, weight);
    return x * normal(fan_out, fan_in, stddev_of(spec_, layer_, weight)).transpose();
  }

  Matrix input(const std::vector<int>& ids) {
    const InputSpec& in = spec_.input;
    const double rms = std::sqrt(in.second_moment);
    if (ids.empty()) {
      const Matrix common = normal(1, m_.width, rms * std::sqrt(in.correlation));
      return normal(in.tokens, m_.width, rms * std::sqrt(1.0 - in.correlation)) + common.replicate(in.tokens, 1);
    }
    const EmbeddingSpec& e = m_.embedding;
    const auto stddev = [&](Weight of) { return stddev_of(spec_, 0, of); };
    const Matrix table = normal(m_.vocab, m_.embedding_width(), stddev(Weight::embedding));
    Matrix x(in.tokens, table.cols());
    for (int t = 0; t < in.tokens; ++t) x.row(t) = e.scale * table.row(ids[static_cast<std::size_t>(t)]);
    if (m_.projects_embedding()) x = linear(x, Weight::project_in);
    if (e.positions > 0) x += normal(e.positions, m_.width, stddev(Weight::positions)).topRows(in.tokens);
    if (e.token_types > 0) x += normal(1, m_.width, stddev(Weight::token_types)).replicate(in.tokens, 1);
    return x;
  }

  Matrix norm(const Matrix& x) const {
    Matrix y = x;
    for (int t = 0; t < x.rows(); ++t) {
      const bool centred = m_.norm == NormKind::layer && mistake_ != Mistake::mean_not_removed;
      if (centred) y.row(t).array() -= x.row(t).mean();
      y.row(t) *= m_.gamma / std::sqrt(y.row(t).squaredNorm() / static_cast<double>(x.cols()) + m_.norm_eps);
    }
    return y;
  }

  /// QK-norm and RoPE of `heads` heads side by side.
  Matrix prepared(Matrix x, int heads) const {
    const int e = m_.head_dim;
    const bool jointly = m_.qk_norm == QkNorm::full && mistake_ != Mistake::heads_normalised_singly;
    const int part = jointly ? heads * e : e;
    for (int t = 0; t < x.rows(); ++t) {
      for (int first = 0; m_.qk_norm != QkNorm::none && first < heads * e; first += part) {
        auto p = x.row(t).segment(first, part);
        p /= std::sqrt(p.squaredNorm() / part + m_.norm_eps);
      }
      for (int h = 0; m_.rope && h < heads; ++h) {
        for (int i = 0; i < e / 2; ++i) {
          const double angle = t * std::pow(10000.0, -2.0 * i / e);
          double& a = x(t, h * e + i);
          double& b = x(t, h * e + e / 2 + i);
          const double turned = a * std::cos(angle) - b * std::sin(angle);
          b = b * std::cos(angle) + a * std::sin(angle);
          a = turned;
        }
      }
    }
    return x;
  }

  Matrix attention(const Matrix& x) {
    const int e = m_.head_dim;
    const auto tokens = static_cast<int>(x.rows());
    const Matrix q = prepared(linear(x, Weight::q), m_.heads);
    const Matrix k = prepared(linear(x, Weight::k), m_.kv_heads);
    Matrix v = normed(linear(x, Weight::v), m_.v_norm ? e : 0);
    Matrix head_outputs = Matrix::Zero(tokens, m_.query_width());
    for (int h = 0; h < m_.heads; ++h) {
      const int group = h / (m_.heads / m_.kv_heads);
      if (mistake_ == Mistake::values_not_shared) v = linear(x, Weight::v);
      for (int t = 0; t < tokens; ++t) {
        const int seen = m_.causal ? t + 1 : tokens;
        Eigen::ArrayXd weight(seen);
        for (int s = 0; s < seen; ++s) {
          weight[s] = q.row(t).segment(h * e, e).dot(k.row(s).segment(group * e, e)) / std::sqrt(e);
        }
        weight = (weight - weight.maxCoeff()).exp();
        weight /= weight.sum();
        for (int s = 0; s < seen; ++s) {
          head_outputs.row(t).segment(h * e, e) += weight[s] * v.row(s).segment(group * e, e);
        }
      }
    }
    if (m_.attention_gate != AttentionGate::none) {
      const Matrix gate = linear(x, Weight::attention_gate);
      const int channels = m_.attention_gate == AttentionGate::head ? e : 1;
      for (int i = 0; i < head_outputs.cols(); ++i) {
        head_outputs.col(i).array() *= (1.0 + (-gate.col(i / channels).array()).exp()).inverse();
      }
    }
    const bool inner = m_.inner_norm == InnerNorm::o || m_.inner_norm == InnerNorm::both;
    return linear(normed(head_outputs, inner ? m_.query_width() : 0), Weight::o);
  }

  /// Every row's parts of `part` features over their root mean square; 0: no norm.
  [[nodiscard]] Matrix normed(Matrix x, int part) const {
    for (int first = 0; part > 0 && first < x.cols(); first += part) {
      for (int t = 0; t < x.rows(); ++t) {
        auto p = x.row(t).segment(first, part);
        p /= std::sqrt(p.squaredNorm() / part + m_.norm_eps);
      }
    }
    return x;
  }

  [[nodiscard]] double activated(double u) const {
    switch (activation_of(m_.mlp)) {
      case Activation::relu: return std::max(u, 0.0);
      case Activation::silu: return u / (1.0 + std::exp(-u));
      case Activation::gelu: return u * 0.5 * (1.0 + std::erf(u / std::numbers::sqrt2));
      case Activation::sigmoid: return 1.0 / (1.0 + std::exp(-u));
      case Activation::gelu_tanh:
        return 0.5 * u * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (u + 0.044715 * u * u * u)));
    }
    return 0.0;
  }

  Matrix mlp(const Matrix& x) {
    Matrix hidden = linear(x, is_gated(m_.mlp) ? Weight::gate : Weight::up);
    for (double& u : hidden.reshaped()) u = activated(u);
    if (is_gated(m_.mlp)) hidden = hidden.cwiseProduct(linear(x, Weight::up));
    const bool inner = m_.inner_norm == InnerNorm::down || m_.inner_norm == InnerNorm::both;
    return linear(normed(hidden, inner ? m_.mlp_width : 0), Weight::down);
  }

  void add(Statistic statistic, Signal site, double value) {
    profile_.curves[{statistic, site}].value.push_back(value);
  }

  void read(Signal site, const Matrix& x) {
    const auto tokens = static_cast<double>(x.rows());
    double variance = 0.0;
    double cosine = 0.0;
    for (int t = 0; t < x.rows(); ++t) {
      variance += (x.row(t).array() - x.row(t).mean()).square().mean() / tokens;
      for (int s = 0; s < x.rows(); ++s) {
        if (s != t) cosine += x.row(t).dot(x.row(s)) / (x.row(t).norm() * x.row(s).norm()) / (tokens * (tokens - 1));
      }
    }
    add(Statistic::second_moment, site, x.array().square().mean());
    add(Statistic::variance, site, variance);
    add(Statistic::mean, site, x.mean());
    if (x.rows() > 1) add(Statistic::token_cosine, site, cosine);
  }

  const StackSpec& spec_;
  const ModelSpec& m_;
  std::mt19937_64& random_;
  Mistake mistake_;
  int layer_ = 0;
  Profile profile_;
};

/// Mean, standard deviation and their standard errors: of the logarithm of the deviation from the fourth moment.
struct Moments {
  double mean, error, log_deviation, log_error;

  explicit Moments(const std::vector<double>& x) {
    const auto n = static_cast<double>(x.size());
    mean = 0.0;
    for (const double v : x) mean += v / n;
    double second = 0.0;
    double fourth = 0.0;
    for (const double v : x) second += std::pow(v - mean, 2) / n;
    for (const double v : x) fourth += std::pow(v - mean, 4) / n;
    error = std::sqrt(second / n);
    log_deviation = 0.5 * std::log(second);
    log_error = std::sqrt((fourth / (second * second) - 1.0) / (4.0 * n));
  }
};

std::vector<double> column(const std::vector<Profile>& all, std::pair<Statistic, Signal> key, std::size_t index) {
  std::vector<double> values;
  for (const Profile& p : all) values.push_back(p.curves.at(key).value.at(index));
  return values;
}

}  // namespace

Profile dense_reading(const StackSpec& spec, const std::vector<int>& ids, std::mt19937_64& random, Mistake mistake) {
  return DenseStack(spec, random, mistake).run(ids);
}

std::vector<Profile> readings(int replicates, const std::function<Profile(int)>& reading) {
  std::vector<Profile> all(static_cast<std::size_t>(replicates));
#pragma omp parallel for schedule(dynamic, 16)
  for (int i = 0; i < replicates; ++i) all[static_cast<std::size_t>(i)] = reading(i);
  return all;
}

std::vector<std::string> differences(const std::vector<Profile>& a, const std::vector<Profile>& b, double limit) {
  std::vector<std::string> found;
  for (const auto& [key, curve] : b.front().curves) {
    for (std::size_t i = 0; i < curve.value.size(); ++i) {
      const Moments x(column(a, key, i));
      const Moments y(column(b, key, i));
      if (std::isnan(x.mean) && std::isnan(y.mean)) continue;  // a cosine of a token that may be 0
      const double scale = 1.0 + std::abs(y.mean);
      const std::string cell =
          fmt::format("{} {}[{}]", statistic_names[static_cast<std::size_t>(key.first)], name_of(key.second), i);
      const double mean = std::abs(x.mean - y.mean);
      if (!(mean <= std::max(1e-9 * scale, limit * std::hypot(x.error, y.error)))) {
        found.push_back(fmt::format("mean of {}: {:g} and {:g}", cell, x.mean, y.mean));
      }
      if (x.log_deviation < std::log(1e-9 * scale) && y.log_deviation < std::log(1e-9 * scale)) continue;
      const double deviation = std::abs(x.log_deviation - y.log_deviation);
      if (!(deviation <= limit * std::hypot(x.log_error, y.log_error))) {
        found.push_back(
            fmt::format("deviation of {}: {:g} and {:g}", cell, std::exp(x.log_deviation), std::exp(y.log_deviation)));
      }
    }
  }
  return found;
}

}  // namespace periscope::testing
