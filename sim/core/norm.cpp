#include "sim/core/checks.h"

namespace periscope {
namespace {

/// Requires gain [1, n] for x [N, groups·n].
void check_gain(const Checks& check, const Tensor& gain, const Tensor& x, int groups) {
  check.require(groups >= 1 && x.cols() >= groups && x.cols() % groups == 0,
                "x {} cannot be split into {} groups of equal width", shape_of(x), groups);
  const Tensor::Index n = x.cols() / groups;
  const bool fits = gain.rows() == 1 && gain.cols() == n;
  if (!fits) {
    check.reject_shape("gain", gain, {1, n},
                       fmt::format(" with {} group{}", groups, groups == 1 ? "" : "s, which share one gain"));
  }
}

/// Requires alpha [1, 1] for kinds with an α, and an empty alpha for others.
void check_alpha(const Backend& ops, const OpFacts& op, NormKind kind, const Tensor& x, const Tensor& gain,
                 const Tensor& alpha) {
  if (facts_of(kind).has_alpha()) {
    const Checks check(ops, op, {{"x", x}, {"gain", gain}, {"alpha", alpha}});
    check.shape("alpha", alpha, 1, 1);
  } else {
    const Checks check(ops, op, {{"x", x}});
    check.require(alpha.empty(), "{} has no alpha, found {}", facts_of(kind).title, shape_of(alpha));
  }
}

}  // namespace

Tensor Backend::norm(NormKind kind, const Tensor& x, const Tensor& gain, const Tensor& bias, double eps, int groups,
                     const Tensor& alpha) const {
  const Checks check(*this, op::Norm::facts, {{"x", x}, {"gain", gain}});
  check_gain(check, gain, x, groups);
  check_alpha(*this, op::Norm::facts, kind, x, gain, alpha);
  if (!bias.empty()) {
    const Checks with_bias(*this, op::Norm::facts, {{"x", x}, {"gain", gain}, {"bias", bias}});
    with_bias.shape("bias", bias, 1, gain.cols());
  }
  return run_into<op::Norm>(like(x), kind, x, gain, bias, alpha, eps);
}

NormGradient Backend::norm_backward(NormKind kind, const Tensor& x, const Tensor& gain, const Tensor& dy, double eps,
                                    int groups, const Tensor& alpha) const {
  const Checks check(*this, op::NormBackward::facts, {{"x", x}, {"gain", gain}, {"dy", dy}});
  check_gain(check, gain, x, groups);
  check_alpha(*this, op::NormBackward::facts, kind, x, gain, alpha);
  check.shape("dy", dy, x.rows(), x.cols());
  NormGradient g{.dx = like(x), .dgain = like(gain), .dbias = like(gain)};
  if (!alpha.empty()) g.dalpha = like(alpha);
  perform(op::NormBackward{kind, x, gain, alpha, dy, eps, g});
  return g;
}

}  // namespace periscope
