#include <cmath>

#include "experiments/studies/verify/report.h"

namespace periscope::verify {
namespace {

using Json = Columns::Json;

/// The histogram of the file: this many bins of the tally's make one.
constexpr std::size_t coarse = 20;

std::string_view kind_name(StatementKind kind) {
  return kind == StatementKind::bound ? "bound" : kind == StatementKind::identity ? "identity" : "refutable";
}

/// Case number; none is null.
Json id_of(std::uint64_t id) { return id == Tally::none ? Json() : Json(id); }

Json finite(double x) { return std::isfinite(x) ? Json(x) : Json(); }

std::vector<std::uint64_t> coarse_histogram(const RatioHistogram& histogram) {
  std::vector<std::uint64_t> bins(histogram.counts().size() / coarse);
  for (std::size_t i = 0; i < bins.size() * coarse; ++i) bins[i / coarse] += histogram.counts()[i];
  return bins;
}

void put_statements(const VerifyResult& r, Columns& columns) {
  std::vector<double> bins;
  const RatioHistogram& first = r.tallies.front().histogram;
  for (std::size_t i = 0; i + coarse <= first.counts().size(); i += coarse) {
    bins.push_back(0.5 * (first.centre(i) + first.centre(i + coarse - 1)));
  }
  columns.put("log_ratio", bins);
  columns.count("width", r.by_width.front().size(), 1);
  for (std::size_t k = 0; k < statements().size(); ++k) {
    const Statement& s = statements()[k];
    const Tally& t = r.tallies[k];
    const Columns::Row row = columns.at("statement", k);
    row.put("statement", s.id);
    row.put("statement_kind", kind_name(s.kind));
    row.put("statement_source", s.source);
    row.put("statement_text", s.text);
    row.put("cases", t.cases);
    row.put("trivial", t.trivial);
    row.put("unresolved", t.unresolved);
    row.put("violations", t.violations);
    row.put("first_violation", id_of(t.first_violation));
    row.put("ratio_median", t.quantile(0.5));
    row.put("ratio_q99", t.quantile(0.99));
    const bool met = t.largest_case != Tally::none;
    (met ? row : row.for_json()).put("ratio_largest", t.largest);
    row.put("largest_case", id_of(t.largest_case));
    row.put("statement_verdict", verdict_of(s, t));
    row.put("ratio_histogram", coarse_histogram(t.histogram));
    for (std::size_t w = 0; w < r.by_width[k].size(); ++w) {
      const Tally& of_width = r.by_width[k][w];
      const Columns::Row cell = row.at("width", w);
      cell.put("width_cases", of_width.histogram.total());
      cell.put("width_ratio_median", of_width.quantile(0.5));
      cell.put("width_ratio_q99", of_width.quantile(0.99));
      if (of_width.largest_case != Tally::none) cell.put("width_ratio_largest", of_width.largest);
      cell.put("width_ratio_limit", s.limit(static_cast<int>(w + 1)));
    }
  }
}

void put_attacks(const VerifyResult& r, Columns& columns) {
  for (std::size_t k = 0; k < r.attacks.size(); ++k) {
    const BoundAttackResult& a = r.attacks[k];
    const Columns::Row row = columns.at("attack", k);
    row.put("attack", a.name);
    row.put("attack_made_large", a.about);
    row.put("attack_reached", a.reached);
    row.put("attack_median", a.median);
    row.put("attack_limit", a.limit);
    row.put("attack_limit_formula", a.limit_formula);
    row.put("attack_share", a.share());
    row.put("attack_required", a.required);
    row.put("attack_case", case_json(a.best));
  }
  columns.put("aligned_rms", r.growth.rms);
  columns.put("aligned_bound", r.growth.bound);
}

void put_massive(const VerifyResult& r, Columns& columns) {
  columns.put("massive_stacks", r.massive.stacks);
  columns.put("massive_factor", r.massive.factor);
  columns.put("massive_width", r.massive.width);
  columns.put("massive_hidden", r.massive.hidden);
  for (std::size_t k = 0; k < r.massive.curves.size(); ++k) {
    const MassiveCurve& c = r.massive.curves[k];
    const Columns::Row row = columns.at("massive_curve", k);
    row.put("massive_placement", c.placement);
    row.put("massive_final_norm", c.final_norm);
    row.put("massive_gradient", c.gradient);
    row.put("massive_gradient_low", c.low);
    row.put("massive_gradient_high", c.high);
    row.put("massive_bound", c.bound);
    row.put("massive_ceiling", finite(c.ceiling));
    row.put("massive_largest_ratio", c.largest_ratio);
    row.put("massive_exponent", {c.lowest_exponent, c.highest_exponent});
  }
}

void put_refutations(const VerifyResult& r, Columns& columns) {
  for (std::size_t k = 0; k < r.refutations.size(); ++k) {
    const Refutation& f = r.refutations[k];
    const Columns::Row row = columns.at("refutation", k);
    row.put("refutation", f.id);
    row.put("refuted_claim", f.claim);
    row.put("refuted", f.refuted);
    row.put("refuting_evidence", f.evidence);
    if (f.counterexample) row.put("counterexample", counterexample_json(*f.counterexample));
  }
  columns.put("counterexamples", counterexamples_json(r.violations));
}

}  // namespace

const Schema& schema() {
  static const Schema schema = [] {
    const std::string s = "statements/[statement]/";
    const std::string a = "attacks/[attack]/";
    const std::string m = "massive/curves/[massive_curve]/";
    const std::string f = "refutations/[refutation]/";
    const std::string figure = "many numbers, for a figure";
    const std::string replay = "a case as --replay reads it is no column";
    return Schema(
        "verify", 1,
        {{"statement", "", "what is checked", s + "id"},
         {"log_ratio", "1", "log10(measured over bound): middle of the bin"},
         {"width", "1", "D"},
         {"attack", "", "what was attacked", a + "name"},
         {"aligned_depth"},
         {"massive_curve"},
         {"massive_factor", "1", "factor on the hidden activation", "massive/factor"},
         {"exponent_end"},
         {"refutation", "", "claim that is false", f + "id"}},
        {{"verify_cases", "", "1", "random cases", "cases"},
         {"verify_seed", "", "1", "of the random cases", "seed"},
         {"verify_scale", "", "1", "on every bound that should hold", "scale"},
         {"verify_verdict", "", "", "passed or failed", "verdict"},
         {"statement_kind", "statement", "", "bound, identity, or a claim to be refuted", s + "kind"},
         {"statement_source", "statement", "", "who states it", s + "source"},
         {"statement_text", "statement", "", "the statement in words", s + "text"},
         {"cases", "statement", "1", "random cases to which the statement applies", s + "cases"},
         {"trivial", "statement", "1", "cases in which the bound is infinite, or zero and met", s + "trivial"},
         {"unresolved", "statement", "1", "cases whose rounding is too large for a ratio", s + "unresolved"},
         {"violations", "statement", "1", "cases that break the statement", s + "violations"},
         {"first_violation", "statement", "1", "the first of them", s + "first_violation"},
         {"ratio_median", "statement", "1", "measured over bound: median", s + "median"},
         {"ratio_q99", "statement", "1", "measured over bound: quantile 0.99", s + "q99"},
         {"ratio_largest", "statement", "1", "measured over bound: largest", s + "largest"},
         {"largest_case", "statement", "1", "the case of the largest", s + "largest_case"},
         {"statement_verdict", "statement", "", "what the cases say of it", s + "verdict"},
         {"ratio_histogram", "statement log_ratio", "1", "cases per bin", "", figure},
         {"width_cases", "statement width", "1", "cases with a ratio", "", figure},
         {"width_ratio_median", "statement width", "1", "measured over bound: median at this width", "", figure},
         {"width_ratio_q99", "statement width", "1", "measured over bound: quantile 0.99 at this width", "", figure},
         {"width_ratio_largest", "statement width", "1", "measured over bound: largest at this width", "", figure},
         {"width_ratio_limit", "statement width", "1", "largest ratio that T14-T16 leave possible", "", figure},
         {"attack_made_large", "attack", "", "what it makes large", a + "made_large"},
         {"attack_reached", "attack", "1", "largest value reached", a + "reached"},
         {"attack_median", "attack", "1", "median over the starts", a + "median"},
         {"attack_limit", "attack", "1", "theory's limit (T14, T16)", a + "limit"},
         {"attack_limit_formula", "attack", "", "the limit in symbols", a + "limit_formula"},
         {"attack_share", "attack", "1", "reached over limit", a + "share"},
         {"attack_required", "attack", "1", "what that must be", a + "required"},
         json_only("attack_case", a + "case", "the case that reached it", replay),
         {"aligned_rms", "aligned_depth", "1", "rms of the aligned Peri stack (T16)", "aligned_growth/rms"},
         {"aligned_bound", "aligned_depth", "1", "its bound", "aligned_growth/bound"},
         {"massive_stacks", "", "1", "random stacks of the sweep", "massive/stacks"},
         {"massive_width", "", "1", "their width", "", "a constant of the program, for the caption of the figure"},
         {"massive_hidden", "", "1", "their hidden width", "", "a constant of the program, for the caption"},
         {"massive_placement", "massive_curve", "", "normalization placement (T1)", m + "placement"},
         {"massive_final_norm", "massive_curve", "1", "1: a final norm in front of the loss", m + "final_norm"},
         {"massive_gradient", "massive_curve massive_factor", "nat", "Frobenius norm of dL/dW2: median over the stacks",
          m + "gradient"},
         {"massive_gradient_low", "massive_curve massive_factor", "nat", "quantile 0.16 over the stacks", "", figure},
         {"massive_gradient_high", "massive_curve massive_factor", "nat", "quantile 0.84 over the stacks", "", figure},
         {"massive_bound", "massive_curve massive_factor", "nat", "bound of T14: median over the stacks", m + "bound"},
         {"massive_ceiling", "massive_curve", "nat", "bound for every factor at once: median over the stacks",
          m + "ceiling"},
         {"massive_largest_ratio", "massive_curve", "1", "largest gradient over bound", m + "largest_ratio"},
         {"massive_exponent", "massive_curve exponent_end", "1",
          "exponent of the factor in the gradient: smallest and largest", m + "exponent"},
         {"refuted_claim", "refutation", "", "the claim in words", f + "claim"},
         {"refuted", "refutation", "1", "1: this run shows that it is false", f + "refuted"},
         {"refuting_evidence", "refutation", "", "by what", f + "evidence"},
         json_only("counterexample", f + "counterexample", "a case that refutes it", replay),
         json_only("counterexamples", "violations", "cases that break what should hold", replay)});
  }();
  return schema;
}

Columns columns(const VerifyResult& r, const nlohmann::ordered_json& provenance) {
  Columns columns(schema(), provenance);
  columns.put("verify_cases", r.config.cases);
  columns.put("verify_seed", r.config.seed);
  columns.put("verify_scale", r.config.scale);
  columns.put("verify_verdict", r.passed() ? "passed" : "failed");
  put_statements(r, columns);
  put_attacks(r, columns);
  put_massive(r, columns);
  put_refutations(r, columns);
  return columns;
}

}  // namespace periscope::verify
