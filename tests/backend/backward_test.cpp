#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/gradient_tolerances.h"
#include "tests/support/twin.h"

/// Every backward op of every backend against the reference.
namespace periscope::testing {
namespace {

using Index = Tensor::Index;
using Values = std::vector<double>;

/// Compares a target's tensor with the truth, entry by entry within relative·magnitude.
void check_within(const Target& target, const std::string& what, const Tensor& actual, const Tensor& expected,
                  double relative, Values magnitudes) {
  check_close(target.name() + " " + what, target.backend->to_host(actual), truth().to_host(expected),
              scaled(relative, std::move(magnitudes)));
}

TEST_CASE("linear_backward_input and linear_backward_weight at odd sizes") {
  for (const Target& target : targets()) {
    for (const Index rows : {Index{1}, Index{33}}) {
      for (const Index in : odd_sizes) {
        for (const Index out : odd_sizes) {
          CAPTURE(rows);
          CAPTURE(in);
          CAPTURE(out);
          const Twin x = normal_twin(target, rows, in, 20);
          const Twin w = normal_twin(target, out, in, 21);
          const Twin dy = normal_twin(target, rows, out, 22);
          const Tensor dx_size = truth().linear_backward_input(magnitude(dy.truth), magnitude(w.truth));
          check_within(target, "dx", target.backend->linear_backward_input(dy.here, w.here),
                       truth().linear_backward_input(dy.truth, w.truth),
                       dot_error(static_cast<double>(out), target.dtype), truth().to_host(dx_size));
          const Tensor dw_size = truth().linear_backward_weight(magnitude(dy.truth), magnitude(x.truth));
          check_within(target, "dW", target.backend->linear_backward_weight(dy.here, x.here),
                       truth().linear_backward_weight(dy.truth, x.truth),
                       dot_error(static_cast<double>(rows), target.dtype), truth().to_host(dw_size));
        }
      }
    }
  }
}

TEST_CASE("scatter_add adds the rows of one id in the order of the tokens") {
  const std::vector<int> ids{4, 0, 4, 4, 2, 0};
  for (const Target& target : targets()) {
    for (const Index cols : odd_sizes) {
      const Twin dy = normal_twin(target, 6, cols, 23);
      check_within(target, "scatter_add", target.backend->scatter_add(dy.here, ids, 5),
                   truth().scatter_add(dy.truth, ids, 5), dot_error(3, target.dtype),
                   truth().to_host(truth().scatter_add(magnitude(dy.truth), ids, 5)));
    }
  }
}

/// Sums of magnitudes behind norm_backward's dx and dgain, as gradient_tolerances.h describes them.
struct NormMagnitudes {
  Values dx, dgain, dbias;
};

NormMagnitudes norm_magnitudes(NormKind kind, const Values& x, const Values& gain, const Values& dy, double eps) {
  const std::size_t n = gain.size();
  const auto count = static_cast<double>(n);
  NormMagnitudes m{.dx = Values(x.size()), .dgain = Values(n, 0.0), .dbias = Values(n, 0.0)};
  for (std::size_t first = 0; first < x.size(); first += n) {
    double mean = 0.0, size = 0.0, square = eps, g_mean = 0.0, gx_mean = 0.0;
    for (std::size_t i = first; i < first + n; ++i) {
      mean += kind == NormKind::layer ? x[i] / count : 0.0;
      size += std::abs(x[i]) / count;
    }
    const double squares = kind == NormKind::l2 ? 1.0 : count;
    for (std::size_t i = first; i < first + n; ++i) square += (x[i] - mean) * (x[i] - mean) / squares;
    const double s = std::sqrt(square);
    for (std::size_t i = 0; i < n; ++i) {
      const double g = std::abs(gain[i] * dy[first + i]);
      const double normalised = (std::abs(x[first + i]) + size) / s;
      g_mean += g / count;
      gx_mean += g * normalised / squares;
      m.dgain[i] += std::abs(dy[first + i]) * normalised;
      m.dbias[i] += std::abs(dy[first + i]);
    }
    for (std::size_t i = 0; i < n; ++i) {
      const double normalised = (std::abs(x[first + i]) + size) / s;
      m.dx[first + i] = (std::abs(gain[i] * dy[first + i]) + g_mean + normalised * gx_mean) / s;
    }
  }
  return m;
}

TEST_CASE("norm_backward of every kind, eps and grouping, at odd sizes and far from one") {
  for (const Target& target : targets()) {
    for (const NormKind kind : {NormKind::rms, NormKind::layer, NormKind::l2}) {
      for (const double eps : {0.0, 0.5}) {
        for (const int groups : {1, 3}) {
          for (const Index n : {Index{2}, Index{31}, Index{257}}) {
            for (const double size : {1e-6, 1.0, 1e6}) {
              CAPTURE(n);
              CAPTURE(eps);
              CAPTURE(size);
              const Twin x = normal_twin(target, 33, n * groups, 24, size);
              const Twin gain = normal_twin(target, 1, n, 25);
              const Twin dy = normal_twin(target, 33, n * groups, 26);
              const NormGradient actual = target.backend->norm_backward(kind, x.here, gain.here, dy.here, eps, groups);
              const NormGradient expected = truth().norm_backward(kind, x.truth, gain.truth, dy.truth, eps, groups);
              const NormMagnitudes m = norm_magnitudes(kind, truth().to_host(x.truth), truth().to_host(gain.truth),
                                                       truth().to_host(dy.truth), eps);
              const double features = norm_backward_error(static_cast<double>(n), target.dtype);
              const double parts = norm_backward_error(static_cast<double>(n + 33 * groups), target.dtype);
              check_within(target, "norm dx", actual.dx, expected.dx, features, m.dx);
              check_within(target, "norm dgain", actual.dgain, expected.dgain, parts, m.dgain);
              check_within(target, "norm dbias", actual.dbias, expected.dbias, parts, m.dbias);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("norm_backward of a zero row without eps, beside rows that are not zero") {
  for (const Target& target : targets()) {
    Values values = truth().to_host(normal_twin(target, 3, 33, 24).truth);
    for (std::size_t i = 33; i < 66; ++i) values[i] = 0.0;
    const Twin x = twin_of(target, 3, 33, values);
    const Twin gain = normal_twin(target, 1, 33, 25);
    const Twin dy = normal_twin(target, 3, 33, 26);
    const NormGradient actual = target.backend->norm_backward(NormKind::rms, x.here, gain.here, dy.here, 0.0);
    const Values dx = target.backend->to_host(actual.dx);
    CHECK(Values(dx.begin() + 33, dx.begin() + 66) == Values(33, 0.0));
    CHECK(dx[0] != 0.0);
    check_close_to_scale(
        target.name() + " dgain", target.backend->to_host(actual.dgain),
        truth().to_host(truth().norm_backward(NormKind::rms, x.truth, gain.truth, dy.truth, 0.0).dgain),
        norm_backward_error(36, target.dtype));
  }
}

TEST_CASE("rope_backward turns back what rope has turned") {
  for (const Target& target : targets()) {
    for (const int heads : {1, 3}) {
      for (const Index head_dim : {Index{2}, Index{34}}) {
        const Twin dy = normal_twin(target, 66, heads * head_dim, 27);
        const std::vector<double> frequencies = rope_frequencies(static_cast<int>(head_dim), 10000.0);
        const Twin turned{target.backend->rope(dy.here, heads, 2, frequencies),
                          truth().rope(dy.truth, heads, 2, frequencies)};
        const double relative = 2.0 * rope_error(33, target.dtype);
        // a pair's entries are at most the pair's length, which is at most √2 times the larger one
        const double largest = truth().statistics_of(dy.truth, {.top_magnitudes = 1}).top_magnitudes[0];
        const Values allowed(static_cast<std::size_t>(dy.truth.size()), 2.0 * largest);
        check_within(target, "rope", target.backend->rope_backward(dy.here, heads, 2, frequencies),
                     truth().rope_backward(dy.truth, heads, 2, frequencies), relative, allowed);
        check_within(target, "rope there and back", target.backend->rope_backward(turned.here, heads, 2, frequencies),
                     dy.truth, 2.0 * relative, allowed);
      }
    }
  }
}

/// Sums of magnitudes behind dq, dk and dv, from the pattern of the true q and k.
AttentionGradient attention_magnitudes(const Twin& q, const Twin& k, const Twin& v, const Twin& dy,
                                       const AttentionShape& shape, double& largest_logit) {
  const Values query = truth().to_host(q.truth), key = truth().to_host(k.truth), value = truth().to_host(v.truth),
               slope = truth().to_host(dy.truth);
  const std::size_t tokens = static_cast<std::size_t>(q.truth.rows()) / static_cast<std::size_t>(shape.sequences);
  const auto e = static_cast<std::size_t>(shape.head_dim), heads = static_cast<std::size_t>(shape.heads),
             kv = static_cast<std::size_t>(shape.kv_heads);
  Values dq(query.size(), 0.0), dk(key.size(), 0.0), dv(value.size(), 0.0);
  for (std::size_t row = 0; row < query.size() / (heads * e); ++row) {
    for (std::size_t head = 0; head < heads; ++head) {
      const std::size_t sequence = row / tokens * tokens;
      const auto token = static_cast<Index>(row - sequence);
      const std::size_t start = sequence + static_cast<std::size_t>(shape.first_seen(token));
      const std::size_t end = sequence + static_cast<std::size_t>(shape.end_seen(token, static_cast<Index>(tokens)));
      const std::size_t at = (row * heads + head) * e;
      const auto key_at = [&](std::size_t s) { return (s * kv + head / (heads / kv)) * e; };
      Values weight, size;
      double total = 0.0, mean = 0.0;
      for (std::size_t s = start; s < end; ++s) {
        double logit = 0.0, logit_size = 0.0, slope_size = 0.0;
        for (std::size_t i = 0; i < e; ++i) {
          logit += query[at + i] * key[key_at(s) + i] * shape.scale();
          logit_size += std::abs(query[at + i] * key[key_at(s) + i]) * shape.scale();
          slope_size += std::abs(slope[at + i] * value[key_at(s) + i]);
        }
        largest_logit = std::max(largest_logit, logit_size);
        const double cap = shape.scores.soft_cap;  // whose slope is at most 1
        weight.push_back(std::exp(cap > 0.0 ? cap * std::tanh(logit / cap) : logit));
        size.push_back(slope_size);
        total += weight.back();
      }
      for (std::size_t s = 0; s < weight.size(); ++s) mean += (weight[s] /= total) * size[s];
      for (std::size_t s = start; s < end; ++s) {
        const double dz = weight[s - start] * (size[s - start] + mean) * shape.scale();
        for (std::size_t i = 0; i < e; ++i) {
          dq[at + i] += dz * std::abs(key[key_at(s) + i]);
          dk[key_at(s) + i] += dz * std::abs(query[at + i]);
          dv[key_at(s) + i] += weight[s - start] * std::abs(slope[at + i]);
        }
      }
    }
  }
  const auto as_tensor = [](const Tensor& like, const Values& x) {
    return truth().from_host(like.rows(), like.cols(), DType::f64, x);
  };
  return {as_tensor(q.truth, dq), as_tensor(k.truth, dk), as_tensor(v.truth, dv)};
}

void check_attention_backward(const Target& target, const AttentionShape& shape, Index tokens) {
  CAPTURE(shape.causal);
  CAPTURE(shape.kv_heads);
  CAPTURE(shape.head_dim);
  CAPTURE(shape.scores.soft_cap);
  CAPTURE(shape.scores.window);
  CAPTURE(tokens);
  const Twin q = normal_twin(target, shape.sequences * tokens, shape.heads * shape.head_dim, 28);
  const Twin k = normal_twin(target, shape.sequences * tokens, shape.kv_heads * shape.head_dim, 29);
  const Twin v = normal_twin(target, shape.sequences * tokens, shape.kv_heads * shape.head_dim, 30);
  const Twin dy = normal_twin(target, shape.sequences * tokens, shape.heads * shape.head_dim, 31);
  double logit = 0.0;
  const AttentionGradient m = attention_magnitudes(q, k, v, dy, shape, logit);
  const AttentionGradient actual = target.backend->attention_backward(q.here, k.here, v.here, dy.here, shape);
  const AttentionGradient expected = truth().attention_backward(q.truth, k.truth, v.truth, dy.truth, shape);
  const double relative =
      attention_backward_error(shape.head_dim, 4.0 * static_cast<double>(tokens), logit, target.dtype);
  check_within(target, "attention dq", actual.dq, expected.dq, relative, truth().to_host(m.dq));
  check_within(target, "attention dk", actual.dk, expected.dk, relative, truth().to_host(m.dk));
  check_within(target, "attention dv", actual.dv, expected.dv, relative, truth().to_host(m.dv));
}

TEST_CASE("attention_backward: mask, shared heads, sequences, odd sizes") {
  for (const Target& target : targets()) {
    for (const bool causal : {false, true}) {
      for (const int kv_heads : {1, 2, 4}) {
        for (const int sequences : {1, 3}) {
          for (const Index tokens : {Index{1}, Index{2}, Index{33}}) {
            for (const int head_dim : {1, 31}) {
              check_attention_backward(target, {4, kv_heads, head_dim, sequences, causal}, tokens);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("attention_backward: score scale, soft cap and window") {
  for (const Target& target : targets()) {
    for (const Index tokens : {Index{2}, Index{33}}) {
      check_attention_backward(target, {4, 2, 31, 3, true, {.scale = 0.3}}, tokens);
      check_attention_backward(target, {4, 2, 31, 3, false, {.soft_cap = 0.8}}, tokens);
      check_attention_backward(target, {4, 1, 5, 3, true, {.window = 3}}, tokens);
      check_attention_backward(target, {4, 2, 5, 3, true, {.scale = 0.6, .soft_cap = 1.5, .window = 2}}, tokens);
    }
    // several blocks of queries, and windows that begin within them
    for (const int window : {0, 90, 300}) {
      check_attention_backward(target, {2, 1, 3, 1, true, {.window = window}}, 550);
      check_attention_backward(target, {2, 1, 3, 1, false, {.soft_cap = 1.5, .window = window}}, 550);
    }
  }
}

double slope_magnitude(Activation kind, double x) {
  if (kind == Activation::sigmoid) return 1.0 / (1.0 + std::exp(x)) / (1.0 + std::exp(-x));
  if (kind == Activation::gelu_tanh) {
    const double u = std::sqrt(8.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
    const double slope = std::sqrt(8.0 / std::numbers::pi) * (1.0 + 3.0 * 0.044715 * x * x);
    return (1.0 + std::abs(x) * slope / (1.0 + std::exp(u))) / (1.0 + std::exp(-u));
  }
  if (kind == Activation::gelu) {
    return 0.5 * std::erfc(-x / std::numbers::sqrt2) +
           std::abs(x) * std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi);
  }
  return (1.0 + std::abs(x) / (1.0 + std::exp(x))) / (1.0 + std::exp(-x));
}

TEST_CASE("activate_backward and gated_backward, into both tails") {
  for (const Target& target : targets()) {
    Values inputs{0.0, -0.0, 1e-30, -1e-30, 30.0, -30.0, 100.0, -100.0};
    for (int i = -400; i <= 400; ++i) inputs.push_back(i / 40.0);
    const auto size = static_cast<Index>(inputs.size());
    const Twin x = twin_of(target, 1, size, inputs);
    const Twin up = normal_twin(target, 1, size, 32);
    const Twin dy = normal_twin(target, 1, size, 33);
    const Values at = truth().to_host(x.truth);
    const Values slope = truth().to_host(dy.truth);
    const Values factor = truth().to_host(up.truth);
    for (const Activation kind :
         {Activation::relu, Activation::gelu, Activation::silu, Activation::gelu_tanh, Activation::sigmoid}) {
      Values allowed(inputs.size()), allowed_gate(inputs.size()), allowed_up(inputs.size());
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const double magnitude = slope_magnitude(kind, at[i]) * std::abs(slope[i]);
        allowed[i] = slope_error(kind, at[i], magnitude, target.dtype) + rounding_bound(1, target.dtype) * magnitude;
        allowed_gate[i] =
            slope_error(kind, at[i], magnitude, target.dtype) * std::abs(factor[i]) +
            rounding_bound_of_both(3, target.dtype) * std::abs(factor[i] * slope[i]) * slope_magnitude(kind, at[i]);
        const double y = truth().to_host(truth().activate(kind, x.truth))[i];
        allowed_up[i] =
            (activation_error(kind, at[i], y, target.dtype) + rounding_bound_of_both(2, target.dtype) * std::abs(y)) *
            std::abs(slope[i]);
      }
      const std::string what = target.name() + " activation " + std::to_string(static_cast<int>(kind));
      check_close(what, target.backend->to_host(target.backend->activate_backward(kind, x.here, dy.here)),
                  truth().to_host(truth().activate_backward(kind, x.truth, dy.truth)), allowed);
      const GatedGradient actual = target.backend->gated_backward(kind, x.here, up.here, dy.here);
      const GatedGradient expected = truth().gated_backward(kind, x.truth, up.truth, dy.truth);
      check_close(what + " dgate", target.backend->to_host(actual.dgate), truth().to_host(expected.dgate),
                  allowed_gate);
      check_close(what + " dup", target.backend->to_host(actual.dup), truth().to_host(expected.dup), allowed_up);
    }
  }
}

TEST_CASE("column_sums and soft_cap_backward at odd sizes") {
  for (const Target& target : targets()) {
    for (const Index rows : odd_sizes) {
      for (const Index cols : odd_sizes) {
        CAPTURE(rows);
        CAPTURE(cols);
        const Twin x = normal_twin(target, rows, cols, 35, 2.0);
        const Twin dy = normal_twin(target, rows, cols, 36);
        check_within(target, "column_sums", target.backend->column_sums(x.here), truth().column_sums(x.truth),
                     rounding_bound_of_both(static_cast<double>(rows), DType::f64) + rounding_bound(2, target.dtype),
                     truth().to_host(truth().column_sums(magnitude(x.truth))));
        // 1 − tanh² cancels: its rounding has the size of 1
        check_within(target, "soft_cap_backward", target.backend->soft_cap_backward(1.5, x.here, dy.here),
                     truth().soft_cap_backward(1.5, x.truth, dy.truth), rounding_bound_of_both(16, target.dtype),
                     truth().to_host(magnitude(dy.truth)));
      }
    }
  }
}

TEST_CASE("cross_entropy: rows without a label take no part") {
  for (const Target& target : targets()) {
    const Twin logits = normal_twin(target, 5, 33, 37);
    const std::vector<int> some{3, no_label, 7, no_label, no_label};
    const CrossEntropy actual = target.backend->cross_entropy(logits.here, some);
    const CrossEntropy expected = truth().cross_entropy(logits.truth, some);
    CHECK(std::abs(actual.loss - expected.loss) <= rounding_bound_of_both(100, DType::f64) * expected.loss);
    check_close(target.name() + " dlogits", target.backend->to_host(actual.dlogits), truth().to_host(expected.dlogits),
                rounding_bound_of_both(100, target.dtype));
    const std::vector<int> none(5, no_label);
    CHECK(target.backend->cross_entropy(logits.here, none).loss == 0.0);
    for (const double d : target.backend->to_host(target.backend->cross_entropy(logits.here, none).dlogits)) {
      REQUIRE(d == 0.0);
    }
  }
}

TEST_CASE("cross_entropy: flat and sharp logits at odd sizes") {
  for (const Target& target : targets()) {
    for (const Index rows : {Index{1}, Index{33}}) {
      for (const Index classes : odd_sizes) {
        for (const double stddev : {1e-3, 1.0, 30.0}) {
          CAPTURE(rows);
          CAPTURE(classes);
          CAPTURE(stddev);
          const Twin logits = normal_twin(target, rows, classes, 34, stddev);
          std::vector<int> labels;
          for (Index t = 0; t < rows; ++t) labels.push_back(static_cast<int>(t * 7 % classes));
          const CrossEntropy actual = target.backend->cross_entropy(logits.here, labels);
          const CrossEntropy expected = truth().cross_entropy(logits.truth, labels);
          const double spread = 2.0 * truth().statistics_of(logits.truth, {.top_magnitudes = 1}).top_magnitudes[0];
          const double relative = cross_entropy_error(static_cast<double>(classes), spread, target.dtype);
          Values size = truth().to_host(expected.dlogits);  // p/N, the label's: (p − 1)/N, of size up to (p + 1)/N
          for (std::size_t i = 0; i < size.size(); ++i) size[i] = std::abs(size[i]);
          for (Index t = 0; t < rows; ++t) {
            size[static_cast<std::size_t>(t * classes + labels[static_cast<std::size_t>(t)])] +=
                2.0 / static_cast<double>(rows);
          }
          for (double& s : size) s += smallest_normal(target.dtype) / relative;  // below it, digits are lost
          check_within(target, "dlogits", actual.dlogits, expected.dlogits, relative, size);
          const double loss_allowed = 2.0 * rounding_bound(static_cast<double>(classes + rows) + 16, DType::f64) *
                                      (spread + expected.loss + 1.0);
          check_close(target.name() + " loss", Values{actual.loss}, Values{expected.loss}, loss_allowed);
        }
      }
    }
  }
}

}  // namespace
}  // namespace periscope::testing
