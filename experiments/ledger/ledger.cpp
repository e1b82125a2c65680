#include "experiments/ledger/ledger.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "experiments/engine/settings/build_info.h"
#include "experiments/engine/settings/sha256.h"
#include "experiments/ledger/verdicts.h"
#include "experiments/sweeps/store.h"
#include "sim/base/error.h"
#include "sim/base/mapped.h"
#include "sim/base/printable.h"
#include "sim/base/rounded.h"
#include "sim/files/mapped_file.h"

namespace periscope::ledger {
namespace {

using nlohmann::ordered_json;

constexpr int digits_of_std = 4;  // of init.std, in labels of figures too
constexpr double no_regime = std::numeric_limits<double>::quiet_NaN();

bool is_in_profile(const RunRow& run, const Selection& selection) { return !(selection.quick && run.full_only); }

bool is_needed(const Claims& claims, const RunRow& run, const Selection& selection) {
  return is_in_profile(run, selection) && std::ranges::any_of(claims.claims, [&](const ClaimRow& claim) {
           return claim.run == run.name && is_selected(selection, claim);
         });
}

void require_in_profile(const Claims& claims, const Selection& selection) {
  for (const ClaimRow& claim : claims.claims) {
    const RunRow* run = claims.find_run(claim.run);
    const bool is_chosen = !selection.ids.empty() && is_selected(selection, claim);
    if (!is_chosen || run == nullptr || is_in_profile(*run, selection)) continue;
    throw ConfigError(fmt::format("--claim {}: only in the full profile; expected no --quick", claim.id));
  }
}

std::string folder_of(const Selection& selection, const RunRow& run) { return selection.folder + "/" + run.name; }

/// Returns the settings of a run; those of the quick profile replace others of the same key.
std::vector<std::string> settings_of(const RunRow& run, bool quick) {
  std::vector<std::string> settings = run.settings;
  for (const std::string& setting : quick ? run.quick : std::vector<std::string>()) {
    std::erase_if(settings, [key = setting.substr(0, setting.find('=') + 1)](const std::string& other) {
      return other.starts_with(key);
    });
    settings.push_back(setting);
  }
  return settings;
}

/// Returns the sweep of a run: over init.std at the ledger's σ√D, or a single cell.
sweeps::GridPlan plan_of(const Claims& claims, const RunRow& run, bool quick) {
  sweeps::Draft draft{.study = run.study,
                      .flags = sweeps::flags_of(run.flags),
                      .base = config::read_tree("", settings_of(run, quick)),
                      .axes = {},
                      .source = fmt::format("run {}", run.name)};
  std::vector<config::Json> values;
  if (run.regimes) {
    draft.base.set("init.scheme=normal", "run");
    const config::Json* width = draft.base.find("model.width");
    if (width == nullptr || !width->is_number() || width->get<double>() <= 0.0) {
      throw ConfigError(fmt::format("run {}: model.width: expected a positive number", run.name));
    }
    const double over_width = 1.0 / std::sqrt(width->get<double>());
    for (const double regime : claims.regimes) values.emplace_back(rounded(regime * over_width, digits_of_std));
    draft.axes.push_back({{{"init.std", values}}});
  } else {
    const config::Json* seed = draft.base.find("run.seed");
    draft.axes.push_back({{{"run.seed", {seed == nullptr ? config::Json(0) : *seed}}}});
  }
  return sweeps::GridPlan(draft);
}

std::string hex_of(const sweeps::CellId& id) {
  std::string hex;
  for (const std::uint64_t word : id) hex += fmt::format("{:016x}", word);
  return hex;
}

Source source_of(const sweeps::StoredCell& cell, const std::string& path, const std::string& folder) {
  return {.settings = {},
          .cell = hex_of(cell.id),
          .file = std::filesystem::relative(path, folder).generic_string(),
          .sha256 = config::sha256_of(MappedFile(path)),
          .commit = build_info::commit};
}

/// Returns whether the stored results have all selected claims of a run, and the folder none of its cells.
bool is_stored(const Claims& claims, const RunRow& run, const Selection& selection, const sweeps::GridPlan& plan) {
  const sweeps::CellIndex index(folder_of(selection, run));
  for (std::size_t i = 0; i < plan.cells(); ++i) {
    const sweeps::ResolvedCell cell = sweeps::resolve(plan, i);
    const bool is_known = std::ranges::all_of(claims.claims, [&](const ClaimRow& claim) {
      return claim.run != run.name || !is_selected(selection, claim) ||
             selection.stored.find(claim, cell.settings) != nullptr;
    });
    if (!is_known || index.find(cell.id) != nullptr) return false;
  }
  return true;
}

/// Decides the entry's claim. An expression that cannot be evaluated fails the entry, not the ledger.
void decide_or_fail(Entry& entry, const dataset::Dataset* data) {
  try {
    entry.judged = decide(*entry.claim, data);
  } catch (const Error& error) {
    entry.judged = not_run(*entry.claim);
    judge::add_reason(entry.judged, error.what());
    entry.failed = true;
  }
}

/// Adds the verdicts of all claims of a run.
void judge_run(const Claims& claims, const RunRow& run, const Selection& selection, stacks::Progress& progress,
               std::vector<Entry>& entries) {
  const std::string folder = folder_of(selection, run);
  const sweeps::GridPlan plan = plan_of(claims, run, selection.quick);
  const sweeps::CellIndex index(folder);
  for (const std::string& message : index.damaged()) progress.say(message + "\n");
  sweeps::CellReader reader(index);
  for (std::size_t cell = 0; cell < plan.cells(); ++cell) {
    const sweeps::ResolvedCell resolved = sweeps::resolve(plan, cell);
    const sweeps::StoredCell* stored = reader.read(resolved.id);
    const bool is_done = stored != nullptr && !stored->failed();
    const dataset::Dataset data = is_done ? sweeps::dataset_of(*stored) : dataset::Dataset();
    Source from;
    if (is_done) from = source_of(*stored, index.path(*index.find(resolved.id)), selection.folder);
    from.settings = resolved.settings;
    for (const ClaimRow& claim : claims.claims) {
      if (claim.run != run.name) continue;
      Entry entry{.claim = &claim,
                  .regime = run.regimes ? claims.regimes[cell] : no_regime,
                  .judged = not_run(claim),
                  .from = from};
      if (is_done) {
        decide_or_fail(entry, &data);
      } else if (stored != nullptr) {
        judge::add_reason(entry.judged, stored->values);
        entry.failed = true;
      } else if (const Entry* known = selection.stored.find(claim, resolved.settings); known != nullptr) {
        entry.judged = known->judged;
        entry.from = known->from;
      } else {
        entry.missing = true;
      }
      entries.push_back(std::move(entry));
    }
  }
}

}  // namespace

void require_known(const Claims& claims, const std::vector<std::string>& ids) {
  const auto names = mapped(claims.claims, &ClaimRow::id);
  for (const std::string& id : ids) {
    if (std::ranges::find(names, id) != names.end()) continue;
    throw ConfigError(fmt::format("--claim {}: unknown claim{}", shortened(id), suggestion(id, names)));
  }
}

bool is_selected(const Selection& selection, const ClaimRow& claim) {
  return selection.ids.empty() || std::ranges::find(selection.ids, claim.id) != selection.ids.end();
}

sweeps::CellCounts run(const Claims& claims, const Selection& selection, stacks::Progress& progress) {
  require_in_profile(claims, selection);
  sweeps::CellCounts all;
  const stacks::Shard& shard = selection.settings.shard;
  std::size_t before = 0;  // number of cells of earlier runs, so that the shards divide the cells of all runs
  for (const RunRow& run : claims.runs) {
    if (!is_needed(claims, run, selection)) continue;
    const std::string folder = folder_of(selection, run);
    const sweeps::GridPlan plan = plan_of(claims, run, selection.quick);
    if (is_stored(claims, run, selection, plan)) continue;
    progress.say(fmt::format("{}: {}\n", run.name, run.study));
    sweeps::make_plan(plan, folder, progress, selection.settings.threads);
    sweeps::RunSettings settings = selection.settings;
    settings.shard.index = (shard.index - 1 + shard.count - before % shard.count) % shard.count + 1;
    const sweeps::CellCounts counts = sweeps::run_shard(folder, settings, progress);
    before += plan.cells();
    all.cells += counts.cells;
    all.done += counts.done;
    all.failed += counts.failed;
  }
  return all;
}

std::vector<Entry> judge(const Claims& claims, const Selection& selection, stacks::Progress& progress) {
  std::vector<Entry> entries;
  for (const ClaimRow& claim : claims.claims) {
    if (!claim.run.empty()) continue;
    entries.push_back({.claim = &claim, .regime = no_regime, .judged = {}, .from = {.commit = build_info::commit}});
    decide_or_fail(entries.back(), nullptr);
  }
  for (const RunRow& run : claims.runs) {
    if (is_in_profile(run, selection)) {
      judge_run(claims, run, selection, progress, entries);
      continue;
    }
    for (const ClaimRow& claim : claims.claims) {
      if (claim.run != run.name) continue;
      entries.push_back({.claim = &claim, .regime = no_regime, .judged = not_run(claim)});
      judge::add_reason(entries.back().judged, "only in the full profile");
    }
  }
  auto judged = mapped(entries, &Entry::judged);
  judge::apply_holm_correction(judged);
  for (std::size_t i = 0; i < entries.size(); ++i) entries[i].judged = std::move(judged[i]);
  const auto order = [&](const Entry& entry) { return std::pair(entry.claim - claims.claims.data(), entry.regime); };
  std::ranges::stable_sort(entries, {}, order);
  return entries;
}

ordered_json json_of(const Claims& claims, const Selection& selection, const std::vector<Entry>& entries) {
  ordered_json json{{"version", build_info::version},
                    {"commit", build_info::commit},
                    {"profile", selection.quick ? "quick" : "full"},
                    {"regimes", claims.regimes},
                    {"runs", ordered_json::array()},
                    {"claims", ordered_json::array()}};
  for (const RunRow& run : claims.runs) {
    if (!is_in_profile(run, selection)) continue;
    json["runs"].push_back({{"name", run.name},
                            {"study", run.study},
                            {"flags", run.flags},
                            {"settings", settings_of(run, selection.quick)}});
  }
  for (const Entry& entry : entries) {
    const ClaimRow& row = *entry.claim;
    if (json["claims"].empty() || json["claims"].back()["id"] != row.id) {
      json["claims"].push_back(json_of(row));
      json["claims"].back()["results"] = ordered_json::array();
    }
    json["claims"].back()["results"].push_back(json_of(entry));
  }
  return json;
}

}  // namespace periscope::ledger
