#include <array>
#include <cmath>

#include "experiments/engine/settings/json_text.h"
#include "experiments/studies/verify/dataset_statements.h"
#include "experiments/studies/verify/report.h"

namespace periscope::verify {
namespace {

using dataset::Builder;
using dataset::Table;
using dataset::Type;

/// A case that breaks a statement, and what the statement says of it.
struct BrokenRow {
  const Counterexample& found;
  StatementOutcome outcome;
};

struct RefutationRow {
  const Refutation& refutation;
  std::optional<BrokenRow> broken;
};

BrokenRow row_of(const Counterexample& found) { return {found, found.outcome()}; }

std::vector<BrokenRow> rows_of_violations(const VerifyResult& r) {
  std::vector<BrokenRow> all;
  for (const Counterexample& found : r.violations) all.push_back(row_of(found));
  return all;
}

std::vector<RefutationRow> rows_of_refutations(const VerifyResult& r) {
  std::vector<RefutationRow> all;
  for (const Refutation& f : r.refutations) {
    all.push_back({f, std::nullopt});
    if (f.counterexample) all.back().broken.emplace(row_of(*f.counterexample));
  }
  return all;
}

Table<BoundAttackResult> attack_table() {
  using A = BoundAttackResult;
  const std::string on = "attack";
  Table<A> table;
  table.column({"attack_made_large", on, "", "what it makes large"}, &A::about)
      .column({"attack_reached", on, "1", "largest value reached"}, &A::reached)
      .column({"attack_median", on, "1", "median over the starts"}, &A::median)
      .column({"attack_limit", on, "1", "theory's limit (T14, T16)"}, &A::limit)
      .column({"attack_limit_formula", on, "", "the limit in symbols"}, &A::limit_formula)
      .column({"attack_share", on, "1", "reached over limit"}, &A::share)
      .column({"attack_required", on, "1", "what that must be"}, &A::required)
      .column({"attack_case", on, "", "the case that reached it: a JSON text, which --replay reads from a file"},
              [](const A& a) { return config::json_text(case_json(a.best)); });
  return table;
}

Table<MassiveCurve> massive_table() {
  using C = MassiveCurve;
  const std::string on = "massive_curve";
  const std::string at_factor = "massive_curve massive_factor";
  Table<C> table;
  table.column({"massive_placement", on, "", "normalization placement (T1)"}, &C::placement)
      .column({"massive_final_norm", on, "1", "1: a final norm in front of the loss"}, &C::final_norm)
      .column({"massive_gradient", at_factor, "nat", "Frobenius norm of dL/dW2: median over the stacks"}, &C::gradient)
      .column({"massive_gradient_low", at_factor, "nat", "quantile 0.16 over the stacks"}, &C::low)
      .column({"massive_gradient_high", at_factor, "nat", "quantile 0.84 over the stacks"}, &C::high)
      .column({"massive_bound", at_factor, "nat", "bound of T14: median over the stacks"}, &C::bound)
      .column({"massive_ceiling", on, "nat", "bound for every factor at once: median over the stacks"},
              [](const C& c) { return std::isfinite(c.ceiling) ? std::optional(c.ceiling) : std::nullopt; })
      .column({"massive_largest_ratio", on, "1", "largest gradient over bound"}, &C::largest_ratio)
      .column({"massive_exponent", "massive_curve exponent_end", "1",
               "exponent of the factor in the gradient: smallest and largest"},
              [](const C& c) {
                return std::array{c.lowest_exponent, c.highest_exponent};
              });
  return table;
}

/// Columns `name`_statement, … on the dimension `on`.
Table<BrokenRow> broken_table(const std::string& name, const std::string& on) {
  using R = BrokenRow;
  Table<R> table;
  table
      .column({name + "_statement", on, "", "the statement that the case breaks"},
              [](const R& r) { return statements()[r.found.statement].id; })
      .column({name + "_origin", on, "", "where the case was found: SEED:ID of a random case, or an attack"},
              [](const R& r) { return r.found.origin; })
      .column({name + "_measured", on, "1", "what the statement measures of the simpler case, in its units"},
              [](const R& r) { return r.outcome.measured; })
      .column({name + "_bound", on, "1", "the statement's bound for it"}, [](const R& r) { return r.outcome.bound; })
      .column({name + "_ratio", on, "1", "measured over bound"}, [](const R& r) { return r.outcome.ratio(); })
      .column({name + "_case", on, "", "the case, made simpler: a JSON text, which --replay reads from a file"},
              [](const R& r) { return config::json_text(case_json(r.found.found)); });
  return table;
}

Table<RefutationRow> refutation_table() {
  using R = RefutationRow;
  const std::string on = "refutation";
  Table<R> table;
  table.column({"refuted_claim", on, "", "the claim in words"}, [](const R& r) { return r.refutation.claim; })
      .column({"refuted", on, "1", "1: this run shows that it is false"},
              [](const R& r) { return r.refutation.refuted; })
      .column({"refuting_evidence", on, "", "by what"}, [](const R& r) { return r.refutation.evidence; })
      .part(broken_table("counterexample", on), [](const R& r) { return r.broken ? &*r.broken : nullptr; });
  return table;
}

const Table<VerifyResult>& result_table() {
  static const Table<VerifyResult> all = [] {
    using R = VerifyResult;
    Table<R> table;
    table.column({"verify_cases", "", "1", "random cases"}, [](const R& r) { return r.config.cases; })
        .column({"verify_seed", "", "1", "of the random cases"}, [](const R& r) { return r.config.seed; })
        .column({"verify_scale", "", "1", "on every bound that should hold"}, [](const R& r) { return r.config.scale; })
        .column({"verify_verdict", "", "", "passed or failed"},
                [](const R& r) { return r.passed() ? "passed" : "failed"; })
        .part(statement_columns(), [](const R& r) { return &r; })
        .rows(
            "attack", attack_table(), [](const R& r) -> const auto& { return r.attacks; })
        .column({"aligned_rms", "aligned_depth", "1", "rms of the aligned Peri stack (T16)"},
                [](const R& r) { return r.growth.rms; })
        .column({"aligned_bound", "aligned_depth", "1", "its bound"}, [](const R& r) { return r.growth.bound; })
        .column({"massive_stacks", "", "1", "random stacks of the sweep"}, [](const R& r) { return r.massive.stacks; })
        .column({"massive_width", "", "1", "their width"}, [](const R& r) { return r.massive.width; })
        .column({"massive_hidden", "", "1", "their hidden width"}, [](const R& r) { return r.massive.hidden; })
        .rows(
            "massive_curve", massive_table(), [](const R& r) -> const auto& { return r.massive.curves; })
        .rows("refutation", refutation_table(), rows_of_refutations)
        .rows("violation", broken_table("violation", "violation"), rows_of_violations);
    return table;
  }();
  return all;
}

}  // namespace

const dataset::Schema& schema() {
  static const dataset::Schema schema(
      "verify", 4,
      {{"statement", Type::text, "", "what is checked"},
       {"log_ratio", Type::real, "1", "log10(measured over bound): middle of the bin"},
       {"width", Type::integer, "1", "D"},
       {"attack", Type::text, "", "what was attacked"},
       {"aligned_depth", Type::integer, "1", "sublayers passed; 0 is the stack's input"},
       {"massive_curve"},
       {"massive_factor", Type::real, "1", "factor on the hidden activation"},
       {"exponent_end"},
       {"refutation", Type::text, "", "claim that is false"},
       {"violation"}},
      result_table().specs());
  return schema;
}

dataset::Dataset dataset_of(const VerifyResult& result) {
  Builder builder(schema());
  for (std::size_t k = 0; k < statements().size(); ++k) builder.at("statement", k).put("statement", statements()[k].id);
  for (std::size_t k = 0; k < result.attacks.size(); ++k) {
    builder.at("attack", k).put("attack", result.attacks[k].name);
  }
  for (std::size_t k = 0; k < result.refutations.size(); ++k) {
    builder.at("refutation", k).put("refutation", result.refutations[k].id);
  }
  builder.put("log_ratio", histogram_bins(result.tallies.front().histogram));
  builder.count("aligned_depth", result.growth.rms.size());
  builder.count("width", result.by_width.front().size(), 1);
  builder.put("massive_factor", result.massive.factor);
  result_table().put(result, builder.row());
  return builder.finish();
}

}  // namespace periscope::verify
