#include "theory/certify/certificate.h"

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "sim/numerics/rounding.h"
#include "tests/support/doctest.h"
#include "tests/theory/plain_parameters.h"
#include "theory/certify/computed_ops.h"
#include "theory/certify/rounded_parameters.h"

/// Compares error bounds (T24) with the formulas of docs/theory/certificates.md, evaluated by hand. The arithmetic is
/// so coarse that every term changes a bound visibly; attacks cannot detect bounds that are slightly too large. Golden
/// results of `certify` cover whole stacks.
// A separate namespace, because a unity build compiles several test files as one.
namespace periscope::theory {
namespace {
namespace certificate_values {

using Index = Eigen::Index;
using Values = std::vector<double>;

const RunArithmetic coarse{Arithmetic::mixed, {"both", 1e300, 7, -4}, {"both of sums", 1e300, 8, -5}};
constexpr int longest = 40;

doctest::Approx nearly(double x) { return approx(x).epsilon(1e-9).scale(1e-12); }

Vector all(Index n, double x) { return Vector::Constant(n, x); }
BoundedSet box(Index n, double low, double high) { return {all(n, low), all(n, high), {}}; }

/// Appends the bounds of feature 0 to `values`.
void append(Values& values, const BoundedSet& x) {
  values.insert(values.end(), {x.low[0], x.high[0]});
  if (!x.ellipsoid) return;
  const Ellipsoid& e = *x.ellipsoid;
  values.insert(values.end(), {e.centre[0], std::abs(e.axes[0]), e.error[0]});
}

Values bounds_of(const ComputedImage& image) {
  Values values;
  append(values, image.set);
  values.push_back(image.error[0]);
  return values;
}

Values bounds_of(const BoundedSet& x) {
  Values values;
  append(values, x);
  return values;
}

Values norm_bounds(ComputedOps& ops, NormKind kind, double radius) {
  constexpr Index d = 200;
  BoundedSet x = ball(all(d, 0.75), radius);
  x.low.setConstant(-0.25);
  NormBound norm{kind, 0.3, all(d, 1.0), all(d, 3.0)};
  norm.gain[0] = -2.0;
  return bounds_of(ops.normalised(x, norm));
}

/// An op with its name and call. `expected` has the bounds of its result, then the largest magnitudes inside the op, by
/// signal.
struct OpValues {
  std::string op;
  std::function<Values(ComputedOps&)> run;
  Values expected;
};

const std::vector<OpValues> op_values{
    {"storing",
     [](ComputedOps& ops) {
       return bounds_of(ops.stored({all(1, -1.0), all(1, 3.0), Ellipsoid{all(1, 2.0), all(1, 0.5), all(1, 0.25)}}));
     },
     {-1.0244140625, 3.0244140625, 2.0, 0.50390625, 0.2685546875}},
    {"a sum of 300 products and a bias",
     [](ComputedOps& ops) {
       const RowMatrix w = RowMatrix::Constant(1, 300, -0.5 / 300.0);
       return bounds_of(ops.summed(Weight::up, w, image_and_sums(w, box(300, -0.5, 1.0)), all(1, -3.0)));
     },
     {-4.29196428857, -1.95803571143, 0.791964288568, 1.25772425532, 1.24700546265}},
    {"a sum of 4096 products",
     [](ComputedOps& ops) {
       return bounds_of(ops.linear(Weight::up, RowMatrix::Constant(1, 4096, 0x1p-13), {}, box(4096, -0.5, 1.0)));
     },
     {-25.4777449966, 25.7277449966, 25.5273361206}},
    {"a map of an ellipsoid",
     [](ComputedOps& ops) {
       const BoundedSet x{all(200, -infinity), all(200, infinity),
                          Ellipsoid{all(200, 1.0), all(200, 0.5), all(200, 0.25)}};
       const Mapped y = ops.mapped(Weight::up, RowMatrix::Constant(2, 200, -0.5), all(2, -3.0), x);
       Values values{y.centre.value[1], y.centre.error[1], y.axes.matrix(1, 3)};
       append(values, y.image);
       return values;
     },
     {-103.0, 129.51972927, -0.25, -236.055263176, 30.0552631761, -103.0, 5.07843017578, 129.464270761, 231.224408423,
      229.431002156}},
    {"RMSNorm, bounded by its ball",
     [](ComputedOps& ops) { return norm_bounds(ops, NormKind::rms, 8.0); },
     {0.05015590163, 4.02206759023, 3.0, 24.7846358906, 0.0446679126057, 2.91769628759, 200.0, 1.85185936747}},
    {"RMSNorm, bounded by its box",
     [](ComputedOps& ops) { return norm_bounds(ops, NormKind::rms, 100.0); },
     {0.05015590163, 4.02206759023, 3.0, 29.0168834865, 0.0446679126057, 2.91769628759, 201.119015503, 1.85185936747}},
    {"LayerNorm, bounded by its ball",
     [](ComputedOps& ops) { return norm_bounds(ops, NormKind::layer, 4.0); },
     {-1.78473445727, 7.78473445727, 3.0, 23.1934708058, 0.0480803638386, 4.72341868629, 100.762716319, 1.22578380762,
      200.0, 1.85185936747}},
    {"LayerNorm, bounded by its box",
     [](ComputedOps& ops) { return norm_bounds(ops, NormKind::layer, 1e3); },
     {-3.18211194481, 9.18211194481, 3.0, 35.693122803, 0.050700654506, 6.1099637902, 267.1875, 1.60013367177,
      654.78969296, 1.85185936747}},
    {"a factor that is rounded",
     [](ComputedOps& ops) { return bounds_of(ops.scaled(-0.7, box(1, -1.0, 3.0))); },
     {-2.13785400391, 0.737854003906, 2.13785400391}},
    {"a weighted sum",
     [](ComputedOps& ops) {
       Values values = bounds_of(ops.weighted_sum(-0.7, box(1, -3.0, 3.0), 0.5, box(1, -5.0, 5.0)));
       append(values, ops.weighted_sum(1.0, box(1, -3.0, 3.0), 1.0, box(1, -5.0, 5.0)));
       return values;
     },
     {-4.6957318306, 4.6957318306, -8.0634765625, 8.0634765625, 2.5205078125}},
    {"rounding errors of a product, a sum of magnitudes and a rotation",
     [](ComputedOps& ops) {
       return Values{ops.rounded_twice(all(1, 5.0))[0], ops.stored_sum(5.0, 300), ops.rotation_error(5.0)};
     },
     {0.1298828125, 5.33203125, 0.16015625}},
    {"ReLU",
     [](ComputedOps& ops) { return bounds_of(ops.activated(Activation::relu, box(4, 40.0, 80.0))); },
     {36.8542461395, 83.1457538605, 0.0, 166.2890625, 0.00122261047363, 3.14575386047}},
    {"GELU's tanh form",
     [](ComputedOps& ops) { return bounds_of(ops.activated(Activation::gelu_tanh, box(4, 40.0, 80.0))); },
     {34.3310241699, 85.6689758301, 0.0, 171.328125, 0.00491333007813, 5.66897583008}},
    {"soft caps, one of them not representable in the format",
     [](ComputedOps& ops) {
       Values values;
       for (const double cap : {2.0, 2.03}) append(values, ops.soft_capped(cap, box(1, -3.0, 3.0)));
       return values;
     },
     {-2.0483023207, 2.0483023207, -2.06963423098, 2.06963423098, 1.51860046387}},
    {"attention weights of all tokens and of a window",
     [](ComputedOps& ops) {
       const WeightSum of_all = ops.attention_weights(0);
       const WeightSum of_some = ops.attention_weights(5);
       return Values{of_all.low, of_all.high, of_some.low, of_some.high};
     },
     {0.756660178147, 1.26809342531, 0.957113531456, 1.04377877899, 46.8139648438}},
    {"averages of values",
     [](ComputedOps& ops) { return bounds_of(ops.weighted_values({.low = 0.5, .high = 1.5}, 0, box(3, -1.0, 2.0))); },
     {-2.00996667147, 3.50996667147, 0.509966671467, 3.48178863525}},
    {"scores from q·k, or from a stored scaled query",
     [](ComputedOps& ops) {
       Values values;
       for (const double scale : {0.7, 3.0}) {
         for (const double cap : {0.0, 2.03}) {
           const ComputedOps::Score s = ops.score(0.5, 2.0, 3.0, 256, scale, cap);
           values.insert(values.end(), {s.dot, cap > 0.0 ? s.cap_input : 0.0, s.score});
         }
       }
       return values;
     },
     {6.70101666451, 0.0, 5.02630327953, 6.70101666451, 5.02630327953, 2.2955859375, 6.70101666451, 0.0, 20.6729193999,
      6.70101666451, 20.6729193999, 2.2955859375, 6.11170959473, 36.8663552527, 41.9928440935}},
};

TEST_CASE("bounds of every op's result and intermediate numbers equal their formulas (T24)") {
  for (const OpValues& row : op_values) {
    CAPTURE(row.op);
    ComputedOps ops(coarse, longest);
    Values found = row.run(ops);
    for (const auto& [signal, magnitude] : ops.take_maxima()) found.push_back(magnitude);
    REQUIRE(found.size() == row.expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      CAPTURE(i);
      CHECK(found[i] == nearly(row.expected[i]));
    }
  }
}

TEST_CASE("the bound is infinite if underflow of squares may cancel eps") {
  ComputedOps ops({Arithmetic::mixed, fp64, {"eta' = 2^-3", 1e300, 53, 49}}, 1);
  const NormBound norm{NormKind::rms, 0.25, all(2, 1.0), {}};
  CHECK(ops.normalised(box(2, -1.0, 1.0), norm).high[0] == infinity);
  CHECK(ops.take_maxima().at(Signal::reciprocals) == infinity);
  CHECK(std::isfinite(ops.normalised(box(2, -1.0, 1.0), {NormKind::rms, 0.375, all(2, 1.0), {}}).high[0]));
}

TEST_CASE("if rows of the embedding tables cancel, the bound covers partial sums in any order") {
  ModelSpec m;
  m.layers = 0;
  m.width = 6;
  m.final_norm = m.unembedding = false;
  m.embedding = {.scale = 1.0, .width = 0, .positions = 3, .position_offset = 0, .token_types = 1};
  PlainParameters p;
  p.matrices[{0, Weight::embedding}] = RowMatrix::Constant(8, 6, 1.0);
  p.matrices[{0, Weight::positions}] = RowMatrix::Constant(3, 6, -3.0);
  p.matrices[{0, Weight::token_types}] = RowMatrix::Constant(1, 6, 2.0);
  const Certificate certificate = certify(m, p, {}, run_arithmetic(Arithmetic::pure, fp64), longest);
  CHECK(certificate.longest == 3);  // size of the position table
  CHECK(certificate.find(Signal::input, -1)->largest < 1e-12);
  CHECK(certificate.find(Signal::addends, -1)->largest >= 6.0);
}

TEST_CASE("matrices, tables, biases and gains are rounded to the format, and the largest entry is located") {
  struct Stored final : PlainParameters {
    void visit_rows(Weight, const BlockVisitor& visit) const override {
      RowMatrix rows = RowMatrix::Constant(2, 3, 1.01);
      visit(0, rows);
      rows(1, 2) = -9.1;
      visit(2, rows);
    }
    [[nodiscard]] NormParameters norm(int, Weight) const override {
      Vector gain(3);
      // Gains 1 + w with w = 1/8 + 2⁻⁹ (finer last place than 1 + w), −(1 − 2⁻⁹) and 2 + 2⁻⁵.
      gain << 1.0 + 0x1p-3 + 0x1p-9, 0x1p-9, 3.0 + 0x1p-5;
      return {gain, Vector::Constant(3, 5.0 + 0x1p-6), 1.0};
    }
  } stored;
  stored.matrices[{0, Weight::q}] = RowMatrix::Constant(2, 2, 1.01);
  stored.biases[{0, Weight::q}] = all(2, 1.01);
  stored.biases[{0, Weight::k}] = all(2, 1.0);
  const NumberFormat seven{"seven bits", 1e300, 7, -900};
  const RoundedParameters rounded(stored, seven);
  (void)rounded.bias(0, Weight::k);
  CHECK_FALSE(rounded.changed());
  CHECK(rounded.matrix(matrix_id(0, Weight::q)) == RowMatrix::Constant(2, 2, rounded_to(seven, 1.01)));
  CHECK(rounded.changed());
  (void)rounded.bias(0, Weight::k);
  CHECK(rounded.changed());  // later unchanged weights do not reset it
  CHECK(rounded.bias(0, Weight::q) == all(2, rounded_to(seven, 1.01)));
  const NormParameters n = rounded.norm(0, Weight::norm_a);
  CHECK(n.gain[0] == 1.0 + 0x1p-3 + 0x1p-9);  // w has at most seven bits; 1 + w would be rounded down
  CHECK(n.gain[1] == 0x1p-9);  // −(1 − 2⁻⁹) rounds to −1 and 1 + w to 0; the unrounded sum is larger
  CHECK(n.bias[0] == 5.0);
  CHECK(rounded.largest() == 5.0);
  rounded.visit_rows(Weight::embedding, [&](Index first, const RowMatrix& rows) {
    CHECK(rows(0, 0) == rounded_to(seven, 1.01));
    CHECK(rows(1, 2) == rounded_to(seven, first == 0 ? 1.01 : -9.1));
  });
  REQUIRE(rounded.largest_entry());
  CHECK(rounded.largest_entry()->value == -9.1);
  CHECK(rounded.largest_entry()->entry == 3 * 3 + 2);  // index within the whole table, not the block
  const auto changes = [&](const auto& read) {
    const RoundedParameters one(stored, seven);
    read(one);
    return one.changed();
  };
  CHECK(changes([](const RoundedParameters& one) { (void)one.bias(0, Weight::q); }));
  CHECK(changes([](const RoundedParameters& one) { (void)one.norm(0, Weight::norm_a); }));
  CHECK(
      changes([](const RoundedParameters& one) { one.visit_rows(Weight::embedding, [](Index, const RowMatrix&) {}); }));
}

TEST_CASE("certificates and runs round numbers to the same values") {
  std::mt19937_64 engine(1);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  std::vector<NumberFormat> formats(number_formats.begin(), number_formats.end());
  formats.push_back(fp64);
  for (const NumberFormat& f : formats) {
    const Rounding run(f, Rounding::Overflow::infinite);
    for (int i = 0; i < 3000; ++i) {
      const double x = std::ldexp(std::round(uniform(engine) * 0x1p10), i % 300 - 170);
      CHECK(rounded_to(f, x) == run(x));
    }
    CHECK(rounded_to(f, f.largest) == f.largest);
    CHECK(rounded_to(f, -f.smallest_subnormal() / 2.0) == 0.0);
  }
}

}  // namespace certificate_values
}  // namespace
}  // namespace periscope::theory
