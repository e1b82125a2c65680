#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <cstdio>
#include <limits>

#include "experiments/engine/run/ladder.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/studies/gradients/common.h"
#include "experiments/studies/power/power.h"
#include "experiments/studies/probe/probe.h"
#include "experiments/studies/verify/statements.h"
#include "experiments/studies/verify/verify.h"
#include "experiments/studies/widths/ladder.h"
#include "tests/support/doctest.h"
#include "tests/support/targets.h"

/// Verdicts and exit codes on planted results.
namespace periscope {
namespace {

using Values = std::vector<double>;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Two-sided critical value of Student's t.
double critical_by_hand(double degrees, double level) {
  return boost::math::quantile(boost::math::students_t(degrees), 1.0 - level / 2.0);
}

/// A bias proportional to D^exponent with relative error `error`, and noise 0.1·n^slope with relative error
/// `noise_error`, for width D and n seeds.
ladder::Convergence planted_fit(double exponent, double slope, double error = 0.02, double noise_error = 0.05) {
  ladder::Convergence c{.spec = {}, .bias = {}, .from_theory = 0.01, .noise = {}};
  c.spec.model.placement = *find_placement("pre");
  for (const double width : {32.0, 64.0, 128.0, 256.0}) {
    c.bias.over.push_back(width);
    c.bias.value.push_back(0.5 * std::pow(width / 32.0, exponent));
    c.bias.error.push_back(error * c.bias.value.back());
  }
  for (const double n : {1.0, 2.0, 4.0, 8.0}) {
    c.noise.over.push_back(n);
    c.noise.value.push_back(0.1 * std::pow(n, slope));
    c.noise.error.push_back(noise_error * c.noise.value.back());
  }
  return c;
}

ladder::Convergence judged_fit(const ladder::Convergence& c, bool disagrees) {
  std::vector<ladder::Convergence> fits{c};
  ladder::judge_exponents(fits, 64, 0.01);
  CHECK(any_disagrees(fits) == disagrees);
  return fits.front();
}

/// A quantity with the values `limit` + 3/D at four widths D, equal errors and the prediction `predicted`.
stacks::LadderQuantity planted_quantity(double limit, double error, double predicted) {
  stacks::LadderQuantity q{.test = {.predicted = {predicted, 0.0}, .tolerated_bias = 1e-6, .replicates = 8}};
  for (const int width : {32, 64, 96, 128}) q.measured.push_back({limit + 3.0 / width, error});
  return q;
}

stacks::LadderResult judged_ladder(std::vector<stacks::LadderQuantity> quantities,
                                   const std::string& unsupported = "") {
  stacks::LadderStack stack{.spec = {}, .unsupported = unsupported, .quantities = std::move(quantities)};
  stacks::LadderResult result{.stacks = {std::move(stack)}, .widths = {32, 64, 96, 128}};
  stacks::judge_ladder(result, 64, {});
  return result;
}

}  // namespace

TEST_CASE("convergence: exponents -1 and -1/2 agree, others are rejected beyond the critical value") {
  const ladder::Convergence right = judged_fit(planted_fit(-1.0, -0.5), false);
  CHECK(right.bias.test.verdict == judge::Verdict::agrees);
  CHECK(right.noise.test.verdict == judge::Verdict::agrees);
  CHECK(right.bias.fit.exponent == approx(-1.0).epsilon(1e-6));
  CHECK(right.noise.fit.exponent == approx(-0.5).epsilon(1e-6));
  const double critical = critical_by_hand(63.0, 1.0 - std::sqrt(0.99));  // 64 seeds; 1 % over two tests
  CHECK(right.bias.test.critical == approx(critical));
  const ladder::Convergence constant = judged_fit(planted_fit(0.0, -0.5), true);
  CHECK(constant.bias.test.verdict == judge::Verdict::disagrees);
  CHECK(constant.noise.test.verdict == judge::Verdict::agrees);
  const ladder::Convergence correlated = judged_fit(planted_fit(-1.0, 0.0), true);
  CHECK(correlated.bias.test.verdict == judge::Verdict::agrees);
  CHECK(correlated.noise.test.verdict == judge::Verdict::disagrees);
  // With relative errors r at four widths, each twice the previous one, the fitted exponent has error r/(√5 ln 2). The
  // exponent −0.8 differs from −1 by 0.2, just above or just below the critical value times that error.
  const double edge_error = 0.2 * std::sqrt(5.0) * std::log(2.0) / critical;
  for (const double factor : {0.98, 1.02}) {
    const ladder::Convergence c = judged_fit(planted_fit(-0.8, -0.5, edge_error * factor), factor < 1.0);
    CHECK(c.bias.test.verdict == (factor < 1.0 ? judge::Verdict::disagrees : judge::Verdict::agrees));
  }
}

TEST_CASE("convergence: an underpowered fit is inconclusive and names a remedy") {
  // With relative errors of 0.38 the bias is significant (√4/0.38 > 5). The error of the exponent is about 0.25, so its
  // detectable error (2.7 + 1.7) · 0.25, from two quantiles of t, exceeds the distance 1 between exponents −1 and 0.
  const ladder::Convergence weak = judged_fit(planted_fit(-1.0, -0.5, 0.38), false);
  CHECK(weak.bias.test.verdict == judge::Verdict::inconclusive);
  int seeds = 0;
  const std::string& reason = weak.bias.test.reason;
  REQUIRE(std::sscanf(reason.substr(reason.find("; use")).c_str(), "; use about %d seeds (ladder.seeds)", &seeds) == 1);
  CHECK(seeds > 64);
  const ladder::Convergence noisy = judged_fit(planted_fit(-1.0, -0.5, 0.02, 0.5), false);
  CHECK(noisy.noise.test.verdict == judge::Verdict::inconclusive);
  // More seeds do not reduce the error of the prediction.
  ladder::Convergence vague = planted_fit(-1.0, -0.5, 0.38);
  vague.from_theory = 0.9;
  CHECK(judged_fit(vague, false).bias.test.reason.find("times as precise (theory.tolerance)") != std::string::npos);
}

TEST_CASE("convergence: fits without information on the exponent are not checked") {
  const ladder::Convergence unseen = judged_fit(planted_fit(-1.0, -0.5, 1.0), false);
  CHECK(unseen.bias.test.verdict == judge::Verdict::not_checked);
  CHECK(unseen.bias.test.reason.find("2.0 standard errors") != std::string::npos);  // √4: four points of 1 each
  CHECK(unseen.noise.test.verdict == judge::Verdict::agrees);
  for (const bool of_bias : {false, true}) {
    ladder::Convergence c = planted_fit(0.0, 0.0);
    (of_bias ? c.bias : c.noise).value[2] = nan;
    const ladder::Convergence with_nan = judged_fit(c, false);
    CHECK(with_nan.bias.test.verdict == judge::Verdict::not_checked);
    CHECK(with_nan.noise.test.verdict == judge::Verdict::not_checked);
  }
  ladder::Convergence fixed = planted_fit(0.0, 0.0);
  for (double& noise : fixed.noise.value) noise = 1e-7;
  CHECK(judged_fit(fixed, false).bias.test.verdict == judge::Verdict::not_checked);
  ladder::Convergence rejected = planted_fit(0.0, 0.0);
  rejected.bias.test.reason = "because";
  CHECK(judged_fit(rejected, false).bias.test.reason == "because");
  std::vector<ladder::Convergence> nothing;
  ladder::judge_exponents(nothing, 64, 0.01);
  CHECK_FALSE(any_disagrees(nothing));
}

TEST_CASE("ladder: the limit extrapolated to infinite width decides the verdict") {
  const auto first = [](const stacks::LadderResult& r) { return r.stacks[0].quantities[0]; };
  const stacks::LadderResult right = judged_ladder({planted_quantity(1.0, 1e-3, 1.0)});
  CHECK(right.stacks[0].verdict == judge::Verdict::agrees);
  CHECK(right.tests == 1);
  CHECK_FALSE(stacks::any_disagrees(right));
  CHECK(first(right).fit.limit.value == approx(1.0).epsilon(1e-9));
  CHECK(first(right).fit.slope.value == approx(3.0).epsilon(1e-6));
  const stacks::LadderResult wrong = judged_ladder({planted_quantity(1.0, 1e-3, 1.5)});
  CHECK(first(wrong).test.verdict == judge::Verdict::disagrees);
  CHECK(wrong.stacks[0].verdict == judge::Verdict::disagrees);
  CHECK(stacks::any_disagrees(wrong));
  // The excess (|m∞ − theory| − tolerated bias)/error is just below or just above the critical value.
  const double error = first(right).fit.limit.error;
  const double critical = judge::critical_excess(first(right).test.degrees(), 0.01);
  for (const double factor : {0.999, 1.001}) {
    const stacks::LadderResult edge =
        judged_ladder({planted_quantity(1.0, 1e-3, 1.0 - 1e-6 - factor * critical * error)});
    CHECK(stacks::any_disagrees(edge) == (factor > 1.0));
  }
}

TEST_CASE("ladder: inconclusive and unchecked quantities do not reject the theory; the worst verdict counts") {
  const auto reason = [](const stacks::LadderResult& r) {
    CHECK_FALSE(stacks::any_disagrees(r));
    return r.stacks[0].quantities[0].test.reason;
  };
  const stacks::LadderResult weak = judged_ladder({planted_quantity(1.0, 1.0, 1.5)});
  CHECK(reason(weak).find("detectable error ") == 0);
  CHECK(weak.stacks[0].verdict == judge::Verdict::inconclusive);
  stacks::LadderQuantity bent = planted_quantity(1.0, 1e-6, 1.5);
  bent.measured[1].value += 0.5;
  CHECK(reason(judged_ladder({bent})).find("a parabola in 1/D does not fit the points") == 0);
  stacks::LadderQuantity with_nan = planted_quantity(1.0, 1e-3, 1.5);
  with_nan.measured[2].value = nan;
  stacks::LadderQuantity without_error = planted_quantity(1.0, 1e-3, 1.5);
  without_error.measured[0].error = nan;
  for (const stacks::LadderQuantity& q : {with_nan, without_error, planted_quantity(1.0, 1e-3, nan)}) {
    const stacks::LadderResult r = judged_ladder({q});
    CHECK_FALSE(reason(r).empty());
    CHECK(r.stacks[0].verdict == judge::Verdict::not_checked);
    CHECK(r.tests == 0);
  }
  CHECK(reason(judged_ladder({planted_quantity(1.0, 1e-3, 1.5)}, "because")) == "because");
  CHECK(judged_ladder({}).stacks[0].verdict == judge::Verdict::not_checked);
  // From worst to best: disagrees, inconclusive, agrees.
  const stacks::LadderQuantity good = planted_quantity(1.0, 1e-3, 1.0);
  CHECK(judged_ladder({good, planted_quantity(1.0, 1.0, 1.0)}).stacks[0].verdict == judge::Verdict::inconclusive);
  CHECK(judged_ladder({planted_quantity(1.0, 1e-3, 2.0), planted_quantity(1.0, 1.0, 1.0), good}).stacks[0].verdict ==
        judge::Verdict::disagrees);
}

TEST_CASE("gradients: one rejected test of any kind fails the study; the table prints NaN, not nan") {
  gradients::Case c;
  c.spec.model.placement = *find_placement("none");
  std::vector<judge::Test>& ratios = c.tests["log_ratio"];
  ratios = {{.measured = {1.05, 0.05}, .predicted = {1.0, 0.0}, .verdict = judge::Verdict::agrees},
            {.measured = {nan, nan}, .verdict = judge::Verdict::inconclusive, .reason = "weak"}};
  c.tests["log_law"] = {{.measured = {1.0, 0.0}}, {.measured = {2.0, 0.0}}};
  judge::Test& crossing = c.tests["log_crossing"].emplace_back();
  const auto outcome = [&] {
    gradients::GradientConfig config;
    config.down_factors = {0.1, 1.0};
    const gradients::Result result{.cases = {c}, .texts = {{"order_claim", "not-shown"}, {"order_condition", ""}}};
    return outcome_of(gradients::crossover_experiment(), config, result);
  };
  CHECK(outcome().code == ExitCode::ok);
  CHECK(outcome().table.find("NaN") != std::string::npos);
  CHECK(outcome().table.find("nan") == std::string::npos);
  crossing.verdict = judge::Verdict::disagrees;
  CHECK(outcome().code == ExitCode::check_failed);
  crossing.verdict = judge::Verdict::agrees;
  ratios[1].verdict = judge::Verdict::disagrees;
  CHECK(outcome().code == ExitCode::check_failed);
}

TEST_CASE("probe: a non-finite signal, gradient or loss counts as divergence") {
  using testing::truth;
  const auto seen = [](std::initializer_list<std::pair<Emission, Values>> signals) {
    probe::FiniteRecorder recorder(truth());
    for (const auto& [at, values] : signals) {
      recorder.on_signal(at, truth().from_host(1, static_cast<Tensor::Index>(values.size()), DType::f64, values));
    }
    probe::ProbeResult r{};
    r.at_init.model.layers = 2;
    r.not_finite = recorder.first();
    r.measured.loss = 1.0;
    return not_finite(r);
  };
  constexpr Emission x_out{1, Signal::x_out, Pass::forward};
  constexpr Emission output{4, Signal::output, Pass::forward};
  constexpr Emission gradient{3, Signal::up, Pass::backward};
  CHECK(seen({{x_out, {1.0, -2.0}}, {output, {1e150, 0.0}}}).empty());
  CHECK(seen({{x_out, {1.0, -2.0}}, {output, {1e200, 0.0}}}) == "output");  // finite, but its square overflows
  CHECK(seen({{x_out, {1.0, nan}}, {output, {nan, nan}}}) == "x_out of sublayer 1");
  CHECK(seen({{x_out, {1.0, 2.0}}, {output, {0.0, -INFINITY}}}) == "output");
  CHECK(seen({{x_out, {1.0, 2.0}}, {gradient, {nan, 0.0}}}) == "gradient of up of sublayer 3");
  CHECK(seen({{{1, Signal::x_out, Pass::recomputation}, {nan}}}).empty());
  probe::ProbeResult r{};
  r.measured.loss = nan;
  r.input.labels = {no_label, no_label};
  CHECK(not_finite(r).empty());  // no row has a label, so the loss is undefined
  r.input.labels = {3, no_label};
  CHECK(not_finite(r) == "loss");
}

TEST_CASE("one unexpected verdict fails propagate and power; too many rejections fail the false-alarm study") {
  std::vector<stacks::StackResult> stacks(3);
  for (const judge::Verdict v : {judge::Verdict::agrees, judge::Verdict::inconclusive, judge::Verdict::not_checked}) {
    stacks[1].judged.verdict = v;
    CHECK_FALSE(stacks::any_disagrees(stacks));
  }
  stacks[1].judged.verdict = judge::Verdict::disagrees;
  CHECK(stacks::any_disagrees(stacks));
  CHECK_FALSE(stacks::any_disagrees(std::vector<stacks::StackResult>{}));

  const auto row = [](bool is_true, std::initializer_list<judge::Verdict> verdicts) {
    power::PowerRow r{.is_true = is_true, .config = {}};
    for (const judge::Verdict v : verdicts) r.stacks.emplace_back().verdict = v;
    return r;
  };
  const auto is_expected = [](std::vector<power::PowerRow> rows) {
    power::PowerResult result;
    result.rows = std::move(rows);
    return result.all_expected();
  };
  const power::PowerRow right = row(true, {judge::Verdict::agrees, judge::Verdict::inconclusive});
  const power::PowerRow wrong_theory = row(false, {judge::Verdict::agrees, judge::Verdict::disagrees});
  CHECK(is_expected({right, wrong_theory}));
  CHECK_FALSE(is_expected({right, row(false, {judge::Verdict::agrees, judge::Verdict::inconclusive})}));
  CHECK_FALSE(is_expected({row(true, {judge::Verdict::disagrees, judge::Verdict::agrees}), wrong_theory}));
  const auto alarms = [](int rejected) {
    return power::too_many(
        {{"master_seeds", {{{"rejected", 0}, {"allowed", 3}}, {{"rejected", rejected}, {"allowed", 3}}}}});
  };
  CHECK_FALSE(alarms(3));
  CHECK(alarms(4));
}

TEST_CASE("verify passes only if every statement, attack and massive-activation curve passes") {
  using verify::VerifyResult;
  const auto clean = [] {
    VerifyResult r;
    for (const verify::Statement& s : verify::statements()) {
      r.statements.push_back({verify::Tally(), &s});
      if (!s.should_hold()) r.statements.back().counterexample.emplace();
    }
    verify::BoundAttackResult& attack = r.attacks.emplace_back();
    attack.limit = 2.0;
    attack.required = 0.9;
    attack.reached = 1.9;
    r.massive = {{.placement = "pre", .lowest_exponent = 1.0, .highest_exponent = 1.0}};
    for (const auto& [placement, final_norm] : {std::pair{"pre", true}, {"peri", false}, {"post", false}}) {
      r.massive.push_back({.placement = placement,
                           .final_norm = final_norm,
                           .ceiling = 1.0,
                           .largest_to_ceiling = 1.0,
                           .highest_exponent = 0.0});
    }
    return r;
  };
  CHECK(clean().passed());
  const auto with = [&](const auto& plant) {
    VerifyResult r = clean();
    plant(r);
    return r.passed();
  };
  for (std::size_t k = 0; k < verify::statements().size(); ++k) {
    CHECK_FALSE(with([&](VerifyResult& r) {
      auto& found = r.statements[k].counterexample;
      found ? found.reset() : static_cast<void>(found.emplace());
    }));
    const bool is_expected_to_fail = !verify::statements()[k].should_hold();
    CHECK(is_expected_to_fail == with([&](VerifyResult& r) { r.statements[k].violations = 1; }));
  }
  CHECK_FALSE(with([](VerifyResult& r) { r.attacks[0].reached = 2.1; }));
  CHECK(with([](VerifyResult& r) { r.attacks[0].reached = 2.0; }));
  CHECK_FALSE(with([](VerifyResult& r) { r.attacks[0].reached = 1.7; }));
  CHECK_FALSE(with([](VerifyResult& r) { r.attacks[0].reached = nan; }));
  CHECK_FALSE(with([](VerifyResult& r) { r.massive[0].lowest_exponent = 0.9; }));
  for (const std::size_t k : {1U, 2U, 3U}) {
    CHECK_FALSE(with([&](VerifyResult& r) { r.massive[k].highest_exponent = 1.0; }));
    CHECK_FALSE(with([&](VerifyResult& r) { r.massive[k].largest_to_ceiling = 1.1; }));
  }
  const auto with_ratio = [&](const char* id, std::size_t width, double ratio) {
    return with([&](VerifyResult& r) {
      auto& by_width =
          std::ranges::find(r.statements, &verify::statement(id), &verify::StatementResult::statement)->by_width;
      by_width.assign(width, verify::Tally(1));
      by_width.back().largest = ratio;
    });
  };
  CHECK(with_ratio("C.2-whole", 3, 0.35));  // below the bound √2/4 = 0.354
  CHECK_FALSE(with_ratio("C.2-whole", 3, 0.36));
  CHECK(with_ratio("G4-whole", 4, 1.41));  // below the bound D√2/4 = 1.414 for D = 4
  CHECK_FALSE(with_ratio("G4-whole", 4, 1.42));
}

}  // namespace periscope
