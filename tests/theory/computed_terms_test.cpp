#include "theory/certify/computed_ops.h"

#include "tests/theory/coarse_arithmetic.h"

/// T24, term by term: the sets of every op in arithmetics that are so coarse that no term of an allowance hides behind
/// another, against the formulas of docs/theory/certificates.md worked out for numbers.
// A namespace of its own: files of tests are compiled several at a time.
namespace periscope::theory {
namespace {
namespace computed_terms {

using Index = Eigen::Index;

Vector all(Index n, double x) { return Vector::Constant(n, x); }
BoundedSet box(Index n, double low, double high) { return {all(n, low), all(n, high), {}}; }

/// What an op noted under this signal; there is no such note where the test fails.
double noted(ComputedOps& ops, Signal signal) {
  const std::map<Signal, double> notes = ops.take_notes();
  const auto at = notes.find(signal);
  return at == notes.end() ? std::nan("") : at->second;
}

TEST_CASE("storing: box, centre, axes and errors each lose their own part") {
  for (const Coarse& c : coarse_arithmetics()) {
    INFO(c.name);
    const ComputedOps ops(c.run, 1);
    const BoundedSet y = ops.stored({all(1, -1.0), all(1, 3.0), Ellipsoid{all(1, 2.0), all(1, 0.5), all(1, 0.25)}});
    CHECK(y.low[0] == by_hand(-1.0 - c.lost(3.0)));
    CHECK(y.high[0] == by_hand(3.0 + c.lost(3.0)));
    REQUIRE(y.ellipsoid);
    CHECK(y.ellipsoid->centre[0] == 2.0);
    CHECK(y.ellipsoid->axes[0] == by_hand(0.5 * (1.0 + c.u)));
    CHECK(y.ellipsoid->error[0] == by_hand(0.25 + c.lost(2.25)));
  }
}

TEST_CASE("a stored set has no Σu = 0 any more") {
  const Coarse c = coarse_arithmetics().front();
  const ComputedOps ops(c.run, 1);
  CHECK_FALSE(
      ops.stored({all(2, -1.0), all(2, 1.0), ellipsoid_around(all(2, 0.0), all(2, 1.0), true)}).ellipsoid->centred);
}

TEST_CASE("a sum of products: the sum's factor, its floor, what is stored before and behind the bias") {
  for (const Coarse& c : coarse_arithmetics()) {
    INFO(c.name);
    for (const Index n : {1, 300, 4096}) {
      INFO(n);
      const RowMatrix w = RowMatrix::Constant(1, n, -0.5 / static_cast<double>(n));
      const auto terms = static_cast<double>(n);
      const double off = c.of_sum(terms, 0.5);  // Σ|w||x|
      for (const bool biased : {false, true}) {
        ComputedOps ops(c.run, 1);
        const ComputedImage y =
            ops.summed(image_and_sums(w, box(n, -0.5, 1.0)), n, biased ? Vector(all(1, -3.0)) : Vector());
        const double most = 0.5 + off;
        const double once = c.lost(most);
        const double twice = biased ? c.lost(most + once + 3.0) : 0.0;
        CHECK(y.set.low[0] == by_hand(-(most + once + twice) - (biased ? 3.0 : 0.0)));
        CHECK(y.set.high[0] == by_hand(0.25 + off + once + twice - (biased ? 3.0 : 0.0)));
        CHECK(y.error[0] == by_hand(off + once + twice));
        const std::map<Signal, double> notes = ops.take_notes();
        CHECK(notes.at(Signal::sums) == by_hand(most));
        CHECK(notes.contains(Signal::products) == biased);
        if (biased) CHECK(notes.at(Signal::products) == by_hand(most + once));
        const BoundedSet linear = ops.linear(w, biased ? Vector(all(1, -3.0)) : Vector(), box(n, -0.5, 1.0));
        CHECK(linear.low[0] == y.set.low[0]);
        CHECK(linear.high[0] == y.set.high[0]);
      }
    }
  }
}

TEST_CASE("a map of an ellipsoid: its centre is off by the old errors through |W| and by all that the sum rounded") {
  constexpr Index n = 200;
  for (const Coarse& c : coarse_arithmetics()) {
    INFO(c.name);
    ComputedOps ops(c.run, 1);
    const RowMatrix w = RowMatrix::Constant(2, n, -0.5);
    const BoundedSet x{all(n, -infinity), all(n, infinity), Ellipsoid{all(n, 1.0), all(n, 0.5), all(n, 0.25)}};
    const Mapped y = ops.mapped(w, all(2, -3.0), x);
    const double axis = 0.25 * std::sqrt(static_cast<double>(n));  // ‖w∘a‖
    const double before = 0.125 * n;                               // |w|·error
    const double absolute = axis + 0.5 * n + before;
    const double off = c.of_sum(n, absolute);
    const double most = absolute + off;
    const double once = c.lost(most);
    const double twice = c.lost(most + once + 3.0);
    CHECK(y.image.low[0] == by_hand(-(most + once + twice) - 3.0));
    CHECK(y.centre.value[1] == -0.5 * n - 3.0);
    CHECK(y.centre.error[1] == by_hand(before + off + once + twice));
    CHECK(y.over.matrix(1, 3) == -0.25);
    REQUIRE(y.image.ellipsoid);
    const Ellipsoid& e = *y.image.ellipsoid;
    CHECK(e.centre[0] == -0.5 * n - 3.0);
    CHECK(e.axes[0] == by_hand(spectral_bound(RowMatrix::Constant(2, n, -0.25)) * std::pow(1.0 + c.u, 2)));
    const double widened = before + off;
    const double stored = widened + c.lost(widened + 0.5 * n);
    CHECK(e.error[0] == by_hand(stored + c.lost(stored + 0.5 * n + 3.0)));
  }
}

/// ‖x̂‖ or |x̂_k| for sums of squares that are off by κ: docs/theory/certificates.md, "Norm".
double normed(const Coarse& c, double d, double m, double kappa, double least) {
  const double v = c.sum_u;
  return std::sqrt((1.0 + v) * m * m / (m * m / (kappa * d) + least)) * (1.0 + 4.0 * v) * (1.0 + v);
}

struct NormCase {
  NormKind kind;
  bool biased;
  BoundedSet x;
};

/// What a norm's box and ellipsoid are for features of magnitude up to `low` and `high` below and above 0, a whole of
/// norm `radius`, gains −2 (feature 0) and 1, and biases 3.
void hold_norm(const Coarse& c, const BoundedSet& y, const std::map<Signal, double>& notes, double d, double low,
               double high, double radius, double eps, bool biased) {
  const double v = c.sum_u;
  const double in_format = rounded_to(c.run.accumulated, eps);
  const double least = std::min(eps, in_format) - 2.0 * c.sum_eta;
  REQUIRE(least > 0.1 * eps);
  const double quotients = std::pow(1.0 + v, 3);
  const double terms = 1.0 + (d - 1.0) * v;
  const double growth = std::pow(1.0 + c.u, 2) * (1.0 + 2.0 * c.u) * std::pow(1.0 + v, 2);
  const double up = normed(c, d, high, quotients * (1.0 + v), least);
  const double down = normed(c, d, low, quotients * (1.0 + v), least);
  const double far = std::max(up, down);
  const double tiny = c.sum_eta + c.eta;
  const auto floor = [&](double gain) { return 4.0 * ((gain + c.eta) * tiny + c.eta * far + tiny); };
  const double bias = biased ? 3.0 : 0.0;
  const auto stored = [&](double m, double largest) { return biased ? m + c.lost(largest) : m; };
  const double above = bias + 2.0 * down * growth + floor(2.0);
  const double below = bias - 2.0 * up * growth - floor(2.0);
  const double largest = std::max(above, -below);
  CHECK(y.high[0] == by_hand(stored(above, largest)));
  CHECK(y.low[0] == by_hand(-stored(-below, largest)));
  const double other = bias + up * growth + floor(1.0);
  const double other_low = bias - down * growth - floor(1.0);
  CHECK(y.high[1] == by_hand(stored(other, std::max(other, -other_low))));
  REQUIRE(y.ellipsoid);
  const Ellipsoid& e = *y.ellipsoid;
  CHECK(e.centre[0] == bias);
  CHECK_FALSE(e.centred);
  const double axis = 2.0 * normed(c, d, radius, quotients * terms, least) * growth;
  CHECK(std::abs(e.axes[0]) == by_hand(axis * (biased ? 1.0 + c.u : 1.0)));
  CHECK(e.error[0] == by_hand(stored(floor(2.0), floor(2.0) + bias)));
  CHECK(notes.at(Signal::squares) == by_hand(std::max((radius * radius * (1.0 + v) + d * c.sum_eta) * terms + eps, d)));
  CHECK(notes.at(Signal::reciprocals) == by_hand((1.0 + 4.0 * v) / std::sqrt(in_format)));
  CHECK(notes.at(Signal::normalised) == by_hand(std::max(c.stored(far + c.sum_eta), 2.0 * far * growth + floor(2.0))));
}

NormBound norm_of_gains(NormKind kind, Index d, double eps, bool biased) {
  NormBound norm{kind, eps, all(d, 1.0), biased ? all(d, 3.0) : Vector()};
  norm.gain[0] = -2.0;
  return norm;
}

TEST_CASE("RMSNorm: squares, their sum, quotients, root, reciprocal, gain and bias") {
  for (const Coarse& c : coarse_arithmetics()) {
    INFO(c.name);
    for (const Index d : {2, 200}) {
      for (const bool biased : {false, true}) {
        const auto n = static_cast<double>(d);
        ComputedOps ops(c.run, 1);
        // A ball shorter than its box's diagonal: 1.2 of 1.5·√D.
        BoundedSet x = ball(all(d, 0.75), 0.6 * std::sqrt(n));
        x.low.setConstant(-0.25);
        const BoundedSet y = ops.normalised(x, norm_of_gains(NormKind::rms, d, 0.3, biased));
        const double diagonal = 0.75 * std::sqrt(n);
        hold_norm(c, y, ops.take_notes(), n, 0.25, 0.75, std::min(diagonal, 0.6 * std::sqrt(n)), 0.3, biased);
      }
    }
  }
}

TEST_CASE("LayerNorm: the mean's sum, its division by a count that is rounded too, and what is left of x − mean") {
  for (const Coarse& c : coarse_arithmetics()) {
    INFO(c.name);
    const double v = c.sum_u;
    for (const Index d : {3, 200}) {
      const auto n = static_cast<double>(d);
      // The sum of magnitudes is that of the box, 3/4 in every feature, or what the ball allows, √D·radius.
      for (const double radius : {100.0 * std::sqrt(n), 0.3 * std::sqrt(n)}) {
        ComputedOps ops(c.run, 1);
        BoundedSet x = ball(all(d, 0.75), radius);
        x.low.setConstant(-0.25);
        const BoundedSet y = ops.normalised(x, norm_of_gains(NormKind::layer, d, 0.3, false));
        const double length = std::min(radius, 0.75 * std::sqrt(n));
        const double whole = std::min(0.75 * n, std::sqrt(n) * length);
        const double of_sum = v * (1.0 + v) * whole;
        const double of_count = 2.0 * v * whole * (1.0 + n * v) / n;
        const double of_mean = of_sum + of_count + c.sum_eta;
        // x_k − mean for x_k at one end and all others at the other.
        const double above = 0.75 - (0.75 - 0.25 * (n - 1.0)) / n + of_mean;
        const double below = 0.25 + (-0.25 + 0.75 * (n - 1.0)) / n + of_mean;
        const double off = v * std::max(above, below);
        const std::map<Signal, double> notes = ops.take_notes();
        CHECK(notes.at(Signal::sums) == by_hand(whole * (1.0 + n * v)));
        CHECK(notes.at(Signal::deviations) == by_hand(std::max(above, below) + off));
        const double centred = (1.0 + v) * (length + std::sqrt(n) * of_mean);
        hold_norm(c, y, notes, n, below + off, above + off,
                  std::min(centred, std::sqrt(n) * (std::max(above, below) + off)), 0.3, false);
      }
    }
  }
}

TEST_CASE("an eps that the squares' underflow may cancel bounds nothing") {
  const Coarse c("eta' = 2^-3", fp64, {"", 1e300, 53, 49});
  ComputedOps ops(c.run, 1);
  const NormBound norm{NormKind::rms, 0.25, all(2, 1.0), {}};
  CHECK(ops.normalised(box(2, -1.0, 1.0), norm).high[0] == infinity);
  CHECK(noted(ops, Signal::reciprocals) == infinity);
  CHECK(std::isfinite(ops.normalised(box(2, -1.0, 1.0), {NormKind::rms, 0.375, all(2, 1.0), {}}).high[0]));
}

TEST_CASE("a factor is rounded, then its product; both parts of a sum, then the sum") {
  for (const Coarse& c : coarse_arithmetics()) {
    INFO(c.name);
    // k·x of |x| ≤ m: 0.5 is a number of every format, −0.7 of none that is coarse.
    const auto product = [&](double k, double m) {
      const double once = c.stored(std::abs(k) * m);
      if (rounded_to(c.run.stored, k) == k) return once;
      return c.stored(once) + c.eta * (1.0 + c.u) * m;
    };
    for (const double k : {0.5, -0.7}) {
      ComputedOps ops(c.run, 1);
      const BoundedSet y = ops.scaled(k, box(1, -1.0, 3.0));
      CHECK((k > 0.0 ? y.high[0] : -y.low[0]) == by_hand(product(k, 3.0)));
      CHECK(noted(ops, Signal::addends) == by_hand(product(k, 3.0)));
    }
    ComputedOps ops(c.run, 1);
    const BoundedSet y = ops.weighted_sum(-0.7, box(1, -3.0, 3.0), 0.5, box(1, -5.0, 5.0));
    CHECK(y.high[0] == by_hand(c.stored(product(-0.7, 3.0) + product(0.5, 5.0))));
    CHECK(noted(ops, Signal::addends) == by_hand(std::max(product(-0.7, 3.0), product(0.5, 5.0))));
    // Without factors there is nothing to round but the sum.
    CHECK(ops.weighted_sum(1.0, box(1, -3.0, 3.0), 1.0, box(1, -5.0, 5.0)).high[0] == by_hand(c.stored(8.0)));
    CHECK(ops.rounded_twice(all(1, 5.0))[0] == by_hand((3.0 * c.u + 2.0 * c.eta) * 5.0 + 3.0 * c.eta));
    CHECK(ops.stored_sum(5.0, 300) == by_hand(5.0 * (1.0 + c.u) + 300.0 * c.eta));
    CHECK(ops.rotation_error(5.0) == by_hand(4.0 * c.u * 5.0 + 4.0 * c.eta));
  }
}

TEST_CASE("activations: what they and their storing are off by, in box, ball and the error that is passed on") {
  for (const Coarse& c : coarse_arithmetics()) {
    INFO(c.name);
    for (const Activation kind : {Activation::relu, Activation::gelu_tanh}) {
      const bool chain = kind == Activation::gelu_tanh;
      const double step = chain ? std::max(c.u, c.sum_u) : c.sum_u;
      const double floor = chain ? 4.0 * std::max(c.eta, c.sum_eta) : c.sum_eta;
      ComputedOps ops(c.run, 1);
      const ComputedImage y = ops.activated(kind, box(4, 40.0, 80.0));  // φ(x) = x there
      const double off = 8.0 * step * 80.0 + floor;
      CHECK(y.set.high[0] == by_hand(c.stored(80.0 + off)));
      CHECK(y.set.low[0] == by_hand(40.0 - off - c.lost(80.0 + off)));
      CHECK(y.error[0] == by_hand(off + c.lost(80.0 + off)));
      REQUIRE(y.set.ellipsoid);
      CHECK(y.set.ellipsoid->axes[0] == by_hand(160.0 * (1.0 + 8.0 * step) * (1.0 + c.u)));
      CHECK(y.set.ellipsoid->error[0] == by_hand(c.stored(floor)));
    }
  }
}

TEST_CASE("soft caps: sixteen roundings, the floor of c + 1, and z/c as it is stored") {
  for (const Coarse& c : coarse_arithmetics()) {
    INFO(c.name);
    for (const double cap : {2.0, 2.03}) {  // the second is no number of the coarse formats
      const double least = std::min(cap, rounded_to(c.run.stored, cap));
      ComputedOps ops(c.run, 1);
      const double z = 3.0;
      const double exact = cap * std::tanh(z / cap);
      CHECK(ops.soft_capped(cap, box(1, -z, z)).high[0] ==
            by_hand(exact + 16.0 * c.u * exact + 4.0 * (cap + 1.0) * c.eta));
      CHECK(noted(ops, Signal::cap_inputs) == by_hand(z / least * (1.0 + c.u) * (1.0 + c.sum_u) + c.eta));
    }
  }
}

TEST_CASE("attention weights: what numerator, denominator and quotient lose, and a denominator that stalls") {
  for (const Coarse& c : coarse_arithmetics()) {
    INFO(c.name);
    const double v = c.sum_u;
    for (const Index longest : {1, 7, 300}) {
      for (const Index window : {0, 5, 1000}) {
        const auto n = static_cast<double>(window == 0 ? longest : std::min(window, longest));
        ComputedOps ops(c.run, longest);
        const WeightSum sum = ops.attention_weights(window);
        const double stalled = 1.0 + (n - 1.0) * v;
        const double tiny = 2.0 * n * (c.eta + c.sum_eta);
        CHECK(sum.high == by_hand(stalled * (1.0 + v) * (1.0 + v) * (1.0 + c.u) + tiny));
        CHECK(sum.low == by_hand(std::max(0.0, (1.0 - v) * (1.0 - c.u) / (stalled * (1.0 + v)) - tiny)));
        CHECK(noted(ops, Signal::denominators) == by_hand(n * (1.0 + 4.0 * v) * stalled));
      }
    }
  }
}

TEST_CASE("averages of values: the sum's own factor, not one rounding, over the window or the longest input") {
  for (const Coarse& c : coarse_arithmetics()) {
    INFO(c.name);
    for (const Index longest : {1, 300}) {
      for (const Index window : {0, 5, 1000}) {
        const auto n = static_cast<double>(window == 0 ? longest : std::min(window, longest));
        ComputedOps ops(c.run, longest);
        const ComputedImage y = ops.weighted_values({.low = 0.5, .high = 1.5}, window, box(3, -1.0, 2.0));
        const double off = c.of_sum(n, 3.0);
        CHECK(y.set.high[0] == by_hand(c.stored(3.0 + off)));
        CHECK(y.set.low[0] == by_hand(-1.5 - off - c.lost(3.0 + off)));
        CHECK(y.error[0] == by_hand(off + c.lost(3.0 + off)));
        CHECK(noted(ops, Signal::sums) == by_hand(3.0 + off));
      }
    }
  }
}

TEST_CASE("scores: q·k and its scale, or a scaled query that is stored first, whichever is larger") {
  for (const Coarse& c : coarse_arithmetics()) {
    INFO(c.name);
    for (const Index n : {4, 256}) {
      for (const double scale : {0.7, 3.0}) {
        for (const double dot : {6.0, 0.5}) {  // ‖q‖‖k‖ = 6
          ComputedOps ops(c.run, 1);
          const ComputedOps::Score s = ops.score(dot, 2.0, 3.0, n, scale, 0.0);
          const auto terms = static_cast<double>(n);
          const double off = c.of_sum(terms, 6.0);
          const double stored = c.stored(dot + off);
          const double factor = std::max(scale, rounded_to(c.run.stored, scale)) * (1.0 + c.u) + c.eta;
          const double after = c.stored(factor * stored);
          const double tiny = std::sqrt(terms) * c.eta;
          const double query = factor * 2.0 * (1.0 + c.u) + tiny;
          const double of_query = (3.0 * c.u * scale + 2.0 * c.eta) * 6.0 + 3.0 * tiny;
          const double before = c.stored(scale * dot + of_query + c.of_sum(terms, 3.0 * query));
          CHECK(s.dot == by_hand(stored));
          CHECK(s.score == by_hand(std::max(after, before)));
          CHECK(std::isnan(s.cap_input));
          const std::map<Signal, double> notes = ops.take_notes();
          CHECK(notes.at(Signal::sums) == by_hand(std::max(6.0 + off, 3.0 * query + c.of_sum(terms, 3.0 * query))));
          CHECK(notes.at(Signal::products) == by_hand(query));
          CHECK(notes.at(Signal::deviations) == by_hand(2.0 * s.score * (1.0 + 2.0 * c.u) + c.eta));

          constexpr double cap = 2.03;
          const ComputedOps::Score capped = ops.score(dot, 2.0, 3.0, n, scale, cap);
          const double least = std::min(cap, rounded_to(c.run.stored, cap));
          CHECK(capped.cap_input ==
                by_hand(std::max(s.score, s.score / least * (1.0 + c.u) * (1.0 + c.sum_u) + c.eta)));
          CHECK(capped.score == by_hand(std::min(cap, s.score) * (1.0 + 16.0 * c.u) + 4.0 * (cap + 1.0) * c.eta));
          const double enters = std::min(cap * (1.0 + 16.0 * c.u), s.score);
          CHECK(noted(ops, Signal::deviations) == by_hand(2.0 * enters * (1.0 + 2.0 * c.u) + c.eta));
        }
      }
    }
  }
}

}  // namespace computed_terms
}  // namespace
}  // namespace periscope::theory
