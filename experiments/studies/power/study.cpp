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
const std::vector<study::Flag<PowerFlags>> flags{
    {"master-seeds", &PowerFlags::master_seeds,
     "Instead, count how often the correct theory is rejected over this number of seeds; finished runs are cached",
     from_to(1, 1'000'000)}};

stacks::MemoryEstimate memory_of(const PowerList& list) {
  const int threads = study::threads_of(list.configs.front().config.run);
  stacks::MemoryEstimate all;
  const auto add = [&](const stacks::LadderConfig& config, bool measures) {
    all.add_phase(stacks::stacks_memory(config, config.theory.finite_width.value_or(true), measures, threads));
  };
  for (const PowerConfig& listed : list.configs) {
    add(listed.config, true);
    if (!listed.ladder) continue;
    all.add_phase(stacks::widths_memory(listed.config, listed.config.widths, listed.config.width_seeds, threads));
  }
  for (const WrongTheory& theory : list.theories) add(theory.overridden, false);
  return all;
}

study::Outcome compare(const PowerList& list, stacks::Progress& progress) {
  const PowerResult result = power::run(list, progress);
  return {.data = dataset_of(result), .table = table(result), .code = study::code_of(result.all_expected())};
}

study::Outcome count(const PowerList& list, int master_seeds, stacks::Progress& progress) {
  nlohmann::ordered_json document;
  try {
    count_false_alarms(list, master_seeds, progress, document);
  } catch (const stacks::Stopped&) {
    progress.say(false_alarm_table(document));
    throw;
  }
  return {.document = document, .table = false_alarm_table(document), .code = study::code_of(!too_many(document))};
}

study::Job resolve(const study::Request& request) {
  const auto own = study::read_flags(flags, request.flags);
  if (request.file.empty()) throw ConfigError("--config: expected a list of wrong theories, such as " + shipped_list);
  const auto list = std::make_shared<const PowerList>(load_power(request));
  study::Job job{.file = "power",
                 .run_options = list->configs.front().config.run,
                 .resolved = resolved(*list),
                 .memory = memory_of(*list),
                 .run = [list](stacks::Progress& progress) { return compare(*list, progress); }};
  if (!own.master_seeds) return job;
  job.file = "";
  job.unskippable_reason = "--master-seeds: finished runs are cached";
  job.run = [list, seeds = *own.master_seeds](stacks::Progress& progress) { return count(*list, seeds, progress); };
  return job;
}

}  // namespace

std::vector<study::Study> studies() {
  return {{.name = "power",
           .question = "Compare deliberately wrong theories with measurements: which configuration rejects which?",
           .example = "power",
           .example_duration = "about 36 minutes on 2 cores",
           .configuration = shipped_list,
           .sections = {config::any_section(stacks::ladder_section)},
           .flags = flag_texts(flags),
           .schema = &schema(),
           .skippable = true,
           .shared_keys = {"model.", "init.", "input.", "theory.", "agreement.", "run.backward", "run.weights",
                           "run.paired"},
           .resolve = resolve}};
}

}  // namespace periscope::power
