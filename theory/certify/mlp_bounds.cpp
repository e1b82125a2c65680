#include "theory/certify/module_bounds.h"

namespace periscope::theory {
namespace {

/// Bounds ‖g₀b + p₀a‖, given gb = ‖g₀b‖, pa = ‖p₀a‖ and (g₀b)·(p₀a); gb + pa if squares overflow or underflow.
double cross_bound(double gb, double pa, double product, double slack) {
  const double sum = gb + pa;
  const double square = gb * gb + pa * pa + 2.0 * product;
  if (!(gb > 1e-120 && gb < 1e120 && pa > 1e-120 && pa < 1e120)) return sum;
  return std::min(sum, std::sqrt(std::max(0.0, square)) + std::sqrt(slack) * sum);
}

/// Returns, per feature, an interval that contains s·g·p over the ellipsoid for all s in [0, 1].
BoundedSet gated_box(const Mapped& gate, const Mapped& up) {
  const RowMatrix& a = gate.axes.matrix;
  const RowMatrix& b = up.axes.matrix;
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
    const double error_g = g.error[j] + gate.axes.error;
    const double error_p = p.error[j] + up.axes.error;
    const double far_g = std::abs(g0) + aa + error_g;
    const double far_p = std::abs(p0) + bb + error_p;
    const double cross = cross_bound(std::abs(g0) * bb, std::abs(p0) * aa, g0 * p0 * ab, slack);
    // far_g·far_p bounds every intermediate value, so it scales the rounding error.
    const double error = slack * far_g * far_p + error_g * far_p + error_p * far_g + underflow(a.cols());
    const double most = g0 * p0 + cross + 0.5 * (aa * bb + ab) + error;
    const double least = g0 * p0 - cross - 0.5 * (aa * bb - ab) - error;
    if (!std::isnan(most)) box.high[j] = std::max(0.0, most);
    if (!std::isnan(least)) box.low[j] = std::min(0.0, least);
  }
  return box;
}

/// Intersects the image W·hidden with bounds from the 2-norm and 1-norm of hidden.
void intersect_norm_bounds(const RowMatrix& down, double two, double one, LinearImage& image) {
  for (Index k = 0; k < down.rows(); ++k) {
    const double by_one = outward(largest_of(down.row(k)) * one, down.cols());
    const double reach = std::min(by_one, outward(norm_of(down.row(k)) * two, down.cols()));
    if (!std::isfinite(reach)) continue;
    image.set.low[k] = std::max(image.set.low[k], -reach);
    image.set.high[k] = std::min(image.set.high[k], reach);
    image.absolute[k] = std::min(image.absolute[k], reach);
  }
}

/// Adds a ball for W·hidden to the image if `with_norm`.
void add_ball(const RowMatrix& down, const BoundedSet& hidden, bool with_norm, LinearImage& image) {
  if (!with_norm || !hidden.ellipsoid) return;
  const Centre centre = centre_of(down, *hidden.ellipsoid);
  const double reach = outward(spectral_bound(down) * largest_of(hidden.ellipsoid->axes));
  image.set.ellipsoid = Ellipsoid{centre.value, Vector::Constant(down.rows(), reach), centre.error, false};
  image.set = cleaned(std::move(image.set));
}

BoundedSet gated_bounds(const BoundedModule& module) {
  ComputedOps& ops = module.ops;
  const RowMatrix down = module.matrix(Weight::down);
  BoundedSet hidden;
  double one = infinity;
  {
    const Mapped gate = ops.mapped(Weight::gate, module.matrix(Weight::gate), module.bias(Weight::gate), module.input);
    const Mapped up = ops.mapped(Weight::up, module.matrix(Weight::up), module.bias(Weight::up), module.input);
    const ComputedImage activated_gate = ops.activated(activation_of(module.model.mlp), gate.image);
    module.record(Signal::gate, gate.image.magnitude());
    module.record(Signal::up, up.image.magnitude());
    if (!ops.exact()) module.record(Signal::gated, activated_gate.set.magnitude());
    hidden = interval_product(activated_gate.set, up.image);
    if (module.input.ellipsoid) {
      // φ(g) has error activated_gate.error before the product.
      const Vector phi_error = activated_gate.error.cwiseProduct(up.image.magnitude());
      hidden = intersected(hidden, widened(gated_box(gate, up), phi_error));
    }
    one = activated_gate.set.norm() * up.image.norm();
    const double two = std::min(largest_of(activated_gate.set.magnitude()) * up.image.norm(),
                                activated_gate.set.norm() * largest_of(up.image.magnitude()));
    const double all = std::min(outward(two), BoundedSet{hidden.low, hidden.high, {}}.norm());
    const Index n = hidden.size();
    hidden.ellipsoid = ellipsoid_around(Vector::Zero(n), Vector::Constant(n, all));
    hidden = ops.stored(cleaned(std::move(hidden)));
    one = ops.stored_sum(one, n);
  }
  module.record(Signal::hidden, hidden.magnitude());
  if (module.model.inner_norm_at(module.sublayer)) return module.output_after_norm(Weight::down, hidden);
  LinearImage image = image_and_sums(down, hidden);
  intersect_norm_bounds(down, hidden.norm(), outward(one), image);
  add_ball(down, hidden, module.with_norm, image);
  return ops.summed(Weight::down, down, std::move(image), module.bias(Weight::down)).set;
}

/// Returns the box W(p/2) ± (½(‖(W_down A)_k‖ + ‖W_k‖·‖p‖) + |W_k|·(½ error of p + error of φ)) for p = p₀ + A u.
BoundedSet from_half(const RowMatrix& down, const Mapped& up, const Vector& phi_error) {
  const RowMatrix& over = up.axes.matrix;
  const double norm = up.image.norm();
  const RowMatrix product = product_transposed(down, over.transpose());
  const Ellipsoid half{0.5 * up.centre.value, Vector::Zero(down.cols()), 0.5 * up.centre.error + phi_error, false};
  const Centre centre = centre_of(down, half);
  const double error = up.axes.error + rounding(down.cols()) * norm_of(over);
  BoundedSet box = unbounded(down.rows());
  for (Index k = 0; k < down.rows(); ++k) {
    const double row = norm_of(down.row(k));
    const double reach =
        0.5 * (norm_of(product.row(k)) + (norm + 2.0 * error) * row) + centre.error[k] + underflow(down.cols());
    box.low[k] = centre.value[k] - outward(reach, down.cols()) - rounding(0) * std::abs(centre.value[k]);
    box.high[k] = centre.value[k] + outward(reach, down.cols()) + rounding(0) * std::abs(centre.value[k]);
  }
  return cleaned(std::move(box));
}

BoundedSet plain_bounds(const BoundedModule& module) {
  const Mapped up = module.ops.mapped(Weight::up, module.matrix(Weight::up), module.bias(Weight::up), module.input);
  const ComputedImage hidden = module.ops.activated(activation_of(module.model.mlp), up.image);
  module.record(Signal::up, up.image.magnitude());
  module.record(Signal::hidden, hidden.set.magnitude());
  if (module.model.inner_norm_at(module.sublayer)) return module.output_after_norm(Weight::down, hidden.set);
  const RowMatrix down = module.matrix(Weight::down);
  LinearImage image = image_and_sums(down, hidden.set);
  if (module.input.ellipsoid) image.set = intersected(image.set, from_half(down, up, hidden.error));
  add_ball(down, hidden.set, module.with_norm, image);
  return module.ops.summed(Weight::down, down, std::move(image), module.bias(Weight::down)).set;
}

BoundedSet single_bounds(const BoundedModule& module) {
  return is_gated(module.model.mlp) ? gated_bounds(module) : plain_bounds(module);
}

/// Returns the output of a mixture. Reads the matrices of one expert at a time.
BoundedSet mixture_bounds(const BoundedModule& module) {
  const BoundedSet logits = module.ops.linear(Weight::router, module.matrix(Weight::router), {}, module.input);
  module.record(Signal::router, logits.magnitude());
  BoundedModule one = module;
  one.expert = 0;
  BoundedSet all = single_bounds(one);
  for (++one.expert; one.expert < module.model.experts.count; ++one.expert) {
    const BoundedSet next = single_bounds(one);
    all = {all.low.cwiseMin(next.low), all.high.cwiseMax(next.high), {}};
  }
  return module.ops.mixed_experts(module.model.experts, largest_of(logits.magnitude()), all);
}

}  // namespace

BoundedSet mlp_bounds(const BoundedModule& module) {
  return module.model.experts.count > 0 ? mixture_bounds(module) : single_bounds(module);
}

}  // namespace periscope::theory
