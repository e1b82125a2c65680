#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>

#include "experiments/engine/study/study.h"

namespace periscope::python {

/// A result that a caller holds: its arrays are views of what is here.
struct Result {
  const study::Study* study = nullptr;
  std::optional<study::Job> job;
  study::Outcome outcome;
  int threads = 0;
  double seconds = 0.0;
  std::optional<cache::Cache> tasks;
};

/// The study of that name. Throws ConfigError, which names the nearest.
const study::Study& study_named(const std::string& name);

/// Runs a study on a thread of its own, with the OpenMP threads that the request has, while the calling thread looks
/// for signals every 50 ms, and calls `on_progress` (Snapshot) and `on_record` (a dictionary; false ends that stack's
/// training). Both may be None. An exception of theirs, and KeyboardInterrupt, stop the run and go to the caller.
std::shared_ptr<Result> run(const std::string& name, study::Request request, const nanobind::object& on_progress,
                            const nanobind::object& on_record);

/// The result's files are written: writes the study's other files, as exported models, and removes the cached tasks.
void commit(const std::shared_ptr<Result>& result, const nanobind::object& on_progress);

/// Adds Result, Snapshot and the functions to the module.
void add_run(nanobind::module_& module);

}  // namespace periscope::python
