#include "experiments/studies/reproduce/reproduce.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include "experiments/engine/judge/depth_fit.h"
#include "experiments/engine/judge/seed_rows.h"
#include "experiments/engine/run/regime.h"
#include "sim/base/mapped.h"

namespace periscope::reproduce {
namespace {

/// The runs of one group, or of all groups of a sweep in order of rate.
using Runs = std::vector<const GroupRuns*>;
/// The runs of one seed, by group name and rate.
using Twins = std::vector<std::vector<const TrainingResult*>>;
/// Computes, for one seed, the numbers that a claim says are positive, as input of test_some_row_positive.
using Numbers = std::function<judge::SeedTable(const Twins&)>;

/// Returns the metric of one group, or for two or four groups first − second or first − second − (third − fourth).
Numbers larger(const Metric& read) {
  return [read](const Twins& twins) {
    constexpr std::array signs{1.0, -1.0, -1.0, 1.0};
    double sum = 0.0;
    for (std::size_t i = 0; i < twins.size(); ++i) sum += signs.at(i) * read(*twins[i].front());
    return judge::SeedTable{{{sum}}};
  };
}

/// Returns numbers that are positive if `of_small` differs between the last two groups by less than half as much as
/// `of_large` between the first two. With two groups, both pairs are the same.
Numbers alike(const Metric& of_large, const Metric& of_small) {
  return [=](const Twins& twins) {
    const auto difference = [&](std::size_t i, const Metric& read) {
      return read(*twins[i].front()) - read(*twins[i + 1].front());
    };
    return judge::equivalence_table({difference(0, of_large)}, {difference(twins.size() - 2, of_small)});
  };
}

/// Returns ln of three ratios, all above 1 if an exponential describes the variance over depth: the residual deviations
/// of a line and of a parabola over the exponential's, and largest_misfit over the exponential's rms residual.
judge::SeedTable exponential_lead(const Twins& twins) {
  const judge::GrowthFit fit = judge::fit_growth(last_record(*twins[0].front()).at("variance.x_out"));
  const auto& [linear, quadratic, exponential] = fit.laws;
  return {{{std::log(linear.residual_deviation / exponential.residual_deviation)},
           {std::log(quadratic.residual_deviation / exponential.residual_deviation)},
           {std::log(judge::largest_misfit / exponential.rms_residual)}}};
}

/// Returns a table with a positive row if the loss of some run of `low` is below the losses of all runs of `high`.
judge::SeedTable below(const std::vector<const TrainingResult*>& low, const std::vector<const TrainingResult*>& high) {
  return mapped(low, [&](const TrainingResult* one) {
    return mapped(high, [&](const TrainingResult* other) { return Values{final_loss(*other) - final_loss(*one)}; });
  });
}

/// Tests whether the second placement's loss at its best rate is below the first's: some rate of the second has a lower
/// loss than every rate of the first. Comparing each seed's lowest losses would favour losses that scatter more.
judge::SeedTable best_rate(const Twins& twins) { return below(twins[1], twins[0]); }

/// Tests whether the lowest loss of a sweep is at neither end.
judge::SeedTable inner_rate(const Twins& twins) {
  const auto& sweep = twins[0];
  return below({sweep.begin() + 1, sweep.end() - 1}, {sweep.front(), sweep.back()});
}

/// Returns ln of the rate at the minimum of the parabola through the lowest loss and its two neighbours.
double best_log_rate(const std::vector<const TrainingResult*>& by_rate) {
  const auto loss = mapped(by_rate, [](const TrainingResult* run) { return final_loss(*run); });
  const auto log_rate = mapped(by_rate, [](const TrainingResult* run) { return std::log(run->task.train.lr); });
  const auto best = static_cast<std::size_t>(std::ranges::min_element(loss) - loss.begin());
  if (best == 0 || best + 1 == loss.size()) return log_rate[best];
  const double left = log_rate[best] - log_rate[best - 1], right = log_rate[best + 1] - log_rate[best];
  const double down = (loss[best - 1] - loss[best]) / left, up = (loss[best + 1] - loss[best]) / right;
  // The parabola's slope is −down at the middle of the left interval and up at the middle of the right one.
  const double from = log_rate[best] - left / 2.0, to = log_rate[best] + right / 2.0;
  return up + down > 0.0 ? from + (to - from) * down / (up + down) : log_rate[best];
}

judge::SeedTable higher_rate(const Twins& twins) { return {{{best_log_rate(twins[1]) - best_log_rate(twins[0])}}}; }

/// Return the metric that `read` computes from a run's last (at_end) or first record (at_start).
Metric at_end(double (*read)(const RecordedValues&)) {
  return [=](const TrainingResult& run) { return read(last_record(run)); };
}
Metric at_start(double (*read)(const RecordedValues&)) {
  return [=](const TrainingResult& run) { return read(first_record(run)); };
}

/// Returns the mean angular distance between neighbouring depths.
double angle(const RecordedValues& record) {
  const std::vector<double>& angular_distance = record.at("angular_distance");
  const auto depths = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(angular_distance.size()))));
  double sum = 0.0;
  for (std::size_t i = 0; i + 1 < depths; ++i) sum += angular_distance[i * depths + i + 1];
  return sum / static_cast<double>(depths - 1);
}

/// Returns the share α²q/q⁺ (T15) of a sublayer's input in its output, averaged over the upper half of sublayers.
double main_path_share(const RecordedValues& record) {
  const std::vector<double>&input = record.at("growth_stream"), &sum = record.at("growth_sum");
  const std::size_t half = input.size() / 2;
  double share = 0.0;
  for (std::size_t l = half; l < input.size(); ++l) share += input[l] / sum[l];
  return share / static_cast<double>(input.size() - half);
}

double log_of_largest(const RecordedValues& record) { return std::log(record.at("top_magnitudes").front()); }
double largest_over_fp16(const RecordedValues& record) {
  return std::log(std::ranges::max(record.at("largest")) / 65504.0);
}

/// Returns the least-squares slope per index, multiplied by the number of values. Skips values that are not finite.
double rise_of(const std::vector<double>& values) {
  std::vector<double> indices, finite;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    indices.push_back(static_cast<double>(i));
    finite.push_back(values[i]);
  }
  return judge::slope_of(indices, finite) * static_cast<double>(values.size());
}

double rise_of_gains(const RecordedValues& record) { return rise_of(record.at("gain_mean.norm_b")); }
double slope(const RecordedValues& record) {
  return rise_of(mapped(layer_gradients(record), [](double square) { return std::log(square); }));
}
double minus_slope(const RecordedValues& record) { return -slope(record); }
double steepness(const RecordedValues& record) { return std::abs(slope(record)); }

/// The quantity of a claim. `words` names the metric of one group, or the formula over several groups.
struct Quantity {
  std::string words;
  Numbers of;
  std::size_t rates = 1;  ///< minimum number of learning rates (groups of one name), 2 or more for a sweep
};

/// Name of the quantity that is compared by its spread over seeds instead of its mean.
constexpr std::string_view spread = "spread";

const std::map<std::string_view, Quantity>& quantities() {
  const std::string slope_words = "slope of ln of a layer's squared gradient over depth";
  static const std::map<std::string_view, Quantity> all{
      {"loss", {"final loss", larger(final_loss)}},
      {"loss alike",
       {"final loss: |first - second| / 2 - |third - fourth|, for means over seeds", alike(final_loss, final_loss)}},
      {spread,
       {"(final loss - its mean over seeds)^2: first - 4 * second",
        [](const Twins& twins) {
          return judge::SeedTable{{{final_loss(*twins[0].front())}, {2.0 * final_loss(*twins[1].front())}}};
        }}},
      {"steps",
       {"steps to reach the first group's final loss: first - second",
        [](const Twins& twins) {
          const TrainingResult &first = *twins[0].front(), &second = *twins[1].front();
          const double target = final_loss(first);
          return judge::SeedTable{{{steps_to_loss(first, target) - steps_to_loss(second, target)}}};
        }}},
      {"spikes", {"events in which the logarithm of loss or gradient norm spikes", larger(spikes)}},
      {"variance", {"ln(variance at the end) at the top", larger(final_variance)}},
      {"surge", {"ln(variance at the end / at initialisation) at the top", larger([](const TrainingResult& run) {
                   return final_variance(run) - std::log(first_record(run).at("variance.x_out").back());
                 })}},
      {"law",
       {"smallest of three log ratios of residuals of ln(variance) from depth 2 on: ln(line / exponential), "
        "ln(parabola / exponential), ln(10 % / rms of exponential)",
        exponential_lead}},
      {"activation", {"ln(largest |x| of the stream at the end)", larger(at_end(log_of_largest))}},
      {"tenfold",
       {"ln(largest |x| of the stream at the end): first - second - ln 10",
        [](const Twins& twins) {
          const Metric largest = at_end(log_of_largest);
          return judge::SeedTable{{{largest(*twins[0].front()) - largest(*twins[1].front()) - std::log(10.0)}}};
        }}},
      {"over FP16", {"ln(largest |x| of any signal / 65504)", larger(at_end(largest_over_fp16))}},
      {"angle", {"mean angular distance between neighbouring depths at the end", larger(at_end(angle))}},
      {"angle alike",
       {"mean angular distance between neighbouring depths: |first - second| / 2 at the end - |first - second| at "
        "initialisation, for means over seeds",
        alike(at_end(angle), at_start(angle))}},
      {"main path", {"mean over sublayers of alpha^2 q/q+", larger(at_end(main_path_share))}},
      {"gains", {"slope over sublayers of the output norms' mean gain, times 2L", larger(at_end(rise_of_gains))}},
      {"Eq. 4", {"ln(second moment at the top / the same without the cosine term)", larger(at_end(cosine_share))}},
      {"alignment",
       {"ln(second moment at the top / that of random weights with the trained sizes of rows, columns and gains)",
        larger(from_alignment)}},
      {"last layer", {"mean ln of the last layer's gradient norm, second half", larger(last_layer_gradient)}},
      {"slope", {slope_words + " at the end", larger(at_end(slope))}},
      {"first slope", {"minus the " + slope_words + " at initialisation", larger(at_start(minus_slope))}},
      {"steepness", {"|" + slope_words + "| at the end", larger(at_end(steepness))}},
      {"first steepness", {"|" + slope_words + "| at initialisation", larger(at_start(steepness))}},
      {"best rate",
       {"final loss, each group at the rate of its lowest mean: first - second; p: one rate of the second group "
        "against every rate of the first, times the number of rates",
        best_rate, 2}},
      {"shape",
       {"final loss: lower mean of the two end rates - lowest mean of the inner rates; p: one inner rate against both "
        "ends, times the number of inner rates",
        inner_rate, 3}},
      {"rate", {"ln(rate of the lowest loss, by a parabola): second - first", higher_rate, 2}}};
  return all;
}

/// A claim that a quantity is positive. The group "pre, rate x *" is a sweep: all groups whose names start with "pre,
/// rate x ", and the group "pre", whose factor is 1.
struct Row {
  std::string id, exhibit, number;
  std::vector<std::string> groups;
  std::string statement;
  /// Number of training tokens within which the source observes the claim. Shorter runs can only confirm it.
  double within_tokens = 0.0;
};

// clang-format off
const Row claim_rows[] = {
    {"F4a", "1", "surge", {"pre", "peri"}, "during training, Pre-LN's variance surges and Peri-LN's stays moderate"},
    {"F4b", "1", "law", {"pre"}, "after training, Pre-LN's variance grows exponentially over depth, not linearly or quadratically"},
    {"F9a", "11", "activation", {"pre", "peri"}, "Pre-LN's largest activations are larger than Peri-LN's"},
    {"F9b", "11", "tenfold", {"pre", "peri"}, "Pre-LN's largest activations are at least ten times Peri-LN's"},
    {"F9c", "11", "over FP16", {"pre"}, "Pre-LN's activations exceed FP16's largest number", 5e8},
    {"F10a", "9", "angle", {"peri", "pre"}, "after training, Pre-LN's states are more similar across depths than Peri-LN's"},
    {"F10b", "9", "angle alike", {"peri", "pre"}, "at initialisation, Pre-LN's and Peri-LN's states are about equally similar across depths"},
    {"F11b", "9", "main path", {"peri", "peri, output gains frozen"}, "in the upper half, Peri-LN's main path keeps more of the stream than with frozen gains"},
    {"F11a", "9", "gains", {"peri"}, "the gains of Peri-LN's output norms rise with depth"},
    {"T15a", "growth", "Eq. 4", {"pre"}, "after training, Eq. 4 misses growth of Pre-LN's stream: branches align with it"},
    {"T15b", "growth", "Eq. 4", {"peri"}, "after training, Eq. 4 misses growth of Peri-LN's stream: branches align with it"},
    {"T15c", "growth", "alignment", {"pre"}, "training enlarges Pre-LN's stream beyond random weights with the same scales"},
    {"T15d", "growth", "alignment", {"peri"}, "training enlarges Peri-LN's stream beyond random weights with the same scales"},
    {"G6a", "5", "last layer", {"post", "pre"}, "the last layer's gradient is larger in Post-LN than in Pre-LN"},
    {"G6b", "5", "last layer", {"pre", "peri"}, "the last layer's gradient is larger in Pre-LN than in Peri-LN"},
    {"G7a", "7", "slope", {"post"}, "after training, Post-LN's gradients shrink towards the input"},
    {"G7b", "7", "first slope", {"pre"}, "Pre-LN's gradients grow towards the input at initialisation"},
    {"G7c", "7", "first steepness", {"pre", "peri"}, "Peri-LN's gradients are more uniform than Pre-LN's at initialisation"},
    {"G7d", "7", "steepness", {"post", "peri"}, "after training, Peri-LN's gradients are more uniform than Post-LN's"},
    {"G12", "4", "spikes", {"pre", "peri"}, "Pre-LN's loss and gradient spike more often than Peri-LN's"},
    {"R9", "4", "spread", {"pre", "peri"}, "Pre-LN's final loss spreads over seeds more than twice as much as Peri-LN's"},
    {"R1a", "table5", "loss", {"a+c", "peri"}, "at one learning rate, A+C ends with a higher loss than Peri-LN"},
    {"R1b", "table5", "loss", {"post", "a+c"}, "at one learning rate, Post-LN ends with a higher loss than A+C"},
    {"R1c", "table5", "loss", {"b-only", "peri"}, "at one learning rate, B-only ends with a higher loss than Peri-LN (in the paper, it diverges)"},
    {"R1d", "table5", "loss", {"pre", "peri"}, "at one learning rate, Pre-LN ends with a higher loss than Peri-LN"},
    {"R11", "warmup", "steps", {"post", "pre"}, "Pre-LN reaches Post-LN's final loss in fewer steps"},
    {"R6a", "8", "loss", {"pre", "peri, output gains frozen"}, "with output gains frozen at 1, Peri-LN still ends with a lower loss than Pre-LN"},
    {"R6b", "8", "loss", {"peri, output gains frozen", "peri"}, "Peri-LN with learnable output gains ends with a lower loss than with frozen ones"},
    {"R1e", "20", "loss", {"pre, embedding norm", "peri, embedding norm"}, "at one learning rate and with an embedding norm in both, Pre-LN ends with a higher loss than Peri-LN"},
    {"R7b", "20", "loss", {"peri", "peri, embedding norm"}, "an embedding norm helps Peri-LN"},
    {"R2a", "32", "loss", {"peri", "peri, QK-norm"}, "QK-norm helps Peri-LN"},
    {"R2b", "32", "loss alike", {"pre", "peri", "peri, QK-norm", "b-only, QK-norm (OLMo 2)"}, "OLMo 2's placement ends with about the same loss as Peri-LN with QK-norm"},
    {"R7a", "19", "loss alike", {"pre", "peri", "peri", "peri, LayerNorm"}, "using LayerNorm instead of RMSNorm barely changes Peri-LN's loss"},
    {"R3a", "3", "best rate", {"pre, rate x *", "peri, rate x *"}, "at the best learning rate of each, Peri-LN ends with a lower loss than Pre-LN"},
    {"R3b", "3", "best rate", {"post, rate x *", "peri, rate x *"}, "at the best learning rate of each, Peri-LN ends with a lower loss than Post-LN"},
    {"R3c", "16", "best rate", {"pre, warm-up x 3, *", "peri, warm-up x 3, *"}, "at the best learning rate of each with three times the warm-up, Peri-LN ends with a lower loss than Pre-LN"},
    {"R3d", "17", "best rate", {"pre, half the length, *", "peri, half the length, *"}, "at the best learning rate of each on sequences of half the length, Peri-LN ends with a lower loss than Pre-LN"},
    {"R3e", "3", "shape", {"post, rate x *"}, "Post-LN's loss is lower at a rate within the sweep than at both ends (U-shape)"},
    {"R3f", "3", "shape", {"pre, rate x *"}, "Pre-LN's loss is lower at a rate within the sweep than at both ends (U-shape)"},
    {"R3g", "3", "shape", {"peri, rate x *"}, "Peri-LN's loss is lower at a rate within the sweep than at both ends (U-shape)"},
    {"R3h", "3", "rate", {"post, rate x *", "peri, rate x *"}, "Post-LN needs a lower learning rate than Peri-LN"},
    {"R8", "35", "best rate", {"pre, SGD, *", "peri, SGD, *"}, "with SGD at the best learning rate of each, Peri-LN ends with a lower loss than Pre-LN"},
    {"F13a", "10", "variance", {"pre", "pre, weight decay 0.33"}, "stronger weight decay lowers Pre-LN's variance"},
    {"F13b", "10", "variance", {"pre", "pre, weight decay 0.33", "peri", "peri, weight decay 0.33"}, "stronger weight decay lowers Peri-LN's variance less than Pre-LN's"},
    {"F12", "10", "variance", {"pre, variance 10/d", "pre, variance 0.1/d", "peri, variance 10/d", "peri, variance 0.1/d"}, "Pre-LN's final variance depends more on the variance at initialisation than Peri-LN's"},
    {"R4 0", "10", "loss", {"pre, weight decay 0", "peri, weight decay 0"}, "Peri-LN ends with a lower loss than Pre-LN at weight decay 0"},
    {"R4 0.0033", "10", "loss", {"pre, weight decay 0.0033", "peri, weight decay 0.0033"}, "Peri-LN ends with a lower loss than Pre-LN at weight decay 0.0033"},
    {"R4 0.33", "10", "loss", {"pre, weight decay 0.33", "peri, weight decay 0.33"}, "Peri-LN ends with a lower loss than Pre-LN at weight decay 0.33"},
    {"R5 variance 10/d", "10", "loss", {"pre, variance 10/d", "peri, variance 10/d"}, "Peri-LN ends with a lower loss than Pre-LN at variance 10/d"},
    {"R5 variance 2/d", "10", "loss", {"pre, variance 2/d", "peri, variance 2/d"}, "Peri-LN ends with a lower loss than Pre-LN at variance 2/d"},
    {"R5 variance 1/d", "10", "loss", {"pre, variance 1/d", "peri, variance 1/d"}, "Peri-LN ends with a lower loss than Pre-LN at variance 1/d"},
    {"R5 variance 0.1/d", "10", "loss", {"pre, variance 0.1/d", "peri, variance 0.1/d"}, "Peri-LN ends with a lower loss than Pre-LN at variance 0.1/d"},
    {"R5 Xavier", "10", "loss", {"pre, Xavier", "peri, Xavier"}, "Peri-LN ends with a lower loss than Pre-LN at Xavier"},
    {"R10a", "warmup", "loss", {"post, no warm-up, rate x 1", "post"}, "without warm-up, Post-LN ends with a higher loss"},
    {"R10b", "warmup", "loss", {"post, no warm-up, rate x 1", "post", "pre, no warm-up, rate x 1", "pre"}, "removing warm-up increases Post-LN's loss more than Pre-LN's"},
};
// clang-format on

/// Returns the groups that a name selects, in order of rate.
Runs groups_called(const std::string& name, const std::vector<GroupRuns>& runs) {
  const bool sweep = name.ends_with('*');
  const std::string prefix = name.substr(0, name.size() - (sweep ? 1 : 0));
  Runs found;
  for (const GroupRuns& one : runs) {
    const std::string& group = one.group.name;
    if (sweep ? group.starts_with(prefix) || group + ", rate x " == prefix : group == name) found.push_back(&one);
  }
  std::ranges::stable_sort(found, {}, [](const GroupRuns* one) { return one->group.train.lr; });
  return found;
}

/// Adds a remark about runs that ended early.
void name_unfinished(const GroupRuns& group, judge::SignClaim& claim) {
  const auto lost = std::ranges::count_if(group.tasks, [](const TrainingResult& task) {
    return static_cast<int>(task.history.loss.size()) < task.task.train.steps;
  });
  if (lost == 0) return;
  judge::add_reason(
      claim,
      fmt::format(
          "{} of {} runs of {} ended early: their final loss counts as ln V, other numbers use the completed steps",
          lost, group.tasks.size(), group.group.name));
}

/// Returns the numbers of a claim for every seed.
judge::SeedTable over_seeds(const Quantity& number, const std::vector<Runs>& groups) {
  judge::SeedTable table;
  for (std::size_t seed = 0; seed < groups[0].front()->tasks.size(); ++seed) {
    const auto of_seed = [&](const GroupRuns* group) { return &group->tasks[seed]; };
    const judge::SeedTable one = number.of(mapped(groups, [&](const Runs& named) { return mapped(named, of_seed); }));
    table.resize(one.size(), std::vector<Values>(one.front().size()));
    for (std::size_t row = 0; row < one.size(); ++row) {
      for (std::size_t c = 0; c < one[row].size(); ++c) table[row][c].push_back(one[row][c].front());
    }
  }
  return table;
}

judge::SignClaim tested(const Row& row, const std::vector<GroupRuns>& runs) {
  const Quantity& number = quantities().at(row.number);
  judge::SignClaim claim{.id = row.id,
                         .exhibit = row.exhibit,
                         .statement = row.statement,
                         .quantity = fmt::format("{}; groups: \"{}\"", number.words, fmt::join(row.groups, "\", \""))};
  std::vector<Runs> groups;
  for (const std::string& name : row.groups) {
    groups.push_back(groups_called(name, runs));
    if (groups.back().size() < number.rates) judge::add_reason(claim, "no runs of " + name);
  }
  if (!claim.reason.empty()) return claim;
  std::set<std::string_view> seen;  // a claim may name a group twice
  std::vector<StackSpec> specs;
  std::vector<TrainSpec> trained;
  double tokens = 0.0;
  for (const Runs& named : groups) {
    for (const GroupRuns* one : named) {
      const Group& group = one->group;
      if (!seen.insert(group.name).second) continue;
      name_unfinished(*one, claim);
      specs.push_back(group.spec);
      trained.push_back(group.train);
      tokens = std::max(tokens, 1.0 * group.train.steps * group.train.batch * group.spec.input.tokens);
    }
  }
  claim.regime = stacks::regime_of(specs, trained);
  const judge::SeedTable numbers_of_seeds = over_seeds(number, groups);
  if (row.number == spread) {
    judge::test_spreads_more(claim, numbers_of_seeds[0][0], numbers_of_seeds[0][1]);
  } else {
    judge::test_some_row_positive(claim, numbers_of_seeds);
  }
  if (claim.verdict != judge::ClaimVerdict::holds && tokens < row.within_tokens) {
    judge::set_not_testable(
        claim, fmt::format("trained on {:.2g} tokens; the source observes the effect within {:.2g} tokens", tokens,
                           row.within_tokens));
  }
  return claim;
}

}  // namespace

std::string statement_of(std::string_view id) {
  const auto* const found = std::ranges::find_if(claim_rows, [&](const Row& row) { return row.id == id; });
  return found == std::end(claim_rows) ? std::string() : std::string(found->statement);
}

std::vector<judge::SignClaim> judge_claims(const std::vector<GroupRuns>& runs) {
  std::vector<judge::SignClaim> claims = mapped(claim_rows, [&](const Row& row) { return tested(row, runs); });
  judge::apply_holm_correction(claims);
  return claims;
}

}  // namespace periscope::reproduce
