#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/engine/settings/json_text.h"
#include "experiments/sweeps/gather.h"
#include "python/bindings/bindings.h"
#include "python/bindings/worker_thread.h"
#include "sim/core/memory_reserve.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace periscope::python {
namespace {

/// Runs `work` on a worker thread; see `run` in run.cpp.
void watched(const nb::object& on_progress, const std::function<void(WatchedProgress&)>& work) {
  WatchedProgress progress(false);
  const auto watch = [&] {
    if (on_progress.is_none()) return;
    if (const auto snapshot = progress.snapshot()) on_progress(*snapshot);
  };
  run_on_worker(
      progress,
      [&] {
        install_out_of_memory_handler();
        work(progress);
        free_idle_memory();
      },
      watch);
  watch();
}

std::string plan(const std::string& folder, const std::string& name, const study::Request& base,
                 const std::vector<std::vector<std::string>>& axes, const nb::object& on_progress) {
  std::string summary;
  watched(on_progress, [&](WatchedProgress& progress) {
    sweeps::Draft draft{.study = name, .flags = base.flags, .base = base.tree(), .axes = {}, .source = "sweep"};
    for (const std::vector<std::string>& keys : axes) draft.axes.push_back({sweeps::lists_of(keys, "grid")});
    summary = config::json_text(sweeps::summary_json(sweeps::make_plan(sweeps::GridPlan(draft), folder, progress)));
  });
  return summary;
}

std::string run_shard(const std::string& folder, std::pair<std::size_t, std::size_t> shard, int threads, bool retry,
                      const std::vector<std::string>& argv, const nb::object& on_progress) {
  if (shard.first < 1 || shard.first > shard.second) {
    throw ConfigError(fmt::format("shard {}/{}: expected K/N with 1 <= K <= N", shard.first, shard.second));
  }
  std::string counts;
  watched(on_progress, [&](WatchedProgress& progress) {
    const sweeps::RunSettings settings{
        .shard = {shard.first, shard.second}, .threads = threads, .retry = retry, .argv = argv};
    counts = config::json_text(sweeps::counts_json(sweeps::run_shard(folder, settings, progress)));
  });
  return counts;
}

std::string status(const std::string& folder) {
  std::string text;
  watched(nb::none(), [&](WatchedProgress& progress) {
    text = config::json_text(sweeps::status_json(sweeps::status_of(folder, progress)));
  });
  return text;
}

std::shared_ptr<Result> gather(const std::string& folder, bool partial, const std::vector<std::string>& columns,
                               const nb::object& on_progress) {
  const auto result = std::make_shared<Result>();
  watched(on_progress, [&](WatchedProgress& progress) {
    sweeps::Gathered gathered = sweeps::gather(folder, {.partial = partial, .columns = columns}, progress);
    if (!gathered.data) {
      throw Error(gathered.counts.missing() > 0 ? ExitCode::stopped_early : ExitCode::runtime_failure,
                  fmt::format("{}: found {} missing and {} failed cells; run the sweep, or gather with partial=True",
                              folder, gathered.counts.missing(), gathered.counts.failed));
    }
    result->study = &sweeps::read_plan(folder).study();
    result->job = study::Job{.file = "", .run_options = {}, .resolved = {}, .run = {}};
    result->threads = study::threads_of({});
    result->outcome = {.data = std::move(gathered.data), .code = gathered.counts.code()};
  });
  return result;
}

}  // namespace

void add_sweeps(nb::module_& module) {
  module.def("sweep_plan", &plan, "folder"_a, "study"_a, "base"_a, "axes"_a, "on_progress"_a = nb::none(),
             "Writes a plan; an axis is a list of \"key=[values]\". Returns its summary as JSON.");
  module.def("sweep_run", &run_shard, "folder"_a, "shard"_a, "threads"_a, "retry"_a, "argv"_a,
             "on_progress"_a = nb::none(), "Computes the missing cells of a shard. Returns its counts as JSON.");
  module.def("sweep_status", &status, "folder"_a, "Returns the state of a sweep as JSON.");
  module.def("sweep_gather", &gather, "folder"_a, "partial"_a, "columns"_a, "on_progress"_a = nb::none(),
             "Joins the cells of a sweep.");
}

}  // namespace periscope::python
