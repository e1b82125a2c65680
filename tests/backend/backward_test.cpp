#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/gradient_tolerances.h"
#include "tests/support/twin.h"

/// Backward ops of norms, activations and the loss on every backend, compared with the reference within rounding
/// bounds. Products, RoPE and attention: ops_test.cpp and device_sizes_test.cpp.
namespace periscope::testing {
namespace {

using Index = Tensor::Index;
using Values = std::vector<double>;

/// Compares a target's tensor with the reference, entry by entry within relative · magnitude.
void check_within(const Target& target, const std::string& what, const Tensor& actual, const Tensor& expected,
                  double relative, Values magnitudes) {
  check_close(target.name() + " " + what, target.backend->to_host(actual), truth().to_host(expected),
              scaled(relative, std::move(magnitudes)));
}

/// Sums of the magnitudes of the terms of each gradient; see gradient_tolerances.h.
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

TEST_CASE("norm_backward: every kind, eps and grouping, at odd sizes and any scale") {
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

TEST_CASE("norm_backward: a zero row without eps among other rows") {
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

TEST_CASE("cross_entropy: flat and sharp logits at odd sizes, and rows without a label") {
  for (const Target& target : targets()) {
    const CrossEntropy unlabelled =
        target.backend->cross_entropy(normal_twin(target, 5, 33, 37).here, std::vector<int>(5, no_label));
    CHECK(unlabelled.loss == 0.0);
    CHECK(target.backend->to_host(unlabelled.dlogits) == Values(5 * 33, 0.0));
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
          Values size = truth().to_host(expected.dlogits);  // p/N, and at the label (p − 1)/N
          for (std::size_t i = 0; i < size.size(); ++i) size[i] = std::abs(size[i]);
          for (Index t = 0; t < rows; ++t) {
            size[static_cast<std::size_t>(t * classes + labels[static_cast<std::size_t>(t)])] +=
                2.0 / static_cast<double>(rows);
          }
          for (double& s : size) s += smallest_normal(target.dtype) / relative;  // subnormals have fewer digits
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
