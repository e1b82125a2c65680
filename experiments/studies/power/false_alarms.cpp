#include "experiments/studies/power/false_alarms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <tuple>

#include "experiments/engine/result/text_table.h"
#include "experiments/engine/run/cached.h"
#include "experiments/engine/run/stacks.h"
#include "sim/base/error.h"

namespace periscope::power {
namespace {

using Json = nlohmann::ordered_json;

/// The progress of a part of a run: it is not shown, and it stops when the run is asked to.
class Hidden : public stacks::Progress {
 public:
  explicit Hidden(const stacks::Progress& whole) : whole_(whole) {}
  [[nodiscard]] bool stop_requested() const override { return whole_.stop_requested(); }

 private:
  const stacks::Progress& whole_;
};

/// One run of a configuration under the right theory.
struct Alarm {
  std::uint64_t seed = 0;
  bool rejected = false;
  bool inconclusive = false;
  std::string worst;  ///< the test that came closest to rejecting it
  double excess = 0.0;
  double critical = 0.0;
};

/// Members, for the cache.
auto parts(Alarm& a) { return std::tie(a.seed, a.rejected, a.inconclusive, a.worst, a.excess, a.critical); }

/// Throws Stopped.
Alarm run_once(const config::Config& base, const std::string& name, int master_seed, const stacks::Progress& progress) {
  config::Config config = base;
  config.run.seed += (static_cast<std::uint64_t>(master_seed) + 1) << 20U;
  PowerRow row{.theory = "true", .is_true = true, .settings = {}, .config = name, .stacks = {}};
  Alarm alarm{.seed = config.run.seed, .worst = {}};
  Hidden own(progress);
  const stacks::ConfrontedStacks run = stacks::confront(config, "power", own);
  if (run.stopped_early) throw stacks::Stopped();
  for (const stacks::StackResult& result : run.stacks) {
    row.stacks.push_back(confrontation_of(result.spec, result.judged));
    const judge::Verdict verdict = result.judged.verdict;
    alarm.inconclusive |= verdict != judge::Verdict::agrees && verdict != judge::Verdict::disagrees;
  }
  const Confrontation& worst = row.clearest();
  alarm.rejected = row.rejected();
  alarm.worst = worst.by;
  alarm.excess = worst.excess;
  alarm.critical = worst.critical;
  return alarm;
}

Json json_of(const Alarm& alarm, const std::string& config, int master_seed) {
  return {{"config", config},           {"master_seed", master_seed},         {"seed", alarm.seed},
          {"rejected", alarm.rejected}, {"inconclusive", alarm.inconclusive}, {"worst", alarm.worst},
          {"excess", alarm.excess},     {"critical", alarm.critical}};
}

/// The configurations that are marked for it.
std::vector<std::size_t> marked(const PowerRun& run) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < run.configs.size(); ++i) {
    if (run.list.configs[i].master_seeds) all.push_back(i);
  }
  if (all.empty()) {
    throw ConfigError(fmt::format("{}: no config with master_seeds = true: expected one", run.list.file));
  }
  return all;
}

}  // namespace

FalseAlarmResult count_false_alarms(const PowerRun& run, int master_seeds, stacks::Progress& progress) {
  FalseAlarmResult result{.configs = {}, .records = Json::array()};
  progress.begin("power", static_cast<std::int64_t>(marked(run).size()) * master_seeds);
  const auto count = [&](const std::string& name, const config::Config& config, FalseAlarms& alarms) {
    for (int m = 0; m < master_seeds; ++m) {
      const Alarm alarm = stacks::cached(
          progress, name, [&] { return cache::task_name("alarm", fmt::format("{} {}", name, m)); },
          [&] { return run_once(config, name, m, progress); });
      ++alarms.runs;
      alarms.rejected += alarm.rejected ? 1 : 0;
      alarms.inconclusive += alarm.inconclusive ? 1 : 0;
      result.records.push_back(json_of(alarm, name, m));
    }
  };
  for (const std::size_t i : marked(run)) {
    FalseAlarms& alarms = result.configs.emplace_back(FalseAlarms{.config = run.list.configs[i].name});
    if (stacks::until_stopped([&] { count(alarms.config, run.configs[i], alarms); })) result.stopped_early = true;
    alarms.allowed = judge::allowed_rejections(alarms.runs, run.configs[i].agreement.familywise_error);
  }
  return result;
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
  return {{"master_seeds", configs}, {"complete", !result.stopped_early}, {"runs", result.records}};
}

}  // namespace periscope::power
