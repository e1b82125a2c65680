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

/// Progress of a nested run: not displayed; stops when the outer run stops.
class NestedProgress : public stacks::Progress {
 public:
  explicit NestedProgress(const stacks::Progress& whole) : whole_(whole) {}
  [[nodiscard]] bool stop_requested() const override { return whole_.stop_requested(); }

 private:
  const stacks::Progress& whole_;
};

/// Runs a configuration with the correct theory. Throws Stopped.
std::vector<ComparedStack> run_once(const config::Config& config, const stacks::Progress& progress) {
  NestedProgress own(progress);
  return mapped(stacks::compare(config, "power", own),
                [](const stacks::StackResult& result) { return compared(result.spec, result.judged); });
}

}  // namespace

void count_false_alarms(const PowerList& list, int master_seeds, stacks::Progress& progress, Json& document) {
  const auto marked = std::ranges::count(list.configs, true, &PowerConfig::master_seeds);
  if (marked == 0)
    throw ConfigError(fmt::format("{}: expected a [[config]] with master_seeds = true, found none", list.file));
  progress.begin("power", marked * master_seeds);
  document = {{"master_seeds", Json::array()}, {"runs", Json::array()}};
  for (const PowerConfig& listed : list.configs) {
    if (!listed.master_seeds) continue;
    Json& alarms = document["master_seeds"].emplace_back(
        Json{{"config", listed.name}, {"runs", 0}, {"rejected", 0}, {"allowed", 0}, {"inconclusive", 0}});
    stacks::LadderConfig config = listed.config;
    for (int m = 0; m < master_seeds; ++m) {
      config.run.seed = listed.config.run.seed + ((static_cast<std::uint64_t>(m) + 1) << 20U);
      PowerRow row{.config = listed.name};
      row.stacks = stacks::cached(
          progress, row.config, [&] { return cache::task_name("alarm", fmt::format("{} {}", row.config, m)); },
          [&] { return run_once(config, progress); });
      const bool inconclusive = std::ranges::any_of(row.stacks, [](const ComparedStack& s) {
        return s.verdict != judge::Verdict::agrees && s.verdict != judge::Verdict::disagrees;
      });
      alarms["runs"] = m + 1;
      alarms["rejected"] = alarms["rejected"].get<int>() + (row.rejected() ? 1 : 0);
      alarms["allowed"] = judge::allowed_rejections(m + 1, config.agreement.familywise_error);
      alarms["inconclusive"] = alarms["inconclusive"].get<int>() + (inconclusive ? 1 : 0);
      const ComparedStack& clearest = row.clearest();
      document["runs"].push_back({{"config", row.config},
                                  {"master_seed", m},
                                  {"seed", config.run.seed},
                                  {"rejected", row.rejected()},
                                  {"inconclusive", inconclusive},
                                  {"worst_test", clearest.nearest},
                                  {"excess", clearest.excess},
                                  {"critical", clearest.critical}});
    }
  }
}

bool too_many(const Json& document) {
  return std::ranges::any_of(document.at("master_seeds"),
                             [](const Json& alarms) { return alarms.at("rejected") > alarms.at("allowed"); });
}

std::string false_alarm_table(const Json& document) {
  dataset::TextTable table({"configuration", ">runs", ">rejections", ">allowed", ">inconclusive", ""});
  for (const Json& a : document.at("master_seeds")) {
    table.add({a.at("config"), a.at("runs").dump(), a.at("rejected").dump(), a.at("allowed").dump(),
               a.at("inconclusive").dump(), a.at("rejected") > a.at("allowed") ? "TOO MANY" : ""});
  }
  return table.text() +
         "rejections: runs that reject the correct theory; they exceed allowed with a probability below 1 %\n";
}

}  // namespace periscope::power
