#include "experiments/engine/settings/resolved.h"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/engine/settings/build_info.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/settings/sha256.h"
#include "experiments/engine/settings/theory_override.h"
#include "sim/backends.h"
#include "sim/base/mapped.h"

namespace periscope::config {
namespace {

/// Returns true if all stacks have the same value of a key; an absent key counts as null.
bool is_same_in_all(const std::vector<Json>& stacks, const std::string& key) {
  const Json first = stacks.front().value(key, Json());
  return std::ranges::all_of(stacks, [&](const Json& one) { return one.value(key, Json()) == first; });
}

std::vector<Json> flat_all(const std::vector<StackSpec>& stacks) {
  return mapped(stacks, [](const StackSpec& spec) { return flat_json(spec); });
}

/// Returns a stack in which every key has its default; some defaults depend on keys of `spec`.
StackSpec default_stack(const StackSpec& spec) {
  StackSpec defaults;
  ModelSpec& m = defaults.model;
  m.kv_heads = spec.model.heads;
  m.head_dim = spec.model.width % spec.model.heads == 0 ? spec.model.width / spec.model.heads : 0;
  m.mlp_width = 4 * spec.model.width;
  take_defaults(spec.model.placement, m);
  return defaults;
}

Json config_differences(const Config& config, const std::vector<StackSpec>& stacks) {
  Json found = Json::object();
  if (stacks.empty()) return found;
  const std::vector<Json> all = flat_all(stacks);
  const Json defaults = flat_json(default_stack(stacks.front()));
  for (const auto& [key, value] : all.front().items()) {
    if (is_same_in_all(all, key) && defaults.value(key, Json()) != value) found[key] = value;
  }
  const Json run = section_json(run_section, config.run);
  const Json default_run = section_json(run_section, RunOptions());
  for (const char* key : {"seeds", "dtype", "weights"}) {
    // Commands that need dense matrices change "auto" to "dense".
    const bool is_chosen = std::string_view(key) != "weights" || config.is_set("run.weights");
    if (is_chosen && run[key] != default_run[key]) found[fmt::format("run.{}", key)] = run[key];
  }
  return found;
}

}  // namespace

Json flat_json(const StackSpec& spec, bool for_hash) {
  Json all = Json::object();
  const Json resolved = resolved_json(spec, for_hash);  // named, as items() does not extend a temporary's lifetime
  for (const auto& [table, keys] : resolved.items()) {
    for (const auto& [key, value] : keys.items()) all[fmt::format("{}.{}", table, key)] = value;
  }
  return all;
}

void note_differences(std::vector<StackSpec>& stacks) {
  if (stacks.size() < 2) return;
  const std::vector<Json> all = flat_all(stacks);
  Json keys = Json::object();
  for (const Json& one : all) keys.update(one);
  keys.erase("input.kind");
  std::vector<Json> own(stacks.size(), Json::object());
  for (const auto& [key, value] : keys.items()) {
    if (is_same_in_all(all, key)) continue;
    for (std::size_t i = 0; i < all.size(); ++i) own[i][key] = all[i].value(key, Json());
  }
  for (std::size_t i = 0; i < all.size(); ++i) stacks[i].settings = json_text(own[i]);
}

const std::string& program_sha256() {
  static const std::string hash = sha256_hex(fmt::format("{}\n{}\n", build_info::program, instructions_of("cpu")));
  return hash;
}

Resolved resolved(const Config& config) { return resolved(config, config.stacks()); }

Resolved resolved(const Config& config, const std::vector<StackSpec>& specs) {
  const auto sections = [&](bool for_hash) {
    Json stacks = Json::array();
    for (const StackSpec& spec : specs) stacks.push_back(resolved_json(spec, for_hash));
    Json json{{"stacks", stacks},
              {"run", section_json(run_section, config.run)},
              {"agreement", section_json(agreement_section, config.agreement)},
              {"theory", section_json(theory_section, config.theory)},
              {"overridden", override_differences(config, for_hash)}};
    json["agreement"]["power_limit"] = section_json(power_limit_section, config.agreement.power_limits);
    return json;
  };
  return {.printed = sections(false), .hashed = sections(true), .differences = config_differences(config, specs)};
}

std::string config_sha256(const Resolved& resolved) { return sha256_hex(json_text(resolved.hashed)); }

}  // namespace periscope::config
