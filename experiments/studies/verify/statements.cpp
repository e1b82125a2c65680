#include "experiments/studies/verify/statements.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "sim/base/mapped.h"
#include "sim/numerics/larger.h"
#include "sim/numerics/number_format.h"

namespace periscope::verify {
namespace {

using Factor = Statement::Factor;

/// Returns whether norms B and C are as given, and the logits are the sublayer's output as in the paper's propositions.
template <bool norm_b, bool norm_c>
bool is_bare(const BoundCase& c) {
  return !c.has("final_norm.gain") && !c.has("unembedding") && c.rule().norm_b == norm_b && c.rule().norm_c == norm_c;
}
constexpr auto is_pre = is_bare<false, false>, is_peri = is_bare<true, false>, is_post = is_bare<false, true>;
bool has_longer_path(const BoundCase& c) { return !is_pre(c) && !is_peri(c) && !is_post(c); }
bool is_any(const BoundCase& /*c*/) { return true; }
bool has_norm_b(const BoundCase& c) { return c.rule().norm_b; }

/// Returns (measured − rounding) / bound; infinite for NaN.
double rank_of(const StatementOutcome& o) {
  if (std::isinf(o.bound) || std::isinf(o.rounding)) return std::isnan(o.measured) ? HUGE_VAL : -HUGE_VAL;
  const double excess = o.measured - o.rounding;
  const double rank = o.bound == 0.0 && excess <= 0.0 ? -HUGE_VAL : excess / o.bound;
  return std::isnan(rank) ? HUGE_VAL : rank;
}

StatementOutcome worst_of(const std::vector<StatementOutcome>& all) {
  return *std::ranges::max_element(all, {}, rank_of);
}

/// Returns the product, with 0·∞ = 0: an inactive unit has no gradient even if the factor is infinite.
double times(double a, double b) { return a == 0.0 || b == 0.0 ? 0.0 : a * b; }

/// Returns the rounding bound per unit of activation. Uses γ/√(v+ε) of every norm, even if the Jacobian is smaller
/// because D is small.
double rounding_factor(const TokenTerms& token) {
  double product = std::abs(token.path.beta) * token.path.unembedding.value_or(1.0) * token.rounding;
  for (const theory::NormPass& norm : token.path.norms) product = times(product, theory::gain_over_rms(norm));
  return product;
}

/// Returns `measured` compared with the bound: the mean over tokens of factor · amount_t.
template <class Amount>
StatementOutcome outcome(const Evaluation& e, double measured, Factor factor, Amount amount) {
  StatementOutcome o{.measured = measured, .rounding = std::numeric_limits<double>::min()};  // bound on underflow error
  const auto count = static_cast<double>(e.tokens.size());
  for (std::size_t t = 0; t < e.tokens.size(); ++t) {
    o.bound += times(factor(e.tokens[t].path), amount(t)) / count;
    o.rounding += times(rounding_factor(e.tokens[t]), amount(t)) / count;
  }
  return o;
}

/// Compares the gradient's Frobenius norm with a bound in terms of ‖h‖.
StatementOutcome frobenius(const BoundCase& /*c*/, const Evaluation& e, Factor factor) {
  return outcome(e, e.gradient_norm, factor, [&](std::size_t t) { return e.tokens[t].hidden; });
}

/// Compares the gradient's largest entry with a bound in terms of ‖h‖, as in the paper.
StatementOutcome largest_entry(const BoundCase& /*c*/, const Evaluation& e, Factor factor) {
  return outcome(e, largest_magnitude(e.gradient), factor, [&](std::size_t t) { return e.tokens[t].hidden; });
}

/// Compares every entry i, j with a bound in terms of |h_i|. Returns the outcome of the unit closest to its bound.
StatementOutcome entrywise(const BoundCase& c, const Evaluation& e, Factor factor) {
  const auto units = static_cast<std::size_t>(c.units());
  std::vector<StatementOutcome> all;
  for (std::size_t i = 0; i < units; ++i) {
    double largest = 0.0;
    for (std::size_t k = i; k < e.gradient.size(); k += units) largest = larger(largest, std::abs(e.gradient[k]));
    all.push_back(outcome(e, largest, factor, [&](std::size_t t) { return std::abs(e.hidden[t * units + i]); }));
  }
  return worst_of(all);
}

/// Checks T14a, ∂loss/∂W2_ij = β · mean_t h_ti (p_tj − y_tj). Returns the worst entry.
StatementOutcome pre_equality(const BoundCase& c, const Evaluation& e, Factor /*factor*/) {
  const auto units = static_cast<std::size_t>(c.units());
  const auto d = static_cast<std::size_t>(c.width());
  const auto count = static_cast<double>(e.tokens.size());
  std::vector<StatementOutcome> all;
  for (std::size_t j = 0; j < d; ++j) {
    for (std::size_t i = 0; i < units; ++i) {
      double formula = 0.0;
      double allowed = std::numeric_limits<double>::min();
      for (std::size_t t = 0; t < e.tokens.size(); ++t) {
        formula += c.number("beta") * e.hidden[t * units + i] * e.wrong[t * d + j] / count;
        allowed += rounding_factor(e.tokens[t]) * std::abs(e.hidden[t * units + i]) / count;
      }
      all.push_back({.measured = std::abs(e.gradient[j * units + i] - formula), .bound = allowed});
    }
  }
  return worst_of(all);
}

/// Returns a bound on the relative rounding error of sums of D squares and products, and of their sum.
double growth_rounding(const BoundCase& c) { return 4.0 * (c.width() + 8.0) * fp64.unit_roundoff(); }

/// Checks T15. Returns the worst token.
StatementOutcome growth_identity(const BoundCase& c, const Evaluation& e, Factor /*factor*/) {
  return worst_of(mapped(e.tokens, [&](const TokenTerms& t) -> StatementOutcome {
    const double formula = theory::grown_second_moment(t.stream_rms, t.branch_rms, t.cosine);
    const double whole = t.stream_rms + t.branch_rms;
    return {.measured = std::abs(t.out_rms * t.out_rms - formula), .bound = growth_rounding(c) * whole * whole};
  }));
}

/// Checks T16: with norm B the sum's rms is at most |α|·rms(x) + |β|(max|γ| + rms(bias)). Returns the worst token.
StatementOutcome growth_bound(const BoundCase& c, const Evaluation& e, Factor /*factor*/) {
  double bias = 0.0;
  for (const double b : c.values("norm_b.bias")) bias += b * b / c.width();
  const double branch = std::abs(c.number("beta")) *
                        theory::normed_rms_bound(largest_magnitude(c.values("norm_b.gain")), std::sqrt(bias));
  return worst_of(mapped(e.tokens, [&](const TokenTerms& t) -> StatementOutcome {
    const double bound = t.stream_rms + branch;
    const double rounding = t.rounding == HUGE_VAL ? HUGE_VAL : growth_rounding(c) * bound;
    return {.measured = t.out_rms, .bound = bound, .rounding = rounding};
  }));
}

using enum StatementKind;
using theory::paper_factor, theory::review_factor, theory::sharp_entry_factor, theory::sharp_factor;

// gamma: max|γ|. |a|, |x+a|: size of the norm's input (LayerNorm: centred). Bounds are means over tokens.
// clang-format off
constexpr Statement all_statements[] = {
    {"C.1", identity, "Pre, no final norm: gradient = h (p-y)^T", is_pre, pre_equality},
    {"C.2", bound, "Peri: entry <= 4 gamma sqrt(D) |h|/|a|", is_peri, largest_entry, paper_factor, entry_constant / 4.0},
    {"C.2-whole", bound, "Peri: the same for the whole matrix", is_peri, frobenius, paper_factor, whole_constant / 4.0},
    {"C.3", bound, "Post: entry <= 4 gamma sqrt(D) |h|/|x+a|", is_post, largest_entry, paper_factor, entry_constant / 4.0},
    {"C.3-whole", bound, "Post: the same for the whole matrix", is_post, frobenius, paper_factor, whole_constant / 4.0},
    {"T14a", bound, "Pre, no final norm: <= sqrt2 (1-p_y) |h|", is_pre, frobenius, sharp_factor},
    {"T14a-entry", bound, "Pre, no final norm: entry i,j <= (1-p_y) |h_i|", is_pre, entrywise, sharp_entry_factor},
    {"T14b", bound, "Peri: <= sqrt2 (1-p_y) gamma |h|/sqrt(|a|^2/D+eps)", is_peri, frobenius, sharp_factor},
    {"T14b-entry", bound, "Peri: entry i,j <= (1+sqrt2)/2 (1-p_y) gamma |h_i|/sqrt(..)", is_peri, entrywise, sharp_entry_factor},
    {"T14c", bound, "Post: <= sqrt2 (1-p_y) gamma |h|/sqrt(|x+a|^2/D+eps)", is_post, frobenius, sharp_factor},
    {"T14c-entry", bound, "Post: entry i,j <= (1+sqrt2)/2 (1-p_y) gamma |h_i|/sqrt(..)", is_post, entrywise, sharp_entry_factor},
    {"T14d", bound, "final norm, unembedding: <= sqrt2 (1-p_y) |U| |h| prod gamma/sqrt(..)", has_longer_path, frobenius, sharp_factor},
    {"T14d-entry", bound, "final norm, unembedding: entry i,j, with |h_i|", has_longer_path, entrywise, sharp_entry_factor},
    {"T15", identity, "q+ = q + s^2 + 2 s sqrt(q) cos", is_any, growth_identity},
    {"T16", bound, "norm B: sqrt(q+) <= sqrt(q) + max gamma + rms(bias)", has_norm_b, growth_bound},
    {"G4", refutable, "Peri: entry <= 4 gamma sqrt(1/D) |h|/|a|", is_peri, largest_entry, review_factor, entry_constant / 4.0, true},
    {"G4-whole", refutable, "Peri: the same for the whole matrix", is_peri, frobenius, review_factor, whole_constant / 4.0, true},
};
// clang-format on

}  // namespace

std::span<const Statement> statements() { return all_statements; }

const Statement& statement(std::string_view id) {
  const auto* it = std::ranges::find(all_statements, id, &Statement::id);
  if (it == std::end(all_statements)) throw std::logic_error("no such statement");
  return *it;
}

bool StatementOutcome::is_broken(double scale) const {
  return violates(statement->kind == StatementKind::bound ? scale : 1.0);
}

StatementOutcome Statement::check(const BoundCase& c, const Evaluation& e) const {
  StatementOutcome o = measure(c, e, factor);
  o.statement = this;
  return o;
}

std::vector<StatementOutcome> check_statements(const BoundCase& c, const Evaluation& e) {
  std::vector<StatementOutcome> all;
  for (const Statement& s : all_statements) {
    if (s.applies(c)) all.push_back(s.check(c, e));
  }
  return all;
}

}  // namespace periscope::verify
