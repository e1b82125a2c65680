#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "sim/measure/running_moments.h"
#include "sim/model/input.h"
#include "sim/model/weights.h"
#include "tests/formats/stack.h"
#include "tests/support/doctest.h"

/// T27 against a stack that this file computes itself, in plain loops: Pre-LN, causal attention without RoPE, ReLU, in
/// double, where matrices and what they read may be rounded to whole numbers with a scale per row.
namespace periscope::testing {
namespace {

using formats::FormatsConfig;
using Rows = std::vector<std::vector<double>>;

/// Absmax-scaled whole numbers −Q … Q; Q = 0 rounds nothing.
void round_row(std::vector<double>& x, int largest) {
  if (largest == 0) return;
  double most = 0.0;
  for (const double v : x) most = std::max(most, std::abs(v));
  const double step = most / largest;
  for (double& v : x) v -= std::remainder(v, step);
}

Rows rounded(Rows x, int largest) {
  for (std::vector<double>& row : x) round_row(row, largest);
  return x;
}

/// y_ti = Σ_j x_tj w_ij
Rows product(const Rows& x, const Rows& w) {
  Rows y(x.size(), std::vector<double>(w.size(), 0.0));
  for (std::size_t t = 0; t < x.size(); ++t) {
    for (std::size_t i = 0; i < w.size(); ++i) {
      for (std::size_t j = 0; j < w[i].size(); ++j) y[t][i] += x[t][j] * w[i][j];
    }
  }
  return y;
}

Rows normalised(Rows x, double eps) {
  for (std::vector<double>& row : x) {
    double square = 0.0;
    for (const double v : row) square += v * v / static_cast<double>(row.size());
    for (double& v : row) v /= std::sqrt(square + eps);
  }
  return x;
}

Rows attended(const Rows& q, const Rows& k, const Rows& v, std::size_t heads) {
  const std::size_t e = q[0].size() / heads;
  Rows mixed(q.size(), std::vector<double>(q[0].size(), 0.0));
  for (std::size_t head = 0; head < heads; ++head) {
    for (std::size_t t = 0; t < q.size(); ++t) {
      std::vector<double> weights;
      double total = 0.0;
      for (std::size_t s = 0; s <= t; ++s) {
        double score = 0.0;
        for (std::size_t i = head * e; i < (head + 1) * e; ++i) score += q[t][i] * k[s][i];
        weights.push_back(std::exp(score / std::sqrt(static_cast<double>(e))));
        total += weights.back();
      }
      for (std::size_t s = 0; s <= t; ++s) {
        for (std::size_t i = head * e; i < (head + 1) * e; ++i) mixed[t][i] += weights[s] / total * v[s][i];
      }
    }
  }
  return mixed;
}

Rows rows_of(const Tensor& x) {
  const std::vector<double> values = quick().to_host(x);
  Rows rows;
  for (Tensor::Index i = 0; i < x.rows(); ++i) {
    rows.emplace_back(values.begin() + i * x.cols(), values.begin() + (i + 1) * x.cols());
  }
  return rows;
}

/// The stream behind the stack, with whole numbers up to `largest` or exactly.
Rows stream_of(const FormatsConfig& config, std::uint64_t seed, int largest) {
  const ModelSpec& m = config.base.model;
  const GeneratedWeights weights(quick(), config.base, DType::f64, seed);
  Rows x = rows_of(gaussian_input(quick(), config.base, DType::f64, seed));
  for (int l = 0; l < m.sublayers(); ++l) {
    const SublayerWeights of_sublayer = weights.fetch(l);
    const auto read = [&](const Rows& y, Weight w) {
      return product(rounded(y, largest), rounded(rows_of(of_sublayer.matrix(w).map->dense()), largest));
    };
    const Rows a = normalised(x, m.norm_eps);
    Rows f;
    if (ModelSpec::is_attention(l)) {
      f = read(attended(read(a, Weight::q), read(a, Weight::k), read(a, Weight::v), static_cast<std::size_t>(m.heads)),
               Weight::o);
    } else {
      Rows hidden = read(a, Weight::up);
      for (std::vector<double>& row : hidden) {
        for (double& h : row) h = std::max(h, 0.0);
      }
      f = read(hidden, Weight::down);
    }
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t i = 0; i < x[t].size(); ++i) x[t][i] += f[t][i];
    }
  }
  return x;
}

TEST_CASE("T27 against a stack in plain loops: ReLU, INT8 and INT4, Pre-LN") {
  FormatsConfig config = small_config("pre", {"int8", "int4"});
  ModelSpec& m = config.base.model;
  m.layers = 4;
  m.width = 96;
  m.heads = m.kv_heads = 4;
  m.head_dim = 24;
  m.mlp = MlpKind::relu;
  m.mlp_width = 384;
  m.rope = false;
  m.vocab = 96;
  config.base.input.tokens = 12;
  config.rest = "fp32";
  // INT8, INT4: measured here minus predicted, and minus what the pass in the format has.
  std::array<RunningMoments, 2> off;
  std::array<RunningMoments, 2> apart;
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    const formats::SeedReading reading = reading_of(config, seed);
    const Rows exact = stream_of(config, seed, 0);
    for (std::size_t f = 0; f < 2; ++f) {
      const Rows held = stream_of(config, seed, f == 0 ? 127 : 7);
      double signal = 0.0;
      double noise = 0.0;
      for (std::size_t t = 0; t < exact.size(); ++t) {
        for (std::size_t i = 0; i < exact[t].size(); ++i) {
          signal += exact[t][i] * exact[t][i];
          noise += std::pow(held[t][i] - exact[t][i], 2.0);
        }
      }
      const double sqnr = 10.0 * std::log10(signal / noise);
      const formats::PassReading& pass = reading.passes[0][f + 1];
      off[f].add(sqnr - pass.predicted.back());
      apart[f].add(sqnr - number_of(config, pass, {Pass::forward, Signal::x_out}, formats::Measure::sqnr, 7));
    }
  }
  for (std::size_t f = 0; f < 2; ++f) {
    INFO(config.format[f], ": ", off[f].mean(), " ± ", off[f].standard_error(), ", apart ", apart[f].mean());
    // The pass computes in f32, where now and then a number beside a tie goes the other way.
    CHECK(std::abs(apart[f].mean()) < 0.1);
    // Four standard errors of about 0.12, and second order: INT4's noise of a sixth of the signal has at most a share
    // of a sixth more or less, 0.1 dB a layer of which the sum is half.
    CHECK(off[f].standard_error() < 0.2);
    CHECK(std::abs(off[f].mean()) < 2.0 * off[f].standard_error() + (f == 0 ? 0.1 : 0.2));
  }
}

}  // namespace
}  // namespace periscope::testing
