#include "theory/certify/certificate.h"

#include <map>
#include <utility>

#include "tests/theory/coarse_arithmetic.h"
#include "tests/theory/plain_parameters.h"
#include "theory/certify/module_bounds.h"

/// T24 around the modules: every op of a whole stack widens its sets by its own allowance, in the place where the run
/// rounds. The stack is walked once more here, on the ops whose allowances computed_terms_test.cpp works out, in
/// arithmetics that are so coarse that one op left out of one place changes what is certified behind it.
// A namespace of its own: files of tests are compiled several at a time.
namespace periscope::theory {
namespace {
namespace certificate_terms {

using Index = Eigen::Index;

constexpr int longest = 40;

/// A multiple of 1/4 of either sign, a number of every format here.
double entry(Index i) { return 0.25 * static_cast<double>(1 + i * 5 % 7 - 2 * (i * 3 % 4)); }
RowMatrix some_matrix(Index rows, Index cols, Index first) {
  return RowMatrix::NullaryExpr(rows, cols, [=](Index i, Index j) { return entry(first + 7 * i + 3 * j + i * j); });
}
Vector some_vector(Index n, Index first) {
  return Vector::NullaryExpr(n, [=](Index i) { return entry(first + 3 * i); });
}

/// Parameters for every part that a stack of two layers may have.
struct StackParameters : PlainParameters {
  explicit StackParameters(const ModelSpec& m) {
    const Index heads = m.query_width();
    const Index keys = m.key_width();
    const Index narrow = m.embedding_width();
    for (int layer = 0; layer < m.layers; ++layer) {
      const Index at = 11 * layer;
      add(layer, Weight::q, heads, m.width, at + 1);
      add(layer, Weight::k, keys, m.width, at + 2);
      add(layer, Weight::v, keys, m.width, at + 3);
      add(layer, Weight::o, m.width, heads, at + 4);
      add(layer, Weight::gate, m.mlp_width, m.width, at + 5);
      add(layer, Weight::up, m.mlp_width, m.width, at + 6);
      add(layer, Weight::down, m.width, m.mlp_width, at + 7);
    }
    for (int l = 0; l <= m.sublayers(); ++l) {
      for (const Weight weight :
           {Weight::norm_a, Weight::norm_b, Weight::norm_c, Weight::embedding_norm, Weight::final_norm}) {
        norms[{l, weight}] = {some_vector(m.width, l + static_cast<int>(weight)), some_vector(m.width, l + 5)};
      }
      norms[{l, Weight::head_norm}] = {some_vector(narrow, l), some_vector(narrow, l + 2)};
      for (const Weight weight : {Weight::q_norm, Weight::k_norm}) norms[{l, weight}] = {some_vector(2, l), {}};
    }
    matrices[{0, Weight::embedding}] = some_matrix(m.vocab, narrow, 2);
    matrices[{0, Weight::positions}] = some_matrix(m.embedding.positions, m.width, 3);
    matrices[{0, Weight::token_types}] = some_matrix(m.embedding.token_types, m.width, 4);
    add(0, Weight::unembedding, m.vocab, narrow, 5);
    add(0, Weight::project_in, m.width, narrow, 6);
    add(0, Weight::project_out, narrow, m.width, 7);
    add(0, Weight::head_dense, narrow, narrow, 8);
  }

 private:
  void add(int layer, Weight weight, Index rows, Index cols, Index first) {
    matrices[{layer, weight}] = some_matrix(rows, cols, first);
    biases[{layer, weight}] = some_vector(rows, first + 1);
  }
};

ModelSpec small_model() {
  ModelSpec m;
  m.layers = 2;
  m.width = 6;
  m.heads = 2;
  m.kv_heads = 1;
  m.head_dim = 2;
  m.mlp_width = 5;
  m.vocab = 4;
  m.norm_eps = 0.25;
  return m;
}

/// A walk through a stack by T24, op by op.
class Walk {
 public:
  Walk(const ModelSpec& m, const Parameters& p, const Coarse& c, int tokens) : m_(m), p_(p), ops_(c.run, tokens) {}

  std::map<std::pair<Signal, int>, Vector> run(BoundedSet input) {
    keep(Signal::input, -1, input);
    x_ = m_.embedding_norm ? normed(0, Weight::embedding_norm, input) : std::move(input);
    keep_notes(-1);
    keep(Signal::x_out, -1, x_);
    BoundedSet r = x_;
    for (int l = 0; l < m_.sublayers(); ++l) {
      const SublayerRule rule = m_.rule(l);
      BoundedSet a = rule.norm_a ? normed(l, Weight::norm_a, x_) : x_;
      if (rule.input_gain != 1.0) a = ops_.scaled(rule.input_gain, a);
      if (rule.norm_a || rule.input_gain != 1.0) keep(Signal::A_out, l, a);
      BoundedSet f = l % 2 == 0 ? attention(l, a) : mlp(l, a);
      keep(Signal::f_out, l, f);
      if (rule.norm_b) keep(Signal::B_out, l, f = normed(l, Weight::norm_b, f));
      x_ = ops_.weighted_sum(rule.alpha, x_, rule.beta, f);
      if (rule.norm_c) {
        keep(Signal::sum, l, x_);
        x_ = normed(l, Weight::norm_c, x_);
      }
      keep_notes(l);
      keep(Signal::x_out, l, x_);
      if (m_.placement.wiring != Wiring::dual) continue;
      r = ops_.weighted_sum(1.0, r, rule.beta, f);
      keep(Signal::r_out, l, r);
    }
    head(r);
    keep_notes(m_.sublayers());
    return std::move(bounds_);
  }

  ComputedOps& ops() { return ops_; }
  void keep(Signal signal, int sublayer, const BoundedSet& x) { bounds_[{signal, sublayer}] = x.magnitude(); }

 private:
  void keep_notes(int sublayer) {
    for (const auto& [signal, magnitude] : ops_.take_notes()) {
      bounds_[{signal, sublayer}] = Vector::Constant(1, magnitude);
    }
  }
  BoundedSet normed(int sublayer, Weight weight, const BoundedSet& x) {
    const NormParameters n = p_.norm(sublayer, weight);
    return ops_.normalised(x, {m_.norm, m_.norm_eps, n.gain, n.bias});
  }
  BoundedSet mapped(Weight weight, const BoundedSet& x) {
    return ops_.linear(p_.matrix(0, weight), p_.bias(0, weight), x);
  }
  /// Placements here are the same in all layers: the stream is read raw behind sublayer l if there is no norm A, or
  /// at the end.
  [[nodiscard]] bool norm_matters(int l) const {
    const SublayerRule rule = m_.rule(l);
    const bool last = l == m_.sublayers() - 1;
    return !rule.norm_b && !rule.norm_c && ((!rule.norm_a && !last) || !m_.final_norm);
  }
  BoundedSet attention(int l, const BoundedSet& x) {
    const AttentionBounds b = attention_bounds(m_, p_, l / 2, x, norm_matters(l), ops_);
    if (b.q_projected) keep(Signal::q_projected, l, *b.q_projected);
    if (b.k_projected) keep(Signal::k_projected, l, *b.k_projected);
    keep(Signal::q, l, b.q);
    keep(Signal::k, l, b.k);
    keep(Signal::v, l, b.v);
    bounds_[{Signal::dots, l}] = b.dots;
    if (b.cap_inputs.size() > 0) bounds_[{Signal::cap_inputs, l}] = b.cap_inputs;
    bounds_[{Signal::scores, l}] = b.scores;
    keep(Signal::mixed, l, b.mixed);
    return b.out;
  }
  BoundedSet mlp(int l, const BoundedSet& x) {
    const MlpBounds b = mlp_bounds(m_, p_, l / 2, x, norm_matters(l), ops_);
    if (b.gate) keep(Signal::gate, l, *b.gate);
    if (b.acted) keep(Signal::gated, l, *b.acted);
    keep(Signal::up, l, b.up);
    keep(Signal::hidden, l, b.hidden);
    return b.out;
  }
  void head(const BoundedSet& r) {
    const int end = m_.sublayers();
    const BoundedSet& last = (m_.placement.wiring == Wiring::dual) ? r : x_;
    BoundedSet y = m_.final_norm ? normed(end, Weight::final_norm, last) : last;
    if (m_.placement.wiring == Wiring::dual) y = ops_.weighted_sum(1.0, x_, 1.0, y);
    keep(Signal::output, end, y);
    if (m_.projects_embedding()) keep(Signal::projected, end, y = mapped(Weight::project_out, y));
    if (m_.head.transform) {
      keep(Signal::dense, end, y = mapped(Weight::head_dense, y));
      keep(Signal::activated, end, y = ops_.activated(activation_of(m_.mlp), y).set);
      keep(Signal::transformed, end, y = normed(end, Weight::head_norm, y));
    }
    y = mapped(Weight::unembedding, y);
    if (m_.head.soft_cap > 0.0) {
      keep(Signal::head_scores, end, y);
      y = ops_.soft_capped(m_.head.soft_cap, y);
    }
    keep(Signal::logits, end, y);
  }

  const ModelSpec& m_;
  const Parameters& p_;
  ComputedOps ops_;
  std::map<std::pair<Signal, int>, Vector> bounds_;
  BoundedSet x_;
};

void hold(const std::map<std::pair<Signal, int>, Vector>& expected, const Certificate& certificate) {
  CHECK(certificate.bounds.size() == expected.size() + 1);  // and the weights
  for (const auto& each : expected) {
    const std::pair<Signal, int>& place = each.first;
    const Vector& magnitude = each.second;
    INFO(name_of(place.first), " ", place.second);
    const SignalBound* b = certificate.find(place.first, place.second);
    REQUIRE(b != nullptr);
    REQUIRE(b->magnitude.size() == magnitude.size());
    for (Index k = 0; k < magnitude.size(); ++k) {
      if (std::isinf(magnitude[k])) {
        CHECK(std::isinf(b->magnitude[k]));
      } else {
        CHECK(b->magnitude[k] == by_hand(magnitude[k]));
      }
    }
    CHECK(b->largest == by_hand(magnitude.maxCoeff()));
  }
}

TEST_CASE("a whole stack on real inputs: every op widens its sets where the run rounds, in every placement") {
  std::vector<ModelSpec> models;
  for (const Placement& placement :
       {custom_placement(
            {.norm_a = true, .norm_b = true, .norm_c = true, .alpha = -0.7, .beta = 0.6, .input_gain = 0.3}),
        custom_placement({.alpha = 0.7, .beta = 0.3, .input_gain = 0.6}), find_placement("residual-dual").value(),
        find_placement("none").value(), find_placement("peri").value()}) {
    for (const NormKind norm : {NormKind::rms, NormKind::layer}) {
      ModelSpec m = small_model();
      m.placement = placement;
      m.norm = norm;
      m.embedding_norm = norm == NormKind::layer;
      m.final_norm = placement.defaults.final_norm;
      m.mlp = norm == NormKind::layer ? MlpKind::gelu_tanh : MlpKind::swiglu;
      m.qk_norm = norm == NormKind::layer ? QkNorm::head : QkNorm::none;
      m.attention.assign(2, {.scores = {.scale = 0.7, .soft_cap = norm == NormKind::layer ? 30.0 : 0.0, .window = 9},
                             .rope_frequencies = {}});
      models.push_back(m);
    }
  }
  for (const ModelSpec& m : models) {
    const StackParameters p(m);
    for (const Coarse& c : coarse_arithmetics()) {
      INFO(m.placement.name, " ", c.name);
      const double largest = rounded_to(c.run.stored, 0.7);
      const BoundedSet input = ball(Vector::Constant(6, largest), largest * std::sqrt(6.0));
      Walk walk(m, p, c, longest);
      const Certificate certificate = certify(m, p, {.tokens = false, .largest = 0.7}, c.run, longest);
      CHECK_FALSE(certificate.weights_rounded);
      CHECK(certificate.longest == longest);
      hold(walk.run(input), certificate);
    }
  }
}

/// A table whose rows have one entry each, 1 or −1: its ball is far smaller than its box.
RowMatrix one_entry_rows(Index width) {
  RowMatrix table(2 * width, width);
  table << RowMatrix::Identity(width, width), -RowMatrix::Identity(width, width);
  return table;
}

ModelSpec token_model() {
  ModelSpec m = small_model();
  m.placement = find_placement("post").value();
  m.final_norm = false;
  m.layers = 1;
  m.vocab = 8;
  m.embedding = {.scale = 0.7, .width = 4, .positions = 7, .position_offset = 2, .token_types = 2};
  m.head = {.transform = true, .soft_cap = 20.3};
  return m;
}

TEST_CASE("a whole stack on tokens: scaled rows, their images, positions and types, and a head with all its parts") {
  const ModelSpec m = token_model();
  StackParameters p(m);
  p.matrices[{0, Weight::embedding}] = one_entry_rows(4);
  p.matrices[{0, Weight::positions}].topRows(2).setConstant(1e6);  // which no token reads
  for (const Coarse& c : coarse_arithmetics()) {
    INFO(c.name);
    // Five tokens: the position table ends there.
    const Certificate certificate = certify(m, p, {}, c.run, longest);
    CHECK(certificate.longest == 5);
    Walk walk(m, p, c, 5);
    ComputedOps& ops = walk.ops();
    const BoundedSet scaled = ops.scaled(0.7, ball(Vector::Ones(4), 1.0));
    walk.keep(Signal::embedding, -1, scaled);
    // A row has one entry ±0.7, which the run rounded twice before it maps it.
    const RowMatrix map = p.matrix(0, Weight::project_in);
    LinearImage image = image_and_sums(map, scaled);
    const double off = (3.0 * c.u + 2.0 * c.eta) * scaled.high[0] + 3.0 * c.eta;
    bool sharper = false;
    for (Index k = 0; k < 6; ++k) {
      const RowMatrix row = map.row(k).cwiseAbs();
      const double reach = 0.7 * row.maxCoeff() + off * row.sum();
      sharper = sharper || reach < 0.95 * image.set.high[k];
      image.set.high[k] = std::min(image.set.high[k], reach);
      image.set.low[k] = std::max(image.set.low[k], -reach);
    }
    CHECK(sharper);
    const Vector lengths = 0.7 * map.colwise().norm();
    image.set.ellipsoid =
        Ellipsoid{Vector::Zero(6), Vector::Constant(6, lengths.maxCoeff()), off * map.cwiseAbs().rowwise().sum()};
    BoundedSet x = ops.summed(image, 4, p.bias(0, Weight::project_in)).set;
    double all = x.magnitude().maxCoeff();
    const auto add = [&](const RowMatrix& rows) {
      BoundedSet set{rows.colwise().minCoeff(), rows.colwise().maxCoeff(), {}};
      set.ellipsoid = ellipsoid_around(Vector::Zero(6), Vector::Constant(6, rows.rowwise().norm().maxCoeff()));
      all += set.magnitude().maxCoeff();
      x = ops.weighted_sum(1.0, x, 1.0, set);
    };
    add(p.matrix(0, Weight::positions).bottomRows(5));
    add(p.matrix(0, Weight::token_types));
    ops.note(Signal::addends, std::max(all, x.magnitude().maxCoeff()));
    hold(walk.run(x), certificate);
  }
}

TEST_CASE("tables that cancel: a partial sum of another order counts") {
  ModelSpec m = token_model();
  m.embedding = {.scale = 1.0, .width = 0, .positions = 3, .position_offset = 0, .token_types = 1};
  m.head = {};
  StackParameters p(m);
  p.matrices[{0, Weight::embedding}] = RowMatrix::Constant(8, 6, 1.0);
  p.matrices[{0, Weight::positions}] = RowMatrix::Constant(3, 6, -3.0);
  p.matrices[{0, Weight::token_types}] = RowMatrix::Constant(1, 6, 2.0);
  const Certificate certificate = certify(m, p, {}, run_arithmetic(Arithmetic::pure, fp64), longest);
  CHECK(certificate.find(Signal::input, -1)->largest < 1e-12);
  REQUIRE(certificate.find(Signal::addends, -1) != nullptr);
  CHECK(certificate.find(Signal::addends, -1)->largest >= 6.0);
}

/// Every entry times 1.01, which no format of 7 bits has.
struct OffParameters : StackParameters {
  explicit OffParameters(const ModelSpec& m) : StackParameters(m) {
    for (auto& [place, w] : matrices) w *= 1.01;
    for (auto& [place, b] : biases) b *= 1.01;
    for (auto& [place, n] : norms) {
      n.gain *= 1.01;
      n.bias *= 1.01;
    }
  }
};

TEST_CASE("every weight is rounded to the format first: matrices, tables, biases, gains") {
  const ModelSpec m = token_model();
  const Coarse c = coarse_arithmetics().front();
  const OffParameters stored(m);
  OffParameters rounded(m);
  double largest = 0.0;
  const auto round = [&](auto& values) {
    values = values.unaryExpr([&](double x) { return rounded_to(c.run.stored, x); }).eval();
  };
  for (auto& [place, w] : rounded.matrices) round(w);
  for (auto& [place, b] : rounded.biases) round(b);
  for (auto& [place, n] : rounded.norms) {
    round(n.gain);
    round(n.bias);
  }
  const Certificate of_stored = certify(m, stored, {}, c.run, longest);
  const Certificate of_rounded = certify(m, rounded, {}, c.run, longest);
  CHECK(of_stored.weights_rounded);
  CHECK_FALSE(of_rounded.weights_rounded);
  REQUIRE(of_stored.bounds.size() == of_rounded.bounds.size());
  for (std::size_t i = 0; i < of_stored.bounds.size(); ++i) {
    INFO(name_of(of_stored.bounds[i].signal), " ", of_stored.bounds[i].sublayer);
    CHECK(of_stored.bounds[i].magnitude == of_rounded.bounds[i].magnitude);
  }
  CHECK(of_stored.bounds.front().signal == Signal::weights);
  OffParameters heavy(m);
  heavy.biases[{0, Weight::unembedding}][1] = -40.4;
  CHECK(certify(m, heavy, {}, c.run, longest).bounds.front().largest == rounded_to(c.run.stored, 40.4));

  // One by one: each is rounded, counted, and counts for the largest.
  const RoundedParameters all(stored, c.run.stored);
  const auto seen = [&](const auto& x, const auto& expected) {
    CHECK(x == expected);
    largest = std::max(largest, expected.size() > 0 ? expected.cwiseAbs().maxCoeff() : 0.0);
    CHECK(all.largest() == largest);
  };
  for (const auto& each : rounded.matrices) {
    const std::pair<int, Weight>& place = each.first;
    const RowMatrix& w = each.second;
    if (is_table(place.second) || place.second == Weight::unembedding) {
      all.visit_rows(place.second, [&](Index first, const RowMatrix& rows) {
        CHECK(first == 0);
        seen(rows, w);
      });
    } else {
      seen(all.matrix(place.first, place.second), w);
    }
  }
  for (const auto& [place, b] : rounded.biases) seen(all.bias(place.first, place.second), b);
  for (const auto& [place, n] : rounded.norms) {
    const NormParameters here = all.norm(place.first, place.second);
    CHECK(here.gain == n.gain);
    CHECK(here.bias == n.bias);
  }
  const auto changes = [&](const auto& read) {
    const RoundedParameters one(stored, c.run.stored);
    CHECK_FALSE(one.changed());
    read(one);
    return one.changed();
  };
  CHECK(changes([](const RoundedParameters& one) { (void)one.matrix(0, Weight::q); }));
  CHECK(changes([](const RoundedParameters& one) { (void)one.bias(0, Weight::q); }));
  CHECK(changes([](const RoundedParameters& one) { (void)one.norm(0, Weight::norm_a); }));
  heavy.biases[{0, Weight::q}].setOnes();
  const RoundedParameters one_by_one(heavy, c.run.stored);
  (void)one_by_one.bias(0, Weight::q);
  CHECK_FALSE(one_by_one.changed());
  (void)one_by_one.matrix(0, Weight::q);
  (void)one_by_one.bias(0, Weight::q);
  CHECK(one_by_one.changed());  // what was changed before stays so
  CHECK(
      changes([](const RoundedParameters& one) { one.visit_rows(Weight::embedding, [](Index, const RowMatrix&) {}); }));
}

TEST_CASE("a gain stored as w of 1 + w: the larger of both orders, its bias, and what counts as the largest weight") {
  struct Stored final : PlainParameters {
    void visit_rows(Weight, const BlockVisitor& visit) const override {
      RowMatrix rows = RowMatrix::Ones(2, 3);
      visit(0, rows);
      rows(1, 2) = -9.0;
      visit(2, rows);
    }
    [[nodiscard]] NormParameters norm(int, Weight) const override {
      Vector gain(3);
      // w = 1/8 + 2⁻⁹, whose own last place is finer than that of 1 + w; w = −(1 − 2⁻⁹); w = 2 + 2⁻⁵.
      gain << 1.0 + 0x1p-3 + 0x1p-9, 0x1p-9, 3.0 + 0x1p-5;
      return {gain, Vector::Constant(3, 5.0 + 0x1p-6), 1.0};
    }
  } const parameters;
  const Coarse seven = coarse_arithmetics().front();
  const RoundedParameters rounded(parameters, seven.run.stored);
  const NormParameters n = rounded.norm(0, Weight::norm_a);
  CHECK(n.gain[0] == 1.0 + 0x1p-3 + 0x1p-9);  // w is a number of seven bits, 1 + w would be rounded down
  CHECK(n.gain[1] == 0x1p-9);  // −(1 − 2⁻⁹) rounds to −1, which leaves 0: the sum's own order is larger
  CHECK(n.gain[2] == 3.0 + 0x1p-5);
  CHECK(n.bias[0] == 5.0);
  CHECK(rounded.changed());
  CHECK(rounded.largest() == 5.0);
  rounded.visit_rows(Weight::embedding, [](Index, const RowMatrix&) {});
  REQUIRE(rounded.largest_entry());
  CHECK(rounded.largest_entry()->value == -9.0);
  CHECK(rounded.largest_entry()->entry == 3 * 3 + 2);  // of the whole table, which comes in blocks
}

}  // namespace certificate_terms
}  // namespace
}  // namespace periscope::theory
