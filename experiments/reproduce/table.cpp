#include <fmt/format.h>

#include <cmath>

#include "experiments/reproduce/readings.h"
#include "experiments/reproduce/reproduce.h"
#include "experiments/results/text_table.h"
#include "sim/measure/running_moments.h"

namespace periscope::reproduce {

std::string table(const ReproduceConfig& config, const ReproduceResult& result) {
  TextTable groups({"group", ">final loss", ">variance at the end", ">spikes", ">diverged"});
  for (const GroupRuns& runs : result.groups) {
    RunningMoments loss, variance, spike;
    int diverged = 0;
    for (const TrainedCell& cell : runs.cells) {
      loss.add(final_loss(cell));
      variance.add(final_variance(cell));
      spike.add(spikes(cell));
      if (train::divergence_step(cell.history)) ++diverged;
    }
    groups.add({runs.group.name, fmt::format("{:.4f} ± {:.4f}", loss.mean(), loss.standard_error()),
                fmt::format("{:.3g}", std::exp(variance.mean())), fmt::format("{:.1f}", spike.mean()),
                fmt::format("{} of {}", diverged, runs.cells.size())});
  }
  TextTable claims({"claim", "verdict", ">mean over seeds", ">p", ">would be found", "statement"});
  std::size_t not_run = 0;
  for (const Claim& claim : result.claims) {
    if (claim.verdict == ClaimVerdict::not_run) {
      ++not_run;
      continue;
    }
    claims.add({claim.id, std::string(claim_verdict_names[static_cast<std::size_t>(claim.verdict)]),
                fmt::format("{:.3g} ± {:.2g}", claim.mean, claim.standard_error), fmt::format("{:.3f}", claim.p),
                fmt::format("{:.2g}", claim.detectable), claim.statement});
  }
  std::string text = groups.text() + "\n" + claims.text();
  text += fmt::format(
      "each claim is one number that it says is positive, over {} seeds (twins): one-sided t test at 5 %; fails: the "
      "opposite is significant.\n",
      config.run.seeds);
  if (not_run > 0)
    text += fmt::format("{} claims not run{}.\n", not_run,
                        !config.figures.empty() ? ": they need the runs of other figures"
                        : config.quick          ? " in --quick"
                                                : "");
  return text;
}

}  // namespace periscope::reproduce
