#include "theory/certify/module_bounds.h"

#include "tests/theory/coarse_arithmetic.h"
#include "tests/theory/plain_parameters.h"

/// T24 inside attention and MLP: what the modules hand from one op to the next, in arithmetics where every part of an
/// allowance stands out. The ops' own allowances are worked out in computed_terms_test.cpp; here they are asked for and
/// put together by hand.
// A namespace of its own: files of tests are compiled several at a time.
namespace periscope::theory {
namespace {
namespace module_terms {

using Index = Eigen::Index;

constexpr Index width = 64;
constexpr Index longest = 40;
constexpr Index head_dim = 8;
constexpr int heads = 4;
constexpr int kv_heads = 2;

Vector all(Index n, double x) { return Vector::Constant(n, x); }

/// Known by its ellipsoid alone: centre 1, axes 1/2, error 1/4 in every feature.
BoundedSet round_set() {
  return {all(width, -infinity), all(width, infinity), Ellipsoid{all(width, 1.0), all(width, 0.5), all(width, 0.25)}};
}
/// The same with axes 4.
BoundedSet wide_set() {
  BoundedSet x = round_set();
  x.ellipsoid->axes.setConstant(4.0);
  return x;
}
/// Known by its box alone.
BoundedSet square_set() { return {all(width, -1.0), all(width, 1.0), {}}; }

ModelSpec attention_model() {
  ModelSpec m;
  m.layers = 1;
  m.width = width;
  m.heads = heads;
  m.kv_heads = kv_heads;
  m.head_dim = head_dim;
  m.attention = {{.scores = {.scale = 0.7, .soft_cap = 0.0, .window = 17}, .rope_frequencies = {}}};
  return m;
}

/// A head's feature j reads the features of the stream from 8j to 8j + 7 alone, so its rows are across each other.
RowMatrix reading(int count, double first) {
  RowMatrix w = RowMatrix::Zero(count * head_dim, width);
  for (Index row = 0; row < w.rows(); ++row) {
    const double size = first * (1.0 + 0.5 * static_cast<double>(row / head_dim));  // another one for every head
    w.row(row).segment((row % head_dim) * head_dim, head_dim).setConstant(size);
  }
  return w;
}

struct AttentionParameters : PlainParameters {
  AttentionParameters();
};
AttentionParameters::AttentionParameters() {
  matrices[{0, Weight::q}] = reading(heads, 0.5);
  matrices[{0, Weight::k}] = reading(kv_heads, 0.25);
  matrices[{0, Weight::v}] = reading(kv_heads, 0.5);
  matrices[{0, Weight::o}] = RowMatrix::Constant(width, heads * head_dim, 0.125);
  biases[{0, Weight::q}] = all(heads * head_dim, 3.0);
  biases[{0, Weight::k}] = all(kv_heads * head_dim, 2.0);
  biases[{0, Weight::v}] = all(kv_heads * head_dim, 3.0);
  biases[{0, Weight::o}] = all(width, 5.0);
  for (const Weight weight : {Weight::q_norm, Weight::k_norm}) {
    norms[{0, weight}] = {Vector::LinSpaced(head_dim, 0.5, 2.0), {}};
  }
}

/// What a head reads in RoPE's pairs, of features of these magnitudes: each may be as large as its pair is long.
double turned(const Coarse& c, const BoundedSet& head, Index i) {
  const Index half = head.size() / 2;
  const Index j = i < half ? i + half : i - half;
  const Vector m = head.magnitude();
  double reach = std::hypot(m[i], m[j]);
  if (head.ellipsoid) {
    const Ellipsoid& e = *head.ellipsoid;
    reach = std::min(reach, std::hypot(e.centre[i], e.centre[j]) + std::max(std::abs(e.axes[i]), std::abs(e.axes[j])) +
                                std::hypot(e.error[i], e.error[j]));
  }
  return reach + 4.0 * c.u * (m[i] + m[j]) + 4.0 * c.eta;
}

/// What rounded rotations add to a vector's norm.
double of_rotation(const Coarse& c, double norm) {
  return 8.0 * c.u * norm + 4.0 * c.eta * (1.0 + std::sqrt(static_cast<double>(head_dim)));
}

/// Queries and keys of every head as the ops leave them, and the scores that come of their norms.
void hold_scores(const Coarse& c, const ModelSpec& m, const std::vector<BoundedSet>& q,
                 const std::vector<BoundedSet>& k, const std::vector<double>& dots, const AttentionBounds& b) {
  ComputedOps ops(c.run, longest);
  const ScoreRule rule = m.scores_at(0);
  const double scale = rule.scale > 0.0 ? rule.scale : 1.0 / std::sqrt(static_cast<double>(head_dim));
  REQUIRE(b.scores.size() == heads);
  for (Index h = 0; h < heads; ++h) {
    INFO("head ", h);
    const auto query = static_cast<std::size_t>(h);
    const std::size_t key = query / 2;
    const double of_q = m.rope ? of_rotation(c, q[query].norm()) : 0.0;
    const double of_k = m.rope ? of_rotation(c, k[key].norm()) : 0.0;
    const double far_q = q[query].norm() + of_q;
    const double far_k = k[key].norm() + of_k;
    const double dot = dots[query] + of_q * far_k + far_q * of_k;
    const ComputedOps::Score s = ops.score(dot, far_q, far_k, head_dim, scale, rule.soft_cap);
    CHECK(b.dots[h] == by_hand(s.dot));
    CHECK(b.scores[h] == by_hand(s.score));
    CHECK(b.cap_inputs.size() == (rule.soft_cap > 0.0 ? heads : 0));
    if (rule.soft_cap > 0.0) CHECK(b.cap_inputs[h] == by_hand(s.cap_input));
    for (Index i = 0; i < head_dim; ++i) {
      const double read = m.rope ? turned(c, q[query], i) : q[query].magnitude()[i];
      CHECK(b.q.high[h * head_dim + i] == by_hand(read));
    }
  }
  for (std::size_t g = 0; g < k.size(); ++g) {
    for (Index i = 0; i < head_dim; ++i) {
      const double read = m.rope ? turned(c, k[g], i) : k[g].magnitude()[i];
      CHECK(b.k.high[static_cast<Index>(g) * head_dim + i] == by_hand(read));
    }
  }
}

TEST_CASE("scores: every head's norms, what RoPE rounds of query and key, scale and cap") {
  const AttentionParameters p;
  for (const Coarse& c : coarse_arithmetics()) {
    for (const bool rope : {false, true}) {
      for (const double cap : {0.0, 100.0}) {
        INFO(c.name, ", rope ", rope, ", cap ", cap);
        ModelSpec m = attention_model();
        m.rope = rope;
        m.attention[0].scores.soft_cap = cap;
        for (const BoundedSet& x : {round_set(), square_set()}) {
          ComputedOps ops(c.run, longest);
          const AttentionBounds b = attention_bounds(m, p, 0, x, false, ops);
          CHECK_FALSE(b.q_projected);
          std::vector<BoundedSet> q;
          std::vector<BoundedSet> k;
          std::vector<double> dots;
          const auto heads_of = [&](Weight weight, int count, std::vector<BoundedSet>& sets) {
            const RowMatrix w = p.matrix(0, weight);
            for (int h = 0; h < count; ++h) {
              const Vector bias = p.bias(0, weight).segment(h * head_dim, head_dim);
              sets.push_back(ops.mapped(w.middleRows(h * head_dim, head_dim), bias, x).image);
            }
          };
          heads_of(Weight::q, heads, q);
          heads_of(Weight::k, kv_heads, k);
          for (std::size_t h = 0; h < heads; ++h) dots.push_back(q[h].norm() * k[h / 2].norm());
          hold_scores(c, m, q, k, dots, b);
        }
      }
    }
  }
}

TEST_CASE("scores behind QK-norm: the largest product of a pair's gains, and what the norms' floors add") {
  AttentionParameters p;
  for (const Coarse& c : coarse_arithmetics()) {
    for (const bool rope : {false, true}) {
      for (const QkNorm kind : {QkNorm::head, QkNorm::full}) {
        INFO(c.name, ", rope ", rope, ", over all heads ", kind == QkNorm::full);
        ModelSpec m = attention_model();
        m.rope = rope;
        m.qk_norm = kind;
        m.norm_eps = 0.25;
        const bool full = kind == QkNorm::full;
        for (const auto& [weight, count] : {std::pair(Weight::q, heads), std::pair(Weight::k, kv_heads)}) {
          const Weight norm = weight == Weight::q ? Weight::q_norm : Weight::k_norm;
          const Index n = full ? count * head_dim : head_dim;
          p.norms[{0, norm}] = {Vector::LinSpaced(n, 0.5, weight == Weight::q ? 2.0 : 0.25), {}};
        }
        ComputedOps ops(c.run, longest);
        const BoundedSet x = square_set();
        const AttentionBounds b = attention_bounds(m, p, 0, x, false, ops);
        std::vector<BoundedSet> q;
        std::vector<BoundedSet> k;
        const auto part = [](const BoundedSet& s, Index first) {
          const Ellipsoid& e = *s.ellipsoid;
          return BoundedSet{s.low.segment(first, head_dim), s.high.segment(first, head_dim),
                            Ellipsoid{e.centre.segment(first, head_dim), e.axes.segment(first, head_dim),
                                      e.error.segment(first, head_dim)}};
        };
        const auto heads_of = [&](Weight weight, Weight norm, int count, std::vector<BoundedSet>& sets,
                                  const std::optional<BoundedSet>& projected) {
          const BoundedSet y = ops.linear(p.matrix(0, weight), p.bias(0, weight), x);
          REQUIRE(projected);
          for (Index i = 0; i < y.size(); ++i) CHECK(projected->high[i] == by_hand(y.high[i]));
          const NormBound bound{NormKind::rms, m.norm_eps, p.norm(0, norm).gain, {}};
          for (int h = 0; h < count; ++h) {
            const BoundedSet own{y.low.segment(h * head_dim, head_dim), y.high.segment(h * head_dim, head_dim), {}};
            sets.push_back(full ? part(ops.normalised(y, bound), h * head_dim) : ops.normalised(own, bound));
          }
        };
        heads_of(Weight::q, Weight::q_norm, heads, q, b.q_projected);
        heads_of(Weight::k, Weight::k_norm, kv_heads, k, b.k_projected);
        std::vector<double> dots;
        for (std::size_t h = 0; h < heads; ++h) {
          const Ellipsoid& eq = *q[h].ellipsoid;
          const Ellipsoid& ek = *k[h / 2].ellipsoid;
          double largest = 0.0;
          for (Index i = 0; i < head_dim; ++i) {
            const Index j = (i + head_dim / 2) % head_dim;
            const double a = rope ? std::max(eq.axes[i], eq.axes[j]) : eq.axes[i];
            const double d = rope ? std::max(ek.axes[i], ek.axes[j]) : ek.axes[i];
            largest = std::max(largest, a * d);
          }
          const double errors = eq.error.norm() * k[h / 2].norm() + q[h].norm() * ek.error.norm();
          dots.push_back(std::min(q[h].norm() * k[h / 2].norm(), largest + errors));
        }
        hold_scores(c, m, q, k, dots, b);
      }
    }
  }
}

/// What summed makes of low … high with n products whose magnitudes add up to `absolute`, and of a bias.
struct Output {
  double low, high, error;
};
Output output(const Coarse& c, double low, double high, Index n, double absolute, double bias) {
  const double off = c.of_sum(static_cast<double>(n), absolute);
  high += off;
  low -= off;
  const auto store = [&] {
    const double lost = c.lost(std::max(std::abs(high), std::abs(low)));
    high += lost;
    low -= lost;
    return lost;
  };
  double error = off + store();
  high += bias;
  low += bias;
  error += store();
  return {low, high, error};
}

TEST_CASE("attention's output: the sum of weights, what values, averages and S beside 1 add, each through |W_o|") {
  const AttentionParameters p;
  const ModelSpec m = attention_model();
  for (const Coarse& c : coarse_arithmetics()) {
    for (const bool with_norm : {false, true}) {
      INFO(c.name, ", with its norm ", with_norm);
      ComputedOps ops(c.run, longest);
      const AttentionBounds b = attention_bounds(m, p, 0, round_set(), with_norm, ops);
      const WeightSum sum = ops.attention_weights(17);

      double most = 0.0;  // |W_o|·mixed
      double least = 0.0;
      double centre = 0.0;   // W_o·value
      double lost = 0.0;     // |W_o|·error
      double radius = 0.0;   // Σ_h ‖W_o^h A^g‖
      double squares = 0.0;  // Σ_h ‖A^g‖²
      for (Index g = 0; g < kv_heads; ++g) {
        const double w = 0.5 * (1.0 + 0.5 * static_cast<double>(g));
        const double axis = w * 0.5 * std::sqrt(8.0);  // eight features a row
        const double value = w * 8.0;
        const double before = w * 8.0 * 0.25;
        const Output v = output(c, value - axis - before, value + axis + before, width, value + axis + before, 3.0);
        CHECK(b.v.high[g * head_dim] == by_hand(v.high));
        CHECK(b.v.low[g * head_dim] == by_hand(v.low));
        const ComputedImage average = ops.weighted_values(sum, 17, {all(1, v.low), all(1, v.high), {}});
        for (Index h = 2 * g; h < 2 * g + 2; ++h) {
          CHECK(b.mixed.high[h * head_dim + 1] == by_hand(average.set.high[0]));
          CHECK(b.mixed.low[h * head_dim + 1] == by_hand(average.set.low[0]));
        }
        const double beside = std::max(sum.high - 1.0, 1.0 - sum.low);
        const double error = sum.high * (before + v.error) + beside * (value + 3.0) + average.error[0];
        const double columns = 2.0 * head_dim * 0.125;  // of W_o that read this group
        most += columns * average.set.high[0];
        least += columns * average.set.low[0];
        centre += columns * (value + 3.0);
        lost += columns * error;
        // A head's rows are across each other and equally long: ‖A‖ is a row's length, ‖1ᵀA‖ √8 times that.
        radius += 2.0 * 0.125 * axis * std::sqrt(static_cast<double>(head_dim));
        squares += 2.0 * std::pow(spectral_bound(reading(kv_heads, 0.25).middleRows(g * head_dim, head_dim)), 2);
      }
      const double reach = sum.high * std::sqrt(squares);
      const double ball = 0.125 * std::sqrt(heads * static_cast<double>(head_dim)) * reach;
      const double absolute = std::min(most, ball + centre + lost);
      const Output out = output(c, std::max(least, centre - sum.high * radius - lost),
                                centre + sum.high * radius + lost, heads * head_dim, absolute, 5.0);
      // The box, the ball and the heads one by one: the last is the smallest.
      REQUIRE(centre + sum.high * radius + lost < std::min(most, centre + ball + lost));
      CHECK(b.out.high[5] == by_hand(out.high));
      CHECK(b.out.low[5] == by_hand(out.low));
      REQUIRE(b.out.ellipsoid.has_value() == with_norm);
      if (!with_norm) continue;
      const Ellipsoid& e = *b.out.ellipsoid;
      CHECK(e.axes[0] == by_hand(spectral_bound(p.matrix(0, Weight::o)) * reach * std::pow(1.0 + c.u, 2)));
      CHECK(e.centre[0] == by_hand(centre + 5.0));
      const double summed = lost + c.of_sum(heads * head_dim, absolute);
      const double stored = summed + c.lost(summed + centre);
      CHECK(e.error[0] == by_hand(stored + c.lost(stored + centre + 5.0)));
    }
  }
}

TEST_CASE("attention's output without an ellipsoid: a linear map of the averages' box") {
  const AttentionParameters p;
  const ModelSpec m = attention_model();
  for (const Coarse& c : coarse_arithmetics()) {
    INFO(c.name);
    ComputedOps ops(c.run, longest);
    const AttentionBounds b = attention_bounds(m, p, 0, square_set(), false, ops);
    const WeightSum sum = ops.attention_weights(17);
    double most = 0.0;
    double least = 0.0;
    for (Index g = 0; g < kv_heads; ++g) {
      const double reach = 0.5 * (1.0 + 0.5 * static_cast<double>(g)) * 8.0;
      const Output v = output(c, -reach, reach, width, reach, 3.0);
      const BoundedSet average = ops.weighted_values(sum, 17, {all(1, v.low), all(1, v.high), {}}).set;
      most += 2.0 * head_dim * 0.125 * average.high[0];
      least += 2.0 * head_dim * 0.125 * average.low[0];
    }
    const Output out = output(c, least, most, heads * head_dim, most, 5.0);
    CHECK(b.out.high[5] == by_hand(out.high));
    CHECK(b.out.low[5] == by_hand(out.low));
  }
}

ModelSpec mlp_model(MlpKind kind) {
  ModelSpec m;
  m.layers = 1;
  m.width = width;
  m.mlp = kind;
  m.mlp_width = width;
  return m;
}

/// Gate and up read one half of the stream's features each (across each other), or every hidden feature one feature of
/// the stream alone.
struct MlpParameters : PlainParameters {
  explicit MlpParameters(bool halves);
};
MlpParameters::MlpParameters(bool halves) {
  RowMatrix gate = RowMatrix::Identity(width, width);
  RowMatrix up = 0.75 * RowMatrix::Identity(width, width);
  if (halves) {
    gate.setZero();
    up.setZero();
    gate.leftCols(width / 2).setConstant(0.125);
    up.rightCols(width / 2).setConstant(0.0625);
  }
  matrices[{0, Weight::gate}] = gate;
  matrices[{0, Weight::up}] = up;
  matrices[{0, Weight::down}] = RowMatrix::Constant(width, width, 0.25);
  biases[{0, Weight::gate}] = all(width, 3.0);
  biases[{0, Weight::up}] = all(width, 2.0);
  biases[{0, Weight::down}] = all(width, 5.0);
}

TEST_CASE("a gated MLP's hidden layer: φ's own error times up, and those of both factors times the other") {
  const MlpParameters p(true);
  const ModelSpec m = mlp_model(MlpKind::geglu_tanh);
  const auto h = static_cast<double>(width);
  for (const Coarse& c : coarse_arithmetics()) {
    INFO(c.name);
    ComputedOps ops(c.run, longest);
    const MlpBounds b = mlp_bounds(m, p, 0, wide_set(), false, ops);
    const Mapped gate = ops.mapped(p.matrix(0, Weight::gate), p.bias(0, Weight::gate), wide_set());
    const Mapped up = ops.mapped(p.matrix(0, Weight::up), p.bias(0, Weight::up), wide_set());
    const ComputedImage acted = ops.activated(Activation::gelu_tanh, gate.image);
    REQUIRE((b.gate && b.acted));
    CHECK(b.gate->high[7] == by_hand(gate.image.high[7]));
    CHECK(b.up.high[7] == by_hand(up.image.high[7]));
    CHECK(b.acted->high[7] == by_hand(acted.set.high[7]));
    const double g = 0.125 * h / 2.0 + 3.0;
    const double u = 0.0625 * h / 2.0 + 2.0;
    const double gate_axis = 0.125 * 4.0 * std::sqrt(h / 2.0);
    const double up_axis = 0.0625 * 4.0 * std::sqrt(h / 2.0);
    const double off_g = gate.centre.error[7];
    const double off_u = up.centre.error[7];
    const double far_g = g + gate_axis + off_g;
    const double far_u = u + up_axis + off_u;
    const double product = g * u + std::hypot(g * up_axis, u * gate_axis) + 0.5 * gate_axis * up_axis;
    const double most = product + off_g * far_u + off_u * far_g + acted.error[7] * up.image.magnitude()[7];
    const double hidden = std::min(most, acted.set.high[7] * up.image.high[7]);
    CHECK(b.hidden.high[7] == by_hand(c.stored(hidden)));
    // What W_down makes of it, all hidden features at their largest: the box is the least of the four bounds.
    const double absolute = 0.25 * h * b.hidden.magnitude()[7];
    const Output out = output(c, 0.0, absolute, width, absolute, 5.0);
    CHECK(b.out.high[7] == by_hand(out.high));
    CHECK(hidden == most);
  }
}

TEST_CASE("a gated MLP's output where no ball opens all gates: the 1-norm of what is stored of φ(g)p") {
  MlpParameters p(false);
  p.biases.erase({0, Weight::gate});
  p.biases.erase({0, Weight::up});
  const ModelSpec m = mlp_model(MlpKind::swiglu);
  const auto h = static_cast<double>(width);
  const BoundedSet x{all(width, -infinity), all(width, infinity),
                     Ellipsoid{all(width, 0.0), all(width, 8.0), all(width, 0.0)}};
  for (const bool with_norm : {false, true}) {
    for (const Coarse& c : coarse_arithmetics()) {
      INFO(c.name);
      ComputedOps ops(c.run, longest);
      const MlpBounds b = mlp_bounds(m, p, 0, x, with_norm, ops);
      const Mapped gate = ops.mapped(p.matrix(0, Weight::gate), {}, x);
      const Mapped up = ops.mapped(p.matrix(0, Weight::up), {}, x);
      const BoundedSet acted = ops.activated(Activation::silu, gate.image).set;
      const double one = acted.norm() * up.image.norm() * (1.0 + c.u) + h * c.eta;
      const double two = std::min({acted.magnitude()[0] * up.image.norm(), acted.norm() * up.image.magnitude()[0],
                                   std::sqrt(h) * (b.hidden.magnitude()[0] - c.eta) / (1.0 + c.u)});
      // Stored: axes grow by 1 + u, and every feature may be off by η.
      const double length = two * (1.0 + c.u) + std::sqrt(h) * c.eta;
      const double absolute = std::min({0.25 * one, 0.25 * std::sqrt(h) * length, 0.25 * h * b.hidden.magnitude()[0]});
      const Output out = output(c, -absolute, absolute, width, absolute, 5.0);
      CHECK(b.out.high[7] == by_hand(out.high));
      if (c.name == "u alone") CHECK(absolute == 0.25 * one);
      REQUIRE(b.out.ellipsoid.has_value() == with_norm);
      if (!with_norm) continue;
      const Ellipsoid& e = *b.out.ellipsoid;
      CHECK(e.axes[0] == by_hand(spectral_bound(p.matrix(0, Weight::down)) * two * std::pow(1.0 + c.u, 3)));
      const double errors = 0.25 * h * c.eta + c.of_sum(h, absolute);
      const double stored = c.stored(errors);
      CHECK(e.error[0] == by_hand(stored + c.lost(stored + 5.0)));
    }
  }
}

TEST_CASE("a plain MLP's output: half of p, half of its largest change, and the errors of both through |W_down|") {
  MlpParameters p(false);
  // Signs in turn, across p's centre, so that neither box nor ball knows what half of p does.
  for (Index j = 1; j < width; j += 2) p.matrices[{0, Weight::down}].col(j) *= -1.0;
  const ModelSpec m = mlp_model(MlpKind::gelu_tanh);
  const auto h = static_cast<double>(width);
  for (const Coarse& c : coarse_arithmetics()) {
    for (const bool with_norm : {false, true}) {
      INFO(c.name);
      ComputedOps ops(c.run, longest);
      const MlpBounds b = mlp_bounds(m, p, 0, wide_set(), with_norm, ops);
      const Mapped up = ops.mapped(p.matrix(0, Weight::up), p.bias(0, Weight::up), wide_set());
      const ComputedImage hidden = ops.activated(Activation::gelu_tanh, up.image);
      CHECK_FALSE(b.gate);
      CHECK(b.up.high[7] == by_hand(up.image.high[7]));
      CHECK(b.hidden.high[7] == by_hand(hidden.set.high[7]));
      const double error = 0.25 * h * (0.5 * up.centre.error[0] + hidden.error[0]);
      const double row = 0.25 * std::sqrt(h);  // ‖W_k‖, and W_up·diag(axes) is 3 times the identity
      const double reach = 0.5 * (3.0 * row + up.image.norm() * row) + error;
      const double absolute =
          std::min(0.25 * h * hidden.set.magnitude()[0],
                   row * std::abs(hidden.set.ellipsoid->axes[0]) + 0.25 * h * hidden.set.ellipsoid->error[0]);
      REQUIRE(reach < 0.8 * row * hidden.set.ellipsoid->axes[0]);
      REQUIRE(reach < 0.25 * h * 0.5 * (hidden.set.high[0] - hidden.set.low[0]));
      const Output out = output(c, -reach, reach, width, absolute, 5.0);
      CHECK(b.out.high[7] == by_hand(out.high));
      CHECK(b.out.low[7] == by_hand(out.low));
      REQUIRE(b.out.ellipsoid.has_value() == with_norm);
      if (!with_norm) continue;
      const Ellipsoid& e = *b.out.ellipsoid;
      CHECK(e.axes[0] == by_hand(spectral_bound(p.matrix(0, Weight::down)) * hidden.set.ellipsoid->axes[0] *
                                 std::pow(1.0 + c.u, 2)));
      const double errors = 0.25 * h * hidden.set.ellipsoid->error[0] + c.of_sum(h, absolute);
      const double stored = c.stored(errors);
      CHECK(e.error[0] == by_hand(stored + c.lost(stored + 5.0)));
    }
  }
}

}  // namespace module_terms
}  // namespace
}  // namespace periscope::theory
