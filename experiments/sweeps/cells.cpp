#include "experiments/sweeps/cells.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "experiments/engine/cache/encoding.h"
#include "experiments/engine/run/cost.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/engine/settings/sha256.h"
#include "sim/base/error.h"
#include "sim/base/first_exception.h"
#include "sim/files/mapped_file.h"
#include "sim/files/output_file.h"

namespace periscope::sweeps {
namespace {

constexpr std::size_t cached_from = 2000;
constexpr std::size_t batch = 256;  // cells between two checks for a stop request

CellId id_of(const std::string& text) {
  const std::string hex = config::sha256_hex(text);
  CellId id{};
  for (std::size_t i = 0; i < id.size(); ++i) {
    std::from_chars(hex.data() + 16 * i, hex.data() + 16 * (i + 1), id[i], 16);
  }
  return id;
}

/// Returns whether a placement, or one of a list, is a table, which may have a name. Names are labels of results, but
/// not settings.
bool has_names(const Json& placement) {
  return placement.is_object() || (placement.is_array() && std::ranges::any_of(placement, &Json::is_object));
}

/// Returns a hash of everything that determines the ids of a plan's cells.
std::string key_of_ids(const GridPlan& plan) {
  const Json json = plan.json();
  std::string all = config::json_text(json) + config::program_sha256() + cache::numerics() + plan.files_of_flags();
  const auto add = [&](const std::string& key, const Json& value) {
    if ((key == "input.path" || key == "train.corpus") && value.is_string()) all += content_hash(value);
  };
  for (const auto& [key, value] : json.at("base").items()) add(key, value);
  for (const Json& keys : json.at("axes")) {
    for (const auto& [key, values] : keys.items()) {
      for (const Json& value : values) add(key, value);
    }
  }
  return config::sha256_hex(all);
}

/// Contents of the file of ids.
struct IdFile {
  std::string key;
  std::vector<std::uint64_t> words;  ///< the ids, one after the other
  std::vector<std::uint64_t> invalid;
};
auto parts(IdFile& f) { return std::tie(f.key, f.words, f.invalid); }

std::optional<CellIds> read_ids(const GridPlan& plan, const std::string& path, const std::string& key) {
  std::error_code absent;
  if (!std::filesystem::exists(path, absent)) return std::nullopt;
  try {
    const MappedFile file(path);
    const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    const std::string_view body = bytes.substr(std::min(bytes.size(), config::sha256_hex("").size()));
    if (bytes != config::sha256_hex(body) + std::string(body)) return std::nullopt;  // damaged: computed again
    auto stored = cache::decode<IdFile>(body);
    CellIds all{.ids = std::vector<CellId>(plan.cells()), .invalid = std::move(stored.invalid)};
    if (stored.key != key || stored.words.size() != all.ids.size() * CellId().size()) return std::nullopt;
    for (std::size_t i = 0; i < stored.words.size(); ++i) all.ids[i / 4][i % 4] = stored.words[i];
    return all;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace

ResolvedCell resolve(const GridPlan& plan, std::size_t cell, int threads) {
  const study::Request request = plan.request(cell, threads);
  const study::Study& study = plan.study();
  ResolvedCell resolved;
  Json settings;
  try {
    resolved.job = study.resolve(request);
    settings = resolved.job->resolved.hashed;
    // Some studies know their settings only after the run.
    if (settings.is_null()) settings = {{"keys", request.parsed->values}};
  } catch (const Error& error) {
    resolved.failure = error.what();
    settings = {{"invalid", request.parsed->values}};
  }
  if (const Json* placement = request.parsed->find("model.placement"); placement != nullptr && has_names(*placement)) {
    settings["named placements"] = *placement;
  }
  if (!plan.files_of_flags().empty()) settings["files of flags"] = plan.files_of_flags();
  resolved.settings = config::sha256_hex(
      config::json_text({study.name, plan.flags(), study.schema->kind(), study.schema->version(), settings}));
  resolved.id = id_of(resolved.settings + cache::numerics());
  return resolved;
}

CellIds ids_of_cells(const GridPlan& plan, const std::string& folder, stacks::Progress& progress) {
  const bool is_cached = plan.cells() > cached_from;
  const std::string path = folder + "/ids";
  const std::string key = is_cached ? key_of_ids(plan) : "";
  if (auto stored = is_cached ? read_ids(plan, path, key) : std::nullopt) return *stored;
  CellIds all{.ids = std::vector<CellId>(plan.cells()), .invalid = {}};
  std::vector<std::uint8_t> is_invalid(plan.cells());
  FirstException failure;
  std::atomic<bool> stopped = false;
  const std::size_t batches = (plan.cells() + batch - 1) / batch;
  if (is_cached) progress.begin("expanding", static_cast<std::int64_t>(batches));
#pragma omp parallel for schedule(dynamic, 1)
  for (std::size_t b = 0; b < batches; ++b) {
    failure.run([&] {
      if (stopped || progress.stop_requested()) stopped = true;
      for (std::size_t i = b * batch; !stopped && i < std::min(plan.cells(), (b + 1) * batch); ++i) {
        const ResolvedCell cell = resolve(plan, i);
        all.ids[i] = cell.id;
        is_invalid[i] = static_cast<std::uint8_t>(!cell.job);
      }
      if (is_cached) progress.step("");
    });
  }
  failure.rethrow();
  if (stopped) throw stacks::Stopped();
  for (std::size_t i = 0; i < is_invalid.size(); ++i) {
    if (is_invalid[i] != 0) all.invalid.push_back(i);
  }
  if (!is_cached) return all;
  IdFile file{.key = key, .words = {}, .invalid = all.invalid};
  file.words.reserve(4 * all.ids.size());
  for (const CellId& id : all.ids) file.words.insert(file.words.end(), id.begin(), id.end());
  const std::string body = cache::encode(file);
  write_file(path, config::sha256_hex(body) + body);
  return all;
}

CostEstimate estimate(const GridPlan& plan, int threads) {
  constexpr std::size_t samples = 64;
  constexpr double operations_per_second = 2e10;  // of one core
  CostEstimate cost;
  const std::size_t count = std::min(samples, plan.cells());
  for (std::size_t s = 0; s < count; ++s) {
    const std::size_t cell = s * plan.cells() / count;
    const ResolvedCell resolved = resolve(plan, cell, threads);
    if (!resolved.job) continue;
    if (resolved.job->memory) cost.memory = std::max(cost.memory, resolved.job->memory->bytes);
    cost.seconds += resolved.job->operations / operations_per_second;
    if (!plan.study().compares) continue;
    config::Config config = plan.request(cell).load(study::Matrices::any);
    config.run.backward = config.run.backward || plan.flags().contains("backward");
    for (const StackSpec& spec : config.stacks()) {
      cost.seconds += stacks::reading_operations(spec, config.run) * config.run.seeds / operations_per_second;
    }
  }
  cost.seconds *= static_cast<double>(plan.cells()) / static_cast<double>(count);
  return cost;
}

void require_valid_values(const GridPlan& plan, const std::vector<std::uint64_t>& invalid) {
  for (std::size_t a = 0; a < plan.axes().size(); ++a) {
    const GridAxis& axis = plan.axes()[a];
    std::vector<std::size_t> counts(axis.size());
    for (const std::uint64_t cell : invalid) ++counts[plan.index_of(cell, a)];
    for (std::size_t v = 0; v < counts.size(); ++v) {
      if (counts[v] * axis.size() != plan.cells()) continue;
      const auto first = std::ranges::find_if(invalid, [&](std::uint64_t i) { return plan.index_of(i, a) == v; });
      throw ConfigError(fmt::format("cell {}: {}", plan.label(*first), resolve(plan, *first).failure));
    }
  }
}

}  // namespace periscope::sweeps
