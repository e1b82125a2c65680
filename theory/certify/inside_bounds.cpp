#include "theory/certify/module_bounds.h"

#include <algorithm>
#include <cmath>

namespace periscope::theory {

BoundedSet mixed_normed_values(const ModelSpec& m, const std::vector<BoundedSet>& values, const WeightSum& weights,
                               BoundedSet mixed, const Vector& error) {
  const auto is_around_zero = [](const BoundedSet& v) { return v.ellipsoid && v.ellipsoid->centre.isZero(0.0); };
  if (!std::ranges::all_of(values, is_around_zero)) return mixed;
  const Index e = m.head_dim;
  const Index all = m.query_width();
  mixed.ellipsoid = Ellipsoid{Vector::Zero(all), Vector(all), Vector(all)};
  const double of_heads = std::sqrt(static_cast<double>(m.heads)) * weights.high * (1.0 + rounding(4));
  for (int h = 0; h < m.heads; ++h) {
    const Ellipsoid& head = *values[static_cast<std::size_t>(h / (m.heads / m.kv_heads))].ellipsoid;
    mixed.ellipsoid->axes.segment(h * e, e) = of_heads * head.axes;
    mixed.ellipsoid->error.segment(h * e, e) =
        (weights.high * head.error + error.segment(h * e, e)) * (1.0 + rounding(4));
  }
  return cleaned(std::move(mixed));
}

BoundedSet gated_heads(const BoundedModule& module, const BoundedSet& mixed) {
  const BoundedSet projected =
      module.ops.linear(module.matrix(Weight::attention_gate), module.bias(Weight::attention_gate), module.input);
  module.note(Signal::attention_gate, projected.magnitude());
  const BoundedSet acted = module.ops.sigmoid(projected);
  if (!module.ops.exact()) module.note(Signal::gated, acted.magnitude());
  const bool of_heads = module.model.attention_gate_at(module.layer()) == AttentionGate::head;
  const Index channels = of_heads ? module.model.head_dim : 1;
  BoundedSet factor = unbounded(mixed.size());
  for (Index i = 0; i < mixed.size(); ++i) {
    factor.low[i] = acted.low[i / channels];
    factor.high[i] = acted.high[i / channels];
  }
  if (of_heads) module.ops.note(Signal::sums, 1.0);  // a head's number is repeated by a product with ones
  BoundedSet gated = interval_product({mixed.low, mixed.high, {}}, factor);
  if (mixed.ellipsoid && mixed.ellipsoid->centre.isZero(0.0)) {
    gated.ellipsoid = mixed.ellipsoid;
  } else {
    const double radius = outward(mixed.norm());
    if (std::isfinite(radius)) {
      gated.ellipsoid = ellipsoid_around(Vector::Zero(mixed.size()), Vector::Constant(mixed.size(), radius));
    }
  }
  gated = module.ops.stored(cleaned(std::move(gated)));
  module.note(Signal::gated_mixed, gated.magnitude());
  return gated;
}

BoundedSet after_inner_norm(const BoundedModule& module, Weight last, const BoundedSet& x) {
  const BoundedSet inner = module.ops.normalised(x, module.norm(Weight::inner_norm));
  module.note(Signal::inner, inner.magnitude());
  return module.written(last, inner);
}

}  // namespace periscope::theory
