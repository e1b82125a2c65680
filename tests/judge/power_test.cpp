#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "experiments/engine/judge/agreement.h"
#include "experiments/engine/judge/findings.h"
#include "experiments/engine/judge/verdict_power.h"
#include "tests/support/doctest.h"

/// T22: what a verdict could have refused, and what it says where that is not enough.
namespace periscope {
namespace {

using doctest::Approx;

constexpr std::size_t depths = 25;

/// Second moments of a stream: `seeds` rows of 1 + noise of standard deviation `spread`, and `off` on top everywhere.
struct Planted {
  Planted(double spread, double off, int seeds = 16, double grows = 0.0) {
    std::mt19937 engine(7);
    std::normal_distribution<double> normal;
    judge::SeedRows rows;
    for (int s = 0; s < seeds; ++s) {
      Profile one;
      Curve& curve = one.curves[{Statistic::second_moment, Signal::x_out}];
      for (std::size_t i = 0; i < depths; ++i) {
        curve.value.push_back(1.0 + off + grows * static_cast<double>(i) + spread * normal(engine));
      }
      rows.add(curve.value);
      per_seed.add(one);
    }
    measured.curves[{Statistic::second_moment, Signal::x_out}] = rows.curve();
    prediction.profile.curves[{Statistic::second_moment, Signal::x_out}] = {std::vector<double>(depths, 1.0),
                                                                            std::vector<double>(depths, 0.0)};
    prediction.finite_width.assign(depths, 0.0);
    prediction.replicates = 8;
    count = seeds;
  }
  [[nodiscard]] judge::Agreement judged(const config::AgreementOptions& options = {}, bool contrasts = false) const {
    const judge::Comparison comparison{.spec = spec,
                                       .measured = measured,
                                       .seeds = count,
                                       .diverged_seeds = 0,
                                       .dtype = DType::f64,
                                       .prediction = prediction,
                                       .per_seed = contrasts ? &per_seed : nullptr};
    return judge::agreements_of({comparison}, options).front();
  }

  StackSpec spec;
  Profile measured;
  judge::SeedCurves per_seed;
  theory::Prediction prediction;
  int count = 0;
};

judge::Cell plain(double error, int seeds, double allowance = 0.0) {
  return {.measured = 2.0,
          .measured_error = error,
          .predicted = 2.0,
          .allowance = allowance,
          .scale = 2.0,
          .seeds = seeds,
          .replicates = 8};
}

}  // namespace

TEST_CASE("the smallest rejected error: by hand, and in limits") {
  // t with 15 degrees of freedom: two-sided 1 % at 2.9467, one-sided 5 % at 1.7531.
  CHECK(plain(0.1, 16).smallest_rejected(0.01) == Approx((2.9467 + 1.7531) * 0.1 / 2.0).epsilon(1e-4));
  CHECK(plain(0.1, 16, 0.3).smallest_rejected(0.01) == Approx((0.6 + (2.9467 + 1.7531) * 0.1) / 2.0).epsilon(1e-4));
  CHECK(plain(0.0, 16).smallest_rejected(0.01) == 0.0);
  CHECK(std::isinf(plain(std::nan(""), 16).smallest_rejected(0.01)));
  judge::Cell nothing = plain(0.1, 16);
  nothing.scale = 0.0;
  CHECK(std::isinf(nothing.smallest_rejected(0.01)));
}

TEST_CASE("what T22 calls rejected with 95 % probability is rejected about that often") {
  std::mt19937 engine(3);
  std::normal_distribution<double> normal;
  constexpr int seeds = 16;
  constexpr double level = 1e-4;
  int rejected = 0;
  constexpr int trials = 4000;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<double> values;
    for (int s = 0; s < seeds; ++s) values.push_back(1.0 + 0.1 * normal(engine));
    const judge::Estimate mean = judge::mean_over_seeds(values);
    judge::Cell cell{
        .measured = mean.value, .measured_error = mean.error, .predicted = 1.0, .seeds = seeds, .replicates = 8};
    cell.predicted += cell.smallest_rejected(level);
    rejected += cell.p_value() < level ? 1 : 0;
  }
  // t_0.95 is the quantile of Student's t where the shifted statistic is noncentral: 93 to 96 %.
  CHECK(rejected > 0.92 * trials);
  CHECK(rejected < 0.97 * trials);
}

TEST_CASE("degrees of freedom and p-values are numbers whatever the errors") {
  for (const double a : {0.0, 1e-300, 1.0, 1e300, std::numeric_limits<double>::infinity(), std::nan("")}) {
    for (const double b : {0.0, 1e-300, 1.0, 1e300, std::numeric_limits<double>::infinity(), std::nan("")}) {
      for (const int replicates : {0, 1, 8}) {
        CAPTURE(a);
        CAPTURE(b);
        const judge::Cell cell{.measured = 2.0,
                               .measured_error = a,
                               .predicted = 1.0,
                               .predicted_error = b,
                               .seeds = 4,
                               .replicates = replicates};
        CHECK(cell.degrees() >= 1.0);
        CHECK(cell.p_value() >= 0.0);
        CHECK(cell.p_value() <= 1.0);
        CHECK(cell.smallest_rejected(1e-5) >= 0.0);
      }
    }
  }
}

TEST_CASE("a predicted spread is pooled with the measured one, and the larger error counts") {
  judge::Cell cell{.measured_error = 0.1,
                   .predicted_error = 0.025,
                   .seeds = 16,
                   .replicates = 256,
                   .spread = 0.4,
                   .spread_degrees = 255};
  CHECK(cell.degrees() == 270.0);
  // Measured variance 16 · 0.01 = 0.16, predicted 0.16: pooled 0.16, error √(0.16 (1/16 + 1/256)) = √(0.01 + 0.025²).
  CHECK(cell.error() == Approx(std::hypot(0.1, 0.025)));
  cell.measured_error = 0.01;  // seeds that happen to lie close together
  CHECK(cell.error() == Approx(std::sqrt((15 * 16 * 1e-4 + 255 * 0.16) / 270 * (1.0 / 16 + 1.0 / 256))));
  cell.measured_error = 0.3;  // or far apart
  CHECK(cell.error() == Approx(std::hypot(0.3, 0.025)));
}

TEST_CASE("a verdict that could not have refused enough is inconclusive; a rejection outranks it") {
  const judge::Agreement fine = Planted(0.03, 0.0).judged();
  CHECK(fine.verdict == judge::Verdict::agrees);
  CHECK(fine.power.worst > fine.power.median);
  CHECK(fine.power.statistics.at(0).limit == 0.2);
  const judge::Agreement noisy = Planted(0.5, 0.0).judged();
  CHECK(noisy.verdict == judge::Verdict::inconclusive);
  CHECK(noisy.reason.find("could be off by") != std::string::npos);
  const auto missed =
      std::ranges::count_if(noisy.cells, [&](const judge::Cell& c) { return c.smallest_rejected(noisy.level) > 0.2; });
  const auto all = noisy.cells.size();
  REQUIRE(missed > 1);
  CHECK(noisy.reason.find(fmt::format("limit 0.2; so could {} more of {} cells", missed - 1, all)) !=
        std::string::npos);
  CHECK(noisy.rejected == 0);
  config::AgreementOptions lenient;
  lenient.power_limits.second_moment = 2.0;
  CHECK(Planted(0.5, 0.0).judged(lenient).verdict == judge::Verdict::agrees);
  const judge::Agreement wrong = Planted(0.5, 3.0).judged();
  CHECK(wrong.verdict == judge::Verdict::disagrees);
  CHECK(wrong.by == wrong.worst_cell().name());
}

TEST_CASE("where gradients alone are too noisy, the words say that the signals agree") {
  const auto cell = [](Statistic statistic, double error) {
    return judge::Cell{.statistic = statistic, .measured = 1.0, .measured_error = error, .predicted = 1.0, .seeds = 16};
  };
  const auto words = [](const std::vector<judge::Cell>& cells) {
    return judge::shortcoming(cells, judge::power_of(cells, 0.01, {}));
  };
  const judge::Cell signal = cell(Statistic::second_moment, 0.001);
  const judge::Cell gradient = cell(Statistic::log_grad_sq, 0.5);
  CHECK(words({signal, gradient}).ends_with("limit 0.5; the signals agree"));
  CHECK(words({signal, gradient, gradient})
            .ends_with("so could 1 more of 3 cells, all of them gradients; the signals agree"));
  CHECK(words({cell(Statistic::second_moment, 0.5), gradient}).ends_with("so could 1 more of 2 cells"));
  CHECK(words({gradient, gradient}).ends_with("so could 1 more of 2 cells"));
}

TEST_CASE("an allowance of the whole number never agrees, whatever the limit") {
  Planted stack(1e-3, 0.0);
  stack.prediction.finite_width.assign(depths, 2.0);  // c = 0.5
  config::AgreementOptions lenient;
  lenient.power_limits.second_moment = 999.0;
  CHECK(stack.judged(lenient).verdict == judge::Verdict::inconclusive);
  stack.prediction.finite_width.assign(depths, 1.9);
  CHECK(stack.judged(lenient).verdict == judge::Verdict::agrees);
}

TEST_CASE("numbers that are not finite make a verdict inconclusive, and throw nothing") {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    Planted stack(0.05, 0.0);
    stack.measured.curves[{Statistic::second_moment, Signal::x_out}].value[3] = bad;
    stack.measured.curves[{Statistic::second_moment, Signal::x_out}].standard_error[3] = std::nan("");
    const judge::Agreement a = stack.judged({}, true);
    CHECK(a.verdict == judge::Verdict::inconclusive);
    CHECK(a.reason.find("second_moment x_out[3]") != std::string::npos);
  }
}

TEST_CASE("contrasts over depth refuse what is wrong everywhere a little, and no single cell sees") {
  const Planted everywhere(0.08, 0.01, 64);
  CHECK(everywhere.judged().verdict == judge::Verdict::agrees);
  CHECK(everywhere.judged({}, true).verdict == judge::Verdict::disagrees);
  CHECK(everywhere.judged({}, true).by == "second_moment x_out mean");
  const Planted growing(0.08, -0.018, 64, 0.0015);
  CHECK(growing.judged().verdict == judge::Verdict::agrees);
  CHECK(growing.judged({}, true).verdict == judge::Verdict::disagrees);
  CHECK(growing.judged({}, true).by == "second_moment x_out slope");
  CHECK(Planted(0.08, 0.0, 64).judged({}, true).verdict == judge::Verdict::agrees);
}

TEST_CASE("contrasts by hand: the mean, and the rise from the first depth to the last") {
  const judge::Agreement a = Planted(0.0, 0.01, 16, 0.002).judged({}, true);
  const auto named = [&](const std::string& name) {
    return *std::ranges::find_if(a.cells, [&](const judge::Cell& cell) { return cell.contrast == name; });
  };
  CHECK(named("mean").measured == Approx(0.01 + 0.002 * 12));
  CHECK(named("slope").measured == Approx(0.002 * 24));
  CHECK(named("mean").predicted == 0.0);
}

TEST_CASE("a contrast's spread over the replicates of T25's chain: within each sequence of ids, n - 1") {
  Planted stack(0.05, 0.0);
  stack.prediction.exact_at_width = true;
  stack.prediction.spread = stack.prediction.profile;
  stack.prediction.finite_width_replicates = 6;
  stack.prediction.finite_width_degrees = 4;
  stack.prediction.draws_per_sequence = 3;
  // Two sequences of three replicates, the same number at every depth: the mean over depth is that number.
  for (const double value : {0.9, 1.0, 1.1, 5.0, 5.3, 5.6}) {
    Profile& draw = stack.prediction.draws.emplace_back();
    draw.curves[{Statistic::second_moment, Signal::x_out}] = {std::vector<double>(depths, value), {}};
  }
  const judge::Agreement a = stack.judged({}, true);
  const auto mean = std::ranges::find_if(a.cells, [](const judge::Cell& cell) { return cell.contrast == "mean"; });
  REQUIRE(mean != a.cells.end());
  // Squares about their sequences' means: 2 · 0.1² and 2 · 0.3², over 4 degrees of freedom.
  CHECK(mean->spread == Approx(std::sqrt((0.02 + 0.18) / 4.0)));
  CHECK(mean->predicted_error == Approx(std::sqrt(0.05 / 6.0)));
  CHECK(mean->spread_degrees == 4);
}

TEST_CASE("the cell that decides a statistic's power is the one farthest above its own limit, not the largest") {
  std::vector<judge::Cell> cells{plain(0.2, 16), plain(0.25, 16)};
  cells[1].signal = Signal::f_out;  // a module's limit is 2.5 times the stream's
  CHECK(cells[1].smallest_rejected(0.01) > cells[0].smallest_rejected(0.01));
  for (const bool swapped : {false, true}) {
    if (swapped) std::swap(cells[0], cells[1]);
    const judge::StatisticPower of = judge::power_of(cells, 0.01, {}).statistics.at(0);
    CHECK(of.cell == (swapped ? 1 : 0));
    CHECK(of.limit == 0.2);
    CHECK(of.worst == cells[static_cast<std::size_t>(of.cell)].smallest_rejected(0.01));
  }
}

TEST_CASE("the familywise error is shared by the cells of all stacks of a run") {
  const Planted stack(0.05, 0.0);
  const judge::Comparison one{stack.spec, stack.measured, stack.count, 0, DType::f64, stack.prediction};
  const std::vector<judge::Agreement> both = judge::agreements_of({one, one}, {});
  REQUIRE(both.size() == 2);
  for (const judge::Agreement& a : both) CHECK(a.level == Approx(-std::expm1(std::log1p(-0.01) / (2.0 * depths))));
}

TEST_CASE("the verdict of several findings: a rejection, else what is inconclusive, else agreement") {
  const auto finding = [](judge::Verdict verdict, double power) {
    judge::Finding f{.measured = {1.0, 0.1}, .seeds = 16, .predicted = {1.0, 0.0}, .replicates = 8};
    f.power_limit = 1.0;
    f.verdict = verdict;
    f.power = power;
    f.critical = 3.0;
    return f;
  };
  const std::vector<judge::Finding> all{finding(judge::Verdict::agrees, 0.5),
                                        finding(judge::Verdict::inconclusive, 2.0),
                                        finding(judge::Verdict::inconclusive, 3.0)};
  CHECK(judge::deciding(all) == &all[2]);
  std::vector<judge::Finding> rejected = all;
  rejected.push_back(finding(judge::Verdict::disagrees, 0.1));
  CHECK(judge::deciding(rejected)->verdict == judge::Verdict::disagrees);
  CHECK(judge::deciding({}) == nullptr);
}

TEST_CASE("an infinite detectable error is printed as words") {
  CHECK(judge::error_words(0.1234) == "0.12");
  CHECK(judge::error_words(std::numeric_limits<double>::infinity()) == "any amount");
}

}  // namespace periscope
