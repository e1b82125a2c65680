#include <algorithm>
#include <vector>

#include "theory/certify/module_bounds.h"

namespace periscope::theory {
namespace {

BoundedSet part(const BoundedSet& x, Index first, Index size) {
  BoundedSet y{x.low.segment(first, size), x.high.segment(first, size), {}};
  if (x.ellipsoid) {
    const Ellipsoid& e = *x.ellipsoid;
    y.ellipsoid = Ellipsoid{e.centre.segment(first, size), e.axes.segment(first, size), e.error.segment(first, size)};
  }
  return y;
}

/// Image under RoPE in half-split form, which rotates features i and i + e/2 by any angle.
BoundedSet rotated(const BoundedSet& head, const ComputedOps& ops) {
  const Index half = head.size() / 2;
  Vector m = head.magnitude();
  Vector error = Vector::Zero(head.size());
  for (Index i = 0; i < half; ++i) {
    error[i] = error[i + half] = ops.rotation_error(m[i] + m[i + half]);
    double reach = std::hypot(m[i], m[i + half]);
    if (head.ellipsoid) {
      const Ellipsoid& e = *head.ellipsoid;
      const double axis = std::max(std::abs(e.axes[i]), std::abs(e.axes[i + half]));
      const double far = std::hypot(e.centre[i], e.centre[i + half]) + axis + std::hypot(e.error[i], e.error[i + half]);
      if (far < reach) reach = far;
    }
    m[i] = m[i + half] = outward(reach);
  }
  return widened(ball(m, head.norm()), error);
}

/// Queries or keys.
struct HeadInputs {
  BoundedSet projected;            ///< all heads, before QK-norm
  std::vector<BoundedSet> normed;  ///< one set per head, after QK-norm and the factors of pairs, before RoPE
  std::vector<BoundedSet> read;    ///< one set per head, after RoPE
};

HeadInputs head_inputs(const BoundedModule& module, Weight weight, Weight norm) {
  const ModelSpec& m = module.model;
  ComputedOps& ops = module.ops;
  const QkNorm qk_norm = m.qk_norm_at(module.layer());
  const int heads = weight == Weight::q ? m.heads : m.kv_heads_at(module.layer());
  const Index e = m.head_dim_at(module.layer());
  const RowMatrix w = module.matrix(weight);
  const Vector bias = module.bias(weight);
  HeadInputs inputs{ops.linear(weight, w, bias, module.input), {}, {}};
  const std::vector<double> pairs = m.rope_gains_at(module.layer());
  const Vector gains = Eigen::Map<const Vector>(pairs.data(), std::ssize(pairs)).replicate(2, 1);
  BoundedSet whole;
  if (qk_norm == QkNorm::full) whole = ops.normalised(inputs.projected, module.norm(norm));
  for (int h = 0; h < heads; ++h) {
    BoundedSet head;
    if (qk_norm == QkNorm::full) {
      head = part(whole, h * e, e);
    } else if (qk_norm == QkNorm::head) {
      head = ops.normalised(part(inputs.projected, h * e, e), module.norm(norm));
    } else {
      const Vector own = bias.size() > 0 ? Vector(bias.segment(h * e, e)) : bias;
      head = ops.mapped(weight, w.middleRows(h * e, e), own, module.input).image;
    }
    if (gains.size() > 0) head = ops.normalised(head, {NormKind::none, m.norm_eps, gains, {}});
    inputs.normed.push_back(head);
    inputs.read.push_back(m.rope ? rotated(head, ops) : head);
  }
  return inputs;
}

BoundedSet joined(const std::vector<BoundedSet>& parts) {
  const Index e = parts.front().size();
  BoundedSet all = unbounded(e * static_cast<Index>(parts.size()));
  for (std::size_t h = 0; h < parts.size(); ++h) {
    all.low.segment(static_cast<Index>(h) * e, e) = parts[h].low;
    all.high.segment(static_cast<Index>(h) * e, e) = parts[h].high;
  }
  return all;
}

/// Returns a bound on |q·k| of one query and one key head. q and k are given before RoPE, but the bound holds after it.
/// Ellipsoids centred at 0, as after QK-norm, are bounded by pairs of features. If q = a∘u and k = b∘v are rotated by
/// one relative angle per pair, |q·k| ≤ max_i |a|_i|b|_i, where |·|_i is the larger magnitude in pair i. Errors add
/// ‖e_q‖‖k‖ + ‖q‖‖e_k‖.
double dot_bound(const BoundedSet& q, const BoundedSet& k, bool rope) {
  double bound = q.norm() * k.norm();
  const bool around_zero =
      q.ellipsoid && k.ellipsoid && q.ellipsoid->centre.isZero(0.0) && k.ellipsoid->centre.isZero(0.0);
  if (around_zero) {
    Vector a = q.ellipsoid->axes.cwiseAbs();
    Vector b = k.ellipsoid->axes.cwiseAbs();
    const Index half = a.size() / 2;
    for (Index i = 0; rope && i < half; ++i) {
      a[i] = a[i + half] = std::max(a[i], a[i + half]);
      b[i] = b[i + half] = std::max(b[i], b[i + half]);
    }
    const double error_bound = norm_of(q.ellipsoid->error) * k.norm() + q.norm() * norm_of(k.ellipsoid->error);
    const double pairs = outward(largest_of(a.cwiseProduct(b))) + error_bound;
    if (pairs < bound) bound = pairs;
  }
  return outward(bound, q.size());
}

void record_scores(const BoundedModule& module, const HeadInputs& q, const HeadInputs& k) {
  const ModelSpec& m = module.model;
  ComputedOps& ops = module.ops;
  const ScoreRule rule = m.scores_at(module.layer());
  const int e = m.head_dim_at(module.layer());
  const int share = m.heads / m.kv_heads_at(module.layer());
  const double scale = rule.scale != 0.0 ? std::abs(rule.scale) : 1.0 / std::sqrt(static_cast<double>(e));
  Vector dots(m.heads);
  Vector cap_inputs(m.heads);
  Vector scores(m.heads);
  // Error of rounded rotations for a vector of norm r: 4u(|x_i| + |x_j|) + 4η in both features of a pair, in total at
  // most 4u·2r + 4η√e.
  const auto rotation_error_of = [&](double r) {
    const double root = std::sqrt(static_cast<double>(e));
    return m.rope ? ops.rotation_error(2.0 * r) + ops.rotation_error(0.0) * root : 0.0;
  };
  for (int h = 0; h < m.heads; ++h) {
    const auto query = static_cast<std::size_t>(h);
    const auto key = static_cast<std::size_t>(h / share);
    const double q_error = rotation_error_of(q.normed[query].norm());
    const double k_rotation = rotation_error_of(k.normed[key].norm());
    const double k_error = k_rotation + ops.cache_error(k.normed[key].norm() + k_rotation, e);
    const double q_norm = q.normed[query].norm() + q_error;
    const double k_norm = k.normed[key].norm() + k_error;
    const double dot = dot_bound(q.normed[query], k.normed[key], m.rope) + q_error * k_norm + q_norm * k_error;
    const ComputedOps::Score score = ops.score(outward(dot), outward(q_norm), outward(k_norm), e, scale, rule.soft_cap);
    dots[h] = score.dot;
    cap_inputs[h] = score.cap_input;
    scores[h] = score.score;
  }
  if (!ops.exact()) module.record(Signal::dots, dots);
  if (!ops.exact() && rule.soft_cap > 0.0) module.record(Signal::cap_inputs, cap_inputs);
  module.record(Signal::scores, scores);
}

/// A matrix divided by 2^exponent, with largest entry near 1.
struct Scaled {
  RowMatrix matrix;
  int exponent = 0;
};
Scaled scaled_near_one(const RowMatrix& x) {
  const double largest = largest_of(x);
  if (largest == 0.0 || !std::isfinite(largest)) return {x, 0};
  const int e = scale_exponent(largest);
  return {x * std::ldexp(1.0, -e), e};
}

/// Returns Σ_h ‖(W_o^h A^g)_k‖ for every row k of W_o, A^g = W_v^g diag(axes), g the group of head h. Squared norms are
/// ‖w A‖² = w·G·w, G = A Aᵀ, with rounding error at most c·2⁻⁵²·‖w‖²·trace G. Both matrices are scaled by powers of
/// two; if a row of W_o is so small that squares underflow, ‖w‖‖A‖_F is used.
Vector output_radius(const ModelSpec& m, int layer, const RowMatrix& wo, const AxesImage& values) {
  const Scaled unit_v = scaled_near_one(values.matrix);
  const Scaled unit_o = scaled_near_one(wo);
  const Index e = m.head_dim_at(layer);
  Vector radius = Vector::Zero(wo.rows());
  for (int h = 0; h < m.heads; ++h) {
    const Index group = h / (m.heads / m.kv_heads_at(layer));
    const RowMatrix a = unit_v.matrix.middleRows(group * e, e);
    const RowMatrix gram = gram_of(a);
    const RowMatrix w = unit_o.matrix.middleCols(h * e, e);
    const RowMatrix y = product_transposed(w, gram);
    const double gram_error = 2.0 * rounding(2 * e + a.cols()) * gram.trace();
    const double frobenius = norm_of(a);
    for (Index k = 0; k < wo.rows(); ++k) {
      const double size = norm_of(w.row(k));
      const double square = y.row(k).dot(w.row(k)) + gram_error * size * size;
      const double safe = outward(size * frobenius);
      const double reach = square > 1e-240 ? std::min(std::sqrt(square), safe) : safe;
      radius[k] +=
          std::ldexp(reach, unit_v.exponent + unit_o.exponent) + std::ldexp(values.error * size, unit_o.exponent);
    }
  }
  return radius.unaryExpr([&](double r) { return outward(r, m.heads); });
}

/// Returns the set of all head outputs [H·e] after V-norm, given the values of every key/value head, the box of the
/// outputs and their rounding errors. Σ_s w_s v̂_s is a convex combination of values in one ellipsoid around 0, times
/// the sum S ≤ S₊ of the weights. All H heads together lie in an ellipsoid with √H S₊ times the axes.
BoundedSet mixed_normed_values(const ModelSpec& m, const std::vector<BoundedSet>& values, const WeightSum& weights,
                               BoundedSet mixed, const Vector& error) {
  const auto is_around_zero = [](const BoundedSet& v) { return v.ellipsoid && v.ellipsoid->centre.isZero(0.0); };
  if (!std::ranges::all_of(values, is_around_zero)) return mixed;
  const Index e = values.front().size();
  const Index all = mixed.size();
  mixed.ellipsoid = Ellipsoid{Vector::Zero(all), Vector(all), Vector(all)};
  const double of_heads = std::sqrt(static_cast<double>(m.heads)) * weights.high * (1.0 + rounding(4));
  for (int h = 0; h < m.heads; ++h) {
    const Ellipsoid& head =
        *values[static_cast<std::size_t>(h) * values.size() / static_cast<std::size_t>(m.heads)].ellipsoid;
    mixed.ellipsoid->axes.segment(h * e, e) = of_heads * head.axes;
    mixed.ellipsoid->error.segment(h * e, e) =
        (weights.high * head.error + error.segment(h * e, e)) * (1.0 + rounding(4));
  }
  return cleaned(std::move(mixed));
}

/// Returns the head outputs after the gate. 0 ≤ σ ≤ 1 in every arithmetic, so a gate increases no magnitude: the box is
/// an interval product, and an ellipsoid around 0 remains valid.
BoundedSet gated_heads(const BoundedModule& module, const BoundedSet& mixed) {
  const BoundedSet projected = module.ops.linear(Weight::attention_gate, module.matrix(Weight::attention_gate),
                                                 module.bias(Weight::attention_gate), module.input);
  module.record(Signal::attention_gate, projected.magnitude());
  const BoundedSet gate = module.ops.sigmoid(projected);
  if (!module.ops.exact()) module.record(Signal::gated, gate.magnitude());
  const bool of_heads = module.model.attention_gate_at(module.layer()) == AttentionGate::head;
  const Index channels = of_heads ? module.model.head_dim_at(module.layer()) : 1;
  BoundedSet factor = unbounded(mixed.size());
  for (Index i = 0; i < mixed.size(); ++i) {
    factor.low[i] = gate.low[i / channels];
    factor.high[i] = gate.high[i / channels];
  }
  if (of_heads) module.ops.record(Signal::sums, 1.0);  // a run broadcasts a head's gate by multiplying it by ones
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
  module.record(Signal::gated_mixed, gated.magnitude());
  return gated;
}

}  // namespace

BoundedSet attention_bounds(const BoundedModule& module) {
  const ModelSpec& m = module.model;
  const BoundedSet& x = module.input;
  ComputedOps& ops = module.ops;
  const int layer = module.layer();
  const HeadInputs q = head_inputs(module, Weight::q, Weight::q_norm);
  const HeadInputs k = head_inputs(module, Weight::k, Weight::k_norm);
  if (m.qk_norm_at(layer) != QkNorm::none) {
    module.record(Signal::q_projected, q.projected.magnitude());
    module.record(Signal::k_projected, k.projected.magnitude());
  }
  module.record(Signal::q, joined(q.read).magnitude());
  module.record(Signal::k, joined(k.read).magnitude());
  const RowMatrix wv = module.matrix(Weight::v);
  const RowMatrix wo = module.matrix(Weight::o);
  const Vector bv = module.bias(Weight::v);
  ComputedImage v = ops.summed(Weight::v, wv, image_and_sums(wv, x), bv);
  const Index e = m.head_dim_at(layer);
  const int groups = m.kv_heads_at(layer);
  std::vector<BoundedSet> normed;  // values of every key/value head after V-norm
  if (m.v_norm_at(layer)) {
    module.record(Signal::v_projected, v.set.magnitude());
    const NormBound norm = module.norm(Weight::v_norm);
    for (Index g = 0; g < groups; ++g) normed.push_back(ops.normalised(part(v.set, g * e, e), norm));
    v.set = joined(normed);
  }
  module.record(Signal::v, v.set.magnitude());
  v = ops.cached(std::move(v));
  for (BoundedSet& of_head : normed) of_head = ops.cached({of_head, Vector::Zero(e)}).set;
  record_scores(module, q, k);
  const Index window = m.scores_at(layer).window;
  const WeightSum weights = ops.attention_weights(window);
  const ComputedImage averages = ops.weighted_values(weights, window, v.set);
  const Index share = m.heads / groups;
  const auto to_heads = [&](const Vector& of_groups) {
    Vector all(wo.cols());
    for (Index h = 0; h < m.heads; ++h) all.segment(h * e, e) = of_groups.segment((h / share) * e, e);
    return all;
  };
  const BoundedSet mixed{to_heads(averages.set.low), to_heads(averages.set.high), {}};
  module.record(Signal::mixed, mixed.magnitude());
  const bool inside = m.v_norm_at(layer) || m.gates_at(layer) > 0 || m.inner_norm_at(2 * layer);
  // Maps the set of all head outputs to the module's output.
  const auto finish = [&](const BoundedSet& heads) {
    const BoundedSet read = m.gates_at(layer) > 0 ? gated_heads(module, heads) : heads;
    return m.inner_norm_at(module.sublayer) ? module.output_after_norm(Weight::o, read)
                                            : module.output(Weight::o, read);
  };
  if (m.v_norm_at(layer)) return finish(mixed_normed_values(m, normed, weights, mixed, to_heads(averages.error)));
  if (!x.ellipsoid) return inside ? finish(mixed) : ops.linear(Weight::o, wo, module.bias(Weight::o), mixed);

  // A head computes S·(W_v(c + axes∘ū + ē) + b_v) + rounding errors, S the sum of its weights.
  const AxesImage over = axes_image(wv, *x.ellipsoid);
  Centre value = centre_of(wv, *x.ellipsoid);
  if (bv.size() > 0) {
    value.error += rounding(0) * (value.value.cwiseAbs() + bv.cwiseAbs());
    value.value += bv;
  }
  const double sum_error = std::max(weights.high - 1.0, 1.0 - weights.low);
  const Vector error =
      to_heads(weights.high * (value.error + v.error) + sum_error * value.value.cwiseAbs() + averages.error) *
      (1.0 + rounding(0));
  // ‖mixed − centre‖ ≤ S √(Σ_h ‖W_v^g diag(axes)‖²), g the group of head h; for later sums or the norm of the output.
  double squares = 0.0;
  for (Index g = 0; (module.with_norm || inside || !ops.exact()) && g < groups; ++g) {
    const double head = spectral_bound(over.matrix.middleRows(g * e, e)) + over.error;
    squares = std::hypot(squares, std::sqrt(static_cast<double>(share)) * head * (1.0 + rounding(0)));
  }
  const double reach = outward(weights.high * squares, m.heads);
  BoundedSet around = mixed;
  around.ellipsoid = Ellipsoid{to_heads(value.value), Vector::Constant(wo.cols(), reach), error, false};
  if (inside) return finish(cleaned(std::move(around)));
  const Centre centre = centre_of(wo, *around.ellipsoid);
  if (ops.exact() && !module.with_norm) around.ellipsoid.reset();
  LinearImage image = image_and_sums(wo, cleaned(std::move(around)));
  const Vector radius = weights.high * (1.0 + rounding(0)) * output_radius(m, layer, wo, over) + centre.error;
  const Vector slack = rounding(0) * (centre.value.cwiseAbs() + radius);
  image.set = intersected(image.set, cleaned({centre.value - radius - slack, centre.value + radius + slack, {}}));
  if (module.with_norm) {
    const double all = outward(spectral_bound(wo) * reach);
    image.set.ellipsoid = Ellipsoid{centre.value, Vector::Constant(wo.rows(), all), centre.error, false};
    image.set = cleaned(std::move(image.set));
  }
  return ops.summed(Weight::o, wo, std::move(image), module.bias(Weight::o)).set;
}

}  // namespace periscope::theory
