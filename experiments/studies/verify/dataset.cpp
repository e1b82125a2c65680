#include "experiments/engine/result/table.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/studies/verify/verify.h"
#include "sim/base/mapped.h"

namespace periscope::verify {
namespace {

using dataset::Table;
using dataset::Type;

/// Bins per decade of the file's histogram.
constexpr int bins_per_decade = 30;

/// The coordinate log_ratio: the middles of the bins.
std::vector<double> histogram_bins() {
  std::vector<double> bins;
  for (int i = 0; i < (Tally::highest - Tally::lowest) * bins_per_decade; ++i) {
    bins.push_back(Tally::lowest + (i + 0.5) / bins_per_decade);
  }
  return bins;
}

/// The histogram in the file's bins.
std::vector<std::uint64_t> coarse_histogram(const Tally& t) {
  const auto merged = static_cast<std::size_t>(t.per_decade / bins_per_decade);
  std::vector<std::uint64_t> bins(t.histogram.size() / merged);
  for (std::size_t i = 0; i < t.histogram.size(); ++i) bins[i / merged] += t.histogram[i];
  return bins;
}

std::optional<double> largest_of(const Tally& t) { return t.largest_case ? std::optional(t.largest) : std::nullopt; }

Table<Tally> width_table() {
  const std::string on = "statement width";
  Table<Tally> table;
  table.column({"width_cases", on, "1", "cases with a ratio, measured over bound, at this width"}, &Tally::ratios)
      .column({"width_ratio_median", on, "1", "median of these ratios"}, [](const Tally& t) { return t.quantile(0.5); })
      .column({"width_ratio_q99", on, "1", "quantile 0.99"}, [](const Tally& t) { return t.quantile(0.99); })
      .column_if_any({"width_ratio_largest", on, "1", "the largest"}, largest_of);
  return table;
}

Table<Counterexample> counterexample_table() {
  using C = Counterexample;
  const std::string on = "statement";
  Table<C> table;
  table
      .column({"counterexample_origin", on, "", "where it was found: SEED:ID of a random case, or an attack"},
              &C::origin)
      .column({"counterexample_measured", on, "1", "what the statement measures of it, made simpler"}, &C::measured)
      .column({"counterexample_bound", on, "1", "the statement's bound for it"}, &C::bound)
      .column({"counterexample_case", on, "", "the case: a JSON text, which --replay reads from a file"},
              [](const C& c) { return config::json_text(case_json(c.found)); });
  return table;
}

Table<StatementResult> statement_table() {
  using S = StatementResult;
  const std::string on = "statement";
  Table<S> table;
  table.column({"statement_text", on, "", "the statement in words"}, [](const S& s) { return s.statement->text; })
      .column({"cases", on, "1", "random cases to which the statement applies"}, &S::cases)
      .column({"trivial", on, "1", "cases in which the bound is infinite, or zero and met"}, &S::trivial)
      .column({"violations", on, "1", "cases that break the statement"}, &S::violations)
      .column({"statement_verdict", on, "", "what the cases say of it"}, &S::verdict)
      .column({"ratio_histogram", "statement log_ratio", "1", "cases per bin"}, coarse_histogram)
      .column_if_any({"ratio_largest", on, "1", "largest of measured over bound"}, largest_of)
      .part(counterexample_table(), &S::counterexample)
      .rows("width", width_table(), &S::by_width)
      .column({"width_ratio_limit", "statement width", "1", "largest ratio that T14-T16 leave possible"},
              [](const S& s) {
                std::vector<double> limits;
                for (std::size_t i = 1; i <= s.by_width.size(); ++i)
                  limits.push_back(s.statement->limit(static_cast<int>(i)));
                return limits;
              });
  return table;
}

Table<MassiveCurve> massive_table() {
  using C = MassiveCurve;
  const std::string on = "massive_curve", at_factor = "massive_curve massive_factor";
  Table<C> table;
  table.column({"massive_placement", on, "", "normalization placement (T1)"}, &C::placement)
      .column({"massive_final_norm", on, "1", "1: a final norm before the loss"}, &C::final_norm)
      .column({"massive_gradient", at_factor, "nat", "Frobenius norm of dL/dW2: median over the stacks"}, &C::gradient)
      .column({"massive_gradient_low", at_factor, "nat", "quantile 0.16 over the stacks"}, &C::low)
      .column({"massive_gradient_high", at_factor, "nat", "quantile 0.84 over the stacks"}, &C::high)
      .column({"massive_bound", at_factor, "nat", "bound of T14: median over the stacks"}, &C::bound)
      .column({"massive_ceiling", on, "nat", "bound for every factor at once: median over the stacks"}, &C::ceiling);
  return table;
}

const Table<VerifyResult>& result_table() {
  static const Table<VerifyResult> all = [] {
    using R = VerifyResult;
    using A = BoundAttackResult;
    Table<A> attacks;
    attacks.column({"attack_reached", "attack", "1", "largest ratio reached"}, &A::reached)
        .column({"attack_limit", "attack", "1", "theory's limit (T14, T16)"}, &A::limit);
    Table<R> table;
    table.column({"verify_cases", "", "1", "random cases"}, [](const R& r) { return r.config.cases; })
        .column({"verify_scale", "", "1", "on every bound that should hold"}, [](const R& r) { return r.config.scale; })
        .column({"verify_verdict", "", "", "passed or failed"},
                [](const R& r) { return r.passed() ? "passed" : "failed"; })
        .rows("statement", statement_table(), &R::statements)
        .rows("attack", attacks, &R::attacks)
        .column({"massive_stacks", "", "1", "random stacks of the sweep"}, [](const R&) { return massive_stacks; })
        .column({"massive_width", "", "1", "their width"}, [](const R&) { return massive_width; })
        .column({"massive_hidden", "", "1", "their hidden width"}, [](const R&) { return massive_hidden; })
        .rows("massive_curve", massive_table(), &R::massive);
    return table;
  }();
  return all;
}

}  // namespace

const dataset::Schema& schema() {
  static const dataset::Schema schema("verify", 8,
                                      {{"statement", Type::text, "", "what is checked"},
                                       {"log_ratio", Type::real, "1", "log10(measured over bound): middle of the bin"},
                                       {"width", Type::integer, "1", "D"},
                                       {"attack", Type::text, "", "what was attacked"},
                                       {"massive_curve"},
                                       {"massive_factor", Type::real, "1", "factor on the hidden activation"}},
                                      result_table().specs());
  return schema;
}

dataset::Dataset dataset_of(const VerifyResult& r) {
  dataset::Builder builder(schema());
  builder.put("statement", mapped(statements(), &Statement::id));
  builder.put("attack", mapped(r.attacks, &Attack::name));
  builder.put("log_ratio", histogram_bins());
  builder.count("width", r.statements.front().by_width.size(), 1);
  builder.put("massive_factor", massive_factors());
  result_table().put(r, builder.row());
  return builder.finish();
}

}  // namespace periscope::verify
