#include "theory/certify/certificate.h"

#include <algorithm>
#include <cmath>

#include "theory/certify/module_bounds.h"
#include "theory/certify/rounded_parameters.h"

namespace periscope::theory {
namespace {

double longest_row(const RowMatrix& rows) {
  double longest = 0.0;
  for (Index i = 0; i < rows.rows(); ++i) {
    const double length = norm_of(rows.row(i));
    if (!(length <= longest)) longest = length;
  }
  return longest;
}

/// Returns the smallest box and ball that contain k times the rows of a table, from `first` on, mapped by `map` if set.
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

/// Propagates bounds through the stack and records every bound.
class BoundPropagation {
 public:
  BoundPropagation(const ModelSpec& model, const Parameters& parameters, const RunArithmetic& arithmetic, int longest,
                   const std::vector<NumberFormat>& cached = {})
      : m_(model), ends_(model.ends()), p_(parameters), ops_(arithmetic, longest, cached) {}

  Certificate run(const InputDomain& domain) {
    record(Signal::input, -1, domain.tokens ? token_input() : real_input(domain.largest));
    const BoundedSet initial = m_.embedding_norm ? normed(0, Weight::embedding_norm, last_) : last_;
    streams_.assign(static_cast<std::size_t>(ends_.streams()), initial);
    record_intermediates(-1);
    record(Signal::x_out, -1, initial);
    for (int s = 0; s < m_.steps(); ++s) step(s);
    head();
    record_intermediates(m_.sublayers());
    return {.bounds = std::move(bounds_), .products = std::move(products_)};
  }

 private:
  /// Records a bound and sets last_ to the set.
  void record(Signal signal, int sublayer, BoundedSet set) {
    record(signal, sublayer, set.magnitude());
    last_ = std::move(set);
  }

  /// Takes the maximum over the experts of a mixture, which record the same signals one after another.
  void record(Signal signal, int sublayer, const Vector& magnitude, int expert = -1) {
    const auto is_same = [=](const SignalBound& b) { return b.signal == signal && b.sublayer == sublayer; };
    auto at = expert > 0 ? std::ranges::find_if(bounds_, is_same) : bounds_.end();
    if (at == bounds_.end()) at = bounds_.insert(at, {signal, sublayer, Vector::Zero(magnitude.size())});
    for (Index k = 0; k < magnitude.size(); ++k) {
      const double m = std::isnan(magnitude[k]) ? infinity : magnitude[k];
      at->magnitude[k] = std::max(at->magnitude[k], m);
      if (m <= at->largest) continue;
      at->largest = m;
      at->channel = k;
      at->expert = expert;
    }
  }

  /// Records the intermediate values of a sublayer's operations. If eps rounds to 0, the bound on reciprocals and all
  /// later bounds are infinite; reciprocals are placed first, so that verdicts name them as the cause.
  void record_intermediates(int sublayer) {
    for (ProductBound& product : ops_.take_products()) {
      product.sublayer = sublayer;
      products_.push_back(product);
    }
    for (const auto& [signal, magnitude] : ops_.take_maxima()) {
      record(signal, sublayer, Vector::Constant(1, magnitude));
      if (signal != Signal::reciprocals) continue;
      const auto own = [=](const SignalBound& b) { return b.sublayer == sublayer; };
      std::rotate(std::ranges::find_if(bounds_, own), bounds_.end() - 1, bounds_.end());
    }
  }

  [[nodiscard]] BoundedSet normed(int sublayer, Weight weight, const BoundedSet& x) {
    const NormParameters n = p_.norm(sublayer, weight);
    return ops_.normalised(x, {kind_of(m_, weight), m_.norm_eps, n.gain, n.bias, n.alpha});
  }

  /// Returns the set of scaled embedding rows, or of their images under the projection.
  BoundedSet table_input() {
    const double k = m_.embedding.scale;
    const Index table_width = m_.embedding_width();
    BoundedSet x = ops_.exact() ? table_set(p_, Weight::embedding, 0, k, table_width, nullptr)
                                : ops_.scaled(k, table_set(p_, Weight::embedding, 0, 1.0, table_width, nullptr));
    record(Signal::embedding, -1, x);
    if (!m_.projects_embedding()) return x;
    const RowMatrix map = p_.matrix(matrix_id(0, Weight::project_in));
    LinearImage image = image_and_sums(map, x);
    // The images of the table's rows give a smaller set than the image of the box around the rows. The widening
    // covers runs that round the scaled rows before the projection.
    BoundedSet rows = table_set(p_, Weight::embedding, 0, k, m_.width, &map);
    if (!ops_.exact() && k != 1.0) {
      const Vector scaling_error = ops_.rounded_twice(x.magnitude());
      rows = widened(std::move(rows), centre_of(map, {Vector::Zero(table_width), scaling_error, scaling_error}).error);
    }
    image.set = intersected(rows, image.set);
    return ops_.summed(Weight::project_in, map, std::move(image), p_.bias(0, Weight::project_in)).set;
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
    // Implementations add the tables in different orders, so partial sums other than those above occur.
    if (e.positions > 0 && e.token_types > 0) ops_.record(Signal::addends, std::max(all, largest_of(x.magnitude())));
    return x;
  }

  /// Returns the set of real inputs after rounding to the stored format: all numbers of the format if `largest` is
  /// infinite. If `largest` itself overflows when rounded, the set extends to `largest`.
  [[nodiscard]] BoundedSet real_input(double largest) const {
    const double stored = std::isinf(largest) ? ops_.largest_stored() : ops_.rounded(largest);
    const double reach = std::isinf(stored) ? largest : stored;
    const Vector m = Vector::Constant(m_.width, reach);
    return std::isinf(reach) ? BoundedSet{-m, m, {}}
                             : ball(m, outward(reach * std::sqrt(static_cast<double>(m_.width))));
  }

  /// Returns true if a later step or the head reads a stream without a norm, so that the stream's 2-norm is needed.
  [[nodiscard]] bool is_read_without_norm_after(int step) const {
    for (int later = step + 1; later < m_.steps(); ++later) {
      const Step next = m_.step(later);
      const auto is_raw = [](const Branch& b) { return !b.norm_a && !b.shares_input; };
      if (std::ranges::any_of(next.branches, is_raw)) return true;
      if (next.streams() == 1 && next.norm_c.front()) return false;
    }
    return !m_.final_norm;
  }

  /// Returns Σ weight_i x_i.
  [[nodiscard]] BoundedSet sum_of(const std::vector<std::pair<double, const BoundedSet*>>& terms) {
    const auto& [first_weight, first] = terms.front();
    if (terms.size() == 1) return first_weight == 1.0 ? *first : ops_.scaled(first_weight, *first);
    BoundedSet sum = ops_.weighted_sum(first_weight, *first, terms[1].first, *terms[1].second);
    for (std::size_t i = 2; i < terms.size(); ++i) sum = ops_.weighted_sum(1.0, sum, terms[i].first, *terms[i].second);
    return sum;
  }

  static std::vector<std::pair<double, const BoundedSet*>> terms_of(const std::vector<double>& weights,
                                                                    const std::vector<BoundedSet>& streams) {
    std::vector<std::pair<double, const BoundedSet*>> terms;
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (weights[i] != 0.0 || streams.size() == 1) terms.emplace_back(weights[i], &streams[i]);
    }
    return terms;
  }

  [[nodiscard]] BoundedSet mixed(const std::vector<double>& weights) { return sum_of(terms_of(weights, streams_)); }

  /// Records the bounds of one step and replaces the streams by its outputs.
  void step(int index) {
    const Step step = m_.step(index);
    const bool norm_c = std::ranges::find(step.norm_c, true) != step.norm_c.end();
    std::vector<BoundedSet> output;
    BoundedSet shared;
    for (const Branch& b : step.branches) {
      const int l = b.sublayer;
      BoundedSet a = shared;
      if (!b.shares_input) {
        const BoundedSet read = mixed(b.reads);
        a = b.norm_a ? normed(l, Weight::norm_a, read) : read;
        if (b.input_gain != 1.0) a = ops_.scaled(b.input_gain, a);
        if (b.norm_a || b.input_gain != 1.0) record(Signal::A_out, l, a);
      }
      if (step.branches.size() > 1) shared = a;
      const bool with_norm = !b.norm_b && !norm_c && is_read_without_norm_after(index);
      const auto record_inside = [this, l](Signal signal, const Vector& magnitude, int expert) {
        record(signal, l, magnitude, expert);
      };
      const BoundedModule module{m_, p_, l, a, with_norm, ops_, record_inside};
      BoundedSet branch = b.kind == ModuleKind::attention ? attention_bounds(module) : mlp_bounds(module);
      record(Signal::f_out, l, branch);
      if (b.norm_b) {
        branch = normed(l, Weight::norm_b, branch);
        record(Signal::B_out, l, branch);
      }
      if (b.channel_scale) branch = normed(l, Weight::branch_scale, branch);
      output.push_back(std::move(branch));
      if (&b != &step.branches.back()) record_intermediates(l);
    }
    const std::vector<BoundedSet> before = streams_;
    const int last = step.branches.back().sublayer;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      auto terms = terms_of(step.mixing[i], before);
      for (std::size_t b = 0; b < output.size(); ++b) {
        const double weight = step.branches[b].writes[i];
        if (weight != 0.0 || before.size() == 1) terms.emplace_back(weight, &output[b]);
      }
      if (m_.output_scale(last) != 1.0 && !step.norm_c[i]) {  // public implementations multiply the sum, not its terms
        auto unscaled = terms;
        for (auto& term : unscaled) term.first /= m_.output_scale(last);
        record(Signal::sum, index, sum_of(unscaled));
      }
      streams_[i] = sum_of(terms);
      if (step.norm_c[i]) {
        record(Signal::sum, index, streams_[i]);
        streams_[i] = normed(last, Weight::norm_c, streams_[i]);
      }
      if (i == 0) record_intermediates(last);
      if (ends_.names[i] == Signal::r_out) record(Signal::r_out, index, streams_[i]);
      if (i == 0 && ends_.parts_of_stream() == 1) record(Signal::x_out, index, streams_[i]);
    }
    if (ends_.parts_of_stream() > 1) record_parts(index);
  }

  /// Records x_out as the maximum over all streams, per channel.
  void record_parts(int step) {
    Vector magnitude = streams_.front().magnitude();
    for (const BoundedSet& x : streams_) magnitude = magnitude.cwiseMax(x.magnitude());
    record(Signal::x_out, step, magnitude);
  }

  void head() {
    const int end = m_.sublayers();
    const BoundedSet read = mixed(ends_.normed);
    BoundedSet y = m_.final_norm ? normed(end, Weight::final_norm, read) : read;
    if (ends_.has_plain()) y = ops_.weighted_sum(1.0, mixed(ends_.plain), 1.0, y);
    record(Signal::output, end, y);
    if (!m_.unembedding) return;
    if (m_.projects_embedding()) record(Signal::projected, end, mapped(Weight::project_out, last_));
    if (m_.head.transform) {
      record(Signal::dense, end, mapped(Weight::head_dense, last_));
      record(Signal::activated, end, ops_.activated(activation_of(m_.mlp), last_).set);
      record(Signal::transformed, end, normed(end, Weight::head_norm, last_));
    }
    BoundedSet scores = unembedded(last_);
    if (m_.head.changes_scores()) record(Signal::head_scores, end, scores);
    if (m_.head.scale != 1.0) scores = ops_.scaled(m_.head.scale, scores);
    if (m_.head.soft_cap > 0.0) scores = ops_.soft_capped(m_.head.soft_cap, scores);
    record(Signal::logits, end, scores);
  }

  [[nodiscard]] BoundedSet mapped(Weight weight, const BoundedSet& x) {
    return ops_.linear(weight, p_.matrix(matrix_id(0, weight)), p_.bias(0, weight), x);
  }

  [[nodiscard]] BoundedSet unembedded(const BoundedSet& x) {
    BoundedSet y{Vector(m_.vocab), Vector(m_.vocab), {}};
    const Vector bias = p_.bias(0, Weight::unembedding);
    p_.visit_rows(Weight::unembedding, [&](Index at, const RowMatrix& rows) {
      const Vector part = bias.size() > 0 ? Vector(bias.segment(at, rows.rows())) : Vector();
      const BoundedSet image = ops_.linear(Weight::unembedding, rows, part, x);
      y.low.segment(at, rows.rows()) = image.low;
      y.high.segment(at, rows.rows()) = image.high;
    });
    return y;
  }

  const ModelSpec& m_;
  StreamEnds ends_;
  const Parameters& p_;
  ComputedOps ops_;
  std::vector<SignalBound> bounds_;
  std::vector<ProductBound> products_;
  std::vector<BoundedSet> streams_;
  BoundedSet last_;
};

}  // namespace

Certificate certify(const ModelSpec& model, const Parameters& parameters, const InputDomain& domain,
                    const RunArithmetic& arithmetic, int longest, const std::vector<NumberFormat>& cached) {
  if (arithmetic.kind == Arithmetic::exact) return BoundPropagation(model, parameters, arithmetic, 0).run(domain);
  if (domain.tokens && model.max_tokens() > 0) longest = std::min(longest, model.max_tokens());
  const RoundedParameters rounded(parameters, arithmetic.stored);
  Certificate certificate = BoundPropagation(model, rounded, arithmetic, longest, cached).run(domain);
  certificate.arithmetic = arithmetic;
  certificate.longest = longest;
  certificate.weights_rounded = rounded.changed() || std::ranges::any_of(model.layer_scales, [&](double s) {
                                  return rounded_to(arithmetic.stored, s) != s;
                                });
  certificate.largest_weight = rounded.largest_entry();
  if (!cached.empty()) certificate.cached = cached.front();
  if (auto& weight = certificate.largest_weight) weight->name = parameters.entry_name(weight->parameter, weight->entry);
  double largest = rounded.largest();
  if (std::isinf(largest)) largest = std::abs(rounded.largest_entry()->value);  // still exceeds the format's range
  certificate.bounds.insert(certificate.bounds.begin(), {Signal::weights, -1, Vector::Constant(1, largest), largest});
  return certificate;
}

}  // namespace periscope::theory
