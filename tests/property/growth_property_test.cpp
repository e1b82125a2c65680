#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/measure/probe.h"
#include "tests/property/arbitrary_stack.h"
#include "tests/support/doctest.h"
#include "tests/support/edited_weights.h"
#include "tests/support/recorded_stack.h"

namespace periscope::testing {
namespace {

double largest_magnitude(const std::vector<double>& x) {
  double largest = 0.0;
  for (const double v : x) largest = std::max(largest, std::abs(v));
  return largest;
}

/// Tolerance for rounding in bounds that are exact in real arithmetic.
constexpr double slack = 1.0 + 1e-12;

/// Rank of every matrix. `aligned`: rank-one matrices that write the same direction, so that all branches are parallel.
enum class Rank { full, one, aligned };

Rank any_rank() { return any_of({Rank::full, Rank::one, Rank::aligned}); }

EditedWeights::MatrixEdit with_rank(const Backend& ops, Rank rank) {
  return [&ops, rank](int /*layer*/, Weight weight, const Tensor& w) {
    if (rank == Rank::full) return w;
    std::vector<double> values = ops.to_host(w);
    const auto rows = static_cast<std::size_t>(w.rows());
    const auto cols = static_cast<std::size_t>(w.cols());
    std::vector<double> column(rows);
    for (std::size_t i = 0; i < rows; ++i) column[i] = values[i * cols];
    const std::vector<double> row(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(cols));
    const bool onto_stream = weight == Weight::o || weight == Weight::down;
    for (std::size_t i = 0; i < rows; ++i) {
      const double left = rank == Rank::aligned && onto_stream ? std::cos(1.0 + static_cast<double>(i)) : column[i];
      for (std::size_t j = 0; j < cols; ++j) values[i * cols + j] = left * row[j];
    }
    return ops.from_host(w.rows(), w.cols(), w.dtype(), values);
  };
}

/// Calls visit(ops, weights, record) for a pass with random norms and matrices of the given rank, on every exact
/// target.
template <class Visit>
void for_records(const StackSpec& spec, Rank rank, const Visit& visit) {
  const std::uint64_t seed = any_seed();
  for (const Target& target : exact_targets()) {
    const Backend& ops = *target.backend;
    const GeneratedWeights drawn(ops, spec, target.dtype, seed);
    const EditedWeights weights(drawn, with_rank(ops, rank), random_norms(ops));
    visit(ops, weights,
          record_stack({.ops = ops, .model = spec.model, .weights = weights},
                       gaussian_input(ops, spec, target.dtype, seed)));
  }
}

/// Gains and biases of norm B of a sublayer; a missing bias is 0.
std::pair<std::vector<double>, std::vector<double>> norm_b(const Backend& ops, const ModelSpec& m,
                                                           const WeightSource& weights, int l) {
  const NormWeights w = norm_of(weights, m, l, Weight::norm_b);
  const std::vector<double> gain = ops.to_host(w.gain);
  return {gain, w.bias.empty() ? std::vector<double>(gain.size(), 0.0) : ops.to_host(w.bias)};
}

TEST_CASE("every token satisfies q+ = a^2 q + b^2 s^2 + 2ab s sqrt(q) cos (T15)") {
  CHECK(rc::check("growth identity", [] {
    StackSpec spec = any_stack();
    const SublayerRule rule{.norm_a = any_of({false, true}),
                            .norm_b = any_of({false, true}),
                            .alpha = any_number(-2.0, 2.0),
                            .beta = any_number(-2.0, 2.0)};
    spec.model.placement = custom_placement(rule);
    const int d = spec.model.width;
    for_records(spec, any_rank(), [&](const Backend&, const WeightSource&, const RecordedStack& r) {
      for (int l = 0; l < spec.model.sublayers(); ++l) {
        const std::vector<double>& x = r.at(l, Signal::x_in);
        const std::vector<double>& b = r.at(l, Signal::B_out);
        const std::vector<double> q = second_moments(x, d);
        const std::vector<double> s2 = second_moments(b, d);
        std::vector<double> expected(q.size(), 0.0);
        for (std::size_t i = 0; i < x.size(); ++i) expected[i / static_cast<std::size_t>(d)] += x[i] * b[i];
        for (std::size_t t = 0; t < q.size(); ++t) {
          const double cosine = q[t] * s2[t] > 0.0 ? expected[t] / d / std::sqrt(q[t] * s2[t]) : 0.0;
          expected[t] = rule.alpha * rule.alpha * q[t] + rule.beta * rule.beta * s2[t] +
                        2.0 * rule.alpha * rule.beta * std::sqrt(s2[t] * q[t]) * cosine;
        }
        const double scale = largest_magnitude(q) + largest_magnitude(s2);
        const double largest = largest_magnitude(expected);
        if (largest > 0.0) {
          assert_close(second_moments(r.at(l, Signal::x_out), d), expected, rounding_of(spec.model) * scale / largest);
        }
      }
    });
  }));
}

TEST_CASE("for one token, the statistics of a probe satisfy the growth identity (T15)") {
  CHECK(rc::check("growth identity of the probe", [] {
    StackSpec spec =
        placed(any_stack(), any_of<std::string_view>({"none", "pre", "peri", "b-only", "lns", "depth-scaled"}));
    spec.input.tokens = 1;
    const std::uint64_t seed = any_seed();
    for (const Target& target : exact_targets()) {
      const GeneratedWeights weights(*target.backend, spec, target.dtype, seed);
      const StackContext context{.ops = *target.backend, .model = spec.model, .weights = weights};
      Probe probe(context);
      (void)stack_forward(context, gaussian_input(*target.backend, spec, target.dtype, seed), {.recorders = {&probe}});
      const Profile p = probe.take().profile;
      const auto curve = [&](Statistic statistic, Signal site) { return p.find(statistic, site)->value; };
      const std::vector<double> q = curve(Statistic::second_moment, Signal::x_out);
      const std::vector<double> s2 = curve(Statistic::second_moment, Signal::B_out);
      const std::vector<double> cosine = curve(Statistic::branch_cosine, Signal::B_out);
      const std::vector<double> ratio = curve(Statistic::branch_ratio, Signal::B_out);
      for (std::size_t l = 0; l < s2.size(); ++l) {
        if (s2[l] == 0.0) continue;  // no active ReLU unit: the angle is undefined
        const double beta = spec.model.rule(static_cast<int>(l)).beta;
        const double s = beta * std::sqrt(s2[l]);
        const double expected = q[l] + s * s + 2.0 * s * std::sqrt(q[l]) * cosine[l];
        assert_close(std::vector{q[l + 1]}, std::vector{expected}, rounding_of(spec.model) * (q[l] + s * s) / expected);
        assert_close(std::vector{ratio[l]}, std::vector{s / std::sqrt(q[l])}, rounding_of(spec.model));
      }
    }
  }));
}

/// A stack with norm B and weights of extreme scales.
StackSpec any_bounded_stack() {
  StackSpec spec = placed(any_stack(), any_of<std::string_view>({"peri", "b-only"}));
  spec.model.norm_eps = any_of({0.0, 1e-6, 1.0});
  spec.init.scheme = InitScheme::scaled;
  spec.init.factor = std::pow(10.0, any_int(-6, 6));
  return spec;
}

TEST_CASE("with norm B the rms of the stream grows by at most max|gain| + rms(bias) per sublayer (T16)") {
  CHECK(rc::check("sqrt(q_L) <= sqrt(q_0) + sum max|gamma|", [] {
    const StackSpec spec = any_bounded_stack();
    const int d = spec.model.width;
    for_records(spec, any_rank(), [&](const Backend& ops, const WeightSource& weights, const RecordedStack& r) {
      const std::vector<double> start = second_moments(r.input, d);
      double bound = 0.0;
      for (int l = 0; l < spec.model.sublayers(); ++l) {
        const auto [gain, bias] = norm_b(ops, spec.model, weights, l);
        bound += largest_magnitude(gain) + std::sqrt(second_moments(bias, d)[0]);
        const std::vector<double> q = second_moments(r.at(l, Signal::x_out), d);
        for (std::size_t t = 0; t < q.size(); ++t) RC_ASSERT(std::sqrt(q[t]) <= (std::sqrt(start[t]) + bound) * slack);
      }
    });
  }));
}

TEST_CASE("with norm B no entry exceeds its feature's |x_0| + sum (sqrt(D) |gain| + |bias|) (T17)") {
  CHECK(rc::check("overflow certificate", [] {
    const StackSpec spec = any_bounded_stack();
    const auto d = static_cast<std::size_t>(spec.model.width);
    const double reach = std::sqrt(spec.model.width - (spec.model.norm == NormKind::layer ? 1.0 : 0.0));
    for_records(spec, Rank::full, [&](const Backend& ops, const WeightSource& weights, const RecordedStack& r) {
      std::vector<double> bound(d, 0.0);
      for (int l = 0; l < spec.model.sublayers(); ++l) {
        const auto [gain, bias] = norm_b(ops, spec.model, weights, l);
        for (std::size_t k = 0; k < d; ++k) bound[k] += reach * std::abs(gain[k]) + std::abs(bias[k]);
        const std::vector<double>& x = r.at(l, Signal::x_out);
        for (std::size_t i = 0; i < x.size(); ++i) {
          RC_ASSERT(std::abs(x[i]) <= (std::abs(r.input[i]) + bound[i % d]) * slack);
        }
      }
    });
  }));
}

TEST_CASE("Pre-LN exceeds the growth bound of stacks with norm B (T16)") {
  StackSpec spec = placed(tiny_stack(), "pre");
  spec.init.scheme = InitScheme::scaled;
  spec.init.factor = 100.0;
  const RecordedStack r = record_stack(truth_target(), spec, 1);
  const double start = std::sqrt(second_moments(r.input, spec.model.width)[0]);
  const double end = std::sqrt(second_moments(r.stream, spec.model.width)[0]);
  CHECK(end > start + spec.model.sublayers() * spec.model.gamma);
}

}  // namespace
}  // namespace periscope::testing
