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
#include "python/bindings/own_thread.h"
#include "sim/base/printable.h"
#include "sim/core/memory_reserve.h"
#include "sim/files/output_file.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace periscope::python {
namespace {

/// On the run's own thread: all that a result is, but for the caller's circumstances.
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

/// Shows what happened since the last snapshot.
void show(WatchedProgress& progress, const nb::object& on_progress) {
  if (on_progress.is_none()) return;
  if (const auto snapshot = progress.snapshot()) on_progress(*snapshot);
}

/// A numpy array of a column's values, without a copy: it keeps the result.
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

/// name -> (type, dimensions, shape, values, units, meaning, label), in the order of the columns.
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

/// The attributes of the result's file, as JSON.
std::string attributes(const Result& result, const std::vector<std::string>& argv) {
  dataset::Dataset data;
  if (result.outcome.data) data.attributes = result.outcome.data->attributes;
  data.circumstances = study::circumstances(argv, result.threads, result.seconds);
  return config::json_text(dataset::attributes_of(data));
}

/// The whole answer as JSON, as --json has it.
std::string json(Result& result, const std::vector<std::string>& argv) {
  if (result.outcome.data) {
    result.outcome.data->circumstances = study::circumstances(argv, result.threads, result.seconds);
  }
  return config::json_text(study::result_json(result.outcome));
}

/// Runs a study on a thread of its own, with the OpenMP threads that the request has, while the calling thread looks
/// for signals every 50 ms, and calls `on_progress` (Snapshot) and `on_record` (a dictionary; false ends that stack's
/// training). Both may be None. An exception of theirs, and KeyboardInterrupt, stop the run and go to the caller.
std::shared_ptr<Result> run(const std::string& name, study::Request request, const nb::object& on_progress,
                            const nb::object& on_record) {
  const auto result = std::make_shared<Result>();
  result->study = &study_named(name);
  request.known = sections();
  request.command = name;
  request.effective_keys = study::effective_keys(*result->study);
  WatchedProgress progress(!on_record.is_none());
  try {
    const auto watch = [&] {
      if (const stacks::TrainingRecord* record = progress.record(); record != nullptr) {
        const nb::object go_on = on_record(record_of(*record));
        const int truth = go_on.is_none() ? 1 : PyObject_IsTrue(go_on.ptr());  // a function without `return` goes on
        if (truth < 0) throw nb::python_error();
        progress.answer(truth == 1);
      }
      show(progress, on_progress);
    };
    on_own_thread(
        progress, [&] { compute(*result, request, progress); }, watch);
  } catch (const Error& error) {
    if (!progress.is_resumable() || !result->tasks) throw;
    const std::string what = fmt::format("{}; finished tasks are cached in {}, and the same call resumes from them",
                                         error.what(), result->tasks->folder());
    if (dynamic_cast<const stacks::OutOfMemory*>(&error) != nullptr) throw stacks::OutOfMemory(error.code(), what);
    throw Error(error.code(), what);
  }
  show(progress, on_progress);
  return result;
}

/// Completes a result whose own file is written: writes the study's other files, as exported models, and removes the
/// cached tasks.
void commit(const std::shared_ptr<Result>& result, const nb::object& on_progress) {
  WatchedProgress progress(false);
  progress.use_cache(result->tasks ? &*result->tasks : nullptr);
  on_own_thread(
      progress,
      [&] {
        if (result->outcome.write_files) result->outcome.write_files(progress);
        if (result->tasks && !result->job->file.empty()) result->tasks->remove_all_but("");
        // The caller's arrays keep the result: let it hold nothing but these.
        result->outcome.write_files = {};
        result->job->run = {};
        result->tasks.reset();
      },
      [] {});
  show(progress, on_progress);
}

}  // namespace

const study::Study& study_named(const std::string& name) {
  const auto found = std::ranges::find(studies(), name, &study::Study::name);
  if (found != studies().end()) return *found;
  std::vector<std::string> names;
  for (const study::Study& one : studies()) names.push_back(one.name);
  throw ConfigError(fmt::format("{}: unknown study{}", shortened(name), suggestion(name, names)));
}

void add_run(nb::module_& module) {
  nb::class_<study::Request>(module, "Request", "What a caller asks of a study.")
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
  nb::class_<Snapshot>(module, "Snapshot", "How far a run is.")
      .def_ro("what", &Snapshot::what)
      .def_ro("label", &Snapshot::label)
      .def_ro("share", &Snapshot::share)
      .def_ro("steps_done", &Snapshot::steps_done)
      .def_ro("steps", &Snapshot::steps)
      .def_ro("seconds", &Snapshot::seconds)
      .def_ro("seconds_left", &Snapshot::seconds_left)
      .def_ro("said", &Snapshot::said);
  nb::class_<Result>(module, "Result", "What a study found.")
      .def_prop_ro(
          "file", [](const Result& r) { return r.job->file; }, "Name of the result's file; empty for none.")
      .def_prop_ro("json_file", [](const Result& r) { return r.study->json_file; })
      .def_prop_ro("out", [](const Result& r) { return r.job->run_options.out; })
      .def_prop_ro("exit_code", [](const Result& r) { return static_cast<int>(r.outcome.code); })
      .def_prop_ro("table",
                   [](const Result& r) {
                     return config::valid_utf8(dataset::without_colours(dataset::within_table_width(r.outcome.table)));
                   })
      .def("variables", [](nb::handle self) { return variables(self); })
      .def("attributes", &attributes, "argv"_a)
      .def("json", &json, "argv"_a);
  module.def("run", &run, "name"_a, "request"_a, "on_progress"_a = nb::none(), "on_record"_a = nb::none(),
             "Runs a study.");
  module.def("commit", &commit, "result"_a, "on_progress"_a = nb::none(),
             "Writes the other files of a result, whose own file is written, and removes its cached tasks.");
}

}  // namespace periscope::python
