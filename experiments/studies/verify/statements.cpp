#include "experiments/studies/verify/statements.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>

#include "sim/numerics/number_format.h"

namespace periscope::verify {
namespace {

using Factor = double (*)(const theory::GradientPath&);

// -- which cases ------------------------------------------------------------------------------------

/// The logits are the output itself, as in the paper's propositions.
bool is_bare(const BoundCase& c) { return !c.has_final_norm() && !c.has_unembedding(); }
bool is_pre(const BoundCase& c) { return is_bare(c) && c.norms_behind() == 0; }
bool is_peri(const BoundCase& c) { return is_bare(c) && c.has("norm_b.gain") && !c.has("norm_c.gain"); }
bool is_post(const BoundCase& c) { return is_bare(c) && c.has("norm_c.gain") && !c.has("norm_b.gain"); }
bool is_longer(const BoundCase& c) { return !is_pre(c) && !is_peri(c) && !is_post(c); }
bool has_sum(const BoundCase& /*c*/) { return true; }
bool has_norm_b(const BoundCase& c) { return c.has("norm_b.gain"); }

// -- gradients --------------------------------------------------------------------------------------

/// The outcome that comes closest to violating its bound. One that is not a number stays.
class Worst {
 public:
  void add(const StatementOutcome& o) {
    const double rank = rank_of(o);
    if (any_ && (std::isnan(rank_) || rank <= rank_)) return;
    any_ = true;
    rank_ = rank;
    worst_ = o;
  }
  [[nodiscard]] const StatementOutcome& get() const { return worst_; }

 private:
  static double rank_of(const StatementOutcome& o) {
    if (std::isinf(o.bound) || std::isinf(o.rounding)) return std::isnan(o.measured) ? o.measured : -HUGE_VAL;
    const double excess = o.measured - o.rounding;
    if (o.bound == 0.0 && !std::isnan(excess)) return excess > 0.0 ? HUGE_VAL : -HUGE_VAL;
    return excess / o.bound;
  }

  bool any_ = false;
  double rank_ = 0.0;
  StatementOutcome worst_;
};

/// factor · amount, where no activation means no gradient even if the factor is infinite.
double times(double factor, double amount) { return amount == 0.0 ? 0.0 : factor * amount; }

/// The most that rounding adds per unit of activation: the plain γ/√(v+ε), also where D is so small that the Jacobian
/// is smaller than that: rounding does not know.
double rounding_factor(const Evaluation& e, const TokenFacts& token) {
  double product = std::abs(e.beta) * e.unembedding.value_or(1.0) * token.rounding;
  double smallest = product;
  for (std::size_t i = 0; i < token.passes; ++i) {
    const double factor = theory::gain_over_rms(token.norms[i]);
    smallest = std::min(smallest, factor);
    product *= factor;
  }
  return smallest == 0.0 ? 0.0 : product;
}

/// `measured` against the mean over tokens of factor · amount_t.
template <class Amount>
StatementOutcome outcome(const Evaluation& e, double measured, Factor factor, Amount amount) {
  StatementOutcome o{.measured = measured,
                     .rounding = std::numeric_limits<double>::min()};  // and what underflow may take
  const auto count = static_cast<double>(e.tokens.size());
  for (std::size_t t = 0; t < e.tokens.size(); ++t) {
    o.bound += times(factor(e.path(e.tokens[t])), amount(t)) / count;
    o.rounding += times(rounding_factor(e, e.tokens[t]), amount(t)) / count;
  }
  return o;
}

template <Factor factor>
StatementOutcome frobenius(const BoundCase& /*c*/, const Evaluation& e) {
  return outcome(e, e.gradient_norm, factor, [&](std::size_t t) { return e.tokens[t].hidden; });
}

/// The largest entry against a bound with ‖h‖, as the paper has it.
template <Factor factor>
StatementOutcome largest_entry(const BoundCase& /*c*/, const Evaluation& e) {
  double largest = 0.0;
  for (const double g : e.gradient) largest = std::isnan(g) ? g : std::max(largest, std::abs(g));
  return outcome(e, largest, factor, [&](std::size_t t) { return e.tokens[t].hidden; });
}

/// Every entry i, j against a bound with |h_i|: the unit that comes closest.
template <Factor factor>
StatementOutcome entrywise(const BoundCase& c, const Evaluation& e) {
  const auto units = static_cast<std::size_t>(c.units());
  Worst worst;
  for (std::size_t i = 0; i < units; ++i) {
    double largest = 0.0;
    for (std::size_t j = 0; j < static_cast<std::size_t>(c.width()); ++j) {
      const double g = e.gradient[j * units + i];
      largest = std::isnan(g) ? g : std::max(largest, std::abs(g));
    }
    worst.add(outcome(e, largest, factor, [&](std::size_t t) { return std::abs(e.hidden[t * units + i]); }));
  }
  return worst.get();
}

/// T14a: ∂loss/∂W2_ij = β · mean_t h_ti (p_tj − y_tj). The worst entry, in units of what rounding allows.
StatementOutcome pre_equality(const BoundCase& c, const Evaluation& e) {
  const auto units = static_cast<std::size_t>(c.units());
  const auto d = static_cast<std::size_t>(c.width());
  const auto count = static_cast<double>(e.tokens.size());
  Worst worst;
  for (std::size_t j = 0; j < d; ++j) {
    for (std::size_t i = 0; i < units; ++i) {
      double formula = 0.0;
      double allowed = std::numeric_limits<double>::min();
      for (std::size_t t = 0; t < e.tokens.size(); ++t) {
        formula += e.beta * e.hidden[t * units + i] * e.wrong[t * d + j] / count;
        allowed += rounding_factor(e, e.tokens[t]) * std::abs(e.hidden[t * units + i]) / count;
      }
      worst.add({.measured = std::abs(e.gradient[j * units + i] - formula), .bound = allowed});
    }
  }
  return worst.get();
}

// -- growth -----------------------------------------------------------------------------------------

/// Roundings of sums of D squares and products, and of the sum that they describe.
double growth_rounding(const BoundCase& c) { return 4.0 * (c.width() + 8.0) * fp64.unit_roundoff(); }

/// T15, in units of what rounding allows: the worst token.
StatementOutcome growth_identity(const BoundCase& c, const Evaluation& e) {
  Worst worst;
  for (const TokenFacts& t : e.tokens) {
    const double formula = theory::grown_second_moment(t.stream_rms, t.branch_rms, t.cosine);
    const double whole = t.stream_rms + t.branch_rms;
    worst.add({.measured = std::abs(t.out_rms * t.out_rms - formula), .bound = growth_rounding(c) * whole * whole});
  }
  return worst.get();
}

/// T16: with norm B the sum's rms is at most |α|·rms(x) + |β|(max|γ| + rms(bias)): the worst token.
StatementOutcome growth_bound(const BoundCase& c, const Evaluation& e) {
  double gain = 0.0;
  for (const double g : c.values("norm_b.gain")) gain = std::max(gain, std::abs(g));
  double bias = 0.0;
  for (const double b : c.values("norm_b.bias")) bias += b * b / c.width();
  const double branch = std::abs(c.number("beta")) * theory::normed_rms_bound(gain, std::sqrt(bias));
  Worst worst;
  for (const TokenFacts& t : e.tokens) {
    const double bound = t.stream_rms + branch;
    const double rounding = t.rounding == HUGE_VAL ? HUGE_VAL : growth_rounding(c) * bound;
    worst.add({.measured = t.out_rms, .bound = bound, .rounding = rounding});
  }
  return worst.get();
}

// -- how far a ratio can go -------------------------------------------------------------------------

constexpr double whole_constant = std::numbers::sqrt2;
constexpr double entry_constant = 0.5 * (1.0 + std::numbers::sqrt2);

double one(int /*width*/) { return 1.0; }
double quarter_whole(int /*width*/) { return whole_constant / 4.0; }
double quarter_entry(int /*width*/) { return entry_constant / 4.0; }
double review_whole(int width) { return whole_constant / 4.0 * width; }
double review_entry(int width) { return entry_constant / 4.0 * width; }

using enum StatementKind;
using theory::paper_factor, theory::review_factor, theory::sharp_entry_factor, theory::sharp_factor;

// Width and γ: D and max|γ|. ‖a‖: of the input of the norm (LayerNorm: centred). Means over tokens.
// clang-format off
constexpr Statement all_statements[] = {
    {"C.1", identity, "paper, Prop. 3.1 (1), C.1", "Pre, no final norm: gradient = h (p-y)^T", is_pre, pre_equality, one},
    {"C.2", bound, "paper, Prop. 3.1 (2), C.2", "Peri: entry <= 4 gamma sqrt(D) |h|/|a|", is_peri, largest_entry<paper_factor>, quarter_entry},
    {"C.2-whole", bound, "T14", "Peri: the same for the whole matrix", is_peri, frobenius<paper_factor>, quarter_whole},
    {"C.3", bound, "paper, B.1, C.3", "Post: entry <= 4 gamma sqrt(D) |h|/|x+a|", is_post, largest_entry<paper_factor>, quarter_entry},
    {"C.3-whole", bound, "T14", "Post: the same for the whole matrix", is_post, frobenius<paper_factor>, quarter_whole},
    {"T14a", bound, "T14a", "Pre, no final norm: <= sqrt2 (1-p_y) |h|", is_pre, frobenius<sharp_factor>, one},
    {"T14a-entry", bound, "T14a", "Pre, no final norm: entry i,j <= (1-p_y) |h_i|", is_pre, entrywise<sharp_entry_factor>, one},
    {"T14b", bound, "T14b", "Peri: <= sqrt2 (1-p_y) gamma |h|/sqrt(|a|^2/D+eps)", is_peri, frobenius<sharp_factor>, one},
    {"T14b-entry", bound, "T14b", "Peri: entry i,j <= (1+sqrt2)/2 (1-p_y) gamma |h_i|/sqrt(..)", is_peri, entrywise<sharp_entry_factor>, one},
    {"T14c", bound, "T14c", "Post: <= sqrt2 (1-p_y) gamma |h|/sqrt(|x+a|^2/D+eps)", is_post, frobenius<sharp_factor>, one},
    {"T14c-entry", bound, "T14c", "Post: entry i,j <= (1+sqrt2)/2 (1-p_y) gamma |h_i|/sqrt(..)", is_post, entrywise<sharp_entry_factor>, one},
    {"T14d", bound, "T14d", "final norm, unembedding: <= sqrt2 (1-p_y) |U| |h| prod gamma/sqrt(..)", is_longer, frobenius<sharp_factor>, one},
    {"T14d-entry", bound, "T14d", "final norm, unembedding: entry i,j, with |h_i|", is_longer, entrywise<sharp_entry_factor>, one},
    {"T15", identity, "T15", "q+ = q + s^2 + 2 s sqrt(q) cos", has_sum, growth_identity, one},
    {"T16", bound, "T16", "norm B: sqrt(q+) <= sqrt(q) + max gamma + rms(bias)", has_norm_b, growth_bound, one},
    {"G4", refutable, "reviews (claim G4)", "Peri: entry <= 4 gamma sqrt(1/D) |h|/|a|", is_peri, largest_entry<review_factor>, review_entry},
    {"G4-whole", refutable, "reviews (claim G4)", "Peri: the same for the whole matrix", is_peri, frobenius<review_factor>, review_whole},
};
// clang-format on

}  // namespace

std::span<const Statement> statements() { return all_statements; }

std::size_t statement_index(std::string_view id) {
  const auto it = std::ranges::find(all_statements, id, &Statement::id);
  if (it == std::end(all_statements)) throw std::logic_error("no such statement");
  return static_cast<std::size_t>(it - std::begin(all_statements));
}

}  // namespace periscope::verify
