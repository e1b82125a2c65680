#include "experiments/studies/reproduce/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "experiments/engine/judge/depth_fit.h"
#include "experiments/studies/reproduce/ledger.h"
#include "experiments/studies/reproduce/readings.h"

namespace periscope::reproduce {
namespace {

using Values = std::vector<double>;

/// ln of how much better an exponential describes a variance over depth than a line and than a parabola, by the
/// residuals' standard deviations, and of how much better than what would not count as a description.
std::array<double, 3> exponential_leads(const TrainedCell& run) {
  const judge::GrowthFit fit = judge::fit_growth(at_end(run, "variance.x_out"));
  const auto& [linear, quadratic, exponential] = fit.laws;
  return {std::log(linear.residual_deviation / exponential.residual_deviation),
          std::log(quadratic.residual_deviation / exponential.residual_deviation),
          std::log(judge::largest_misfit / exponential.rms_residual)};
}

double gradient_slope(const TrainedCell& run, bool end) {
  const auto& records = run.history.records;
  return slope_over_layers(layer_gradients(end ? records.rbegin()->second : records.begin()->second));
}

/// A reading's differences between the twins of two groups.
template <class Reading>
Values differences(const std::vector<TrainedCell>& first, const std::vector<TrainedCell>& second,
                   const Reading& reading) {
  Values values;
  for (std::size_t seed = 0; seed < first.size(); ++seed)
    values.push_back(reading(first[seed]) - reading(second[seed]));
  return values;
}

void add_forward(Ledger& ledger) {
  ledger.larger({"F4a", "1", "in training Pre-LN's variance surges and Peri-LN's stays moderate",
                 "ln(variance at the end / at initialisation) at the top: Pre - Peri"},
                "pre", "peri", variance_surge);
  ledger.some_row({"F4b", "1", "trained Pre-LN's variance grows exponentially over depth, not as a line or a parabola",
                   "least of three, of residuals of ln(variance) from depth 2 on: ln(size for a line / an "
                   "exponential), the same for a parabola, "
                   "ln(10 % / rms for an exponential)"},
                  {"pre"}, [](const auto& groups) {
                    judge::SeedTable leads(1, std::vector<Values>(3));
                    for (const TrainedCell& cell : groups[0]->cells) {
                      const std::array<double, 3> of_seed = exponential_leads(cell);
                      for (std::size_t i = 0; i < of_seed.size(); ++i) leads[0][i].push_back(of_seed[i]);
                    }
                    return leads;
                  });
  ledger.larger({"F9a", "11", "Pre-LN's largest activations are larger than Peri-LN's",
                 "ln(largest |x| of the stream at the end): Pre - Peri"},
                "pre", "peri", largest_activation);
  ledger.add({"F9b", "11", "Pre-LN's largest activations are at least ten times Peri-LN's",
              "ln(largest |x| of the stream at the end): Pre - Peri - ln 10"},
             {"pre", "peri"},
             [](const auto& r) { return largest_activation(*r[0]) - largest_activation(*r[1]) - std::log(10.0); });
  ledger.add({"F9c", "11", "Pre-LN passes FP16's largest number", "ln(largest |x| of any signal / 65504)", 5e8},
             {"pre"}, [](const auto& r) { return std::log(std::ranges::max(at_end(*r[0], "largest")) / 65504.0); });
  ledger.larger({"F10a", "9", "after training Pre-LN's states are more alike from depth to depth than Peri-LN's",
                 "mean angular distance of neighbouring depths: Peri - Pre"},
                "peri", "pre",
                [](const TrainedCell& run) { return mean_distance_of_neighbours(at_end(run, "angular_distance")); });
  ledger.alike({"F10b", "9", "at initialisation Pre-LN's and Peri-LN's states are about equally alike",
                "mean angular distance of neighbouring depths: |Peri - Pre| at the end / 2, less |Peri - Pre| at "
                "initialisation, of means over seeds"},
               {"pre", "peri"}, [](const auto& groups) -> Ledger::Differences {
                 const auto apart = [&](const auto& when) {
                   return differences(groups[1]->cells, groups[0]->cells, [&](const TrainedCell& run) {
                     return mean_distance_of_neighbours(when(run, "angular_distance"));
                   });
                 };
                 return {.large = apart(at_end), .small = apart(at_start)};
               });
  ledger.larger({"F11b", "9", "in the upper half Peri-LN's main path keeps more of the stream than with frozen gains",
                 "mean over sublayers of what q keeps of q+: learnable - frozen"},
                "peri", "peri, output gains frozen", main_path_share);
  ledger.add({"F11a", "9", "the gains of Peri-LN's output norms rise with depth",
              "slope of their mean over sublayers, times 2L"},
             {"peri"}, [](const auto& r) {
               const Values& gains = at_end(*r[0], "gain_mean.norm_b");
               return slope(gains) * static_cast<double>(gains.size());
             });
  for (const auto& [placement, letter] : {std::pair<std::string, std::string>{"pre", "a"}, {"peri", "b"}}) {
    ledger.add({"T15" + letter, "growth",
                fmt::format("after training Eq. 4 misses growth of {}-LN's stream: branches align with it",
                            placement == "pre" ? "Pre" : "Peri"),
                "ln(second moment at the top / the same without the cosine term)"},
               {placement}, [](const auto& r) { return cosine_share(r[0]->history.records.rbegin()->second); });
  }
}

/// A run that did not come to its end, or whose sizes theory refuses, has no such number.
double share_of_alignment(const TrainedCell& run) {
  const auto& last = run.history.records.rbegin()->second;
  if (!last.contains("profiled_second_moment")) return std::numeric_limits<double>::quiet_NaN();
  return from_alignment(run);
}

void add_scales(Ledger& ledger) {
  for (const auto& [placement, letter] : {std::pair<std::string, std::string>{"pre", "c"}, {"peri", "d"}}) {
    ledger.add(
        {"T15" + letter, "growth",
         fmt::format("training enlarges {}-LN's stream beyond random weights with the same scales",
                     placement == "pre" ? "Pre" : "Peri"),
         "ln(second moment at the top / that of random weights with the trained rows', columns' and gains' sizes)"},
        {placement}, [](const auto& r) { return share_of_alignment(*r[0]); });
  }
}

void add_gradients(Ledger& ledger) {
  const std::string norm = "mean ln of the last layer's gradient norm, second half: ";
  ledger.larger({"G6a", "5", "the last layer's gradient is larger in Post-LN than in Pre-LN", norm + "Post - Pre"},
                "post", "pre", last_layer_gradient);
  ledger.larger({"G6b", "5", "the last layer's gradient is larger in Pre-LN than in Peri-LN", norm + "Pre - Peri"},
                "pre", "peri", last_layer_gradient);
  const std::string slope_words = "slope of ln of a layer's squared gradient over depth";
  ledger.add({"G7a", "7", "trained Post-LN's gradients shrink towards the input", slope_words + " at the end"},
             {"post"}, [](const auto& r) { return gradient_slope(*r[0], true); });
  ledger.add({"G7b", "7", "Pre-LN's gradients grow towards the input at initialisation",
              "minus the " + slope_words + " at initialisation"},
             {"pre"}, [](const auto& r) { return -gradient_slope(*r[0], false); });
  ledger.add(
      {"G7c", "7", "Peri-LN's gradients are more uniform than Pre-LN's at initialisation", "|slope|: Pre - Peri"},
      {"pre", "peri"},
      [](const auto& r) { return std::abs(gradient_slope(*r[0], false)) - std::abs(gradient_slope(*r[1], false)); });
  ledger.add({"G7d", "7", "trained Peri-LN's gradients are more uniform than Post-LN's", "|slope|: Post - Peri"},
             {"post", "peri"}, [](const auto& r) {
               return std::abs(gradient_slope(*r[0], true)) - std::abs(gradient_slope(*r[1], true));
             });
  ledger.larger({"G12", "4", "Pre-LN's loss and gradient spike more often than Peri-LN's",
                 "events in which the logarithm of loss or gradient norm spikes: Pre - Peri"},
                "pre", "peri", spikes);
}

/// Adds the claim that two groups end alike: their final losses differ by less than half of the difference between
/// Pre-LN's and Peri-LN's.
void add_alike(Ledger& ledger, const std::string& id, const std::string& exhibit, const std::string& statement,
               const std::string& first, const std::string& second) {
  ledger.alike({id, exhibit, statement,
                fmt::format("final loss: |Pre - Peri| / 2 less |{} - {}|, of means over seeds", first, second)},
               {"pre", "peri", first, second}, [](const auto& groups) -> Ledger::Differences {
                 return {.large = differences(groups[0]->cells, groups[1]->cells, final_loss),
                         .small = differences(groups[2]->cells, groups[3]->cells, final_loss)};
               });
}

void add_spread(Ledger& ledger) {
  ledger.spreads({"R9", "4", "Pre-LN's final loss spreads over seeds more than twice as much as Peri-LN's",
                  "(final loss - its mean over seeds)^2: Pre - 4 Peri"},
                 "pre", "peri", 2.0, final_loss);
}

void add_outcomes(Ledger& ledger) {
  const std::string loss = "final loss: ";
  ledger.larger({"R1a", "table5", "at one learning rate A+C ends above Peri-LN", loss + "A+C - Peri"}, "a+c", "peri",
                final_loss);
  ledger.larger({"R1b", "table5", "at one learning rate Post-LN ends above A+C", loss + "Post - A+C"}, "post", "a+c",
                final_loss);
  ledger.larger({"R1c", "table5", "at one learning rate B-only ends above Peri-LN (the paper: it diverges)",
                 loss + "B-only - Peri"},
                "b-only", "peri", final_loss);
  ledger.larger({"R1d", "table5", "at one learning rate Pre-LN ends above Peri-LN", loss + "Pre - Peri"}, "pre", "peri",
                final_loss);
  ledger.add({"R11", "warmup", "Pre-LN reaches Post-LN's final loss in fewer steps",
              "steps of Post-LN to its own final loss, less those of Pre-LN to the same"},
             {"post", "pre"}, [](const auto& r) {
               const double target = final_loss(*r[0]);
               return steps_to_loss(*r[0], target) - steps_to_loss(*r[1], target);
             });
  ledger.larger({"R6a", "8", "with output gains frozen at 1 Peri-LN still ends below Pre-LN", loss + "Pre - frozen"},
                "pre", "peri, output gains frozen", final_loss);
  ledger.larger({"R6b", "8", "learnable output gains are better than frozen ones", loss + "frozen - Peri"},
                "peri, output gains frozen", "peri", final_loss);
  ledger.larger({"R1e", "20", "at one learning rate and with an embedding norm each, Pre-LN ends above Peri-LN",
                 loss + "Pre - Peri, both with an embedding norm"},
                "pre, embedding norm", "peri, embedding norm", final_loss);
  ledger.larger({"R7b", "20", "an embedding norm helps Peri-LN", loss + "without - with"}, "peri",
                "peri, embedding norm", final_loss);
  ledger.larger({"R2a", "32", "QK-norm helps Peri-LN", loss + "without - with"}, "peri", "peri, QK-norm", final_loss);
  add_alike(ledger, "R2b", "32", "OLMo 2's placement ends about where Peri-LN with QK-norm does", "peri, QK-norm",
            "b-only, QK-norm (OLMo 2)");
  add_alike(ledger, "R7a", "19", "LayerNorm instead of RMSNorm changes Peri-LN's loss little", "peri",
            "peri, LayerNorm");
}

void add_decay_and_init(Ledger& ledger) {
  ledger.larger({"F13a", "10", "stronger weight decay lowers Pre-LN's variance",
                 "ln(variance at the end) at the top: shared weight decay - 0.33"},
                "pre", "pre, weight decay 0.33", final_variance);
  ledger.add({"F13b", "10", "stronger weight decay lowers Peri-LN's variance less than Pre-LN's",
              "ln(variance at the end) at the top, shared weight decay - 0.33: Pre - Peri"},
             {"pre", "pre, weight decay 0.33", "peri", "peri, weight decay 0.33"}, [](const auto& r) {
               return final_variance(*r[0]) - final_variance(*r[1]) - final_variance(*r[2]) + final_variance(*r[3]);
             });
  const auto over_init = [](const auto& r, std::size_t first) {
    return final_variance(*r[first]) - final_variance(*r[first + 1]);
  };
  ledger.add({"F12", "10", "Pre-LN's final variance follows that of the initialisation more than Peri-LN's",
              "ln(variance at the end, weights of 10/d over those of 1/(10d)): Pre - Peri"},
             {"pre, variance 10/d", "pre, variance 0.1/d", "peri, variance 10/d", "peri, variance 0.1/d"},
             [&](const auto& r) { return over_init(r, 0) - over_init(r, 2); });
  for (const std::string what : {"weight decay 0", "weight decay 0.0033", "weight decay 0.33"}) {
    ledger.larger({"R4 " + what.substr(13), "10", "Peri-LN ends below Pre-LN at " + what, "final loss: Pre - Peri"},
                  "pre, " + what, "peri, " + what, final_loss);
  }
  for (const std::string what : {"variance 10/d", "variance 2/d", "variance 1/d", "variance 0.1/d", "Xavier"}) {
    ledger.larger({"R5 " + what, "10", "Peri-LN ends below Pre-LN at " + what, "final loss: Pre - Peri"},
                  "pre, " + what, "peri, " + what, final_loss);
  }
  ledger.larger({"R10a", "warmup", "without warm-up Post-LN ends higher", "final loss of Post-LN: without - with"},
                "post, no warm-up, rate x 1", "post", final_loss);
  ledger.add({"R10b", "warmup", "Post-LN loses more without warm-up than Pre-LN",
              "final loss without less with warm-up: Post - Pre"},
             {"post, no warm-up, rate x 1", "post", "pre, no warm-up, rate x 1", "pre"}, [](const auto& r) {
               return final_loss(*r[0]) - final_loss(*r[1]) - final_loss(*r[2]) + final_loss(*r[3]);
             });
}

}  // namespace

std::vector<judge::SignClaim> judge_claims(const std::vector<GroupRuns>& runs) {
  Ledger ledger(runs);
  add_forward(ledger);
  add_scales(ledger);
  add_gradients(ledger);
  add_spread(ledger);
  add_outcomes(ledger);
  add_rate_claims(ledger);
  add_decay_and_init(ledger);
  std::vector<judge::SignClaim> claims = ledger.take();
  judge::correct_for_number(claims);
  return claims;
}

}  // namespace periscope::reproduce
