#include "sim/core/checks.h"

namespace periscope {
namespace {

/// gain is [1, n] for x [N, groups·n].
void check_gain(const Checks& check, const Tensor& gain, const Tensor& x, int groups) {
  check.require(groups >= 1 && x.cols() >= groups && x.cols() % groups == 0,
                "x {} does not fall into {} groups of equal width", shape_of(x), groups);
  const Tensor::Index n = x.cols() / groups;
  const bool fits = gain.rows() == 1 && gain.cols() == n;
  if (!fits) {
    check.refuse_shape("gain", gain, {1, n},
                       fmt::format(" with {} group{}", groups, groups == 1 ? "" : "s, one gain for all"));
  }
}

}  // namespace

Tensor Backend::norm(NormKind kind, const Tensor& x, const Tensor& gain, const Tensor& bias, double eps,
                     int groups) const {
  const Checks check(*this, Op::norm, {{"x", x}, {"gain", gain}});
  check_gain(check, gain, x, groups);
  if (!bias.empty()) {
    const Checks with_bias(*this, Op::norm, {{"x", x}, {"gain", gain}, {"bias", bias}});
    with_bias.shape("bias", bias, 1, gain.cols());
  }
  Tensor y = like(x);
  do_norm(kind, x, gain, bias, eps, y);
  return y;
}

NormGradient Backend::norm_backward(NormKind kind, const Tensor& x, const Tensor& gain, const Tensor& dy, double eps,
                                    int groups) const {
  const Checks check(*this, Op::norm_backward, {{"x", x}, {"gain", gain}, {"dy", dy}});
  check_gain(check, gain, x, groups);
  check.shape("dy", dy, x.rows(), x.cols());
  NormGradient g{.dx = like(x), .dgain = like(gain), .dbias = like(gain)};
  do_norm_backward(kind, x, gain, dy, eps, g);
  return g;
}

}  // namespace periscope
