#include "theory/certify/inside_bounds.h"

namespace periscope::theory {
namespace {

using Index = Eigen::Index;

/// ‖g₀b + p₀a‖ from its parts, where squares neither overflow nor underflow, else ‖g₀b‖ + ‖p₀a‖.
double cross_bound(double gb, double pa, double product, double slack) {
  const double sum = gb + pa;
  const double square = gb * gb + pa * pa + 2.0 * product;
  if (!(gb > 1e-120 && gb < 1e120 && pa > 1e-120 && pa < 1e120)) return sum;
  return std::min(sum, std::sqrt(std::max(0.0, square)) + std::sqrt(slack) * sum);
}

/// gp over the ellipsoid, feature by feature, and 0: where s·gp lies for s in [0, 1].
BoundedSet gated_box(const Mapped& gate, const Mapped& up) {
  const RowMatrix& a = gate.over.matrix;
  const RowMatrix& b = up.over.matrix;
  const Centre& g = gate.centre;
  const Centre& p = up.centre;
  const double slack = rounding(2 * a.cols());
  BoundedSet box = unbounded(a.rows());
#pragma omp parallel for schedule(static) if (a.size() > (1 << 16))
  for (Index j = 0; j < a.rows(); ++j) {
    const double aa = norm_of(a.row(j));
    const double bb = norm_of(b.row(j));
    const double ab = a.row(j).dot(b.row(j));
    const double g0 = g.value[j];
    const double p0 = p.value[j];
    const double off_g = g.error[j] + gate.over.lost;
    const double off_p = p.error[j] + up.over.lost;
    const double far_g = std::abs(g0) + aa + off_g;
    const double far_p = std::abs(p0) + bb + off_p;
    const double cross = cross_bound(std::abs(g0) * bb, std::abs(p0) * aa, g0 * p0 * ab, slack);
    // The product of the largest gate and the largest up bounds every number whose rounding counts here.
    const double lost = slack * far_g * far_p + off_g * far_p + off_p * far_g + underflow(a.cols());
    const double most = g0 * p0 + cross + 0.5 * (aa * bb + ab) + lost;
    const double least = g0 * p0 - cross - 0.5 * (aa * bb - ab) - lost;
    if (!std::isnan(most)) box.high[j] = std::max(0.0, most);
    if (!std::isnan(least)) box.low[j] = std::min(0.0, least);
  }
  return box;
}

/// W·hidden for hidden layers of bounded 2-norm and 1-norm.
void meet_norms(const RowMatrix& down, double two, double one, LinearImage& image) {
  for (Index k = 0; k < down.rows(); ++k) {
    const double by_one = outward(largest_of(down.row(k)) * one, down.cols());
    const double reach = std::min(by_one, outward(norm_of(down.row(k)) * two, down.cols()));
    if (!std::isfinite(reach)) continue;
    image.set.low[k] = std::max(image.set.low[k], -reach);
    image.set.high[k] = std::min(image.set.high[k], reach);
    image.absolute[k] = std::min(image.absolute[k], reach);
  }
}

/// A ball for W·hidden, if asked for.
void add_ball(const RowMatrix& down, const BoundedSet& hidden, bool with_norm, LinearImage& image) {
  if (!with_norm || !hidden.ellipsoid) return;
  const Centre centre = centre_of(down, *hidden.ellipsoid);
  const double reach = outward(spectral_bound(down) * largest_of(hidden.ellipsoid->axes));
  image.set.ellipsoid = Ellipsoid{centre.value, Vector::Constant(down.rows(), reach), centre.error, false};
  image.set = cleaned(std::move(image.set));
}

/// The bounds with what an inner norm makes of the hidden layer, and W_down of that.
MlpBounds behind_norm(MlpBounds bounds, const ModelSpec& m, const Parameters& p, int layer, bool with_norm,
                      ComputedOps& ops) {
  InnerBounds inner = inner_bounds(m, p, 2 * layer + 1, Weight::down, bounds.hidden, with_norm, ops);
  bounds.inner = std::move(inner.inner);
  bounds.out = std::move(inner.out);
  return bounds;
}

MlpBounds gated_bounds(const ModelSpec& m, const Parameters& p, int layer, const BoundedSet& x, bool with_norm,
                       ComputedOps& ops) {
  MlpBounds bounds;
  const RowMatrix down = p.matrix(layer, Weight::down);
  double one = infinity;
  {
    const Mapped gate = ops.mapped(p.matrix(layer, Weight::gate), p.bias(layer, Weight::gate), x);
    const Mapped up = ops.mapped(p.matrix(layer, Weight::up), p.bias(layer, Weight::up), x);
    const ComputedImage acted = ops.activated(activation_of(m.mlp), gate.image);
    bounds.gate = gate.image;
    bounds.up = up.image;
    bounds.acted = acted.set;
    bounds.hidden = interval_product(acted.set, up.image);
    if (x.ellipsoid) {
      // φ(g) was off by acted.error before it was multiplied.
      const Vector off = acted.error.cwiseProduct(up.image.magnitude());
      bounds.hidden = within(bounds.hidden, widened(gated_box(gate, up), off));
    }
    one = acted.set.norm() * up.image.norm();
    const double two = std::min(largest_of(acted.set.magnitude()) * up.image.norm(),
                                acted.set.norm() * largest_of(up.image.magnitude()));
    const double all = std::min(outward(two), BoundedSet{bounds.hidden.low, bounds.hidden.high, {}}.norm());
    const Index n = bounds.hidden.size();
    bounds.hidden.ellipsoid = ellipsoid_around(Vector::Zero(n), Vector::Constant(n, all));
    bounds.hidden = ops.stored(cleaned(std::move(bounds.hidden)));
    one = ops.stored_sum(one, n);
  }
  if (m.inner_norm_at(2 * layer + 1)) return behind_norm(std::move(bounds), m, p, layer, with_norm, ops);
  LinearImage image = image_and_sums(down, bounds.hidden);
  meet_norms(down, bounds.hidden.norm(), outward(one), image);
  add_ball(down, bounds.hidden, with_norm, image);
  bounds.out = ops.summed(std::move(image), down.cols(), p.bias(layer, Weight::down)).set;
  return bounds;
}

/// W(p/2) ± (½(‖(W_down A)_k‖ + ‖W_k‖·‖p‖) + |W_k|·(½ error of p + error of φ)) for p = p₀ + A u.
BoundedSet from_half(const RowMatrix& down, const Mapped& up, const Vector& off) {
  const RowMatrix& over = up.over.matrix;
  const double norm = up.image.norm();
  const RowMatrix product = product_transposed(down, over.transpose());
  const Ellipsoid half{0.5 * up.centre.value, Vector::Zero(down.cols()), 0.5 * up.centre.error + off, false};
  const Centre centre = centre_of(down, half);
  const double lost = up.over.lost + rounding(down.cols()) * norm_of(over);
  BoundedSet box = unbounded(down.rows());
  for (Index k = 0; k < down.rows(); ++k) {
    const double row = norm_of(down.row(k));
    const double reach =
        0.5 * (norm_of(product.row(k)) + (norm + 2.0 * lost) * row) + centre.error[k] + underflow(down.cols());
    box.low[k] = centre.value[k] - outward(reach, down.cols()) - rounding(0) * std::abs(centre.value[k]);
    box.high[k] = centre.value[k] + outward(reach, down.cols()) + rounding(0) * std::abs(centre.value[k]);
  }
  return cleaned(std::move(box));
}

MlpBounds plain_bounds(const ModelSpec& m, const Parameters& p, int layer, const BoundedSet& x, bool with_norm,
                       ComputedOps& ops) {
  MlpBounds bounds;
  const Mapped up = ops.mapped(p.matrix(layer, Weight::up), p.bias(layer, Weight::up), x);
  const RowMatrix down = p.matrix(layer, Weight::down);
  ComputedImage hidden = ops.activated(activation_of(m.mlp), up.image);
  bounds.up = up.image;
  bounds.hidden = std::move(hidden.set);
  if (m.inner_norm_at(2 * layer + 1)) return behind_norm(std::move(bounds), m, p, layer, with_norm, ops);
  LinearImage image = image_and_sums(down, bounds.hidden);
  if (x.ellipsoid) image.set = within(image.set, from_half(down, up, hidden.error));
  add_ball(down, bounds.hidden, with_norm, image);
  bounds.out = ops.summed(std::move(image), down.cols(), p.bias(layer, Weight::down)).set;
  return bounds;
}

}  // namespace

MlpBounds mlp_bounds(const ModelSpec& m, const Parameters& p, int layer, const BoundedSet& x, bool with_norm,
                     ComputedOps& ops) {
  return is_gated(m.mlp) ? gated_bounds(m, p, layer, x, with_norm, ops) : plain_bounds(m, p, layer, x, with_norm, ops);
}

}  // namespace periscope::theory
