#include "experiments/engine/settings/differences.h"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/engine/settings/json_text.h"

namespace periscope::config {
namespace {

using Json = nlohmann::ordered_json;

/// Every key with its value: {"model.width": 256, …}.
Json flat(const StackSpec& spec) {
  Json all = Json::object();
  const Json resolved = resolved_json(spec);  // items() does not keep a temporary alive
  for (const auto& [table, keys] : resolved.items()) {
    for (const auto& [key, value] : keys.items()) all[fmt::format("{}.{}", table, key)] = value;
  }
  return all;
}

bool is_same_in_all(const std::vector<Json>& stacks, const std::string& key) {
  const auto value = [&](const Json& one) { return one.contains(key) ? one[key] : Json(); };
  return std::ranges::all_of(stacks, [&](const Json& one) { return value(one) == value(stacks.front()); });
}

std::vector<Json> flat_all(const std::vector<StackSpec>& stacks) {
  std::vector<Json> all;
  for (const StackSpec& spec : stacks) all.push_back(flat(spec));
  return all;
}

/// The stack that has the defaults of all keys, where these depend on other keys by those of `spec`.
StackSpec default_stack(const StackSpec& spec) {
  StackSpec usual;
  ModelSpec& m = usual.model;
  m.kv_heads = spec.model.heads;
  m.head_dim = spec.model.width % spec.model.heads == 0 ? spec.model.width / spec.model.heads : 0;
  m.mlp_width = 4 * spec.model.width;
  take_defaults(spec.model.placement, m);
  return usual;
}

}  // namespace

void note_differences(std::vector<StackSpec>& stacks) {
  if (stacks.size() < 2) return;
  const std::vector<Json> all = flat_all(stacks);
  std::vector<std::string> keys;
  for (const Json& one : all) {
    for (const auto& [key, value] : one.items()) {
      const bool is_known = std::ranges::find(keys, key) != keys.end();
      if (key != "input.kind" && !is_known && !is_same_in_all(all, key)) keys.push_back(key);
    }
  }
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    Json own = Json::object();
    for (const std::string& key : keys) own[key] = all[i].contains(key) ? all[i][key] : Json();
    stacks[i].settings = json_text(own);
  }
}

Json config_differences(const Config& config, const std::vector<StackSpec>& stacks) {
  Json found = Json::object();
  if (stacks.empty()) return found;
  const std::vector<Json> all = flat_all(stacks);
  const Json usual = flat(default_stack(stacks.front()));
  for (const auto& [key, value] : all.front().items()) {
    if (is_same_in_all(all, key) && !(usual.contains(key) && usual[key] == value)) found[key] = value;
  }
  const RunOptions standard;
  const Json run = section_json(run_section, config.run);
  const Json usual_run = section_json(run_section, standard);
  for (const char* key : {"seeds", "dtype", "weights"}) {
    // Commands that need dense matrices have made "auto" so.
    const bool is_own = std::string_view(key) != "weights" || config.was_given("run.weights");
    if (is_own && run[key] != usual_run[key]) found[fmt::format("run.{}", key)] = run[key];
  }
  return found;
}

}  // namespace periscope::config
