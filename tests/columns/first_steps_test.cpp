#include <functional>
#include <limits>

#include "experiments/studies/first_steps/report.h"
#include "tests/columns/by_hand.h"
#include "tests/columns/expected_columns.h"
#include "tests/support/doctest.h"

/// A planted result of first steps: every column from the raw numbers.
namespace periscope::testing::first_steps_columns {
namespace {

using first_steps::ComparedCell;
using first_steps::MeasuredStep;
using first_steps::Quantity;
using first_steps::StackSteps;
using Values = std::vector<double>;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t steps = 2;
constexpr std::size_t depths = 3;
constexpr std::size_t sublayers = 2;
constexpr std::size_t matrices = 7;

judge::SeedRows planted_rows(Irregular& numbers, std::size_t length) {
  judge::SeedRows rows;
  for (int seed = 0; seed < 3; ++seed) rows.add(numbers.next(length));
  return rows;
}

Curve planted_curve(Irregular& numbers, std::size_t length) { return {numbers.next(length), numbers.next(length)}; }

MeasuredStep measured_step(Irregular& numbers) {
  return {.second_moment = planted_rows(numbers, depths),
          .change = planted_rows(numbers, depths),
          .branch_cosine = planted_rows(numbers, sublayers),
          .branch_second_moment = planted_rows(numbers, sublayers),
          .loss = planted_rows(numbers, 1),
          .loss_change = planted_rows(numbers, 1),
          .update = {{Weight::q, planted_rows(numbers, 1)}, {Weight::down, planted_rows(numbers, 1)}}};
}

theory::StepReading predicted_step(Irregular& numbers) {
  return {.second_moment = planted_curve(numbers, depths),
          .coherent = planted_curve(numbers, depths),
          .branch_cosine = planted_curve(numbers, sublayers),
          .branch_second_moment = planted_curve(numbers, sublayers),
          .loss = planted_curve(numbers, 1),
          .update = {{Weight::q, planted_curve(numbers, 1)}, {Weight::down, planted_curve(numbers, 1)}},
          .kept_share = numbers.next(),
          .change = planted_curve(numbers, depths),
          .loss_change = planted_curve(numbers, 1)};
}

ComparedCell cell_of(Irregular& numbers, Quantity quantity, int step, int place) {
  judge::Finding finding{.measured = {4.0 + numbers.next(), numbers.next()},
                         .seeds = 9,
                         .predicted = {numbers.next(), numbers.next()},
                         .replicates = 5,
                         .allowance = 0.1 * numbers.next(),
                         .scale = numbers.next(),
                         .power_limit = numbers.next(),
                         .verdict = judge::Verdict::inconclusive,
                         .reason = "weak",
                         .critical = numbers.next(),
                         .power = numbers.next()};
  return {.quantity = quantity, .step = step, .place = place, .finding = std::move(finding)};
}

/// The first stack has all; the second no prediction.
std::vector<StackSteps> planted_stacks(const first_steps::FirstStepsConfig& config) {
  Irregular numbers;
  std::vector<StackSteps> stacks;
  for (const StackSpec& spec : config.stacks()) {
    StackSteps& stack = stacks.emplace_back();
    stack.spec = spec;
    stack.seeds = 3;
    for (std::size_t s = 0; s <= steps; ++s) stack.measured.push_back(measured_step(numbers));
  }
  StackSteps& whole = stacks[0];
  for (std::size_t s = 0; s <= steps; ++s) whole.prediction.steps.push_back(predicted_step(numbers));
  whole.prediction.holds_until = 1;
  whole.prediction.stopped_by = "a term";
  whole.verdict = {.verdict = judge::Verdict::inconclusive, .reason = "weak", .cells = {}, .worst = 2, .rejected = 1};
  whole.verdict.cells = {cell_of(numbers, Quantity::change, 1, 0), cell_of(numbers, Quantity::change, 1, 2),
                         cell_of(numbers, Quantity::branch_cosine, 1, 1), cell_of(numbers, Quantity::loss, 1, 0),
                         cell_of(numbers, Quantity::second_moment, 0, 1)};
  stacks[1].prediction.refusal = "because";
  stacks[1].verdict.reason = "because";
  return stacks;
}

/// A column on (placement, step) and `length` numbers more; `of` gives fewer where there are none.
Values along(const std::vector<StackSteps>& stacks, std::size_t length,
             const std::function<Values(const StackSteps&, std::size_t)>& of) {
  Values all;
  for (const StackSteps& stack : stacks) {
    for (std::size_t s = 0; s <= steps; ++s) {
      Values row = of(stack, s);
      row.resize(length, nan);
      all.insert(all.end(), row.begin(), row.end());
    }
  }
  return all;
}

Values over_seeds(const judge::SeedRows& rows, double (*number)(const Values&)) {
  Values all;
  for (std::size_t i = 0; i < rows.rows().front().size(); ++i) {
    Values of_seeds;
    for (const Values& row : rows.rows()) of_seeds.push_back(row[i]);
    all.push_back(number(of_seeds));
  }
  return all;
}

using Rows = judge::SeedRows MeasuredStep::*;
using Predicted = Curve theory::StepReading::*;

void check_measured(ExpectedColumns& expected, const std::vector<StackSteps>& stacks, const std::string& name,
                    std::size_t length, Rows rows) {
  const auto by = [&](double (*number)(const Values&)) {
    return along(stacks, length,
                 [&](const StackSteps& stack, std::size_t s) { return over_seeds(stack.measured[s].*rows, number); });
  };
  expected.numbers(name + "_measured", by(mean_of), "cells/*/" + name + "/measured");
  expected.numbers(name + "_stderr", by(error_of), "cells/*/" + name + "/stderr");
}

void check_predicted(ExpectedColumns& expected, const std::vector<StackSteps>& stacks, const std::string& name,
                     std::size_t length, Predicted curve) {
  const auto by = [&](std::vector<double> Curve::*numbers) {
    return along(stacks, length, [&](const StackSteps& stack, std::size_t s) {
      return stack.prediction.steps.empty() ? Values() : stack.prediction.steps[s].*curve.*numbers;
    });
  };
  expected.numbers(name + "_predicted", by(&Curve::value), "cells/*/" + name + "/predicted");
  expected.numbers(name + "_predicted_stderr", by(&Curve::standard_error), "cells/*/" + name + "/predicted_stderr");
}

void check_updates(ExpectedColumns& expected, const std::vector<StackSteps>& stacks) {
  const auto by = [&](const std::function<double(const StackSteps&, std::size_t, Weight)>& number) {
    return along(stacks, matrices, [&](const StackSteps& stack, std::size_t s) {
      Values row(matrices, nan);
      row[0] = number(stack, s, Weight::q);
      row[matrices - 1] = number(stack, s, Weight::down);
      return row;
    });
  };
  const auto measured = [&](double (*of)(const Values&)) {
    return by([of](const StackSteps& stack, std::size_t s, Weight w) {
      return over_seeds(stack.measured[s].update.at(w), of).front();
    });
  };
  const auto predicted = [&](std::vector<double> Curve::*of) {
    return by([of](const StackSteps& stack, std::size_t s, Weight w) {
      return stack.prediction.steps.empty() ? nan : (stack.prediction.steps[s].update.at(w).*of).front();
    });
  };
  // JSON has the matrices outermost.
  expected.numbers("update_measured", measured(mean_of));
  expected.numbers("update_stderr", measured(error_of));
  expected.numbers("update_predicted", predicted(&Curve::value));
  expected.numbers("update_predicted_stderr", predicted(&Curve::standard_error));
  std::vector<ExpectedColumns::Json> leaves;
  for (const StackSteps& stack : stacks) {
    for (std::size_t s = 0; s <= steps; ++s) {
      leaves.emplace_back(over_seeds(stack.measured[s].update.at(Weight::down), mean_of).front());
    }
  }
  expected.json("cells/*/update/down/measured", leaves);
}

/// Columns of the compared cells: numbers at their step and place, NaN elsewhere.
void check_compared(ExpectedColumns& expected, const std::vector<StackSteps>& stacks) {
  const auto check = [&](const std::string& name, Quantity quantity, std::size_t length) {
    const auto by = [&](const std::function<double(const judge::Finding&)>& number) {
      return along(stacks, length, [&](const StackSteps& stack, std::size_t s) {
        Values row(length, nan);
        for (const ComparedCell& cell : stack.verdict.cells) {
          if (cell.quantity != quantity || cell.step != static_cast<int>(s)) continue;
          row[static_cast<std::size_t>(cell.place)] = number(cell.finding);
        }
        return row;
      });
    };
    const std::string json = "cells/*/compared/" + name + "/";
    expected.numbers(name + "_power", by([](const judge::Finding& f) { return f.power; }), json + "power");
    expected.numbers(name + "_allowance", by([](const judge::Finding& f) { return f.allowance; }), json + "allowance");
    expected.numbers(name + "_excess", by([](const judge::Finding& f) {
                       const double beyond = f.measured.value - f.predicted.value - f.allowance;
                       return beyond / std::hypot(f.measured.error, f.predicted.error);
                     }),
                     json + "excess");
  };
  check("second_moment", Quantity::second_moment, depths);
  check("change", Quantity::change, depths);
  check("branch_cosine", Quantity::branch_cosine, sublayers);
  check("loss", Quantity::loss, 1);
}

void check_verdicts(ExpectedColumns& expected, const StackSteps& whole) {
  expected.words("verdict", {"inconclusive", "not-checked"}, "cells/*/verdict");
  expected.words("verdict_reason", {"weak", "because"}, "cells/*/reason");
  expected.words("refusal", {"", "because"}, "cells/*/refusal");
  expected.numbers("holds_until", {1, nan}, "cells/*/holds_until");
  expected.words("stopped_by", {"a term", ""}, "cells/*/stopped_by");
  expected.numbers("rejected", {1, 0}, "cells/*/rejected");
  const std::vector<ComparedCell>& cells = whole.verdict.cells;
  const judge::Finding& worst = cells[2].finding;
  expected.words("worst_cell", {"branch_cosine B_out[1] at step 1", ""}, "cells/*/worst/name");
  expected.numbers("worst_measured", {worst.measured.value, nan}, "cells/*/worst/measured");
  expected.numbers("worst_predicted", {worst.predicted.value, nan}, "cells/*/worst/predicted");
  const double beyond = worst.measured.value - worst.predicted.value - worst.allowance;
  expected.numbers("worst_excess", {beyond / std::hypot(worst.measured.error, worst.predicted.error), nan},
                   "cells/*/worst/excess");
  expected.numbers("worst_critical", {worst.critical, nan}, "cells/*/worst/critical");
  Values powers;
  for (const ComparedCell& cell : cells) powers.push_back(cell.finding.power);
  const double larger = std::max(powers[0], powers[1]);
  std::ranges::sort(powers);
  expected.numbers("power_worst", {powers.back(), nan}, "cells/*/power/worst");
  expected.numbers("power_median", {powers[2], nan}, "cells/*/power/median");
  expected.words("quantity", {"second_moment", "change", "branch_cosine", "loss", "update"});
  expected.numbers("quantity_power_worst",
                   {cells[4].finding.power, larger, worst.power, cells[3].finding.power, nan, nan, nan, nan, nan, nan},
                   "cells/*/power/quantities/*/worst");
  expected.numbers("quantity_power_median",
                   {cells[4].finding.power, larger, worst.power, cells[3].finding.power, nan, nan, nan, nan, nan, nan},
                   "cells/*/power/quantities/*/median");
  expected.numbers("quantity_power_limit",
                   {cells[4].finding.power_limit, cells[1].finding.power_limit, worst.power_limit,
                    cells[3].finding.power_limit, nan, nan, nan, nan, nan, nan},
                   "cells/*/power/quantities/*/limit");
}

}  // namespace

TEST_CASE("first steps: every column from raw numbers") {
  first_steps::FirstStepsConfig config;
  config.base.model = {.layers = 1, .width = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .mlp_width = 8};
  config.base.init.scheme = InitScheme::lecun;
  config.inputs = {InputKind::tokens};
  config.placements = {*find_placement("pre"), *find_placement("peri")};
  config.train.steps = steps;
  const std::vector<StackSteps> stacks = planted_stacks(config);
  first_steps::FirstStepsResult result;
  result.stacks = stacks;
  ExpectedColumns expected(first_steps::schema(), first_steps::dataset_of(config, result));
  expected.words("placement", {"pre", "peri"}, "cells/*/placement");
  expected.words("placement_settings", {stacks[0].spec.settings, stacks[1].spec.settings});
  expected.numbers("step", {0, 1, 2}, "coordinates/step");
  expected.numbers("depth", {0, 1, 2}, "coordinates/depth");
  expected.numbers("sublayer", {0, 1}, "coordinates/sublayer");
  expected.numbers("sublayer_layer", {0, 0});
  expected.words("sublayer_kind", {"attention", "mlp"});
  expected.numbers("sublayer_branch", {0, 0});
  expected.words("weight", {"q", "k", "v", "o", "gate", "up", "down"});
  expected.numbers("layer", {0}, "coordinates/layer");
  using R = theory::StepReading;
  check_measured(expected, stacks, "second_moment", depths, &MeasuredStep::second_moment);
  check_predicted(expected, stacks, "second_moment", depths, &R::second_moment);
  check_measured(expected, stacks, "change", depths, &MeasuredStep::change);
  check_predicted(expected, stacks, "change", depths, &R::change);
  check_predicted(expected, stacks, "coherent", depths, &R::coherent);
  check_measured(expected, stacks, "branch_cosine", sublayers, &MeasuredStep::branch_cosine);
  check_predicted(expected, stacks, "branch_cosine", sublayers, &R::branch_cosine);
  check_measured(expected, stacks, "branch_second_moment", sublayers, &MeasuredStep::branch_second_moment);
  check_predicted(expected, stacks, "branch_second_moment", sublayers, &R::branch_second_moment);
  check_measured(expected, stacks, "loss", 1, &MeasuredStep::loss);
  check_predicted(expected, stacks, "loss", 1, &R::loss);
  check_measured(expected, stacks, "loss_change", 1, &MeasuredStep::loss_change);
  check_predicted(expected, stacks, "loss_change", 1, &R::loss_change);
  expected.numbers("kept_share",
                   along(stacks, 1,
                         [](const StackSteps& stack, std::size_t s) {
                           return stack.prediction.steps.empty() ? Values()
                                                                 : Values{stack.prediction.steps[s].kept_share};
                         }),
                   "cells/*/kept_share");
  check_updates(expected, stacks);
  check_compared(expected, stacks);
  check_verdicts(expected, stacks[0]);
  expected.complete();
}

TEST_CASE("first steps: the table ends predictions where theory stops, and says why and what to do") {
  first_steps::FirstStepsConfig config;
  config.base.model = {.layers = 1, .width = 8, .heads = 2, .kv_heads = 2, .head_dim = 4, .mlp_width = 8};
  config.inputs = {InputKind::tokens};
  config.placements = {*find_placement("pre"), *find_placement("peri")};
  first_steps::FirstStepsResult result;
  result.stacks = planted_stacks(config);
  config.fault = theory::StepFault::one_gate;
  std::vector<theory::StepReading>& predicted = result.stacks[0].prediction.steps;
  predicted[1].loss_change.value = {-1.0625};
  predicted[2].loss_change.value = predicted[1].loss.value = {-3.0625};
  const std::string text = first_steps::table(config, result);
  CHECK_MESSAGE(text.find("-3.06") == std::string::npos, text);
  for (const char* words :
       {"-1.06", "pre: theory stops after step 1 of 2: a term. Lower train.lr", "pre: inconclusive (weak)",
        "peri: not-checked (because)", "PLANTED FAULT", "first_steps.fault = one-gate"}) {
    CHECK_MESSAGE(text.find(words) != std::string::npos, words << " in " << text);
  }
}

}  // namespace periscope::testing::first_steps_columns
