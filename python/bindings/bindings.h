#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>

#include "experiments/engine/study/study.h"
#include "sim/checkpoint/memory_model.h"

namespace periscope::python {

/// A model in memory as Python holds it.
struct Model {
  std::shared_ptr<const MemoryModel> memory;
};

/// A result that a caller holds: its arrays are views of this object's columns.
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

/// Adds what needs no run: descriptions of studies, sections of a configuration, kinds of results and the build, and
/// the check of a configuration.
void add_descriptions(nanobind::module_& module);
/// Adds the class Model.
void add_model(nanobind::module_& module);
/// Adds the classes Request, Result and Snapshot, and the functions that run studies.
void add_run(nanobind::module_& module);
/// Adds what a recorder of another program's passes needs: where a model's parameters are, and `replay`.
void add_recording(nanobind::module_& module);

}  // namespace periscope::python
