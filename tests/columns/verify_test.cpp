#include "experiments/studies/verify/verify.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "experiments/engine/result/json_image.h"
#include "experiments/studies/verify/report.h"
#include "tests/columns/expected_columns.h"
#include "tests/support/doctest.h"

/// A planted result of verify: every column from the raw numbers.
namespace periscope::testing::verify_columns {
namespace {

using namespace verify;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t widths = 3;

/// The ratios that a tally met: five for all cases, three for one width.
struct Met {
  std::vector<double> all;
  std::vector<std::vector<double>> by_width;
};

/// The quantile q of ratios of which only the bins are known, interpolated inside its bin; never above `largest`. Bins
/// are of equal width in log10 from −12 on, upper ends included.
double quantile_of(std::vector<double> ratios, double q, double largest, double per_decade) {
  if (ratios.empty()) return nan;
  for (double& ratio : ratios) ratio = std::ceil((std::log10(ratio) + 12.0) * per_decade) - 1.0;
  std::ranges::sort(ratios);
  const double wanted = q * static_cast<double>(ratios.size());
  const double bin = ratios[static_cast<std::size_t>(std::ceil(wanted)) - 1];
  const auto first = std::ranges::lower_bound(ratios, bin);
  const auto last = std::ranges::upper_bound(ratios, bin);
  const double share = (wanted - static_cast<double>(first - ratios.begin())) / static_cast<double>(last - first);
  return std::min(std::pow(10.0, -12.0 + (bin + share) / per_decade), largest);
}

void plant(Tally& t, const std::vector<double>& ratios, std::uint64_t first) {
  t.cases = first;
  t.trivial = first + 1;
  t.unresolved = first + 2;
  for (const double r : ratios) t.histogram.add(r);
  if (ratios.empty()) return;
  t.largest = *std::ranges::max_element(ratios);
  t.largest_case = first + 3;
}

/// A case to which the statement applies, as a counterexample; whether it breaks the statement does not matter here.
Counterexample planted_counterexample(std::size_t statement, std::uint64_t seed) {
  std::uint32_t id = 0;
  while (!statements()[statement].applies(generate_case(seed, id))) ++id;
  return {.statement = statement,
          .origin = std::to_string(seed) + ":" + std::to_string(id),
          .found = generate_case(seed, id)};
}

/// The six columns of counterexamples, in files and in JSON; a position without one has nothing.
void check_counterexamples(ExpectedColumns& expected, const std::vector<std::optional<Counterexample>>& all,
                           const std::string& name, const std::string& json) {
  std::vector<std::string> statement, origin, simple;
  std::vector<double> measured, bound, ratio;
  for (const auto& c : all) {
    const StatementOutcome o = c ? statements()[c->statement].check(c->found, evaluate(c->found)) : StatementOutcome();
    statement.emplace_back(c ? statements()[c->statement].id : "");
    origin.push_back(c ? c->origin : "");
    simple.push_back(c ? case_json(c->found).dump() : "");
    measured.push_back(c ? o.measured : nan);
    bound.push_back(c ? o.bound : nan);
    ratio.push_back(c ? o.measured / o.bound : nan);
  }
  expected.words(name + "_statement", statement, json + "statement");
  expected.words(name + "_origin", origin, json + "origin");
  expected.words(name + "_case", simple, json + "case");
  expected.numbers(name + "_measured", measured, json + "measured");
  expected.numbers(name + "_bound", bound, json + "bound");
  expected.numbers(name + "_ratio", ratio, json + "ratio");
}

}  // namespace

TEST_CASE("verify: every column from raw numbers") {
  Irregular numbers;
  VerifyResult r;
  r.config = {.seed = 17, .cases = 19, .scale = numbers.next(), .starts = 3};
  std::vector<Met> met;
  const std::size_t count = statements().size();
  for (std::size_t k = 0; k < count; ++k) {
    Met& m = met.emplace_back();
    for (int i = 0; i < 5; ++i) m.all.push_back(1e-3 * std::pow(numbers.next(), 5.0));
    if (k == 1) m.all.clear();
    plant(r.tallies.emplace_back(), m.all, 100 * (k + 1));
    auto& row = r.by_width.emplace_back();
    for (std::size_t w = 0; w < widths; ++w) {
      auto& ratios = m.by_width.emplace_back();
      for (int i = 0; i < 3 && w != 1; ++i) ratios.push_back(1e-3 * std::pow(numbers.next(), 5.0));
      row.emplace_back(30);
      plant(row.back(), ratios, 1000 * (k + 1) + 10 * w);
    }
  }
  r.tallies[2].violations = 7;
  r.tallies[2].first_violation = 71;
  r.tallies[1].cases = r.tallies[1].trivial;  // none that says anything
  for (int i = 0; i < 2; ++i) {
    const std::string n = std::to_string(i);
    r.attacks.push_back({.name = "attack " + n,
                         .about = "about " + n,
                         .limit_formula = "formula " + n,
                         .limit = numbers.next(),
                         .required = numbers.next(),
                         .reached = numbers.next(),
                         .median = numbers.next(),
                         .best = generate_case(3, static_cast<std::uint32_t>(i))});
    r.refutations.push_back({.id = "claim " + n,
                             .claim = "words " + n,
                             .refuted = i == 1,
                             .evidence = "evidence " + n,
                             .counterexample = {}});
    r.violations.push_back(planted_counterexample(static_cast<std::size_t>(4 + i), 100 + 10 * i));
  }
  r.refutations[1].counterexample = planted_counterexample(statement_index("G4"), 200);
  r.growth.rms = numbers.next(4);
  r.growth.bound = numbers.next(4);
  r.massive = {.stacks = 23, .width = 29, .hidden = 31, .factor = numbers.next(3), .curves = {}};
  for (int i = 0; i < 2; ++i) {
    MassiveCurve& c = r.massive.curves.emplace_back();
    c.placement = i == 0 ? "pre" : "peri";
    c.final_norm = i == 1;
    for (auto* values : {&c.gradient, &c.low, &c.high, &c.bound}) *values = numbers.next(3);
    c.ceiling = i == 0 ? std::numeric_limits<double>::infinity() : numbers.next();
    c.largest_ratio = numbers.next();
    c.largest_to_ceiling = numbers.next();
    c.lowest_exponent = numbers.next();
    c.highest_exponent = numbers.next();
  }

  ExpectedColumns expected(verify::schema(), verify::dataset_of(r));
  expected.numbers("verify_cases", {19}, "cases");
  expected.numbers("verify_seed", {17}, "seed");
  expected.numbers("verify_scale", {r.config.scale}, "scale");
  expected.words("verify_verdict", {"failed"}, "verdict");
  // Statements.
  const std::string s = "statements/*/";
  std::vector<std::string> id, kind, source, text, verdict;
  std::vector<double> median, q99, largest, largest_case, histogram;
  std::vector<double> width_cases, width_median, width_q99, width_largest, width_limit;
  std::vector<double> cases, trivial, unresolved, violations;
  for (std::size_t k = 0; k < count; ++k) {
    const Statement& statement = statements()[k];
    const bool refutable = statement.kind == StatementKind::refutable;
    id.emplace_back(statement.id);
    kind.emplace_back(refutable ? "refutable" : statement.kind == StatementKind::bound ? "bound" : "identity");
    source.emplace_back(statement.source);
    text.emplace_back(statement.text);
    verdict.emplace_back(k == 2   ? (refutable ? "refuted" : "violated")
                         : k == 1 ? "no case"
                                  : (refutable ? "not refuted" : "holds"));
    const double first = 100.0 * (static_cast<double>(k) + 1.0);
    cases.push_back(k == 1 ? first + 1 : first);
    trivial.push_back(first + 1);
    unresolved.push_back(first + 2);
    violations.push_back(k == 2 ? 7 : 0);
    const std::vector<double>& all = met[k].all;
    const double most = all.empty() ? nan : *std::ranges::max_element(all);
    median.push_back(quantile_of(all, 0.5, most, 600.0));
    q99.push_back(quantile_of(all, 0.99, most, 600.0));
    largest.push_back(most);
    largest_case.push_back(all.empty() ? nan : first + 3);
    std::vector<double> bins(480, 0.0);  // of a thirtieth of a decade
    for (const double x : all) ++bins[static_cast<std::size_t>(std::ceil((std::log10(x) + 12.0) * 30.0) - 1.0)];
    histogram.insert(histogram.end(), bins.begin(), bins.end());
    for (std::size_t w = 0; w < widths; ++w) {
      const std::vector<double>& of_width = met[k].by_width[w];
      const double top = of_width.empty() ? nan : *std::ranges::max_element(of_width);
      width_cases.push_back(static_cast<double>(of_width.size()));
      width_median.push_back(quantile_of(of_width, 0.5, top, 30.0));
      width_q99.push_back(quantile_of(of_width, 0.99, top, 30.0));
      width_largest.push_back(top);
      width_limit.push_back(statement.limit(static_cast<int>(w) + 1));
    }
  }
  expected.words("statement", id, s + "statement");
  expected.words("statement_kind", kind, s + "kind");
  expected.words("statement_source", source, s + "source");
  expected.words("statement_text", text, s + "text");
  expected.words("statement_verdict", verdict, s + "verdict");
  expected.numbers("cases", cases, s + "cases");
  expected.numbers("trivial", trivial, s + "trivial");
  expected.numbers("unresolved", unresolved, s + "unresolved");
  expected.numbers("violations", violations, s + "violations");
  std::vector<double> first_violation(count, nan);
  first_violation[2] = 71;
  expected.numbers("first_violation", first_violation, s + "first_violation");
  expected.numbers("ratio_median", median, s + "median");
  expected.numbers("ratio_q99", q99, s + "q99");
  expected.numbers("ratio_largest", largest, s + "largest");
  expected.numbers("largest_case", largest_case, s + "largest_case");
  std::vector<double> log_ratio(480);
  for (std::size_t i = 0; i < log_ratio.size(); ++i) log_ratio[i] = -12.0 + (static_cast<double>(i) + 0.5) / 30.0;
  expected.numbers("log_ratio", log_ratio, "coordinates/log_ratio");
  expected.numbers("ratio_histogram", histogram, s + "histogram");
  expected.numbers("width", {1, 2, 3}, "coordinates/width");
  const std::string at_width = s + "by_width/";
  expected.numbers("width_cases", width_cases, at_width + "cases");
  expected.numbers("width_ratio_median", width_median, at_width + "median");
  expected.numbers("width_ratio_q99", width_q99, at_width + "q99");
  expected.numbers("width_ratio_largest", width_largest, at_width + "largest");
  expected.numbers("width_ratio_limit", width_limit, at_width + "limit");
  // Attacks.
  const std::string a = "attacks/*/";
  const auto& attacks = r.attacks;
  expected.words("attack", {"attack 0", "attack 1"}, a + "attack");
  expected.words("attack_made_large", {"about 0", "about 1"}, a + "made_large");
  expected.words("attack_limit_formula", {"formula 0", "formula 1"}, a + "limit_formula");
  expected.numbers("attack_reached", {attacks[0].reached, attacks[1].reached}, a + "reached");
  expected.numbers("attack_median", {attacks[0].median, attacks[1].median}, a + "median");
  expected.numbers("attack_limit", {attacks[0].limit, attacks[1].limit}, a + "limit");
  expected.numbers("attack_share", {attacks[0].reached / attacks[0].limit, attacks[1].reached / attacks[1].limit},
                   a + "share");
  expected.numbers("attack_required", {attacks[0].required, attacks[1].required}, a + "required");
  expected.words("attack_case", {case_json(attacks[0].best).dump(), case_json(attacks[1].best).dump()}, a + "case");
  std::vector<double> passed(r.growth.rms.size());
  std::iota(passed.begin(), passed.end(), 0.0);
  expected.numbers("aligned_depth", passed);
  expected.numbers("aligned_rms", r.growth.rms, "aligned_growth/rms");
  expected.numbers("aligned_bound", r.growth.bound, "aligned_growth/bound");
  // The massive activations.
  expected.numbers("massive_stacks", {23}, "massive/stacks");
  expected.numbers("massive_width", {29}, "massive/width");
  expected.numbers("massive_hidden", {31}, "massive/hidden");
  expected.numbers("massive_factor", r.massive.factor, "coordinates/massive_factor");
  const std::string m = "massive/curves/*/";
  const auto& curves = r.massive.curves;
  const auto both = [&](const std::vector<double> MassiveCurve::*values) {
    std::vector<double> all = curves[0].*values;
    all.insert(all.end(), (curves[1].*values).begin(), (curves[1].*values).end());
    return all;
  };
  expected.words("massive_placement", {"pre", "peri"}, m + "placement");
  expected.numbers("massive_final_norm", {0, 1}, m + "final_norm");
  expected.numbers("massive_gradient", both(&MassiveCurve::gradient), m + "gradient");
  expected.numbers("massive_gradient_low", both(&MassiveCurve::low), m + "gradient_low");
  expected.numbers("massive_gradient_high", both(&MassiveCurve::high), m + "gradient_high");
  expected.numbers("massive_bound", both(&MassiveCurve::bound), m + "bound");
  expected.numbers("massive_ceiling", {nan, curves[1].ceiling}, m + "ceiling");
  expected.numbers("massive_largest_ratio", {curves[0].largest_ratio, curves[1].largest_ratio}, m + "largest_ratio");
  expected.numbers(
      "massive_exponent",
      {curves[0].lowest_exponent, curves[0].highest_exponent, curves[1].lowest_exponent, curves[1].highest_exponent},
      m + "exponent");
  // Refutations.
  const std::string f = "refutations/*/";
  expected.words("refutation", {"claim 0", "claim 1"}, f + "refutation");
  expected.words("refuted_claim", {"words 0", "words 1"}, f + "claim");
  expected.numbers("refuted", {0, 1}, f + "refuted");
  expected.words("refuting_evidence", {"evidence 0", "evidence 1"}, f + "evidence");
  check_counterexamples(expected, {std::nullopt, r.refutations[1].counterexample}, "counterexample",
                        f + "counterexample/");
  // Violations.
  check_counterexamples(expected, {r.violations[0], r.violations[1]}, "violation", "violations/*/");
  expected.complete();
}

TEST_CASE("verify: without a counterexample there are no columns of one") {
  VerifyResult r;
  for (std::size_t k = 0; k < statements().size(); ++k) {
    r.tallies.emplace_back();
    r.by_width.emplace_back(1, Tally(30));
  }
  r.refutations.push_back({.id = "claim", .claim = {}, .refuted = true, .evidence = {}, .counterexample = {}});
  const dataset::Dataset data = verify::dataset_of(r);
  for (const char* name : {"counterexample_statement", "violation_statement", "ratio_largest", "width_ratio_largest"}) {
    CHECK_MESSAGE(data.find(name) == nullptr, name);
  }
  CHECK_FALSE(dataset::json_image(verify::schema(), data).contains("violations"));
}

}  // namespace periscope::testing::verify_columns
