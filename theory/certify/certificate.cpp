#include "theory/certify/certificate.h"

#include <algorithm>
#include <cmath>

#include "theory/certify/module_bounds.h"
#include "theory/certify/rounded_parameters.h"

namespace periscope::theory {
namespace {

using Index = Eigen::Index;

double longest_row(const RowMatrix& rows) {
  double longest = 0.0;
  for (Index i = 0; i < rows.rows(); ++i) {
    const double length = norm_of(rows.row(i));
    if (!(length <= longest)) longest = length;
  }
  return longest;
}

/// The rows of a table, from `first` on, times k: the smallest set of box and ball that holds them. With `map`, of
/// their images under it.
BoundedSet table_set(const Parameters& p, Weight table, Index first, double k, Index width, const RowMatrix* map) {
  BoundedSet set{Vector::Constant(width, infinity), Vector::Constant(width, -infinity), {}};
  double radius = 0.0;
  p.visit_rows(table, [&](Index at, const RowMatrix& block) {
    const Index skip = std::clamp(first - at, Index{0}, block.rows());
    if (skip == block.rows()) return;
    const RowMatrix rows = k * block.bottomRows(block.rows() - skip);
    const RowMatrix images = map == nullptr ? rows : product_transposed(rows, *map);
    const double longest = longest_row(rows);
    Vector slack(width);
    for (Index c = 0; c < width; ++c) {
      slack[c] = rounding(0) * largest_of(images.col(c)) + underflow(rows.cols());
      if (map != nullptr) slack[c] += rounding(rows.cols()) * longest * norm_of(map->row(c));
    }
    set.low = set.low.cwiseMin(images.colwise().minCoeff().transpose() - slack);
    set.high = set.high.cwiseMax(images.colwise().maxCoeff().transpose() + slack);
    const double reach = outward(longest_row(images) + norm_of(slack));
    if (!(reach <= radius)) radius = reach;
  });
  set.ellipsoid = ellipsoid_around(Vector::Zero(width), Vector::Constant(width, radius));
  return cleaned(std::move(set));
}

/// Propagates bounds through the stack and notes every one.
class BoundPropagation {
 public:
  BoundPropagation(const ModelSpec& model, const Parameters& parameters, const RunArithmetic& arithmetic, int longest)
      : m_(model), p_(parameters), ops_(arithmetic, longest) {}

  std::vector<SignalBound> run(const InputDomain& domain) {
    note(Signal::input, -1, domain.tokens ? token_input() : real_input(domain.largest));
    x_ = m_.embedding_norm ? normed(0, Weight::embedding_norm, last_) : last_;
    BoundedSet r = x_;
    note_steps(-1);
    note(Signal::x_out, -1, x_);
    for (int l = 0; l < m_.sublayers(); ++l) {
      const BoundedSet branch = sublayer(l);
      if (!m_.placement.two_streams) continue;
      r = ops_.weighted_sum(1.0, r, m_.rule(l).beta, branch);
      note(Signal::r_out, l, r);
    }
    head(r);
    note_steps(m_.sublayers());
    return std::move(bounds_);
  }

 private:
  /// Remembers the set too, as last_.
  void note(Signal signal, int sublayer, BoundedSet set) {
    note(signal, sublayer, set.magnitude());
    last_ = std::move(set);
  }

  void note(Signal signal, int sublayer, Vector magnitude) {
    SignalBound bound{signal, sublayer, std::move(magnitude)};
    for (Index k = 0; k < bound.magnitude.size(); ++k) {
      if (std::isnan(bound.magnitude[k])) bound.magnitude[k] = infinity;
      if (bound.magnitude[k] <= bound.largest) continue;
      bound.largest = bound.magnitude[k];
      bound.channel = k;
    }
    bounds_.push_back(std::move(bound));
  }

  /// Notes what the ops of a sublayer stored or summed inside. Where eps rounds to 0, the bound on reciprocals is
  /// infinite, and so is every one behind it: so it is put first, to be named as the cause.
  void note_steps(int sublayer) {
    for (const auto& [signal, magnitude] : ops_.take_notes()) {
      note(signal, sublayer, Vector::Constant(1, magnitude));
      if (signal != Signal::reciprocals) continue;
      const auto own = [=](const SignalBound& b) { return b.sublayer == sublayer; };
      std::rotate(std::ranges::find_if(bounds_, own), bounds_.end() - 1, bounds_.end());
    }
  }

  [[nodiscard]] BoundedSet normed(int sublayer, Weight weight, const BoundedSet& x) {
    const NormParameters n = p_.norm(sublayer, weight);
    return ops_.normalised(x, {m_.norm, m_.norm_eps, n.gain, n.bias});
  }

  /// The rows of the embedding, scaled; also their images under the projection, if there is one.
  BoundedSet table_input() {
    const double k = m_.embedding.scale;
    const Index narrow = m_.embedding_width();
    BoundedSet x = ops_.exact() ? table_set(p_, Weight::embedding, 0, k, narrow, nullptr)
                                : ops_.scaled(k, table_set(p_, Weight::embedding, 0, 1.0, narrow, nullptr));
    note(Signal::embedding, -1, x);
    if (!m_.projects_embedding()) return x;
    const RowMatrix map = p_.matrix(0, Weight::project_in);
    LinearImage image = image_and_sums(map, x);
    // The images of the table's rows fill less than the image of the box around them. A run that rounds may have
    // rounded the scaled rows before it maps them, which the second step allows for.
    BoundedSet rows = table_set(p_, Weight::embedding, 0, k, m_.width, &map);
    if (!ops_.exact() && k != 1.0) {
      const Vector off = ops_.rounded_twice(x.magnitude());
      rows = widened(std::move(rows), centre_of(map, {Vector::Zero(narrow), off, off}).error);
    }
    image.set = within(rows, image.set);
    return ops_.summed(std::move(image), narrow, p_.bias(0, Weight::project_in)).set;
  }

  BoundedSet token_input() {
    const EmbeddingSpec& e = m_.embedding;
    BoundedSet x = table_input();
    double all = largest_of(x.magnitude());
    const auto add = [&](Weight table, Index first) {
      const BoundedSet rows = table_set(p_, table, first, 1.0, m_.width, nullptr);
      all = outward(all + largest_of(rows.magnitude()));
      x = ops_.weighted_sum(1.0, x, 1.0, rows);
    };
    if (e.positions > 0) add(Weight::positions, e.position_offset);
    if (e.token_types > 0) add(Weight::token_types, 0);
    // Implementations add the tables in different orders, so a partial sum may be one that this order does not have.
    if (e.positions > 0 && e.token_types > 0) ops_.note(Signal::addends, std::max(all, largest_of(x.magnitude())));
    return x;
  }

  /// A run stores its input in its format: without a limit that is any number of the format, with one it is a real
  /// number rounded, which overflows if the limit does.
  [[nodiscard]] BoundedSet real_input(double largest) const {
    const double stored = std::isinf(largest) ? ops_.largest_stored() : ops_.rounded(largest);
    const double reach = std::isinf(stored) ? largest : stored;
    const Vector m = Vector::Constant(m_.width, reach);
    return std::isinf(reach) ? BoundedSet{-m, m, {}}
                             : ball(m, outward(reach * std::sqrt(static_cast<double>(m_.width))));
  }

  /// True if something after sublayer l reads the stream as it is, so that its 2-norm matters.
  [[nodiscard]] bool is_read_raw_after(int l) const {
    for (int later = l + 1; later < m_.sublayers(); ++later) {
      if (!m_.rule(later).norm_a) return true;
      if (m_.rule(later).norm_c) return false;
    }
    return !m_.final_norm;
  }

  /// Notes everything of one sublayer, moves x_ to its output and returns the branch.
  BoundedSet sublayer(int l) {
    const SublayerRule rule = m_.rule(l);
    BoundedSet a = rule.norm_a ? normed(l, Weight::norm_a, x_) : x_;
    if (rule.input_gain != 1.0) a = ops_.scaled(rule.input_gain, a);
    if (rule.norm_a || rule.input_gain != 1.0) note(Signal::A_out, l, a);
    const bool with_norm = !rule.norm_b && !rule.norm_c && is_read_raw_after(l);
    const BoundedSet f = ModelSpec::is_attention(l) ? attention(l, a, with_norm) : mlp(l, a, with_norm);
    note(Signal::f_out, l, f);
    BoundedSet branch = f;
    if (rule.norm_b) {
      branch = normed(l, Weight::norm_b, f);
      note(Signal::B_out, l, branch);
    }
    x_ = ops_.weighted_sum(rule.alpha, x_, rule.beta, branch);
    if (rule.norm_c) {
      note(Signal::sum, l, x_);
      x_ = normed(l, Weight::norm_c, x_);
    }
    note_steps(l);
    note(Signal::x_out, l, x_);
    return branch;
  }

  BoundedSet attention(int l, const BoundedSet& x, bool with_norm) {
    const AttentionBounds b = attention_bounds(m_, p_, l / 2, x, with_norm, ops_);
    if (b.q_projected) note(Signal::q_projected, l, *b.q_projected);
    if (b.k_projected) note(Signal::k_projected, l, *b.k_projected);
    note(Signal::q, l, b.q);
    note(Signal::k, l, b.k);
    note(Signal::v, l, b.v);
    if (!ops_.exact()) {
      note(Signal::dots, l, b.dots);
      if (b.cap_inputs.size() > 0) note(Signal::cap_inputs, l, b.cap_inputs);
    }
    note(Signal::scores, l, b.scores);
    note(Signal::mixed, l, b.mixed);
    return b.out;
  }

  BoundedSet mlp(int l, const BoundedSet& x, bool with_norm) {
    const MlpBounds b = mlp_bounds(m_, p_, l / 2, x, with_norm, ops_);
    if (b.gate) note(Signal::gate, l, *b.gate);
    note(Signal::up, l, b.up);
    if (b.acted && !ops_.exact()) note(Signal::gated, l, *b.acted);
    note(Signal::hidden, l, b.hidden);
    return b.out;
  }

  void head(const BoundedSet& r) {
    const int end = m_.sublayers();
    const BoundedSet& read = m_.placement.two_streams ? r : x_;
    BoundedSet y = m_.final_norm ? normed(end, Weight::final_norm, read) : read;
    if (m_.placement.two_streams) y = ops_.weighted_sum(1.0, x_, 1.0, y);
    note(Signal::output, end, y);
    if (!m_.unembedding) return;
    if (m_.projects_embedding()) note(Signal::projected, end, mapped(Weight::project_out, last_));
    if (m_.head.transform) {
      note(Signal::dense, end, mapped(Weight::head_dense, last_));
      note(Signal::activated, end, ops_.activated(activation_of(m_.mlp), last_).set);
      note(Signal::transformed, end, normed(end, Weight::head_norm, last_));
    }
    BoundedSet scores = unembedded(last_);
    if (m_.head.soft_cap > 0.0) {
      note(Signal::head_scores, end, scores);
      scores = ops_.soft_capped(m_.head.soft_cap, scores);
    }
    note(Signal::logits, end, scores);
  }

  [[nodiscard]] BoundedSet mapped(Weight weight, const BoundedSet& x) {
    return ops_.linear(p_.matrix(0, weight), p_.bias(0, weight), x);
  }

  [[nodiscard]] BoundedSet unembedded(const BoundedSet& x) {
    BoundedSet y{Vector(m_.vocab), Vector(m_.vocab), {}};
    const Vector bias = p_.bias(0, Weight::unembedding);
    p_.visit_rows(Weight::unembedding, [&](Index at, const RowMatrix& rows) {
      const Vector part = bias.size() > 0 ? Vector(bias.segment(at, rows.rows())) : Vector();
      const BoundedSet image = ops_.linear(rows, part, x);
      y.low.segment(at, rows.rows()) = image.low;
      y.high.segment(at, rows.rows()) = image.high;
    });
    return y;
  }

  const ModelSpec& m_;
  const Parameters& p_;
  ComputedOps ops_;
  std::vector<SignalBound> bounds_;
  BoundedSet x_;
  BoundedSet last_;
};

}  // namespace

Certificate certify(const ModelSpec& model, const Parameters& parameters, const InputDomain& domain,
                    const RunArithmetic& arithmetic, int longest) {
  if (arithmetic.kind == Arithmetic::exact)
    return {.bounds = BoundPropagation(model, parameters, arithmetic, 0).run(domain)};
  const EmbeddingSpec& e = model.embedding;
  if (domain.tokens && e.positions > 0) longest = std::min(longest, e.positions - e.position_offset);
  const RoundedParameters rounded(parameters, arithmetic.stored);
  Certificate certificate{.bounds = BoundPropagation(model, rounded, arithmetic, longest).run(domain),
                          .arithmetic = arithmetic,
                          .longest = longest,
                          .weights_rounded = rounded.changed()};
  certificate.bounds.insert(certificate.bounds.begin(),
                            {Signal::weights, -1, Vector::Constant(1, rounded.largest()), rounded.largest()});
  return certificate;
}

}  // namespace periscope::theory
