#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>

#include "experiments/engine/result/serialize.h"
#include "experiments/engine/result/text_table.h"
#include "experiments/engine/run/memory_estimate.h"
#include "experiments/engine/run/threads.h"
#include "experiments/engine/settings/json_text.h"
#include "experiments/studies/studies.h"
#include "python/bindings/bindings.h"
#include "python/bindings/worker_thread.h"
#include "sim/base/printable.h"
#include "sim/core/memory_reserve.h"
#include "sim/files/output_file.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace periscope::python {
namespace {

/// Runs the study and fills `result`; `attributes` and `json` add argv later. Called on the worker thread.
void compute(Result& result, const study::Request& request, WatchedProgress& progress) {
  install_out_of_memory_handler();
  result.job = result.study->resolve(request);
  const study::Job& job = *result.job;
  result.threads = study::threads_of(job.run_options);
  const stacks::Threads threads(result.threads);
  if (!job.file.empty() && !job.run_options.out.empty()) const OutputFile trial(study::result_file(job, "nc"));
  result.tasks = study::cache_of(*result.study, job);
  progress.use_cache(result.tasks ? &*result.tasks : nullptr);
  const auto start = std::chrono::steady_clock::now();
  const auto run = [&] { return job.run(progress); };
  result.outcome = job.memory ? stacks::within_memory(*job.memory, request.force, progress, run) : run();
  if (result.outcome.data) study::add_provenance(*result.study, job, result.outcome);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  free_idle_memory();
}

nb::dict record_of(const stacks::TrainingRecord& record) {
  nb::dict values;
  for (const auto& [name, numbers] : *record.values) values[name.c_str()] = numbers;
  nb::dict all;
  all["run"] = record.run;
  all["placement"] = config::valid_utf8(record.placement);
  all["seed"] = record.seed;
  all["step"] = record.step;
  all["steps"] = record.steps;
  all["loss"] = record.loss;
  all["grad_norm"] = record.grad_norm;
  all["values"] = values;
  return all;
}

/// Passes the changes since the last snapshot to `on_progress`.
void report(WatchedProgress& progress, const nb::object& on_progress) {
  if (on_progress.is_none()) return;
  if (const auto snapshot = progress.snapshot()) on_progress(*snapshot);
}

/// Returns a NumPy view of a column's values, which keeps the result alive.
template <class T>
nb::object view(std::vector<T>& values, const std::vector<std::size_t>& shape, nb::handle owner) {
  return nb::cast(nb::ndarray<nb::numpy, T>(values.data(), shape.size(), shape.data(), owner).cast());
}

nb::object values_of(dataset::Column& column, const std::vector<std::size_t>& shape, nb::handle owner) {
  if (auto* words = std::get_if<std::vector<std::string>>(&column.values)) {
    nb::list list;
    for (const std::string& word : *words) list.append(config::valid_utf8(word));
    return list;
  }
  if (auto* reals = std::get_if<std::vector<double>>(&column.values)) return view(*reals, shape, owner);
  if (auto* whole = std::get_if<std::vector<std::int64_t>>(&column.values)) return view(*whole, shape, owner);
  return view(std::get<std::vector<std::uint8_t>>(column.values), shape, owner);
}

/// Returns name -> (type, dimensions, shape, values, units, meaning, label) in column order.
nb::dict variables(nb::handle self) {
  auto& result = nb::cast<Result&>(self);
  nb::dict all;
  if (!result.outcome.data) return all;
  dataset::Dataset& data = *result.outcome.data;
  for (dataset::Column& column : data.columns) {
    std::vector<std::size_t> shape;
    for (const std::string& name : column.dimensions) shape.push_back(data.length(name));
    all[column.name.c_str()] =
        nb::make_tuple(std::string(dataset::name_of(column.type())), column.dimensions, shape,
                       values_of(column, shape, self), column.units, column.meaning, column.label);
  }
  return all;
}

/// Returns the attributes of the result file as JSON.
std::string attributes(const Result& result, const std::vector<std::string>& argv) {
  dataset::Dataset data;
  if (result.outcome.data) data.attributes = result.outcome.data->attributes;
  data.circumstances = study::circumstances(argv, result.threads, result.seconds);
  return config::json_text(dataset::attributes_of(data));
}

/// Returns the whole result in the JSON form of --json.
std::string json(Result& result, const std::vector<std::string>& argv) {
  if (result.outcome.data) {
    result.outcome.data->circumstances = study::circumstances(argv, result.threads, result.seconds);
  }
  return config::json_text(study::result_json(result.outcome));
}

/// Runs a study on a worker thread. Every 50 ms the calling thread checks for signals and calls `on_progress` with a
/// Snapshot and `on_record` with a dictionary; returning false from `on_record` ends that stack's training. Both may be
/// None. Their exceptions and KeyboardInterrupt stop the run and are rethrown.
std::shared_ptr<Result> run(const std::string& name, study::Request request, const nb::object& on_progress,
                            const nb::object& on_record) {
  const auto result = std::make_shared<Result>();
  result->study = &find_study(name);
  request.known = sections();
  request.command = name;
  request.effective_keys = study::effective_keys(*result->study);
  WatchedProgress progress(!on_record.is_none());
  try {
    const auto watch = [&] {
      if (const stacks::TrainingRecord* record = progress.record(); record != nullptr) {
        const nb::object returned = on_record(record_of(*record));
        const int truth = returned.is_none() ? 1 : PyObject_IsTrue(returned.ptr());  // None continues the training
        if (truth < 0) throw nb::python_error();
        progress.answer(truth == 1);
      }
      report(progress, on_progress);
    };
    run_on_worker(
        progress, [&] { compute(*result, request, progress); }, watch);
  } catch (const Error& error) {
    if (!progress.is_resumable() || !result->tasks) throw;
    const std::string message = fmt::format("{}; finished tasks are cached in {}, and the same call resumes from them",
                                            error.what(), result->tasks->folder());
    if (dynamic_cast<const stacks::OutOfMemory*>(&error) != nullptr) throw stacks::OutOfMemory(error.code(), message);
    throw Error(error.code(), message);
  }
  report(progress, on_progress);
  return result;
}

/// Writes the study's other files, such as exported models, after the result file, and removes the cached tasks.
void commit(const std::shared_ptr<Result>& result, const nb::object& on_progress) {
  WatchedProgress progress(false);
  progress.use_cache(result->tasks ? &*result->tasks : nullptr);
  run_on_worker(
      progress,
      [&] {
        if (result->outcome.write_files) result->outcome.write_files(progress);
        if (result->tasks && !result->job->file.empty()) result->tasks->remove_all_but("");
        // The caller's arrays keep the result alive; free everything else.
        result->outcome.write_files = {};
        result->job->run = {};
        result->tasks.reset();
      },
      [] {});
  report(progress, on_progress);
}

}  // namespace

const study::Study& find_study(const std::string& name) {
  const auto found = std::ranges::find(studies(), name, &study::Study::name);
  if (found != studies().end()) return *found;
  std::vector<std::string> names;
  for (const study::Study& one : studies()) names.push_back(one.name);
  throw ConfigError(fmt::format("{}: unknown study{}", shortened(name), suggestion(name, names)));
}

void add_run(nb::module_& module) {
  nb::class_<study::Request>(module, "Request", "Parameters of a run.")
      .def(nb::init<>())
      .def_rw("file", &study::Request::file)
      .def_rw("entries", &study::Request::entries)
      .def_rw("settings", &study::Request::settings)
      .def_rw("theory_settings", &study::Request::theory_settings)
      .def_rw("run", &study::Request::run)
      .def_rw("force", &study::Request::force)
      .def_rw("flags", &study::Request::flags)
      .def_prop_rw(
          "model", [](const study::Request& r) { return Model{r.model}; },
          [](study::Request& r, const Model& model) { r.model = model.memory; });
  nb::class_<Snapshot>(module, "Snapshot", "Progress of a run.")
      .def_ro("phase", &Snapshot::phase)
      .def_ro("label", &Snapshot::label)
      .def_ro("share", &Snapshot::share)
      .def_ro("steps_done", &Snapshot::steps_done)
      .def_ro("steps", &Snapshot::steps)
      .def_ro("seconds", &Snapshot::seconds)
      .def_ro("seconds_left", &Snapshot::seconds_left)
      .def_ro("messages", &Snapshot::messages);
  nb::class_<Result>(module, "Result", "Result of a study.")
      .def_prop_ro(
          "file", [](const Result& r) { return r.job->file; },
          "Name of the result file without extension; empty if there is none.")
      .def_prop_ro("json_file", [](const Result& r) { return r.study->json_file; })
      .def_prop_ro("out", [](const Result& r) { return r.job->run_options.out; })
      .def_prop_ro("exit_code", [](const Result& r) { return static_cast<int>(r.outcome.code); })
      .def_prop_ro("table",
                   [](const Result& r) {
                     return config::valid_utf8(dataset::without_colours(dataset::wrap_to_table_width(r.outcome.table)));
                   })
      .def("variables", [](nb::handle self) { return variables(self); })
      .def("attributes", &attributes, "argv"_a)
      .def("json", &json, "argv"_a);
  module.def("run", &run, "name"_a, "request"_a, "on_progress"_a = nb::none(), "on_record"_a = nb::none(),
             "Runs a study and returns its result.");
  module.def("commit", &commit, "result"_a, "on_progress"_a = nb::none(),
             "Writes the remaining files of a result after the result file, and removes its cached tasks.");
}

}  // namespace periscope::python
