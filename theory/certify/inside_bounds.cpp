#include "theory/certify/inside_bounds.h"

#include <algorithm>
#include <cmath>

namespace periscope::theory {
namespace {

using Index = Eigen::Index;

NormBound norm_bound(const ModelSpec& m, const Parameters& p, int sublayer, Weight weight) {
  const NormParameters n = p.norm(sublayer, weight);
  return {NormKind::rms, m.norm_eps, n.gain, n.bias};
}

}  // namespace

NormedValues normed_value_sets(const ModelSpec& m, const Parameters& p, int layer, const BoundedSet& projected,
                               ComputedOps& ops) {
  const NormBound norm = norm_bound(m, p, 2 * layer, Weight::v_norm);
  const Index e = m.head_dim;
  NormedValues values;
  values.all = unbounded(projected.size());
  for (int g = 0; g < m.kv_heads; ++g) {
    BoundedSet head{projected.low.segment(g * e, e), projected.high.segment(g * e, e), {}};
    head = ops.normalised(head, norm);
    values.all.low.segment(g * e, e) = head.low;
    values.all.high.segment(g * e, e) = head.high;
    values.heads.push_back(std::move(head));
  }
  return values;
}

BoundedSet mixed_normed_values(const ModelSpec& m, const NormedValues& values, const WeightSum& weights,
                               const ComputedImage& box) {
  const Index e = m.head_dim;
  const Index all = m.query_width();
  BoundedSet mixed{Vector(all), Vector(all), Ellipsoid{Vector::Zero(all), Vector(all), Vector(all), false}};
  const double of_heads = std::sqrt(static_cast<double>(m.heads)) * weights.high * (1.0 + rounding(4));
  for (int h = 0; h < m.heads; ++h) {
    const Index group = h / (m.heads / m.kv_heads);
    const BoundedSet& head = values.heads[static_cast<std::size_t>(group)];
    mixed.low.segment(h * e, e) = box.set.low.segment(group * e, e);
    mixed.high.segment(h * e, e) = box.set.high.segment(group * e, e);
    if (!mixed.ellipsoid) continue;
    if (!head.ellipsoid || !head.ellipsoid->centre.isZero(0.0)) {
      mixed.ellipsoid.reset();
      continue;
    }
    mixed.ellipsoid->axes.segment(h * e, e) = of_heads * head.ellipsoid->axes;
    mixed.ellipsoid->error.segment(h * e, e) =
        (weights.high * head.ellipsoid->error + box.error.segment(group * e, e)) * (1.0 + rounding(4));
  }
  return cleaned(std::move(mixed));
}

GateBounds gate_bounds(const ModelSpec& m, const Parameters& p, int layer, const BoundedSet& x, const BoundedSet& mixed,
                       ComputedOps& ops) {
  GateBounds bounds;
  bounds.projected = ops.linear(p.matrix(layer, Weight::attention_gate), p.bias(layer, Weight::attention_gate), x);
  const bool of_heads = m.attention_gate_at(layer) == AttentionGate::head;
  const Index channels = of_heads ? m.head_dim : 1;
  bounds.acted = ops.sigmoid(bounds.projected);
  const BoundedSet& acted = bounds.acted;
  BoundedSet factor = unbounded(mixed.size());
  for (Index i = 0; i < mixed.size(); ++i) {
    factor.low[i] = acted.low[i / channels];
    factor.high[i] = acted.high[i / channels];
  }
  if (of_heads) ops.note(Signal::sums, 1.0);  // a head's number is repeated by a product with ones
  bounds.gated = interval_product({mixed.low, mixed.high, {}}, factor);
  if (mixed.ellipsoid && mixed.ellipsoid->centre.isZero(0.0)) {
    bounds.gated.ellipsoid = mixed.ellipsoid;
  } else {
    const double radius = outward(mixed.norm());
    if (std::isfinite(radius)) {
      bounds.gated.ellipsoid = ellipsoid_around(Vector::Zero(mixed.size()), Vector::Constant(mixed.size(), radius));
    }
  }
  bounds.gated = ops.stored(cleaned(std::move(bounds.gated)));
  return bounds;
}

InnerBounds inner_bounds(const ModelSpec& m, const Parameters& p, int sublayer, Weight writer, const BoundedSet& x,
                         bool with_norm, ComputedOps& ops) {
  const int layer = ModelSpec::layer_of(sublayer);
  InnerBounds bounds;
  bounds.inner = ops.normalised(x, norm_bound(m, p, sublayer, Weight::inner_norm));
  const RowMatrix w = p.matrix(layer, writer);
  const Vector bias = p.bias(layer, writer);
  bounds.out = with_norm ? ops.mapped(w, bias, bounds.inner).image : ops.linear(w, bias, bounds.inner);
  return bounds;
}

}  // namespace periscope::theory
