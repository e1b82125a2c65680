#include "experiments/confront/false_alarms.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <csignal>

#include "experiments/common/journal.h"
#include "experiments/common/progress.h"
#include "experiments/common/provenance.h"
#include "experiments/common/text_table.h"
#include "experiments/propagate.h"
#include "sim/spec/error.h"

namespace periscope {
namespace {

using Json = nlohmann::ordered_json;

volatile std::sig_atomic_t stop_asked = 0;

extern "C" void ask_to_stop(int /*signal*/) { stop_asked = 1; }

/// While it lives, SIGINT and SIGTERM only leave a note.
class PoliteStop {
 public:
  PoliteStop() {
    stop_asked = 0;
    struct sigaction action {};
    action.sa_handler = ask_to_stop;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &interrupt_);
    sigaction(SIGTERM, &action, &terminate_);
  }
  ~PoliteStop() {
    sigaction(SIGINT, &interrupt_, nullptr);
    sigaction(SIGTERM, &terminate_, nullptr);
  }
  PoliteStop(const PoliteStop&) = delete;
  PoliteStop& operator=(const PoliteStop&) = delete;
  [[nodiscard]] static bool asked() { return stop_asked != 0; }

 private:
  struct sigaction interrupt_ {};
  struct sigaction terminate_ {};
};

/// One run of one configuration under the right theory.
Json run_once(const Config& base, const std::string& name, int master_seed) {
  Config config = base;
  config.run.seed += (static_cast<std::uint64_t>(master_seed) + 1) << 20U;
  PowerRow row{.theory = "true", .is_true = true, .settings = {}, .config = name, .stacks = {}};
  bool inconclusive = false;
  for (const StackResult& result : propagate(config, true)) {
    row.stacks.push_back(confrontation_of(result.spec, result.agreement));
    const Verdict verdict = result.agreement.verdict;
    inconclusive = inconclusive || (verdict != Verdict::agrees && verdict != Verdict::disagrees);
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

/// What a journal of these runs begins with: everything that a record depends on, but for the number of runs.
Json header_of(const std::vector<std::pair<std::string, Config>>& configs) {
  Json all = Json::array();
  for (const auto& [name, config] : configs) {
    const Json p = provenance(config);
    all.push_back({{"name", name},
                   {"config_sha256", p["config_sha256"]},
                   {"version", p["version"]},
                   {"commit", p["commit"]},
                   {"device", config.run.device}});
  }
  return {{"journal", "periscope power --master-seeds"}, {"configs", all}};
}

const Json* find(const std::vector<Json>& records, const std::string& name, int master_seed) {
  const auto it = std::ranges::find_if(
      records, [&](const Json& r) { return r["config"] == name && r["master_seed"] == master_seed; });
  return it == records.end() ? nullptr : &*it;
}

}  // namespace

int allowed_rejections(int runs, double error) {
  const boost::math::binomial law(runs, error);
  int most = 0;
  while (most < runs && boost::math::cdf(boost::math::complement(law, most)) >= 0.01) ++most;
  return most;
}

FalseAlarmResult count_false_alarms(const PowerList& list, const CommonOptions& options, int master_seeds) {
  std::vector<std::pair<std::string, Config>> configs;
  for (const PowerConfig& listed : list.configs) {
    if (listed.master_seeds) configs.emplace_back(listed.name, load_listed(listed, options, {}));
  }
  if (configs.empty()) {
    throw ConfigError(fmt::format("{}: no config with master_seeds = true: expected one", list.file));
  }
  const std::string out = configs.front().second.run.out;
  Journal journal((out.empty() ? std::string("results") : out) + "/power_master_seeds.journal", header_of(configs));
  FalseAlarmResult result{.configs = {}, .records = Json::array(), .journal = journal.path(), .complete = true};
  Progress progress("power", static_cast<int>(configs.size()) * master_seeds, options.quiet);
  const PoliteStop stop;
  for (const auto& [name, config] : configs) {
    FalseAlarms& alarms = result.configs.emplace_back(FalseAlarms{.config = name});
    for (int m = 0; m < master_seeds && result.complete; ++m) {
      if (find(journal.records(), name, m) == nullptr) {
        if (PoliteStop::asked()) {
          result.complete = false;
          break;
        }
        journal.append(run_once(config, name, m));
      }
      const Json& record = *find(journal.records(), name, m);
      ++alarms.runs;
      alarms.rejected += record["rejected"].get<bool>() ? 1 : 0;
      alarms.inconclusive += record["inconclusive"].get<bool>() ? 1 : 0;
      result.records.push_back(record);
      progress.step(name);
    }
    alarms.allowed = allowed_rejections(alarms.runs, config.agreement.familywise_error);
  }
  return result;
}

bool too_many(const FalseAlarmResult& result) {
  return std::ranges::any_of(result.configs, [](const FalseAlarms& a) { return a.rejected > a.allowed; });
}

std::string false_alarm_table(const FalseAlarmResult& result) {
  TextTable table({"configuration", ">runs", ">rejections", ">allowed", ">inconclusive", ""});
  for (const FalseAlarms& a : result.configs) {
    table.add({a.config, fmt::to_string(a.runs), fmt::to_string(a.rejected), fmt::to_string(a.allowed),
               fmt::to_string(a.inconclusive), a.rejected > a.allowed ? "TOO MANY" : ""});
  }
  return table.text() +
         fmt::format("Rejections of the right theory, one chance per run; journal: {}\n", result.journal);
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
  return {{"master_seeds", configs}, {"complete", result.complete}, {"runs", result.records}};
}

}  // namespace periscope
