#include "theory/module_bounds.h"

#include <algorithm>
#include <cmath>

namespace periscope::theory {
namespace {

using Index = Eigen::Index;

BoundedSet unbounded(Index n) { return {Vector::Constant(n, -infinity), Vector::Constant(n, infinity), {}}; }

BoundedSet part(const BoundedSet& x, Index first, Index size) {
  return {x.low.segment(first, size), x.high.segment(first, size), {}};
}

/// W·c + b, and a bound on the rounding of all its entries together.
struct Centre {
  Vector value;
  double error = 0.0;
};

Centre centre_of(const RowMatrix& w, const Vector& bias, const Ellipsoid& e) {
  const Vector b = bias.size() > 0 ? bias : Vector::Zero(w.rows());
  const double size = w.norm() * e.centre.norm() + b.norm();
  return {w * e.centre + b, rounding(w.cols()) * size};
}

/// Adds to a linear image the ball of its 2-norm, from the spectral norm over x's ellipsoid.
void add_ball(BoundedSet& image, const Centre& c, const MatrixOver& over) {
  const double radius = spectral_bound(over.matrix) + over.lost + c.error;
  if (std::isfinite(radius)) image.ellipsoid = Ellipsoid{c.value, Vector::Constant(c.value.size(), radius)};
}

/// A linear map, its image, and what it does to the ellipsoid if there is one.
struct Mapped {
  RowMatrix w;
  Vector bias;
  BoundedSet image;
  Centre centre;
  MatrixOver over;

  Mapped(RowMatrix matrix, Vector b, const BoundedSet& x)
      : w(std::move(matrix)), bias(std::move(b)), image(linear_image(w, bias, x)) {
    if (!x.ellipsoid) return;
    centre = centre_of(w, bias, *x.ellipsoid);
    over = matrix_over(w, *x.ellipsoid);
    add_ball(image, centre, over);
  }
};

/// RoPE in half-split form turns features i and i + e/2 together, by any angle.
BoundedSet rotated(const BoundedSet& head) {
  const Index half = head.size() / 2;
  Vector m = head.magnitude();
  for (Index i = 0; i < half; ++i) {
    double reach = std::hypot(m[i], m[i + half]);
    if (head.ellipsoid) {
      const Ellipsoid& e = *head.ellipsoid;
      const double axis = std::max(std::abs(e.axes[i]), std::abs(e.axes[i + half]));
      reach = std::min(reach, std::hypot(e.centre[i], e.centre[i + half]) + axis);
    }
    m[i] = m[i + half] = reach * (1.0 + rounding(0));
  }
  return ball(m, head.norm());
}

/// Queries or keys: what is projected, and what the heads read.
struct HeadInputs {
  BoundedSet projected;
  std::vector<BoundedSet> normed;  ///< of every head, before RoPE
  std::vector<BoundedSet> read;
};

HeadInputs head_inputs(const ModelSpec& m, const Parameters& p, int layer, Weight weight, const BoundedSet& x) {
  const bool query = weight == Weight::q;
  const int heads = query ? m.heads : m.kv_heads;
  const Index e = m.head_dim;
  const RowMatrix w = p.matrix(layer, weight);
  const Vector bias = p.bias(layer, weight);
  HeadInputs inputs{linear_image(w, bias, x), {}, {}};
  std::optional<NormBound> norm;
  if (m.qk_norm != QkNorm::none) {
    const NormParameters n = p.norm(2 * layer, query ? NormSite::q : NormSite::k);
    norm = NormBound{NormKind::rms, m.norm_eps, n.gain, n.bias};
  }
  BoundedSet whole;
  if (m.qk_norm == QkNorm::full) whole = normalised(inputs.projected, *norm);
  for (int h = 0; h < heads; ++h) {
    BoundedSet head = part(inputs.projected, h * e, e);
    if (m.qk_norm == QkNorm::full) {
      const Ellipsoid& all = *whole.ellipsoid;
      head = part(whole, h * e, e);
      head.ellipsoid = Ellipsoid{all.centre.segment(h * e, e), all.axes.segment(h * e, e)};
    } else if (m.qk_norm == QkNorm::head) {
      head = normalised(head, *norm);
    } else {
      head = Mapped(w.middleRows(h * e, e), bias.size() > 0 ? Vector(bias.segment(h * e, e)) : bias, x).image;
    }
    inputs.normed.push_back(head);
    inputs.read.push_back(m.rope ? rotated(head) : head);
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

/// Largest |q·k| of one query and one key head. If both are axis-aligned around 0, as after QK-norm, pair by pair:
/// q = a∘u, k = b∘v turned against each other by an angle per pair give |q·k| ≤ max_i |a|_i|b|_i, |·|_i the larger of a
/// pair.
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
    bound = std::min(bound, a.cwiseProduct(b).maxCoeff());
  }
  return bound * (1.0 + rounding(q.size()));
}

Vector score_bounds(const ModelSpec& m, int layer, const HeadInputs& q, const HeadInputs& k) {
  const ScoreRule rule = m.scores_at(layer);
  const double scale = rule.scale != 0.0 ? std::abs(rule.scale) : 1.0 / std::sqrt(static_cast<double>(m.head_dim));
  Vector scores(m.heads);
  for (int h = 0; h < m.heads; ++h) {
    const auto query = static_cast<std::size_t>(h);
    const auto key = static_cast<std::size_t>(h / (m.heads / m.kv_heads));
    const double z = scale * (1.0 + rounding(0)) * dot_bound(q.normed[query], k.normed[key], m.rope);
    scores[h] = rule.soft_cap > 0.0 ? std::min(rule.soft_cap, z) : z;
  }
  return scores;
}

/// Σ_h ‖(W_o^h A^g)_k‖ for every row k of W_o, A^g = W_v^g over the ellipsoid, g the group of head h. Squared norms are
/// w·G·w with G = A Aᵀ; what its rounding may hide is at most c·2⁻⁵²·‖w‖²·trace G.
Vector output_radius(const ModelSpec& m, const RowMatrix& wo, const MatrixOver& values) {
  const RowMatrix& over = values.matrix;
  const Index e = m.head_dim;
  Vector radius = Vector::Zero(wo.rows());
  for (int h = 0; h < m.heads; ++h) {
    const Index group = h / (m.heads / m.kv_heads);
    const RowMatrix gram = gram_of(over.middleRows(group * e, e));
    const RowMatrix w = wo.middleCols(h * e, e);
    const RowMatrix y = product_transposed(w, gram);
    const double allowance = 2.0 * rounding(2 * e + over.cols()) * gram.trace();
    const Vector squares = y.cwiseProduct(w).rowwise().sum() + allowance * w.rowwise().squaredNorm();
    radius += squares.cwiseMax(0.0).cwiseSqrt() + values.lost * w.rowwise().norm();
  }
  return radius * (1.0 + rounding(m.heads));
}

}  // namespace

AttentionBounds attention_bounds(const ModelSpec& m, const Parameters& p, int layer, const BoundedSet& x,
                                 bool with_norm) {
  AttentionBounds bounds;
  const HeadInputs q = head_inputs(m, p, layer, Weight::q, x);
  const HeadInputs k = head_inputs(m, p, layer, Weight::k, x);
  if (m.qk_norm != QkNorm::none) {
    bounds.q_projected = q.projected;
    bounds.k_projected = k.projected;
  }
  bounds.q = joined(q.read);
  bounds.k = joined(k.read);
  bounds.scores = score_bounds(m, layer, q, k);

  const RowMatrix wv = p.matrix(layer, Weight::v);
  const RowMatrix wo = p.matrix(layer, Weight::o);
  const Vector bv = p.bias(layer, Weight::v);
  const Vector bo = p.bias(layer, Weight::o);
  bounds.v = linear_image(wv, bv, x);
  bounds.mixed = unbounded(wo.cols());
  const Index e = m.head_dim;
  const Index share = m.heads / m.kv_heads;
  for (Index h = 0; h < m.heads; ++h) {
    bounds.mixed.low.segment(h * e, e) = bounds.v.low.segment((h / share) * e, e);
    bounds.mixed.high.segment(h * e, e) = bounds.v.high.segment((h / share) * e, e);
  }
  bounds.out = linear_image(wo, bo, bounds.mixed);
  if (!x.ellipsoid) return bounds;

  const MatrixOver over = matrix_over(wv, *x.ellipsoid);
  const Centre value = centre_of(wv, bv, *x.ellipsoid);
  Vector shared(wo.cols());
  for (Index h = 0; h < m.heads; ++h) shared.segment(h * e, e) = value.value.segment((h / share) * e, e);
  const Vector bias = bo.size() > 0 ? bo : Vector::Zero(wo.rows());
  const Vector centre = wo * shared + bias;
  // What the centre's two products may have lost: value.error is for one copy of the values, W_o reads `share` of them.
  const Vector rows = wo.rowwise().norm();
  const double of_values = value.error * std::sqrt(static_cast<double>(share));
  const Vector slack = rows * (of_values + rounding(wo.cols()) * shared.norm()) + rounding(0) * bias.cwiseAbs();
  const Vector radius = output_radius(m, wo, over) + slack;
  bounds.out = within(bounds.out, {centre - radius, centre + radius, {}});
  if (!with_norm) return bounds;
  // ‖out − centre‖ ≤ ‖W_o‖ √(Σ_h ‖A^g(h)‖²)
  double squares = 0.0;
  for (Index g = 0; g < m.kv_heads; ++g) {
    const double head = spectral_bound(over.matrix.middleRows(g * e, e)) + over.lost;
    squares += static_cast<double>(share) * head * head;
  }
  const double reach = spectral_bound(wo) * std::sqrt(squares) * (1.0 + rounding(m.heads)) + slack.norm();
  if (std::isfinite(reach)) bounds.out.ellipsoid = Ellipsoid{centre, Vector::Constant(wo.rows(), reach)};
  return bounds;
}

namespace {

/// gp over the ellipsoid, feature by feature, and 0: where φ(g)p lies.
BoundedSet gated_box(const Mapped& gate, const Mapped& up) {
  const RowMatrix& a = gate.over.matrix;
  const RowMatrix& b = up.over.matrix;
  const Centre& g = gate.centre;
  const Centre& p = up.centre;
  const double slack = rounding(2 * a.cols());
  BoundedSet box = unbounded(a.rows());
#pragma omp parallel for schedule(static) if (a.size() > (1 << 16))
  for (Index j = 0; j < a.rows(); ++j) {
    const double aa = a.row(j).norm();
    const double bb = b.row(j).norm();
    const double ab = a.row(j).dot(b.row(j));
    const double g0 = g.value[j];
    const double p0 = p.value[j];
    const double cross = std::sqrt(std::max(0.0, g0 * g0 * bb * bb + p0 * p0 * aa * aa + 2.0 * g0 * p0 * ab));
    // Everything that a larger gate or up would give bounds what rounding can have taken away.
    const double size = (std::abs(g0) + g.error + aa) * (std::abs(p0) + p.error + bb);
    const double lost =
        std::sqrt(slack) * (g0 != 0.0 && p0 != 0.0 ? std::abs(g0) * bb + std::abs(p0) * aa : 0.0) + slack * size +
        2.0 * (gate.over.lost * (bb + up.over.lost + std::abs(p0)) + up.over.lost * (aa + std::abs(g0))) +
        g.error * (std::abs(p0) + p.error + bb) + p.error * (std::abs(g0) + g.error + aa);
    box.high[j] = std::max(0.0, g0 * p0 + cross + 0.5 * (aa * bb + ab) + lost);
    box.low[j] = std::min(0.0, g0 * p0 - cross - 0.5 * (aa * bb - ab) - lost);
  }
  return box;
}

/// |out_k − b_k| for hidden layers of bounded 2-norm and 1-norm.
BoundedSet from_norms(const RowMatrix& down, const Vector& bias, double two, double one) {
  const double slack = 1.0 + rounding(down.cols());
  const Vector rows = down.rowwise().norm() * two;
  const Vector largest = down.rowwise().lpNorm<Eigen::Infinity>() * one;
  const Vector radius = rows.cwiseMin(largest) * slack;
  const Vector centre = bias.size() > 0 ? bias : Vector::Zero(down.rows());
  const Vector reach = radius + rounding(0) * centre.cwiseAbs();
  return {centre - reach, centre + reach, {}};
}

MlpBounds gated_bounds(const ModelSpec& m, const Parameters& p, int layer, const BoundedSet& x, bool with_norm) {
  MlpBounds bounds;
  const Activation activation = activation_of(m.mlp);
  const RowMatrix down = p.matrix(layer, Weight::down);
  const Vector bias = p.bias(layer, Weight::down);
  BoundedSet acted;
  {
    const Mapped gate(p.matrix(layer, Weight::gate), p.bias(layer, Weight::gate), x);
    const Mapped up(p.matrix(layer, Weight::up), p.bias(layer, Weight::up), x);
    bounds.gate = gate.image;
    bounds.up = up.image;
    acted = activated(activation, gate.image);
    bounds.hidden = interval_product(acted, up.image);
    if (x.ellipsoid) bounds.hidden = within(bounds.hidden, gated_box(gate, up));
  }
  bounds.out = linear_image(down, bias, bounds.hidden);
  const double one = acted.norm() * bounds.up.norm();
  const double two = std::min({acted.magnitude().maxCoeff() * bounds.up.norm(),
                               acted.norm() * bounds.up.magnitude().maxCoeff(), bounds.hidden.norm()}) *
                     (1.0 + rounding(0));
  if (!std::isfinite(two) || !std::isfinite(one)) return bounds;
  bounds.out = within(bounds.out, from_norms(down, bias, two, one));
  if (!with_norm) return bounds;
  const double reach = spectral_bound(down) * two * (1.0 + rounding(0));
  bounds.out.ellipsoid =
      Ellipsoid{bias.size() > 0 ? bias : Vector::Zero(down.rows()), Vector::Constant(down.rows(), reach)};
  return bounds;
}

/// centre ± ½(‖(W_down A)_k‖ + ‖W_k‖·‖p‖) for p = p₀ + A u.
BoundedSet from_half(const RowMatrix& down, const Vector& bias, const Mapped& up) {
  const Centre& p = up.centre;
  const RowMatrix& over = up.over.matrix;
  const double norm = up.image.norm();
  const RowMatrix product = product_transposed(down, over.transpose());
  const Vector rows = down.rowwise().norm();
  const Vector centre = 0.5 * (down * p.value) + (bias.size() > 0 ? bias : Vector::Zero(down.rows()));
  const double lost = p.error + up.over.lost + rounding(down.cols()) * (p.value.norm() + over.norm());
  const Vector reach = 0.5 * (product.rowwise().norm() + norm * rows) * (1.0 + rounding(down.cols())) + lost * rows +
                       rounding(0) * centre.cwiseAbs();
  return {centre - reach, centre + reach, {}};
}

MlpBounds plain_bounds(const ModelSpec& m, const Parameters& p, int layer, const BoundedSet& x, bool with_norm) {
  MlpBounds bounds;
  const Mapped up(p.matrix(layer, Weight::up), p.bias(layer, Weight::up), x);
  const RowMatrix down = p.matrix(layer, Weight::down);
  const Vector bias = p.bias(layer, Weight::down);
  bounds.up = up.image;
  bounds.hidden = activated(activation_of(m.mlp), bounds.up);
  bounds.out = linear_image(down, bias, bounds.hidden);
  if (x.ellipsoid && std::isfinite(bounds.up.norm())) bounds.out = within(bounds.out, from_half(down, bias, up));
  if (!with_norm || !std::isfinite(bounds.hidden.norm())) return bounds;
  const double reach = spectral_bound(down) * bounds.hidden.norm() * (1.0 + rounding(0));
  bounds.out.ellipsoid =
      Ellipsoid{bias.size() > 0 ? bias : Vector::Zero(down.rows()), Vector::Constant(down.rows(), reach)};
  return bounds;
}

}  // namespace

MlpBounds mlp_bounds(const ModelSpec& m, const Parameters& p, int layer, const BoundedSet& x, bool with_norm) {
  return is_gated(m.mlp) ? gated_bounds(m, p, layer, x, with_norm) : plain_bounds(m, p, layer, x, with_norm);
}

}  // namespace periscope::theory
