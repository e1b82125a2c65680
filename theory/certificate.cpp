#include "theory/certificate.h"

#include <algorithm>
#include <cmath>

#include "theory/module_bounds.h"

namespace periscope::theory {
namespace {

using Index = Eigen::Index;

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
    const double longest = rows.rowwise().norm().maxCoeff();
    Vector slack = rounding(0) * images.cwiseAbs().colwise().maxCoeff().transpose();
    if (map != nullptr) slack += rounding(rows.cols()) * longest * map->rowwise().norm();
    set.low = set.low.cwiseMin(images.colwise().minCoeff().transpose() - slack);
    set.high = set.high.cwiseMax(images.colwise().maxCoeff().transpose() + slack);
    radius = std::max(radius, images.rowwise().norm().maxCoeff() * (1.0 + rounding(width)) + slack.norm());
  });
  set.ellipsoid = Ellipsoid{Vector::Zero(width), Vector::Constant(width, radius)};
  return set;
}

/// Walks the stack and notes every bound.
class Walk {
 public:
  Walk(const ModelSpec& model, const Parameters& parameters) : m_(model), p_(parameters) {}

  Certificate run(const InputDomain& domain) {
    note(Signal::input, -1, domain.tokens ? token_input() : real_input(domain.largest));
    x_ = m_.embedding_norm ? normed(0, NormSite::embedding, last_) : last_;
    BoundedSet r = x_;
    note(Signal::x_out, -1, x_);
    for (int l = 0; l < m_.sublayers(); ++l) {
      const BoundedSet branch = sublayer(l);
      if (!m_.placement.two_streams) continue;
      r = weighted_sum(1.0, r, m_.rule(l).beta, branch);
      note(Signal::r_out, l, r);
    }
    head(r);
    return std::move(certificate_);
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
    certificate_.bounds.push_back(std::move(bound));
  }

  [[nodiscard]] BoundedSet normed(int sublayer, NormSite site, const BoundedSet& x) const {
    const NormParameters n = p_.norm(sublayer, site);
    return normalised(x, {m_.norm, m_.norm_eps, n.gain, n.bias});
  }

  BoundedSet token_input() {
    const EmbeddingSpec& e = m_.embedding;
    BoundedSet x = table_set(p_, Weight::embedding, 0, e.scale, m_.embedding_width(), nullptr);
    note(Signal::embedding, -1, x);
    if (m_.projects_embedding()) {
      const RowMatrix map = p_.matrix(0, Weight::project_in);
      x = table_set(p_, Weight::embedding, 0, e.scale, m_.width, &map);
      const Vector bias = p_.bias(0, Weight::project_in);
      if (bias.size() > 0) x = weighted_sum(1.0, x, 1.0, point(bias));
    }
    if (e.positions > 0) {
      x = weighted_sum(1.0, x, 1.0, table_set(p_, Weight::positions, e.position_offset, 1.0, m_.width, nullptr));
    }
    if (e.token_types > 0) {
      Vector row;
      p_.visit_rows(Weight::token_types, [&](Index at, const RowMatrix& rows) {
        if (at == 0) row = rows.row(0).transpose();
      });
      x = weighted_sum(1.0, x, 1.0, point(row));
    }
    return x;
  }

  [[nodiscard]] BoundedSet real_input(double largest) const {
    const Vector m = Vector::Constant(m_.width, largest);
    if (std::isinf(largest)) return {-m, m, {}};
    return ball(m, largest * std::sqrt(static_cast<double>(m_.width)));
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
    BoundedSet a = rule.norm_a ? normed(l, NormSite::a, x_) : x_;
    if (rule.input_gain != 1.0) a = scaled(rule.input_gain, a);
    if (rule.norm_a || rule.input_gain != 1.0) note(Signal::A_out, l, a);
    const bool with_norm = !rule.norm_b && !rule.norm_c && is_read_raw_after(l);
    const BoundedSet f = ModelSpec::is_attention(l) ? attention(l, a, with_norm) : mlp(l, a, with_norm);
    note(Signal::f_out, l, f);
    BoundedSet branch = f;
    if (rule.norm_b) {
      branch = normed(l, NormSite::b, f);
      note(Signal::B_out, l, branch);
    }
    x_ = weighted_sum(rule.alpha, x_, rule.beta, branch);
    if (rule.norm_c) {
      note(Signal::sum, l, x_);
      x_ = normed(l, NormSite::c, x_);
    }
    note(Signal::x_out, l, x_);
    return branch;
  }

  BoundedSet attention(int l, const BoundedSet& x, bool with_norm) {
    const AttentionBounds b = attention_bounds(m_, p_, l / 2, x, with_norm);
    if (b.q_projected) note(Signal::q_projected, l, *b.q_projected);
    if (b.k_projected) note(Signal::k_projected, l, *b.k_projected);
    note(Signal::q, l, b.q);
    note(Signal::k, l, b.k);
    note(Signal::v, l, b.v);
    note(Signal::scores, l, b.scores);
    note(Signal::mixed, l, b.mixed);
    return b.out;
  }

  BoundedSet mlp(int l, const BoundedSet& x, bool with_norm) {
    const MlpBounds b = mlp_bounds(m_, p_, l / 2, x, with_norm);
    if (b.gate) note(Signal::gate, l, *b.gate);
    note(Signal::up, l, b.up);
    note(Signal::hidden, l, b.hidden);
    return b.out;
  }

  void head(const BoundedSet& r) {
    const int end = m_.sublayers();
    const BoundedSet& read = m_.placement.two_streams ? r : x_;
    BoundedSet y = m_.final_norm ? normed(end, NormSite::final, read) : read;
    if (m_.placement.two_streams) y = weighted_sum(1.0, x_, 1.0, y);
    note(Signal::output, end, y);
    if (!m_.unembedding) return;
    if (m_.projects_embedding()) note(Signal::projected, end, mapped(Weight::project_out, last_));
    if (m_.head.transform) {
      note(Signal::dense, end, mapped(Weight::head_dense, last_));
      note(Signal::activated, end, activated(activation_of(m_.mlp), last_));
      note(Signal::transformed, end, normed(end, NormSite::head, last_));
    }
    BoundedSet scores = unembedded(last_);
    if (m_.head.soft_cap > 0.0) {
      note(Signal::head_scores, end, scores);
      scores = soft_capped(m_.head.soft_cap, scores);
    }
    note(Signal::logits, end, scores);
  }

  [[nodiscard]] BoundedSet mapped(Weight weight, const BoundedSet& x) const {
    return linear_image(p_.matrix(0, weight), p_.bias(0, weight), x);
  }

  [[nodiscard]] BoundedSet unembedded(const BoundedSet& x) const {
    BoundedSet y{Vector(m_.vocab), Vector(m_.vocab), {}};
    const Vector bias = p_.bias(0, Weight::unembedding);
    p_.visit_rows(Weight::unembedding, [&](Index at, const RowMatrix& rows) {
      const Vector part = bias.size() > 0 ? Vector(bias.segment(at, rows.rows())) : Vector();
      const BoundedSet image = linear_image(rows, part, x);
      y.low.segment(at, rows.rows()) = image.low;
      y.high.segment(at, rows.rows()) = image.high;
    });
    return y;
  }

  const ModelSpec& m_;
  const Parameters& p_;
  Certificate certificate_;
  BoundedSet x_;
  BoundedSet last_;
};

}  // namespace

SignalClass class_of(Signal signal) {
  switch (signal) {
    case Signal::embedding:
    case Signal::input:
    case Signal::sum:
    case Signal::x_out:
    case Signal::r_out: return SignalClass::stream;
    case Signal::A_out:
    case Signal::f_out:
    case Signal::B_out: return SignalClass::branch;
    case Signal::q_projected:
    case Signal::k_projected:
    case Signal::q:
    case Signal::k:
    case Signal::v:
    case Signal::mixed: return SignalClass::attention;
    case Signal::scores: return SignalClass::scores;
    case Signal::gate:
    case Signal::up:
    case Signal::hidden: return SignalClass::mlp;
    default: return SignalClass::head;
  }
}

const SignalBound* Certificate::find(Signal signal, int sublayer) const {
  const auto at =
      std::ranges::find_if(bounds, [&](const SignalBound& b) { return b.signal == signal && b.sublayer == sublayer; });
  return at == bounds.end() ? nullptr : &*at;
}

const SignalBound* Certificate::worst(SignalClass kind) const {
  const SignalBound* worst = nullptr;
  for (const SignalBound& b : bounds) {
    if (class_of(b.signal) == kind && (worst == nullptr || b.largest > worst->largest)) worst = &b;
  }
  return worst;
}

Certificate certify(const ModelSpec& model, const Parameters& parameters, const InputDomain& domain) {
  return Walk(model, parameters).run(domain);
}

}  // namespace periscope::theory
