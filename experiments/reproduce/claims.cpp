#include "experiments/reproduce/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "experiments/reproduce/depth_fit.h"
#include "experiments/reproduce/readings.h"
#include "sim/measure/running_moments.h"

namespace periscope::reproduce {
namespace {

using Reading = std::function<double(const TrainedCell&)>;
using Values = std::vector<double>;

constexpr double level = 0.05;

/// Writes the list of claims, each from the groups that it needs.
class Ledger {
 public:
  explicit Ledger(const std::vector<GroupRuns>& runs) : runs_(runs) {}

  /// `values` gets one number per seed from the runs of the groups `needed`, in their order.
  void add(const std::string& id, const std::string& exhibit, const std::string& statement, const std::string& quantity,
           const std::vector<std::string>& needed,
           const std::function<double(const std::vector<const TrainedCell*>&)>& value, const std::string& remark = "") {
    Claim claim{
        .id = id, .exhibit = exhibit, .statement = statement, .quantity = quantity, .values = {}, .reason = remark};
    std::vector<const GroupRuns*> groups;
    std::string missing;
    for (const std::string& name : needed) {
      const auto it = std::ranges::find(runs_, name, [](const GroupRuns& r) { return r.group.name; });
      if (it == runs_.end())
        missing += (missing.empty() ? "" : "; ") + name;
      else
        groups.push_back(&*it);
    }
    if (!missing.empty()) {
      claim.reason = "no runs of " + missing;
    } else {
      for (std::size_t seed = 0; seed < groups.front()->cells.size(); ++seed) {
        std::vector<const TrainedCell*> twins;
        for (const GroupRuns* group : groups) twins.push_back(&group->cells[seed]);
        claim.values.push_back(value(twins));
      }
      test_positive(claim);
    }
    claims_.push_back(std::move(claim));
  }
  /// That `reading` is larger in the first group than in the second.
  void larger(const std::string& id, const std::string& exhibit, const std::string& statement,
              const std::string& quantity, const std::string& first, const std::string& second, const Reading& reading,
              const std::string& remark = "") {
    add(
        id, exhibit, statement, quantity, {first, second},
        [&](const auto& twins) { return reading(*twins[0]) - reading(*twins[1]); }, remark);
  }
  [[nodiscard]] std::vector<Claim> take() { return std::move(claims_); }
  [[nodiscard]] const std::vector<GroupRuns>& runs() const { return runs_; }

 private:
  const std::vector<GroupRuns>& runs_;
  std::vector<Claim> claims_;
};

/// How much better an exponential describes the variance over depth at the end than a straight line or a parabola.
double exponential_lead(const TrainedCell& run) {
  const auto fits = fit_growth(at_end(run, "variance.x_out"));
  return std::min(fits[0].criterion, fits[1].criterion) - fits[2].criterion;
}

double gradient_slope(const TrainedCell& run, bool end) {
  const auto& records = run.history.records;
  return slope_over_layers(layer_gradients(end ? records.rbegin()->second : records.begin()->second));
}

void add_forward(Ledger& ledger) {
  ledger.larger("F4a", "1", "in training Pre-LN's variance surges and Peri-LN's stays moderate",
                "ln(variance at the end / at initialisation) at the top: Pre - Peri", "pre", "peri", variance_surge);
  ledger.add("F4b", "1", "after training Pre-LN's variance grows exponentially with depth",
             "AICc of the better of linear and quadratic, less that of exponential", {"pre"},
             [](const auto& r) { return exponential_lead(*r[0]); });
  ledger.larger("F9a", "11", "Pre-LN's largest activations are larger than Peri-LN's",
                "ln(largest |x| of the stream at the end): Pre - Peri", "pre", "peri", largest_activation);
  ledger.add("F9b", "11", "they are at least ten times as large", "the same, less ln 10", {"pre", "peri"},
             [](const auto& r) { return largest_activation(*r[0]) - largest_activation(*r[1]) - std::log(10.0); });
  ledger.add("F9c", "11", "Pre-LN passes FP16's largest number", "ln(largest |x| of any signal / 65504)", {"pre"},
             [](const auto& r) { return std::log(std::ranges::max(at_end(*r[0], "largest")) / 65504.0); });
  ledger.larger("F10", "9", "after training Pre-LN's states are more alike from depth to depth than Peri-LN's",
                "mean angular distance of neighbouring depths: Peri - Pre", "peri", "pre",
                [](const TrainedCell& run) { return mean_step(at_end(run, "angular_distance")); });
  ledger.add("F11", "9", "the gains of Peri-LN's output norms rise with depth",
             "slope of their mean over sublayers, times 2L", {"peri"}, [](const auto& r) {
               const Values& gains = at_end(*r[0], "gain_mean.norm_b");
               return slope(gains) * static_cast<double>(gains.size());
             });
  for (const auto& [placement, letter] : {std::pair<std::string, std::string>{"pre", "a"}, {"peri", "b"}}) {
    ledger.add("T15" + letter, "growth",
               fmt::format("after training Eq. 4 misses growth of {}-LN's stream: branches align with it",
                           placement == "pre" ? "Pre" : "Peri"),
               "ln(second moment at the top / the same without the cosine term)", {placement},
               [](const auto& r) { return cosine_share(r[0]->history.records.rbegin()->second); });
  }
}

/// A run that did not come to its end, or whose scales theory refuses, has no such number.
double share_of_alignment(const TrainedCell& run) {
  const auto& last = run.history.records.rbegin()->second;
  if (!last.contains("scaled_second_moment")) return std::numeric_limits<double>::quiet_NaN();
  return from_alignment(run);
}

void add_scales(Ledger& ledger) {
  for (const auto& [placement, letter] : {std::pair<std::string, std::string>{"pre", "c"}, {"peri", "d"}}) {
    ledger.add("T15" + letter, "growth",
               fmt::format("the stream of trained {}-LN is larger than that of random weights of the same scales",
                           placement == "pre" ? "Pre" : "Peri"),
               "ln(second moment at the top / that of random weights with the trained scales and gains)", {placement},
               [](const auto& r) { return share_of_alignment(*r[0]); });
  }
}

void add_gradients(Ledger& ledger) {
  const std::string norm = "mean ln of the last layer's gradient norm, second half: ";
  ledger.larger("G6a", "5", "the last layer's gradient is larger in Post-LN than in Pre-LN", norm + "Post - Pre",
                "post", "pre", last_layer_gradient);
  ledger.larger("G6b", "5", "the last layer's gradient is larger in Pre-LN than in Peri-LN", norm + "Pre - Peri", "pre",
                "peri", last_layer_gradient);
  const std::string slope_words = "slope of ln of a layer's squared gradient over depth";
  ledger.add("G7a", "7", "trained Post-LN's gradients shrink towards the input", slope_words + " at the end", {"post"},
             [](const auto& r) { return gradient_slope(*r[0], true); });
  ledger.add("G7b", "7", "Pre-LN's gradients grow towards the input at initialisation",
             "minus the " + slope_words + " at initialisation", {"pre"},
             [](const auto& r) { return -gradient_slope(*r[0], false); });
  ledger.add("G7c", "7", "Peri-LN's gradients are more uniform than Pre-LN's at initialisation", "|slope|: Pre - Peri",
             {"pre", "peri"}, [](const auto& r) {
               return std::abs(gradient_slope(*r[0], false)) - std::abs(gradient_slope(*r[1], false));
             });
  ledger.add("G7d", "7", "trained Peri-LN's gradients are more uniform than Post-LN's", "|slope|: Post - Peri",
             {"post", "peri"}, [](const auto& r) {
               return std::abs(gradient_slope(*r[0], true)) - std::abs(gradient_slope(*r[1], true));
             });
  ledger.larger("G12", "4", "Pre-LN's loss and gradient spike more often than Peri-LN's",
                "robust spikes of loss and gradient norm: Pre - Peri", "pre", "peri", spikes);
}

void add_outcomes(Ledger& ledger) {
  const std::string loss = "final loss: ";
  ledger.larger("R1a", "table5", "at one learning rate A+C ends above Peri-LN", loss + "A+C - Peri", "a+c", "peri",
                final_loss);
  ledger.larger("R1b", "table5", "and Post-LN above A+C", loss + "Post - A+C", "post", "a+c", final_loss);
  ledger.larger("R1c", "table5", "B-only ends above Peri-LN (the paper: it diverges)", loss + "B-only - Peri", "b-only",
                "peri", final_loss);
  ledger.larger("R1d", "table5", "Pre-LN ends above Peri-LN", loss + "Pre - Peri", "pre", "peri", final_loss);
  ledger.add("R11", "warmup", "Pre-LN reaches Post-LN's final loss in fewer steps",
             "steps of Post-LN to its own final loss, less those of Pre-LN to the same", {"post", "pre"},
             [](const auto& r) {
               const double target = final_loss(*r[0]);
               return steps_to_loss(*r[0], target) - steps_to_loss(*r[1], target);
             });
  ledger.larger("R6a", "8", "with output gains frozen at 1 Peri-LN still ends below Pre-LN", loss + "Pre - frozen",
                "pre", "peri, output gains frozen", final_loss);
  ledger.larger("R6b", "8", "learnable output gains are better", loss + "frozen - Peri", "peri, output gains frozen",
                "peri", final_loss);
  ledger.larger("R7", "20", "an embedding norm helps Peri-LN", loss + "without - with", "peri", "peri, embedding norm",
                final_loss);
  ledger.larger("R2", "32", "QK-norm helps Peri-LN", loss + "without - with", "peri", "peri, QK-norm", final_loss);
}

/// The final loss of one seed at the best of the rates of a placement's groups, those with the prefix.
void add_best_rate(Ledger& ledger, const std::string& id, const std::string& exhibit, const std::string& placement,
                   const std::string& prefix, bool with_base) {
  const auto groups_with = [&](const std::string& name) {
    std::vector<std::string> names;
    for (const GroupRuns& runs : ledger.runs()) {
      const std::string& group = runs.group.name;
      if (group.starts_with(name + ", " + prefix) || (with_base && group == name)) names.push_back(group);
    }
    return names;
  };
  const std::vector<std::string> others = groups_with(placement);
  const std::vector<std::string> peri = groups_with("peri");
  const bool swept = peri.size() > 1 && others.size() > 1;
  std::vector<std::string> needed = others;
  needed.insert(needed.end(), peri.begin(), peri.end());
  if (!swept) needed = {placement + ", " + prefix, "peri, " + prefix};
  const std::size_t first = others.size();
  ledger.add(id, exhibit, fmt::format("at the best learning rate of each, Peri-LN ends below {}", placement),
             fmt::format("lowest final loss over rates: {} - peri", placement), needed, [first](const auto& r) {
               const auto lowest = [&](auto begin, auto end) {
                 double least = std::numeric_limits<double>::infinity();
                 for (auto it = begin; it != end; ++it) least = std::min(least, final_loss(**it));
                 return least;
               };
               const auto middle = r.begin() + static_cast<std::ptrdiff_t>(first);
               return lowest(r.begin(), middle) - lowest(middle, r.end());
             });
}

void add_sweeps(Ledger& ledger) {
  add_best_rate(ledger, "R3a", "3", "pre", "rate x ", true);
  add_best_rate(ledger, "R3b", "3", "post", "rate x ", true);
  add_best_rate(ledger, "R3c", "16", "pre", "warm-up x 3, ", false);
  add_best_rate(ledger, "R3d", "17", "pre", "half the length, ", false);
  add_best_rate(ledger, "R8", "35", "pre", "SGD, ", false);
  ledger.larger("F13a", "10", "stronger weight decay lowers Pre-LN's variance",
                "ln(variance at the end) at the top: decay 0.033 - decay 0.33", "pre", "pre, weight decay 0.33",
                final_variance);
  ledger.add("F13b", "10", "and Peri-LN's less", "that of Pre-LN, less that of Peri-LN",
             {"pre", "pre, weight decay 0.33", "peri", "peri, weight decay 0.33"}, [](const auto& r) {
               return final_variance(*r[0]) - final_variance(*r[1]) - final_variance(*r[2]) + final_variance(*r[3]);
             });
  const auto over_init = [](const auto& r, std::size_t first) {
    return final_variance(*r[first]) - final_variance(*r[first + 1]);
  };
  ledger.add("F12", "10", "Pre-LN's final variance follows that of the initialisation more than Peri-LN's",
             "ln(variance at the end, weights of 10/d over those of 1/(10d)): Pre - Peri",
             {"pre, variance 10/d", "pre, variance 0.1/d", "peri, variance 10/d", "peri, variance 0.1/d"},
             [&](const auto& r) { return over_init(r, 0) - over_init(r, 2); });
  for (const std::string what : {"weight decay 0", "weight decay 0.0033", "weight decay 0.33"}) {
    ledger.larger("R4 " + what.substr(13), "10", "Peri-LN ends below Pre-LN at " + what, "final loss: Pre - Peri",
                  "pre, " + what, "peri, " + what, final_loss);
  }
  for (const std::string what : {"variance 10/d", "variance 2/d", "variance 1/d", "variance 0.1/d", "Xavier"}) {
    ledger.larger("R5 " + what, "10", "Peri-LN ends below Pre-LN at " + what, "final loss: Pre - Peri", "pre, " + what,
                  "peri, " + what, final_loss);
  }
  ledger.add(
      "R10", "warmup", "Post-LN needs the warm-up, Pre-LN does not", "final loss without less with warm-up: Post - Pre",
      {"post, no warm-up, rate x 1", "post", "pre, no warm-up, rate x 1", "pre"},
      [](const auto& r) { return final_loss(*r[0]) - final_loss(*r[1]) - final_loss(*r[2]) + final_loss(*r[3]); });
}

}  // namespace

void test_positive(Claim& claim) {
  RunningMoments moments;
  for (const double value : claim.values) moments.add(value);
  claim.mean = moments.mean();
  claim.standard_error = moments.standard_error();
  if (claim.values.size() < 2 || !std::isfinite(claim.mean) || !(claim.standard_error > 0.0)) {
    claim.verdict = ClaimVerdict::not_shown;
    claim.p = claim.seen = std::numeric_limits<double>::quiet_NaN();
    claim.reason += claim.values.size() < 2 ? "one seed tells no spread" : "no spread over seeds, or not finite";
    return;
  }
  const boost::math::students_t law(static_cast<double>(claim.values.size() - 1));
  claim.p = boost::math::cdf(boost::math::complement(law, claim.mean / claim.standard_error));
  const double critical = boost::math::quantile(boost::math::complement(law, level));
  claim.seen = 2.0 * critical * claim.standard_error;  // the level and the power are both 95 %
  claim.verdict = claim.p <= level         ? ClaimVerdict::holds
                  : claim.p >= 1.0 - level ? ClaimVerdict::fails
                                           : ClaimVerdict::not_shown;
}

std::vector<Claim> judge_claims(const std::vector<GroupRuns>& runs) {
  Ledger ledger(runs);
  add_forward(ledger);
  add_scales(ledger);
  add_gradients(ledger);
  add_outcomes(ledger);
  add_sweeps(ledger);
  return ledger.take();
}

}  // namespace periscope::reproduce
