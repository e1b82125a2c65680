#include "experiments/studies/widths/ladder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/columns/by_hand.h"
#include "tests/columns/expected_columns.h"
#include "tests/support/doctest.h"

/// A planted result of the ladder: every column from the raw numbers, and the arithmetic of its verdicts.
namespace periscope::testing::ladder_columns {
namespace {

using stacks::LadderQuantity;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

struct Planted {
  stacks::LadderConfig config;
  stacks::LadderResult result;
  ladder::ConvergenceResult convergence;
};

LadderQuantity planted_quantity(Irregular& numbers, Statistic statistic, Signal signal, int index) {
  LadderQuantity q{.statistic = statistic, .signal = signal, .index = index};
  for (int i = 0; i < 4; ++i) q.measured.push_back({numbers.next(), 0.1 * numbers.next()});
  q.predicted = {numbers.next(), numbers.next()};
  q.replicates = 6;
  q.fit = {.limit = {numbers.next(), numbers.next()},
           .slope = {numbers.next(), numbers.next()},
           .curvature = {numbers.next(), numbers.next()},
           .degrees = 13.0,
           .lack_of_fit = numbers.next()};
  for (auto& row : q.fit.covariance) {
    for (double& v : row) v = numbers.next();
  }
  q.allowance = numbers.next();
  q.scale = numbers.next();
  q.excess = numbers.next();
  q.critical = numbers.next();
  q.power = numbers.next();
  return q;
}

/// Three fits: whole; without a verdict on its bias; without any.
ladder::ConvergenceResult planted_convergence(const std::vector<StackSpec>& specs) {
  ladder::ConvergenceResult convergence;
  Irregular numbers;
  for (std::size_t k = 0; k < 3; ++k) {
    ladder::Convergence& c = convergence.fits.emplace_back();
    c.spec = specs[k / 2];
    if (k == 2) c.spec.input.kind = InputKind::tokens;
    c.statistic = k == 1 ? Statistic::token_cosine : Statistic::second_moment;
    c.width = {8.0, 16.0, 24.0, 40.0};
    c.bias = numbers.next(4);
    c.bias_error = numbers.next(4);
    c.seeds = k == 2 ? std::vector<double>{1.0} : std::vector<double>{1.0, 2.0, 4.0};
    c.noise = numbers.next(c.seeds.size());
    c.noise_error = numbers.next(c.seeds.size());
    for (judge::PowerLaw* fit : {&c.bias_fit, &c.noise_fit}) {
      *fit = {numbers.next(), numbers.next(), numbers.next(), numbers.next(), numbers.next()};
    }
    c.bias_verdict = k == 0 ? judge::Verdict::disagrees : judge::Verdict::not_checked;
    c.noise_verdict = k == 0   ? judge::Verdict::agrees
                      : k == 1 ? judge::Verdict::inconclusive
                               : judge::Verdict::not_checked;
    if (k > 0) c.bias_reason = "because";
    if (k == 1) c.remedy = "more";
  }
  return convergence;
}

/// Two stacks of two quantities each, of which the last was not judged, and a third that was refused.
Planted planted() {
  Planted p;
  p.config.base.model = {.layers = 1, .width = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .mlp_width = 8};
  p.config.base.init.scheme = InitScheme::lecun;
  p.config.base.input.tokens = 3;
  p.config.inputs = {InputKind::gaussian};
  p.config.placements = {*find_placement("pre"), *find_placement("post"), *find_placement("peri")};
  p.config.widths = {8, 16, 24, 40};
  p.result.widths = p.config.widths;
  Irregular numbers;
  for (const StackSpec& spec : p.config.stacks()) {
    p.result.stacks.push_back({.spec = spec, .refusal = {}, .quantities = {}});
  }
  auto& stacks = p.result.stacks;
  stacks[0].quantities = {planted_quantity(numbers, Statistic::second_moment, Signal::x_out, 2),
                          planted_quantity(numbers, Statistic::log_grad_sq, Signal::x_out, 0)};
  stacks[0].quantities[1].weight = Weight::up;
  stacks[0].quantities[1].mean_over = "layers";
  stacks[0].quantities[0].verdict = judge::Verdict::disagrees;
  stacks[0].quantities[1].verdict = judge::Verdict::inconclusive;
  stacks[0].quantities[1].reason = "weak";
  stacks[0].verdict = judge::Verdict::disagrees;
  stacks[1].spec.input.kind = InputKind::text;
  stacks[1].quantities = {planted_quantity(numbers, Statistic::token_cosine, Signal::f_out, 1),
                          planted_quantity(numbers, Statistic::score_share, Signal::A_out, 0)};
  stacks[1].quantities[0].verdict = judge::Verdict::agrees;
  stacks[1].quantities[1].reason = "not finite";
  stacks[1].verdict = judge::Verdict::agrees;
  stacks[2].refusal = "because";
  p.convergence = planted_convergence(p.config.stacks());
  return p;
}

/// The four quantities in the order of the files.
std::vector<LadderQuantity> all_of(const Planted& p) {
  std::vector<LadderQuantity> all;
  for (const auto& stack : p.result.stacks) all.insert(all.end(), stack.quantities.begin(), stack.quantities.end());
  return all;
}

void check_convergence(ExpectedColumns& expected, const std::vector<ladder::Convergence>& fits) {
  expected.words("convergence_placement", {"pre", "pre", "post"}, "convergence/*/placement");
  expected.words("convergence_input", {"gaussian", "gaussian", "tokens"}, "convergence/*/input");
  expected.words("convergence_statistic", {"second_moment", "token_cosine", "second_moment"},
                 "convergence/*/statistic");
  expected.numbers("group", {1, 2, 4}, "coordinates/group");
  const auto joined = [&](const std::vector<double> ladder::Convergence::*values, std::size_t length) {
    std::vector<double> all;
    for (const ladder::Convergence& c : fits) {
      std::vector<double> row = c.*values;
      row.resize(length, nan);
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  };
  expected.numbers("bias", joined(&ladder::Convergence::bias, 4), "convergence/*/bias");
  expected.numbers("bias_stderr", joined(&ladder::Convergence::bias_error, 4), "convergence/*/bias_stderr");
  expected.numbers("noise", joined(&ladder::Convergence::noise, 3), "convergence/*/noise");
  expected.numbers("noise_stderr", joined(&ladder::Convergence::noise_error, 3), "convergence/*/noise_stderr");
  expected.words("bias_reason", {"", "because", "because"}, "convergence/*/bias_reason");
  expected.words("convergence_remedy", {"", "more", ""}, "convergence/*/remedy");
  expected.words("bias_verdict", {"disagrees", "not-checked", "not-checked"}, "convergence/*/bias_fit/verdict");
  expected.words("noise_verdict", {"agrees", "inconclusive", "not-checked"}, "convergence/*/noise_fit/verdict");
  // Of fits that tell nothing there is no number.
  struct Part {
    const char *column, *json;
    double judge::PowerLaw::*value;
  };
  for (const Part& part : {Part{"exponent", "exponent", &judge::PowerLaw::exponent},
                           {"exponent_stderr", "exponent_error", &judge::PowerLaw::exponent_error},
                           {"amplitude", "amplitude", &judge::PowerLaw::amplitude},
                           {"chi_squared", "chi_squared", &judge::PowerLaw::chi_squared},
                           {"significance", "significance", &judge::PowerLaw::significance}}) {
    const std::string column(part.column);
    expected.numbers("bias_" + column, {fits[0].bias_fit.*part.value, nan, nan},
                     std::string("convergence/*/bias_fit/") + part.json);
    expected.numbers("noise_" + column, {fits[0].noise_fit.*part.value, fits[1].noise_fit.*part.value, nan},
                     std::string("convergence/*/noise_fit/") + part.json);
  }
}

}  // namespace

TEST_CASE("ladder: every column from raw numbers") {
  const Planted p = planted();
  const std::vector<LadderQuantity> all = all_of(p);
  ExpectedColumns expected(ladder::schema(), ladder::dataset_of(p.config, p.result, p.convergence));
  const std::string q = "quantities/*/";
  expected.words(
      "quantity",
      {"second_moment x_out[2]", "log_grad_sq up mean over layers", "token_cosine f_out[1]", "score_share A_out[0]"},
      q + "quantity");
  expected.words("quantity_placement", {"pre", "pre", "post", "post"}, q + "placement");
  expected.words("quantity_input", {"gaussian", "gaussian", "text", "text"}, q + "input");
  expected.words("quantity_units", {"1", "nat", "1", "1"}, q + "units");
  expected.words("stack_placement", {"pre", "post", "peri"}, "stacks/*/placement");
  expected.words("stack_input", {"gaussian", "text", "gaussian"}, "stacks/*/input");
  expected.words("stack_verdict", {"disagrees", "agrees", "not-checked"}, "stacks/*/verdict");
  expected.words("stack_refusal", {"", "", "because"}, "stacks/*/refused");
  expected.numbers("ladder_width", {8, 16, 24, 40}, "coordinates/ladder_width");
  expected.words("weights", std::vector<std::string>(4, "dense"), "weights");
  std::vector<double> measured;
  std::vector<double> errors;
  for (const LadderQuantity& one : all) {
    for (const judge::Estimate& m : one.measured) {
      measured.push_back(m.value);
      errors.push_back(m.error);
    }
  }
  expected.numbers("ladder_measured", measured, q + "measured");
  expected.numbers("ladder_stderr", errors, q + "stderr");
  // Of what was not judged there is nothing.
  const auto check = [&](const char* column, const char* key, const auto& get) {
    std::vector<double> values;
    for (const LadderQuantity& one : all) values.push_back(one.verdict == judge::Verdict::not_checked ? nan : get(one));
    expected.numbers(column, values, q + key);
  };
  check("limit", "limit", [](const LadderQuantity& x) { return x.fit.limit.value; });
  check("limit_stderr", "limit_stderr", [](const LadderQuantity& x) { return x.fit.limit.error; });
  check("slope", "slope", [](const LadderQuantity& x) { return x.fit.slope.value; });
  check("slope_stderr", "slope_stderr", [](const LadderQuantity& x) { return x.fit.slope.error; });
  check("curvature", "curvature", [](const LadderQuantity& x) { return x.fit.curvature.value; });
  check("curvature_stderr", "curvature_stderr", [](const LadderQuantity& x) { return x.fit.curvature.error; });
  check("lack_of_fit", "lack_of_fit", [](const LadderQuantity& x) { return x.fit.lack_of_fit; });
  check("limit_excess", "excess", [](const LadderQuantity& x) { return x.excess; });
  check("limit_critical", "critical", [](const LadderQuantity& x) { return x.critical; });
  check("limit_power", "power", [](const LadderQuantity& x) { return x.power; });
  check("scale", "scale", [](const LadderQuantity& x) { return x.scale; });
  std::vector<double> predicted;
  std::vector<double> predicted_errors;
  for (const LadderQuantity& one : all) {
    predicted.push_back(one.predicted.value);
    predicted_errors.push_back(one.predicted.error);
  }
  expected.numbers("limit_predicted", predicted, q + "predicted");
  expected.numbers("limit_predicted_stderr", predicted_errors, q + "predicted_stderr");
  expected.words("ladder_verdict", {"disagrees", "inconclusive", "agrees", "not-checked"}, q + "verdict");
  expected.words("ladder_reason", {"", "weak", "", "not finite"}, q + "reason");

  // The curve: 0, 32 even steps to 1/8, and 31 even in the logarithm from half of 1/40 up.
  std::vector<double> grid{0.0};
  for (int k = 1; k <= 32; ++k) grid.push_back(k / 256.0);
  for (int k = 1; k < 32; ++k) grid.push_back(std::pow(1.0 / 80.0, 1.0 - k / 32.0) * std::pow(1.0 / 8.0, k / 32.0));
  std::ranges::sort(grid);
  expected.numbers("inverse_width", grid, "coordinates/inverse_width");
  std::vector<double> fit;
  std::vector<double> fit_errors;
  for (const LadderQuantity& one : all) {
    for (const double x : grid) {
      const bool judged = one.verdict != judge::Verdict::not_checked;
      fit.push_back(judged ? one.fit.limit.value + one.fit.slope.value * x + one.fit.curvature.value * x * x : nan);
      double variance = 0.0;
      const double powers[] = {1.0, x, x * x};
      for (std::size_t i = 0; i < 3; ++i) {
        for (std::size_t j = 0; j < 3; ++j) variance += powers[i] * one.fit.covariance[i][j] * powers[j];
      }
      fit_errors.push_back(judged ? std::sqrt(variance) : nan);
    }
  }
  expected.numbers("fit", fit, q + "fit");
  expected.numbers("fit_stderr", fit_errors, q + "fit_stderr");
  check_convergence(expected, p.convergence.fits);
  expected.complete();
}

TEST_CASE("ladder: excess, limit and power of a quantity, by hand") {
  // m∞ + b/D + c/D² at four widths without a lack of fit, and a prediction with an error of its own.
  LadderQuantity q;
  for (const int width : {32, 64, 96, 128}) q.measured.push_back({2.0 + 3.0 / width, 0.01});
  q.predicted = {1.7, 0.015};
  q.replicates = 8;
  q.allowance = 0.07;
  q.scale = 1.7;
  stacks::LadderResult result{.stacks = {{.spec = {}, .refusal = {}, .quantities = {q, q}}},
                              .widths = {32, 64, 96, 128}};
  config::AgreementOptions options;
  options.power_limits.second_moment = 10.0;
  stacks::judge_ladder(result, 64, options);
  const LadderQuantity& judged = result.stacks[0].quantities[0];
  const judge::WidthFit fit = judge::fit_width(result.widths, q.measured, 64, 0.007);
  CHECK(judged.fit.limit.error == fit.limit.error);  // no error of a point counts for less than a tenth of rounding's
  const double error = std::sqrt(fit.limit.error * fit.limit.error + 0.015 * 0.015);
  const double degrees = degrees_by_hand(fit.limit.error, fit.degrees, 0.015, 7.0);
  const double level = 1.0 - std::sqrt(1.0 - 0.01);  // two tests
  CHECK_MESSAGE(judged.excess == doctest::Approx((std::abs(fit.limit.value - 1.7) - 0.07) / error), "excess");
  CHECK_MESSAGE(judged.critical == doctest::Approx(critical_by_hand(degrees, level)), "critical");
  CHECK_MESSAGE(judged.power == doctest::Approx(smallest_rejected_by_hand(0.07, error, degrees, 1.7, level)), "power");
}

TEST_CASE(
    "ladder: why a family is inconclusive is said of the quantity with the least power, whichever is nearest to "
    "rejection") {
  stacks::LadderResult result{.stacks = {}, .widths = {32, 64, 96, 128}};
  stacks::LadderStack& stack = result.stacks.emplace_back();
  Irregular numbers;
  stack.quantities = {planted_quantity(numbers, Statistic::second_moment, Signal::x_out, 1),
                      planted_quantity(numbers, Statistic::second_moment, Signal::x_out, 2),
                      planted_quantity(numbers, Statistic::second_moment, Signal::x_out, 3)};
  for (std::size_t i = 0; i < 3; ++i) {
    LadderQuantity& q = stack.quantities[i];
    q.critical = 4.0;
    q.excess = 3.0 - static_cast<double>(i);
    q.power = i == 1 ? 0.9 : 0.1 * static_cast<double>(i);
    q.verdict = i == 0 ? judge::Verdict::agrees : judge::Verdict::inconclusive;
    q.reason = i == 0 ? "" : i == 1 ? "too weak" : "weak";
  }
  const std::string text = ladder::table(result, {});
  CHECK_MESSAGE(text.find("x_out[1]") != std::string::npos, text);
  CHECK_MESSAGE(text.find("          second_moment x_out[2] too weak") != std::string::npos, text);
}

}  // namespace periscope::testing::ladder_columns
