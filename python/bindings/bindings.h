#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>

#include "experiments/engine/study/study.h"
#include "sim/checkpoint/memory_model.h"

namespace periscope::python {

/// Python handle for a model in memory.
struct Model {
  std::shared_ptr<const MemoryModel> memory;
};

/// Result of a run. The NumPy arrays of `variables` are views of its columns and keep it alive.
struct Result {
  const study::Study* study = nullptr;
  std::optional<study::Job> job;
  study::Outcome outcome;
  int threads = 0;
  double seconds = 0.0;
  std::optional<cache::Cache> tasks;
};

/// Returns the study with this name. Throws ConfigError, which suggests a similar name.
const study::Study& find_study(const std::string& name);

/// Adds functions that need no run: descriptions of studies, keys, results and the build, and configuration checks.
void add_descriptions(nanobind::module_& module);
/// Adds the class Model.
void add_model(nanobind::module_& module);
/// Adds the classes Request, Result and Snapshot, and the functions that run studies.
void add_run(nanobind::module_& module);
/// Adds the functions for sweeps: `sweep_plan`, `sweep_run`, `sweep_status` and `sweep_gather`.
void add_sweeps(nanobind::module_& module);
/// Adds the functions for recording passes of other programs: `layout` (tensors that store parameters) and `replay`.
void add_recording(nanobind::module_& module);

}  // namespace periscope::python
