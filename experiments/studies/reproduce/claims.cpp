#include "experiments/studies/reproduce/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "experiments/engine/judge/depth_fit.h"
#include "experiments/engine/run/regime.h"
#include "experiments/studies/reproduce/readings.h"

namespace periscope::reproduce {
namespace {

using Values = std::vector<double>;
using Test = std::function<void(judge::SignClaim&, const ClaimRow::Runs&)>;
/// The runs of one seed, in the order of the groups.
using Twins = std::vector<const TrainedCell*>;

/// Tests that a number of the twins is positive.
template <class Number>
Test positive(const Number& number) {
  return [number](judge::SignClaim& claim, const ClaimRow::Runs& runs) {
    Values values;
    for (std::size_t seed = 0; seed < runs.front()->cells.size(); ++seed) {
      Twins twins;
      for (const GroupRuns* group : runs) twins.push_back(&group->cells[seed]);
      values.push_back(number(twins));
    }
    judge::test_some_row_positive(claim, {{values}});
  };
}

/// Tests that a reading is positive, or larger in the first group than in the second, or by more than in the third than
/// in the fourth.
Test larger(const Reading& reading) {
  return positive([reading](const Twins& twins) {
    constexpr std::array signs{1.0, -1.0, -1.0, 1.0};
    double sum = 0.0;
    for (std::size_t i = 0; i < twins.size(); ++i) sum += signs.at(i) * reading(*twins[i]);
    return sum;
  });
}

/// Tests that a reading of the last two groups, of which it may be the first two again, differs by less than half of
/// what another one differs by between the first two.
Test less_than_half(const Reading& of_large, const Reading& of_small) {
  return [of_large, of_small](judge::SignClaim& claim, const ClaimRow::Runs& runs) {
    const std::size_t second = runs.size() - 2;
    judge::test_some_row_positive(claim, judge::alike(differences(*runs[0], *runs[1], of_large),
                                                      differences(*runs[second], *runs[second + 1], of_small)));
  };
}

/// ln of how much better an exponential describes a variance over depth than a line and than a parabola, by the
/// residuals' standard deviations, and of how much better than what would not count as a description.
void test_exponential(judge::SignClaim& claim, const ClaimRow::Runs& runs) {
  judge::SeedTable leads(1, std::vector<Values>(3));
  for (const TrainedCell& run : runs[0]->cells) {
    const judge::GrowthFit fit = judge::fit_growth(at_end(run, "variance.x_out"));
    const auto& [linear, quadratic, exponential] = fit.laws;
    leads[0][0].push_back(std::log(linear.residual_deviation / exponential.residual_deviation));
    leads[0][1].push_back(std::log(quadratic.residual_deviation / exponential.residual_deviation));
    leads[0][2].push_back(std::log(judge::largest_misfit / exponential.rms_residual));
  }
  judge::test_some_row_positive(claim, leads);
}

double gradient_slope(const TrainedCell& run, bool end) {
  const auto& records = run.history.records;
  return slope_over_layers(layer_gradients(end ? records.rbegin()->second : records.begin()->second));
}
double first_slope(const TrainedCell& run) { return gradient_slope(run, false); }
double last_slope(const TrainedCell& run) { return gradient_slope(run, true); }

double distance_at_start(const TrainedCell& run) {
  return mean_distance_of_neighbours(at_start(run, "angular_distance"));
}
double distance_at_end(const TrainedCell& run) { return mean_distance_of_neighbours(at_end(run, "angular_distance")); }

double rise_of_gains(const TrainedCell& run) {
  const Values& gains = at_end(run, "gain_mean.norm_b");
  return slope(gains) * static_cast<double>(gains.size());
}

double missed_growth(const TrainedCell& run) { return cosine_share(run.history.records.rbegin()->second); }

/// A run that did not come to its end, or whose sizes theory does not support, has no such number.
double share_of_alignment(const TrainedCell& run) {
  const auto& last = run.history.records.rbegin()->second;
  return last.contains("profiled_second_moment") ? from_alignment(run) : std::numeric_limits<double>::quiet_NaN();
}

const std::string variance_at_top = "ln(variance at the end) at the top";
const std::string final_loss_of = "final loss: ";

ClaimRow row(const std::string& id, const std::string& exhibit, const std::string& statement,
             const std::string& quantity, const std::vector<std::string>& groups, const Test& test,
             double within_tokens = 0.0) {
  return {id, exhibit, statement, quantity, groups, test, within_tokens};
}

std::vector<ClaimRow> forward_claims() {
  const std::string activations = "ln(largest |x| of the stream at the end): Pre - Peri";
  const std::string distance = "mean angular distance of neighbouring depths: ";
  return {
      row("F4a", "1", "in training Pre-LN's variance surges and Peri-LN's stays moderate",
          "ln(variance at the end / at initialisation) at the top: Pre - Peri", {"pre", "peri"},
          larger(variance_surge)),
      row("F4b", "1", "trained Pre-LN's variance grows exponentially over depth, not as a line or a parabola",
          "least of three, of residuals of ln(variance) from depth 2 on: ln(size for a line / an exponential), the "
          "same for a parabola, ln(10 % / rms for an exponential)",
          {"pre"}, test_exponential),
      row("F9a", "11", "Pre-LN's largest activations are larger than Peri-LN's", activations, {"pre", "peri"},
          larger(largest_activation)),
      row("F9b", "11", "Pre-LN's largest activations are at least ten times Peri-LN's", activations + " - ln 10",
          {"pre", "peri"}, positive([](const Twins& r) {
            return largest_activation(*r[0]) - largest_activation(*r[1]) - std::log(10.0);
          })),
      row("F9c", "11", "Pre-LN passes FP16's largest number", "ln(largest |x| of any signal / 65504)", {"pre"},
          larger([](const TrainedCell& run) { return std::log(std::ranges::max(at_end(run, "largest")) / 65504.0); }),
          5e8),
      row("F10a", "9", "after training Pre-LN's states are more alike from depth to depth than Peri-LN's",
          distance + "Peri - Pre", {"peri", "pre"}, larger(distance_at_end)),
      row("F10b", "9", "at initialisation Pre-LN's and Peri-LN's states are about equally alike",
          distance + "|Peri - Pre| at the end / 2, less |Peri - Pre| at initialisation, of means over seeds",
          {"peri", "pre"}, less_than_half(distance_at_end, distance_at_start)),
      row("F11b", "9", "in the upper half Peri-LN's main path keeps more of the stream than with frozen gains",
          "mean over sublayers of what q keeps of q+: learnable - frozen", {"peri", "peri, output gains frozen"},
          larger(main_path_share)),
      row("F11a", "9", "the gains of Peri-LN's output norms rise with depth",
          "slope of their mean over sublayers, times 2L", {"peri"}, larger(rise_of_gains))};
}

std::vector<ClaimRow> growth_claims() {
  const auto eq4 = [](const std::string& id, const std::string& label, const std::string& placement) -> ClaimRow {
    return row(id, "growth",
               fmt::format("after training Eq. 4 misses growth of {}'s stream: branches align with it", label),
               "ln(second moment at the top / the same without the cosine term)", {placement}, larger(missed_growth));
  };
  const auto scales = [](const std::string& id, const std::string& label, const std::string& placement) -> ClaimRow {
    return row(
        id, "growth", fmt::format("training enlarges {}'s stream beyond random weights with the same scales", label),
        "ln(second moment at the top / that of random weights with the trained rows', columns' and gains' sizes)",
        {placement}, larger(share_of_alignment));
  };
  return {eq4("T15a", "Pre-LN", "pre"), eq4("T15b", "Peri-LN", "peri"), scales("T15c", "Pre-LN", "pre"),
          scales("T15d", "Peri-LN", "peri")};
}

std::vector<ClaimRow> gradient_claims() {
  const std::string norm = "mean ln of the last layer's gradient norm, second half: ";
  const std::string slope_words = "slope of ln of a layer's squared gradient over depth";
  return {
      row("G6a", "5", "the last layer's gradient is larger in Post-LN than in Pre-LN", norm + "Post - Pre",
          {"post", "pre"}, larger(last_layer_gradient)),
      row("G6b", "5", "the last layer's gradient is larger in Pre-LN than in Peri-LN", norm + "Pre - Peri",
          {"pre", "peri"}, larger(last_layer_gradient)),
      row("G7a", "7", "trained Post-LN's gradients shrink towards the input", slope_words + " at the end", {"post"},
          larger(last_slope)),
      row("G7b", "7", "Pre-LN's gradients grow towards the input at initialisation",
          "minus the " + slope_words + " at initialisation", {"pre"},
          larger([](const TrainedCell& run) { return -first_slope(run); })),
      row("G7c", "7", "Peri-LN's gradients are more uniform than Pre-LN's at initialisation", "|slope|: Pre - Peri",
          {"pre", "peri"}, larger([](const TrainedCell& run) { return std::abs(first_slope(run)); })),
      row("G7d", "7", "trained Peri-LN's gradients are more uniform than Post-LN's", "|slope|: Post - Peri",
          {"post", "peri"}, larger([](const TrainedCell& run) { return std::abs(last_slope(run)); })),
      row("G12", "4", "Pre-LN's loss and gradient spike more often than Peri-LN's",
          "events in which the logarithm of loss or gradient norm spikes: Pre - Peri", {"pre", "peri"}, larger(spikes)),
      row("R9", "4", "Pre-LN's final loss spreads over seeds more than twice as much as Peri-LN's",
          "(final loss - its mean over seeds)^2: Pre - 4 Peri", {"pre", "peri"},
          [](judge::SignClaim& claim, const ClaimRow::Runs& runs) {
            Values large, small;
            for (const TrainedCell& cell : runs[0]->cells) large.push_back(final_loss(cell));
            for (const TrainedCell& cell : runs[1]->cells) small.push_back(2.0 * final_loss(cell));
            judge::test_spreads_more(claim, large, small);
          })};
}

/// The claim that the final loss of the first group is larger than that of the second.
ClaimRow loss_claim(const std::string& id, const std::string& exhibit, const std::string& statement,
                    const std::string& words, const std::string& first, const std::string& second) {
  return row(id, exhibit, statement, words, {first, second}, larger(final_loss));
}

/// The claim that two groups end alike: their final losses differ by less than half of the difference between Pre-LN's
/// and Peri-LN's.
ClaimRow alike_claim(const std::string& id, const std::string& exhibit, const std::string& statement,
                     const std::string& first, const std::string& second) {
  return row(id, exhibit, statement,
             fmt::format("final loss: |Pre - Peri| / 2 less |{} - {}|, of means over seeds", first, second),
             {"pre", "peri", first, second}, less_than_half(final_loss, final_loss));
}

std::vector<ClaimRow> loss_claims() {
  const std::string frozen = "peri, output gains frozen";
  return {loss_claim("R1a", "table5", "at one learning rate A+C ends above Peri-LN", final_loss_of + "A+C - Peri",
                     "a+c", "peri"),
          loss_claim("R1b", "table5", "at one learning rate Post-LN ends above A+C", final_loss_of + "Post - A+C",
                     "post", "a+c"),
          loss_claim("R1c", "table5", "at one learning rate B-only ends above Peri-LN (the paper: it diverges)",
                     final_loss_of + "B-only - Peri", "b-only", "peri"),
          loss_claim("R1d", "table5", "at one learning rate Pre-LN ends above Peri-LN", final_loss_of + "Pre - Peri",
                     "pre", "peri"),
          row("R11", "warmup", "Pre-LN reaches Post-LN's final loss in fewer steps",
              "steps of Post-LN to its own final loss, less those of Pre-LN to the same", {"post", "pre"},
              positive([](const Twins& r) {
                const double target = final_loss(*r[0]);
                return steps_to_loss(*r[0], target) - steps_to_loss(*r[1], target);
              })),
          loss_claim("R6a", "8", "with output gains frozen at 1 Peri-LN still ends below Pre-LN",
                     final_loss_of + "Pre - frozen", "pre", frozen),
          loss_claim("R6b", "8", "learnable output gains are better than frozen ones", final_loss_of + "frozen - Peri",
                     frozen, "peri"),
          loss_claim("R1e", "20", "at one learning rate and with an embedding norm each, Pre-LN ends above Peri-LN",
                     final_loss_of + "Pre - Peri, both with an embedding norm", "pre, embedding norm",
                     "peri, embedding norm"),
          loss_claim("R7b", "20", "an embedding norm helps Peri-LN", final_loss_of + "without - with", "peri",
                     "peri, embedding norm"),
          loss_claim("R2a", "32", "QK-norm helps Peri-LN", final_loss_of + "without - with", "peri", "peri, QK-norm"),
          alike_claim("R2b", "32", "OLMo 2's placement ends about where Peri-LN with QK-norm does", "peri, QK-norm",
                      "b-only, QK-norm (OLMo 2)"),
          alike_claim("R7a", "19", "LayerNorm instead of RMSNorm changes Peri-LN's loss little", "peri",
                      "peri, LayerNorm")};
}

std::vector<ClaimRow> decay_and_init_claims() {
  std::vector<ClaimRow> all{
      row("F13a", "10", "stronger weight decay lowers Pre-LN's variance",
          variance_at_top + ": shared weight decay - 0.33", {"pre", "pre, weight decay 0.33"}, larger(final_variance)),
      row("F13b", "10", "stronger weight decay lowers Peri-LN's variance less than Pre-LN's",
          variance_at_top + ", shared weight decay - 0.33: Pre - Peri",
          {"pre", "pre, weight decay 0.33", "peri", "peri, weight decay 0.33"}, larger(final_variance)),
      row("F12", "10", "Pre-LN's final variance follows that of the initialisation more than Peri-LN's",
          "ln(variance at the end, weights of 10/d over those of 1/(10d)): Pre - Peri",
          {"pre, variance 10/d", "pre, variance 0.1/d", "peri, variance 10/d", "peri, variance 0.1/d"},
          larger(final_variance))};
  const auto below_pre = [&](const std::string& id, const std::string& what) {
    all.push_back(loss_claim(id, "10", "Peri-LN ends below Pre-LN at " + what, final_loss_of + "Pre - Peri",
                             "pre, " + what, "peri, " + what));
  };
  for (const std::string decay : {"0", "0.0033", "0.33"}) below_pre("R4 " + decay, "weight decay " + decay);
  for (const std::string what : {"variance 10/d", "variance 2/d", "variance 1/d", "variance 0.1/d", "Xavier"})
    below_pre("R5 " + what, what);
  const std::string post = "post, no warm-up, rate x 1", pre = "pre, no warm-up, rate x 1";
  all.push_back(loss_claim("R10a", "warmup", "without warm-up Post-LN ends higher",
                           "final loss of Post-LN: without - with", post, "post"));
  all.push_back(row("R10b", "warmup", "Post-LN loses more without warm-up than Pre-LN",
                    "final loss without less with warm-up: Post - Pre", {post, "post", pre, "pre"},
                    larger(final_loss)));
  return all;
}

/// Names the runs that did not come to their end.
void name_unfinished(const ClaimRow::Runs& groups, judge::SignClaim& claim) {
  for (const GroupRuns* group : groups) {
    const auto lost = std::ranges::count_if(group->cells, [](const TrainedCell& cell) {
      return static_cast<int>(cell.history.loss.size()) < cell.cell.train.steps;
    });
    if (lost == 0) continue;
    judge::add_reason(
        claim, fmt::format("{} of {} runs of {} ended early: their final loss counts as ln V, all else as far as "
                           "they came",
                           lost, group->cells.size(), group->group.name));
  }
}

double trained_tokens(const GroupRuns& runs) {
  const TrainSpec& train = runs.group.train;
  return 1.0 * train.steps * train.batch * runs.group.spec.input.tokens;
}

judge::SignClaim tested(const ClaimRow& row, const std::vector<GroupRuns>& runs) {
  judge::SignClaim claim{.id = row.id, .exhibit = row.exhibit, .statement = row.statement, .quantity = row.quantity};
  ClaimRow::Runs groups;
  for (const std::string& name : row.groups) {
    const auto it = std::ranges::find(runs, name, [](const GroupRuns& r) { return r.group.name; });
    if (it == runs.end())
      judge::add_reason(claim, "no runs of " + name);
    else
      groups.push_back(&*it);
  }
  if (groups.size() < row.groups.size()) return claim;
  name_unfinished(groups, claim);
  row.test(claim, groups);
  std::vector<stacks::Trained> trained;
  double tokens = 0.0;
  for (const GroupRuns* group : groups) {
    trained.push_back({group->group.spec, group->group.train});
    tokens = std::max(tokens, trained_tokens(*group));
  }
  claim.regime = stacks::regime_of(trained);
  if (claim.verdict != judge::ClaimVerdict::holds && tokens < row.within_tokens) {
    judge::set_not_testable(
        claim, fmt::format("{:.2g} tokens of training: the source sees it within {:.2g}", tokens, row.within_tokens));
  }
  return claim;
}

}  // namespace

std::vector<double> differences(const GroupRuns& first, const GroupRuns& second, const Reading& reading) {
  Values values;
  for (std::size_t seed = 0; seed < first.cells.size(); ++seed)
    values.push_back(reading(first.cells[seed]) - reading(second.cells[seed]));
  return values;
}

std::vector<judge::SignClaim> judge_claims(const std::vector<GroupRuns>& runs) {
  std::vector<judge::SignClaim> claims;
  for (const auto& rows : {forward_claims(), growth_claims(), gradient_claims(), loss_claims(), rate_claims(runs),
                           decay_and_init_claims()}) {
    for (const ClaimRow& row : rows) claims.push_back(tested(row, runs));
  }
  judge::correct_for_number(claims);
  return claims;
}

}  // namespace periscope::reproduce
