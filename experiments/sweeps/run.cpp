#include "experiments/sweeps/run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <map>

#include "experiments/engine/run/memory_estimate.h"
#include "experiments/engine/run/threads.h"
#include "experiments/engine/settings/json_text.h"
#include "sim/base/printable.h"
#include "sim/core/memory_reserve.h"
#include "sim/files/mapped_file.h"
#include "sim/files/output_file.h"

namespace periscope::sweeps {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// Progress of one cell: forwards stop requests and the completed fraction to the sweep's progress.
class CellProgress final : public stacks::Progress {
 public:
  CellProgress(stacks::Progress& sweep, const cache::Cache* cache) : sweep_(sweep) { use_cache(cache); }
  [[nodiscard]] bool stop_requested() const override { return sweep_.stop_requested(); }

 private:
  void on_report(Report change) override {
    const bool advances = change == Report::computed || change == Report::cached || change == Report::part;
    if (const auto share = meter_.share(); advances && share) sweep_.part(*share);
  }

  stacks::Progress& sweep_;
};

/// Computes one cell. Throws Stopped; all other exceptions of the cell are stored.
StoredCell compute(const GridPlan& plan, std::size_t cell, const std::string& folder, const RunSettings& settings,
                   stacks::Progress& sweep) {
  ResolvedCell resolved = resolve(plan, cell, settings.threads);
  if (!resolved.job) return failed_cell(resolved.id, ExitCode::configuration, resolved.failure);
  const study::Job& job = *resolved.job;
  // The cells of a block of several are short.
  const bool resumable = plan.cells_per_block() == 1 && !job.resolved.hashed.is_null();
  const auto tasks =
      resumable ? std::optional(cache::Cache(folder, job.file.empty() ? plan.study().name : job.file, job.resolved))
                : std::nullopt;
  CellProgress progress(sweep, tasks ? &*tasks : nullptr);
  try {
    const stacks::Threads threads(study::threads_of(job.run_options));
    const auto run = [&] { return job.run(progress); };
    const study::Outcome outcome =
        job.memory ? stacks::within_memory(*job.memory, settings.force, progress, run) : run();
    if (tasks) tasks->remove_all_but("");
    return stored_cell(resolved.id, outcome.code, *outcome.data);
  } catch (const Error& error) {
    return failed_cell(resolved.id, error.code(), error.what());
  } catch (const std::exception& error) {
    return failed_cell(resolved.id, ExitCode::runtime_failure, error.what());
  }
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

/// Writes the circumstances of a run when it ends, also if it was stopped.
class RunRecord {
 public:
  RunRecord(std::string folder, const RunSettings& settings, int threads)
      : folder_(std::move(folder)), settings_(settings), threads_(threads) {}
  RunRecord(const RunRecord&) = delete;
  RunRecord& operator=(const RunRecord&) = delete;
  ~RunRecord() {
    try {
      if (computed > 0) write();
    } catch (const std::exception&) {  // the record is informative only
    }
  }

  std::size_t computed = 0;

 private:
  void write() const {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    Json record{{"shard", fmt::format("{}/{}", settings_.shard.index, settings_.shard.count)},
                {"host", host_name()},
                {"computed", computed},
                {"program_sha256", config::program_sha256()}};
    record.update(study::circumstances(settings_.argv, threads_, seconds));
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    write_file(fmt::format("{}/runs/{}-{}-{}-{}.json", folder_, settings_.shard.index, host_name(), getpid(),
                           std::chrono::duration_cast<std::chrono::milliseconds>(now).count()),
               config::json_text(record) + "\n");
  }

  std::string folder_;
  const RunSettings& settings_;
  int threads_;
  Clock::time_point start_ = Clock::now();
};

/// A block of a shard: its cells and their ids.
struct PendingBlock {
  std::size_t first = 0;
  std::vector<CellId> ids;
  std::size_t missing = 0;
};

/// Returns the cells of a block if its file is complete, for example because another process has written it.
std::vector<StoredCell> written_cells(const std::string& folder, const PendingBlock& block) {
  const std::string path = block_file(folder, block.ids);
  std::error_code unreadable;
  if (!fs::exists(path, unreadable)) return {};
  try {
    std::vector<StoredCell> cells = read_block(path);
    return std::ranges::equal(cells, block.ids, {}, &StoredCell::id) ? cells : std::vector<StoredCell>();
  } catch (const InputError&) {
    return {};
  }
}

std::string plan_file(const std::string& folder) { return folder + "/plan.json"; }

}  // namespace

void CellCounts::add(const CellIndex::Entry* entry) {
  ++cells;
  if (entry == nullptr) return;
  ++(entry->failed ? failed : done);
  if (entry->failed) return;
  if (entry->code == ExitCode::check_failed) ++check_failed;
  if (entry->code == ExitCode::diverged) ++diverged;
}

ExitCode CellCounts::code() const {
  if (failed > 0) return ExitCode::runtime_failure;
  if (check_failed > 0) return ExitCode::check_failed;
  return diverged > 0 ? ExitCode::diverged : ExitCode::ok;
}

PlanSummary make_plan(const GridPlan& plan, const std::string& folder, stacks::Progress& progress, int threads) {
  const CellIds all = ids_of_cells(plan, folder, progress);
  require_valid_values(plan, all.invalid);
  PlanSummary summary{
      .counts = {}, .invalid_cells = all.invalid.size(), .invalid = {}, .cost = estimate(plan, threads)};
  if (!all.invalid.empty()) {
    summary.invalid =
        fmt::format("{}: {}", plan.label(all.invalid.front()), resolve(plan, all.invalid.front()).failure);
  }
  const CellIndex index(folder);
  for (const CellId& id : all.ids) summary.counts.add(index.find(id));
  write_file(plan_file(folder), config::json_text(plan.json(), 1) + "\n");
  return summary;
}

GridPlan read_plan(const std::string& folder) {
  std::error_code unreadable;
  if (!fs::exists(plan_file(folder), unreadable)) {
    throw InputError(fmt::format("{}: not a folder of a sweep; `periscope sweep plan FILE --out {}` writes its plan",
                                 printable(folder), printable(folder)));
  }
  return GridPlan::read(plan_file(folder));
}

CellCounts run_shard(const std::string& folder, const RunSettings& settings, stacks::Progress& progress) {
  const GridPlan plan = read_plan(folder);
  const CellIds all = ids_of_cells(plan, folder, progress);
  const CellIndex index(folder);
  for (const std::string& message : index.damaged()) progress.say(message + "\n");
  CellCounts counts;
  std::vector<PendingBlock> pending;
  std::size_t missing = 0;
  const auto is_missing = [&](const CellIndex::Entry* entry) {
    return entry == nullptr || (entry->failed && settings.retry);
  };
  for (std::size_t b = 0; b < plan.blocks(); ++b) {
    if (!settings.shard.contains(b)) continue;
    PendingBlock block{.first = b * plan.cells_per_block(), .ids = {}};
    const std::size_t last = std::min(plan.cells(), block.first + plan.cells_per_block());
    for (std::size_t i = block.first; i < last; ++i) {
      block.ids.push_back(all.ids[i]);
      if (is_missing(index.find(all.ids[i]))) ++block.missing;
    }
    missing += block.missing;
    if (block.missing == 0) {
      for (const CellId& id : block.ids) counts.add(index.find(id));
    } else {
      pending.push_back(std::move(block));
    }
  }
  progress.begin("sweep", static_cast<std::int64_t>(missing));
  progress.set_resumable(folder);
  RunRecord record(folder, settings, settings.threads > 0 ? settings.threads : study::threads_of({}));
  CellReader stored(index);
  const auto count = [&](const StoredCell& cell) {
    const CellIndex::Entry entry{.id = cell.id, .failed = cell.failed(), .code = cell.code};
    counts.add(&entry);
  };
  for (const PendingBlock& block : pending) {
    const auto written = settings.retry ? std::vector<StoredCell>() : written_cells(folder, block);
    if (!written.empty()) {
      for (const StoredCell& cell : written) count(cell);
      progress.cached(plan.label(block.first), static_cast<int>(block.missing));
      continue;
    }
    std::vector<StoredCell> cells;
    for (std::size_t i = 0; i < block.ids.size(); ++i) {
      progress.throw_if_stop_requested();
      const StoredCell* old = is_missing(index.find(block.ids[i])) ? nullptr : stored.read(block.ids[i]);
      if (old != nullptr) {
        cells.push_back(*old);
        count(*old);
        continue;
      }
      cells.push_back(compute(plan, block.first + i, folder, settings, progress));
      ++record.computed;
      count(cells.back());
      progress.step(plan.label(block.first + i));
    }
    plan.require_unchanged_files();
    try {
      write_block(folder, cells);
    } catch (const Error&) {  // without file locks, another writer of the same file may remove the temporary file
      if (written_cells(folder, block).empty()) throw;
    }
    free_idle_memory();
  }
  progress.finish(fmt::format("{} cells computed", record.computed));
  return counts;
}

SweepStatus status_of(const std::string& folder, stacks::Progress& progress) {
  const GridPlan plan = read_plan(folder);
  const CellIds all = ids_of_cells(plan, folder, progress);
  const CellIndex index(folder);
  CellReader reader(index);
  SweepStatus status;
  status.damaged = index.damaged();
  constexpr std::size_t shown = 10;
  for (std::size_t i = 0; i < plan.cells(); ++i) {
    const CellIndex::Entry* entry = index.find(all.ids[i]);
    status.counts.add(entry);
    if (entry == nullptr || !entry->failed || status.failures.size() >= shown) continue;
    const StoredCell* cell = reader.read(all.ids[i]);
    if (cell != nullptr) status.failures.push_back(fmt::format("{}: {}", plan.label(i), printable(cell->values)));
  }
  std::error_code none;
  for (fs::directory_iterator entry(folder + "/runs", none), end; !none && entry != end; entry.increment(none)) {
    try {
      const MappedFile file(entry->path().string());
      const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
      const Json record = Json::parse(text, nullptr, false);
      const auto is_number = [&](const char* key) { return record.contains(key) && record[key].is_number(); };
      if (!record.is_object() || !is_number("seconds") || !is_number("threads") || !is_number("computed")) continue;
      status.seconds += record["seconds"].get<double>() * record["threads"].get<double>();
      status.computed += record["computed"].get<std::size_t>();
    } catch (const InputError&) {  // another process renames a temporary file
    }
  }
  return status;
}

Json counts_json(const CellCounts& counts) {
  return {{"cells", counts.cells},
          {"done", counts.done},
          {"failed", counts.failed},
          {"missing", counts.missing()},
          {"complete", counts.missing() == 0 && counts.failed == 0},
          {"check_failed", counts.check_failed},
          {"diverged", counts.diverged}};
}

Json summary_json(const PlanSummary& summary) {
  Json json = counts_json(summary.counts);
  json["invalid"] = summary.invalid_cells;
  json["core_hours"] = summary.cost.seconds / 3600.0;
  json["memory"] = summary.cost.memory;
  return json;
}

Json status_json(const SweepStatus& status) {
  const CellCounts& counts = status.counts;
  Json json = counts_json(counts);
  json["failures"] = status.failures;
  json["damaged"] = status.damaged;
  if (status.computed > 0 && counts.missing() > 0) {
    const double hours = status.seconds / static_cast<double>(status.computed) / 3600.0;
    json["core_hours"] = hours * static_cast<double>(counts.missing());
  }
  return json;
}

}  // namespace periscope::sweeps
