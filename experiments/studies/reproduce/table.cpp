#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "experiments/engine/judge/depth_fit.h"
#include "experiments/engine/judge/seed_rows.h"
#include "experiments/engine/result/text_table.h"
#include "experiments/engine/run/regime.h"
#include "experiments/studies/reproduce/reproduce.h"
#include "sim/base/mapped.h"

namespace periscope::reproduce {
namespace {

using dataset::number;

/// Returns "linear (2, rms 2.2 %), no law fits (1, rms 14 %)": per growth law, the number of seeds with this law and
/// their largest rms misfit of ln(variance). If several laws or none fit, the smallest misfit counts.
std::string growth_words(const std::vector<TrainingResult>& tasks) {
  std::map<std::string, std::pair<int, double>> by_law;
  for (const TrainingResult& task : tasks) {
    const judge::GrowthFit fit = judge::fit_growth(last_record(task).at("variance.x_out"));
    const std::vector<judge::GrowthLaw> laws = judge::likely_laws(fit);
    const std::vector<double> misfits = mapped(fit.laws, &judge::DepthFit::rms_residual);
    const double misfit =
        laws.size() == 1 ? misfits[static_cast<std::size_t>(laws.front())] : std::ranges::min(misfits);
    if (!std::isfinite(misfit)) continue;  // too few depths
    auto& [count, largest] = by_law[judge::likely_laws_in_words(fit)];
    ++count;
    largest = std::max(largest, misfit);
  }
  std::vector<std::string> all;
  for (const auto& [law, seeds] : by_law) {
    all.push_back(fmt::format("{} ({}, rms {:.2g} %)", law, seeds.first, 100.0 * seeds.second));
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

/// Returns how many claims were tested, were decided, and would be decided by chance, and which claims are decided with
/// Holm's correction; "" if no claim was tested.
std::string claims_summary(const std::vector<judge::SignClaim>& claims) {
  std::size_t tested = 0, decided = 0;
  std::vector<std::string> together;
  for (const judge::SignClaim& claim : claims) {
    if (std::isnan(claim.p) || claim.verdict == judge::ClaimVerdict::not_run) continue;
    ++tested;
    if (claim.verdict == judge::ClaimVerdict::not_shown) continue;
    ++decided;
    if (claim.holm <= judge::sign_claim_level) together.push_back(claim.id);
  }
  if (tested == 0) return "";
  return fmt::format(
      "{} claims tested one by one, {} decided; if every number were 0, up to {:.1f} would be decided by chance (5 % "
      "on each side). Decided with Holm's correction for all claims (p of all at most 5 %): {}.\n",
      tested, decided, 2.0 * judge::sign_claim_level * static_cast<double>(tested),
      together.empty() ? "none" : fmt::format("{}", fmt::join(together, ", ")));
}

/// Returns the parts of a claim's regime that differ from the regime of the run, such as " [rate 0.001 to 0.009]".
std::string own_regime(const judge::SignClaim& claim, const std::vector<std::string>& shared) {
  std::vector<std::string> own;
  std::ranges::copy_if(claim.regime, std::back_inserter(own),
                       [&](const std::string& part) { return std::ranges::find(shared, part) == shared.end(); });
  return own.empty() ? "" : fmt::format(" [{}]", stacks::in_one_line(own));
}

/// Returns a table with one row per base group: the stream's growth in training and its two splits; "" without data.
std::string growth_by_group(const std::vector<GroupRuns>& all) {
  std::vector<std::string> titles{"growth of the stream, nat", ">whole", ">cosine"};
  std::vector<Metric> metrics{[](const TrainingResult& run) {
                                return std::log(last_record(run).at("second_moment.x_out").back() /
                                                first_record(run).at("second_moment.x_out").back());
                              },
                              [](const TrainingResult& run) { return cosine_share(last_record(run)); }};
  for (const GrowthPart& part : growth_parts()) {
    titles.push_back(">" + part.title);
    metrics.push_back(part.read);
  }
  dataset::TextTable parts(titles);
  bool any = false;
  for (const GroupRuns& runs : all) {
    if (runs.group.study != "base") continue;
    std::vector<TrainingResult> split;
    std::ranges::copy_if(runs.tasks, std::back_inserter(split),
                         [](const TrainingResult& run) { return last_record(run).contains("rescaled_second_moment"); });
    any = any || !split.empty();
    std::vector<std::string> row{runs.group.name};
    for (const Metric& read : metrics) {
      const judge::Estimate mean = judge::mean_over_seeds(mapped(split, read));
      row.push_back(dataset::with_error(mean.value, mean.error, "{:.2f}", "{:.2f}"));
    }
    parts.add(row);
  }
  if (!any) return "";
  return parts.text() +
         "whole: ln(second moment at the top of the stack after / before training), mean over seeds; it equals sizes "
         "alone + inside + alignment, and directions alone + sizes. Sizes: root mean squares of matrices, and gains; "
         "alone: growth of random matrices of these sizes. Inside: root mean squares of rows and columns. Alignment: "
         "the rest. Directions: trained matrices, each at its size before training. Interaction: growth that sizes add "
         "to trained directions minus growth that they add to random ones. Cosine: growth that Eq. 4 of the Peri-LN "
         "paper omits.\n\n";
}

}  // namespace

std::string table(const ReproduceConfig& config, const ReproduceResult& result) {
  dataset::TextTable groups({"group", ">final loss", ">variance at the end", "over depth", ">spikes", ">diverged"});
  for (const GroupRuns& runs : result.groups) {
    const auto mean = [&](const Metric& read) { return judge::mean_over_seeds(mapped(runs.tasks, read)); };
    const judge::Estimate loss = mean(final_loss);
    const auto diverged = std::ranges::count_if(
        runs.tasks, [](const TrainingResult& task) { return training::divergence_step(task.history).has_value(); });
    groups.add({runs.group.name, dataset::with_error(loss.value, loss.error, "{:.4f}", "{:.4f}"),
                fmt::format("{:.3g}", std::exp(mean(final_variance).value)), growth_words(runs.tasks),
                fmt::format("{:.1f}", mean(spikes).value), fmt::format("{} of {}", diverged, runs.tasks.size())});
  }
  dataset::TextTable claims({"claim", "verdict", ">mean over seeds", ">p", ">p of all", ">detectable", "statement"});
  const std::vector<std::string> regime = regime_of(config);
  std::size_t not_run = 0;
  for (const judge::SignClaim& claim : result.claims) {
    if (claim.verdict == judge::ClaimVerdict::not_run) {
      ++not_run;
      continue;
    }
    claims.add({claim.id, std::string(judge::name_of(claim.verdict)),
                dataset::with_error(claim.mean.value, claim.mean.error, "{:.3g}", "{:.2g}"), number(claim.p, "{:.3f}"),
                number(claim.holm, "{:.3f}"), number(claim.detectable, "{:.2g}"),
                claim.statement + own_regime(claim, regime)});
  }
  std::string text = groups.text() + "\n" + growth_by_group(result.groups) + claims.text();
  text += fmt::format(
      "in the regime {}; in brackets: settings of a claim's runs that differ from it.\neach claim states that one "
      "number is positive, tested over {} seeds (twins), one-sided at 5 %; fails: the opposite is significant; "
      "detectable: smallest true mean that the test finds with 95 % probability, given the seeds' spread.\n",
      stacks::in_one_line(regime), config.run.seeds);
  for (const judge::SignClaim& claim : result.claims) {
    if (claim.verdict == judge::ClaimVerdict::not_testable)
      text += fmt::format("{} cannot be tested here: {}.\n", claim.id, claim.reason);
  }
  text += claims_summary(result.claims);
  if (not_run > 0)
    text += fmt::format("{} claims not run{}.\n", not_run,
                        !config.figures.empty() ? ": they need the runs of other figures"
                        : config.quick          ? " in --quick"
                                                : "");
  return text;
}

}  // namespace periscope::reproduce
