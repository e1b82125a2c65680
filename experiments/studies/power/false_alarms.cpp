#include "experiments/studies/power/false_alarms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

#include "experiments/engine/result/text_table.h"
#include "experiments/engine/run/confront.h"
#include "experiments/engine/run/journal.h"
#include "experiments/engine/run/progress.h"
#include "experiments/engine/settings/build_info.h"
#include "experiments/engine/settings/resolved.h"
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

/// One run of one configuration under the right theory. Throws Stopped.
Json run_once(const config::Config& base, const std::string& name, int master_seed, const stacks::Progress& progress) {
  config::Config config = base;
  config.run.seed += (static_cast<std::uint64_t>(master_seed) + 1) << 20U;
  PowerRow row{.theory = "true", .is_true = true, .settings = {}, .config = name, .stacks = {}};
  bool inconclusive = false;
  Hidden own(progress);
  const stacks::ConfrontedStacks run = stacks::confront(config, "power", own);
  if (run.stopped_early) throw stacks::Stopped();
  for (const stacks::StackResult& result : run.stacks) {
    row.stacks.push_back(confrontation_of(result.spec, result.judged));
    const judge::Verdict verdict = result.judged.verdict;
    inconclusive = inconclusive || (verdict != judge::Verdict::agrees && verdict != judge::Verdict::disagrees);
  }
  const Confrontation& worst = row.clearest();
  return {{"config", name},
          {"master_seed", master_seed},
          {"seed", config.run.seed},
          {"rejected", row.rejected()},
          {"inconclusive", inconclusive},
          {"worst", worst.by},
          {"excess", worst.excess},
          {"critical", worst.critical}};
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

/// The head of a journal of these runs: everything that a record depends on, but for the number of runs.
Json header_of(const PowerRun& run) {
  Json all = Json::array();
  for (const std::size_t i : marked(run)) {
    const stacks::LadderConfig& config = run.configs[i];
    all.push_back({{"name", run.list.configs[i].name},
                   {"config_sha256", config::config_sha256(config::resolved(config))},
                   {"version", build_info::version},
                   {"commit", build_info::commit},
                   {"device", config.run.device}});
  }
  return {
      {"journal", "periscope power --master-seeds"}, {"program_sha256", config::program_sha256()}, {"configs", all}};
}

/// The result of a run, as run_once has it in JSON.
struct Alarm {
  Json record;
  bool rejected, inconclusive;
};

/// By name of the configuration and master seed. Throws InputError for a record that is no such run.
using Alarms = std::map<std::pair<std::string, int>, Alarm>;
Alarms alarms_of(const stacks::Journal& journal) {
  Alarms alarms;
  for (std::size_t i = 0; i < journal.records().size(); ++i) {
    const stacks::JournalPart record = journal.part(i);
    constexpr std::array keys{"config",       "master_seed", "seed",   "rejected",
                              "inconclusive", "worst",       "excess", "critical"};
    if (record.json().size() != keys.size()) record.refuse(fmt::format("an object of {}", fmt::join(keys, ", ")));
    if (!record.at("seed").json().is_number_unsigned()) record.at("seed").refuse("a whole number");
    (void)record.at("worst").text();
    (void)record.at("excess").number();
    (void)record.at("critical").number();
    alarms.try_emplace({record.at("config").text(), record.at("master_seed").whole(0, std::numeric_limits<int>::max())},
                       Alarm{journal.records()[i], record.at("rejected").flag(), record.at("inconclusive").flag()});
  }
  return alarms;
}

/// Nothing without run.out.
std::optional<stacks::Journal> journal_of(const PowerRun& run) {
  const std::string& out = run.configs[marked(run).front()].run.out;
  if (out.empty()) return std::nullopt;
  return std::optional<stacks::Journal>(std::in_place, out + "/power_master_seeds.journal", header_of(run));
}

}  // namespace

FalseAlarmResult count_false_alarms(const PowerRun& run, int master_seeds, stacks::Progress& progress) {
  std::optional<stacks::Journal> journal = journal_of(run);
  Alarms alarms_kept = journal ? alarms_of(*journal) : Alarms();
  FalseAlarmResult result{.configs = {}, .records = Json::array(), .journal = journal ? journal->path() : ""};
  progress.begin("power", static_cast<std::int64_t>(marked(run).size()) * master_seeds);
  const auto count = [&](const std::string& name, const config::Config& config, FalseAlarms& alarms) {
    for (int m = 0; m < master_seeds; ++m) {
      auto kept = alarms_kept.find({name, m});
      if (kept == alarms_kept.end()) {
        progress.throw_if_stop_requested();
        const Json record = run_once(config, name, m, progress);
        if (journal) journal->append(record);
        kept = alarms_kept.try_emplace({name, m}, Alarm{record, record["rejected"], record["inconclusive"]}).first;
      }
      if (journal && result.resumable == nullptr) {
        const std::string note = fmt::format("stopped; the same command goes on from {}\n", journal->path());
        result.resumable = progress.resumable(note);
      }
      const Alarm& alarm = kept->second;
      ++alarms.runs;
      alarms.rejected += alarm.rejected ? 1 : 0;
      alarms.inconclusive += alarm.inconclusive ? 1 : 0;
      result.records.push_back(alarm.record);
      progress.step(name);
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
  const std::string kept = result.journal.empty() ? "" : "; journal: " + result.journal;
  return table.text() + fmt::format("Rejections of the right theory, one chance per run{}\n", kept);
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
