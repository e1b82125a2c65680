#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "experiments/engine/result/text_table.h"
#include "experiments/engine/run/cached.h"
#include "experiments/engine/run/stacks.h"
#include "experiments/studies/power/power.h"
#include "sim/base/error.h"
#include "sim/base/mapped.h"

namespace periscope::power {
namespace {

using Json = nlohmann::ordered_json;

/// Progress of a part of a run: not shown, and stops with the whole.
class Hidden : public stacks::Progress {
 public:
  explicit Hidden(const stacks::Progress& whole) : whole_(whole) {}
  [[nodiscard]] bool stop_requested() const override { return whole_.stop_requested(); }

 private:
  const stacks::Progress& whole_;
};

/// Runs a configuration with the right theory. Throws Stopped.
std::vector<ComparedStack> run_once(const config::Config& config, const stacks::Progress& progress) {
  Hidden own(progress);
  return mapped(stacks::confront(config, "power", own),
                [](const stacks::StackResult& result) { return compared(result.spec, result.judged); });
}

}  // namespace

void count_false_alarms(const PowerList& list, int master_seeds, stacks::Progress& progress, FalseAlarmResult& result) {
  const auto marked = std::ranges::count(list.configs, true, &PowerConfig::master_seeds);
  if (marked == 0) throw ConfigError(fmt::format("{}: no config with master_seeds = true: expected one", list.file));
  progress.begin("power", marked * master_seeds);
  const auto count = [&](config::Config config, FalseAlarms& alarms) {
    const std::uint64_t first = config.run.seed;
    for (int m = 0; m < master_seeds; ++m) {
      config.run.seed = first + ((static_cast<std::uint64_t>(m) + 1) << 20U);
      PowerRow row{.config = alarms.config};
      row.stacks = stacks::cached(
          progress, row.config, [&] { return cache::task_name("alarm", fmt::format("{} {}", row.config, m)); },
          [&] { return run_once(config, progress); });
      const bool inconclusive = std::ranges::any_of(row.stacks, [](const ComparedStack& s) {
        return s.verdict != judge::Verdict::agrees && s.verdict != judge::Verdict::disagrees;
      });
      alarms.allowed = judge::allowed_rejections(++alarms.runs, config.agreement.familywise_error);
      alarms.rejected += row.rejected() ? 1 : 0;
      alarms.inconclusive += inconclusive ? 1 : 0;
      const ComparedStack& clearest = row.clearest();
      result.records.push_back({{"config", row.config},
                                {"master_seed", m},
                                {"seed", config.run.seed},
                                {"rejected", row.rejected()},
                                {"inconclusive", inconclusive},
                                {"worst_test", clearest.nearest},
                                {"excess", clearest.excess},
                                {"critical", clearest.critical}});
    }
  };
  for (const PowerConfig& listed : list.configs) {
    if (!listed.master_seeds) continue;
    FalseAlarms& alarms = result.configs.emplace_back(FalseAlarms{.config = listed.name});
    count(listed.config, alarms);
  }
}

bool too_many(const FalseAlarmResult& result) {
  return std::ranges::any_of(result.configs, [](const FalseAlarms& a) { return a.rejected > a.allowed; });
}

std::string false_alarm_table(const FalseAlarmResult& result) {
  dataset::TextTable table({"configuration", ">runs", ">rejections", ">allowed", ">inconclusive", ""});
  for (const FalseAlarms& a : result.configs) {
    table.add({a.config, fmt::to_string(a.runs), fmt::to_string(a.rejected), fmt::to_string(a.allowed),
               fmt::to_string(a.inconclusive), a.rejected > a.allowed ? "TOO MANY" : ""});
  }
  return table.text() + "Rejections of the right theory, one chance per run\n";
}

Json false_alarm_json(const FalseAlarmResult& result) {
  Json configs = Json::array();
  for (const FalseAlarms& a : result.configs) {
    configs.push_back({{"config", a.config},
                       {"runs", a.runs},
                       {"rejected", a.rejected},
                       {"allowed", a.allowed},
                       {"inconclusive", a.inconclusive}});
  }
  return {{"master_seeds", configs}, {"runs", result.records}};
}

}  // namespace periscope::power
