#include <cmath>
#include <vector>

#include "tests/property/arbitrary_stack.h"
#include "tests/support/compare.h"
#include "tests/support/doctest.h"
#include "tests/support/tolerances.h"
#include "tests/support/twin.h"

/// Invariants of a single norm (theorem T13), without bias.
namespace periscope::testing {
namespace {

struct AnyNorm {
  NormKind kind = any_of({NormKind::rms, NormKind::layer, NormKind::l2});
  int rows = any_int(1, 9);
  int width = any_int(4, 70);
  std::uint32_t stream = static_cast<std::uint32_t>(any_int(0, 1000));

  [[nodiscard]] Tensor input(const Target& target) const { return normal_twin(target, rows, width, stream).here; }
  /// N(x) with gain 1 and eps 0.
  [[nodiscard]] Tensor apply(const Target& target, const Tensor& x) const {
    const Tensor one = target.backend->constant(1, width, target.dtype, 1.0);
    return target.backend->norm(kind, x, one, {}, 0.0);
  }
  [[nodiscard]] double rounding() const { return 4.0 * norm_error(width, DType::f64); }
};

TEST_CASE("a norm is idempotent at gain 1 and eps 0 (T13)") {
  CHECK(rc::check("N(N(x)) = N(x)", [] {
    const AnyNorm norm;
    for (const Target& target : exact_targets()) {
      const Tensor once = norm.apply(target, norm.input(target));
      assert_close(target.backend->to_host(norm.apply(target, once)), target.backend->to_host(once), norm.rounding());
    }
  }));
}

TEST_CASE("a norm without eps is scale-invariant, bit for bit for powers of two (T13)") {
  CHECK(rc::check("N(k x) = N(x), k > 0", [] {
    const AnyNorm norm;
    const double k = any_number(0.001, 1000.0);
    const int power = any_int(-30, 30);
    for (const Target& target : exact_targets()) {
      const Backend& ops = *target.backend;
      const Tensor x = norm.input(target);
      const std::vector<double> expected = ops.to_host(norm.apply(target, x));
      assert_close(ops.to_host(norm.apply(target, ops.scale(k, x))), expected, norm.rounding());
      const std::vector<double> shifted = ops.to_host(norm.apply(target, ops.scale(std::ldexp(1.0, power), x)));
      RC_ASSERT(first_difference(shifted, expected) == expected.size());
    }
  }));
}

TEST_CASE("normalized rows have second moment 1, and mean 0 with LayerNorm; with the L2 norm they have length 1") {
  CHECK(rc::check("moments of N(x)", [] {
    const AnyNorm norm;
    for (const Target& target : exact_targets()) {
      const RowMoments m = target.backend->row_moments(norm.apply(target, norm.input(target)));
      const std::vector<double> ones(m[Statistic::mean].size(), norm.kind == NormKind::l2 ? 1.0 / norm.width : 1.0);
      assert_close(m[Statistic::second_moment], ones, norm.rounding());
      if (norm.kind == NormKind::layer) assert_close(m[Statistic::variance], ones, norm.rounding());
    }
  }));
}

TEST_CASE("DyT and Derf are odd to the bit, bounded by the gain, and monotone") {
  CHECK(rc::check("N(-x) = -N(x), |N(x)| <= gain, x <= y => N(x) <= N(y)", [] {
    const NormKind kind = any_of({NormKind::dyt, NormKind::derf});
    const int width = any_int(1, 70);
    const auto stream = static_cast<std::uint32_t>(any_int(0, 1000));
    const double gain = any_number(0.1, 3.0);
    const double alpha = any_number(0.01, 4.0);
    for (const Target& target : exact_targets()) {
      const Backend& ops = *target.backend;
      const Tensor x = normal_twin(target, 3, width, stream, 2.0).here;
      const auto apply = [&](const Tensor& in) {
        return ops.to_host(ops.norm(kind, in, ops.constant(1, width, target.dtype, gain), {}, 0.0, 1,
                                    ops.constant(1, 1, target.dtype, alpha)));
      };
      const std::vector<double> in = ops.to_host(x);
      const std::vector<double> y = apply(x);
      const std::vector<double> mirrored = apply(ops.scale(-1.0, x));
      for (std::size_t i = 0; i < y.size(); ++i) {
        RC_ASSERT(mirrored[i] == -y[i]);
        RC_ASSERT(std::abs(y[i]) <= gain);
        for (std::size_t j = 0; j < i; ++j) RC_ASSERT((in[j] < in[i]) == (y[j] < y[i]) || y[j] == y[i]);
      }
    }
  }));
}

TEST_CASE("a norm is not idempotent with eps or with gains that differ between features") {
  const Tensor x = normal_twin(truth_target(), 3, 8, 1).here;
  const auto change = [&](double gain, double last_gain, double eps) {
    std::vector<double> gains(8, gain);
    gains.back() = last_gain;
    const Tensor g = truth().from_host(1, 8, DType::f64, gains);
    const Tensor once = truth().norm(NormKind::rms, x, g, {}, eps);
    return residual(truth().to_host(truth().norm(NormKind::rms, once, g, {}, eps)), truth().to_host(once), 0.01).worst;
  };
  CHECK(change(1.0, 1.0, 0.0) < 1e-10);
  CHECK(change(1.0, 1.0, 0.5) > 1.0);
  CHECK(change(2.0, 2.0, 0.0) < 1e-10);  // a scalar gain cancels: N(γN(x)) = γN(x)
  CHECK(change(1.0, 2.0, 0.0) > 1.0);
}

}  // namespace
}  // namespace periscope::testing
