#include <cmath>
#include <limits>
#include <numeric>

#include "experiments/studies/gradients/attenuation.h"
#include "experiments/studies/gradients/crossover.h"
#include "experiments/studies/gradients/depth.h"
#include "experiments/studies/gradients/identity_path.h"
#include "experiments/studies/gradients/score_path.h"
#include "tests/columns/expected_columns.h"
#include "tests/support/doctest.h"

/// Planted results of the gradient experiments: every column from the raw numbers.
namespace periscope::testing::gradients_columns {
namespace {

using namespace gradients;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

config::Config two_stacks() {
  config::Config config;
  config.base.model = {.layers = 2, .width = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .mlp_width = 8};
  config.base.input.tokens = 3;
  config.inputs = {InputKind::gaussian};
  config.placements = {*find_placement("pre"), *find_placement("post")};
  return config;
}

Curve curve(Irregular& numbers, std::size_t length) { return {numbers.next(length), numbers.next(length)}; }

judge::SeedRows seed_rows(Irregular& numbers, std::size_t length) {
  judge::SeedRows rows;
  for (int seed = 0; seed < 3; ++seed) rows.add(numbers.next(length));
  return rows;
}

judge::Finding planted_finding(Irregular& numbers, judge::Verdict verdict, const std::string& reason) {
  judge::Finding f{.measured = {numbers.next(), numbers.next()},
                   .seeds = 7,
                   .predicted = {numbers.next(), numbers.next()},
                   .replicates = 5,
                   .allowance = numbers.next()};
  f.verdict = verdict;
  f.reason = reason;
  f.critical = numbers.next();
  f.power = numbers.next();
  return f;
}

/// Mean over three seeds and its standard error, √(Σ(x − mean)²/(n − 1)/n).
double mean_of(const judge::SeedRows& rows, std::size_t i) {
  return (rows.rows()[0][i] + rows.rows()[1][i] + rows.rows()[2][i]) / 3.0;
}
double error_of(const judge::SeedRows& rows, std::size_t i) {
  double squares = 0.0;
  for (const auto& row : rows.rows()) squares += (row[i] - mean_of(rows, i)) * (row[i] - mean_of(rows, i));
  return std::sqrt(squares / 2.0 / 3.0);
}

/// One experiment's columns, which are "variables/NAME" in JSON, and coordinates "coordinates/NAME".
class Variables {
 public:
  Variables(const dataset::Schema& schema, const study::Outcome& outcome) : expected(schema, outcome.data.value()) {}

  void coordinate(const std::string& name, const std::vector<double>& values) {
    expected.numbers(name, values, "coordinates/" + name);
  }

  void words(const std::string& name, const std::vector<std::string>& values) {
    expected.words(name, values, "variables/" + name);
  }
  void numbers(const std::string& name, const std::vector<double>& values) {
    expected.numbers(name, values, "variables/" + name);
  }
  /// A list of rows per case: their means, or standard errors, over seeds.
  void seeds(const std::string& mean, const std::string& error, const std::vector<const judge::SeedRows*>& cases) {
    std::vector<double> means;
    std::vector<double> errors;
    for (const judge::SeedRows* rows : cases) {
      for (std::size_t i = 0; i < rows->rows().front().size(); ++i) {
        means.push_back(mean_of(*rows, i));
        errors.push_back(error_of(*rows, i));
      }
    }
    numbers(mean, means);
    numbers(error, errors);
  }
  /// Predicted curves, with NaN behind them up to `length`.
  void predicted(const std::string& name, const std::vector<const Curve*>& cases, std::size_t length) {
    std::vector<double> values;
    std::vector<double> errors;
    for (const Curve* c : cases) {
      for (std::size_t i = 0; i < length; ++i) {
        values.push_back(i < c->value.size() ? c->value[i] : nan);
        errors.push_back(i < c->value.size() ? c->standard_error[i] : nan);
      }
    }
    numbers(name, values);
    numbers(name + "_stderr", errors);
  }
  void findings(const std::string& name, const std::vector<const judge::Finding*>& cases) {
    const auto check = [&](const char* suffix, const auto& get) {
      std::vector<double> values;
      for (const judge::Finding* f : cases) values.push_back(get(*f));
      numbers(name + suffix, values);
    };
    check("_measured", [](const judge::Finding& f) { return f.measured.value; });
    check("_stderr", [](const judge::Finding& f) { return f.measured.error; });
    check("_predicted", [](const judge::Finding& f) { return f.predicted.value; });
    check("_predicted_stderr", [](const judge::Finding& f) { return f.predicted.error; });
    check("_power", [](const judge::Finding& f) { return f.power; });
    verdicts(name + "_verdict", cases);
  }
  /// A null finding: none to judge.
  void verdicts(const std::string& name, const std::vector<const judge::Finding*>& cases) {
    std::vector<std::string> words_of;
    std::vector<std::string> reasons;
    for (const judge::Finding* f : cases) {
      words_of.emplace_back(f == nullptr ? "not-checked" : judge::name_of(f->verdict));
      reasons.push_back(f == nullptr ? "" : f->reason);
    }
    words(name, words_of);
    words(name + "_reason", reasons);
  }

  ExpectedColumns expected;
};

}  // namespace

TEST_CASE("gradients depth: every column from raw numbers") {
  const config::Config config = two_stacks();
  Irregular numbers;
  DepthResult result;
  result.layers = {2, 3, 5};
  result.theory_layers = {2, 3, 5, 10, 20};
  for (const StackSpec& spec : config.stacks()) {
    const bool first = result.laws.empty();
    result.laws.push_back({.spec = spec,
                           .refusal = first ? "" : "because",
                           .gradient = seed_rows(numbers, 3),
                           .predicted = curve(numbers, first ? 5 : 2),
                           .precise = {},
                           .exponent = planted_finding(numbers, judge::Verdict::inconclusive, "weak"),
                           .late_exponent = planted_finding(numbers, judge::Verdict::agrees, ""),
                           .limit = first ? numbers.next() : nan,
                           .claim = {}});
  }
  result.laws[0].claim =
      judge::Claim{.id = "G8", .claimed = numbers.next(), .verdict = judge::ClaimVerdict::holds_with_condition};
  const auto& laws = result.laws;
  Variables v(depth_schema(), depth_outcome(result));
  v.coordinate("layers", {2, 3, 5});
  v.coordinate("theory_layers", {2, 3, 5, 10, 20});
  v.words("placement", {"pre", "post"});
  v.words("refusal", {"", "because"});
  v.seeds("log_gradient_measured", "log_gradient_stderr", {&laws[0].gradient, &laws[1].gradient});
  v.predicted("log_gradient_predicted", {&laws[0].predicted, &laws[1].predicted}, 5);
  v.findings("exponent", {&laws[0].exponent, &laws[1].exponent});
  v.findings("late_exponent", {&laws[0].late_exponent, &laws[1].late_exponent});
  v.numbers("limit_exponent", {laws[0].limit, nan});
  v.numbers("claimed_exponent", {laws[0].claim->claimed, nan});
  v.words("claim_verdict", {"holds-with-condition", ""});
  v.expected.complete();
  for (judge::Finding DepthLaw::*which : {&DepthLaw::exponent, &DepthLaw::late_exponent}) {
    DepthResult wrong = result;
    CHECK(depth_outcome(wrong).code == ExitCode::ok);
    (wrong.laws[1].*which).verdict = judge::Verdict::disagrees;
    CHECK(depth_outcome(wrong).code == ExitCode::check_failed);
  }
}

TEST_CASE("gradients attenuation: every column from raw numbers") {
  const config::Config config = two_stacks();
  Irregular numbers;
  std::vector<Attenuation> cases;
  for (StackSpec spec : config.stacks()) {
    spec.init.qk_factor = numbers.next();
    const bool first = cases.empty();
    cases.push_back({.spec = spec,
                     .refusal = first ? "" : "because",
                     .stream = seed_rows(numbers, 3),
                     .down = seed_rows(numbers, 2),
                     .stream_predicted = curve(numbers, first ? 3 : 0),
                     .down_predicted = curve(numbers, first ? 2 : 0),
                     .stream_rate = planted_finding(numbers, judge::Verdict::agrees, ""),
                     .down_rate = planted_finding(numbers, judge::Verdict::inconclusive, "weak"),
                     .stream_claim = {.id = "G9", .claimed = numbers.next(), .verdict = judge::ClaimVerdict::holds},
                     .down_claim = {.id = "G9", .claimed = numbers.next(), .verdict = judge::ClaimVerdict::fails}});
  }
  Variables v(attenuation_schema(), attenuation_outcome(config, cases));
  v.coordinate("layers_passed", {0, 1, 2});
  v.coordinate("layer", {0, 1});
  v.words("placement", {"pre", "post"});
  v.numbers("qk_factor", {cases[0].spec.init.qk_factor, cases[1].spec.init.qk_factor});
  v.words("refusal", {"", "because"});
  v.seeds("log_stream_measured", "log_stream_stderr", {&cases[0].stream, &cases[1].stream});
  v.predicted("log_stream_predicted", {&cases[0].stream_predicted, &cases[1].stream_predicted}, 3);
  v.seeds("log_down_measured", "log_down_stderr", {&cases[0].down, &cases[1].down});
  v.predicted("log_down_predicted", {&cases[0].down_predicted, &cases[1].down_predicted}, 2);
  v.findings("stream_rate", {&cases[0].stream_rate, &cases[1].stream_rate});
  v.findings("down_rate", {&cases[0].down_rate, &cases[1].down_rate});
  v.words("claim", {"G9", "G9"});
  v.numbers("claimed_rate", {cases[0].stream_claim.claimed, nan});  // without theory there is no claim to test
  v.words("stream_claim_verdict", {"holds", ""});
  v.words("down_claim_verdict", {"fails", ""});
  v.expected.complete();
  for (judge::Finding Attenuation::*which : {&Attenuation::stream_rate, &Attenuation::down_rate}) {
    std::vector<Attenuation> wrong = cases;
    CHECK(attenuation_outcome(config, wrong).code == ExitCode::ok);
    (wrong[1].*which).verdict = judge::Verdict::disagrees;
    CHECK(attenuation_outcome(config, wrong).code == ExitCode::check_failed);
  }
}

TEST_CASE("gradients identity-path: every column from raw numbers") {
  const config::Config config = two_stacks();
  Irregular numbers;
  std::vector<IdentityPath> cases;
  for (const StackSpec& spec : config.stacks()) {
    const bool first = cases.empty();
    IdentityPath& path = cases.emplace_back();
    path.spec = spec;
    path.refusal = first ? "" : "because";
    for (judge::SeedRows* rows : {&path.share, &path.log_skip, &path.cosine}) *rows = seed_rows(numbers, 5);
    for (judge::SeedRows* rows : {&path.branch, &path.branch_cosine}) *rows = seed_rows(numbers, 4);
    path.share_predicted = curve(numbers, first ? 5 : 0);
    path.log_skip_predicted = curve(numbers, first ? 5 : 0);
    path.error = numbers.next();
    path.error_bound = path.error + numbers.next();
    path.claim = {
        .id = "G11", .claimed = 1.0, .verdict = first ? judge::ClaimVerdict::holds : judge::ClaimVerdict::fails};
  }
  for (int i = 0; i < 4; ++i) {
    cases[0].shares.push_back(planted_finding(numbers, judge::Verdict::inconclusive, "weak" + std::to_string(i)));
  }
  cases[0].worst = 2;
  Variables v(identity_path_schema(), identity_path_outcome(config, cases));
  v.coordinate("depth", {0, 1, 2, 3, 4});
  v.coordinate("sublayer", {0, 1, 2, 3});
  v.coordinate("sublayer_layer", {0, 0, 1, 1});
  v.expected.words("sublayer_kind", {"attention", "mlp", "attention", "mlp"}, "coordinates/sublayer_kind");
  v.coordinate("sublayer_branch", {0, 0, 0, 0});
  v.words("placement", {"pre", "post"});
  v.words("refusal", {"", "because"});
  const auto both = [&](const judge::SeedRows IdentityPath::*rows) {
    return std::vector<const judge::SeedRows*>{&(cases[0].*rows), &(cases[1].*rows)};
  };
  v.seeds("skip_share_measured", "skip_share_stderr", both(&IdentityPath::share));
  v.predicted("skip_share_predicted", {&cases[0].share_predicted, &cases[1].share_predicted}, 5);
  v.seeds("log_skip_measured", "log_skip_stderr", both(&IdentityPath::log_skip));
  v.predicted("log_skip_predicted", {&cases[0].log_skip_predicted, &cases[1].log_skip_predicted}, 5);
  v.seeds("skip_cosine", "skip_cosine_stderr", both(&IdentityPath::cosine));
  v.seeds("branch_term", "branch_term_stderr", both(&IdentityPath::branch));
  v.seeds("branch_cosine", "branch_cosine_stderr", both(&IdentityPath::branch_cosine));
  v.numbers("identity_error", {cases[0].error, cases[1].error});
  v.numbers("identity_bound", {cases[0].error_bound, cases[1].error_bound});
  v.verdicts("verdict", {&cases[0].shares[2], nullptr});
  v.words("claim_verdict", {"holds", "fails"});
  v.expected.complete();
  CHECK(identity_path_outcome(config, cases).code == ExitCode::ok);
  std::vector<IdentityPath> wrong = cases;
  wrong[0].shares[3].verdict = judge::Verdict::disagrees;
  CHECK(identity_path_outcome(config, wrong).code == ExitCode::check_failed);
  for (const double error : {cases[1].error_bound * 1.001, nan}) {
    wrong = cases;
    wrong[1].error = error;
    CHECK(identity_path_outcome(config, wrong).code == ExitCode::check_failed);
    wrong[1].has_gradient = false;
    CHECK(identity_path_outcome(config, wrong).code == ExitCode::ok);
  }
}

TEST_CASE("gradients score-path: every column from raw numbers") {
  const config::Config config = two_stacks();
  Irregular numbers;
  std::vector<ScorePath> cases;
  for (const StackSpec& spec : config.stacks()) {
    const bool first = cases.empty();
    ScorePath& path = cases.emplace_back();
    path.spec = spec;
    path.refusal = first ? "" : "because";
    path.share_measured = curve(numbers, 2);
    path.share_predicted = curve(numbers, first ? 2 : 0);
    path.log_measured = curve(numbers, 5);
    path.log_with = curve(numbers, first ? 5 : 0);
    path.log_without = curve(numbers, first ? 5 : 0);
  }
  // Those that tell the verdict: a rejection before the others, and of the inconclusive the least powerful.
  ScorePath& path = cases[0];
  for (const char* reason : {"a", "b"})
    path.shares.push_back(planted_finding(numbers, judge::Verdict::inconclusive, reason));
  for (const char* reason : {"c", "d", "e"})
    path.with.push_back(planted_finding(numbers, judge::Verdict::inconclusive, reason));
  for (const char* reason : {"f", "g", "h"}) {
    path.without.push_back(planted_finding(numbers, judge::Verdict::inconclusive, reason));
  }
  for (auto* findings : {&path.shares, &path.with, &path.without}) {
    for (judge::Finding& f : *findings) f.power_limit = 1.0;
  }
  path.shares[1].power = 9.0;
  path.with[0].power = 9.0;
  path.without[2].verdict = judge::Verdict::disagrees;
  Variables v(score_path_schema(), score_path_outcome(config, cases));
  v.coordinate("depth", {0, 1, 2, 3, 4});
  v.coordinate("layer", {0, 1});
  v.words("placement", {"pre", "post"});
  v.words("refusal", {"", "because"});
  const auto measured = [&](const std::string& name, const Curve ScorePath::*which) {
    std::vector<double> values;
    std::vector<double> errors;
    for (const ScorePath& c : cases) {
      values.insert(values.end(), (c.*which).value.begin(), (c.*which).value.end());
      errors.insert(errors.end(), (c.*which).standard_error.begin(), (c.*which).standard_error.end());
    }
    v.numbers(name + "_measured", values);
    v.numbers(name + "_stderr", errors);
  };
  measured("score_share", &ScorePath::share_measured);
  v.predicted("score_share_predicted", {&cases[0].share_predicted, &cases[1].share_predicted}, 2);
  measured("log_grad_sq", &ScorePath::log_measured);
  v.predicted("log_grad_sq_predicted", {&cases[0].log_with, &cases[1].log_with}, 5);
  v.predicted("log_grad_sq_without_scores_predicted", {&cases[0].log_without, &cases[1].log_without}, 5);
  v.verdicts("share_verdict", {&path.shares[1], nullptr});
  v.verdicts("verdict", {&path.with[0], nullptr});
  v.verdicts("without_scores_verdict", {&path.without[2], nullptr});
  v.expected.complete();
  // A theory without the score path is expected to be wrong.
  CHECK(score_path_outcome(config, cases).code == ExitCode::ok);
  for (std::vector<judge::Finding> ScorePath::*which : {&ScorePath::shares, &ScorePath::with}) {
    std::vector<ScorePath> wrong = cases;
    (wrong[0].*which)[1].verdict = judge::Verdict::disagrees;
    CHECK(score_path_outcome(config, wrong).code == ExitCode::check_failed);
  }
}

TEST_CASE("gradients crossover: every column from raw numbers") {
  const config::Config config = two_stacks();
  Irregular numbers;
  CrossoverResult result{.factors = {0.3, 0.7, 2.9},
                         .placements = {},
                         .order = {.id = "G6", .verdict = judge::ClaimVerdict::holds_with_condition},
                         .condition = "sometimes"};
  for (const char* name : {"post", "peri"}) {
    const bool first = result.placements.empty();
    Crossover& c = result.placements.emplace_back();
    c.spec = config.base;
    c.spec.model.placement = *find_placement(name);
    c.refusal = first ? "" : "because";
    for (judge::SeedRows* rows : {&c.log_ratio, &c.log_rms_a, &c.log_law}) *rows = seed_rows(numbers, 3);
    c.ratio_predicted = curve(numbers, first ? 3 : 0);
    c.rms_a_predicted = curve(numbers, first ? 3 : 0);
    c.crosses = first;
    c.crossing = planted_finding(numbers, judge::Verdict::inconclusive, first ? "weak" : "none");
  }
  Crossover& c = result.placements[0];
  for (const char* reason : {"a", "b", "c"})
    c.ratios.push_back(planted_finding(numbers, judge::Verdict::inconclusive, reason));
  for (judge::Finding& f : c.ratios) f.power_limit = 1.0;
  c.ratios[1].power = 9.0;
  const auto& all = result.placements;
  Variables v(crossover_schema(), crossover_outcome(result));
  v.coordinate("down_factor", {0.3, 0.7, 2.9});
  v.words("placement", {"post", "peri"});
  v.words("refusal", {"", "because"});
  v.seeds("log_ratio_measured", "log_ratio_stderr", {&all[0].log_ratio, &all[1].log_ratio});
  v.predicted("log_ratio_predicted", {&all[0].ratio_predicted, &all[1].ratio_predicted}, 3);
  v.seeds("log_rms_a_measured", "log_rms_a_stderr", {&all[0].log_rms_a, &all[1].log_rms_a});
  v.predicted("log_rms_a_predicted", {&all[0].rms_a_predicted, &all[1].rms_a_predicted}, 3);
  v.seeds("log_law_measured", "log_law_stderr", {&all[0].log_law, &all[1].log_law});
  v.findings("log_crossing", {&all[0].crossing, &all[1].crossing});
  v.verdicts("verdict", {&all[0].ratios[1], nullptr});
  v.expected.words("order_claim", {"holds-with-condition"}, "order_claim");
  v.expected.words("order_condition", {"sometimes"}, "order_condition");
  v.expected.complete();
}

}  // namespace periscope::testing::gradients_columns
