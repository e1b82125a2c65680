#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "sim/checkpoint/memory_model.h"

namespace periscope::python {

/// A model in memory as Python holds it.
struct Model {
  std::shared_ptr<const MemoryModel> memory;
};

/// Adds the class Model to the module.
void add_model(nanobind::module_& module);

}  // namespace periscope::python
