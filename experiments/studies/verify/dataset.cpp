#include "experiments/engine/result/table.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/studies/verify/verify.h"
#include "sim/base/mapped.h"

namespace periscope::verify {
namespace {

using dataset::Table;
using dataset::Type;

/// Returns the histogram in the bins of result files.
std::vector<std::uint64_t> coarse_histogram(const Tally& t) {
  const auto merged = static_cast<std::size_t>(t.per_decade / Tally::coarse);
  std::vector<std::uint64_t> bins(t.histogram.size() / merged);
  for (std::size_t i = 0; i < t.histogram.size(); ++i) bins[i / merged] += t.histogram[i];
  return bins;
}

std::optional<double> largest_of(const Tally& t) { return t.largest_case ? std::optional(t.largest) : std::nullopt; }

Table<VerifyResult> result_table() {
  using R = VerifyResult;
  using S = StatementResult;
  using C = Counterexample;
  using A = BoundAttackResult;
  using M = MassiveCurve;
  const std::string on_statement = "statement", on_width = "statement width", on_curve = "massive_curve",
                    on_factor = "massive_curve massive_factor";
  Table<Tally> width;
  width
      .column(
          {"width_cases", on_width, "1", "number of cases of this width that have a ratio of measured value to bound"},
          &Tally::ratios)
      .column({"width_ratio_median", on_width, "1", "median ratio of measured to bound at this width"},
              [](const Tally& t) { return t.quantile(0.5); })
      .column({"width_ratio_q99", on_width, "1", "quantile 0.99 of the ratio at this width"},
              [](const Tally& t) { return t.quantile(0.99); })
      .column_if_any({"width_ratio_largest", on_width, "1", "largest ratio at this width"}, largest_of);
  Table<C> counterexample;
  counterexample
      .column({"counterexample_origin", on_statement, "", "source: SEED:ID of a random case, or name of an attack"},
              &C::origin)
      .column({"counterexample_measured", on_statement, "1", "measured value of the shrunk case"}, &C::measured)
      .column({"counterexample_bound", on_statement, "1", "bound of the shrunk case"}, &C::bound)
      .column({"counterexample_case", on_statement, "", "shrunk case as JSON text, which --replay reads from a file"},
              [](const C& c) { return config::json_text(case_json(c.found)); });
  Table<S> statement;
  statement
      .column({"statement_text", on_statement, "", "the statement in words"},
              [](const S& s) { return s.statement->text; })
      .column({"cases", on_statement, "1", "random cases to which the statement applies"}, &S::cases)
      .column({"trivial", on_statement, "1", "cases in which the bound is infinite, or zero and met"}, &S::trivial)
      .column({"violations", on_statement, "1", "cases that violate the statement"}, &S::violations)
      .column({"statement_verdict", on_statement, "", "verdict of the random cases"}, &S::verdict)
      .column({"ratio_histogram", "statement log_ratio", "1", "cases per bin"}, coarse_histogram)
      .column_if_any({"ratio_largest", on_statement, "1", "largest ratio of measured to bound"}, largest_of)
      .part(counterexample, &S::counterexample)
      .rows("width", width, &S::by_width)
      .column({"width_ratio_limit", on_width, "1", "largest ratio that T14-T16 allow"}, [](const S& s) {
        std::vector<double> limits;
        while (limits.size() < s.by_width.size())
          limits.push_back(s.statement->limit(static_cast<int>(limits.size()) + 1));
        return limits;
      });
  Table<A> attack;
  attack.column({"attack_reached", "attack", "1", "largest ratio reached"}, &A::reached)
      .column({"attack_limit", "attack", "1", "theory's limit (T14, T16)"}, &A::limit);
  Table<M> massive;
  massive.column({"massive_placement", on_curve, "", "normalization placement (T1)"}, &M::placement)
      .column({"massive_final_norm", on_curve, "1", "1: a final norm before the loss"}, &M::final_norm)
      .column({"massive_gradient", on_factor, "nat", "Frobenius norm of dL/dW2: median over the stacks"}, &M::gradient)
      .column({"massive_gradient_low", on_factor, "nat", "Frobenius norm of dL/dW2: quantile 0.16 over the stacks"},
              &M::low)
      .column({"massive_gradient_high", on_factor, "nat", "Frobenius norm of dL/dW2: quantile 0.84 over the stacks"},
              &M::high)
      .column({"massive_bound", on_factor, "nat", "bound of T14: median over the stacks"}, &M::bound)
      .column({"massive_ceiling", on_curve, "nat", "bound that holds for every factor: median over the stacks"},
              &M::ceiling);
  Table<R> result;
  result.column({"verify_cases", "", "1", "random cases"}, [](const R& r) { return r.config.cases; })
      .column({"verify_scale", "", "1", "factor applied to every bound that should hold"},
              [](const R& r) { return r.config.scale; })
      .column({"verify_verdict", "", "", "passed or failed"},
              [](const R& r) { return r.passed() ? "passed" : "failed"; })
      .rows("statement", statement, &R::statements)
      .rows("attack", attack, &R::attacks)
      .column({"massive_stacks", "", "1", "random stacks of the sweep"}, [](const R&) { return massive_stacks; })
      .column({"massive_width", "", "1", "width of the random stacks"}, [](const R&) { return massive_width; })
      .column({"massive_hidden", "", "1", "hidden width of the stacks"}, [](const R&) { return massive_hidden; })
      .rows("massive_curve", massive, &R::massive);
  return result;
}

}  // namespace

const dataset::Schema& schema() {
  static const dataset::Schema schema("verify", 8,
                                      {{"statement", Type::text, "", "id of the statement"},
                                       {"log_ratio", Type::real, "1", "log10(measured over bound): middle of the bin"},
                                       {"width", Type::integer, "1", "D"},
                                       {"attack", Type::text, "", "name of the attack"},
                                       {"massive_curve"},
                                       {"massive_factor", Type::real, "1", "scale of the hidden activation"}},
                                      result_table().specs());
  return schema;
}

dataset::Dataset dataset_of(const VerifyResult& r) {
  std::vector<double> bins;
  for (int i = 0; i < (Tally::highest - Tally::lowest) * Tally::coarse; ++i) {
    bins.push_back(Tally::lowest + (i + 0.5) / Tally::coarse);
  }
  dataset::Builder builder(schema());
  builder.put("statement", mapped(statements(), &Statement::id));
  builder.put("attack", mapped(r.attacks, &Attack::name));
  builder.put("log_ratio", bins);
  builder.count("width", r.statements.front().by_width.size(), 1);
  builder.put("massive_factor", massive_factors());
  result_table().put(r, builder.row());
  return builder.finish();
}

}  // namespace periscope::verify
