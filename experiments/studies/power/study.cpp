#include "experiments/engine/study/study.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/studies/power/power.h"

namespace periscope::power {
namespace {

const std::string shipped_list = "experiments/configs/power.toml";

struct PowerFlags {
  std::optional<int> master_seeds;
};
const std::vector<study::Flag<PowerFlags>>& flags() {
  static const std::vector<study::Flag<PowerFlags>> all{
      {"master-seeds", &PowerFlags::master_seeds,
       "Instead: how often is the right theory rejected? Runs that many seeds; finished ones stay in the cache",
       from_to(1, 1'000'000)}};
  return all;
}

const config::RunOptions& options_of(const PowerList& list) { return list.configs.front().config.run; }

stacks::MemoryEstimate memory_of(const PowerList& list) {
  const int threads = study::threads_of(options_of(list));
  stacks::MemoryEstimate all;
  const auto add = [&](const stacks::LadderConfig& config, bool measures) {
    all.then(stacks::stacks_memory(config, config.theory.finite_width.value_or(true), measures, threads));
  };
  for (const PowerConfig& listed : list.configs) {
    add(listed.config, true);
    if (!listed.ladder) continue;
    all.then(stacks::widths_memory(listed.config, listed.config.widths, "ladder.widths", listed.config.width_seeds,
                                   threads));
  }
  for (const WrongTheory& theory : list.theories) add(theory.overridden, false);
  return all;
}

/// Returns a configuration of the list with what `request` sets on top of it, and with what --theory-set overrides,
/// `overridden`.
stacks::LadderConfig load_listed(const study::Request& request, const PowerConfig& config,
                                 const std::vector<std::string>& overridden) {
  study::Request own = request;
  own.file = config.file;
  own.entries = config.settings;
  own.entries.insert(own.entries.end(), request.entries.begin(), request.entries.end());
  own.theory_settings = overridden;
  return own.load(stacks::ladder_section);
}

study::Job power_job(const std::shared_ptr<const PowerList>& run) {
  return {.file = "power",
          .run_options = options_of(*run),
          .resolved = resolved(*run),
          .memory = memory_of(*run),
          .run = [run](stacks::Progress& progress) -> study::Outcome {
            const PowerResult result = power::run(*run, progress);
            if (result.stopped_early) return {.stopped_early = true};
            return {.data = dataset_of(result),
                    .table = table(result),
                    .code = study::code_of(all_as_they_should_be(result))};
          }};
}

study::Job false_alarm_job(const std::shared_ptr<const PowerList>& run, int master_seeds) {
  return {.file = "",
          .run_options = options_of(*run),
          .resolved = resolved(*run),
          .memory = memory_of(*run),
          .unskippable = "--master-seeds: finished runs are cached anyhow",
          .run = [run, master_seeds](stacks::Progress& progress) -> study::Outcome {
            const FalseAlarmResult result = count_false_alarms(*run, master_seeds, progress);
            if (result.stopped_early) {
              progress.say(false_alarm_table(result));
              return {.stopped_early = true};
            }
            return {.document = false_alarm_json(result),
                    .table = false_alarm_table(result),
                    .code = study::code_of(!too_many(result))};
          }};
}

study::Job resolve(const study::Request& request) {
  const auto own = study::read_flags(flags(), request.flags);
  if (request.file.empty()) throw ConfigError("--config: expected a list of wrong theories, as " + shipped_list);
  const auto run = std::make_shared<const PowerList>(
      load_power(request.file, [&](const PowerConfig& config, const std::vector<std::string>& overridden) {
        return load_listed(request, config, overridden);
      }));
  return own.master_seeds ? false_alarm_job(run, *own.master_seeds) : power_job(run);
}

}  // namespace

std::vector<study::Study> studies() {
  return {{.name = "power",
           .question = "Wrong theories against measurements: which configuration rejects which?",
           .example = "power",
           .takes = "about 36 minutes on 2 cores",
           .configuration = shipped_list,
           .sections = {config::any_section(stacks::ladder_section)},
           .flags = flag_texts(flags()),
           .schema = &schema(),
           .skips = true,
           .shared_keys = {"model.", "init.", "input.", "theory.", "agreement.", "run.backward", "run.weights",
                           "run.paired"},
           .resolve = resolve}};
}

}  // namespace periscope::power
